"""Queue statements to remember until their session is reflected on.

Files are `~/.claude/memory_queue/<session>-<turn>.json`. Each is written whole, contains only redacted text, and is the
same however often its turn is processed. Most turns write none. A reflection reads the files of its session and deletes
them, except those that changed meanwhile. Other files in the folder are left alone.

    {"version": 1, "session": "…", "turn": 3, "host": "claude-code", "project": "/repo", "transcript": "/….jsonl",
     "at": "2026-03-29T10:00:00Z",
     "memories": [{"type": "feedback", "text": "Always use pnpm.", "said": "from now on always use pnpm"}]}
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from hardwon import clock, paths
from hardwon.handoff.idle_sessions import is_handoff
from hardwon.memories.lasting_statements import find_lasting_statements
from hardwon.privacy.cleaning import clean_text
from hardwon.text.similarity import is_same_statement
from hardwon.types import MEMORY_TYPES, Turn, frozen

QUEUE_FOLDER = os.path.join("~", ".claude", "memory_queue")
FORMAT_VERSION = 1
MAX_FILE_BYTES = 64_000  # a larger file is not ours
_FILE_NAME = re.compile(r"(.+)-(\d{1,9})\.json")


@frozen
class QueuedStatement:
    """A queued statement, and the path and raw content of its file."""

    type: str
    text: str
    session: str
    turn: int
    quote: str = ""  # the person's own words
    agent: str = ""
    project: str = ""
    transcript: str = ""
    at: str = ""
    path: str = ""
    raw: str = ""


def get_queue_folder() -> str:
    return os.path.expanduser(QUEUE_FOLDER)


def build_queue_path(folder: str, session: str, turn: int) -> str:
    return os.path.join(folder, f"{paths.to_safe_name(session)}-{turn}.json")


def queue_statements(folder: str, turn: Turn, transcript: str = "", known_texts: Sequence[str] = ()) -> str:
    """Queue the lasting statements of a turn and return the file's path; empty if there are none.

    Turns that hand off the session are skipped, and so are statements that are already known, such as one approved by
    typing it.
    """
    statements = [] if is_handoff(turn) else find_lasting_statements(turn.prompt)
    entries = [
        {"type": statement.type, "text": clean_text(statement.text), "said": clean_text(statement.quote)}
        for statement in statements
        if not any(is_same_statement(statement.text, other) for other in known_texts)
    ]
    if not entries or not turn.name:
        return ""
    content = {
        "version": FORMAT_VERSION,
        "session": turn.name,
        "turn": turn.number,
        "host": turn.agent,
        "project": turn.project,
        "transcript": transcript,
        "at": clock.format_iso(turn.at),
        "memories": entries,
    }
    encoded = json.dumps(content, indent=2, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
    path = build_queue_path(folder, turn.name, turn.number)
    if _read_content(path) != encoded.decode():
        paths.write_private(path, encoded)
    return path


def read_queue(folder: str, session: str = "") -> list[QueuedStatement]:
    """Return the queued statements of one session or all, in turn order; foreign files are skipped."""
    statements = [queued for path in _find_queue_files(folder, session) for queued in _read_statements(path)]
    return sorted(
        (statement for statement in statements if session in ("", statement.session)),
        key=lambda statement: (statement.session, statement.turn, statement.path),
    )


def remove_statements(statements: Iterable[QueuedStatement]) -> None:
    """Delete the files of these statements, except those rewritten since they were read."""
    for path, raw in {statement.path: statement.raw for statement in statements if statement.path}.items():
        if _read_content(path) == raw:
            os.unlink(path)


def _find_queue_files(folder: str, session: str) -> Iterator[str]:
    """Yield the queue's files of a session, or of all if `session` is ""; none if there is no folder."""
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        match = _FILE_NAME.fullmatch(name)
        if match and (not session or match[1] == paths.to_safe_name(session)):
            yield os.path.join(folder, name)


def _read_content(path: str) -> str | None:
    """Return a file's content; None if it is not a small regular file."""
    try:
        if os.path.islink(path) or not os.path.isfile(path) or os.path.getsize(path) > MAX_FILE_BYTES:
            return None
        with open(path, encoding="utf-8", newline="", opener=paths.open_plain_file) as file:
            return file.read()
    except (OSError, UnicodeDecodeError):
        return None


def _read_statements(path: str) -> Iterator[QueuedStatement]:
    """Yield the statements of a queue file; none if its format is another one, or its name that of another turn."""
    raw = _read_content(path)
    try:
        data = json.loads(raw) if raw else None
    except (ValueError, RecursionError):
        return
    if not isinstance(data, dict) or data.get("version") != FORMAT_VERSION or not isinstance(data.get("turn"), int):
        return
    texts: list[str] = []
    for name in ("session", "host", "project", "transcript", "at"):
        value = data.get(name)
        texts.append(value if isinstance(value, str) else "")
    session, agent, project, transcript, at = texts
    if not session or path != build_queue_path(os.path.dirname(path), session, data["turn"]):
        return
    for memory_type, text, quote in _parse_memories(data.get("memories")):
        yield QueuedStatement(
            memory_type, text, session, data["turn"], quote, agent, project, transcript, at, path, raw or ""
        )


def _parse_memories(data: Any) -> Iterator[tuple[str, str, str]]:
    """Yield type, text and the person's words, redacted again because other programs may write into the folder."""
    if not isinstance(data, list):
        return
    for entry in data:
        if not isinstance(entry, dict):
            continue
        memory_type = entry.get("type")
        text = entry.get("text")
        quote = entry.get("said")
        if memory_type in MEMORY_TYPES and isinstance(text, str) and text.strip():
            yield memory_type, clean_text(text), clean_text(quote) if isinstance(quote, str) else ""
