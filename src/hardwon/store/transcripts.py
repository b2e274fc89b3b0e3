"""How far each transcript was read, and the calls in them: what a trigger is tried on.

A mark and what was found up to it are committed together, so that a scan that dies anywhere goes on where it stopped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from hardwon.store import candidates
from hardwon.store.db import Connection, storable, transaction
from hardwon.types import Mark, Signal, word

SCAN = "scan"
MOST_CALLS = 200_000  # the oldest go first
_MARK = tuple(Mark.__annotations__)


class ScannedCall(NamedTuple):
    """A call in a transcript and how it ended: fine, failed, refused, denied, or not yet; then `waits` names the
    result."""

    key: str
    host: str
    session: str
    cwd: str
    at: str
    path: str
    line: int
    tool: str
    command: str
    file: str
    content: str
    outcome: str
    waits: str = ""


_CALL = ScannedCall._fields


@word
class Portion:
    """What was found in a stretch of a transcript, and the mark behind it; outcomes are of calls that waited."""

    path: str
    host: str
    mark: Mark
    calls: tuple[ScannedCall, ...] = ()
    outcomes: tuple[tuple[str, str], ...] = ()
    signals: tuple[Signal, ...] = ()
    cancels: tuple[tuple[str, str], ...] = ()  # the session, and what is taken back there


def prepare(connection: Connection) -> None:
    """Room in memory for all that a large transaction changes: what finds none is written twice."""
    connection.execute("pragma cache_size = -16000")


def keep(connection: Connection, portions: Iterable[Portion], at: float) -> int:
    """Commit portions whole; gives how many signals in them are new."""
    with transaction(connection):
        return sum(_keep(connection, portion, at) for portion in portions)


def _keep(connection: Connection, portion: Portion, at: float) -> int:
    _keep_calls(connection, portion.calls, at)
    connection.executemany(
        "update calls set outcome = ?, waits = '' where waits = ?",
        [(outcome, storable(waits)) for waits, outcome in portion.outcomes],
    )
    new = sum(candidates.keep_signal(connection, signal) for signal in portion.signals)
    for session, problem in portion.cancels:
        candidates.withdraw(connection, session, problem)
    set_mark(connection, SCAN, portion.path, portion.host, portion.mark, at)
    return new


def _keep_calls(connection: Connection, calls: Iterable[ScannedCall], taken_at: float) -> None:
    marks = ", ".join("?" * (len(_CALL) + 1))
    insert = f"insert or ignore into calls ({', '.join(_CALL)}, taken_at) values ({marks})"
    rows = [(*call, taken_at) for call in calls]
    try:
        connection.executemany(insert, rows)
    except UnicodeEncodeError:  # rare, and a look at each value beforehand is not cheap
        connection.executemany(insert, [tuple(map(storable, row)) for row in rows])


def set_mark(connection: Connection, purpose: str, path: str, host: str, mark: Mark, at: float) -> None:
    """Within the caller's transaction, with what was found up to it."""
    values = tuple(storable(getattr(mark, name)) for name in _MARK)
    connection.execute(
        f"insert or replace into transcripts (purpose, path, host, at, {', '.join(_MARK)})"
        f" values ({', '.join('?' * (len(_MARK) + 4))})",
        (purpose, storable(path), host, at, *values),
    )


def marks(connection: Connection) -> dict[str, Mark]:
    """Every transcript that was read, with its mark but without what the readers remember."""
    light = [name for name in _MARK if name not in ("reader", "watch")]
    rows = connection.execute(f"select path, {', '.join(light)} from transcripts where purpose = ?", (SCAN,))
    return {row["path"]: Mark(**{name: row[name] for name in light}) for row in rows}


def mark_of(connection: Connection, path: str, purpose: str = SCAN) -> Mark | None:
    row = connection.execute(
        f"select {', '.join(_MARK)} from transcripts where purpose = ? and path = ?", (purpose, storable(path))
    ).fetchone()
    return Mark(*(row[name] for name in _MARK)) if row else None


def forget(connection: Connection, paths: Iterable[str]) -> None:
    """Read these from the beginning the next time; what was found in them may be found elsewhere by now."""
    rows = [(storable(path),) for path in paths]
    with transaction(connection):
        connection.executemany("delete from transcripts where purpose = 'scan' and path = ?", rows)
        connection.executemany("update signals set path = '' where path = ?", rows)


def prune(connection: Connection) -> None:
    """Leave out the oldest calls where there are more than are of use."""
    with transaction(connection):
        connection.execute(
            "delete from calls where id <= (select id from calls order by id desc limit 1 offset ?)", (MOST_CALLS,)
        )


def calls(connection: Connection, tools: Iterable[str]) -> Iterator[ScannedCall]:
    """The calls of these tools that have ended, newest first."""
    named = tuple(tools)
    marks = ", ".join("?" * len(named))
    rows = connection.execute(
        f"select {', '.join(_CALL)} from calls where tool in ({marks}) and outcome != '' order by id desc", named
    )
    for row in rows:
        yield ScannedCall(*row)


def state(connection: Connection) -> tuple[dict[str, int], int]:
    """The offset reached in each transcript, and the malformed lines in all."""
    rows = connection.execute(
        "select path, offset, malformed from transcripts where purpose = ? order by path", (SCAN,)
    ).fetchall()
    return {row["path"]: row["offset"] for row in rows}, sum(row["malformed"] for row in rows)
