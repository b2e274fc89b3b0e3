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
_TRIGGERS = ("toolNames", "commandPatterns", "pathPatterns", "pathRegexes", "contentPatterns")


def fill_fields(record: Mapping[str, Any], typed: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    """The fields with what they hold, or with what was typed into them before."""
    return [{**one.__dict__, "value": (typed or {}).get(one.name, _text(one, record))} for one in FORM_FIELDS]


def merge_edited_text(given: str, held: str) -> str:
    """A text that was edited whole; a line that is as it was shown stays as it is, whatever it holds."""
    before = {shown: line for line in held.split("\n") for shown in (line, make_printable(line))}
    lines = given.replace("\r\n", "\n").split("\n")
    return "\n".join(before.get(line, make_printable(line)) for line in lines)


def find_changed_fields(record: Mapping[str, Any], form: Mapping[str, str]) -> dict[str, Any]:
    """What a person changed, as the record has it; None for what is to go."""
    found: dict[str, Any] = {}
    for one in FORM_FIELDS:
        given = form.get(one.name)
        if given is None:
            continue
        given = given.replace("\r\n", "\n").strip("\n")
        if given != sanitize_value(_text(one, record)).strip("\n"):
            found[one.name] = _value(one, given, record)
    return found


def _held(one: FormField, record: Mapping[str, Any]) -> Any:
    return record.get("triggers", {}).get(one.name) if one.name in _TRIGGERS else record.get(one.name)


def _text(one: FormField, record: Mapping[str, Any]) -> str:
    held = _held(one, record)
    if one.kind == "lines":
        return "\n".join(_line(each) for each in held or ())
    if one.kind == "scope":
        return str(held.get("path", "")) if isinstance(held, dict) else ""
    return "" if held is None else str(held)


def _line(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _value(one: FormField, given: str, record: Mapping[str, Any]) -> Any:
    if one.kind == "lines":
        before = {sanitize_value(_line(each)): each for each in _held(one, record) or ()}
        return [before.get(line, _pattern(line)) for line in given.split("\n") if line.strip()]
    if one.kind == "scope":
        return {"type": "project", "path": given} if given.strip() else {"type": "global"}
    if one.kind == "number":
        try:
            return int(given)
        except ValueError:
            raise UserError(f"{one.label} is {given[:40]!r}, but wants a whole number", one.hint) from None
    return given or None


def _pattern(line: str) -> Any:
    """A pattern with flags is written as in the file: {"source": …, "flags": …}."""
    if line.lstrip().startswith('{"source"'):
        try:
            return json.loads(line)
        except ValueError:
            return line
    return line
