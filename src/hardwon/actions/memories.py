"""Carry out what a person decides about memories, and record the approvals."""

from __future__ import annotations

from hardwon.actions import approvals
from hardwon.memories import memories
from hardwon.memories.memory_files import MemoryPage
from hardwon.store import deletions
from hardwon.store.approvals import MEMORY
from hardwon.store.db import Connection
from hardwon.types import Memory


def approve_memory(connection: Connection, home: str, memory: Memory, path: str, now: float) -> tuple[Memory, str]:
    """Approve a memory with its file's current text; return it with the file's path."""
    approvals.ensure_upgraded(home, connection, now)
    approved, file_path = memories.approve(connection, home, memory, now)
    approvals.record_memory(connection, approved.id, path, now)
    return approved, file_path


def adopt_memory_file(connection: Connection, home: str, page: MemoryPage, path: str, now: float) -> Memory:
    """Approve a memory file that somebody else added to the repository."""
    approvals.ensure_upgraded(home, connection, now)
    memory = memories.adopt_file(connection, page, now)
    approvals.record_memory(connection, memory.id, path, now)
    return memory


def reword_memory(connection: Connection, home: str, memory: Memory, text: str, path: str, now: float) -> Memory:
    """Change a memory's text; an approved memory stays approved with it."""
    approvals.ensure_upgraded(home, connection, now)
    changed = memories.reword(connection, home, memory, text, now)
    # A proposal stays a proposal, whoever words it.
    if changed.status == "active":
        approvals.record_memory(connection, changed.id, path, now)
    return changed


def reject_or_retire_memory(connection: Connection, home: str, memory: Memory, now: float) -> Memory:
    """Reject a proposal, or retire an approved memory."""
    approvals.ensure_upgraded(home, connection, now)
    changed = memories.reject_or_retire(connection, memory, now)
    approvals.withdraw(connection, MEMORY, str(changed.id), now)
    # `hardwon purge --log` lists what went, and by which command.
    path = "memory reject" if changed.status == "rejected" else "memory retire"
    deletions.record(connection, path, "memory", {"memories": 1}, now)
    return changed
