"""When hardwon was set up in this home."""

from __future__ import annotations

from hardwon.store.db import Connection, transaction


def record_time(connection: Connection, now: float) -> None:
    """Note that hardwon is set up now, unless it was before."""
    with transaction(connection):
        connection.execute("insert or ignore into set_up (id, at) values (1, ?)", (now,))


def read_time(connection: Connection) -> float:
    """Return when hardwon was set up; 0 if nobody noted it, so that every session counts."""
    row = connection.execute("select at from set_up").fetchone()
    return float(row["at"]) if row else 0.0
