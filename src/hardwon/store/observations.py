"""Observations and summaries distilled from sessions.

Each turn stores all of its observations, even those that other turns had before, so that it can be distilled again,
moved or deleted in any order. Equal observations are merged when they are read across sessions. Hooks wait for what
goes into briefs and into recall about a file, so each of these queries uses an index.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hardwon.store.db import Connection, Row, fetch_dicts, fetch_value, insert_row, transaction
from hardwon.store.events import find_project_by_folder_name
from hardwon.types import Observation, Summary

_MERGE_WINDOW_SECONDS = 30 * 86_400.0
_MAX_TEXT_CHARS = 20_000  # read of one text
_MAX_FILE_OBSERVATIONS = 60  # read per file
_MAX_NEW_OBSERVATIONS = 200  # told at once to those who watch
ORPHAN_TURN = -1  # the number of a turn whose prompt was deleted; its observations are never replaced
FROM_CLAUDE_MEM = "claude-mem"  # imported from claude-mem; never distilled again from events
_LIST_COLUMNS = frozenset({"facts", "concepts", "files_read", "files_modified", "events"})
_NAMES = tuple(Observation.__annotations__)
_SUMMARY_COLUMNS = tuple(Summary.__annotations__)
# An observation may have no title; lists then show its first fact.
TITLE_OR_FACT_SQL = "iif(title <> '', title, iif(json_valid(facts), coalesce(json_extract(facts, '$[0]'), ''), ''))"

# Of equal observations within some time only the latest is listed.
_IS_NEWEST_DUPLICATE_SQL = f"""
    not exists (select 1 from observations as other join sessions as its on its.id = other.session
        where other.title = observations.title and other.type = observations.type
        and other.files_read = observations.files_read and other.files_modified = observations.files_modified
        and its.project is (select project from sessions where sessions.id = observations.session)
        and (other.at, other.key) > (observations.at, observations.key)
        and other.at < observations.at + {_MERGE_WINDOW_SECONDS})
    """


@dataclass(frozen=True, slots=True)
class BriefObservation:
    """An observation as a brief lists it; `text` is its full text, for its size in tokens."""

    id: int
    at: float
    type: str
    title: str
    subtitle: str
    files_json: str
    tokens: int
    text: str = ""


_BRIEF_COLUMNS = f"""
    observations.id, observations.at, observations.type, substr({TITLE_OR_FACT_SQL}, 1, 2000),
    substr(subtitle, 1, 2000),
    iif(files_modified in ('', '[]'), files_read, files_modified), tokens
    """


def replace_for_turn(connection: Connection, session: int, number: int, observations: Sequence[Observation]) -> None:
    """Replace a turn's observations within the caller's transaction; those imported from claude-mem stay."""
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
    """Store a turn's observations within the caller's transaction; one with a known key is updated in place."""
    for observation in observations:
        lists = {name: json.dumps(getattr(observation, name), separators=(",", ":")) for name in _LIST_COLUMNS}
        row = {"session": session, "prompt": number, **observation.__dict__, **lists}
        insert_row(connection, "observations", row, clause=_build_upsert(row))


def delete_for_session(connection: Connection, session: int) -> None:
    """Delete the observations and the summary of a session."""
    with transaction(connection):
        connection.execute("delete from observations where session = ?", (session,))
        connection.execute("delete from summaries where session = ?", (session,))


def list_for_session(connection: Connection, session: int) -> list[Observation]:
    """Return the observations of a session, in order."""
    return _select_observations(connection, "session = ?", session)


def list_for_turn(connection: Connection, session: int, number: int) -> list[Observation]:
    """Return the observations of one turn, without those imported from claude-mem."""
    return _select_observations(
        connection, "session = ? and prompt = ? and made != ?", session, number, FROM_CLAUDE_MEM
    )


def _select_observations(connection: Connection, condition: str, *values: object) -> list[Observation]:
    """Return the observations that meet a condition, in order; `values` fill its placeholders."""
    query = f"select {', '.join(_NAMES)} from observations where {condition} order by at, key"
    observations = []
    for row in fetch_dicts(connection, query, *values):
        for name in _LIST_COLUMNS:
            row[name] = parse_json_list(row[name])
        observations.append(Observation(**row))
    return observations


def list_rows_for_session(connection: Connection, session: int) -> list[Row]:
    """Return the observations of a session in order, with ids and turns."""
    columns = ", ".join(f"{TITLE_OR_FACT_SQL} as title" if name == "title" else name for name in _NAMES)
    query = f"select id, prompt, {columns} from observations where session = ? order by at, key"
    rows = fetch_dicts(connection, query, session)
    for row in rows:
        for name in _LIST_COLUMNS:
            row[name] = list(parse_json_list(row[name]))
    return rows


def list_after(connection: Connection, after_id: int) -> list[Row]:
    """Return the observations after this one in short form; if there are many, only the latest."""
    query = f"""
        select observations.id, host, sessions.session, observations.at, type, {TITLE_OR_FACT_SQL} as title, made
        from observations
        join sessions on sessions.id = observations.session where observations.id > ?
        order by observations.id desc limit {_MAX_NEW_OBSERVATIONS}
        """
    latest_first = fetch_dicts(connection, query, after_id)
    return latest_first[::-1]


def find_last_id(connection: Connection) -> int:
    """Return the highest number of an observation; 0 if there is none."""
    return int(fetch_value(connection, "select coalesce(max(id), 0) from observations"))


def replace_summary(connection: Connection, session: int, summary: Summary, fingerprint: str = "") -> bool:
    """Replace the summary of a session, within the caller's transaction; return False if the session is gone."""
    if not fetch_value(connection, "select 1 from sessions where id = ?", session):
        return False  # deleted while it was distilled
    connection.execute(
        "delete from summaries where session = ? and made != ? and key != ?", (session, FROM_CLAUDE_MEM, summary.key)
    )
    row = {"session": session, "print": fingerprint, **summary.__dict__}
    insert_row(connection, "summaries", row, clause=_build_upsert(row))
    return True


def set_summary_fingerprint(connection: Connection, session: int, fingerprint: str) -> None:
    """Set the fingerprint of the data that an imported summary counts as made from."""
    connection.execute(
        "update summaries set print = ? where session = ? and made != ? and print = ''",
        (fingerprint, session, FROM_CLAUDE_MEM),
    )


def read_summary_fingerprint(connection: Connection, session: int) -> str:
    """Return the fingerprint of what the session's own summary was made from; empty if there is none."""
    query = "select print from summaries where session = ? and made != ?"
    return str(fetch_value(connection, query, session, FROM_CLAUDE_MEM) or "")


def find_summary(connection: Connection, session: int) -> Summary | None:
    """Return the session's summary; hardwon's own is preferred to an imported one."""
    row = connection.execute(
        f"""
        select {", ".join(_SUMMARY_COLUMNS)} from summaries where session = ?
        order by made = ?, at desc, id desc limit 1
        """,
        (session, FROM_CLAUDE_MEM),
    ).fetchone()
    return Summary(*row) if row else None


def _build_upsert(names: Iterable[str]) -> str:
    """Return the clause that updates a row with a known key; an unchanged row is not indexed again."""
    changes = [name for name in names if name != "key"]
    new_values = [f"excluded.{name}" for name in changes]
    assignments = [f"{name} = excluded.{name}" for name in changes]
    return f"""
        on conflict (key) do update set {", ".join(assignments)}
        where ({", ".join(changes)}) is not ({", ".join(new_values)})
        """


def parse_json_list(text: str) -> tuple[str, ...]:
    """Parse a stored list; an imported row may hold something else, which becomes the only item."""
    if not text:
        return ()
    try:
        value = json.loads(text)
    except ValueError:
        return (text,)
    return tuple(map(str, value if isinstance(value, list) else [value]))


def find_project_number(connection: Connection, path: str) -> int | None:
    """Return the number of the project at this path; None if nothing of it is recorded."""
    number: int | None = fetch_value(connection, "select id from projects where path = ?", path)
    if number is None and (row := find_project_by_folder_name(connection, path)):
        number = row["id"]
    return number


def list_latest_observations(connection: Connection, project: int, limit: int) -> list[BriefObservation]:
    """Return the last observations of a project, newest first.

    Sessions are read from the last one back. A session that ended before the oldest observation found so far cannot
    have a newer one, so reading stops there.
    """
    observations: list[BriefObservation] = []
    if limit == 0:
        return observations
    for session, last_at in _list_session_times(connection, project):
        if len(observations) == limit and last_at < observations[-1].at:
            break
        rows = connection.execute(
            f"""
            select {_BRIEF_COLUMNS}, substr(title || subtitle || narrative || facts, 1, {_MAX_TEXT_CHARS})
            from observations where session = ? and title <> '' and {_IS_NEWEST_DUPLICATE_SQL}
            order by at desc, id desc limit ?
            """,
            (session, limit),
        )
        observations += [BriefObservation(*row) for row in rows]
        observations.sort(key=lambda observation: (-observation.at, -observation.id))
        del observations[limit:]
    return observations


def _list_session_times(connection: Connection, project: int) -> list[tuple[int, float]]:
    """Return the sessions of a project with their last activity, the latest first."""
    rows = connection.execute(
        "select id, last_at from sessions where project = ? order by last_at desc, id desc", (project,)
    )
    return [(row["id"], row["last_at"]) for row in rows.fetchall()]


def find_last_summary(connection: Connection, project: int) -> Row | None:
    """Return the last summary of a project; None if there is none."""
    texts = ", ".join(
        f"substr({name}, 1, {_MAX_TEXT_CHARS}) as {name}" for name in ("request", "learned", "completed", "next_steps")
    )
    last: Row | None = None
    for session, last_at in _list_session_times(connection, project):
        if last and last_at < last["at"]:
            break
        query = f"select id, at, {texts} from summaries where session = ? order by at desc, id desc limit 1"
        summaries = fetch_dicts(connection, query, session)
        if summaries and (last is None or summaries[0]["at"] > last["at"]):
            last = summaries[0]
    return last


def list_file_observations(
    connection: Connection, project: int, paths: Sequence[str], *, agent: str, session: str
) -> list[BriefObservation]:
    """Return the newest observations of a file, under any of its names, that come from other sessions."""
    qmarks = ", ".join("?" * len(paths))
    rows = connection.execute(
        f"""
        select {_BRIEF_COLUMNS} from (
            select distinct observation from observation_files where project = ? and path in ({qmarks})
            order by observation desc limit {_MAX_FILE_OBSERVATIONS})
        join observations on observations.id = observation join sessions on sessions.id = observations.session
        where not (host = ? and sessions.session = ?) order by observations.at desc, observations.id desc
        """,
        (project, *paths, agent, session),
    )
    return [BriefObservation(*row) for row in rows]
