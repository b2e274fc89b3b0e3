"""The time when hardwon was set up in this home."""

from __future__ import annotations

from hardwon.store.db import Connection, fetch_value


def record_time(connection: Connection, now: float) -> None:
    """Note that hardwon is set up now, unless it was before."""
    connection.execute("insert or ignore into set_up (id, at) values (1, ?)", (now,))


def read_time(connection: Connection) -> float:
    """Return when hardwon was set up; 0 if it was not recorded, so that every session counts."""
    return float(fetch_value(connection, "select at from set_up") or 0.0)
