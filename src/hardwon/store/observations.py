"""Observations and summaries, as they were distilled from sessions.

Each turn keeps all that it says, also what other turns said before: so it can be distilled again, moved or deleted in
any order. What is the same is merged when it is read across sessions.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from hardwon.store.db import Connection, fetch_dicts, fetch_value, insert_row, transaction
from hardwon.types import Observation, Summary

MERGE_WINDOW_SECONDS = 30 * 86_400.0
ORPHAN_TURN = -1  # the number of a turn whose prompt was deleted: nothing replaces what is known of it
FROM_CLAUDE_MEM = "claude-mem"  # made by another memory, and never made again from our events
_LIST_COLUMNS = frozenset({"facts", "concepts", "files_read", "files_modified", "events"})
_NAMES = tuple(Observation.__annotations__)
_SUMMARY_COLUMNS = tuple(Summary.__annotations__)
# Work without a telling sentence has no title; where it is listed, its first fact stands for it.
TITLE_OR_FACT = "iif(title <> '', title, iif(json_valid(facts), coalesce(json_extract(facts, '$[0]'), ''), ''))"

# Of those that say the same within some time the latest stands for all.
IS_NEWEST_DUPLICATE = f"""
    not exists (select 1 from observations as other join sessions as its on its.id = other.session
        where other.title = observations.title and other.type = observations.type
        and other.files_read = observations.files_read and other.files_modified = observations.files_modified
        and its.project is (select project from sessions where sessions.id = observations.session)
        and (other.at, other.key) > (observations.at, observations.key)
        and other.at < observations.at + {MERGE_WINDOW_SECONDS})
    """


def replace_for_turn(connection: Connection, session: int, number: int, observations: Sequence[Observation]) -> None:
    """Replace what is known of a turn, within the caller's transaction; what another memory told of it stays."""
    keys = [observation.key for observation in observations]
    connection.execute(
        f"""
        delete from observations where session = ? and prompt = ? and made != ?
        and key not in ({", ".join("?" * len(keys))})
        """,
        (session, number, FROM_CLAUDE_MEM, *keys),
    )
    store_observations(connection, session, number, observations)


def store_observations(connection: Connection, session: int, number: int, observations: Iterable[Observation]) -> None:
    """Store observations of a turn, within the caller's transaction; one whose key is known is changed in place."""
    for observation in observations:
        lists = {name: json.dumps(getattr(observation, name), separators=(",", ":")) for name in _LIST_COLUMNS}
        row = {"session": session, "prompt": number, **observation.__dict__, **lists}
        insert_row(connection, "observations", row, clause=_build_upsert(row))


def delete_for_session(connection: Connection, session: int) -> None:
    """Delete what was made of a session: its observations and its summary."""
    with transaction(connection):
        connection.execute("delete from observations where session = ?", (session,))
        connection.execute("delete from summaries where session = ?", (session,))


def list_for_session(connection: Connection, session: int) -> list[Observation]:
    """Return all that the turns of one session said, in order."""
    return _select_observations(connection, "session = ?", session)


def list_for_turn(connection: Connection, session: int, number: int) -> list[Observation]:
    """Return what one turn said, without what another memory told of it."""
    return _select_observations(
        connection, "session = ? and prompt = ? and made != ?", session, number, FROM_CLAUDE_MEM
    )


def _select_observations(connection: Connection, condition: str, *values: object) -> list[Observation]:
    query = f"select {', '.join(_NAMES)} from observations where {condition} order by at, key"
    return [
        Observation(**row | {name: parse_json_list(row[name]) for name in _LIST_COLUMNS})
        for row in fetch_dicts(connection, query, *values)
    ]


def list_rows_for_session(connection: Connection, session: int) -> list[dict[str, Any]]:
    """Return all that was observed in a session, in order, with ids and turns."""
    columns = ", ".join(f"{TITLE_OR_FACT} as title" if name == "title" else name for name in _NAMES)
    query = f"select id, prompt, {columns} from observations where session = ? order by at, key"
    return [
        row | {name: list(parse_json_list(row[name])) for name in _LIST_COLUMNS}
        for row in fetch_dicts(connection, query, session)
    ]


def list_after(connection: Connection, after_id: int, limit: int = 200) -> list[dict[str, Any]]:
    """Return what was observed since this one, in short; if that is much, the latest."""
    query = f"""
        select observations.id, host, sessions.session, observations.at, type, {TITLE_OR_FACT} as title, made
        from observations
        join sessions on sessions.id = observations.session where observations.id > ?
        order by observations.id desc limit ?
        """
    return fetch_dicts(connection, query, after_id, limit)[::-1]


def find_last_id(connection: Connection) -> int:
    return int(fetch_value(connection, "select coalesce(max(id), 0) from observations"))


def replace_summary(connection: Connection, session: int, summary: Summary, fingerprint: str = "") -> bool:
    """Replace the summary of a session, within the caller's transaction; return False if the session is gone."""
    if not fetch_value(connection, "select 1 from sessions where id = ?", session):
        return False
    connection.execute(
        "delete from summaries where session = ? and made != ? and key != ?", (session, FROM_CLAUDE_MEM, summary.key)
    )
    row = {"session": session, "print": fingerprint, **summary.__dict__}
    insert_row(connection, "summaries", row, clause=_build_upsert(row))
    return True


def set_summary_fingerprint(connection: Connection, session: int, fingerprint: str) -> None:
    """Set what a summary that was imported counts as made from."""
    connection.execute(
        "update summaries set print = ? where session = ? and made != ? and print = ''",
        (fingerprint, session, FROM_CLAUDE_MEM),
    )


def read_summary_fingerprint(connection: Connection, session: int) -> str:
    """Return the fingerprint of what the session's own summary was made from; empty if there is none."""
    query = "select print from summaries where session = ? and made != ?"
    return str(fetch_value(connection, query, session, FROM_CLAUDE_MEM) or "")


def find_summary(connection: Connection, session: int) -> Summary | None:
    """Return the session's summary, our own before another memory's."""
    row = connection.execute(
        f"select {', '.join(_SUMMARY_COLUMNS)} from summaries where session = ? order by made = ?, at desc limit 1",
        (session, FROM_CLAUDE_MEM),
    ).fetchone()
    return Summary(*row) if row else None


def _build_upsert(names: Iterable[str]) -> str:
    """Return the clause that changes a row whose key is known; a row that stays the same is not indexed again."""
    changes = [name for name in names if name != "key"]
    return f"""
        on conflict (key) do update set {", ".join(f"{name} = excluded.{name}" for name in changes)}
        where ({", ".join(changes)}) is not ({", ".join(f"excluded.{name}" for name in changes)})
        """


def parse_json_list(text: str) -> tuple[str, ...]:
    """Return a list as it is stored; what was imported may be something else."""
    try:
        value = json.loads(text)
    except ValueError:
        return (text,) if text else ()
    return tuple(map(str, value)) if isinstance(value, list) else (text,)
