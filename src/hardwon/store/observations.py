"""Observations and summaries, as they were distilled from sessions.

Each turn keeps all that it says, also what other turns said before: so it can be distilled anew, moved or deleted in
any order. What is the same is merged when it is read across sessions. Nothing counts up anywhere, so nothing can be
counted twice: `times` is how often the turns that are stored say it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from hardwon.store.db import Connection, to_storable, transaction
from hardwon.types import Observation, Summary

MERGE_WINDOW_SECONDS = 30 * 86_400.0
ORPHAN_TURN = -1  # the number of a turn whose prompt is gone: nothing replaces what is known of it
_LIST_COLUMNS = frozenset({"facts", "concepts", "files_read", "files_modified", "events"})
_NAMES = tuple(Observation.__annotations__)
_SUMMARY_COLUMNS = tuple(Summary.__annotations__)
_FROM_SAME = (
    "from observations as other join sessions as its on its.id = other.session where other.title = observations.title"
    " and other.type = observations.type and other.files_read = observations.files_read"
    " and other.files_modified = observations.files_modified"
    " and its.project is (select project from sessions where sessions.id = observations.session)"
)

# Work without a telling sentence has no title; where it is listed, its first fact stands for it.
TITLE_OR_FACT = "iif(title <> '', title, iif(json_valid(facts), coalesce(json_extract(facts, '$[0]'), ''), ''))"

# Of those that say the same within some time the latest stands for all: a condition, and how often it was said.
IS_NEWEST_DUPLICATE = (
    f"not exists (select 1 {_FROM_SAME} and (other.at, other.key) > (observations.at, observations.key)"
    f" and other.at < observations.at + {MERGE_WINDOW_SECONDS})"
)
OCCURRENCES = (
    f"(select sum(other.times) {_FROM_SAME} and (other.at, other.key) <= (observations.at, observations.key)"
    f" and other.at > observations.at - {MERGE_WINDOW_SECONDS})"
)

FROM_CLAUDE_MEM = "claude-mem"  # made by another memory, and never made again from our events


def replace_for_turn(connection: Connection, session: int, number: int, observations: Sequence[Observation]) -> None:
    """What is known of a turn from now on, within the caller's transaction; what another memory told of it stays."""
    keys = [to_storable(observation.key) for observation in observations]
    connection.execute(
        "delete from observations where session = ? and prompt = ? and made != ?"
        f" and key not in ({', '.join('?' * len(keys))})",
        (session, number, FROM_CLAUDE_MEM, *keys),
    )
    store_observations(connection, session, number, observations)


def store_observations(connection: Connection, session: int, number: int, observations: Iterable[Observation]) -> None:
    """Keep observations of a turn, within the caller's transaction; one whose key is known is changed in its place."""
    names = ("session", "prompt", *_NAMES)
    connection.executemany(
        f"insert into observations ({', '.join(names)}) values ({', '.join('?' * len(names))}) {_build_upsert(names)}",
        [
            (session, number, *(_encode_value(name, getattr(observation, name)) for name in _NAMES))
            for observation in observations
        ],
    )


def delete_for_session(connection: Connection, session: int) -> None:
    """Delete what was made of a session: its observations and its summary."""
    with transaction(connection):
        connection.execute("delete from observations where session = ?", (session,))
        connection.execute("delete from summaries where session = ?", (session,))


def find_by_ids(connection: Connection, ids: Sequence[int]) -> dict[int, Observation]:
    """These observations by their numbers, in the order asked for; `times` counts all turns that say the same."""
    rows = connection.execute(
        f"select id, {', '.join(_NAMES)}, {OCCURRENCES} as often from observations where id in "
        f"({', '.join('?' * len(ids))})",
        tuple(ids),
    )
    by_id = {row["id"]: _build_observation(row, times=row["often"]) for row in rows}
    return {observation_id: by_id[observation_id] for observation_id in ids if observation_id in by_id}


def list_for_session(connection: Connection, session: int) -> list[Observation]:
    """All that the turns of one session said, in order, each with its own count."""
    rows = connection.execute(
        f"select {', '.join(_NAMES)} from observations where session = ? order by at, key", (session,)
    )
    return [_build_observation(row) for row in rows]


def list_rows_for_session(connection: Connection, session: int) -> list[dict[str, Any]]:
    """All that was observed in a session, in order, with the numbers by which it can be asked for."""
    names = ("id", "prompt", *_NAMES)
    rows = connection.execute(
        f"select {', '.join(names)} from observations where session = ? order by at, key", (session,)
    )
    return [
        {name: list(parse_json_list(row[name])) if name in _LIST_COLUMNS else row[name] for name in names}
        for row in rows
    ]


def list_for_turn(connection: Connection, session: int, number: int) -> list[Observation]:
    """What one turn said; what another memory told of it is not ours."""
    rows = connection.execute(
        f"select {', '.join(_NAMES)} from observations where session = ? and prompt = ? and made != ? order by at, key",
        (session, number, FROM_CLAUDE_MEM),
    )
    return [_build_observation(row) for row in rows]


def list_after(connection: Connection, after_id: int, limit: int = 200) -> list[dict[str, Any]]:
    """What was observed since this one, in short; of very much the latest."""
    rows = connection.execute(
        "select observations.id, host, sessions.session, observations.at, type, title, made from observations"
        " join sessions on sessions.id = observations.session where observations.id > ?"
        " order by observations.id desc limit ?",
        (after_id, limit),
    )
    return [dict(row) for row in rows][::-1]


def find_last_id(connection: Connection) -> int:
    last_id: int = connection.execute("select coalesce(max(id), 0) from observations").fetchone()[0]
    return last_id


def list_latest(connection: Connection, *, limit: int, project: str = "") -> list[tuple[int, Observation]]:
    """The latest observations with their numbers, newest first, those that say the same merged."""
    rows = connection.execute(
        f"select id, {', '.join(_NAMES)}, {OCCURRENCES} as often from observations where {IS_NEWEST_DUPLICATE} "
        "and (?1 = '' or session in"
        " (select sessions.id from sessions join projects on projects.id = sessions.project where path = ?1))"
        " order by at desc, key limit ?2",
        (project, limit),
    )
    return [(row["id"], _build_observation(row, times=row["often"])) for row in rows]


def replace_summary(connection: Connection, session: int, summary: Summary, fingerprint: str = "") -> bool:
    """The one summary of a session, in place of the one before, within the caller's transaction; False if the session
    is gone."""
    names = ("session", "print", *_SUMMARY_COLUMNS)
    if not connection.execute("select 1 from sessions where id = ?", (session,)).fetchone():
        return False
    connection.execute(
        "delete from summaries where session = ? and made != ? and key != ?",
        (session, FROM_CLAUDE_MEM, to_storable(summary.key)),
    )
    connection.execute(
        f"insert into summaries ({', '.join(names)}) values ({', '.join('?' * len(names))}) {_build_upsert(names)}",
        (session, fingerprint, *(to_storable(getattr(summary, name)) for name in _SUMMARY_COLUMNS)),
    )
    return True


def set_summary_fingerprint(connection: Connection, session: int, fingerprint: str) -> None:
    """What a summary that came from elsewhere counts as made from."""
    connection.execute(
        "update summaries set print = ? where session = ? and made != ? and print = ''",
        (fingerprint, session, FROM_CLAUDE_MEM),
    )


def read_summary_fingerprint(connection: Connection, session: int) -> str:
    """The print of what the session's own summary was made from; empty if there is none."""
    row = connection.execute(
        "select print from summaries where session = ? and made != ?", (session, FROM_CLAUDE_MEM)
    ).fetchone()
    return row["print"] if row else ""


def find_summary(connection: Connection, session: int) -> Summary | None:
    """The session's summary, our own before another memory's."""
    row = connection.execute(
        f"select {', '.join(_SUMMARY_COLUMNS)} from summaries where session = ? order by made = ?, at desc limit 1",
        (session, FROM_CLAUDE_MEM),
    ).fetchone()
    return Summary(*row) if row else None


def _build_upsert(names: Sequence[str]) -> str:
    """What happens to a row whose key is known; one that says the same is left alone, and nobody indexes it anew."""
    changes = [name for name in names if name != "key"]
    return (
        f"on conflict (key) do update set {', '.join(f'{name} = excluded.{name}' for name in changes)}"
        f" where ({', '.join(changes)}) is not ({', '.join(f'excluded.{name}' for name in changes)})"
    )


def _encode_value(name: str, value: Any) -> object:
    return to_storable(json.dumps(list(value), separators=(",", ":")) if name in _LIST_COLUMNS else value)


def _build_observation(row: Any, **changes: Any) -> Observation:
    values = {name: parse_json_list(row[name]) if name in _LIST_COLUMNS else row[name] for name in _NAMES}
    return Observation(**{**values, **changes})


def parse_json_list(text: str) -> tuple[str, ...]:
    """A list as it is stored; what was imported may be something else."""
    try:
        value = json.loads(text)
    except ValueError:
        return (text,) if text else ()
    return tuple(map(str, value)) if isinstance(value, list) else (text,)
