"""Lessons of lessons-learned as records of ours, from its `lessons.json` or from its manifest.

An import may narrow a lesson, never widen it. A pattern that cannot be said here is left out with a sentence under
`importFaults`; where that would make the lesson fire on more than before, it waits for a person as a candidate.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from hardwon.lessons import pattern_check
from hardwon.lessons.javascript_patterns import UntranslatablePattern, translate_pattern
from hardwon.lessons.record import describe_type, parse_pattern
from hardwon.types import COMMAND_TARGETS, DELIVERY_MODES, STATUSES

ORIGIN = "lessons-learned"
_STATUSES = {one: one for one in STATUSES} | {"reviewed": "candidate", "disabled": "retired", "archived": "retired"}
_STARTS = ("protocol", "directive")
_REGEXES = {
    "commandPatterns": ("commandPatterns", "commandRegexSources"),
    "pathRegexes": ("pathRegexes", "pathRegexSources"),
    "contentPatterns": ("contentPatterns", "contentRegexSources"),
    "unless": ("unless",),
}
_GATES = ("toolNames", "pathPatterns", *(key for keys in _REGEXES.values() for key in keys))
_UNKNOWN_GATE = re.compile(r"(?:Patterns|RegexSources|Regexes)\Z")
# lessons-learned takes a path pattern with any sign of a regex for one; a glob may hold brackets, braces and a $ too
_PATH_REGEX = re.compile(r"\\[.dwsbSDW/]|\A\^|\$\Z|\||\(\?|\.\+")
_TEXTS = ("id", "slug", "summary", "problem", "solution", "injection", "blockReason", "createdAt", "updatedAt")
_REWRITTEN = (
    *_GATES,
    *_TEXTS,
    "mistake",
    "fix",
    "remediation",
    "message",
    "triggers",
    "delivery",
    "block",
    "sessionStart",
    "commandMatchTarget",
    "scope",
    "projectPath",
    "status",
    "disabled",
    "needsReview",
    "priority",
    "confidence",
    "occurrenceCount",
    "tags",
    "sourceSessionIds",
    "evidence",
    "contentHash",
    "importFaults",
    "importedFrom",
)


class _Review:
    """What a person is told about one lesson, and whether it must wait for them."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.waits = False

    def say(self, fault: str, *, waits: bool = False) -> None:
        self.faults.append(fault)
        self.waits |= waits


def convert_lessons(document: object) -> list[dict[str, Any]]:
    """Every lesson of a file as a record for `record.read`; ValueError with a sentence if the file holds none."""
    lessons = document.get("lessons") if isinstance(document, dict) else document
    if isinstance(lessons, list):
        return [_record(entry, "", f"lesson {place}") for place, entry in enumerate(lessons, 1)]
    if isinstance(lessons, dict):
        return [_record(entry, str(key), f"lesson {key}") for key, entry in lessons.items()]
    wanted = 'an object with "lessons", or a list of lessons'
    raise ValueError(f"this is neither lessons.json nor a manifest of {ORIGIN}: it wants {wanted}")


def _record(entry: object, key: str, place: str) -> dict[str, Any]:
    review = _Review()
    if not isinstance(entry, dict):
        review.say(f"{place} is {describe_type(entry)}, but wants an object", waits=True)
        entry = {}
    elif entry.get("delivery") in DELIVERY_MODES:
        return dict(entry)  # a record of ours, with patterns of ours
    given = _flat(entry, review)
    found = {name: value for name, value in entry.items() if name not in _REWRITTEN}
    found |= _texts({"id": key, **{name: value for name, value in given.items() if value not in (None, "")}}, review)
    found |= _delivery(given, found, review)
    found["triggers"], unless = _triggers(entry, given, review)
    found["triggers"]["sessionStart"] = found["delivery"] == "start"
    found |= unless
    found |= _scope(given, review)
    found |= _numbers(given, review)
    found |= {name: _strings(given, name, review) for name in ("tags", "sourceSessionIds") if given.get(name)}
    found |= _standing(given, review)
    if review.faults:
        found["importFaults"] = review.faults
    return found | {"importedFrom": ORIGIN}


def _flat(entry: dict[str, Any], review: _Review) -> dict[str, Any]:
    triggers = entry.get("triggers")
    if triggers is not None and not isinstance(triggers, dict):
        review.say(f"triggers is {describe_type(triggers)}, but wants an object", waits=True)
    inner = triggers if isinstance(triggers, dict) else {}
    return entry | {name: value for name, value in inner.items() if value is not None}


def _texts(given: dict[str, Any], review: _Review) -> dict[str, str]:
    """The texts under the names we have for them; a manifest has one message, which stays what the agent reads."""
    aliases = {
        "problem": given.get("problem", given.get("mistake")),
        "solution": given.get("solution", given.get("fix", given.get("remediation"))),
        "injection": given.get("injection", given.get("message")),
    }
    if any(name in given for name in ("message", "commandRegexSources", "pathRegexSources")):
        summary, message = given.get("summary"), aliases["injection"]
        if not aliases["problem"] and isinstance(summary, str):
            aliases["problem"] = f"Imported from a {ORIGIN} manifest: {summary}"
        aliases["solution"] = aliases["solution"] or message
    found: dict[str, str] = {}
    for name, value in (given | aliases).items():
        if name in _TEXTS and isinstance(value, str) and value:
            found[name] = value
        elif name in _TEXTS and value not in (None, ""):
            review.say(f"{name} is {describe_type(value)}, but wants text")
    return found


def _delivery(given: dict[str, Any], texts: dict[str, Any], review: _Review) -> dict[str, Any]:
    blocks, starts = _flag(given, "block", review), _flag(given, "sessionStart", review)
    target = given.get("commandMatchTarget")
    if target is not None and target not in COMMAND_TARGETS:
        review.say(f"commandMatchTarget is {target!r}, but wants {' or '.join(COMMAND_TARGETS)}")
        target = None
    reason = texts.pop("blockReason", "")
    if blocks or given.get("type") == "guard":
        spoken = (
            f"## Lesson: {texts.get('summary', '')}\n{texts.get('problem', '')}\n**Fix**: {texts.get('solution', '')}"
        )
        reason = reason or texts.get("injection") or spoken
        return {"delivery": "block", "blockReason": reason, "commandMatchTarget": target or "executable"}
    if reason:
        review.say(f"blockReason without block is not used: {reason[:200]!r}")
    if starts or given.get("type") in _STARTS:
        return {"delivery": "start"} | ({"commandMatchTarget": target} if target else {})
    return {"delivery": "note", "commandMatchTarget": target or "full"}


def _triggers(
    entry: dict[str, Any], given: dict[str, Any], review: _Review
) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """What the lesson fires on, and what calls it off; keys of its triggers that are nobody's stay."""
    inner = entry.get("triggers")
    found = {name: value for name, value in inner.items() if name not in _REWRITTEN} if isinstance(inner, dict) else {}
    for name in sorted(name for name in given if _UNKNOWN_GATE.search(str(name)) and name not in _GATES):
        if given[name]:
            review.say(f"{name} narrows it in {ORIGIN} and is unknown here", waits=True)
    if all(any(given.get(key) for key in _REGEXES[name]) for name in ("commandPatterns", "contentPatterns")):
        review.say("its content and command patterns must both match there; here either is enough", waits=True)
    globs = _strings(given, "pathPatterns", review)
    regexes = [{"source": glob, "flags": "i"} for glob in globs if _PATH_REGEX.search(glob)]
    found["toolNames"] = _strings(given, "toolNames", review)
    found["pathPatterns"] = [glob for glob in globs if not _PATH_REGEX.search(glob)]
    for name, keys in _REGEXES.items():
        values = [value for key in keys for value in _kept(given, key, _is_pattern, review)]
        values += regexes if name == "pathRegexes" else []
        said = [one for value in values if (one := _translated(name, value, review))]
        if values and not said:
            review.say(f"no pattern is left of its {name}", waits=True)
        found[name] = said
    unless = found.pop("unless")
    return {name: value for name, value in found.items() if value != []}, {"unless": unless} if unless else {}


def _translated(name: str, value: Any, review: _Review) -> str | dict[str, str] | None:
    source, flags = (value, "") if isinstance(value, str) else (value["source"], value.get("flags") or "")
    try:
        python, letters = translate_pattern(source, flags)
        ours = parse_pattern({"source": python, "flags": letters})
        wrong = pattern_check.find_pattern_fault(ours.source, ours.flags) if ours else None
    except UntranslatablePattern as refusal:
        wrong = str(refusal)
    if wrong:
        review.say(f"{name} {source[:200]!r} is left out: {wrong}", waits=name == "unless")
        return None
    return {"source": python, "flags": letters} if letters or name == "pathRegexes" else python


def _is_pattern(value: object) -> bool:
    if isinstance(value, dict):
        return isinstance(value.get("source"), str) and isinstance(value.get("flags") or "", str)
    return isinstance(value, str)


def _strings(given: dict[str, Any], name: str, review: _Review) -> list[str]:
    return _kept(given, name, lambda value: isinstance(value, str), review)


def _kept(given: dict[str, Any], name: str, fits: Callable[[object], bool], review: _Review) -> list[Any]:
    """The members of a list that are what they should be; one alone counts as a list, as it does in a record."""
    value = given.get(name)
    if value is None:
        return []
    values = value if isinstance(value, list) else [value]
    kept = [one for one in values if fits(one)]
    wrong = [describe_type(one) for one in values if not fits(one)]
    if wrong:
        review.say(f"{name} holds {wrong[0]}, which is left out", waits=not kept and name in _GATES)
    return kept


def _scope(given: dict[str, Any], review: _Review) -> dict[str, Any]:
    path, scope = given.get("projectPath"), given.get("scope")
    kept = scope if isinstance(scope, dict) else {}
    if path is None and kept.get("type") == "global":
        return {"scope": scope}
    path = path if path is not None else kept.get("path") or scope
    if path in (None, "", "global"):
        return {}
    if isinstance(path, str) and path.startswith(("/", "~")):
        return {"scope": kept | {"type": "project", "path": path}}
    review.say(f"its project is {str(path)[:80]!r}, but wants an absolute path under scope", waits=True)
    return {"importedScope": path}


def _numbers(given: dict[str, Any], review: _Review) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in ("priority", "confidence", "occurrenceCount"):
        value = given.get(name)
        if isinstance(value, float) and name != "confidence" and value.is_integer():
            value = int(value)
        if isinstance(value, int if name != "confidence" else int | float) and not isinstance(value, bool):
            found[name] = value
        elif value is not None:
            review.say(f"{name} is {str(value)[:80]!r}, but wants a number")
    return found


def _standing(given: dict[str, Any], review: _Review) -> dict[str, Any]:
    """Its status and whether it waits for a person: asked last, when everything lost is known."""
    said, unreviewed = given.get("status"), _flag(given, "needsReview", review)
    status = _STATUSES.get(said, "") if isinstance(said, str) else ("active" if said is None else "")
    if not status:
        review.say(f"its status {str(said)[:80]!r} is unknown here", waits=True)
    if given.get("disabled") is True:
        status = "retired"
    if review.waits and status not in ("retired", "rejected"):
        status = "candidate"
    return {"status": status, "needsReview": unreviewed or review.waits}


def _flag(given: dict[str, Any], name: str, review: _Review) -> bool:
    value = given.get(name)
    if value is not None and not isinstance(value, bool):
        review.say(f"{name} is {describe_type(value)}, but wants true or false", waits=True)
    return value is True
