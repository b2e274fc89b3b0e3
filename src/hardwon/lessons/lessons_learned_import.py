"""Convert lessons of lessons-learned, from its `lessons.json` or its manifest, to records of ours.

An import may narrow a lesson, never widen it. A lesson that would fire on more calls than before, because a pattern or
another condition has no equivalent here, becomes a candidate with the reasons under `importFaults`. Values of the wrong
type stay in the record, so that adding it is refused with their names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from hardwon.lessons.delivery import FIX_MARK
from hardwon.lessons.patterns import find_pattern_fault
from hardwon.lessons.record import PATTERN_FIELDS, describe_value, parse_pattern
from hardwon.types import DELIVERY_MODES, STATUSES

_ORIGIN = "lessons-learned"
_NEW_NAMES = {
    "mistake": "problem",
    "fix": "solution",
    "remediation": "solution",
    "message": "injection",
    "commandRegexSources": "commandPatterns",
    "pathRegexSources": "pathRegexes",
    "contentRegexSources": "contentPatterns",
}
_NEW_STATUSES = {status: status for status in STATUSES} | {
    "reviewed": "candidate",
    "disabled": "retired",
    "archived": "retired",
}
_DELIVERIES_BY_TYPE = {"guard": "block", "protocol": "start", "directive": "start"}
# These keys are converted below or, like the content hash, mean something else here.
_CONVERTED_KEYS = (
    *("triggers", "block", "sessionStart", "disabled", "projectPath"),
    *("contentHash", "evidence", "importFaults", "importedFrom"),
)
_CONDITION = re.compile(r"(?:Patterns|RegexSources|Regexes)\Z")
# lessons-learned treats a path pattern with any regex character as a regex; a glob may contain brackets, braces and $
# too.
_PATH_REGEX = re.compile(r"\\[.dwsbSDW/]|\A\^|\$\Z|\||\(\?|\.\+")


def convert_lessons(document: object) -> list[dict[str, Any]]:
    """Return a record for every lesson of a file; ValueError if the file contains no lessons."""
    lessons = document.get("lessons") if isinstance(document, dict) else document
    if isinstance(lessons, list):
        return [_convert_record(entry, f"lesson {number}") for number, entry in enumerate(lessons, 1)]
    if isinstance(lessons, dict):  # a manifest has the id as the key
        records = []
        for key, entry in lessons.items():
            if isinstance(entry, dict):
                entry_with_id: object = {"id": key, **entry}
            else:
                entry_with_id = entry
            records.append(_convert_record(entry_with_id, f"lesson {key}"))
        return records
    expected = 'an object with "lessons", or a list of lessons'
    raise ValueError(f"this is neither lessons.json nor a manifest of {_ORIGIN}: expected {expected}")


def _convert_record(entry: object, label: str) -> dict[str, Any]:
    """Convert one lesson; what keeps it from being in force as it was is listed under `importFaults`."""
    if not isinstance(entry, dict):
        return {"importFaults": [f"{label} is {describe_value(entry)}; expected an object"]}
    if entry.get("delivery") in DELIVERY_MODES:
        return dict(entry)  # already a record of ours
    triggers = entry.get("triggers")
    fields = _list_filled_fields(entry)
    record = {}
    for name, value in fields.items():
        if name in _NEW_NAMES:
            record[_NEW_NAMES[name]] = value
    # After all old names, so that a field under its present name wins over the old one.
    for name, value in fields.items():
        if name not in _NEW_NAMES and name not in _CONVERTED_KEYS:
            record[name] = value
    if not isinstance(triggers, dict | None):
        record["triggers"] = triggers
    if not fields.keys().isdisjoint(("message", "commandRegexSources", "pathRegexSources")):
        # A manifest has one message instead of problem and solution.
        record.setdefault("problem", f"Imported from a {_ORIGIN} manifest: {record.get('summary', '')}")
        record.setdefault("solution", record.get("injection", ""))
    if "projectPath" in fields:
        record["scope"] = fields["projectPath"]

    doubts = _find_lost_conditions(fields) + _convert_patterns(record)
    notes = _set_delivery(record, fields)
    status = _NEW_STATUSES.get(str(fields.get("status", "active")), "")
    if not status:
        doubts.append(f"its status {describe_value(fields['status'])} is unknown here")
    if fields.get("disabled"):
        status = "retired"
    # It could fire on more calls than before, so a person decides.
    if doubts and status not in ("retired", "rejected"):
        status = "candidate"
    record |= {"status": status, "importedFrom": _ORIGIN}
    if doubts:
        record["needsReview"] = True
    if doubts or notes:
        record["importFaults"] = doubts + notes
    return record


def _find_lost_conditions(fields: dict[str, Any]) -> list[str]:
    """Return the conditions that narrow a lesson in lessons-learned and have no equivalent here."""
    known_keys = {*PATTERN_FIELDS, *_NEW_NAMES, "pathPatterns"}
    conditions = sorted(name for name in fields if _CONDITION.search(name) and name not in known_keys)
    doubts = [f"{name} narrows it in {_ORIGIN} and is unknown here" for name in conditions]
    has_commands = "commandPatterns" in fields or "commandRegexSources" in fields
    if has_commands and ("contentPatterns" in fields or "contentRegexSources" in fields):
        doubts.append("its content and command patterns must both match there; here either is enough")
    return doubts


def _convert_patterns(record: dict[str, Any]) -> list[str]:
    """Keep the patterns that Python's `re` can use; return why the others are left out.

    In what people write, JavaScript's flags and syntax are those of `re`; `(?<name>…)` and the like are refused.
    """
    globs = record.get("pathPatterns")
    if isinstance(globs, list) and any(map(_is_path_regex, globs)):
        record["pathPatterns"] = [glob for glob in globs if not _is_path_regex(glob)]
        path_regexes = [{"source": glob, "flags": "i"} for glob in globs if _is_path_regex(glob)]
        record["pathRegexes"] = [*record.get("pathRegexes", []), *path_regexes]
    doubts = []
    for key in PATTERN_FIELDS:
        values = record.get(key)
        if not isinstance(values, list):
            continue  # missing; or of a wrong type, and then adding the lesson is refused
        usable_values = []
        for value in values:
            pattern = parse_pattern(value)
            if pattern and (fault := find_pattern_fault(pattern.source, pattern.flags)):
                doubts.append(f"{key} {pattern.source[:200]!r} is left out: {fault}")
            else:
                usable_values.append(value)
        record[key] = usable_values
    return doubts


def _is_path_regex(glob: object) -> bool:
    return isinstance(glob, str) and bool(_PATH_REGEX.search(glob))


def _list_filled_fields(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a lesson that have a value; nested triggers win over those beside them."""
    fields = dict(entry)
    triggers = entry.get("triggers")
    if isinstance(triggers, dict):
        for name, value in triggers.items():
            if value:
                fields[name] = value
    return {name: value for name, value in fields.items() if value not in (None, "", [])}


def _set_delivery(record: dict[str, Any], fields: dict[str, Any]) -> list[str]:
    """Set the delivery; return the settings that cannot be used for it."""
    delivery = _DELIVERIES_BY_TYPE.get(str(fields.get("type")), "note")
    if fields.get("sessionStart") and delivery == "note":
        delivery = "start"
    if fields.get("block"):
        delivery = "block"
    record["delivery"] = delivery
    if delivery == "block":
        summary = record.get("summary", "")
        problem = record.get("problem", "")
        solution = record.get("solution", "")
        full_text = f"## Lesson: {summary}\n{problem}\n{FIX_MARK} {solution}"
        record.setdefault("blockReason", record.get("injection") or full_text)
    if delivery == "note":
        record.setdefault("commandMatchTarget", "full")  # lessons-learned also tries hints on quoted text
    if delivery != "block" and "blockReason" in record:
        unused_reason = str(record.pop("blockReason"))
        return [f"blockReason without block is not used: {unused_reason[:200]!r}"]
    return []
