"""A lesson's record as it stands in lessons.json: reading it leniently, writing it canonically."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from hardwon.text.lesson_tags import OLD_KEYS
from hardwon.types import COMMAND_TARGETS, DELIVERY_MODES, STATUSES, Lesson, Pattern

_FLAGS = {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "x": re.VERBOSE, "a": re.ASCII}
_TRIGGERS = ("toolNames", "commandPatterns", "pathPatterns", "pathRegexes", "contentPatterns", "sessionStart")
KEYS = (
    "id",
    "slug",
    "summary",
    "problem",
    "solution",
    "injection",
    "delivery",
    "block",
    "blockReason",
    "triggers",
    "unless",
    "commandMatchTarget",
    "scope",
    "priority",
    "confidence",
    "needsReview",
    "status",
    "tags",
    "sourceSessionIds",
    "occurrenceCount",
    "evidence",
    "createdAt",
    "updatedAt",
    "contentHash",
)
_AUTHORED = (
    "slug",
    "summary",
    "problem",
    "solution",
    "injection",
    "delivery",
    "block",
    "blockReason",
    "triggers",
    "unless",
    "commandMatchTarget",
    "scope",
    "priority",
    "tags",
)
_LARGEST = 1_000_000_000
_UNDERSTOOD = frozenset([*KEYS, *_TRIGGERS, *OLD_KEYS])


class BadRecord(ValueError):
    """A record that is not one: a sentence per fault."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("; ".join(faults))
        self.faults = faults


def parse_lesson(record: object) -> Lesson:
    """The lesson in a record, triggers nested or flat, old names of problem and solution understood; BadRecord for
    wrong types. What is of the right type but unwise is left to `rules`."""
    if not isinstance(record, dict):
        raise BadRecord([f"a lesson is an object, not {describe_type(record)}"])
    faults: list[str] = []
    triggers = record.get("triggers") or {}
    if not isinstance(triggers, dict):
        faults.append(f"triggers is {describe_type(triggers)}, but wants an object")
        triggers = {}
    given: dict[str, Any] = {OLD_KEYS[key]: value for key, value in record.items() if key in OLD_KEYS}
    given.update({key: value for key, value in record.items() if key not in OLD_KEYS and value is not None})
    given.update({key: triggers[key] for key in _TRIGGERS if triggers.get(key) is not None})
    lesson = Lesson(
        id=_text(given, "id", faults),
        slug=_text(given, "slug", faults),
        summary=_text(given, "summary", faults),
        problem=_text(given, "problem", faults),
        solution=_text(given, "solution", faults),
        delivery=_delivery(given, faults),
        status=_choice(given, "status", STATUSES, "active", faults),
        injection=_text(given, "injection", faults),
        block_reason=_text(given, "blockReason", faults),
        tools=_texts(given, "toolNames", faults),
        commands=_patterns(given, "commandPatterns", faults),
        command_target=_choice(given, "commandMatchTarget", COMMAND_TARGETS, "executable", faults),
        paths=_texts(given, "pathPatterns", faults),
        path_regexes=_patterns(given, "pathRegexes", faults),
        contents=_patterns(given, "contentPatterns", faults),
        unless=_patterns(given, "unless", faults),
        project=_project(given, faults),
        priority=_number(given, "priority", 5, faults),
        confidence=_number(given, "confidence", 0.9, faults),
        needs_review=_flag(given, "needsReview", faults),
        tags=_texts(given, "tags", faults),
        source_sessions=_texts(given, "sourceSessionIds", faults),
        occurrences=_number(given, "occurrenceCount", 0, faults),
        evidence=tuple(one for one in _list(given, "evidence", faults) if isinstance(one, dict)),
        created_at=_text(given, "createdAt", faults),
        updated_at=_text(given, "updatedAt", faults),
        content_hash=_text(given, "contentHash", faults),
        extra={key: value for key, value in record.items() if key not in _UNDERSTOOD},
    )
    if faults:
        raise BadRecord(faults)
    return lesson


def to_lesson_record(lesson: Lesson, previous: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The canonical record: the seed's keys in a stable order, then those we do not know; empty optional ones left
    out. `onto` is the record as it stood, whose unknown keys inside triggers and scope stay."""
    before = previous or {}
    old_triggers = before.get("triggers")
    old_scope = before.get("scope")
    triggers: dict[str, Any] = {
        "toolNames": list(lesson.tools),
        "commandPatterns": [_spelled(pattern) for pattern in lesson.commands],
        "pathPatterns": list(lesson.paths),
        "contentPatterns": [_spelled(pattern) for pattern in lesson.contents],
        "sessionStart": lesson.delivery == "start",
    }
    if lesson.path_regexes:
        triggers["pathRegexes"] = [_spelled(pattern) for pattern in lesson.path_regexes]
    scope = {"type": "project", "path": lesson.project} if lesson.project else {"type": "global"}
    full = {
        "id": lesson.id,
        "slug": lesson.slug,
        "summary": lesson.summary,
        "problem": lesson.problem,
        "solution": lesson.solution,
        "injection": lesson.injection or None,
        "delivery": lesson.delivery,
        "block": True if lesson.delivery == "block" else None,
        "blockReason": lesson.block_reason or None,
        "triggers": triggers | _unknown(old_triggers, _TRIGGERS),
        "unless": [_spelled(pattern) for pattern in lesson.unless] or None,
        "commandMatchTarget": lesson.command_target if lesson.command_target != "executable" else None,
        "scope": scope | _unknown(old_scope, ("type", "path")),
        "priority": lesson.priority,
        "confidence": lesson.confidence,
        "needsReview": lesson.needs_review,
        "status": lesson.status,
        "tags": list(lesson.tags),
        "sourceSessionIds": list(lesson.source_sessions),
        "occurrenceCount": lesson.occurrences,
        "evidence": list(lesson.evidence) or None,
        "createdAt": lesson.created_at,
        "updatedAt": lesson.updated_at,
        "contentHash": lesson.content_hash,
    }
    return {key: value for key, value in full.items() if value is not None} | dict(lesson.extra)


def hash_lesson_content(lesson: Lesson) -> str:
    """Equal for lessons that say the same, however their records are spelled."""
    said = to_lesson_record(lesson)
    content = {key: said.get(key) for key in ("problem", "solution", "triggers", "unless", "scope")}
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()


def select_authored_fields(lesson: Lesson) -> dict[str, Any]:
    """Return what an author writes and a person approves: everything that can reach an agent or decides when.

    Counts, dates, evidence, status and confidence are bookkeeping, and keys we do not know have no effect.
    """
    written = to_lesson_record(lesson)
    return {key: written[key] for key in _AUTHORED if key in written}


def hash_authored_fields(lesson: Lesson) -> str:
    """Return the hash that an approval is given for; equal however the record is spelled."""
    canonical = json.dumps(select_authored_fields(lesson), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()


def parse_pattern(value: object) -> Pattern | None:
    """A pattern as text, or as source and flags; flags of JavaScript that change nothing here are passed over."""
    if isinstance(value, str):
        return Pattern(value)
    if isinstance(value, dict) and isinstance(value.get("source"), str):
        letters = value.get("flags") or ""
        if isinstance(letters, str):
            return Pattern(value["source"], sum({_FLAGS[x].value for x in letters if x in _FLAGS}))
    return None


def to_flag_letters(flags: int) -> str:
    return "".join(letter for letter, flag in _FLAGS.items() if flags & flag)


def _spelled(pattern: Pattern) -> str | dict[str, str]:
    if not pattern.flags:
        return pattern.source
    return {"source": pattern.source, "flags": to_flag_letters(pattern.flags)}


def _unknown(old: object, known: tuple[str, ...]) -> dict[str, Any]:
    return {key: value for key, value in old.items() if key not in known} if isinstance(old, dict) else {}


def _delivery(given: Mapping[str, Any], faults: list[str]) -> Any:
    block, start = _flag(given, "block", faults), _flag(given, "sessionStart", faults)
    implied = "block" if block else "start" if start else "note"
    chosen = _choice(given, "delivery", DELIVERY_MODES, implied, faults)
    if chosen != implied and implied != "note":
        key = "block" if block else "sessionStart"
        faults.append(f"delivery is {chosen!r}, but {key} is true: write delivery {implied!r} or leave {key} out")
    return chosen


def _project(given: Mapping[str, Any], faults: list[str]) -> str:
    scope = given.get("scope")
    if scope is None or scope == "global":
        return ""
    if isinstance(scope, dict) and scope.get("type") == "global":
        return ""
    path = scope.get("path") if isinstance(scope, dict) and scope.get("type") == "project" else scope
    if isinstance(path, str) and path.startswith(("/", "~")):
        return path
    wanted = '{"type": "global"} or {"type": "project", "path": "/absolute/path"}'
    faults.append(f"scope is {json.dumps(scope)[:80]}, but wants {wanted}")
    return ""


def _text(given: Mapping[str, Any], key: str, faults: list[str]) -> str:
    value = given.get(key, "")
    if isinstance(value, str):
        _check_text(value, key, faults)
        return value
    faults.append(f"{key} is {describe_type(value)}, but wants text")
    return ""


def _check_text(text: str, key: str, faults: list[str]) -> None:
    if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
        faults.append(f"{key} holds half of a character (a lone surrogate): write it whole or leave it out")


def _flag(given: Mapping[str, Any], key: str, faults: list[str]) -> bool:
    value = given.get(key, False)
    if isinstance(value, bool):
        return value
    faults.append(f"{key} is {value!r}, but wants true or false")
    return False


def _number(given: Mapping[str, Any], key: str, default: float, faults: list[str]) -> Any:
    value = given.get(key, default)
    whole = isinstance(default, int)
    if whole and isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
        faults.append(f"{key} is {value!r}, but wants a {'whole ' if whole else ''}number")
        return default
    if not -_LARGEST <= value <= _LARGEST:  # NaN and the infinities are outside as well
        faults.append(f"{key} is {repr(value)[:40]}, but wants a number people can read")
        return default
    return value


def _choice(given: Mapping[str, Any], key: str, allowed: tuple[str, ...], default: str, faults: list[str]) -> Any:
    value = given.get(key, default)
    if value in allowed:
        return value
    faults.append(f"{key} is {value!r}, but wants one of {', '.join(allowed)}")
    return default


def _list(given: Mapping[str, Any], key: str, faults: list[str]) -> list[Any]:
    value = given.get(key, [])
    if isinstance(value, str) and key != "evidence":
        return [value]
    if isinstance(value, list):
        return value
    faults.append(f"{key} is {describe_type(value)}, but wants a list")
    return []


def _texts(given: Mapping[str, Any], key: str, faults: list[str]) -> tuple[str, ...]:
    values = _list(given, key, faults)
    faults.extend(f"{key} holds {describe_type(one)}, but wants texts" for one in values if not isinstance(one, str))
    _check_text("".join(one for one in values if isinstance(one, str)), key, faults)
    return tuple(one for one in values if isinstance(one, str))


def _patterns(given: Mapping[str, Any], key: str, faults: list[str]) -> tuple[Pattern, ...]:
    values = [(one, parse_pattern(one)) for one in _list(given, key, faults)]
    wrong = [one for one, pattern in values if pattern is None]
    faults.extend(f"{key} holds {describe_type(one)}, but wants patterns as text" for one in wrong)
    _check_text("".join(pattern.source for _, pattern in values if pattern), key, faults)
    return tuple(pattern for _, pattern in values if pattern is not None)


def describe_type(value: object) -> str:
    names = {"dict": "an object", "list": "a list", "str": "text", "NoneType": "null", "bool": "true or false"}
    return names.get(type(value).__name__, "a number")
