"""Say yes or no to any proposal by its name, and take a decision back: L3 is a lesson, M3 a memory, H3 a handoff."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hardwon import clock, settings
from hardwon.actions import approvals, candidates, lessons, undo
from hardwon.actions.handoffs import ratify_handoff
from hardwon.actions.memories import approve_memory, reject_or_retire_memory
from hardwon.errors import UserError
from hardwon.handoff import handoffs, ratification
from hardwon.lessons import approved_lessons, lessons_file, review_queue
from hardwon.memories import memories
from hardwon.store.approvals import HANDOFF, LESSON, MEMORY, find_live, list_approvals
from hardwon.store.db import Connection
from hardwon.store.reflections import DRAFT
from hardwon.text.characters import to_printable_line
from hardwon.types import Lesson

_MAX_LOOKBACK = 200  # approvals looked through for one that is not undone yet
_LETTERS = {"L": LESSON, "M": MEMORY, "H": HANDOFF}
_LETTERED_NAME = re.compile(r"([LMHlmh])(?::|(?=\d+$))(.+)")


@dataclass(frozen=True, slots=True)
class Acceptance:
    """What became of an accepted proposal, in a line each; with the lesson, if it is one."""

    lines: tuple[str, ...]
    project: str  # whose brief is out of date; empty for a lesson
    lesson: Lesson | None = None


def parse_proposal_name(name: str) -> tuple[str, str]:
    """Return the kind that a name means and the name without its letter; without a letter it means a lesson."""
    match = _LETTERED_NAME.fullmatch(name)
    return (_LETTERS[match[1].upper()], match[2]) if match else (LESSON, name)


def accept_proposal(
    home: str,
    connection: Connection,
    name: str,
    path: str,
    *,
    changes: Mapping[str, Any] | None = None,
    confirm: Callable[[str], bool] = lessons.refuse_to_confirm,
) -> Acceptance:
    """Put a proposal in force; `changes` are to a lesson's fields."""
    kind, bare_name = parse_proposal_name(name)
    now = clock.now()
    if changes and kind != LESSON:
        raise UserError(f"{name} is not a lesson, and has none of these fields", f"hardwon accept {name}")
    if kind == MEMORY:
        memory, file_path = approve_memory(connection, home, memories.find_memory(connection, bare_name), path, now)
        return Acceptance((f"approved as memory {memory.id}: {file_path}",), memory.project)
    if kind == HANDOFF:
        handoff = handoffs.find_handoff(connection, bare_name)
        should_commit = bool(settings.resolve_settings(settings.read_config(home))["handoffCommit"])
        result = ratify_handoff(connection, home, handoff, path, now, should_commit=should_commit)
        return Acceptance(tuple(ratification.describe_result(result)), handoff.project)
    lesson = _find_lesson(home, connection, bare_name)
    if lesson is not None and not changes and not approved_lessons.is_marked_active(lesson):
        accepted = lessons.restore_lesson(home, connection, lesson, path, confirm=confirm)
    else:
        candidate = candidates.find_candidate(home, connection, bare_name)
        accepted = lessons.accept_candidate(home, connection, candidate, changes or {}, path, confirm=confirm)
    return Acceptance((_describe_lesson(accepted),), "", accepted)


def _find_lesson(home: str, connection: Connection, slug: str) -> Lesson | None:
    """Return the lesson of this name if it was accepted before or never waited in the queue, such as a retired one."""
    candidate = review_queue.find_in_queue(home, connection, slug)
    if candidate is not None and candidate.status != "active":
        return None
    file = lessons_file.read(lessons_file.get_lessons_path(home))
    lesson_id = candidate.lesson if candidate is not None else ""
    return next((lesson for lesson in file.lessons if lesson.slug == slug or lesson.id == lesson_id), None)


def _describe_lesson(lesson: Lesson) -> str:
    return f"in force as a {lesson.delivery}: {lesson.summary} [{lesson.slug}]"


def reject_proposal(home: str, connection: Connection, name: str) -> tuple[str, str]:
    """Reject a proposal, or retire what is in force; return what became of it, and the project of its brief."""
    kind, bare_name = parse_proposal_name(name)
    now = clock.now()
    if kind == MEMORY:
        memory = memories.find_memory(connection, bare_name)
        if memory.status not in ("candidate", "active"):
            raise UserError(f"memory {memory.id} is {memory.status} already", f"hardwon memory show {memory.id}")
        changed = reject_or_retire_memory(connection, home, memory, now)
        return f"{changed.status}: memory {memory.id}, {to_printable_line(memory.text, 100)}", memory.project
    if kind == HANDOFF:
        handoff = handoffs.find_handoff(connection, bare_name)
        if handoff.status != DRAFT:
            raise UserError(f"handoff {handoff.id} is {handoff.status}, not a draft", f"hardwon undo H{handoff.id}")
        ratification.discard(connection, handoff, now)
        return f"discarded: handoff {handoff.id}, {handoff.draft} is deleted", handoff.project
    # A number means the proposal: one that was accepted meanwhile is not retired by a late no.
    lesson = None if bare_name.isdigit() else _find_lesson(home, connection, bare_name)
    if lesson is not None:
        lessons.retire_lesson(home, connection, lesson)
        return f"retired: {lesson.slug}", ""
    candidate = candidates.find_candidate(home, connection, bare_name)
    candidates.reject(home, connection, candidate)
    return f"rejected: {candidate.record['summary']} [{candidate.slug}]", ""


def take_back_decision(home: str, connection: Connection, name: str = "") -> str:
    """Undo the newest approval, or the decision about the named proposal; a bare number is an approval's."""
    approvals.ensure_upgraded(home, connection, clock.now())
    if not name:
        newest = next((entry for entry in list_approvals(connection, _MAX_LOOKBACK) if entry.undone_at is None), None)
        if newest is None:
            raise UserError("there is nothing to undo", "")
        return undo.undo_approval(home, connection, newest.id)
    if name.isascii() and name.isdigit():
        return undo.undo_approval(home, connection, int(name))
    kind, bare_name = parse_proposal_name(name)
    if kind == LESSON:
        candidate = review_queue.find_in_queue(home, connection, bare_name)
        if candidate is not None and candidate.status in ("active", "rejected"):
            lessons.undo_decision(home, connection, candidate.id)
            return f"proposed again: L{candidate.number}, {candidate.record['summary']}"
        lesson = _find_lesson(home, connection, bare_name)
        subject = lesson.id if lesson else ""
    elif kind == MEMORY:
        subject = str(memories.find_memory(connection, bare_name).id)
    else:
        subject = str(handoffs.find_handoff(connection, bare_name).id)
    approval = find_live(connection, kind, subject)
    if approval is None:
        raise UserError(f"{name} is not in force, so there is nothing to undo", "hardwon approvals")
    return undo.undo_approval(home, connection, approval.id)
