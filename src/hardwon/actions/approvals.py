"""Recording what a person put in force. This is the only module that writes the table `approvals`."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from contextlib import closing

from hardwon import paths
from hardwon.errors import UserError
from hardwon.handoff import handoffs, memories, ratification
from hardwon.lessons import approved_lessons, manifest, trust_file
from hardwon.lessons import lessons_file as shelves
from hardwon.lessons import record as records
from hardwon.store import approvals, db, reflections
from hardwon.store import memories as memory_rows
from hardwon.store.approvals import HANDOFF, LESSON, MEMORY, TRUST, UPGRADE, Approval
from hardwon.store.db import Connection, transaction
from hardwon.text.printable import to_printable_line
from hardwon.types import Lesson, Memory, frozen

MAX_ANNOUNCED = 5
MAX_HANDOFFS = 1_000
_TITLE_LENGTH = 60


@frozen
class ListedApproval:
    """An approval as people see it: what it is about, in their words, and the command that undoes it."""

    approval: Approval
    title: str
    undo_command: str


def record_lessons(connection: Connection, lessons: Sequence[Lesson], path: str, now: float) -> None:
    """Approve lessons as they are written; one that does not claim to be in force loses its approval."""
    with transaction(connection):
        for lesson in lessons:
            _record_lesson(connection, lesson, path, now)


def _record_lesson(connection: Connection, lesson: Lesson, path: str, now: float) -> None:
    if not approved_lessons.is_marked_active(lesson):
        approvals.undo_subject(connection, LESSON, lesson.id, now)
        return
    body = approved_lessons.to_approval_body(lesson)
    approvals.insert(connection, LESSON, lesson.id, records.hash_authored_fields(lesson), body, path, now)


def record_memory(connection: Connection, number: int, path: str, now: float) -> None:
    """Approve a memory in the words that its row has; a row that is not active loses its approval."""
    memory = memory_rows.get(connection, number)
    with transaction(connection):
        if memory is None or memory.status != "active":
            approvals.undo_subject(connection, MEMORY, str(number), now)
        else:
            hash = memories.compute_approval_hash(memory.type, memory.text)
            approvals.insert(connection, MEMORY, str(number), hash, memory.text, path, now)


def record_handoff(connection: Connection, number: int, path: str, now: float) -> None:
    """Approve a handoff as its file is now; one that is not ratified loses its approval."""
    known = reflections.get(connection, number)
    with transaction(connection):
        if known is None or known.status != reflections.RATIFIED:
            approvals.undo_subject(connection, HANDOFF, str(number), now)
        else:
            approvals.insert(connection, HANDOFF, str(number), handoffs.fingerprint_file(known.draft), "", path, now)


def record_imported(
    connection: Connection, memory_keys: Sequence[str], reflection_keys: Sequence[str], path: str, now: float
) -> None:
    """Approve the memories and handoffs that a person imported as active; what is not active stays without."""
    for memory in memory_rows.list_memories(connection, "active"):
        if memory.key in memory_keys:
            record_memory(connection, memory.id, path, now)
    for known in reflections.list_reflections(connection, reflections.RATIFIED, limit=MAX_HANDOFFS):
        if known.key in reflection_keys:
            record_handoff(connection, known.id, path, now)


def record_trust(connection: Connection, project: str, content_hash: str, now: float) -> None:
    with transaction(connection):
        approvals.insert(connection, TRUST, project, content_hash, "", approvals.TRUSTED, now)


def withdraw(connection: Connection, kind: str, subject: str, now: float) -> None:
    """Undo every approval of a subject, earlier versions too."""
    with transaction(connection):
        approvals.undo_subject(connection, kind, subject, now)


def withdraw_undone_reflection(connection: Connection, reflection: int, now: float) -> None:
    """Undo the approvals of a reflection that was undone, and of the memories that were retired with it."""
    inactive = [
        subject
        for subject in approvals.read_live_hashes(connection, MEMORY)
        if (memory := memory_rows.get(connection, int(subject))) is None or memory.status != "active"
    ]
    with transaction(connection):
        approvals.undo_subject(connection, HANDOFF, str(reflection), now)
        for subject in inactive:
            approvals.undo_subject(connection, MEMORY, subject, now)


def compile_manifest(home: str, now: float) -> manifest.BuildResult:
    """Compile the manifest from what is approved; approve once what was in force before approvals existed."""
    has_lessons = os.path.exists(shelves.get_lessons_path(home))
    if has_lessons or os.path.exists(os.path.join(home, paths.DATABASE)):
        with closing(db.connect(home)) as connection:
            ensure_upgraded(home, connection, now)
    return manifest.build(home, now)


def find_changes_to_approve(home: str, now: float) -> list[approved_lessons.WaitingChange]:
    """Return the changes to lessons.json that nobody has approved."""
    if os.path.exists(shelves.get_lessons_path(home)):
        with closing(db.connect(home)) as connection:
            ensure_upgraded(home, connection, now)
    return approved_lessons.find_waiting_changes(home)


def ensure_upgraded(home: str, connection: Connection, now: float, *, is_restored: bool = False) -> int:
    """Approve, once for each database, what was in force before approvals were recorded; return how many.

    In force is what the last manifest has. After a person restored a backup it is what the restored file says, since
    the manifest was compiled from another.
    """
    if approvals.is_upgraded(connection):
        return 0
    try:
        lessons = shelves.read(shelves.get_lessons_path(home)).lessons
        trusted = trust_file.read_trusted_hashes(home)
    except UserError:
        return 0  # a broken file is the person's to mend first; until then the last good manifest stays in force
    wanted = {lesson.id for lesson in lessons} if is_restored else approved_lessons.find_ids_in_force(home)
    in_force = [one for one in lessons if one.id in wanted and approved_lessons.is_marked_active(one)]
    active = memory_rows.list_memories(connection, "active")
    ratified = reflections.list_reflections(connection, reflections.RATIFIED, limit=MAX_HANDOFFS)
    with transaction(connection):
        if approvals.is_upgraded(connection):  # another process was quicker
            return 0
        for lesson in in_force:
            _record_lesson(connection, lesson, UPGRADE, now)
        for memory in active:
            _upgrade_memory(home, connection, memory, now)
        for known in ratified:
            _upgrade_handoff(home, connection, known, now)
        for project, hash in trusted.items():
            approvals.insert(connection, TRUST, project, hash, "", UPGRADE, now)
        approvals.mark_upgraded(connection, now)
    return len(in_force) + len(active) + len(ratified) + len(trusted)


def _upgrade_memory(home: str, connection: Connection, memory: Memory, now: float) -> None:
    """Approve what was told: a file in the home counted as edited, one in a repository only as approved."""
    page = memories.read_page(home, memory)
    text = memory.text
    if page and page.is_edited and paths.is_inside(home, page.path):
        text = page.text
        memory_rows.reword(connection, memory.id, text)
    hash = memories.compute_approval_hash(memory.type, text)
    approvals.insert(connection, MEMORY, str(memory.id), hash, text, UPGRADE, now)


def _upgrade_handoff(home: str, connection: Connection, known: reflections.Reflection, now: float) -> None:
    as_ratified = next((file.after for file in reversed(known.files) if file.path == known.draft), "")
    hash = as_ratified
    if paths.is_inside(home, known.draft):
        hash = handoffs.fingerprint_file(known.draft)
        ratification.record_fingerprint(connection, known)
    approvals.insert(connection, HANDOFF, str(known.id), hash, "", UPGRADE, now)


def describe_approvals(connection: Connection, limit: int) -> list[ListedApproval]:
    """Return the newest approvals, newest first, undone ones too."""
    return [_describe(connection, approval) for approval in approvals.list_approvals(connection, limit)]


def find_approval_state(connection: Connection, approval: Approval) -> str:
    """Return whether an approval counts: `in force`, `replaced` by a later one of the same subject, or `undone`."""
    if approval.undone_at is not None:
        return "undone"
    newest = approvals.find_live(connection, approval.kind, approval.subject)
    return "in force" if newest is not None and newest.id == approval.id else "replaced"


def announce(connection: Connection, now: float) -> str:
    """Return what was approved since the last session start, for the person; nothing if it was told before."""
    fresh = approvals.list_unannounced(connection)
    if not fresh:
        return ""
    with transaction(connection):
        approvals.mark_announced(connection, [approval.id for approval in fresh], now)
    upgraded = [approval for approval in fresh if approval.path == UPGRADE]
    others = [approval for approval in fresh if approval.path != UPGRADE]
    lines = list[str]()
    if upgraded:
        kinds = Counter(approval.kind for approval in upgraded)
        counted = ", ".join(_count(count, _PLURALS[kind]) for kind, count in kinds.items())
        lines.append(f"hardwon: approvals are recorded from now on; what was in force stays so: {counted}")
    lines += _announce_each([_describe(connection, approval) for approval in others[:MAX_ANNOUNCED]], len(others))
    return "\n".join(lines)


_PLURALS = {LESSON: "lesson", MEMORY: "memory", HANDOFF: "handoff", TRUST: "trusted file"}


def _count(count: int, noun: str) -> str:
    if count == 1:
        return f"1 {noun}"
    return f"{count} {noun[:-1]}ies" if noun.endswith("y") else f"{count} {noun}s"


def _announce_each(shown: Sequence[ListedApproval], total: int) -> list[str]:
    if total == 1:
        one = shown[0]
        return [f"hardwon: since last time: {one.title} approved by {one.approval.path} (undo: {one.undo_command})"]
    if not shown:
        return []
    lines = [f"hardwon: since last time {total} approvals:"]
    lines += [f"  {one.title} by {one.approval.path} (undo: {one.undo_command})" for one in shown]
    if total > len(shown):
        lines.append(f"  and {total - len(shown)} more: hardwon approvals")
    return lines


def _describe(connection: Connection, approval: Approval) -> ListedApproval:
    general = f"hardwon approvals undo {approval.id}"
    if approval.kind == LESSON:
        lesson = approved_lessons.parse_approval_body(approval.body)
        if lesson is None:
            return ListedApproval(approval, f"lesson {approval.subject}", general)
        return ListedApproval(approval, f'lesson "{_shorten(lesson.summary)}"', f"hardwon lessons retire {lesson.slug}")
    if approval.kind == MEMORY:
        memory = memory_rows.get(connection, int(approval.subject))
        text = approval.body or (memory.text if memory else "")
        words = f' "{_shorten(text)}"' if text else ""
        return ListedApproval(
            approval, f"memory {approval.subject}{words}", f"hardwon memory retire {approval.subject}"
        )
    if approval.kind == HANDOFF:
        known = reflections.get(connection, int(approval.subject))
        words = f' "{_shorten(known.topic)}"' if known and known.topic else ""
        return ListedApproval(approval, f"handoff {approval.subject}{words}", general)
    return ListedApproval(approval, f"lessons of {approval.subject}", general)


def _shorten(text: str) -> str:
    return to_printable_line(text, _TITLE_LENGTH)


def find_approval(connection: Connection, number: int) -> Approval:
    """Return a live approval by its number; UserError if there is none."""
    approval = approvals.get(connection, number)
    if approval is None:
        raise UserError(f"there is no approval {number}", "hardwon approvals")
    if approval.undone_at is not None:
        raise UserError(f"approval {number} was undone already", "hardwon approvals")
    return approval


def revert_to_earlier(connection: Connection, approval: Approval, now: float) -> Approval | None:
    """Undo one approval; return the earlier one of the same subject that counts from now on."""
    with transaction(connection):
        approvals.undo(connection, approval.id, now)
    return approvals.find_live(connection, approval.kind, approval.subject)
