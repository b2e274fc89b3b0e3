"""The ledger of firings, most of them deliveries. It is not the lock: claims decide who delivers."""

from __future__ import annotations

from collections.abc import Iterable

from hardwon.clock import DUPLICATE_SECONDS
from hardwon.store.db import Connection
from hardwon.types import Delivery, Event

_COLUMNS = tuple(Delivery.__annotations__)
# `event` is `session:call` where the agent names its calls, else the id that the hook minted, which has no colon.
_NAMES_CALL = "instr({event}, ':')"
WAS_TOLD = "arm in ('told', 'live')"  # the other firings were only recorded


def insert_deliveries(connection: Connection, deliveries: Iterable[Delivery]) -> None:
    """Store deliveries within the caller's transaction; known ones stay unchanged.

    A delivery comes twice when a hook spooled it and the worker then answered, or when two hooks of hardwon ran. If the
    agent gives its calls no ids, two deliveries close together in time count as one.
    """
    connection.executemany(
        f"""
        insert or ignore into injections ({", ".join(_COLUMNS)}) select {", ".join(f":{name}" for name in _COLUMNS)}
        where {_NAMES_CALL.format(event=":event")} or not exists (
            select 1 from injections where session = :session and at between :at - :twice and :at + :twice
            and not {_NAMES_CALL.format(event="event")} and event != :event and lesson = :lesson and host = :host
            and agent = :agent and kind = :kind and tool = :tool)
        """,
        [{**delivery.__dict__, "twice": DUPLICATE_SECONDS} for delivery in deliveries],
    )


def list_latest_deliveries(connection: Connection, *, limit: int, after_id: int = 0) -> list[tuple[int, Delivery]]:
    """Return the last deliveries with their numbers, oldest first."""
    rows = connection.execute(
        f"""
        select id, {", ".join(_COLUMNS)} from injections where id > ? and {WAS_TOLD} order by id desc limit ?
        """,
        (after_id, limit),
    ).fetchall()
    return [(row_id, Delivery(*values)) for row_id, *values in reversed(rows)]


def count_by_lesson(connection: Connection) -> dict[str, tuple[int, float]]:
    """Return how often each lesson was delivered, and when last."""
    rows = connection.execute(f"select lesson, count(*), max(at) from injections where {WAS_TOLD} group by lesson")
    return {lesson: (count, latest) for lesson, count, latest in rows}


def count_requests(connection: Connection, event: Event, slug: str, name: str) -> tuple[int, int]:
    """Return how often an agent was asked for a lesson in the event's session, and about this episode in any."""
    row = connection.execute(
        """
        select coalesce(sum(host = ? and session = ?), 0), coalesce(sum(lesson = ?), 0) from injections where slug = ?
        """,
        (event.host, event.session, name, slug),
    ).fetchone()
    return row[0], row[1]
