"""What was delivered to whom. The record, never the lock: claims decide who delivers."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from hardwon.store.db import storable, transaction
from hardwon.words import Injection

_COLUMNS = tuple(Injection.__annotations__)


def add(connection: sqlite3.Connection, injections: Iterable[Injection]) -> None:
    """Record deliveries; one that is there already (spooled by a hook, then answered warm) stays as it is."""
    with transaction(connection):
        put(connection, injections)


def put(connection: sqlite3.Connection, injections: Iterable[Injection]) -> None:
    """The same, within the caller's transaction."""
    marks = ", ".join("?" * len(_COLUMNS))
    rows = [tuple(storable(getattr(one, name)) for name in _COLUMNS) for one in injections]
    connection.executemany(f"insert or ignore into injections ({', '.join(_COLUMNS)}) values ({marks})", rows)


def latest(connection: sqlite3.Connection, *, limit: int, after: int = 0) -> list[tuple[int, Injection]]:
    """The last deliveries with their numbers, oldest first."""
    rows = connection.execute(
        f"select id, {', '.join(_COLUMNS)} from injections where id > ? order by id desc limit ?", (after, limit)
    ).fetchall()
    return [(row["id"], Injection(*(row[name] for name in _COLUMNS))) for row in reversed(rows)]


def by_lesson(connection: sqlite3.Connection) -> dict[str, tuple[int, float]]:
    """How often each lesson was delivered, and when last."""
    rows = connection.execute("select lesson, count(*), max(at) from injections group by lesson")
    return {lesson: (count, latest) for lesson, count, latest in rows}
