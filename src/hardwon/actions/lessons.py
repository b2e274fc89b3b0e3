"""What a person decides about lessons: each decision is written, approved and compiled in one step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from hardwon import clock
from hardwon.actions import approvals, candidates
from hardwon.errors import UserError
from hardwon.lessons import adding, approved_lessons, manifest, validation
from hardwon.lessons import lessons_file as shelves
from hardwon.lessons import record as records
from hardwon.lessons.approved_lessons import WaitingChange
from hardwon.lessons.secrets import find_secret_faults
from hardwon.store.approvals import LESSON, Approval
from hardwon.store.candidates import Proposal
from hardwon.store.db import Connection
from hardwon.store.refusals import note_refused_lesson
from hardwon.types import Lesson, replace

Confirm = Callable[[str], bool]


def refuse_to_confirm(say: str) -> bool:
    """Answer no, where nobody can be asked."""
    return False


def add_lesson(home: str, connection: Connection, record: dict[str, Any], path: str) -> Lesson:
    """Write a person's lesson and put it in force."""
    approvals.upgrade(home, connection, clock.now())
    lesson = adding.add(home, record, approved=True, source=adding.SOURCE_PERSON)
    _put_in_force(home, connection, [lesson], path)
    return lesson


def propose_lesson(home: str, record: dict[str, Any]) -> Lesson:
    """Write what an agent, or a pasted text, proposes as a candidate."""
    return adding.add(home, record, approved=False, source=adding.SOURCE_AGENT)


def accept_candidate(
    home: str,
    connection: Connection,
    proposal: Proposal,
    changes: Mapping[str, Any],
    path: str,
    *,
    confirm: Confirm = refuse_to_confirm,
) -> Lesson:
    """Put a candidate in force, with what the person changed in it."""
    approvals.upgrade(home, connection, clock.now())
    lesson = candidates.accept(home, connection, proposal, changes, confirm=confirm)
    _put_in_force(home, connection, [lesson], path)
    return lesson


def undo_decision(home: str, connection: Connection, id: str) -> Proposal:
    """Take back what was decided about a candidate."""
    proposal = candidates.named(home, connection, id)
    if proposal.lesson:
        approvals.withdraw(connection, LESSON, proposal.lesson, clock.now())
    undone = candidates.undo(home, connection, id)
    _compile(home)
    return undone


def edit_lesson(
    home: str, connection: Connection, lesson: Lesson, changes: dict[str, Any], path: str, *, confirm: Confirm
) -> Lesson:
    """Change some fields of a lesson and approve the result."""
    approvals.upgrade(home, connection, clock.now())
    _refuse_waiting(home, lesson)
    record = adding.with_changes(records.write(lesson), changes)
    adding.read_or_refuse(home, record, "edit")
    candidates.may_become(connection, lesson, record, confirm=confirm)
    changed = adding.edit(home, lesson.id, changes)
    _put_in_force(home, connection, [changed], path)
    return changed


def rewrite_lesson(
    home: str, connection: Connection, lesson: Lesson, record: dict[str, Any], path: str, *, confirm: Confirm
) -> Lesson:
    """Put another record in a lesson's place and approve it."""
    approvals.upgrade(home, connection, clock.now())
    _refuse_waiting(home, lesson)
    adding.read_or_refuse(home, record, "edit")
    candidates.may_become(connection, lesson, record, confirm=confirm)
    changed = adding.rewrite(home, lesson.id, record)
    _put_in_force(home, connection, [changed], path)
    return changed


def _refuse_waiting(home: str, lesson: Lesson) -> None:
    """Refuse to edit a record that was changed by hand: approving the edit would approve that change unseen."""
    if any(change.id == lesson.id for change in approved_lessons.find_waiting(home)):
        say = f"{lesson.slug} was changed by hand in lessons.json, and that waits for approval"
        raise UserError(say, approved_lessons.APPROVE)


def retire_lesson(home: str, connection: Connection, lesson: Lesson) -> Lesson:
    """Take a lesson out of force; it stays in the file."""
    approvals.upgrade(home, connection, clock.now())
    retired = _set_status(home, lesson, "retired")
    approvals.withdraw(connection, LESSON, lesson.id, clock.now())
    _compile(home)
    return retired


def restore_lesson(
    home: str, connection: Connection, lesson: Lesson, path: str, *, confirm: Confirm = refuse_to_confirm
) -> Lesson:
    """Put a retired, proposed or unreviewed lesson in force, as the file says it.

    A block that was only proposed passes the same check as one that is accepted in review.
    """
    approvals.upgrade(home, connection, clock.now())
    if faults := validation.faults(lesson):
        raise adding.refusal(faults)
    if lesson.status == "candidate":
        hold = f"hardwon lessons edit {lesson.slug} --delivery hold"
        candidates.may_block(
            connection, lesson, confirm, hold=hold, sure=f"hardwon lessons restore {lesson.slug} --confirm"
        )
    restored = adding.set_status(home, lesson.id, "active")
    _put_in_force(home, connection, [restored], path)
    return restored


def import_lessons(
    home: str, connection: Connection, found: Iterable[dict[str, Any]], path: str, *, confirm: Confirm
) -> tuple[list[Lesson], dict[str, str]]:
    """Take over lessons of lessons-learned: those taken, and the names of those refused with the reason.

    A block that review would not let through comes in as a candidate, with the reason under `importFaults`.
    """
    approvals.upgrade(home, connection, clock.now())
    checked = [_hold_back_doubtful_block(connection, record, confirm) for record in found]
    taken, refused = adding.take_over(home, checked)
    _put_in_force(home, connection, taken, path)
    return taken, refused


def _hold_back_doubtful_block(connection: Connection, record: dict[str, Any], confirm: Confirm) -> dict[str, Any]:
    try:
        lesson = adding.sound(record)
        if approved_lessons.is_claiming_force(lesson):
            candidates.may_block(connection, lesson, confirm, hold="", sure="")
    except UserError as refused:
        if adding.faults(record):
            return record  # `take_over` refuses it with its faults
        earlier = record.get("importFaults")
        faults = [*earlier, refused.say] if isinstance(earlier, list) else [refused.say]
        return {**record, "status": "candidate", "importFaults": faults}
    return record


def import_records(
    home: str, connection: Connection, found: Iterable[tuple[int, dict[str, Any]]], path: str, *, is_person: bool
) -> tuple[int, list[tuple[int, str]]]:
    """Take in lessons from an export, by line: how many were added, and which lines were refused and why.

    An agent's come in as candidates, and so do blocks that review would not let through.
    """
    approvals.upgrade(home, connection, clock.now())
    added: list[Lesson] = []
    refused: list[tuple[int, str]] = []
    with shelves.editing(home) as shelf:
        ids = {one.get("id") for one in shelf.document["lessons"] if isinstance(one, dict)}
        slugs = {one.slug for one in shelf.lessons}
        for number, record in found:
            if record.get("id") in ids:
                continue
            if fault := _find_fault(record, slugs):
                refused.append((number, fault))
                note_refused_lesson(home, adding.SOURCE_IMPORT, [fault])
                continue
            taken = dict(record)
            if not is_person or taken.get("source", adding.SOURCE_IMPORT) not in adding.SOURCES:
                taken["source"] = adding.SOURCE_IMPORT  # a person's own export keeps what hardwon wrote there
            if is_person:
                taken = _hold_back_doubtful_block(connection, taken, refuse_to_confirm)
            else:
                taken["status"] = "candidate"
            shelf.document["lessons"].append(taken)
            ids.add(taken["id"])
            slugs.add(taken["slug"])
            added.append(records.read(taken))
        if added:
            shelves.save(shelf)
    if added:
        _put_in_force(home, connection, added, path)
    return len(added), refused


def _find_fault(record: dict[str, Any], slugs: set[str]) -> str:
    try:
        lesson = records.read(record)
    except records.BadRecord as bad:
        return f"lesson: {'; '.join(bad.faults)}"
    if not lesson.id or not lesson.slug:
        return "lesson: it has no id or no slug"
    if faults := find_secret_faults(lesson):
        return f"lesson: {faults[0]}"
    return f"lesson: another has the slug {lesson.slug}" if lesson.slug in slugs else ""


def approve_waiting(home: str, connection: Connection, waiting: Sequence[WaitingChange], path: str) -> manifest.Built:
    """Approve changes that a person made in lessons.json by hand, as they were shown."""
    now = clock.now()
    approvals.upgrade(home, connection, now)
    proposed = [change.proposed for change in waiting if change.proposed is not None]
    approvals.record_lessons(connection, proposed, path, now)
    for change in waiting:
        if change.proposed is None:
            approvals.withdraw(connection, LESSON, change.id, now)
    return _compile(home)


def undo_approval(home: str, connection: Connection, approval: Approval) -> str:
    """Undo one approval of a lesson: its earlier approved version counts again, or it is retired."""
    earlier = approvals.undo_one(connection, approval, clock.now())
    before = approved_lessons.read_body(earlier.body) if earlier else None
    shelf = shelves.read(shelves.lessons_path(home))
    written = next((lesson for lesson in shelf.lessons if lesson.id == approval.subject), None)
    if before is not None:
        with shelves.editing(home) as shelf:
            shelves.put(shelf, _with_authored(before, written))
            shelves.save(shelf)
        said = f"the version approved before is in force again: {before.slug}"
    else:
        if written is not None:
            _set_status(home, written, "retired")
        said = f"retired: {written.slug if written else approval.subject}"
    _compile(home)
    return said


def _with_authored(approved: Lesson, written: Lesson | None) -> Lesson:
    """Return the approved version with the counts and dates that the file has."""
    if written is None:
        return approved
    return replace(
        approved,
        sessions=written.sessions,
        occurrences=written.occurrences,
        evidence=written.evidence,
        created=written.created,
        updated=clock.iso(clock.now()),
        content_hash=records.content_hash(approved),
        extra=written.extra,
    )


def _set_status(home: str, lesson: Lesson, status: Any) -> Lesson:
    return adding.set_status(home, lesson.id, status)


def _put_in_force(home: str, connection: Connection, lessons: Sequence[Lesson], path: str) -> None:
    approvals.record_lessons(connection, lessons, path, clock.now())
    _compile(home)


def _compile(home: str) -> manifest.Built:
    try:
        return manifest.build(home, clock.now())
    except UserError as wrong:
        raise UserError(f"it is written, but not in force yet: {wrong.say}", wrong.fix) from None
