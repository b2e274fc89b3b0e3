"""What a brief is made of, and what is known of a file: questions that a hook waits for, so each has an index."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence

from hardwon.store import projects
from hardwon.store.db import Connection, storable
from hardwon.store.observations import STANDS
from hardwon.types import word

LONGEST = 20_000  # characters read of a text
_NEWEST = 60  # observations of a file that are looked at


@word
class Seen:
    """An observation as an index names it; `files` is JSON, `text` all that reading it would show."""

    id: int
    at: float
    type: str
    title: str
    subtitle: str
    files: str
    tokens: int
    text: str = ""


_SEEN = (
    "observations.id, observations.at, observations.type, substr(title, 1, 2000), substr(subtitle, 1, 2000),"
    " iif(files_modified in ('', '[]'), files_read, files_modified), tokens"
)
_TEXT = f"substr(title || subtitle || narrative || facts, 1, {LONGEST})"


def number_of(connection: Connection, path: str) -> int | None:
    row = connection.execute("select id from projects where path = ?", (storable(path),)).fetchone()
    row = row or projects.only_named(connection, path)
    return None if row is None else int(row["id"])


def latest(connection: Connection, project: int, most: int) -> list[Seen]:
    """The last observations of a project, newest first.

    Sessions are gone through from the last one back: none that ended before what was found can have a newer one.
    """
    found: list[Seen] = []
    for session, last_at in _sessions(connection, project):
        if len(found) == most and (not found or last_at < found[-1].at):
            break
        rows = connection.execute(
            f"select {_SEEN}, {_TEXT} from observations where session = ? and {STANDS}"
            " order by at desc, id desc limit ?",
            (session, most),
        )
        found = sorted([*found, *map(_seen, rows)], key=lambda one: (-one.at, -one.id))[:most]
    return found


def _sessions(connection: Connection, project: int) -> Iterator[tuple[int, float]]:
    rows = connection.execute(
        "select id, last_at from sessions where project = ? order by last_at desc, id desc", (project,)
    )
    return ((row["id"], row["last_at"]) for row in rows)


def last_summary(connection: Connection, project: int) -> dict[str, object] | None:
    """The last summary of a project; None if there is none."""
    last: tuple[int, float] | None = None
    for session, last_at in _sessions(connection, project):
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
    texts = ", ".join(f"substr({name}, 1, {LONGEST}) as {name}" for name in names)
    row = connection.execute(f"select id, at, {texts} from summaries where id = ?", (last[0],)).fetchone()
    return None if row is None else dict(row)


def of_file(connection: Connection, project: int, paths: Sequence[str], *, host: str, session: str) -> list[Seen]:
    """The newest observations of a file, under whichever of its names, that come from other sessions."""
    marks = ", ".join("?" * len(paths))
    rows = connection.execute(
        f"select {_SEEN} from (select distinct observation from observation_files where project = ? and path in"
        f" ({marks}) order by observation desc limit {_NEWEST}) join observations on observations.id = observation"
        " join sessions on sessions.id = observations.session where not (host = ? and sessions.session = ?)"
        " order by observations.at desc, observations.id desc",
        (project, *map(storable, paths), host, storable(session)),
    )
    return list(map(_seen, rows))


def _seen(row: sqlite3.Row) -> Seen:
    return Seen(*row)
