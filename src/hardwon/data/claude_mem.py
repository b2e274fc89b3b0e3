"""What claude-mem kept, as records that can be imported.

Its file is only read. Its columns changed their names over the versions, and some came late, so each value is asked for
under every name it had. It knows a project by its folder's name alone. A row's key is made of what the row says, so
that the same row of another copy of the file is the same.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping
from datetime import datetime
from hashlib import blake2b
from typing import Any

from hardwon.errors import UserError
from hardwon.store import db
from hardwon.store.observations import FROM_CLAUDE_MEM

_HOSTS = {"claude": "claude-code", "": "claude-code"}
_OWN = ("content_session_id", "claude_session_id")  # the agent's id of a session
_ITS = ("memory_session_id", "sdk_session_id")  # claude-mem's own
_TITLE = 100
_GONE = 0  # the number of no session
Row = Mapping[str, Any]


def open_database(path: str) -> sqlite3.Connection:
    """The file, to be read and nothing else; UserError if it is not claude-mem's."""
    if not os.path.exists(path):
        raise UserError(f"there is no {path}", "give claude-mem's database: hardwon import claude-mem FILE")
    connection = db.open_read_only(path)
    try:
        if not _has(connection, "sdk_sessions"):
            raise UserError(f"{path} is not claude-mem's: it has no table sdk_sessions", "give it another file")
    except sqlite3.DatabaseError as wrong:
        connection.close()
        raise UserError(f"{path}: {wrong}", "give it another file") from None
    return connection


def read_records(connection: sqlite3.Connection, project_paths: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Projects, sessions and what happened in them; `project_paths` has the paths of projects whose name only one has.

    What is of a session that is gone comes last, under the id it names.
    """
    sessions = list(_rows(connection, "sdk_sessions"))
    of_own = {str(_first(row, *_OWN)): row for row in sessions}
    of_its = {str(its): row for row in sessions if (its := _first(row, *_ITS))}
    prompts = _grouped(_rows(connection, "user_prompts"), lambda row: of_own.get(str(_first(row, *_OWN))))
    observed = _grouped(_rows(connection, "observations"), lambda row: of_its.get(str(_first(row, *_ITS))))
    summed = _grouped(_rows(connection, "session_summaries"), lambda row: of_its.get(str(_first(row, *_ITS))))
    for name, at in _projects(sessions).items():
        path = project_paths.get(name, name)
        yield {"what": "project", "path": path, "name": name, "remote": "", "at": at}
    for row in sessions:
        id = row["id"]
        told = [_prompt(row, one) for one in prompts.get(id, ())] or _only_prompt(row)
        last = max(
            [at for one in (*observed.get(id, ()), *summed.get(id, ())) if (at := _at(one, "created_at"))] or [0.0]
        )
        yield _session(row, told, last, project_paths)
        yield from told
        yield from (_observation(row, one) for one in observed.get(id, ()))
        yield from (_summary(row, one) for one in summed.get(id, ()))
    for grouped, told_of in ((prompts, _prompt), (observed, _observation), (summed, _summary)):
        yield from (told_of({_OWN[0]: _first(one, *_OWN, *_ITS)}, one) for one in grouped.get(_GONE, ()))


def _has(connection: sqlite3.Connection, table: str) -> bool:
    found = connection.execute("select 1 from sqlite_master where type = 'table' and name = ?", (table,))
    return found.fetchone() is not None


def _rows(connection: sqlite3.Connection, table: str) -> Iterator[dict[str, Any]]:
    if _has(connection, table):
        yield from (dict(row) for row in connection.execute(f"select * from {table} order by id"))


def _grouped(rows: Iterator[dict[str, Any]], session_of: Any) -> dict[int, list[dict[str, Any]]]:
    """Rows by the number of their session."""
    found: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        session = session_of(row)
        found.setdefault(session["id"] if session else _GONE, []).append(row)
    return found


def _projects(sessions: list[dict[str, Any]]) -> dict[str, float]:
    """Each project with the time it was first met."""
    found: dict[str, float] = {}
    for row in sessions:
        if name := _text(row, "project"):
            found[name] = min(found.get(name, _at(row, "started_at")), _at(row, "started_at"))
    return dict(sorted(found.items()))


def _session(row: Row, prompts: list[dict[str, Any]], last: float, known: Mapping[str, str]) -> dict[str, Any]:
    name, started, ended = _text(row, "project"), _at(row, "started_at"), _at(row, "completed_at") or None
    times = [started, last, ended or 0.0, *(one["at"] for one in prompts)]
    return {
        "what": "session",
        **_known_as(row),
        "project": known.get(name, name) or None,
        "cwd": "",
        "transcript": "",
        "first_prompt": prompts[0]["prompt"] if prompts else "",
        "prompts": len(prompts),
        "status": "completed" if ended else "active" if prompts else "initialized",
        "reason": "",
        "started_at": started,
        "opened_at": started,
        "last_at": max(times),
        "ended_at": ended,
    }


def _known_as(session: Row) -> dict[str, str]:
    source = _text(session, "platform_source")
    return {"host": _HOSTS.get(source, source), "session": str(_first(session, *_OWN))}


def _prompt(session: Row, row: Row) -> dict[str, Any]:
    number, text = int(row.get("prompt_number") or 1), _text(row, "prompt_text")
    key = _key("prompt", _known_as(session), number, text)
    at = _at(row, "created_at") or _at(session, "started_at")
    return {
        "what": "prompt",
        **_known_as(session),
        "key": key,
        "number": number,
        "at": at,
        "prompt": text,
        "name": "",
    }


def _only_prompt(session: Row) -> list[dict[str, Any]]:
    """Before there was a table of prompts, a session kept its first."""
    text = _text(session, "user_prompt")
    return [_prompt(session, {"prompt_number": 1, "prompt_text": text})] if text else []


def _observation(session: Row, row: Row) -> dict[str, Any]:
    text = _text(row, "narrative") or _text(row, "text")
    title = _text(row, "title") or text.strip().partition("\n")[0][:_TITLE]
    at = _at(row, "created_at")
    lists = {name: _list(row, name) for name in ("facts", "concepts", "files_read", "files_modified")}
    return {
        "what": "observation",
        **_known_as(session),
        "key": _key("observation", _known_as(session), at, row.get("type"), title, text, lists["facts"]),
        "at": at,
        "prompt": int(row.get("prompt_number") or 0),
        "type": _text(row, "type"),
        "title": title,
        "subtitle": _text(row, "subtitle"),
        "narrative": text,
        **lists,
        "events": [],
        "tokens": int(row.get("discovery_tokens") or 0),
        "times": 1,
        "made": FROM_CLAUDE_MEM,
    }


def _summary(session: Row, row: Row) -> dict[str, Any]:
    parts = {name: _text(row, name) for name in ("request", "investigated", "learned", "completed", "next_steps")}
    at = _at(row, "created_at")
    key = _key("summary", _known_as(session), at, parts)
    if notes := _text(row, "notes"):
        parts["learned"] = f"{parts['learned']}\n\n{notes}".strip()
    return {"what": "summary", **_known_as(session), "key": key, "at": at, **parts, "made": FROM_CLAUDE_MEM}


def _first(row: Row, *names: str) -> Any:
    return next((row[name] for name in names if row.get(name)), "")


def _text(row: Row, name: str) -> str:
    value = row.get(name)
    return value if isinstance(value, str) else ""


def _list(row: Row, name: str) -> list[str]:
    """A list that was kept as JSON; what is not JSON is the only thing in it."""
    text = _text(row, name)
    try:
        found = json.loads(text) if text else []
    except ValueError:
        found = text
    return [str(one) for one in found] if isinstance(found, list) else [str(found)]


def _at(row: Row, name: str) -> float:
    """A time in seconds: kept in milliseconds, in the oldest versions in seconds, and beside it as text."""
    epoch = row.get(f"{name}_epoch")
    if isinstance(epoch, int | float) and epoch:
        return epoch / 1000 if epoch > 1e11 else float(epoch)
    try:
        return datetime.fromisoformat(_text(row, name)).timestamp()
    except ValueError:
        return 0.0


def _key(*parts: object) -> str:
    said = json.dumps(parts, sort_keys=True).encode()
    return f"{FROM_CLAUDE_MEM}:{blake2b(said, digest_size=16).hexdigest()}"
