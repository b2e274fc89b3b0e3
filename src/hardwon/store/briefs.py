"""What a brief is made of, and what is known of a file: questions that a hook waits for, so each has an index."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence

from hardwon.store import projects
from hardwon.store.db import Connection, to_storable
from hardwon.store.observations import IS_NEWEST_DUPLICATE, TITLE_OR_FACT
from hardwon.types import frozen

MAX_TEXT_CHARS = 20_000  # characters read of a text
_MAX_ROWS = 60  # observations of a file that are looked at


@frozen
class BriefObservation:
    """An observation as an index names it; `files_json` is JSON, `text` all that reading it would show."""

    id: int
    at: float
    type: str
    title: str
    subtitle: str
    files_json: str
    tokens: int
    text: str = ""


_COLUMNS = (
    f"observations.id, observations.at, observations.type, substr({TITLE_OR_FACT}, 1, 2000), substr(subtitle, 1, 2000),"
    " iif(files_modified in ('', '[]'), files_read, files_modified), tokens"
)
_TEXT_COLUMN = f"substr(title || subtitle || narrative || facts, 1, {MAX_TEXT_CHARS})"


def find_project_number(connection: Connection, path: str) -> int | None:
    row = connection.execute("select id from projects where path = ?", (to_storable(path),)).fetchone()
    row = row or projects.find_by_folder_name(connection, path)
    return None if row is None else int(row["id"])


def list_latest_observations(connection: Connection, project: int, limit: int) -> list[BriefObservation]:
    """The last observations of a project, newest first.

    Sessions are gone through from the last one back: none that ended before what was found can have a newer one.
    """
    observations: list[BriefObservation] = []
    for session, last_at in _iter_sessions(connection, project):
        if len(observations) == limit and (not observations or last_at < observations[-1].at):
            break
        rows = connection.execute(
            f"select {_COLUMNS}, {_TEXT_COLUMN} from observations where session = ? and title <> ''"
            f" and {IS_NEWEST_DUPLICATE}"
            " order by at desc, id desc limit ?",
            (session, limit),
        )
        observations = sorted(
            [*observations, *map(_build_observation, rows)], key=lambda observation: (-observation.at, -observation.id)
        )[:limit]
    return observations


def _iter_sessions(connection: Connection, project: int) -> Iterator[tuple[int, float]]:
    rows = connection.execute(
        "select id, last_at from sessions where project = ? order by last_at desc, id desc", (project,)
    )
    return ((row["id"], row["last_at"]) for row in rows)


def find_last_summary(connection: Connection, project: int) -> dict[str, object] | None:
    """The last summary of a project; None if there is none."""
    last: tuple[int, float] | None = None
    for session, last_at in _iter_sessions(connection, project):
        if last and last_at < last[1]:
            break
        row = connection.execute(
            "select id, at from summaries where session = ? order by at desc, id desc limit 1", (session,)
        ).fetchone()
        if row and (last is None or row["at"] > last[1]):
            last = (row["id"], row["at"])
    if last is None:
        return None
    names = ("request", "learned", "completed", "next_steps")
    texts = ", ".join(f"substr({name}, 1, {MAX_TEXT_CHARS}) as {name}" for name in names)
    row = connection.execute(f"select id, at, {texts} from summaries where id = ?", (last[0],)).fetchone()
    return None if row is None else dict(row)


def list_file_observations(
    connection: Connection, project: int, paths: Sequence[str], *, agent: str, session: str
) -> list[BriefObservation]:
    """The newest observations of a file, under whichever of its names, that come from other sessions."""
    qmarks = ", ".join("?" * len(paths))
    rows = connection.execute(
        f"select {_COLUMNS} from (select distinct observation from observation_files where project = ? and path in"
        f" ({qmarks}) order by observation desc limit {_MAX_ROWS}) join observations on observations.id = observation"
        " join sessions on sessions.id = observations.session where not (host = ? and sessions.session = ?)"
        " order by observations.at desc, observations.id desc",
        (project, *map(to_storable, paths), agent, to_storable(session)),
    )
    return list(map(_build_observation, rows))


def _build_observation(row: sqlite3.Row) -> BriefObservation:
    return BriefObservation(*row)
