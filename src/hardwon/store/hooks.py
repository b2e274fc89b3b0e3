"""What hooks told of the latest sessions, and what had to be read from transcripts."""

from __future__ import annotations

from hardwon.store.db import Connection
from hardwon.types import word


@word
class Told:
    """One session: how many events hooks told, how many only its transcript did."""

    host: str
    transcript: str
    by_hooks: int
    by_transcript: int


def latest(connection: Connection, limit: int) -> list[Told]:
    """The last sessions, the latest first."""
    rows = connection.execute(
        "select host, transcript, (select count(*) from events where session = sessions.id and origin = 'hook'),"
        " (select count(*) from events where session = sessions.id and origin != 'hook')"
        " from sessions order by last_at desc limit ?",
        (limit,),
    )
    return [Told(*row) for row in rows]
