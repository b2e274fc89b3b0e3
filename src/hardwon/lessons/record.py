"""A lesson's record as it stands in lessons.json: reading it leniently, writing it canonically."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from hardwon.text.lesson_tags import OLD_KEYS
from hardwon.types import COMMAND_TARGETS, DELIVERY_MODES, STATUSES, Lesson, Pattern

_FLAGS_BY_LETTER = {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "x": re.VERBOSE, "a": re.ASCII}
_TRIGGER_KEYS = ("toolNames", "commandPatterns", "pathPatterns", "pathRegexes", "contentPatterns", "sessionStart")
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
_AUTHORED_KEYS = (
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
_MAX_NUMBER = 1_000_000_000
_UNDERSTOOD_KEYS = frozenset([*KEYS, *_TRIGGER_KEYS, *OLD_KEYS])


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
    fields: dict[str, Any] = {OLD_KEYS[key]: value for key, value in record.items() if key in OLD_KEYS}
    fields.update({key: value for key, value in record.items() if key not in OLD_KEYS and value is not None})
    fields.update({key: triggers[key] for key in _TRIGGER_KEYS if triggers.get(key) is not None})
    lesson = Lesson(
        id=_read_text(fields, "id", faults),
        slug=_read_text(fields, "slug", faults),
        summary=_read_text(fields, "summary", faults),
        problem=_read_text(fields, "problem", faults),
        solution=_read_text(fields, "solution", faults),
        delivery=_read_delivery(fields, faults),
        status=_read_choice(fields, "status", STATUSES, "active", faults),
        injection=_read_text(fields, "injection", faults),
        block_reason=_read_text(fields, "blockReason", faults),
        tools=_read_texts(fields, "toolNames", faults),
        commands=_read_patterns(fields, "commandPatterns", faults),
        command_target=_read_choice(fields, "commandMatchTarget", COMMAND_TARGETS, "executable", faults),
        paths=_read_texts(fields, "pathPatterns", faults),
        path_regexes=_read_patterns(fields, "pathRegexes", faults),
        contents=_read_patterns(fields, "contentPatterns", faults),
        unless=_read_patterns(fields, "unless", faults),
        project=_read_project(fields, faults),
        priority=_read_number(fields, "priority", 5, faults),
        confidence=_read_number(fields, "confidence", 0.9, faults),
        needs_review=_read_flag(fields, "needsReview", faults),
        tags=_read_texts(fields, "tags", faults),
        source_sessions=_read_texts(fields, "sourceSessionIds", faults),
        occurrences=_read_number(fields, "occurrenceCount", 0, faults),
        evidence=tuple(item for item in _read_list(fields, "evidence", faults) if isinstance(item, dict)),
        created_at=_read_text(fields, "createdAt", faults),
        updated_at=_read_text(fields, "updatedAt", faults),
        content_hash=_read_text(fields, "contentHash", faults),
        extra={key: value for key, value in record.items() if key not in _UNDERSTOOD_KEYS},
    )
    if faults:
        raise BadRecord(faults)
    return lesson


def to_lesson_record(lesson: Lesson, previous: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The canonical record: the seed's keys in a stable order, then those we do not know; empty optional ones left
    out. `onto` is the record as it stood, whose unknown keys inside triggers and scope stay."""
    previous_record = previous or {}
    old_triggers = previous_record.get("triggers")
    old_scope = previous_record.get("scope")
    triggers: dict[str, Any] = {
        "toolNames": list(lesson.tools),
        "commandPatterns": [_format_pattern(pattern) for pattern in lesson.commands],
        "pathPatterns": list(lesson.paths),
        "contentPatterns": [_format_pattern(pattern) for pattern in lesson.contents],
        "sessionStart": lesson.delivery == "start",
    }
    if lesson.path_regexes:
        triggers["pathRegexes"] = [_format_pattern(pattern) for pattern in lesson.path_regexes]
    scope = {"type": "project", "path": lesson.project} if lesson.project else {"type": "global"}
    fields = {
        "id": lesson.id,
        "slug": lesson.slug,
        "summary": lesson.summary,
        "problem": lesson.problem,
        "solution": lesson.solution,
        "injection": lesson.injection or None,
        "delivery": lesson.delivery,
        "block": True if lesson.delivery == "block" else None,
        "blockReason": lesson.block_reason or None,
        "triggers": triggers | _select_unknown_keys(old_triggers, _TRIGGER_KEYS),
        "unless": [_format_pattern(pattern) for pattern in lesson.unless] or None,
        "commandMatchTarget": lesson.command_target if lesson.command_target != "executable" else None,
        "scope": scope | _select_unknown_keys(old_scope, ("type", "path")),
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
    return {key: value for key, value in fields.items() if value is not None} | dict(lesson.extra)


def hash_lesson_content(lesson: Lesson) -> str:
    """Equal for lessons that say the same, however their records are spelled."""
    record = to_lesson_record(lesson)
    content = {key: record.get(key) for key in ("problem", "solution", "triggers", "unless", "scope")}
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()


def select_authored_fields(lesson: Lesson) -> dict[str, Any]:
    """Return what an author writes and a person approves: everything that can reach an agent or decides when.

    Counts, dates, evidence, status and confidence are bookkeeping, and keys we do not know have no effect.
    """
    record = to_lesson_record(lesson)
    return {key: record[key] for key in _AUTHORED_KEYS if key in record}


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
            return Pattern(
                value["source"],
                sum({_FLAGS_BY_LETTER[letter].value for letter in letters if letter in _FLAGS_BY_LETTER}),
            )
    return None


def to_flag_letters(flags: int) -> str:
    return "".join(letter for letter, flag in _FLAGS_BY_LETTER.items() if flags & flag)


def _format_pattern(pattern: Pattern) -> str | dict[str, str]:
    if not pattern.flags:
        return pattern.source
    return {"source": pattern.source, "flags": to_flag_letters(pattern.flags)}


def _select_unknown_keys(old: object, understood_keys: tuple[str, ...]) -> dict[str, Any]:
    return {key: value for key, value in old.items() if key not in understood_keys} if isinstance(old, dict) else {}


def _read_delivery(fields: Mapping[str, Any], faults: list[str]) -> Any:
    block, start = _read_flag(fields, "block", faults), _read_flag(fields, "sessionStart", faults)
    implied = "block" if block else "start" if start else "note"
    chosen = _read_choice(fields, "delivery", DELIVERY_MODES, implied, faults)
    if chosen != implied and implied != "note":
        key = "block" if block else "sessionStart"
        faults.append(f"delivery is {chosen!r}, but {key} is true: write delivery {implied!r} or leave {key} out")
    return chosen


def _read_project(fields: Mapping[str, Any], faults: list[str]) -> str:
    scope = fields.get("scope")
    if scope is None or scope == "global":
        return ""
    if isinstance(scope, dict) and scope.get("type") == "global":
        return ""
    path = scope.get("path") if isinstance(scope, dict) and scope.get("type") == "project" else scope
    if isinstance(path, str) and path.startswith(("/", "~")):
        return path
    expected = '{"type": "global"} or {"type": "project", "path": "/absolute/path"}'
    faults.append(f"scope is {json.dumps(scope)[:80]}, but wants {expected}")
    return ""


def _read_text(fields: Mapping[str, Any], key: str, faults: list[str]) -> str:
    value = fields.get(key, "")
    if isinstance(value, str):
        _check_text(value, key, faults)
        return value
    faults.append(f"{key} is {describe_type(value)}, but wants text")
    return ""


def _check_text(text: str, key: str, faults: list[str]) -> None:
    if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
        faults.append(f"{key} holds half of a character (a lone surrogate): write it whole or leave it out")


def _read_flag(fields: Mapping[str, Any], key: str, faults: list[str]) -> bool:
    value = fields.get(key, False)
    if isinstance(value, bool):
        return value
    faults.append(f"{key} is {value!r}, but wants true or false")
    return False


def _read_number(fields: Mapping[str, Any], key: str, default: float, faults: list[str]) -> Any:
    value = fields.get(key, default)
    is_integer = isinstance(default, int)
    if is_integer and isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int if is_integer else int | float):
        faults.append(f"{key} is {value!r}, but wants a {'whole ' if is_integer else ''}number")
        return default
    if not -_MAX_NUMBER <= value <= _MAX_NUMBER:  # NaN and the infinities are outside as well
        faults.append(f"{key} is {repr(value)[:40]}, but wants a number people can read")
        return default
    return value


def _read_choice(fields: Mapping[str, Any], key: str, allowed: tuple[str, ...], default: str, faults: list[str]) -> Any:
    value = fields.get(key, default)
    if value in allowed:
        return value
    faults.append(f"{key} is {value!r}, but wants one of {', '.join(allowed)}")
    return default


def _read_list(fields: Mapping[str, Any], key: str, faults: list[str]) -> list[Any]:
    value = fields.get(key, [])
    if isinstance(value, str) and key != "evidence":
        return [value]
    if isinstance(value, list):
        return value
    faults.append(f"{key} is {describe_type(value)}, but wants a list")
    return []


def _read_texts(fields: Mapping[str, Any], key: str, faults: list[str]) -> tuple[str, ...]:
    values = _read_list(fields, key, faults)
    faults.extend(f"{key} holds {describe_type(item)}, but wants texts" for item in values if not isinstance(item, str))
    _check_text("".join(item for item in values if isinstance(item, str)), key, faults)
    return tuple(item for item in values if isinstance(item, str))


def _read_patterns(fields: Mapping[str, Any], key: str, faults: list[str]) -> tuple[Pattern, ...]:
    values = [(item, parse_pattern(item)) for item in _read_list(fields, key, faults)]
    invalid_items = [item for item, pattern in values if pattern is None]
    faults.extend(f"{key} holds {describe_type(item)}, but wants patterns as text" for item in invalid_items)
    _check_text("".join(pattern.source for _, pattern in values if pattern), key, faults)
    return tuple(pattern for _, pattern in values if pattern is not None)


def describe_type(value: object) -> str:
    names = {"dict": "an object", "list": "a list", "str": "text", "NoneType": "null", "bool": "true or false"}
    return names.get(type(value).__name__, "a number")
