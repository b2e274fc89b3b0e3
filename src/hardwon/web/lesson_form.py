"""A lesson's record as the fields of a form, and back.

A form shows text made harmless, and a browser writes line ends its own way. So a field counts as changed only if it
differs from what was shown, and what was not changed stays as it is, whatever it holds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from hardwon.errors import UserError
from hardwon.text.printable import make_printable
from hardwon.types import DELIVERY_MODES, frozen
from hardwon.web.render import sanitize_value


@frozen
class FormField:
    """One field: its name in the form and the record, what it is called, and how it is written."""

    name: str
    label: str
    kind: str  # line, text, lines, number, choice or scope
    hint: str = ""
    choices: tuple[str, ...] = ()


FORM_FIELDS = (
    FormField("summary", "Summary", "line", "what goes wrong, in a line"),
    FormField("problem", "Problem", "text", "the root cause"),
    FormField("solution", "Solution", "text", "what to do instead"),
    FormField("toolNames", "Tools", "lines", "only for these, one a line"),
    FormField("commandPatterns", "Command patterns", "lines", "regular expressions, one a line"),
    FormField("pathPatterns", "Path patterns", "lines", "globs as in .gitignore, one a line"),
    FormField("contentPatterns", "Content patterns", "lines", "regular expressions, one a line"),
    FormField("unless", "Unless", "lines", "what calls a match off, one a line"),
    FormField(
        "delivery",
        "Delivery",
        "choice",
        "note: told beside the result; hold: denied once; block: denied always; start: told at session start",
        DELIVERY_MODES,
    ),
    FormField("blockReason", "Reason of a block", "text", "what the agent is told; {command} is filled in"),
    FormField("priority", "Priority", "number", "1 to 10"),
    FormField("scope", "Project", "scope", "a folder; empty: every project"),
    FormField("tags", "Tags", "lines", "category:value, one a line"),
)
_TRIGGER_FIELDS = ("toolNames", "commandPatterns", "pathPatterns", "pathRegexes", "contentPatterns")


def fill_fields(record: Mapping[str, Any], typed: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    """The fields with what they hold, or with what was typed into them before."""
    return [
        {**field.__dict__, "value": (typed or {}).get(field.name, _format_field(field, record))}
        for field in FORM_FIELDS
    ]


def merge_edited_text(edited_text: str, current_text: str) -> str:
    """A text that was edited whole; a line that is as it was shown stays as it is, whatever it holds."""
    original_lines = {
        shown_line: line for line in current_text.split("\n") for shown_line in (line, make_printable(line))
    }
    lines = edited_text.replace("\r\n", "\n").split("\n")
    return "\n".join(original_lines.get(line, make_printable(line)) for line in lines)


def find_changed_fields(record: Mapping[str, Any], form: Mapping[str, str]) -> dict[str, Any]:
    """What a person changed, as the record has it; None for what is to go."""
    changed_fields: dict[str, Any] = {}
    for field in FORM_FIELDS:
        text = form.get(field.name)
        if text is None:
            continue
        text = text.replace("\r\n", "\n").strip("\n")
        if text != sanitize_value(_format_field(field, record)).strip("\n"):
            changed_fields[field.name] = _parse_field(field, text, record)
    return changed_fields


def _get_field_value(field: FormField, record: Mapping[str, Any]) -> Any:
    return record.get("triggers", {}).get(field.name) if field.name in _TRIGGER_FIELDS else record.get(field.name)


def _format_field(field: FormField, record: Mapping[str, Any]) -> str:
    value = _get_field_value(field, record)
    if field.kind == "lines":
        return "\n".join(_format_item(item) for item in value or ())
    if field.kind == "scope":
        return str(value.get("path", "")) if isinstance(value, dict) else ""
    return "" if value is None else str(value)


def _format_item(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _parse_field(field: FormField, text: str, record: Mapping[str, Any]) -> Any:
    if field.kind == "lines":
        original_items = {sanitize_value(_format_item(item)): item for item in _get_field_value(field, record) or ()}
        return [original_items.get(line, _parse_pattern(line)) for line in text.split("\n") if line.strip()]
    if field.kind == "scope":
        return {"type": "project", "path": text} if text.strip() else {"type": "global"}
    if field.kind == "number":
        try:
            return int(text)
        except ValueError:
            raise UserError(f"{field.label} is {text[:40]!r}, but wants a whole number", field.hint) from None
    return text or None


def _parse_pattern(line: str) -> Any:
    """A pattern with flags is written as in the file: {"source": …, "flags": …}."""
    if line.lstrip().startswith('{"source"'):
        try:
            return json.loads(line)
        except ValueError:
            return line
    return line
