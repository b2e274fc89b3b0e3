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
_STATUS_MAP = {status: status for status in STATUSES} | {
    "reviewed": "candidate",
    "disabled": "retired",
    "archived": "retired",
}
_START_TYPES = ("protocol", "directive")
_REGEX_KEYS = {
    "commandPatterns": ("commandPatterns", "commandRegexSources"),
    "pathRegexes": ("pathRegexes", "pathRegexSources"),
    "contentPatterns": ("contentPatterns", "contentRegexSources"),
    "unless": ("unless",),
}
_GATE_KEYS = ("toolNames", "pathPatterns", *(key for keys in _REGEX_KEYS.values() for key in keys))
_UNKNOWN_GATE = re.compile(r"(?:Patterns|RegexSources|Regexes)\Z")
# lessons-learned takes a path pattern with any sign of a regex for one; a glob may hold brackets, braces and a $ too
_PATH_REGEX = re.compile(r"\\[.dwsbSDW/]|\A\^|\$\Z|\||\(\?|\.\+")
_TEXT_KEYS = ("id", "slug", "summary", "problem", "solution", "injection", "blockReason", "createdAt", "updatedAt")
_REWRITTEN_KEYS = (
    *_GATE_KEYS,
    *_TEXT_KEYS,
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


class _ImportReview:
    """What a person is told about one lesson, and whether it must wait for them."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.waits = False

    def add_fault(self, fault: str, *, waits: bool = False) -> None:
        self.faults.append(fault)
        self.waits |= waits


def convert_lessons(document: object) -> list[dict[str, Any]]:
    """Every lesson of a file as a record for `record.read`; ValueError with a sentence if the file holds none."""
    lessons = document.get("lessons") if isinstance(document, dict) else document
    if isinstance(lessons, list):
        return [_convert_record(entry, "", f"lesson {number}") for number, entry in enumerate(lessons, 1)]
    if isinstance(lessons, dict):
        return [_convert_record(entry, str(key), f"lesson {key}") for key, entry in lessons.items()]
    expected = 'an object with "lessons", or a list of lessons'
    raise ValueError(f"this is neither lessons.json nor a manifest of {ORIGIN}: it wants {expected}")


def _convert_record(entry: object, key: str, label: str) -> dict[str, Any]:
    review = _ImportReview()
    if not isinstance(entry, dict):
        review.add_fault(f"{label} is {describe_type(entry)}, but wants an object", waits=True)
        entry = {}
    elif entry.get("delivery") in DELIVERY_MODES:
        return dict(entry)  # a record of ours, with patterns of ours
    fields = _flatten_triggers(entry, review)
    record = {name: value for name, value in entry.items() if name not in _REWRITTEN_KEYS}
    record |= _convert_texts(
        {"id": key, **{name: value for name, value in fields.items() if value not in (None, "")}}, review
    )
    record |= _convert_delivery(fields, record, review)
    record["triggers"], unless = _convert_triggers(entry, fields, review)
    record["triggers"]["sessionStart"] = record["delivery"] == "start"
    record |= unless
    record |= _convert_scope(fields, review)
    record |= _convert_numbers(fields, review)
    record |= {name: _select_strings(fields, name, review) for name in ("tags", "sourceSessionIds") if fields.get(name)}
    record |= _convert_status(fields, review)
    if review.faults:
        record["importFaults"] = review.faults
    return record | {"importedFrom": ORIGIN}


def _flatten_triggers(entry: dict[str, Any], review: _ImportReview) -> dict[str, Any]:
    triggers = entry.get("triggers")
    if triggers is not None and not isinstance(triggers, dict):
        review.add_fault(f"triggers is {describe_type(triggers)}, but wants an object", waits=True)
    nested = triggers if isinstance(triggers, dict) else {}
    return entry | {name: value for name, value in nested.items() if value is not None}


def _convert_texts(fields: dict[str, Any], review: _ImportReview) -> dict[str, str]:
    """The texts under the names we have for them; a manifest has one message, which stays what the agent reads."""
    aliases = {
        "problem": fields.get("problem", fields.get("mistake")),
        "solution": fields.get("solution", fields.get("fix", fields.get("remediation"))),
        "injection": fields.get("injection", fields.get("message")),
    }
    if any(name in fields for name in ("message", "commandRegexSources", "pathRegexSources")):
        summary, message = fields.get("summary"), aliases["injection"]
        if not aliases["problem"] and isinstance(summary, str):
            aliases["problem"] = f"Imported from a {ORIGIN} manifest: {summary}"
        aliases["solution"] = aliases["solution"] or message
    texts: dict[str, str] = {}
    for name, value in (fields | aliases).items():
        if name in _TEXT_KEYS and isinstance(value, str) and value:
            texts[name] = value
        elif name in _TEXT_KEYS and value not in (None, ""):
            review.add_fault(f"{name} is {describe_type(value)}, but wants text")
    return texts


def _convert_delivery(fields: dict[str, Any], texts: dict[str, Any], review: _ImportReview) -> dict[str, Any]:
    is_block, is_start = _read_flag(fields, "block", review), _read_flag(fields, "sessionStart", review)
    target = fields.get("commandMatchTarget")
    if target is not None and target not in COMMAND_TARGETS:
        review.add_fault(f"commandMatchTarget is {target!r}, but wants {' or '.join(COMMAND_TARGETS)}")
        target = None
    reason = texts.pop("blockReason", "")
    if is_block or fields.get("type") == "guard":
        default_reason = (
            f"## Lesson: {texts.get('summary', '')}\n{texts.get('problem', '')}\n**Fix**: {texts.get('solution', '')}"
        )
        reason = reason or texts.get("injection") or default_reason
        return {"delivery": "block", "blockReason": reason, "commandMatchTarget": target or "executable"}
    if reason:
        review.add_fault(f"blockReason without block is not used: {reason[:200]!r}")
    if is_start or fields.get("type") in _START_TYPES:
        return {"delivery": "start"} | ({"commandMatchTarget": target} if target else {})
    return {"delivery": "note", "commandMatchTarget": target or "full"}


def _convert_triggers(
    entry: dict[str, Any], fields: dict[str, Any], review: _ImportReview
) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """What the lesson fires on, and what calls it off; keys of its triggers that are nobody's stay."""
    nested = entry.get("triggers")
    triggers = (
        {name: value for name, value in nested.items() if name not in _REWRITTEN_KEYS}
        if isinstance(nested, dict)
        else {}
    )
    for name in sorted(name for name in fields if _UNKNOWN_GATE.search(str(name)) and name not in _GATE_KEYS):
        if fields[name]:
            review.add_fault(f"{name} narrows it in {ORIGIN} and is unknown here", waits=True)
    if all(any(fields.get(key) for key in _REGEX_KEYS[name]) for name in ("commandPatterns", "contentPatterns")):
        review.add_fault("its content and command patterns must both match there; here either is enough", waits=True)
    globs = _select_strings(fields, "pathPatterns", review)
    regexes = [{"source": glob, "flags": "i"} for glob in globs if _PATH_REGEX.search(glob)]
    triggers["toolNames"] = _select_strings(fields, "toolNames", review)
    triggers["pathPatterns"] = [glob for glob in globs if not _PATH_REGEX.search(glob)]
    for name, keys in _REGEX_KEYS.items():
        values = [value for key in keys for value in _select_items(fields, key, _is_pattern, review)]
        values += regexes if name == "pathRegexes" else []
        translated = [pattern for value in values if (pattern := _translate_or_report(name, value, review))]
        if values and not translated:
            review.add_fault(f"no pattern is left of its {name}", waits=True)
        triggers[name] = translated
    unless = triggers.pop("unless")
    return {name: value for name, value in triggers.items() if value != []}, {"unless": unless} if unless else {}


def _translate_or_report(name: str, value: Any, review: _ImportReview) -> str | dict[str, str] | None:
    source, flags = (value, "") if isinstance(value, str) else (value["source"], value.get("flags") or "")
    try:
        python, letters = translate_pattern(source, flags)
        pattern = parse_pattern({"source": python, "flags": letters})
        fault = pattern_check.find_pattern_fault(pattern.source, pattern.flags) if pattern else None
    except UntranslatablePattern as error:
        fault = str(error)
    if fault:
        review.add_fault(f"{name} {source[:200]!r} is left out: {fault}", waits=name == "unless")
        return None
    return {"source": python, "flags": letters} if letters or name == "pathRegexes" else python


def _is_pattern(value: object) -> bool:
    if isinstance(value, dict):
        return isinstance(value.get("source"), str) and isinstance(value.get("flags") or "", str)
    return isinstance(value, str)


def _select_strings(fields: dict[str, Any], name: str, review: _ImportReview) -> list[str]:
    return _select_items(fields, name, lambda value: isinstance(value, str), review)


def _select_items(
    fields: dict[str, Any], name: str, is_valid: Callable[[object], bool], review: _ImportReview
) -> list[Any]:
    """The members of a list that are what they should be; one alone counts as a list, as it does in a record."""
    value = fields.get(name)
    if value is None:
        return []
    values = value if isinstance(value, list) else [value]
    valid_items = [item for item in values if is_valid(item)]
    invalid_types = [describe_type(item) for item in values if not is_valid(item)]
    if invalid_types:
        review.add_fault(
            f"{name} holds {invalid_types[0]}, which is left out", waits=not valid_items and name in _GATE_KEYS
        )
    return valid_items


def _convert_scope(fields: dict[str, Any], review: _ImportReview) -> dict[str, Any]:
    path, scope = fields.get("projectPath"), fields.get("scope")
    scope_fields = scope if isinstance(scope, dict) else {}
    if path is None and scope_fields.get("type") == "global":
        return {"scope": scope}
    path = path if path is not None else scope_fields.get("path") or scope
    if path in (None, "", "global"):
        return {}
    if isinstance(path, str) and path.startswith(("/", "~")):
        return {"scope": scope_fields | {"type": "project", "path": path}}
    review.add_fault(f"its project is {str(path)[:80]!r}, but wants an absolute path under scope", waits=True)
    return {"importedScope": path}


def _convert_numbers(fields: dict[str, Any], review: _ImportReview) -> dict[str, Any]:
    numbers: dict[str, Any] = {}
    for name in ("priority", "confidence", "occurrenceCount"):
        value = fields.get(name)
        if isinstance(value, float) and name != "confidence" and value.is_integer():
            value = int(value)
        if isinstance(value, int if name != "confidence" else int | float) and not isinstance(value, bool):
            numbers[name] = value
        elif value is not None:
            review.add_fault(f"{name} is {str(value)[:80]!r}, but wants a number")
    return numbers


def _convert_status(fields: dict[str, Any], review: _ImportReview) -> dict[str, Any]:
    """Its status and whether it waits for a person: asked last, when everything lost is known."""
    old_status, needs_review = fields.get("status"), _read_flag(fields, "needsReview", review)
    status = (
        _STATUS_MAP.get(old_status, "") if isinstance(old_status, str) else ("active" if old_status is None else "")
    )
    if not status:
        review.add_fault(f"its status {str(old_status)[:80]!r} is unknown here", waits=True)
    if fields.get("disabled") is True:
        status = "retired"
    if review.waits and status not in ("retired", "rejected"):
        status = "candidate"
    return {"status": status, "needsReview": needs_review or review.waits}


def _read_flag(fields: dict[str, Any], name: str, review: _ImportReview) -> bool:
    value = fields.get(name)
    if value is not None and not isinstance(value, bool):
        review.add_fault(f"{name} is {describe_type(value)}, but wants true or false", waits=True)
    return value is True
