"""What hooks told of the latest sessions, and what had to be read from transcripts."""

from __future__ import annotations

from hardwon.store.db import Connection
from hardwon.types import frozen


@frozen
class HookCoverage:
    """One session: how many events hooks told, how many only its transcript did."""

    agent: str
    transcript: str
    hook_events: int
    transcript_events: int


def list_hook_coverage(connection: Connection, limit: int) -> list[HookCoverage]:
    """The last sessions, the latest first."""
    rows = connection.execute(
        "select host, transcript, (select count(*) from events where session = sessions.id and origin = 'hook'),"
        " (select count(*) from events where session = sessions.id and origin != 'hook')"
        " from sessions order by last_at desc limit ?",
        (limit,),
    )
    return [HookCoverage(*row) for row in rows]
