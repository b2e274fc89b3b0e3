"""Forgetting what follows from retained rows and files, so that it is made anew from them.

Kept is what cannot be made again: what a model or another memory said, and what was distilled from events that are
gone since.
"""

from __future__ import annotations

from hardwon.store import documents, jobs
from hardwon.store.db import Connection, transaction
from hardwon.store.migrations import FILL_TO_INDEX
from hardwon.store.turns import EXPIRED_PREFIX, PLAIN

# Observations keep their rows and numbers, since memories name them as evidence: distilling writes each in its place.
_OF_TURN = "observations.session = turns.session and observations.prompt = turns.number"
# An import may bring observations without the events that they were made from: those could not be made again.
_HAS_LOST_EVENTS = (
    "exists (select 1 from observations, json_each(iif(json_valid(observations.events), observations.events, '[]'))"
    f" as cited where {_OF_TURN} and not exists (select 1 from events where events.key = cited.value))"
)
_HAS_EVENTS = "exists (select 1 from events where events.session = turns.session and events.prompt = turns.number)"
_FORGET_TURNS = (
    f"delete from turns where print not like '{EXPIRED_PREFIX}%' and {_HAS_EVENTS} and not {_HAS_LOST_EVENTS}"
    f" and (made = '{PLAIN}' or not exists (select 1 from observations where {_OF_TURN}))"
)
_FORGET_SUMMARIES = (
    f"update summaries set print = '' where made = '{PLAIN}'"
    " and not exists (select 1 from turns where turns.session = summaries.session)"
    " and exists (select 1 from events where events.session = summaries.session)"
)


def forget_derived(connection: Connection, now: float) -> int:
    """Empty the index and ask for every session to be distilled anew; return how many sessions there are."""
    with transaction(connection):
        connection.execute(_FORGET_TURNS)
        connection.execute(_FORGET_SUMMARIES)
        sessions = [number for (number,) in connection.execute("select id from sessions").fetchall()]
        for number in sessions:
            jobs.enqueue(connection, jobs.DISTIL, number, priority=jobs.HISTORY, now=now)
    _empty_index(connection)
    return len(sessions)


def _empty_index(connection: Connection) -> None:
    with transaction(connection):
        # First the words: the trigger that takes out those of one document would fail if they are damaged.
        connection.execute("insert into document_words (document_words) values ('rebuild')")
        for table in ("documents", "vectors", "to_embed", "to_index"):
            connection.execute(f"delete from {table}")
        documents.delete_file_documents(connection)
        for statement in FILL_TO_INDEX:
            connection.execute(statement)
        connection.execute("update observations set files_read = files_read")  # a trigger names their files


def count_derived(connection: Connection) -> dict[str, int]:
    """Return how many rows of each kind there are."""
    tables = {"observations": "observations", "summaries": "summaries", "documents": "documents", "vectors": "vectors"}
    return {name: connection.execute(f"select count(*) from {table}").fetchone()[0] for name, table in tables.items()}


def count_unrebuildable(connection: Connection) -> int:
    """Return how many turns were distilled from events that are gone."""
    query = f"select count(*) from turns where print like '{EXPIRED_PREFIX}%' or {_HAS_LOST_EVENTS}"
    count: int = connection.execute(query).fetchone()[0]
    return count
