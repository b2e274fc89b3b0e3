"""What was delivered to whom. The record, never the lock: claims decide who delivers."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from hardwon.privacy.limits import DUPLICATE_SECONDS
from hardwon.store.db import to_storable, transaction
from hardwon.types import Delivery

_COLUMNS = tuple(Delivery.__annotations__)


def record_deliveries(connection: sqlite3.Connection, deliveries: Iterable[Delivery]) -> None:
    """Record deliveries; one that is there already (spooled by a hook, then answered warm) stays as it is."""
    with transaction(connection):
        insert_deliveries(connection, deliveries)


def insert_deliveries(connection: sqlite3.Connection, deliveries: Iterable[Delivery]) -> None:
    """The same, within the caller's transaction.

    Where the host names no calls, two hooks of one are told by how near they are.
    """
    placeholders = ", ".join(f":{name}" for name in _COLUMNS)
    rows = [{name: to_storable(value) for name, value in delivery.__dict__.items()} for delivery in deliveries]
    connection.executemany(
        f"insert or ignore into injections ({', '.join(_COLUMNS)}) select {placeholders}"
        " where instr(:event, ':') or not exists (select 1 from injections where session = :session"
        " and at between :at - :twice and :at + :twice and not instr(event, ':') and event != :event"
        " and lesson = :lesson and host = :host and agent = :agent and kind = :kind and tool = :tool)",
        [{**row, "twice": DUPLICATE_SECONDS} for row in rows],
    )


def list_latest_deliveries(
    connection: sqlite3.Connection, *, limit: int, after_id: int = 0
) -> list[tuple[int, Delivery]]:
    """The last deliveries with their numbers, oldest first."""
    rows = connection.execute(
        f"select id, {', '.join(_COLUMNS)} from injections where id > ? order by id desc limit ?", (after_id, limit)
    ).fetchall()
    return [(row["id"], Delivery(*(row[name] for name in _COLUMNS))) for row in reversed(rows)]


def count_by_lesson(connection: sqlite3.Connection) -> dict[str, tuple[int, float]]:
    """How often each lesson was delivered, and when last."""
    rows = connection.execute("select lesson, count(*), max(at) from injections group by lesson")
    return {lesson: (count, latest) for lesson, count, latest in rows}
