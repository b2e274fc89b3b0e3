"""Queries for briefs and for recall about a file. Hooks wait for them, so each uses an index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hardwon.store import projects
from hardwon.store.db import Connection, fetch_dicts, fetch_value
from hardwon.store.observations import IS_NEWEST_DUPLICATE, TITLE_OR_FACT

MAX_TEXT_CHARS = 20_000  # read of one text
_MAX_FILE_OBSERVATIONS = 60  # read per file


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
    observations.id, observations.at, observations.type, substr({TITLE_OR_FACT}, 1, 2000), substr(subtitle, 1, 2000),
    iif(files_modified in ('', '[]'), files_read, files_modified), tokens
    """


def find_project_number(connection: Connection, path: str) -> int | None:
    number: int | None = fetch_value(connection, "select id from projects where path = ?", path)
    if number is None and (row := projects.find_by_folder_name(connection, path)):
        number = row["id"]
    return number


def list_latest_observations(connection: Connection, project: int, limit: int) -> list[BriefObservation]:
    """Return the last observations of a project, newest first.

    Sessions are read from the last one back. A session that ended before the oldest observation found so far cannot
    have a newer one, so reading stops there.
    """
    observations: list[BriefObservation] = []
    for session, last_at in _list_session_times(connection, project):
        if len(observations) == limit and (not observations or last_at < observations[-1].at):
            break
        rows = connection.execute(
            f"""
            select {_BRIEF_COLUMNS}, substr(title || subtitle || narrative || facts, 1, {MAX_TEXT_CHARS})
            from observations where session = ? and title <> '' and {IS_NEWEST_DUPLICATE}
            order by at desc, id desc limit ?
            """,
            (session, limit),
        )
        observations += [BriefObservation(*row) for row in rows]
        observations.sort(key=lambda observation: (-observation.at, -observation.id))
        del observations[limit:]
    return observations


def _list_session_times(connection: Connection, project: int) -> list[tuple[int, float]]:
    rows = connection.execute(
        "select id, last_at from sessions where project = ? order by last_at desc, id desc", (project,)
    )
    return [(row["id"], row["last_at"]) for row in rows.fetchall()]


def find_last_summary(connection: Connection, project: int) -> dict[str, Any] | None:
    """Return the last summary of a project; None if there is none."""
    texts = ", ".join(
        f"substr({name}, 1, {MAX_TEXT_CHARS}) as {name}" for name in ("request", "learned", "completed", "next_steps")
    )
    last: dict[str, Any] | None = None
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
