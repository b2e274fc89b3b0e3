"""What can be found, read whole, by its id: a letter for its kind and a number, or a name for what is in a file.

`O12` is an observation, `P3` a prompt, `L:git-stash` a lesson.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from hardwon.agents.tool_results import get_stored_result_text
from hardwon.errors import UserError
from hardwon.handoff import handoffs, memories
from hardwon.handoff.memory_files import MemoryPage
from hardwon.lessons import manifest
from hardwon.store.db import Connection, parse_json_or_text
from hardwon.store.documents import DOCUMENT_KINDS, DocumentKind, read_source_rows
from hardwon.text import token_estimate
from hardwon.types import Lesson, frozen

_ID = re.compile(r"([A-Za-z])(?:([0-9]{1,15})|:([\w.-]{1,200}))")
_SUMMED = ("request", "investigated", "learned", "completed", "next_steps")
_FILE_FIELDS = ("file_path", "notebook_path", "path", "absolute_path", "filePath")
_ABOUT = ("command", *_FILE_FIELDS, "pattern", "url", "query", "description", "prompt")


@frozen
class RecordContent:
    """The words of something that can be found, and what it can be filtered by."""

    title: str
    text: str
    type: str
    files: tuple[str, ...] = ()
    concepts: tuple[str, ...] = ()


def parse_id(record_id: str) -> tuple[DocumentKind, int, str] | None:
    """Kind, row and name of an id; None for what is none."""
    found = _ID.fullmatch(record_id.strip())
    kind = DOCUMENT_KINDS.get(found[1].upper()) if found else None
    if not found or not kind or bool(kind.table) != bool(found[2]):
        return None
    return kind, int(found[2] or 0), found[3] or ""


def format_id(kind: str, row: int, name: str) -> str:
    return f"{kind}{row}" if DOCUMENT_KINDS[kind].table else f"{kind}:{name}"


def fetch_records(connection: Connection, home: str, ids: Sequence[str]) -> list[dict[str, Any]]:
    """Each asked for, whole, in the order asked; one that is not there has `error` instead."""
    wanted = [(id, parse_id(id)) for id in dict.fromkeys(ids)]
    held: dict[str, dict[str, Any]] = {}
    for kind in DOCUMENT_KINDS.values():
        rows = [parsed[1] for _, parsed in wanted if parsed and parsed[0] == kind and kind.table]
        held |= {
            f"{kind.letter}{row['id']}": build_record(kind, row)
            for row in (read_source_rows(connection, kind, rows) if rows else [])
        }
    if any(parsed and parsed[0].letter == "L" for _, parsed in wanted):
        held |= {f"L:{lesson.slug}": build_lesson_record(lesson) for lesson in list_active_lessons(home)}
    if any(parsed and parsed[0].letter == "M" for _, parsed in wanted):
        held |= {
            f"M:{page.number}": build_memory_record(page) for page in memories.list_approved_pages(connection, home)
        }
    if any(parsed and parsed[0].letter == "H" for _, parsed in wanted):
        held |= {
            f"H:{page.reflection.id}": build_handoff_record(page)
            for page in handoffs.list_ratified_pages(connection, home)
        }
    return [
        held.get(format_id(parsed[0].letter, *parsed[1:]) if parsed else "")
        or {"id": id, "error": f"there is no {id}" if parsed else f"{id!r} is not an id such as O12 or L:slug"}
        for id, parsed in wanted
    ]


def build_record(kind: DocumentKind, row: dict[str, Any]) -> dict[str, Any]:
    """A row as it is shown and given away, with its title and what it costs to read."""
    more: dict[str, Any] = {}
    if kind.letter == "O":
        more |= {name: row[name] for name in ("subtitle", "narrative", "made", "times")}
        more |= {name: _listed(row[name]) for name in ("facts", "files_read", "files_modified", "events")}
        more["cost"] = row["tokens"]
    elif kind.letter == "S":
        more |= {name: row[name] for name in _SUMMED}
    return _whole(f"{kind.letter}{row['id']}", kind.name, extract_content(kind.letter, row), row, **more)


def build_lesson_record(lesson: Lesson) -> dict[str, Any]:
    more = {name: getattr(lesson, name) for name in ("problem", "solution", "delivery", "status")}
    return _whole(f"L:{lesson.slug}", "lesson", extract_lesson_content(lesson), {"project": lesson.project}, **more)


def build_memory_record(page: MemoryPage) -> dict[str, Any]:
    more = {"file": page.path, "sources": list(page.sources)}
    return _whole(f"M:{page.number}", "memory", extract_memory_content(page), {"project": page.project}, **more)


def build_handoff_record(page: handoffs.HandoffPage) -> dict[str, Any]:
    more = {"file": page.path, "resume": handoffs.get_resume_lines(page), "confidence": page.confidence}
    return _whole(f"H:{page.reflection.id}", "handoff", extract_handoff_content(page), vars(page.reflection), **more)


def _whole(id: str, kind: str, content: RecordContent, of: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "id": id,
        "kind": kind,
        "type": content.type,
        "title": content.title,
        "at": of.get("at", 0.0),
        "project": of["project"],
        "session": of.get("session", ""),
        "host": of.get("host", ""),
        "files": list(content.files),
        "concepts": list(content.concepts),
        "tokens": token_estimate.estimate_tokens(content.text),
        "text": content.text,
        **more,
    }


def list_active_lessons(home: str) -> list[Lesson]:
    """The lessons that count: those of this home and of trusted repositories; none while the file is broken."""
    try:
        return [lesson for lesson in manifest.gather_lessons(home)[0] if lesson.status == "active"]
    except UserError:
        return []


def extract_content(kind: str, row: dict[str, Any]) -> RecordContent:
    """The words of a row."""
    if kind == "O":
        return _observation(row)
    if kind == "S":
        said = [(name.replace("_", " "), row[name]) for name in _SUMMED if row[name]]
        return RecordContent(
            _title(row["request"] or row["completed"]), _lines(f"{name}: {text}" for name, text in said), "summary"
        )
    if kind == "P":
        return RecordContent(_title(row["prompt"]), row["prompt"], "prompt")
    return _event(row)


def extract_lesson_content(lesson: Lesson) -> RecordContent:
    text = _lines([lesson.summary, f"problem: {lesson.problem}", f"solution: {lesson.solution}"])
    return RecordContent(lesson.summary, text, "lesson", (), lesson.tags)


def extract_memory_content(page: MemoryPage) -> RecordContent:
    return RecordContent(page.description, page.text, page.type)


def extract_handoff_content(page: handoffs.HandoffPage) -> RecordContent:
    return RecordContent(page.topic, page.text, "handoff")


def _observation(row: dict[str, Any]) -> RecordContent:
    facts = [f"- {fact}" for fact in _listed(row["facts"])]
    files = dict.fromkeys([*_listed(row["files_modified"]), *_listed(row["files_read"])])
    text = _lines([row["title"], row["subtitle"], row["narrative"], *facts])
    return RecordContent(row["title"], text, row["type"], tuple(files), tuple(_listed(row["concepts"])))


def _event(row: dict[str, Any]) -> RecordContent:
    if row["kind"] != "tool":
        return RecordContent(_title(row["response"]), row["response"], row["kind"])
    given = parse_json_or_text(row["input"])
    fields = given if isinstance(given, dict) else {}
    about = next((fields[name] for name in _ABOUT if isinstance(fields.get(name), str)), row["input"])
    files = tuple(fields[name] for name in _FILE_FIELDS if isinstance(fields.get(name), str) and fields[name])
    outcome = "" if row["outcome"] in ("", "fine") else f" ({row['outcome']})"
    result = get_stored_result_text(row["response"])
    said = [about, *(str(value) for name, value in fields.items() if value != about and isinstance(value, str))]
    return RecordContent(f"{row['tool']}{outcome}: {_title(about)}", _lines([*said, result]), row["tool"], files)


def _title(text: str) -> str:
    return " ".join(text[:400].split())[:120]


def _lines(parts: Any) -> str:
    return "\n".join(part for part in parts if part)


def _listed(text: str) -> list[str]:
    held = parse_json_or_text(text)
    return [one for one in held if isinstance(one, str)] if isinstance(held, list) else []
