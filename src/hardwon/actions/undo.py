"""Undo an approval by its number, whatever it is about."""

from __future__ import annotations

from hardwon import clock
from hardwon.actions import approvals, lessons
from hardwon.actions.memories import reject_or_retire_memory
from hardwon.errors import UserError
from hardwon.lessons import compiled_brief
from hardwon.lessons.lessons_file import get_trusted_path, read_trusted_hashes
from hardwon.store import memories
from hardwon.store.approvals import LESSON, MEMORY, TRUST, find_live
from hardwon.store.db import Connection


def undo_approval(home: str, connection: Connection, number: int) -> str:
    """Undo an approval and return what became of its subject; UserError if there is nothing to undo."""
    approvals.ensure_upgraded(home, connection, clock.now())
    approval = approvals.find_approval(connection, number)
    newest = find_live(connection, approval.kind, approval.subject)
    # Undoing an older wording would change nothing that is in force.
    if newest is not None and newest.id != approval.id:
        raise UserError(
            f"approval {number} was replaced by approval {newest.id}", f"hardwon approvals undo {newest.id}"
        )
    if approval.kind == LESSON:
        return lessons.undo_lesson_approval(home, connection, approval)
    if approval.kind == MEMORY:
        memory = memories.get_memory(connection, int(approval.subject))
        if memory is not None and memory.status == "active":
            reject_or_retire_memory(connection, home, memory, clock.now())
        approvals.withdraw(connection, approval.kind, approval.subject, clock.now())
        compiled_brief.delete_all(home)
        file_note = f"; its file stays: {memory.file}" if memory is not None and memory.file else ""
        return f"retired: memory {approval.subject}{file_note}"
    if approval.kind == TRUST:
        # The file of trusted hashes may have been edited by hand since.
        if approval.subject in read_trusted_hashes(home):
            approvals.revoke_trust(home, connection, approval.subject, clock.now())
        approvals.withdraw(connection, approval.kind, approval.subject, clock.now())
        return f"no longer trusted: {get_trusted_path(approval.subject)}"
    approvals.withdraw(connection, approval.kind, approval.subject, clock.now())
    compiled_brief.delete_all(home)
    return f"no longer told: handoff {approval.subject}; its file stays (hardwon reflect --undo {approval.subject})"
