"""Read positions of transcripts (table `transcripts`), and their calls (table `calls`), on which triggers are tried.

A read position is committed together with the findings up to it, so a scan that dies continues where it stopped. A call
that has not ended when it is read is stored with the result it waits for, which a later portion brings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from hardwon.store import candidates
from hardwon.store.db import Connection, insert_row, transaction
from hardwon.types import MinedEpisode, ReadPosition

# Scan and import have a read position each: a scan is fast because it stores no results.
SCAN_PURPOSE = "scan"
HIDDEN_STATE = '{"hidden":true}'  # what follows in a transcript counts as private until the next prompt
_MAX_CALLS = 200_000  # the oldest go first
_POSITION_COLUMNS = tuple(ReadPosition.__annotations__)


class ScannedCall(NamedTuple):
    """A call in a transcript and how it ended: fine, failed, refused or denied.

    One that has not ended yet has in `waits` the key under which its result will come; else `waits` is empty.
    """

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


@dataclass(frozen=True, slots=True)
class Portion:
    """Everything found in part of a transcript, and the read position behind that part."""

    path: str
    agent: str
    read_position: ReadPosition
    calls: tuple[ScannedCall, ...] = ()
    outcomes: tuple[tuple[str, str], ...] = ()  # what a call of an earlier part waits for, and how it ended
    episodes: tuple[MinedEpisode, ...] = ()
    withdrawn_tags: tuple[tuple[str, str], ...] = ()  # the session, and what is taken back there


def enlarge_cache(connection: Connection) -> None:
    """Enlarge the page cache for a large transaction, since pages that do not fit are written twice."""
    connection.execute("pragma cache_size = -16000")


def store_portions(connection: Connection, portions: Iterable[Portion], at: float) -> int:
    """Store portions in one transaction; return how many signals in them are new."""
    with transaction(connection):
        return sum(_store_portion(connection, portion, at) for portion in portions)


def _store_portion(connection: Connection, portion: Portion, at: float) -> int:
    """Store a portion's findings and its read position; return how many of its episodes, rows of `signals`, are new."""
    # A rewritten transcript may have a new outcome for a known call.
    connection.executemany(
        f"""
        insert into calls ({", ".join(_CALL_COLUMNS)}, taken_at)
        values ({", ".join("?" * len(_CALL_COLUMNS))}, ?)
        on conflict (key) do update set outcome = excluded.outcome, waits = ''
        where excluded.outcome not in ('', calls.outcome)
        """,
        [(*call, at) for call in portion.calls],
    )
    if portion.outcomes:
        connection.executemany(
            # The second condition lets SQLite use the partial index; without it every row of the table is read.
            "update calls set outcome = ?, waits = '' where waits = ? and waits != ''",
            [(outcome, waits) for waits, outcome in portion.outcomes],
        )
    new_count = sum(candidates.store_episode(connection, episode) for episode in portion.episodes)
    for session, problem in portion.withdrawn_tags:
        candidates.withdraw_tags(connection, session, problem)
    set_read_position(connection, SCAN_PURPOSE, portion.path, portion.agent, portion.read_position, at)
    return new_count


def set_read_position(
    connection: Connection, purpose: str, path: str, agent: str, position: ReadPosition, at: float
) -> None:
    """Store a read position within the caller's transaction."""
    row = {"purpose": purpose, "path": path, "host": agent, "at": at, **position.__dict__}
    insert_row(connection, "transcripts", row, verb="insert or replace")


def list_read_positions(connection: Connection) -> dict[str, ReadPosition]:
    """Return how far each transcript was read, without what the readers remember."""
    light_columns = [name for name in _POSITION_COLUMNS if name not in ("reader", "watch")]
    rows = connection.execute(
        f"select path, {', '.join(light_columns)} from transcripts where purpose = ?", (SCAN_PURPOSE,)
    )
    positions = {}
    for path, *values in rows:
        positions[path] = ReadPosition(**dict(zip(light_columns, values, strict=True)))
    return positions


def find_read_position(connection: Connection, path: str, purpose: str = SCAN_PURPOSE) -> ReadPosition | None:
    """Return how far a transcript was read for this purpose; None if it was not read."""
    row = connection.execute(
        f"select {', '.join(_POSITION_COLUMNS)} from transcripts where purpose = ? and path = ?", (purpose, path)
    ).fetchone()
    return ReadPosition(*row) if row else None


def forget_transcripts(connection: Connection, paths: Iterable[str]) -> None:
    """Forget the read positions, so that these transcripts are read again; their findings may now be in other files."""
    rows = [(path,) for path in paths]
    with transaction(connection):
        connection.executemany("delete from transcripts where purpose = 'scan' and path = ?", rows)
        connection.executemany("update signals set path = '' where path = ?", rows)


def prune_calls(connection: Connection) -> None:
    """Delete the oldest calls beyond the limit."""
    with transaction(connection):
        connection.execute(
            "delete from calls where id <= (select id from calls order by id desc limit 1 offset ?)", (_MAX_CALLS,)
        )


def iter_ended_calls(connection: Connection, tools: Iterable[str]) -> Iterator[ScannedCall]:
    """Yield the calls of these tools that have ended, newest first."""
    tool_names = tuple(tools)
    qmarks = ", ".join("?" * len(tool_names))
    rows = connection.execute(
        f"select {', '.join(_CALL_COLUMNS)} from calls where tool in ({qmarks}) and outcome != '' order by id desc",
        tool_names,
    )
    yield from map(ScannedCall._make, rows)


def read_scan_progress(connection: Connection) -> tuple[dict[str, int], int]:
    """Return the offset reached in each transcript, and the malformed lines in all."""
    rows = connection.execute(
        "select path, offset, malformed from transcripts where purpose = ? order by path", (SCAN_PURPOSE,)
    ).fetchall()
    return {row["path"]: row["offset"] for row in rows}, sum(row["malformed"] for row in rows)
