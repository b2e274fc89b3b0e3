"""Read claude-mem's database as records that can be imported.

Its columns were renamed over time, so each value is looked up under every name it had. Projects are known only by the
folder's name. A key is a hash of the row's content, so that the same row in another copy is the same record.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from hashlib import blake2b
from typing import Any

from hardwon.data.exports import ExportRecord
from hardwon.errors import UserError
from hardwon.store import db
from hardwon.store.observations import FROM_CLAUDE_MEM, parse_json_list

# Before it supported other agents, claude-mem did not store which one it was.
_AGENTS = {"claude": "claude-code", "": "claude-code"}
_AGENT_ID_COLUMNS = ("content_session_id", "claude_session_id")  # the agent's id of a session
_ID_COLUMNS = (*_AGENT_ID_COLUMNS, "memory_session_id", "sdk_session_id")  # and claude-mem's own
_MAX_TITLE_CHARS = 100


def open_database(path: str) -> sqlite3.Connection:
    """Open the file to read it; the caller closes it. Raise UserError if it is not claude-mem's."""
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


def read_records(connection: sqlite3.Connection, project_paths: Mapping[str, str]) -> Iterator[ExportRecord]:
    """Yield projects, sessions and what happened in them; `project_paths` has the paths of unique project names.

    Records of a session that is gone come last, under the id they name.
    """
    sessions = _read_rows(connection, "sdk_sessions")
    sessions_by_id: dict[str, db.Row] = {}
    for session in sessions:
        for name in _ID_COLUMNS:
            if session.get(name):
                sessions_by_id[str(session[name])] = session
    records_by_session: dict[int, list[ExportRecord]] = {session["id"]: [] for session in sessions}
    orphans: list[ExportRecord] = []
    for table, build_record in _BUILDERS.items():
        for row in _read_rows(connection, table):
            # The tables refer to sessions by the agent's id or by claude-mem's own, depending on its version.
            session_id = str(_get_first(row, *_ID_COLUMNS))
            if session_id in sessions_by_id:
                session = sessions_by_id[session_id]
                records_by_session[session["id"]].append(build_record(session, row))
            else:
                orphans.append(build_record({_ID_COLUMNS[0]: session_id}, row))
    first_times: dict[str, float] = {}
    for session in sessions:
        name = _get_text(session, "project")
        started_at = _parse_time(session, "started_at")
        first_times[name] = min(first_times.get(name, started_at), started_at)
    # An import needs a session's project before the session.
    for name, at in sorted(first_times.items()):
        if name:
            yield {"what": "project", "path": project_paths.get(name, name), "name": name, "remote": "", "at": at}
    for session in sessions:
        records = records_by_session[session["id"]]
        # The oldest versions had no table of prompts, and stored the first one with the session.
        first_prompt = _get_text(session, "user_prompt")
        if first_prompt and not any(record["what"] == "prompt" for record in records):
            records = [_build_prompt(session, {"prompt_number": 1, "prompt_text": first_prompt}), *records]
        yield _build_session(session, records, project_paths)
        yield from records
    yield from orphans


def _has_table(connection: sqlite3.Connection, table: str) -> bool:
    query = "select 1 from sqlite_master where type = 'table' and name = ?"
    return bool(db.fetch_value(connection, query, table))


def _read_rows(connection: sqlite3.Connection, table: str) -> list[db.Row]:
    """Return the rows of a table; none if this version of claude-mem did not have it."""
    if not _has_table(connection, table):
        return []
    return db.fetch_dicts(connection, f"select * from {table} order by id")


def _build_session(row: db.Row, records: Sequence[ExportRecord], project_paths: Mapping[str, str]) -> ExportRecord:
    """Return a session's record; its counts and its last time come from what happened in it."""
    name = _get_text(row, "project")
    started_at = _parse_time(row, "started_at")
    ended_at = _parse_time(row, "completed_at") or None
    prompts = [record["prompt"] for record in records if record["what"] == "prompt"]
    status = "initialized"
    if ended_at:
        status = "completed"
    elif prompts:
        status = "active"
    return {
        "what": "session",
        **_get_session_ref(row),
        "project": project_paths.get(name, name) or None,
        "cwd": "",
        "transcript": "",
        "first_prompt": prompts[0] if prompts else "",
        "prompts": len(prompts),
        "status": status,
        "reason": "",
        "started_at": started_at,
        "opened_at": started_at,
        "last_at": max([started_at, ended_at or 0.0, *(record["at"] for record in records)]),
        "ended_at": ended_at,
    }


def _get_session_ref(session: db.Row) -> dict[str, str]:
    """Return the two fields by which every record names its session: the agent, and the agent's id of it."""
    source = _get_text(session, "platform_source")
    return {"host": _AGENTS.get(source, source), "session": str(_get_first(session, *_AGENT_ID_COLUMNS))}


def _build_prompt(session: db.Row, row: db.Row) -> ExportRecord:
    """Return the record of a prompt; its key is the same in every copy of the database."""
    number = int(row.get("prompt_number") or 1)
    text = _get_text(row, "prompt_text")
    return {
        "what": "prompt",
        **_get_session_ref(session),
        "key": _build_key("prompt", _get_session_ref(session), number, text),
        "number": number,
        "at": _parse_time(row, "created_at") or _parse_time(session, "started_at"),
        "prompt": text,
        "name": "",
    }


def _build_observation(session: db.Row, row: db.Row) -> ExportRecord:
    """Return the record of an observation; one without a title gets the beginning of its text."""
    text = _get_text(row, "narrative") or _get_text(row, "text")
    title = _get_text(row, "title") or text.strip().partition("\n")[0][:_MAX_TITLE_CHARS]
    at = _parse_time(row, "created_at")
    lists = {}
    for name in ("facts", "concepts", "files_read", "files_modified"):
        lists[name] = list(parse_json_list(_get_text(row, name)))
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


def _build_summary(session: db.Row, row: db.Row) -> ExportRecord:
    """Return the record of a session's summary."""
    parts = {name: _get_text(row, name) for name in ("request", "investigated", "learned", "completed", "next_steps")}
    at = _parse_time(row, "created_at")
    key = _build_key("summary", _get_session_ref(session), at, parts)
    # There is no field for notes here, so they are added to what was learned.
    if notes := _get_text(row, "notes"):
        parts["learned"] = f"{parts['learned']}\n\n{notes}".strip()
    return {"what": "summary", **_get_session_ref(session), "key": key, "at": at, **parts, "made": FROM_CLAUDE_MEM}


_BUILDERS = {"user_prompts": _build_prompt, "observations": _build_observation, "session_summaries": _build_summary}


def _get_first(row: db.Row, *names: str) -> Any:
    """Return the value of the first of these columns that has one; empty if none has."""
    for name in names:
        if row.get(name):
            return row[name]
    return ""


def _get_text(row: db.Row, name: str) -> str:
    """Return a text column; empty if the row has none, or something else."""
    value = row.get(name)
    return value if isinstance(value, str) else ""


def _parse_time(row: db.Row, name: str) -> float:
    """Return a time in seconds; 0 if there is none.

    It is stored in milliseconds, by the oldest versions in seconds, and also as text.
    """
    epoch = row.get(f"{name}_epoch")
    if isinstance(epoch, int | float) and epoch:
        # 1e11 seconds is the year 5138, 1e11 milliseconds is 1973.
        return epoch / 1000 if epoch > 1e11 else float(epoch)
    try:
        return datetime.fromisoformat(_get_text(row, name)).timestamp()
    except ValueError:
        return 0.0


def _build_key(*parts: object) -> str:
    """Return the key of a record: a hash of its content, since its row number differs in another copy."""
    content = json.dumps(parts, sort_keys=True).encode()
    return f"{FROM_CLAUDE_MEM}:{blake2b(content, digest_size=16).hexdigest()}"
