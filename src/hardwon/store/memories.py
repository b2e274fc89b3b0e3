"""Memories that were proposed and what a person decided about each; the words that count are in its file."""

from __future__ import annotations

import json
import sqlite3

from hardwon.privacy.cleaning import clean_text
from hardwon.store.db import Connection, to_storable, transaction
from hardwon.store.observations import parse_json_list
from hardwon.types import Memory, replace

_COLUMNS = "id, key, type, text, project, session, status, source, evidence, file, at, decided_at"


def insert(connection: Connection, memory: Memory) -> Memory:
    """Keep a new one; it gets its number."""
    values = (
        memory.key,
        memory.type,
        clean_text(memory.text),
        memory.project,
        memory.session,
        memory.status,
        memory.source,
        json.dumps(memory.evidence),
        memory.file,
        memory.at,
        memory.decided_at,
    )
    with transaction(connection):
        cursor = connection.execute(
            "insert into memories (key, type, text, project, session, status, source, evidence, file, at, decided_at)"
            " values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            tuple(map(to_storable, values)),
        )
    return replace(memory, id=int(cursor.lastrowid or 0))


def get(connection: Connection, number: int) -> Memory | None:
    row = connection.execute(f"select {_COLUMNS} from memories where id = ?", (number,)).fetchone()
    return _build_memory(row) if row else None


def list_memories(connection: Connection, *statuses: str, project: str | None = None) -> list[Memory]:
    """Those of these statuses, or all, in the order they came; for a project also those that count everywhere."""
    rows = connection.execute(
        f"select {_COLUMNS} from memories where (? = '[]' or status in (select value from json_each(?)))"
        " and (? is null or project in ('', ?)) order by id",
        (*[json.dumps(statuses)] * 2, *[to_storable(project)] * 2),
    )
    return list(map(_build_memory, rows))


def record_decision(connection: Connection, memory: Memory, status: str, file: str, at: float) -> bool:
    """Within the caller's transaction; False if somebody decided meanwhile."""
    return bool(
        connection.execute(
            "update memories set status = ?, file = ?, decided_at = ? where id = ? and status = ?",
            (status, to_storable(file), at, memory.id, memory.status),
        ).rowcount
    )


def reword(connection: Connection, number: int, text: str) -> None:
    """What a person approved is what the file says now; within the caller's transaction."""
    connection.execute("update memories set text = ? where id = ?", (to_storable(clean_text(text)), number))


def _build_memory(row: sqlite3.Row) -> Memory:
    return Memory(**{**dict(row), "evidence": tuple(parse_json_list(row["evidence"]))})
