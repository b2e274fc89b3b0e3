"""How far each transcript was read, and the calls in them: what a trigger is tried on.

A mark and what was found up to it are committed together, so that a scan that dies anywhere goes on where it stopped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from hardwon.store import candidates
from hardwon.store.db import Connection, to_storable, transaction
from hardwon.types import MinedEpisode, ReadPosition, frozen

SCAN_PURPOSE = "scan"
MAX_CALLS = 200_000  # the oldest go first
_POSITION_COLUMNS = tuple(ReadPosition.__annotations__)


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


_CALL_COLUMNS = ScannedCall._fields


@frozen
class Portion:
    """What was found in a stretch of a transcript, and the mark behind it; outcomes are of calls that waited."""

    path: str
    agent: str
    read_position: ReadPosition
    calls: tuple[ScannedCall, ...] = ()
    outcomes: tuple[tuple[str, str], ...] = ()
    episodes: tuple[MinedEpisode, ...] = ()
    withdrawn_tags: tuple[tuple[str, str], ...] = ()  # the session, and what is taken back there


def enlarge_cache(connection: Connection) -> None:
    """Room in memory for all that a large transaction changes: what finds none is written twice."""
    connection.execute("pragma cache_size = -16000")


def store_portions(connection: Connection, portions: Iterable[Portion], at: float) -> int:
    """Commit portions whole; gives how many signals in them are new."""
    with transaction(connection):
        return sum(_store_portion(connection, portion, at) for portion in portions)


def _store_portion(connection: Connection, portion: Portion, at: float) -> int:
    _store_calls(connection, portion.calls, at)
    connection.executemany(
        "update calls set outcome = ?, waits = '' where waits = ?",
        [(outcome, to_storable(waits)) for waits, outcome in portion.outcomes],
    )
    new_count = sum(candidates.store_episode(connection, episode) for episode in portion.episodes)
    for session, problem in portion.withdrawn_tags:
        candidates.withdraw_tags(connection, session, problem)
    set_read_position(connection, SCAN_PURPOSE, portion.path, portion.agent, portion.read_position, at)
    return new_count


def _store_calls(connection: Connection, calls: Iterable[ScannedCall], imported_at: float) -> None:
    qmarks = ", ".join("?" * (len(_CALL_COLUMNS) + 1))
    # A transcript that was written anew may tell another outcome of a call that is known.
    insert = (
        f"insert into calls ({', '.join(_CALL_COLUMNS)}, taken_at) values ({qmarks}) on conflict (key) do update"
        " set outcome = excluded.outcome, waits = '' where excluded.outcome not in ('', calls.outcome)"
    )
    rows = [(*call, imported_at) for call in calls]
    try:
        connection.executemany(insert, rows)
    except UnicodeEncodeError:  # rare, and a look at each value beforehand is not cheap
        connection.executemany(insert, [tuple(map(to_storable, row)) for row in rows])


def set_read_position(
    connection: Connection, purpose: str, path: str, agent: str, position: ReadPosition, at: float
) -> None:
    """Within the caller's transaction, with what was found up to it."""
    values = tuple(to_storable(getattr(position, name)) for name in _POSITION_COLUMNS)
    connection.execute(
        f"insert or replace into transcripts (purpose, path, host, at, {', '.join(_POSITION_COLUMNS)})"
        f" values ({', '.join('?' * (len(_POSITION_COLUMNS) + 4))})",
        (purpose, to_storable(path), agent, at, *values),
    )


def list_read_positions(connection: Connection) -> dict[str, ReadPosition]:
    """Every transcript that was read, with its mark but without what the readers remember."""
    light_columns = [name for name in _POSITION_COLUMNS if name not in ("reader", "watch")]
    rows = connection.execute(
        f"select path, {', '.join(light_columns)} from transcripts where purpose = ?", (SCAN_PURPOSE,)
    )
    return {row["path"]: ReadPosition(**{name: row[name] for name in light_columns}) for row in rows}


def find_read_position(connection: Connection, path: str, purpose: str = SCAN_PURPOSE) -> ReadPosition | None:
    row = connection.execute(
        f"select {', '.join(_POSITION_COLUMNS)} from transcripts where purpose = ? and path = ?",
        (purpose, to_storable(path)),
    ).fetchone()
    return ReadPosition(*(row[name] for name in _POSITION_COLUMNS)) if row else None


def forget_transcripts(connection: Connection, paths: Iterable[str]) -> None:
    """Read these from the beginning the next time; what was found in them may be found elsewhere by now."""
    rows = [(to_storable(path),) for path in paths]
    with transaction(connection):
        connection.executemany("delete from transcripts where purpose = 'scan' and path = ?", rows)
        connection.executemany("update signals set path = '' where path = ?", rows)


def prune_calls(connection: Connection) -> None:
    """Leave out the oldest calls where there are more than are of use."""
    with transaction(connection):
        connection.execute(
            "delete from calls where id <= (select id from calls order by id desc limit 1 offset ?)", (MAX_CALLS,)
        )


def iter_ended_calls(connection: Connection, tools: Iterable[str]) -> Iterator[ScannedCall]:
    """The calls of these tools that have ended, newest first."""
    tool_names = tuple(tools)
    qmarks = ", ".join("?" * len(tool_names))
    rows = connection.execute(
        f"select {', '.join(_CALL_COLUMNS)} from calls where tool in ({qmarks}) and outcome != '' order by id desc",
        tool_names,
    )
    for row in rows:
        yield ScannedCall(*row)


def read_scan_progress(connection: Connection) -> tuple[dict[str, int], int]:
    """The offset reached in each transcript, and the malformed lines in all."""
    rows = connection.execute(
        "select path, offset, malformed from transcripts where purpose = ? order by path", (SCAN_PURPOSE,)
    ).fetchall()
    return {row["path"]: row["offset"] for row in rows}, sum(row["malformed"] for row in rows)
