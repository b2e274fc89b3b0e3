"""What was delivered to whom. The record, never the lock: claims decide who delivers."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from hardwon.store.db import transaction
from hardwon.words import Injection

_COLUMNS = tuple(Injection.__annotations__)


def add(connection: sqlite3.Connection, injections: Iterable[Injection]) -> None:
    """Record deliveries; one that is there already (spooled by a hook, then answered warm) stays as it is."""
    marks = ", ".join("?" * len(_COLUMNS))
    rows = [tuple(_storable(getattr(one, name)) for name in _COLUMNS) for one in injections]
    with transaction(connection):
        connection.executemany(f"insert or ignore into injections ({', '.join(_COLUMNS)}) values ({marks})", rows)


def _storable(value: object) -> object:
    """SQLite takes no lone surrogates, and hosts do send them."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def latest(connection: sqlite3.Connection, *, limit: int, after: int = 0) -> list[tuple[int, Injection]]:
    """The last deliveries with their numbers, oldest first."""
    rows = connection.execute(
        f"select id, {', '.join(_COLUMNS)} from injections where id > ? order by id desc limit ?", (after, limit)
    ).fetchall()
    return [(row["id"], Injection(*(row[name] for name in _COLUMNS))) for row in reversed(rows)]
