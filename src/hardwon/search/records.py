"""Read records in full by their ids: a letter for the kind and a number, or a name for records kept in files.

`O12` is an observation, `P3` a prompt, `M1` a memory, `L:git-stash` a lesson.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from hardwon.agents.tool_results import find_describing_text, get_stored_result_text
from hardwon.errors import UserError
from hardwon.handoff import handoffs
from hardwon.lessons import manifest
from hardwon.memories import memories
from hardwon.memories.memory_files import MemoryPage
from hardwon.search.words import strip_markup
from hardwon.store.db import Connection, parse_json_or_text
from hardwon.store.documents import (
    DOCUMENT_KINDS,
    LESSON,
    MEMORY,
    OBSERVATION,
    PROMPT,
    SUMMARY,
    DocumentKind,
    read_source_rows,
)
from hardwon.text.characters import estimate_tokens
from hardwon.text.excerpts import shorten_line
from hardwon.types import AGENT_MESSAGE, Lesson

_ID_PATTERN = re.compile(r"([A-Za-z])(?:([0-9]{1,15})|:([\w.-]{1,200}))")
_SUMMARY_FIELDS = ("request", "investigated", "learned", "completed", "next_steps")
_FILE_FIELDS = ("file_path", "notebook_path", "path", "absolute_path", "filePath")
_LAST_WORDS_TYPES = ("Stop", "SubagentStop")
_MAX_TITLE_CHARS = 120
_MAX_TITLE_SOURCE_CHARS = 400  # with the markup and the targets of links that are left out


@dataclass(frozen=True, slots=True)
class RecordContent:
    """The text of a record, and the values it can be filtered by."""

    title: str
    text: str
    type: str
    files: tuple[str, ...] = ()
    concepts: tuple[str, ...] = ()


def parse_id(record_id: str) -> tuple[DocumentKind, int, str] | None:
    """Return kind, row and name of an id; None if it is not an id."""
    match = _ID_PATTERN.fullmatch(record_id.strip())
    kind = DOCUMENT_KINDS.get(match[1].upper()) if match else None
    if not match or not kind or (kind.table and not match[2]):
        return None
    if not kind.table:
        return kind, 0, match[3] or match[2] or ""  # M:3 is M3, as earlier versions printed it
    return kind, int(match[2]), match[3] or ""


def format_id(kind: str, row: int, name: str) -> str:
    if DOCUMENT_KINDS[kind].table:
        return f"{kind}{row}"
    # The forms that every command takes. L3 is proposal 3, so an approved lesson keeps the colon before its slug.
    return f"{kind}:{name}" if kind == LESSON else f"{kind}{name}"


def get_name(record: Mapping[str, Any]) -> str:
    """Return the name of a record that is kept in a file: its id without the letter."""
    return str(record["id"][1:]).removeprefix(":")


def fetch_records(
    connection: Connection, home: str, ids: Sequence[str], *, with_details: bool = True
) -> list[dict[str, Any]]:
    """Return the requested records in full and in order; a missing one has `error` instead.

    Without details they have only the fields that all kinds have, and their turn.
    """
    requested = {record_id: parse_id(record_id) for record_id in ids}
    rows_by_letter: dict[str, list[int]] = {}
    for parsed in requested.values():
        if parsed:
            rows_by_letter.setdefault(parsed[0].letter, []).append(parsed[1])
    records: list[dict[str, Any]] = []
    for letter, rows in rows_by_letter.items():
        kind = DOCUMENT_KINDS[letter]
        if kind.table:
            source_rows = read_source_rows(connection, kind, rows)
            records += [build_record(kind, row, with_details=with_details) for row in source_rows]
        else:
            with suppress(UserError):  # lessons.json is broken, and doctor says where
                records += list_file_records(connection, home, letter)
    records_by_id = {record["id"]: record for record in records}
    answers = []
    for record_id, parsed in requested.items():
        record = records_by_id.get(format_id(parsed[0].letter, *parsed[1:])) if parsed else None
        error = f"there is no {record_id}" if parsed else f"{record_id!r} is not an id such as O12 or L:slug"
        answers.append(record or {"id": record_id, "error": error})
    return answers


def build_record(kind: DocumentKind, row: dict[str, Any], *, with_details: bool = True) -> dict[str, Any]:
    """Return a row as it is shown, with its title and how many tokens it costs to read."""
    extra_fields: dict[str, Any] = {}
    if kind.letter == OBSERVATION and with_details:
        extra_fields |= {name: row[name] for name in ("subtitle", "narrative", "made", "times")}
        extra_fields |= {
            name: _parse_string_list(row[name]) for name in ("facts", "files_read", "files_modified", "events")
        }
        extra_fields["cost"] = row["tokens"]
    elif kind.letter == SUMMARY:
        extra_fields |= {name: row[name] for name in _SUMMARY_FIELDS}
    if kind.letter != SUMMARY:
        extra_fields["turn"] = row["number" if kind.letter == PROMPT else "prompt"]
    return _assemble_record(
        f"{kind.letter}{row['id']}", kind.name, _extract_content(kind.letter, row), row, **extra_fields
    )


def list_file_records(connection: Connection, home: str, letter: str) -> list[dict[str, Any]]:
    """Return the active records of a kind that is kept in files; raise UserError if its file is broken."""
    if letter == LESSON:
        return [_build_lesson_record(lesson) for lesson in _gather_active_lessons(home)]
    if letter == MEMORY:
        return list(map(_build_memory_record, memories.list_approved_pages(connection, home)))
    return list(map(build_handoff_record, handoffs.list_ratified_pages(connection, home)))


def _build_lesson_record(lesson: Lesson) -> dict[str, Any]:
    text = _join_lines([lesson.summary, f"problem: {lesson.problem}", f"solution: {lesson.solution}"])
    content = RecordContent(lesson.summary, text, "lesson", (), lesson.tags)
    extra_fields = {name: getattr(lesson, name) for name in ("problem", "solution", "delivery", "status")}
    return _assemble_record(f"L:{lesson.slug}", "lesson", content, {"project": lesson.project}, **extra_fields)


def _build_memory_record(page: MemoryPage) -> dict[str, Any]:
    content = RecordContent(page.description, page.text, page.type)
    extra_fields = {"file": page.path, "sources": list(page.sources)}
    return _assemble_record(f"M{page.number}", "memory", content, {"project": page.project}, **extra_fields)


def build_handoff_record(page: handoffs.HandoffPage) -> dict[str, Any]:
    content = RecordContent(page.topic, page.text, "handoff")
    extra_fields = {"file": page.path, "resume": handoffs.get_resume_lines(page), "confidence": page.confidence}
    return _assemble_record(f"H{page.reflection.id}", "handoff", content, vars(page.reflection), **extra_fields)


def _assemble_record(
    record_id: str, kind: str, content: RecordContent, source: Mapping[str, Any], **extra_fields: Any
) -> dict[str, Any]:
    """Build a record, with the same fields for every kind; `source` has the time, the project and the session."""
    return {
        "id": record_id,
        "kind": kind,
        "type": content.type,
        "title": content.title,
        "at": source.get("at", 0.0),
        "project": source["project"],
        "session": source.get("session", ""),
        "host": source.get("host", ""),
        "files": list(content.files),
        "concepts": list(content.concepts),
        "tokens": estimate_tokens(content.text),
        "text": content.text,
        **extra_fields,
    }


def split_call_title(title: str) -> tuple[str, str]:
    """Return the tool of a call with its outcome, such as `Bash (failed)`, and what it was called with."""
    tool, _, subject = title.partition(": ")
    return tool, subject


def strip_repeated_subject(record: Mapping[str, Any]) -> str:
    """Return the text of a record; of a call without the first line, if the title repeats that line."""
    text: str = record["text"]
    if not is_call(record["kind"], record["type"]):
        return text
    first_line, _, rest = text.partition("\n")
    _, subject = split_call_title(record["title"])
    # The title has a path without the folder of the project.
    is_in_title = first_line == subject or first_line.endswith(f"{os.sep}{subject}")
    return rest if is_in_title and rest else text


def is_call(kind: str, record_type: str) -> bool:
    return kind == "event" and record_type not in (*_LAST_WORDS_TYPES, AGENT_MESSAGE)


def get_type_label(kind: str, record_type: str) -> str:
    """Return the type of a record as people read it."""
    if kind == "event" and record_type in _LAST_WORDS_TYPES:
        return "answer"
    if record_type == AGENT_MESSAGE:
        return "message"
    return record_type or kind


def list_active_lessons(home: str) -> list[Lesson]:
    """Return the active lessons of this home and of trusted repositories; none while the file is broken."""
    try:
        return _gather_active_lessons(home)
    except UserError:
        return []


def _gather_active_lessons(home: str) -> list[Lesson]:
    return [lesson for lesson in manifest.gather_lessons(home)[0] if lesson.status == "active"]


def _extract_content(kind: str, row: dict[str, Any]) -> RecordContent:
    """Return the words of a row."""
    if kind == OBSERVATION:
        return _extract_observation(row)
    if kind == SUMMARY:
        filled_fields = [(name.replace("_", " "), row[name]) for name in _SUMMARY_FIELDS if row[name]]
        return RecordContent(
            _make_title(row["request"] or row["completed"]),
            _join_lines(f"{name}: {text}" for name, text in filled_fields),
            "summary",
        )
    if kind == PROMPT:
        return RecordContent(_make_title(row["prompt"]), row["prompt"], "prompt")
    return _extract_event(row)


def _extract_observation(row: dict[str, Any]) -> RecordContent:
    """Return the words of an observation; without a title its first fact is the title."""
    facts = _parse_string_list(row["facts"])
    fact_lines = [f"- {fact}" for fact in facts]
    files = [*_parse_string_list(row["files_modified"]), *_parse_string_list(row["files_read"])]
    return RecordContent(
        row["title"] or "".join(facts[:1]),
        _join_lines([row["title"], row["subtitle"], row["narrative"], *fact_lines]),
        row["type"],
        tuple(dict.fromkeys(files)),
        tuple(_parse_string_list(row["concepts"])),
    )


def _extract_event(row: dict[str, Any]) -> RecordContent:
    """Return the words of an event: a call with its input and result, or what an agent said."""
    if row["kind"] != "tool":
        return RecordContent(_make_title(row["response"]), row["response"], row["kind"])
    tool_input = parse_json_or_text(row["input"])
    fields = tool_input if isinstance(tool_input, dict) else {}
    text_fields = {name: value for name, value in fields.items() if isinstance(value, str)}
    subject = find_describing_text(fields or tool_input)
    files = tuple(text_fields[name] for name in _FILE_FIELDS if text_fields.get(name))
    outcome = "" if row["outcome"] in ("", "fine") else f" ({row['outcome']})"
    result = get_stored_result_text(row["response"])
    texts = [subject, *(value for value in text_fields.values() if value != subject)]
    title = f"{row['tool']}{outcome}"
    if subject:
        title += f": {shorten_line(subject.removeprefix(row['project'] + os.sep), _MAX_TITLE_CHARS)}"
    return RecordContent(title, _join_lines([*texts, result]), row["tool"], files)


def _make_title(text: str) -> str:
    """Return the beginning of what a person or an agent wrote, on one line and without markup."""
    return shorten_line(" ".join(strip_markup(text[:_MAX_TITLE_SOURCE_CHARS])), _MAX_TITLE_CHARS)


def _join_lines(parts: Any) -> str:
    return "\n".join(part for part in parts if part)


def _parse_string_list(text: str) -> list[str]:
    if text == "[]":  # as most are
        return []
    parsed = parse_json_or_text(text)
    return [item for item in parsed if isinstance(item, str)] if isinstance(parsed, list) else []
