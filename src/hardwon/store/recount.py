"""What follows from other rows, counted anew when some of those came or went by another way than a report."""

from __future__ import annotations

import json
from typing import Any

from hardwon.store import candidates
from hardwon.store import sessions as reported
from hardwon.store.db import Connection


def recount_session(connection: Connection, number: int) -> None:
    """The numbers of a session's prompts, its first prompt and its status; within the caller's transaction."""
    reported._renumber_prompts(connection, number, 0.0)
    connection.execute(
        "update sessions set prompts = (select count(*) from prompts where prompts.session = sessions.id),"
        " first_prompt = coalesce((select prompt from prompts where prompts.session = sessions.id"
        "   order by at, id limit 1), '') where id = ?",
        (number,),
    )
    connection.execute(
        "update sessions set status = iif(ended_at is not null and ended_at >= opened_at, 'completed',"
        " iif(prompts > 0, 'active', 'initialized')) where id = ?",
        (number,),
    )


def recount_candidate(connection: Connection, signature: str) -> None:
    """A candidate that a person decided about, after signals of it went; within the caller's transaction.

    The decision stays. What was said of those signals goes: where they stood, and which session they were in.
    """
    times, sessions, projects = candidates.read_occurrences(connection, signature)
    candidate = candidates.find_by_signature(connection, signature)
    if candidate is None:
        return
    remaining_paths = [item.path for item in candidates.list_episodes(connection, signature)]
    record: dict[str, Any] = dict(candidate.record)
    record["evidence"] = [item for item in record.get("evidence", ()) if item.get("path") in remaining_paths]
    record["sourceSessionIds"] = [item for item in record.get("sourceSessionIds", ()) if item in sessions]
    record["occurrenceCount"] = times
    values = [json.dumps(value, separators=(",", ":")) for value in (sessions, projects, record)]
    connection.execute(
        "update candidates set occurrences = ?, sessions = ?, projects = ?, record = ? where signature = ?",
        (times, *values, signature),
    )
