"""Carry out what a person decides about memories, and record the approvals."""

from __future__ import annotations

from hardwon.actions import approvals
from hardwon.actions.approvals import Decider
from hardwon.memories import memories
from hardwon.memories.memory_files import MemoryPage
from hardwon.store import deletions
from hardwon.store.approvals import MEMORY
from hardwon.types import Memory


def approve_memory(decider: Decider, memory: Memory) -> tuple[Memory, str]:
    """Approve a memory with its file's current text; return it with the file's path."""
    approved, file_path = memories.approve(decider.connection, decider.home, memory, decider.now)
    approvals.record_memory(decider, approved.id)
    return approved, file_path


def adopt_memory_file(decider: Decider, page: MemoryPage) -> Memory:
    """Approve a memory file that somebody else added to the repository."""
    memory = memories.adopt_file(decider.connection, page, decider.now)
    approvals.record_memory(decider, memory.id)
    return memory


def reword_memory(decider: Decider, memory: Memory, text: str) -> Memory:
    """Change a memory's text; an approved memory stays approved with it."""
    changed = memories.reword(decider.connection, decider.home, memory, text, decider.now)
    # A proposal stays a proposal, whoever words it.
    if changed.status == "active":
        approvals.record_memory(decider, changed.id)
    return changed


def reject_or_retire_memory(decider: Decider, memory: Memory) -> Memory:
    """Reject a proposal, or retire an approved memory."""
    changed = memories.reject_or_retire(decider.connection, memory, decider.now)
    approvals.withdraw(decider, MEMORY, str(changed.id))
    # `hardwon purge --log` lists what went, and by which command.
    path = "memory reject" if changed.status == "rejected" else "memory retire"
    deletions.record(decider.connection, path, "memory", {"memories": 1}, decider.now)
    return changed
