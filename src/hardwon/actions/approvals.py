"""Record what a person put in force: lessons, memories, handoffs, trust in a repository's lessons.

This is the only module that writes the table `approvals`.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hardwon import clock, paths
from hardwon.efficacy import staleness
from hardwon.errors import UserError
from hardwon.handoff import handoffs
from hardwon.handoff.ratification import record_fingerprint
from hardwon.lessons import lessons_file, manifest
from hardwon.lessons.lessons_file import read_trusted_hashes
from hardwon.lessons.record import hash_authored_fields
from hardwon.memories.memories import compute_approval_hash, read_page
from hardwon.store import approvals, db, efficacy, memories, reflections
from hardwon.store.approvals import HANDOFF, LESSON, MEMORY, TRUST, UPGRADE, Approval
from hardwon.store.db import Connection, transaction
from hardwon.text.characters import format_count, to_printable_line
from hardwon.types import Lesson, Memory

_MAX_ANNOUNCED = 5  # at a session start; the rest is counted
# More than anybody ratifies; a bound for the query.
_MAX_HANDOFFS = 1_000
_TITLE_LENGTH = 60


@dataclass(frozen=True, slots=True)
class Decider:
    """Somebody who decides: about which home, over which path (as approvals name it), and when."""

    home: str
    connection: Connection
    path: str
    now: float


def open_decider(home: str, connection: Connection, path: str) -> Decider:
    """Return somebody who decides now; what was in force before approvals were recorded is approved first."""
    now = clock.now()
    ensure_upgraded(home, connection, now)
    return Decider(home, connection, path, now)


@dataclass(frozen=True, slots=True)
class ListedApproval:
    """An approval as people see it: a title, and the command that undoes it."""

    approval: Approval
    title: str
    undo_command: str


def record_lessons(decider: Decider, lessons: Sequence[Lesson]) -> None:
    """Approve lessons as they are written; one that does not claim to be in force loses its approval."""
    with transaction(decider.connection):
        for lesson in lessons:
            _record_lesson(decider, lesson)
    # Outside the transaction, because it reads the files that the lessons name.
    for lesson in lessons:
        staleness.save_lesson_anchors(decider.connection, lesson, decider.now)


def _record_lesson(decider: Decider, lesson: Lesson) -> None:
    """Approve a lesson, or undo its approvals if it does not claim to be in force."""
    # A candidate or a retired lesson may be written by the same paths.
    if not manifest.is_marked_active(lesson):
        approvals.undo_subject(decider.connection, LESSON, lesson.id, decider.now)
        return
    _insert(decider, LESSON, lesson.id, hash_authored_fields(lesson), manifest.to_approval_body(lesson))
    # False alarms of what it was before do not count.
    efficacy.forget_step_down(decider.connection, lesson.id, decider.now)


def _insert(decider: Decider, kind: str, subject: str, content_hash: str, body: str = "") -> None:
    approvals.insert(decider.connection, kind, subject, content_hash, body, decider.path, decider.now)


def record_memory(decider: Decider, number: int) -> None:
    """Approve a memory in the words that its row has; a row that is not active loses its approval."""
    subject = str(number)
    memory = memories.get_memory(decider.connection, number)
    with transaction(decider.connection):
        if memory is None or memory.status != "active":
            approvals.undo_subject(decider.connection, MEMORY, subject, decider.now)
        else:
            _insert(decider, MEMORY, subject, compute_approval_hash(memory.type, memory.text), memory.text)
    if memory is not None:
        staleness.save_anchors(decider.connection, MEMORY, subject, memory.text, memory.project, decider.now)


def record_handoff(decider: Decider, number: int) -> None:
    """Approve a handoff as its file is now; one that is not ratified loses its approval."""
    subject = str(number)
    reflection = reflections.get(decider.connection, number)
    with transaction(decider.connection):
        if reflection is None or reflection.status != reflections.RATIFIED:
            approvals.undo_subject(decider.connection, HANDOFF, subject, decider.now)
        else:
            _insert(decider, HANDOFF, subject, handoffs.fingerprint_file(reflection.draft))
    if reflection is not None and (page := handoffs.read_page(reflection)):
        text = "\n".join(handoffs.get_resume_lines(page))
        staleness.save_anchors(decider.connection, HANDOFF, subject, text, reflection.project, decider.now)


def record_imported(decider: Decider, memory_keys: Sequence[str], reflection_keys: Sequence[str]) -> None:
    """Approve the memories and handoffs that a person imported as active."""
    for memory in memories.list_memories(decider.connection, "active"):
        if memory.key in memory_keys:
            record_memory(decider, memory.id)
    for reflection in reflections.list_reflections(decider.connection, reflections.RATIFIED, limit=_MAX_HANDOFFS):
        if reflection.key in reflection_keys:
            record_handoff(decider, reflection.id)


def withdraw(decider: Decider, kind: str, subject: str) -> None:
    """Undo every approval of a subject, including earlier versions."""
    with transaction(decider.connection):
        approvals.undo_subject(decider.connection, kind, subject, decider.now)


def withdraw_undone_reflection(decider: Decider, reflection: int) -> None:
    """Undo the approvals of a reflection that was undone, and of the memories that were retired with it."""
    withdraw(decider, HANDOFF, str(reflection))
    # Whatever is not active any more needs no approval, so this reflection's memories need not be told apart.
    for subject in approvals.read_live_hashes(decider.connection, MEMORY):
        memory = memories.get_memory(decider.connection, int(subject))
        if memory is None or memory.status != "active":
            withdraw(decider, MEMORY, subject)


def compile_manifest(home: str, now: float) -> manifest.BuildResult:
    """Compile the manifest from what is approved; approve once what was in force before approvals existed."""
    # Without lessons and without a database nothing was in force before, and opening a database would create it.
    has_lessons = os.path.exists(lessons_file.get_lessons_path(home))
    if has_lessons or paths.has_database(home):
        with db.open(home) as connection:
            ensure_upgraded(home, connection, now)
    return manifest.build(home, now)


def ensure_upgraded(home: str, connection: Connection, now: float, *, is_restored: bool = False) -> int:
    """Approve, once for each database, what was in force before approvals were recorded; return how many.

    The last manifest says what was in force. After a person restored a backup, the restored file does, since the
    manifest was compiled from another file.
    """
    if approvals.is_upgraded(connection):
        return 0
    try:
        lessons = lessons_file.read_own(home).lessons
        trusted = read_trusted_hashes(home)
    except UserError:
        return 0  # the person must fix the broken file first; until then the last good manifest stays in force
    if not is_restored:
        active_ids = manifest.find_ids_in_force(home)
        lessons = tuple(lesson for lesson in lessons if lesson.id in active_ids)
    in_force = [lesson for lesson in lessons if manifest.is_marked_active(lesson)]
    active = memories.list_memories(connection, "active")
    ratified = reflections.list_reflections(connection, reflections.RATIFIED, limit=_MAX_HANDOFFS)
    decider = Decider(home, connection, UPGRADE, now)
    with transaction(connection):
        # The check before was outside the transaction.
        if approvals.is_upgraded(connection):  # another process was quicker
            return 0
        for lesson in in_force:
            _record_lesson(decider, lesson)
        for memory in active:
            _upgrade_memory(decider, memory)
        for reflection in ratified:
            _upgrade_handoff(decider, reflection)
        for project, content_hash in trusted.items():
            _insert(decider, TRUST, project, content_hash)
        approvals.mark_upgraded(connection, now)
    return len(in_force) + len(active) + len(ratified) + len(trusted)


def _upgrade_memory(decider: Decider, memory: Memory) -> None:
    """Approve a memory as it counted before: a file in the home as edited, one in a repository only as approved."""
    page = read_page(decider.home, memory)
    text = memory.text
    # Anybody with access to a repository can edit a file there, so only a file in the home counts as edited by the
    # person.
    if page and page.is_edited and paths.is_inside(decider.home, page.path):
        text = page.text
        memories.update_memory_text(decider.connection, memory.id, text)
    _insert(decider, MEMORY, str(memory.id), compute_approval_hash(memory.type, text), text)


def _upgrade_handoff(decider: Decider, reflection: reflections.Reflection) -> None:
    """Approve a handoff that was ratified before approvals were recorded.

    A file in a repository counts as it was ratified. One in the home could be changed by nobody else, so it counts as
    it is now, and its fingerprint is recorded.
    """
    content_hash = ""
    if paths.is_inside(decider.home, reflection.draft):
        content_hash = handoffs.fingerprint_file(reflection.draft)
        record_fingerprint(decider.connection, reflection)
    else:
        for file in reflection.files:
            if file.path == reflection.draft:
                content_hash = file.after  # of the last time it was written
    _insert(decider, HANDOFF, str(reflection.id), content_hash)


def describe_approvals(connection: Connection, limit: int) -> list[ListedApproval]:
    """Return the newest approvals, newest first, including undone ones."""
    return [_describe_approval(connection, approval) for approval in approvals.list_approvals(connection, limit)]


def find_approval_state(connection: Connection, approval: Approval) -> str:
    """Return whether an approval counts: `in force`, `replaced` by a later one of the same subject, or `undone`."""
    if approval.undone_at is not None:
        return "undone"
    # Only the newest approval of a subject counts; the older ones are kept for undo.
    newest = approvals.find_live(connection, approval.kind, approval.subject)
    return "in force" if newest is not None and newest.id == approval.id else "replaced"


def announce(connection: Connection, now: float) -> str:
    """Return a message about approvals since the last session start; empty if all were announced before."""
    fresh = approvals.list_unannounced(connection)
    if not fresh:
        return ""
    with transaction(connection):
        # Marked before it is told: an announcement that gets lost is listed by `hardwon approvals`, one told twice
        # would nag.
        approvals.mark_announced(connection, [approval.id for approval in fresh], now)
    # An upgrade may approve hundreds of lessons at once, which are only counted.
    upgraded = [approval for approval in fresh if approval.path == UPGRADE]
    others = [approval for approval in fresh if approval.path != UPGRADE]
    lines = list[str]()
    if upgraded:
        kinds = Counter(approval.kind for approval in upgraded)
        counts_text = ", ".join(format_count(count, _NOUNS[kind]) for kind, count in kinds.items())
        lines.append(f"hardwon: approvals are recorded from now on; what was in force stays so: {counts_text}")
    listed = [_describe_approval(connection, approval) for approval in others[:_MAX_ANNOUNCED]]
    lines += _format_announcements(listed, total=len(others))
    return "\n".join(lines)


_NOUNS = {LESSON: "lesson", MEMORY: "memory", HANDOFF: "handoff", TRUST: "trusted file"}


def _format_announcements(listed_approvals: Sequence[ListedApproval], total: int) -> list[str]:
    """Format approvals for the person, of which only some are listed: one in a line, several below a heading."""
    if total == 1:
        listed = listed_approvals[0]
        return [f"hardwon: since last time: {listed.title} approved by {listed.approval.path} {_format_undo(listed)}"]
    if not listed_approvals:
        return []
    lines = [f"hardwon: since last time {total} approvals:"]
    lines += [f"  {listed.title} by {listed.approval.path} {_format_undo(listed)}" for listed in listed_approvals]
    if total > len(listed_approvals):
        lines.append(f"  and {total - len(listed_approvals)} more: hardwon approvals")
    return lines


def _format_undo(listed: ListedApproval) -> str:
    # By its number, because a slug would take a second line of the agent's screen.
    return f"(undo: hardwon undo {listed.approval.id})"


def _describe_approval(connection: Connection, approval: Approval) -> ListedApproval:
    """Title an approval by the words of its subject, or by number if a purge removed these."""
    undo_command = f"hardwon undo {approval.id}"
    if approval.kind == LESSON:
        lesson = manifest.parse_approval_body(approval.body)
        if lesson is None:
            return ListedApproval(approval, f"lesson {approval.subject}", undo_command)
        return ListedApproval(approval, f'lesson "{_shorten(lesson.summary)}"', f"hardwon lessons retire {lesson.slug}")
    if approval.kind == MEMORY:
        text = approval.body
        if not text and (memory := memories.get_memory(connection, int(approval.subject))):
            text = memory.text
        name = f"M{approval.subject}"
        title = f'memory {name} "{_shorten(text)}"' if text else f"memory {name}"
        return ListedApproval(approval, title, f"hardwon memory retire {name}")
    if approval.kind == HANDOFF:
        reflection = reflections.get(connection, int(approval.subject))
        words = f' "{_shorten(reflection.topic)}"' if reflection and reflection.topic else ""
        return ListedApproval(approval, f"handoff H{approval.subject}{words}", undo_command)
    return ListedApproval(approval, f"lessons of {approval.subject}", undo_command)


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


def revert_to_earlier(decider: Decider, approval: Approval) -> Approval | None:
    """Undo one approval; return the earlier one of the same subject that counts from now on."""
    with transaction(decider.connection):
        approvals.undo(decider.connection, approval.id, decider.now)
    return approvals.find_live(decider.connection, approval.kind, approval.subject)


def trust_files(decider: Decider, contents: Mapping[str, bytes]) -> None:
    """Use a repository's lessons as they were shown; a change to a file waits until it is trusted again."""
    trusted_hashes = read_trusted_hashes(decider.home)
    with transaction(decider.connection):
        # File by file: with one hash for all, a merged pull request would take every lesson out of force.
        for subject, content in contents.items():
            trusted_hashes[subject] = lessons_file.hash_bytes(content)
            _insert(decider, TRUST, subject, trusted_hashes[subject])
    lessons_file.write_trusted_hashes(decider.home, trusted_hashes)
    manifest.build(decider.home, decider.now)


def revoke_trust(decider: Decider, name: str) -> None:
    """Trust a file no longer, or every file of a project."""
    trusted_hashes = read_trusted_hashes(decider.home)
    subjects = [subject for subject in trusted_hashes if name in (subject, lessons_file.get_trusted_project(subject))]
    if not subjects:
        raise UserError(f"{name} is not trusted", "hardwon trust --list")
    for subject in subjects:
        del trusted_hashes[subject]
        withdraw(decider, TRUST, subject)
    lessons_file.write_trusted_hashes(decider.home, trusted_hashes)
    manifest.build(decider.home, decider.now)
