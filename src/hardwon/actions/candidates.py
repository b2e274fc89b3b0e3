"""Carry out what a person decides about candidates: accept, reject, or undo the decision.

The lesson is written first and has the candidate's id, so a decision that was cut off between the two is seen and
completed the next time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hardwon import clock
from hardwon.errors import UserError
from hardwon.lessons import adding, lessons_file, review_queue
from hardwon.lessons.record import BadRecord, hash_authored_fields, parse_lesson, to_lesson_record
from hardwon.lessons.replay import MIN_FIRINGS, Replay, replay_lesson
from hardwon.lessons.validation import find_disabling_faults
from hardwon.store import approvals, candidates
from hardwon.store.candidates import Candidate
from hardwon.store.db import Connection
from hardwon.text.similarity import SAME_THRESHOLD, find_nearest_lesson
from hardwon.types import Lesson

ACCEPTED_CONFIDENCE = 0.9  # the confidence of what a person has read and accepted
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


def find_candidate(home: str, connection: Connection, name: str) -> Candidate:
    candidate = review_queue.find_in_queue(home, connection, name)
    if candidate is None:
        label = f"L{name}" if name.isdigit() else repr(name)
        say = f"there is no proposed lesson {label}"
        if candidates.is_issued_number(connection, name):
            say += " any more: a scan found other words for it, and gave it another number"
        raise UserError(say, "hardwon scan candidates --all")
    return candidate


def accept(
    home: str,
    connection: Connection,
    candidate: Candidate,
    changes: Mapping[str, Any],
    *,
    confirm: Callable[[str], bool] = lambda say: False,
) -> Lesson:
    """Write a candidate as a lesson, with what the person changed in it.

    A block must not stop calls that succeeded before; with too few calls to tell, `confirm` asks the person.
    """
    if candidate.status == "active":
        raise UserError(f"candidate {candidate.number} is accepted already", f"hardwon lessons show {candidate.slug}")
    record = adding.apply_changes(build_accepted_record(candidate), changes)
    lesson = _find_written(home, connection, candidate.id, record)
    if lesson is None:
        _refuse_faulty(record, candidate)
        command = f"hardwon accept {candidate.number} --delivery"
        refuse_unsafe_block(
            connection,
            adding.parse_valid_lesson(record),
            confirm,
            hold_command=f"{command} hold",
            confirm_command=f"{command} block --confirm",
        )
        lesson = review_queue.write_accepted_lesson(home, candidate, record)
    candidates.record_decision(connection, candidate.id, "active", clock.now(), lesson.id)
    return lesson


def refuse_unsafe_edit(
    connection: Connection, lesson: Lesson, record: dict[str, Any], *, confirm: Callable[[str], bool]
) -> None:
    """Refuse an edit to a block, or of the calls that a block stops, where `accept` would refuse that block."""
    changed_lesson = adding.parse_valid_lesson(record)
    old_record, new_record = to_lesson_record(lesson), to_lesson_record(changed_lesson)
    if any(
        old_record.get(key) != new_record.get(key)
        for key in ("delivery", "triggers", "unless", "scope", "commandMatchTarget")
    ):
        command = f"hardwon lessons edit {lesson.slug} --delivery"
        refuse_unsafe_block(
            connection,
            changed_lesson,
            confirm,
            hold_command=f"{command} hold",
            confirm_command=f"{command} block --confirm",
        )


def _refuse_faulty(record: dict[str, Any], candidate: Candidate) -> None:
    """Refuse a record with faults; the fix is to accept it with options that correct them."""
    if faults := adding.find_record_faults(record):
        flags = dict.fromkeys(
            flag for fault in faults for name, flag in _FLAGS_BY_FAULT.items() if fault.startswith(name)
        )
        fix = " ".join([f"hardwon accept {candidate.number}", *flags])
        raise UserError(adding.build_refusal(faults).say, fix if flags else "hardwon review, and [e]dit it")


def reject(home: str, connection: Connection, candidate: Candidate) -> None:
    """Reject a candidate; it stays rejected, however often it is found again."""
    if candidate.status == "active":
        raise UserError(f"candidate {candidate.number} is a lesson by now", f"hardwon lessons retire {candidate.slug}")
    review_queue.reject_record(home, candidate)
    candidates.record_decision(connection, candidate.id, "rejected", clock.now())


def undo(home: str, connection: Connection, candidate_id: str) -> Candidate:
    """Undo a decision: the lesson is removed from the file, or is proposed there as before."""
    review_queue.restore_record(home, find_candidate(home, connection, candidate_id))
    candidates.record_decision(connection, candidate_id, "candidate", None)
    return find_candidate(home, connection, candidate_id)


def build_accepted_record(candidate: Candidate) -> dict[str, Any]:
    """Return the suggested record as an active lesson, with the confidence of one that a person has read."""
    vouched = {"id": candidate.id, "slug": candidate.slug, "status": "active", "needsReview": False}
    return {**candidate.record, **vouched, "confidence": max(ACCEPTED_CONFIDENCE, candidate.record["confidence"])}


def replay_record(connection: Connection, record: Mapping[str, Any], *, limit: int | None = None) -> Replay | None:
    """Replay the record's trigger on stored calls; None if it has no trigger that can be tried."""
    try:
        lesson = parse_lesson(dict(record))
    except BadRecord:
        return None
    return None if find_disabling_faults(lesson) else replay_lesson(connection, lesson, limit=limit)


def _find_written(home: str, connection: Connection, lesson_id: str, record: dict[str, Any]) -> Lesson | None:
    """Return the lesson of a decision that was cut off: approved, or written just as it would be now.

    Anybody may have written another record under the same id into lessons.json.
    """
    file = lessons_file.read(lessons_file.get_lessons_path(home))
    written = next((lesson for lesson in file.lessons if lesson.id == lesson_id and lesson.status == "active"), None)
    if written is None or approvals.find_live(connection, approvals.LESSON, lesson_id):
        return written
    expected = [] if adding.find_record_faults(record) else [hash_authored_fields(adding.parse_valid_lesson(record))]
    return written if hash_authored_fields(written) in expected else None


def refuse_unsafe_block(
    connection: Connection, lesson: Lesson, confirm: Callable[[str], bool], *, hold_command: str, confirm_command: str
) -> None:
    """Refuse a block that would have stopped calls that went fine, or that fired too seldom to tell.

    `hold` is the command that turns it into a hold, `sure` the one that blocks anyway.
    """
    if lesson.delivery != "block":
        return
    replay = replay_lesson(connection, lesson)
    if replay.fine:
        sample = next(call for call in replay.samples if call.outcome == "fine")
        call = (sample.command or sample.file)[:80]
        fired = f"its trigger fired on {replay.fine} call{'s' * (replay.fine != 1)} that went fine"
        say = f"it cannot block: {fired}, such as {call!r}"
        raise UserError(say, f"narrow the trigger, or: {hold_command}")
    fired = f"its trigger fired {replay.fires} time{'s' * (replay.fires != 1)} in the recorded calls"
    say = f"{fired}, too few to be sure that it may block"
    if replay.fires < MIN_FIRINGS and not confirm(say):
        raise UserError(say, f"if you are: {confirm_command}")


def list_sound_reports(home: str, connection: Connection) -> list[Candidate]:
    """Return the lessons that agents reported with a tag and that are valid as they are and unlike every other."""
    lessons = lessons_file.read(lessons_file.get_lessons_path(home)).lessons
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
