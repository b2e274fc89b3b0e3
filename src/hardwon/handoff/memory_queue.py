"""The memory queue, `~/.claude/memory_queue/<session>-<turn>.json`: what waits until its session is reflected on.

A file is written whole, holds redacted words only, and is the same however often its turn is looked at. Most turns
leave none. A reflection reads the files of its session and removes those it has read, unless one changed meanwhile.
Other files in the folder are left alone.

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
from hardwon.handoff.lasting_statements import find_lasting_statements
from hardwon.privacy.cleaning import clean_text
from hardwon.text.similarity import is_same_statement
from hardwon.types import MEMORY_TYPES, Turn, frozen

QUEUE_FOLDER = os.path.join("~", ".claude", "memory_queue")
FORMAT_VERSION = 1
MAX_FILE_BYTES = 64_000  # bytes; what is larger is not ours
_FILE_NAME = re.compile(r"(.+)-(\d{1,9})\.json")


@frozen
class QueuedStatement:
    """One statement that waits, and the file it stands in as it was read."""

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
    """Queue what a turn says is to last, and give the file; nothing for most turns, nor for one that hands off.

    What is among the memories that are known already, such as one approved by typing it, does not wait again.
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
    """What waits, of one session or of all, in the order of the turns; files that are not ours are passed over."""
    statements = [queued for path in _find_queue_files(folder, session) for queued in _read_statements(path)]
    return sorted(
        (statement for statement in statements if session in ("", statement.session)),
        key=lambda statement: (statement.session, statement.turn, statement.path),
    )


def remove_statements(statements: Iterable[QueuedStatement]) -> None:
    """Remove the files these came from; one that was written again since waits on."""
    for path, raw in {statement.path: statement.raw for statement in statements if statement.path}.items():
        if _read_content(path) == raw:
            os.unlink(path)


def _find_queue_files(folder: str, session: str) -> Iterator[str]:
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        match = _FILE_NAME.fullmatch(name)
        if match and (not session or match[1] == paths.to_safe_name(session)):
            yield os.path.join(folder, name)


def _read_content(path: str) -> str | None:
    """What a file holds; None for what is not a small file of its own."""
    try:
        if os.path.islink(path) or not os.path.isfile(path) or os.path.getsize(path) > MAX_FILE_BYTES:
            return None
        with open(path, encoding="utf-8", newline="", opener=paths.open_plain_file) as file:
            return file.read()
    except (OSError, UnicodeDecodeError):
        return None


def _read_statements(path: str) -> Iterator[QueuedStatement]:
    raw = _read_content(path)
    try:
        data = json.loads(raw) if raw else None
    except (ValueError, RecursionError):
        return
    if not isinstance(data, dict) or data.get("version") != FORMAT_VERSION or not isinstance(data.get("turn"), int):
        return
    session, agent, project, transcript, at = (
        value if isinstance(value := data.get(name), str) else ""
        for name in ("session", "host", "project", "transcript", "at")
    )
    if not session or path != build_queue_path(os.path.dirname(path), session, data["turn"]):
        return
    for memory_type, text, quote in _parse_memories(data.get("memories")):
        yield QueuedStatement(
            memory_type, text, session, data["turn"], quote, agent, project, transcript, at, path, raw or ""
        )


def _parse_memories(data: Any) -> Iterator[tuple[str, str, str]]:
    """Yield type, text and the person's words; redacted here too, since others may write into the folder."""
    for entry in data if isinstance(data, list) else ():
        if not isinstance(entry, dict):
            continue
        memory_type, text, quote = entry.get("type"), entry.get("text"), entry.get("said")
        if memory_type in MEMORY_TYPES and isinstance(text, str) and text.strip():
            yield memory_type, clean_text(text), clean_text(quote) if isinstance(quote, str) else ""
