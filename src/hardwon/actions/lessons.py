"""Carry out what a person decides about lessons: write it, approve it and compile the manifest.

A proposed lesson is a candidate. Its lesson is written first and has the candidate's id, so a decision that was cut off
between the two is seen and completed the next time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from hardwon import clock, settings
from hardwon.actions import approvals
from hardwon.actions.approvals import Decider
from hardwon.efficacy.delivery_changes import update_deliveries
from hardwon.errors import UserError
from hardwon.lessons import adding, lessons_file, manifest, review_queue
from hardwon.lessons.manifest import WaitingChange
from hardwon.lessons.record import BadRecord, hash_authored_fields, hash_lesson_content, parse_lesson, to_lesson_record
from hardwon.lessons.replay import MIN_FIRINGS, Replay, replay_lesson
from hardwon.lessons.validation import find_disabling_faults, find_lesson_faults, find_secret_faults
from hardwon.store import candidates, efficacy
from hardwon.store.approvals import LESSON, Approval, find_live
from hardwon.store.candidates import Candidate
from hardwon.store.db import Connection, transaction
from hardwon.store.efficacy import MEASURED, NOTE, RETIRE, SILENT, UNMEASURED
from hardwon.text.characters import format_count
from hardwon.text.similarity import SAME_THRESHOLD, find_nearest_lesson
from hardwon.types import Lesson, replace

_ACCEPTED_CONFIDENCE = 0.9  # the confidence of what a person has read and accepted
_DATA_LOSS_TAG = "severity:data-loss"  # one silent session could cost a person's work
# The fields by which a block decides which calls it stops.
_BLOCKING_FIELDS = ("delivery", "triggers", "unless", "scope", "commandMatchTarget")
_FLAGS_BY_FAULT = {
    "summary": "--summary TEXT",
    "problem": "--problem TEXT",
    "solution": "--solution TEXT",
    "no trigger": "--command REGEX",
    "commandPatterns": "--command REGEX",
    "pathPatterns": "--path GLOB",
    "contentPatterns": "--content REGEX",
    "unless": "--unless REGEX",
    "priority": "--priority N",
    "tag": "--tag CATEGORY:VALUE",
    "block": "--block-reason TEXT",
}
Confirm = Callable[[str], bool]


def refuse_to_confirm(say: str) -> bool:
    """Answer no, where nobody can be asked."""
    return False


def add_lesson(decider: Decider, record: dict[str, Any]) -> Lesson:
    """Write a person's lesson and put it in force."""
    lesson = adding.add_record(decider.home, record, is_approved=True, source=adding.SOURCE_PERSON)
    put_in_force(decider, [lesson])
    return lesson


def propose_lesson(home: str, record: dict[str, Any]) -> Lesson:
    """Write what an agent, or a pasted text, proposes as a candidate."""
    return adding.add_record(home, record, is_approved=False, source=adding.SOURCE_AGENT)


def find_candidate(home: str, connection: Connection, name: str) -> Candidate:
    """Return a proposed lesson by its number, slug or id; UserError if there is none."""
    candidate = review_queue.find_in_queue(home, connection, name)
    if candidate is None:
        label = f"L{name}" if name.isdigit() else repr(name)
        say = f"there is no proposed lesson {label}"
        # The number of a candidate is never given to another, so that a late "accept 3" cannot hit something unread.
        if candidates.is_issued_number(connection, name):
            say += " any more: a scan found other words for it, and gave it another number"
        raise UserError(say, "hardwon scan candidates --all")
    return candidate


def accept_candidate(
    decider: Decider,
    candidate: Candidate,
    changes: Mapping[str, Any],
    *,
    confirm: Confirm = refuse_to_confirm,
    should_measure: bool = False,
) -> Lesson:
    """Put a candidate in force, with what the person changed in it.

    It is measured if the person asks for it, or has set `measureNewLessons` and a miss would do no great harm.
    """
    if candidate.status == "active":
        raise UserError(f"candidate {candidate.number} is accepted already", f"hardwon lessons show {candidate.slug}")
    home = decider.home
    connection = decider.connection
    record = adding.apply_changes(build_accepted_record(candidate), changes)
    lesson = _find_interrupted(home, connection, candidate.id, record)
    if lesson is None:
        _refuse_faulty(record, candidate)
        command = f"hardwon accept {candidate.number} --delivery"
        _refuse_unsafe_block(
            connection, adding.parse_valid_lesson(record), confirm, f"{command} hold", f"{command} block --confirm"
        )
        lesson = review_queue.write_accepted_lesson(home, candidate, record)
    candidates.record_decision(connection, candidate.id, "active", decider.now, lesson.id)
    put_in_force(decider, [lesson])
    measures_new_lessons = settings.load_settings(home)["measureNewLessons"]
    can_be_silent = lesson.delivery in ("note", "hold") and _DATA_LOSS_TAG not in lesson.tags
    if should_measure or (measures_new_lessons and can_be_silent):
        measure_lesson(decider, lesson)
    return lesson


def build_accepted_record(candidate: Candidate) -> dict[str, Any]:
    """Return the suggested record as an active lesson, with the confidence of one that a person has read."""
    return {
        **candidate.record,
        "id": candidate.id,
        "slug": candidate.slug,
        "status": "active",
        "needsReview": False,
        "confidence": max(_ACCEPTED_CONFIDENCE, candidate.record["confidence"]),
    }


def _find_interrupted(home: str, connection: Connection, lesson_id: str, record: dict[str, Any]) -> Lesson | None:
    """Return the lesson of a decision that was cut off: approved, or written just as it would be now.

    Anybody may have written another record under the same id into lessons.json.
    """
    written = lessons_file.find_own_lesson(home, lesson_id)
    if written is None or written.status != "active":
        return None
    if find_live(connection, LESSON, lesson_id):
        return written
    if adding.find_record_faults(record):
        return None
    is_same = hash_authored_fields(written) == hash_authored_fields(adding.parse_valid_lesson(record))
    return written if is_same else None


def _refuse_faulty(record: dict[str, Any], candidate: Candidate) -> None:
    """Refuse a record with faults; the fix is to accept it with options that correct them."""
    faults = adding.find_record_faults(record)
    if not faults:
        return
    flags: list[str] = []
    for fault in faults:
        flags += [flag for name, flag in _FLAGS_BY_FAULT.items() if fault.startswith(name) and flag not in flags]
    fix = "hardwon review, and [e]dit it"
    if flags:
        fix = " ".join([f"hardwon accept {candidate.number}", *flags])
    raise UserError(adding.build_refusal(faults).message, fix)


def _refuse_unsafe_block(
    connection: Connection, lesson: Lesson, confirm: Confirm, hold_command: str, confirm_command: str
) -> None:
    """Refuse a block that would have stopped calls that went fine, or that fired too seldom to tell.

    With too few calls to tell, `confirm` asks the person. `hold_command` turns the lesson into a hold, and
    `confirm_command` blocks anyway.
    """
    if lesson.delivery != "block":
        return
    replay = replay_lesson(connection, lesson)
    if replay.fine:
        sample = next(call for call in replay.samples if call.outcome == "fine")
        call_text = (sample.command or sample.file)[:80]
        fired = f"its trigger fired on {format_count(replay.fine, 'call')} that went fine"
        raise UserError(f"it cannot block: {fired}, such as {call_text!r}", f"narrow the trigger, or: {hold_command}")
    if replay.fires >= MIN_FIRINGS:
        return
    fired = f"its trigger fired {format_count(replay.fires, 'time')} in the recorded calls"
    question = f"{fired}, too few to be sure that it may block"
    if not confirm(question):
        raise UserError(question, f"if you are: {confirm_command}")


def reject_candidate(decider: Decider, candidate: Candidate) -> None:
    """Reject a candidate; it stays rejected, however often it is found again."""
    if candidate.status == "active":
        raise UserError(f"candidate {candidate.number} is a lesson by now", f"hardwon lessons retire {candidate.slug}")
    review_queue.reject_record(decider.home, candidate)
    candidates.record_decision(decider.connection, candidate.id, "rejected", decider.now)


def undo_decision(decider: Decider, candidate_id: str) -> Candidate:
    """Take back a decision: the candidate's lesson is removed from the file, or is proposed there as before."""
    home = decider.home
    connection = decider.connection
    candidate = find_candidate(home, connection, candidate_id)
    if candidate.lesson:
        # The approval goes first: cut off here, the lesson is out of force, which is the safe half.
        approvals.withdraw(decider, LESSON, candidate.lesson)
        with transaction(connection):
            efficacy.undo_changes(connection, candidate.lesson, (MEASURED, UNMEASURED), decider.now)
    review_queue.restore_record(home, candidate)
    candidates.record_decision(connection, candidate_id, "candidate", at=None)
    _build_manifest(decider)
    return find_candidate(home, connection, candidate_id)


def replay_record(connection: Connection, record: Mapping[str, Any], *, limit: int | None = None) -> Replay | None:
    """Replay the record's trigger on stored calls; None if it has no trigger that can be tried."""
    try:
        lesson = parse_lesson(dict(record))
    except BadRecord:
        return None
    if find_disabling_faults(lesson):
        return None
    return replay_lesson(connection, lesson, limit=limit)


def list_sound_reports(home: str, connection: Connection) -> list[Candidate]:
    """Return the lessons that agents reported with a tag and that are valid as they are and unlike every other."""
    lessons = lessons_file.read_own(home).lessons
    sound = []
    for candidate in candidates.list_candidates(connection):
        if candidate.tier != 1 or review_queue.is_proposed_by_agent(candidate):
            continue
        try:
            lesson = adding.parse_valid_lesson(build_accepted_record(candidate))
        except UserError:
            continue
        nearest = find_nearest_lesson(lesson, lessons)
        if nearest is None or nearest[1] < SAME_THRESHOLD:
            sound.append(candidate)
    return sound


def edit_lesson(decider: Decider, lesson: Lesson, changes: dict[str, Any], *, confirm: Confirm) -> Lesson:
    """Change some fields of a lesson, or remove those that are None, and approve the result."""
    # Approving the edit would approve, unseen, what was changed by hand before.
    if any(change.id == lesson.id for change in manifest.find_waiting_changes(decider.home)):
        say = f"{lesson.slug} was changed by hand in lessons.json, and that waits for approval"
        raise UserError(say, manifest.APPROVE_COMMAND)
    old_record = to_lesson_record(lesson)
    # Faults are refused before the person is asked about a block.
    edited = adding.read_or_refuse(decider.home, adding.apply_changes(old_record, changes), "edit")
    new_record = to_lesson_record(edited)
    if any(old_record.get(name) != new_record.get(name) for name in _BLOCKING_FIELDS):
        command = f"hardwon lessons edit {lesson.slug} --delivery"
        _refuse_unsafe_block(decider.connection, edited, confirm, f"{command} hold", f"{command} block --confirm")
    changed = adding.edit_record(decider.home, lesson.id, changes)
    put_in_force(decider, [changed])
    return changed


def retire_lesson(decider: Decider, lesson: Lesson) -> None:
    """Take a lesson out of force; it stays in the file."""
    # The file first: an approval without an active record puts nothing in force.
    adding.set_lesson_status(decider.home, lesson.id, "retired")
    approvals.withdraw(decider, LESSON, lesson.id)
    _build_manifest(decider)


def restore_lesson(decider: Decider, lesson: Lesson, *, confirm: Confirm = refuse_to_confirm) -> Lesson:
    """Put a retired, proposed or unreviewed lesson in force, as the file says it.

    A block that was only proposed passes the same check as one that is accepted in review.
    """
    if faults := find_lesson_faults(lesson):
        raise adding.build_refusal(faults)
    if lesson.status == "candidate":
        hold_command = f"hardwon lessons edit {lesson.slug} --delivery hold"
        confirm_command = f"hardwon lessons restore {lesson.slug} --confirm"
        _refuse_unsafe_block(decider.connection, lesson, confirm, hold_command, confirm_command)
    restored = adding.set_lesson_status(decider.home, lesson.id, "active")
    put_in_force(decider, [restored])
    return restored


def import_foreign_lessons(
    decider: Decider, imported_records: Iterable[dict[str, Any]], *, confirm: Confirm
) -> tuple[list[Lesson], dict[str, str]]:
    """Import lessons of lessons-learned; return the imported ones, and the refused names with their reasons.

    A block that review would not let through comes in as a candidate, with the reason under `importFaults`.
    """
    checked = [_hold_back_doubtful_block(decider.connection, record, confirm) for record in imported_records]
    added, refused = adding.add_imported_records(decider.home, checked)
    put_in_force(decider, added)
    return added, refused


def _hold_back_doubtful_block(connection: Connection, record: dict[str, Any], confirm: Confirm) -> dict[str, Any]:
    """Return a record to import: a block that review would not let through becomes a candidate with the reason."""
    if adding.find_record_faults(record):
        return record  # adding it is refused with its faults
    lesson = adding.parse_valid_lesson(record)
    if not manifest.is_marked_active(lesson):
        return record
    try:
        # Only the fault is stored with the record, so no commands are needed for a fix.
        _refuse_unsafe_block(connection, lesson, confirm, hold_command="", confirm_command="")
    except UserError as error:
        faults = [error.message]
        if isinstance(record.get("importFaults"), list):
            faults = [*record["importFaults"], error.message]
        return {**record, "status": "candidate", "importFaults": faults}
    return record


def import_exported_lessons(
    decider: Decider, numbered_records: Iterable[tuple[int, dict[str, Any]]], *, is_person: bool
) -> tuple[int, list[tuple[int, str]]]:
    """Import exported lessons by line; return how many were added, and the refused lines with their reasons."""
    added: list[Lesson] = []
    refused: list[tuple[int, str]] = []
    with lessons_file.open_for_edit(decider.home) as file:
        ids = {entry.get("id") for entry in file.document["lessons"] if isinstance(entry, dict)}
        slugs = {entry.slug for entry in file.lessons}
        for number, record in numbered_records:
            if record.get("id") in ids:
                continue
            if fault := _find_fault(record, slugs):
                refused.append((number, fault))
                adding.note_refused_lesson(decider.home, adding.SOURCE_IMPORT, [fault])
                continue
            new_record = _prepare_exported(decider.connection, record, is_person=is_person)
            file.document["lessons"].append(new_record)
            ids.add(new_record["id"])
            slugs.add(new_record["slug"])
            added.append(parse_lesson(new_record))
        if added:
            lessons_file.save(file)
    if added:
        put_in_force(decider, added)
    return len(added), refused


def _prepare_exported(connection: Connection, record: dict[str, Any], *, is_person: bool) -> dict[str, Any]:
    """Return an exported record as it comes in: an agent's as a candidate, and so a block that review would refuse."""
    new_record = dict(record)
    # A person's own export keeps what hardwon wrote there.
    if not is_person or record.get("source", adding.SOURCE_IMPORT) not in adding.SOURCES:
        new_record["source"] = adding.SOURCE_IMPORT
    if is_person:
        return _hold_back_doubtful_block(connection, new_record, refuse_to_confirm)
    return {**new_record, "status": "candidate"}


def _find_fault(record: dict[str, Any], slugs: set[str]) -> str:
    """Return why an exported lesson cannot be imported; empty if it can."""
    try:
        lesson = parse_lesson(record)
    except BadRecord as error:
        return f"lesson: {'; '.join(error.faults)}"
    if not lesson.id or not lesson.slug:
        return "lesson: it has no id or no slug"
    if faults := find_secret_faults(lesson):
        return f"lesson: {faults[0]}"
    return f"lesson: another has the slug {lesson.slug}" if lesson.slug in slugs else ""


def approve_waiting_changes(decider: Decider, waiting: Sequence[WaitingChange]) -> manifest.BuildResult:
    """Approve changes that a person made in lessons.json by hand, as they were shown."""
    # What was shown is approved and not what the file says now: it may have been edited again meanwhile.
    approvals.record_lessons(decider, [change.proposed for change in waiting if change.proposed is not None])
    for change in waiting:
        if change.proposed is None:
            approvals.withdraw(decider, LESSON, change.id)
    return _build_manifest(decider)


def undo_lesson_approval(decider: Decider, approval: Approval) -> str:
    """Undo one approval of a lesson: its earlier approved version counts again, or it is retired."""
    earlier = approvals.revert_to_earlier(decider, approval)
    earlier_lesson = manifest.parse_approval_body(earlier.body) if earlier else None
    written = lessons_file.find_own_lesson(decider.home, approval.subject)
    if earlier_lesson is not None:
        with lessons_file.open_for_edit(decider.home) as file:
            lessons_file.put_lesson(file, _copy_file_fields(earlier_lesson, written))
            lessons_file.save(file)
        message = f"the version approved before is in force again: {earlier_lesson.slug}"
    elif written is not None:
        adding.set_lesson_status(decider.home, written.id, "retired")
        message = f"retired: {written.slug}"
    else:
        message = f"retired: {approval.subject}"
    _build_manifest(decider)
    return message


def _copy_file_fields(approved: Lesson, written: Lesson | None) -> Lesson:
    """Return the approved version with the counts and dates that the file has, which no approval covers."""
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


def put_in_force(decider: Decider, lessons: Sequence[Lesson]) -> None:
    """Approve lessons as they are written, and compile the manifest."""
    approvals.record_lessons(decider, lessons)
    _build_manifest(decider)


def _build_manifest(decider: Decider) -> manifest.BuildResult:
    try:
        return manifest.build(decider.home, decider.now)
    except UserError as error:
        raise UserError(f"it is written, but not in force yet: {error.message}", error.fix) from None


def measure_lesson(decider: Decider, lesson: Lesson) -> None:
    """Keep a lesson silent in some sessions from now on, to find out whether it helps."""
    if lesson.delivery == "start":
        reason = "it is told at session start and fires on no call"
        raise UserError(f"{lesson.slug} cannot be measured: {reason}", "measure a note or a hold")
    _add_choice(decider, lesson, MEASURED)


def stop_measuring(decider: Decider, lesson: Lesson) -> None:
    """Tell a lesson in every session again."""
    _add_choice(decider, lesson, UNMEASURED)


def _add_choice(decider: Decider, lesson: Lesson, choice: str) -> None:
    """Record what a person chose about measuring a lesson, and apply it to the manifest."""
    connection = decider.connection
    now = decider.now
    with transaction(connection):
        efficacy.add_change(connection, lesson.id, lesson.slug, choice, reason="", path=decider.path, now=now)
    update_deliveries(connection, decider.home, now, is_changed=True)


def undo_step_down(decider: Decider, lesson: Lesson) -> int:
    """Deliver a lesson again in the way that its record names, as before hardwon stepped it down.

    Return how many steps, and proposals to retire it, that takes back.
    """
    with transaction(decider.connection):
        count = efficacy.undo_changes(decider.connection, lesson.id, (NOTE, SILENT, RETIRE), decider.now)
    update_deliveries(decider.connection, decider.home, decider.now, is_changed=True)
    return count
