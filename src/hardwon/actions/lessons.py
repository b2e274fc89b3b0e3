"""Carry out what a person decides about lessons: write it, approve it and compile the manifest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from hardwon import clock, settings
from hardwon.actions import approvals, candidates, measuring
from hardwon.errors import UserError
from hardwon.lessons import adding, approved_lessons, lessons_file, manifest
from hardwon.lessons.adding import note_refused_lesson
from hardwon.lessons.approved_lessons import WaitingChange
from hardwon.lessons.record import BadRecord, hash_lesson_content, parse_lesson, to_lesson_record
from hardwon.lessons.validation import find_lesson_faults, find_secret_faults
from hardwon.store.approvals import LESSON, Approval
from hardwon.store.candidates import Candidate
from hardwon.store.db import Connection
from hardwon.types import Lesson, replace

Confirm = Callable[[str], bool]


def refuse_to_confirm(say: str) -> bool:
    """Answer no, where nobody can be asked."""
    return False


def add_lesson(home: str, connection: Connection, record: dict[str, Any], path: str) -> Lesson:
    """Write a person's lesson and put it in force."""
    approvals.ensure_upgraded(home, connection, clock.now())
    lesson = adding.add_record(home, record, is_approved=True, source=adding.SOURCE_PERSON)
    put_in_force(home, connection, [lesson], path)
    return lesson


def propose_lesson(home: str, record: dict[str, Any]) -> Lesson:
    """Write what an agent, or a pasted text, proposes as a candidate."""
    return adding.add_record(home, record, is_approved=False, source=adding.SOURCE_AGENT)


def accept_candidate(
    home: str,
    connection: Connection,
    candidate: Candidate,
    changes: Mapping[str, Any],
    path: str,
    *,
    confirm: Confirm = refuse_to_confirm,
    is_measured: bool = False,
) -> Lesson:
    """Put a candidate in force, with what the person changed in it.

    It is measured if the person asks for it, or has set `measureNewLessons` and a miss would do no great harm.
    """
    approvals.ensure_upgraded(home, connection, clock.now())
    lesson = candidates.accept(home, connection, candidate, changes, confirm=confirm)
    put_in_force(home, connection, [lesson], path)
    is_default = settings.resolve_settings(settings.read_config(home))["measureNewLessons"]
    if is_measured or (is_default and not measuring.find_exemption(lesson)):
        measuring.measure_lesson(home, connection, lesson, path)
    return lesson


def undo_decision(home: str, connection: Connection, candidate_id: str) -> Candidate:
    """Take back what was decided about a candidate."""
    proposal = candidates.find_candidate(home, connection, candidate_id)
    if proposal.lesson:
        approvals.withdraw(connection, LESSON, proposal.lesson, clock.now())
        measuring.forget_choice(connection, proposal.lesson)
    undone = candidates.undo(home, connection, candidate_id)
    _build_manifest(home)
    return undone


def edit_lesson(
    home: str, connection: Connection, lesson: Lesson, changes: dict[str, Any], path: str, *, confirm: Confirm
) -> Lesson:
    """Change some fields of a lesson and approve the result."""
    approvals.ensure_upgraded(home, connection, clock.now())
    _refuse_waiting(home, lesson)
    record = adding.apply_changes(to_lesson_record(lesson), changes)
    adding.read_or_refuse(home, record, "edit")  # refuse faults before asking the person
    candidates.refuse_unsafe_edit(connection, lesson, record, confirm=confirm)
    changed = adding.edit_record(home, lesson.id, changes)
    put_in_force(home, connection, [changed], path)
    return changed


def rewrite_lesson(
    home: str, connection: Connection, lesson: Lesson, record: dict[str, Any], path: str, *, confirm: Confirm
) -> Lesson:
    """Put another record in a lesson's place and approve it."""
    approvals.ensure_upgraded(home, connection, clock.now())
    _refuse_waiting(home, lesson)
    adding.read_or_refuse(home, record, "edit")
    candidates.refuse_unsafe_edit(connection, lesson, record, confirm=confirm)
    changed = adding.replace_record(home, lesson.id, record)
    put_in_force(home, connection, [changed], path)
    return changed


def _refuse_waiting(home: str, lesson: Lesson) -> None:
    """Refuse to edit a record that was changed by hand: approving the edit would approve that change unseen."""
    if any(change.id == lesson.id for change in approved_lessons.find_waiting_changes(home)):
        say = f"{lesson.slug} was changed by hand in lessons.json, and that waits for approval"
        raise UserError(say, approved_lessons.APPROVE_COMMAND)


def retire_lesson(home: str, connection: Connection, lesson: Lesson) -> Lesson:
    """Take a lesson out of force; it stays in the file."""
    approvals.ensure_upgraded(home, connection, clock.now())
    retired = adding.set_lesson_status(home, lesson.id, "retired")
    approvals.withdraw(connection, LESSON, lesson.id, clock.now())
    _build_manifest(home)
    return retired


def restore_lesson(
    home: str, connection: Connection, lesson: Lesson, path: str, *, confirm: Confirm = refuse_to_confirm
) -> Lesson:
    """Put a retired, proposed or unreviewed lesson in force, as the file says it.

    A block that was only proposed passes the same check as one that is accepted in review.
    """
    approvals.ensure_upgraded(home, connection, clock.now())
    if faults := find_lesson_faults(lesson):
        raise adding.build_refusal(faults)
    if lesson.status == "candidate":
        hold = f"hardwon lessons edit {lesson.slug} --delivery hold"
        candidates.refuse_unsafe_block(
            connection,
            lesson,
            confirm,
            hold_command=hold,
            confirm_command=f"hardwon lessons restore {lesson.slug} --confirm",
        )
    restored = adding.set_lesson_status(home, lesson.id, "active")
    put_in_force(home, connection, [restored], path)
    return restored


def import_foreign_lessons(
    home: str, connection: Connection, imported_records: Iterable[dict[str, Any]], path: str, *, confirm: Confirm
) -> tuple[list[Lesson], dict[str, str]]:
    """Import lessons of lessons-learned; return the imported ones, and the refused names with their reasons.

    A block that review would not let through comes in as a candidate, with the reason under `importFaults`.
    """
    approvals.ensure_upgraded(home, connection, clock.now())
    checked = [_hold_back_doubtful_block(connection, record, confirm) for record in imported_records]
    added, refused = adding.add_imported_records(home, checked)
    put_in_force(home, connection, added, path)
    return added, refused


def _hold_back_doubtful_block(connection: Connection, record: dict[str, Any], confirm: Confirm) -> dict[str, Any]:
    try:
        lesson = adding.parse_valid_lesson(record)
        if approved_lessons.is_marked_active(lesson):
            candidates.refuse_unsafe_block(connection, lesson, confirm, hold_command="", confirm_command="")
    except UserError as error:
        if adding.find_record_faults(record):
            return record  # adding it is refused with its faults
        earlier_faults = record.get("importFaults")
        faults = [*earlier_faults, error.say] if isinstance(earlier_faults, list) else [error.say]
        return {**record, "status": "candidate", "importFaults": faults}
    return record


def import_exported_lessons(
    home: str,
    connection: Connection,
    numbered_records: Iterable[tuple[int, dict[str, Any]]],
    path: str,
    *,
    is_person: bool,
) -> tuple[int, list[tuple[int, str]]]:
    """Import exported lessons by line; return how many were added, and the refused lines with their reasons.

    An agent's come in as candidates, and so do blocks that review would not let through.
    """
    approvals.ensure_upgraded(home, connection, clock.now())
    added: list[Lesson] = []
    refused: list[tuple[int, str]] = []
    with lessons_file.open_for_edit(home) as file:
        ids = {entry.get("id") for entry in file.document["lessons"] if isinstance(entry, dict)}
        slugs = {entry.slug for entry in file.lessons}
        for number, record in numbered_records:
            if record.get("id") in ids:
                continue
            if fault := _find_fault(record, slugs):
                refused.append((number, fault))
                note_refused_lesson(home, adding.SOURCE_IMPORT, [fault])
                continue
            new_record = dict(record)
            if not is_person or new_record.get("source", adding.SOURCE_IMPORT) not in adding.SOURCES:
                new_record["source"] = adding.SOURCE_IMPORT  # a person's own export keeps what hardwon wrote there
            if is_person:
                new_record = _hold_back_doubtful_block(connection, new_record, refuse_to_confirm)
            else:
                new_record["status"] = "candidate"
            file.document["lessons"].append(new_record)
            ids.add(new_record["id"])
            slugs.add(new_record["slug"])
            added.append(parse_lesson(new_record))
        if added:
            lessons_file.save(file)
    if added:
        put_in_force(home, connection, added, path)
    return len(added), refused


def _find_fault(record: dict[str, Any], slugs: set[str]) -> str:
    try:
        lesson = parse_lesson(record)
    except BadRecord as error:
        return f"lesson: {'; '.join(error.faults)}"
    if not lesson.id or not lesson.slug:
        return "lesson: it has no id or no slug"
    if faults := find_secret_faults(lesson):
        return f"lesson: {faults[0]}"
    return f"lesson: another has the slug {lesson.slug}" if lesson.slug in slugs else ""


def approve_waiting_changes(
    home: str, connection: Connection, waiting: Sequence[WaitingChange], path: str
) -> manifest.BuildResult:
    """Approve changes that a person made in lessons.json by hand, as they were shown."""
    now = clock.now()
    approvals.ensure_upgraded(home, connection, now)
    proposed = [change.proposed for change in waiting if change.proposed is not None]
    approvals.record_lessons(connection, proposed, path, now)
    for change in waiting:
        if change.proposed is None:
            approvals.withdraw(connection, LESSON, change.id, now)
    return _build_manifest(home)


def undo_lesson_approval(home: str, connection: Connection, approval: Approval) -> str:
    """Undo one approval of a lesson: its earlier approved version counts again, or it is retired."""
    earlier = approvals.revert_to_earlier(connection, approval, clock.now())
    earlier_lesson = approved_lessons.parse_approval_body(earlier.body) if earlier else None
    file = lessons_file.read(lessons_file.get_lessons_path(home))
    written = next((lesson for lesson in file.lessons if lesson.id == approval.subject), None)
    if earlier_lesson is not None:
        with lessons_file.open_for_edit(home) as file:
            lessons_file.put_lesson(file, _copy_file_fields(earlier_lesson, written))
            lessons_file.save(file)
        message = f"the version approved before is in force again: {earlier_lesson.slug}"
    else:
        if written is not None:
            adding.set_lesson_status(home, written.id, "retired")
        message = f"retired: {written.slug if written else approval.subject}"
    _build_manifest(home)
    return message


def _copy_file_fields(approved: Lesson, written: Lesson | None) -> Lesson:
    """Return the approved version with the counts and dates that the file has."""
    if written is None:
        return approved
    return replace(
        approved,
        source_sessions=written.source_sessions,
        occurrences=written.occurrences,
        evidence=written.evidence,
        created_at=written.created_at,
        updated_at=clock.format_iso(clock.now()),
        content_hash=hash_lesson_content(approved),
        extra=written.extra,
    )


def put_in_force(home: str, connection: Connection, lessons: Sequence[Lesson], path: str) -> None:
    """Approve lessons as they are written, and compile the manifest."""
    approvals.record_lessons(connection, lessons, path, clock.now())
    _build_manifest(home)


def _build_manifest(home: str) -> manifest.BuildResult:
    try:
        return manifest.build(home, clock.now())
    except UserError as error:
        raise UserError(f"it is written, but not in force yet: {error.say}", error.fix) from None
