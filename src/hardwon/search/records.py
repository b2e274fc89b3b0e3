"""What can be found, read whole, by its id: a letter for its kind and a number, or a name for what is in a file.

`O12` is an observation, `P3` a prompt, `L:git-stash` a lesson.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from hardwon.agents.tool_results import text_of_stored_result
from hardwon.errors import UserError
from hardwon.handoff import handoffs, memories
from hardwon.handoff.memory_files import Page
from hardwon.lessons import manifest
from hardwon.store.db import Connection, value_of
from hardwon.store.documents import KINDS, Kind, rows_of
from hardwon.text import token_estimate
from hardwon.types import Lesson, word

_ID = re.compile(r"([A-Za-z])(?:([0-9]{1,15})|:([\w.-]{1,200}))")
_SUMMED = ("request", "investigated", "learned", "completed", "next_steps")
_FILE_FIELDS = ("file_path", "notebook_path", "path", "absolute_path", "filePath")
_ABOUT = ("command", *_FILE_FIELDS, "pattern", "url", "query", "description", "prompt")


@word
class Content:
    """The words of something that can be found, and what it can be filtered by."""

    title: str
    text: str
    type: str
    files: tuple[str, ...] = ()
    concepts: tuple[str, ...] = ()


def parse_id(id: str) -> tuple[Kind, int, str] | None:
    """Kind, row and name of an id; None for what is none."""
    found = _ID.fullmatch(id.strip())
    kind = KINDS.get(found[1].upper()) if found else None
    if not found or not kind or bool(kind.table) != bool(found[2]):
        return None
    return kind, int(found[2] or 0), found[3] or ""


def id_of(kind: str, row: int, name: str) -> str:
    return f"{kind}{row}" if KINDS[kind].table else f"{kind}:{name}"


def fetch(connection: Connection, home: str, ids: Sequence[str]) -> list[dict[str, Any]]:
    """Each asked for, whole, in the order asked; one that is not there has `error` instead."""
    wanted = [(id, parse_id(id)) for id in dict.fromkeys(ids)]
    held: dict[str, dict[str, Any]] = {}
    for kind in KINDS.values():
        rows = [parsed[1] for _, parsed in wanted if parsed and parsed[0] == kind and kind.table]
        held |= {
            f"{kind.letter}{row['id']}": whole(kind, row) for row in (rows_of(connection, kind, rows) if rows else [])
        }
    if any(parsed and parsed[0].letter == "L" for _, parsed in wanted):
        held |= {f"L:{lesson.slug}": whole_lesson(lesson) for lesson in lessons(home)}
    if any(parsed and parsed[0].letter == "M" for _, parsed in wanted):
        held |= {f"M:{page.number}": whole_memory(page) for page in memories.told(connection, home)}
    if any(parsed and parsed[0].letter == "H" for _, parsed in wanted):
        held |= {f"H:{page.known.id}": whole_handoff(page) for page in handoffs.told(connection, home)}
    return [
        held.get(id_of(parsed[0].letter, *parsed[1:]) if parsed else "")
        or {"id": id, "error": f"there is no {id}" if parsed else f"{id!r} is not an id such as O12 or L:slug"}
        for id, parsed in wanted
    ]


def whole(kind: Kind, row: dict[str, Any]) -> dict[str, Any]:
    """A row as it is shown and given away, with its title and what it costs to read."""
    more: dict[str, Any] = {}
    if kind.letter == "O":
        more |= {name: row[name] for name in ("subtitle", "narrative", "made", "times")}
        more |= {name: _listed(row[name]) for name in ("facts", "files_read", "files_modified", "events")}
        more["cost"] = row["tokens"]
    elif kind.letter == "S":
        more |= {name: row[name] for name in _SUMMED}
    return _whole(f"{kind.letter}{row['id']}", kind.name, content_of(kind.letter, row), row, **more)


def whole_lesson(lesson: Lesson) -> dict[str, Any]:
    more = {name: getattr(lesson, name) for name in ("problem", "solution", "delivery", "status")}
    return _whole(f"L:{lesson.slug}", "lesson", content_of_lesson(lesson), {"project": lesson.project}, **more)


def whole_memory(page: Page) -> dict[str, Any]:
    more = {"file": page.path, "sources": list(page.sources)}
    return _whole(f"M:{page.number}", "memory", content_of_memory(page), {"project": page.project}, **more)


def whole_handoff(page: handoffs.Page) -> dict[str, Any]:
    more = {"file": page.path, "resume": handoffs.resume_of(page), "confidence": page.confidence}
    return _whole(f"H:{page.known.id}", "handoff", content_of_handoff(page), vars(page.known), **more)


def _whole(id: str, kind: str, content: Content, of: Mapping[str, Any], **more: Any) -> dict[str, Any]:
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
        "tokens": token_estimate.estimate(content.text),
        "text": content.text,
        **more,
    }


def lessons(home: str) -> list[Lesson]:
    """The lessons that count: those of this home and of trusted repositories; none while the file is broken."""
    try:
        return [lesson for lesson in manifest.gather(home)[0] if lesson.status == "active"]
    except UserError:
        return []


def content_of(kind: str, row: dict[str, Any]) -> Content:
    """The words of a row."""
    if kind == "O":
        return _observation(row)
    if kind == "S":
        said = [(name.replace("_", " "), row[name]) for name in _SUMMED if row[name]]
        return Content(
            _title(row["request"] or row["completed"]), _lines(f"{name}: {text}" for name, text in said), "summary"
        )
    if kind == "P":
        return Content(_title(row["prompt"]), row["prompt"], "prompt")
    return _event(row)


def content_of_lesson(lesson: Lesson) -> Content:
    text = _lines([lesson.summary, f"problem: {lesson.problem}", f"solution: {lesson.solution}"])
    return Content(lesson.summary, text, "lesson", (), lesson.tags)


def content_of_memory(page: Page) -> Content:
    return Content(page.description, page.text, page.type)


def content_of_handoff(page: handoffs.Page) -> Content:
    return Content(page.topic, page.text, "handoff")


def _observation(row: dict[str, Any]) -> Content:
    facts = [f"- {fact}" for fact in _listed(row["facts"])]
    files = dict.fromkeys([*_listed(row["files_modified"]), *_listed(row["files_read"])])
    text = _lines([row["title"], row["subtitle"], row["narrative"], *facts])
    return Content(row["title"], text, row["type"], tuple(files), tuple(_listed(row["concepts"])))


def _event(row: dict[str, Any]) -> Content:
    if row["kind"] != "tool":
        return Content(_title(row["response"]), row["response"], row["kind"])
    given = value_of(row["input"])
    fields = given if isinstance(given, dict) else {}
    about = next((fields[name] for name in _ABOUT if isinstance(fields.get(name), str)), row["input"])
    files = tuple(fields[name] for name in _FILE_FIELDS if isinstance(fields.get(name), str) and fields[name])
    outcome = "" if row["outcome"] in ("", "fine") else f" ({row['outcome']})"
    result = text_of_stored_result(row["response"])
    said = [about, *(str(value) for name, value in fields.items() if value != about and isinstance(value, str))]
    return Content(f"{row['tool']}{outcome}: {_title(about)}", _lines([*said, result]), row["tool"], files)


def _title(text: str) -> str:
    return " ".join(text[:400].split())[:120]


def _lines(parts: Any) -> str:
    return "\n".join(part for part in parts if part)


def _listed(text: str) -> list[str]:
    held = value_of(text)
    return [one for one in held if isinstance(one, str)] if isinstance(held, list) else []
