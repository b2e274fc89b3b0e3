"""Read a lesson's record in lessons.json leniently, and write it in canonical form."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from hardwon.types import COMMAND_TARGETS, DELIVERY_MODES, OLD_LESSON_KEYS, STATUSES, Lesson, Pattern

# The keys of a record in the order they are written.
_OPENING_KEYS = ("id", "slug", "summary", "problem", "solution", "injection", "delivery", "block", "blockReason")
_TRIGGER_KEYS = ("triggers", "unless", "commandMatchTarget", "scope")
_BOOKKEEPING_KEYS = ("sourceSessionIds", "occurrenceCount", "evidence", "createdAt", "updatedAt", "contentHash")
KEYS = (
    *_OPENING_KEYS,
    *_TRIGGER_KEYS,
    *("priority", "confidence", "needsReview", "status", "tags"),
    *_BOOKKEEPING_KEYS,
)
_AUTHORED_KEYS = (*_OPENING_KEYS[1:], *_TRIGGER_KEYS, "priority", "tags")
_OMITTED_IF_EMPTY = ("injection", "block", "blockReason", "unless", "commandMatchTarget", "evidence")

# Record keys and the `Lesson` fields that hold them, by type of value. A table of our own, because msgspec reports only
# the first fault.
_TEXT_FIELDS = {
    **{key: key for key in ("id", "slug", "summary", "problem", "solution", "injection")},
    "blockReason": "block_reason",
    "createdAt": "created_at",
    "updatedAt": "updated_at",
    "contentHash": "content_hash",
}
_LIST_FIELDS = {
    "toolNames": "tools",
    "pathPatterns": "paths",
    "tags": "tags",
    "sourceSessionIds": "source_sessions",
}
PATTERN_FIELDS = {
    "commandPatterns": "commands",
    "pathRegexes": "path_regexes",
    "contentPatterns": "contents",
    "unless": "unless",
}
NESTED_KEYS = ("toolNames", "commandPatterns", "pathPatterns", "pathRegexes", "contentPatterns", "sessionStart")
_UNDERSTOOD_KEYS = frozenset([*KEYS, *NESTED_KEYS, *OLD_LESSON_KEYS])

_FLAGS_BY_LETTER = {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "x": re.VERBOSE, "a": re.ASCII}
_MAX_NUMBER = 1_000_000_000


class BadRecord(ValueError):
    """A record with values of the wrong type; `faults` has a sentence for each."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("; ".join(faults))
        self.faults = faults


def parse_lesson(record: object) -> Lesson:
    """Parse a record; BadRecord for wrong types. `validation` checks the values.

    Triggers may be nested or flat, and older names of problem and solution are accepted.
    """
    if not isinstance(record, dict):
        raise BadRecord([f"a lesson is an object, not {describe_value(record)}"])
    faults: list[str] = []
    triggers = record.get("triggers") or {}
    if not isinstance(triggers, dict):
        faults.append(f"triggers is {describe_value(triggers)}; expected an object")
        triggers = {}
    # If a value is given in several places, nested triggers win, then the present name, then the old one.
    fields: dict[str, Any] = {}
    for key, value in record.items():
        if key in OLD_LESSON_KEYS:
            fields[OLD_LESSON_KEYS[key]] = value
    for key, value in record.items():
        if key not in OLD_LESSON_KEYS and value is not None:
            fields[key] = value
    for key in NESTED_KEYS:
        if triggers.get(key) is not None:
            fields[key] = triggers[key]

    values: dict[str, Any] = {}
    for key, name in _TEXT_FIELDS.items():
        values[name] = _read_text(fields, key, faults)
    for key, name in _LIST_FIELDS.items():
        values[name] = _read_texts(fields, key, faults)
    for key, name in PATTERN_FIELDS.items():
        values[name] = _read_patterns(fields, key, faults)
    lesson = Lesson(
        **values,
        delivery=_read_delivery(fields, faults),
        status=_read_choice(fields, "status", STATUSES, "active", faults),
        command_target=_read_choice(fields, "commandMatchTarget", COMMAND_TARGETS, "executable", faults),
        project=_read_project(fields.get("scope"), faults),
        priority=_read_number(fields, "priority", 5, faults),
        confidence=_read_number(fields, "confidence", 0.9, faults),
        needs_review=_read_flag(fields, "needsReview", faults),
        occurrences=_read_number(fields, "occurrenceCount", 0, faults),
        evidence=tuple(item for item in _read_list(fields, "evidence", faults) if isinstance(item, dict)),
        extra={key: value for key, value in record.items() if key not in _UNDERSTOOD_KEYS},
    )
    if faults:
        raise BadRecord(faults)
    return lesson


def to_lesson_record(lesson: Lesson, previous: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Build the canonical record: known keys in a stable order without empty optional ones, then unknown keys.

    Unknown keys inside the triggers and scope of the `previous` record are kept.
    """
    old_record = previous or {}
    fields: dict[str, Any] = {key: getattr(lesson, name) for key, name in _TEXT_FIELDS.items()}
    fields |= {key: list(getattr(lesson, name)) for key, name in _LIST_FIELDS.items()}
    fields |= {key: list(map(_format_pattern, getattr(lesson, name))) for key, name in PATTERN_FIELDS.items()}
    fields["sessionStart"] = lesson.delivery == "start"
    triggers = {key: fields[key] for key in NESTED_KEYS if key != "pathRegexes" or lesson.path_regexes}
    scope = {"type": "project", "path": lesson.project} if lesson.project else {"type": "global"}
    fields |= {
        "triggers": triggers | _select_unknown_keys(old_record.get("triggers"), NESTED_KEYS),
        "scope": scope | _select_unknown_keys(old_record.get("scope"), ("type", "path")),
        "delivery": lesson.delivery,
        "block": lesson.delivery == "block",
        "commandMatchTarget": lesson.command_target if lesson.command_target != "executable" else "",
        "priority": lesson.priority,
        "confidence": lesson.confidence,
        "needsReview": lesson.needs_review,
        "status": lesson.status,
        "occurrenceCount": lesson.occurrences,
        "evidence": list(lesson.evidence),
    }
    record = {key: fields[key] for key in KEYS if fields[key] or key not in _OMITTED_IF_EMPTY}
    return record | dict(lesson.extra)


def hash_lesson_content(lesson: Lesson) -> str:
    """Return a hash that is equal for lessons with the same content, however their records are spelled."""
    record = to_lesson_record(lesson)
    content = {key: record.get(key) for key in ("problem", "solution", "triggers", "unless", "scope")}
    return f"sha256:{_hash_json(content)}"


def select_authored_fields(lesson: Lesson) -> dict[str, Any]:
    """Return the fields that a person approves: everything that reaches an agent or decides when.

    Counts, dates, evidence, status and confidence are bookkeeping, and unknown keys have no effect.
    """
    record = to_lesson_record(lesson)
    return {key: record[key] for key in _AUTHORED_KEYS if key in record}


def hash_authored_fields(lesson: Lesson) -> str:
    """Return the hash that an approval refers to; equal however the record is spelled."""
    return _hash_json(select_authored_fields(lesson))


def compute_version(lesson: Lesson) -> str:
    """Return a short name of what the author wrote; firings of two versions are never counted together."""
    return hash_authored_fields(lesson)[:12]


def _hash_json(value: object) -> str:
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()


def parse_pattern(value: object) -> Pattern | None:
    """Parse a pattern given as text, or as source and flags; None for anything else.

    Flag letters unknown to Python are ignored: JavaScript's `g`, say, changes nothing about whether a text matches.
    """
    if isinstance(value, str):
        return Pattern(value)
    if not isinstance(value, dict):
        return None
    source = value.get("source")
    letters = value.get("flags") or ""
    if not isinstance(source, str) or not isinstance(letters, str):
        return None
    flags = 0
    for letter in letters:
        if letter in _FLAGS_BY_LETTER:
            flags |= _FLAGS_BY_LETTER[letter].value
    return Pattern(source, flags)


def to_flag_letters(flags: int) -> str:
    return "".join(letter for letter, flag in _FLAGS_BY_LETTER.items() if flags & flag)


def _format_pattern(pattern: Pattern) -> str | dict[str, str]:
    if not pattern.flags:
        return pattern.source
    return {"source": pattern.source, "flags": to_flag_letters(pattern.flags)}


def _select_unknown_keys(old: object, understood_keys: Iterable[str]) -> dict[str, Any]:
    """Return the keys of an object that hardwon does not know; none if it is not an object but, say, `"global"`."""
    if not isinstance(old, dict):
        return {}
    return {key: value for key, value in old.items() if key not in understood_keys}


def _read_delivery(fields: Mapping[str, Any], faults: list[str]) -> Any:
    """Return the delivery; the seed's records use `block` or `sessionStart` instead."""
    implied_delivery, flag_name = "note", ""
    if _read_flag(fields, "sessionStart", faults):
        implied_delivery, flag_name = "start", "sessionStart"
    if _read_flag(fields, "block", faults):
        implied_delivery, flag_name = "block", "block"
    delivery = _read_choice(fields, "delivery", DELIVERY_MODES, implied_delivery, faults)
    if flag_name and delivery != implied_delivery:
        fix = f"write delivery {implied_delivery!r} or leave {flag_name} out"
        faults.append(f"delivery is {delivery!r}, but {flag_name} is true: {fix}")
    return delivery


def _read_project(scope: object, faults: list[str]) -> str:
    """Return the project's path; empty for a global scope.

    Besides an object, `"global"` and a path alone are accepted.
    """
    path = scope
    if isinstance(scope, dict):
        if scope.get("type") == "global":
            return ""
        if scope.get("type") == "project":
            path = scope.get("path")
    elif scope in (None, "global"):
        return ""
    if isinstance(path, str) and path.startswith(("/", "~")):
        return path
    expected = '{"type": "global"} or {"type": "project", "path": "/absolute/path"}'
    faults.append(f"scope is {json.dumps(scope)[:80]}; expected {expected}")
    return ""


def _read_text(fields: Mapping[str, Any], key: str, faults: list[str]) -> str:
    """Return a text; an empty one, and a fault, for anything else."""
    value = fields.get(key, "")
    if not isinstance(value, str):
        faults.append(f"{key} is {describe_value(value)}; expected text")
        return ""
    _check_surrogates(value, key, faults)
    return value


def _check_surrogates(text: str, key: str, faults: list[str]) -> None:
    # JSON may contain half of a surrogate pair ("\ud83d"), which cannot be stored or sent as UTF-8.
    if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
        faults.append(f"{key} contains a lone surrogate (half of a character): write the character whole")


def _read_flag(fields: Mapping[str, Any], key: str, faults: list[str]) -> bool:
    """Return a truth value; False, and a fault, for anything else."""
    value = fields.get(key, False)
    if not isinstance(value, bool):
        faults.append(f"{key} is {describe_value(value)}; expected true or false")
    return value is True


def _read_number(fields: Mapping[str, Any], key: str, default: float, faults: list[str]) -> Any:
    """Return a number of the default's type; the default, and a fault, for anything else."""
    value = fields.get(key, default)
    expected_type: Any = int | float
    expected = "a number"
    if isinstance(default, int):
        expected_type = int
        expected = "a whole number"
        if isinstance(value, float) and value.is_integer():
            value = int(value)
    if isinstance(value, bool) or not isinstance(value, expected_type):  # Python's booleans are integers
        faults.append(f"{key} is {describe_value(value)}; expected {expected}")
        return default
    if not -_MAX_NUMBER <= value <= _MAX_NUMBER:  # also excludes NaN and the infinities
        faults.append(f"{key} is {repr(value)[:40]}; expected a number up to {_MAX_NUMBER}")
        return default
    return value


def _read_choice(fields: Mapping[str, Any], key: str, allowed: tuple[str, ...], default: str, faults: list[str]) -> Any:
    """Return one of the allowed texts; the default, and a fault, for anything else."""
    value = fields.get(key, default)
    if value in allowed:
        return value
    faults.append(f"{key} is {describe_value(value)}; expected one of {', '.join(allowed)}")
    return default


def _read_list(fields: Mapping[str, Any], key: str, faults: list[str]) -> list[Any]:
    """Return a list; a single text counts as a list of one, because people often forget the brackets."""
    value = fields.get(key, [])
    if isinstance(value, str) and key != "evidence":  # the items of evidence are objects
        return [value]
    if isinstance(value, list):
        return value
    faults.append(f"{key} is {describe_value(value)}; expected a list")
    return []


def _read_texts(fields: Mapping[str, Any], key: str, faults: list[str]) -> tuple[str, ...]:
    """Return the texts of a list; each other item, and text that is not valid Unicode, becomes a fault."""
    texts = []
    for item in _read_list(fields, key, faults):
        if isinstance(item, str):
            texts.append(item)
        else:
            faults.append(f"{key} contains {describe_value(item)}; expected texts")
    _check_surrogates("".join(texts), key, faults)
    return tuple(texts)


def _read_patterns(fields: Mapping[str, Any], key: str, faults: list[str]) -> tuple[Pattern, ...]:
    """Return the patterns of a list; each item that is neither text nor an object with `source` becomes a fault."""
    patterns = []
    for item in _read_list(fields, key, faults):
        pattern = parse_pattern(item)
        if pattern is None:
            faults.append(f"{key} contains {describe_value(item)}; expected patterns as text")
        else:
            patterns.append(pattern)
    _check_surrogates("".join(pattern.source for pattern in patterns), key, faults)
    return tuple(patterns)


def describe_value(value: object) -> str:
    """Format a wrong value for an error message: short ones as they are, others by type."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    return repr(value[:40]) if isinstance(value, str) else json.dumps(value)
