"""Carry out what a person decides about handoffs and the memories in them, and record the approvals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hardwon.actions import approvals
from hardwon.errors import UserError
from hardwon.handoff import ratification
from hardwon.handoff.ratification import RatificationResult
from hardwon.store import reflections
from hardwon.store.approvals import RATIFY_AFTER_DAYS
from hardwon.store.db import Connection
from hardwon.store.reflections import Reflection


def ratify_handoff(
    connection: Connection,
    home: str,
    reflection: Reflection,
    path: str,
    now: float,
    *,
    should_commit: bool = False,
    is_read: bool = True,
) -> RatificationResult:
    """Let a handoff count as its draft says it now, with the memories that it names."""
    approvals.ensure_upgraded(home, connection, now)
    result = ratification.ratify(connection, home, reflection, now, should_commit=should_commit, is_read=is_read)
    approvals.record_handoff(connection, reflection.id, path, now)
    for memory, _ in result.memories:
        approvals.record_memory(connection, memory.id, path, now)
    return result


def write_handoff(
    connection: Connection, home: str, text: str, cwd: str, path: str, *, now: float, name: str = "", topic: str = ""
) -> Reflection:
    """Write a person's own handoff, which counts at once."""
    approvals.ensure_upgraded(home, connection, now)
    written = ratification.save_session_handoff(
        connection, home, text, cwd, now=now, is_ratified=True, name=name, topic=topic
    )
    approvals.record_handoff(connection, written.id, path, now)
    return written


def ratify_overdue(
    connection: Connection, home: str, values: Mapping[str, Any], now: float
) -> Iterator[RatificationResult | UserError | OSError]:
    """Ratify the drafts that are older than `ratifyAfterDays`; one that fails does not stop the others."""
    should_commit = bool(values.get("handoffCommit", False))
    for draft in ratification.find_overdue_drafts(connection, values, now):
        try:
            yield ratify_handoff(
                connection, home, draft, RATIFY_AFTER_DAYS, now, should_commit=should_commit, is_read=False
            )
        except UserError as error:
            # It stays a draft; the time of this decision keeps it from being tried again.
            reflections.set_status(connection, draft.id, reflections.DRAFT, now)
            yield error
        except OSError as error:
            yield error


def undo_reflection(connection: Connection, home: str, number: int, now: float) -> tuple[Reflection, list[str]]:
    """Restore every file that a reflection wrote; return the reflection and the files that were committed.

    Git history is the person's, so a commit stays.
    """
    from hardwon.handoff import reflection  # imported here because it loads every distiller

    existing = reflections.get(connection, number)
    committed_files = ratification.list_committed_files(existing) if existing else []
    undone = reflection.undo(connection, home, number, now)
    ratification.retire_undone_memories(connection, home, undone, now)
    approvals.withdraw_undone_reflection(connection, undone.id, now)
    return undone, committed_files
