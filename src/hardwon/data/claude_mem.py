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

_AGENTS = {"claude": "claude-code", "": "claude-code"}
_AGENT_ID_COLUMNS = ("content_session_id", "claude_session_id")  # the agent's id of a session
_MEM_ID_COLUMNS = ("memory_session_id", "sdk_session_id")  # claude-mem's own
_MAX_TITLE_CHARS = 100
_NO_SESSION = 0  # the number of no session
Row = Mapping[str, Any]


def open_database(path: str) -> sqlite3.Connection:
    """The file, to be read and nothing else; UserError if it is not claude-mem's."""
    if not os.path.exists(path):
        raise UserError(f"there is no {path}", "give claude-mem's database: hardwon import claude-mem FILE")
    connection = db.open_read_only(path)
    try:
        if not _has_table(connection, "sdk_sessions"):
            raise UserError(f"{path} is not claude-mem's: it has no table sdk_sessions", "give it another file")
    except sqlite3.DatabaseError as error:
        connection.close()
        raise UserError(f"{path}: {error}", "give it another file") from None
    return connection


def read_records(connection: sqlite3.Connection, project_paths: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Projects, sessions and what happened in them; `project_paths` has the paths of projects whose name only one has.

    What is of a session that is gone comes last, under the id it names.
    """
    sessions = list(_read_rows(connection, "sdk_sessions"))
    by_agent_id = {str(_get_first(row, *_AGENT_ID_COLUMNS)): row for row in sessions}
    by_mem_id = {str(mem_id): row for row in sessions if (mem_id := _get_first(row, *_MEM_ID_COLUMNS))}
    prompts = _group_by_session(
        _read_rows(connection, "user_prompts"), lambda row: by_agent_id.get(str(_get_first(row, *_AGENT_ID_COLUMNS)))
    )
    observations = _group_by_session(
        _read_rows(connection, "observations"), lambda row: by_mem_id.get(str(_get_first(row, *_MEM_ID_COLUMNS)))
    )
    summaries = _group_by_session(
        _read_rows(connection, "session_summaries"), lambda row: by_mem_id.get(str(_get_first(row, *_MEM_ID_COLUMNS)))
    )
    for name, at in _collect_projects(sessions).items():
        path = project_paths.get(name, name)
        yield {"what": "project", "path": path, "name": name, "remote": "", "at": at}
    for row in sessions:
        row_id = row["id"]
        prompt_records = [_build_prompt(row, child_row) for child_row in prompts.get(row_id, ())] or _build_only_prompt(
            row
        )
        last_at = max(
            [
                at
                for child_row in (*observations.get(row_id, ()), *summaries.get(row_id, ()))
                if (at := _parse_time(child_row, "created_at"))
            ]
            or [0.0]
        )
        yield _build_session(row, prompt_records, last_at, project_paths)
        yield from prompt_records
        yield from (_build_observation(row, child_row) for child_row in observations.get(row_id, ()))
        yield from (_build_summary(row, child_row) for child_row in summaries.get(row_id, ()))
    for rows_by_session, build_record in (
        (prompts, _build_prompt),
        (observations, _build_observation),
        (summaries, _build_summary),
    ):
        yield from (
            build_record({_AGENT_ID_COLUMNS[0]: _get_first(child_row, *_AGENT_ID_COLUMNS, *_MEM_ID_COLUMNS)}, child_row)
            for child_row in rows_by_session.get(_NO_SESSION, ())
        )


def _has_table(connection: sqlite3.Connection, table: str) -> bool:
    cursor = connection.execute("select 1 from sqlite_master where type = 'table' and name = ?", (table,))
    return cursor.fetchone() is not None


def _read_rows(connection: sqlite3.Connection, table: str) -> Iterator[dict[str, Any]]:
    if _has_table(connection, table):
        yield from (dict(row) for row in connection.execute(f"select * from {table} order by id"))


def _group_by_session(rows: Iterator[dict[str, Any]], find_session: Any) -> dict[int, list[dict[str, Any]]]:
    """Rows by the number of their session."""
    groups: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        session = find_session(row)
        groups.setdefault(session["id"] if session else _NO_SESSION, []).append(row)
    return groups


def _collect_projects(sessions: list[dict[str, Any]]) -> dict[str, float]:
    """Each project with the time it was first met."""
    first_times: dict[str, float] = {}
    for row in sessions:
        if name := _get_text(row, "project"):
            first_times[name] = min(
                first_times.get(name, _parse_time(row, "started_at")), _parse_time(row, "started_at")
            )
    return dict(sorted(first_times.items()))


def _build_session(
    row: Row, prompts: list[dict[str, Any]], last_at: float, project_paths: Mapping[str, str]
) -> dict[str, Any]:
    name, started_at, ended_at = (
        _get_text(row, "project"),
        _parse_time(row, "started_at"),
        _parse_time(row, "completed_at") or None,
    )
    times = [started_at, last_at, ended_at or 0.0, *(prompt["at"] for prompt in prompts)]
    return {
        "what": "session",
        **_get_session_ref(row),
        "project": project_paths.get(name, name) or None,
        "cwd": "",
        "transcript": "",
        "first_prompt": prompts[0]["prompt"] if prompts else "",
        "prompts": len(prompts),
        "status": "completed" if ended_at else "active" if prompts else "initialized",
        "reason": "",
        "started_at": started_at,
        "opened_at": started_at,
        "last_at": max(times),
        "ended_at": ended_at,
    }


def _get_session_ref(session: Row) -> dict[str, str]:
    source = _get_text(session, "platform_source")
    return {"host": _AGENTS.get(source, source), "session": str(_get_first(session, *_AGENT_ID_COLUMNS))}


def _build_prompt(session: Row, row: Row) -> dict[str, Any]:
    number, text = int(row.get("prompt_number") or 1), _get_text(row, "prompt_text")
    key = _build_key("prompt", _get_session_ref(session), number, text)
    at = _parse_time(row, "created_at") or _parse_time(session, "started_at")
    return {
        "what": "prompt",
        **_get_session_ref(session),
        "key": key,
        "number": number,
        "at": at,
        "prompt": text,
        "name": "",
    }


def _build_only_prompt(session: Row) -> list[dict[str, Any]]:
    """Before there was a table of prompts, a session kept its first."""
    text = _get_text(session, "user_prompt")
    return [_build_prompt(session, {"prompt_number": 1, "prompt_text": text})] if text else []


def _build_observation(session: Row, row: Row) -> dict[str, Any]:
    text = _get_text(row, "narrative") or _get_text(row, "text")
    title = _get_text(row, "title") or text.strip().partition("\n")[0][:_MAX_TITLE_CHARS]
    at = _parse_time(row, "created_at")
    lists = {name: _parse_list(row, name) for name in ("facts", "concepts", "files_read", "files_modified")}
    return {
        "what": "observation",
        **_get_session_ref(session),
        "key": _build_key("observation", _get_session_ref(session), at, row.get("type"), title, text, lists["facts"]),
        "at": at,
        "prompt": int(row.get("prompt_number") or 0),
        "type": _get_text(row, "type"),
        "title": title,
        "subtitle": _get_text(row, "subtitle"),
        "narrative": text,
        **lists,
        "events": [],
        "tokens": int(row.get("discovery_tokens") or 0),
        "times": 1,
        "made": FROM_CLAUDE_MEM,
    }


def _build_summary(session: Row, row: Row) -> dict[str, Any]:
    parts = {name: _get_text(row, name) for name in ("request", "investigated", "learned", "completed", "next_steps")}
    at = _parse_time(row, "created_at")
    key = _build_key("summary", _get_session_ref(session), at, parts)
    if notes := _get_text(row, "notes"):
        parts["learned"] = f"{parts['learned']}\n\n{notes}".strip()
    return {"what": "summary", **_get_session_ref(session), "key": key, "at": at, **parts, "made": FROM_CLAUDE_MEM}


def _get_first(row: Row, *names: str) -> Any:
    return next((row[name] for name in names if row.get(name)), "")


def _get_text(row: Row, name: str) -> str:
    value = row.get(name)
    return value if isinstance(value, str) else ""


def _parse_list(row: Row, name: str) -> list[str]:
    """A list that was kept as JSON; what is not JSON is the only thing in it."""
    text = _get_text(row, name)
    try:
        items = json.loads(text) if text else []
    except ValueError:
        items = text
    return [str(item) for item in items] if isinstance(items, list) else [str(items)]


def _parse_time(row: Row, name: str) -> float:
    """A time in seconds: kept in milliseconds, in the oldest versions in seconds, and beside it as text."""
    epoch = row.get(f"{name}_epoch")
    if isinstance(epoch, int | float) and epoch:
        return epoch / 1000 if epoch > 1e11 else float(epoch)
    try:
        return datetime.fromisoformat(_get_text(row, name)).timestamp()
    except ValueError:
        return 0.0


def _build_key(*parts: object) -> str:
    content = json.dumps(parts, sort_keys=True).encode()
    return f"{FROM_CLAUDE_MEM}:{blake2b(content, digest_size=16).hexdigest()}"
