"""The memories table: proposed memories and what a person decided about each.

A memory's status goes from candidate to active or rejected, and from active to retired. The words that count are in the
file of an active memory; the table has those that were proposed or last read from the file.
"""

from __future__ import annotations

import json
import sqlite3

from hardwon.privacy.cleaning import clean_text
from hardwon.store.db import Connection, insert_row, transaction
from hardwon.store.observations import parse_json_list
from hardwon.types import Memory, replace

_COLUMNS = "id, key, type, text, project, session, status, source, evidence, file, at, decided_at"


def insert_memory(connection: Connection, memory: Memory) -> Memory:
    """Store a new memory; return it with its number."""
    row = memory.__dict__ | {"id": None, "text": clean_text(memory.text), "evidence": json.dumps(memory.evidence)}
    with transaction(connection):
        cursor = insert_row(connection, "memories", row)
    return replace(memory, id=int(cursor.lastrowid or 0))


def get_memory(connection: Connection, number: int) -> Memory | None:
    """Return a memory by its number, whatever its status; None if there is none."""
    row = connection.execute(f"select {_COLUMNS} from memories where id = ?", (number,)).fetchone()
    return _build_memory(row) if row else None


def list_memories(connection: Connection, *statuses: str, project: str | None = None) -> list[Memory]:
    """Return the memories of these statuses, or all, by age; for a project also memories that count everywhere."""
    # Without statuses the first parameter is an empty list, and every status fits.
    rows = connection.execute(
        f"""
        select {_COLUMNS} from memories where (?1 = '[]' or status in (select value from json_each(?1)))
        and (?2 is null or project in ('', ?2)) order by id
        """,
        (json.dumps(statuses), project),
    )
    return list(map(_build_memory, rows))


def record_memory_decision(connection: Connection, memory: Memory, status: str, file: str, at: float) -> bool:
    """Record a decision within the caller's transaction; return False if somebody decided meanwhile."""
    changed = connection.execute(
        "update memories set status = ?, file = ?, decided_at = ? where id = ? and status = ?",
        (status, file, at, memory.id, memory.status),
    ).rowcount
    return changed > 0


def update_memory_text(connection: Connection, number: int, text: str) -> None:
    """Store the words that the file says now, within the caller's transaction."""
    connection.execute("update memories set text = ? where id = ?", (clean_text(text), number))


def _build_memory(row: sqlite3.Row) -> Memory:
    return Memory(**{**dict(row), "evidence": tuple(parse_json_list(row["evidence"]))})
