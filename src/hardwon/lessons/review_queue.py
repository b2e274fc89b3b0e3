"""Keep one queue of lessons that wait for a person, shared by command line, viewer, prompt and plugin.

It contains what scans found in transcripts and what agents proposed. A mined candidate is a row of the database. A
lesson that an agent proposed is a record of lessons.json with the status `candidate`; it also gets a row, so that it
has a number like the others, and the row follows the record. Deciding about such a row changes its record.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hardwon import clock
from hardwon.errors import UserError
from hardwon.lessons import adding, lessons_file
from hardwon.lessons.record import to_lesson_record
from hardwon.store import candidates
from hardwon.store.candidates import PROPOSED_PREFIX, Candidate
from hardwon.store.db import Connection, transaction
from hardwon.types import Lesson

_EVIDENCE_KEYS = frozenset(("path", "line", "kind", "quote"))
# The fields that a person reads and decides about. The others, such as dates, may change without a decision.
_REVIEWED_KEYS = (
    "summary",
    "problem",
    "solution",
    "injection",
    "delivery",
    "blockReason",
    "triggers",
    "unless",
    "commandMatchTarget",
    "scope",
    "priority",
    "confidence",
    "tags",
    "sourceSessionIds",
    "occurrenceCount",
)


def list_waiting(home: str, connection: Connection, status: str = "candidate") -> list[Candidate]:
    """Return all candidates that wait for a decision, best first, or those with another status."""
    _sync_with_lessons_file(home, connection)
    return candidates.list_candidates(connection, status)


def find_in_queue(home: str, connection: Connection, name: str) -> Candidate | None:
    """Return a candidate by its number, slug or id, whatever its status."""
    _sync_with_lessons_file(home, connection)
    return candidates.find_by_name(connection, name)


def is_proposed_by_agent(candidate: Candidate) -> bool:
    """Return whether an agent proposed it in lessons.json, so that it has no transcript as evidence."""
    return candidate.signature.startswith(PROPOSED_PREFIX)


def write_accepted_lesson(home: str, candidate: Candidate, record: dict[str, Any]) -> Lesson:
    """Write an accepted candidate, over its own record if it was proposed there, else as a new lesson.

    A record with the id of a mined candidate was put there by somebody else, and `adding.add_record` refuses it.
    """
    if is_proposed_by_agent(candidate) and _find_lesson(home, candidate.id) is not None:
        # Set every field that a person reads, so that nothing unseen stays in the record.
        return adding.edit_record(home, candidate.id, {**dict.fromkeys(_REVIEWED_KEYS), **record})
    return adding.add_record(home, record, is_approved=True, source=adding.SOURCE_SCAN)


def reject_record(home: str, candidate: Candidate) -> None:
    """Mark the record of a rejected candidate, if it was proposed in lessons.json."""
    lesson = _find_lesson(home, candidate.id) if is_proposed_by_agent(candidate) else None
    if lesson is not None and lesson.status == "candidate":
        adding.set_lesson_status(home, candidate.id, "rejected")


def restore_record(home: str, candidate: Candidate) -> None:
    """Restore lessons.json to its state before the decision: a proposal's record, or nothing."""
    if not is_proposed_by_agent(candidate):
        if candidate.lesson:
            adding.remove_record(home, candidate.lesson)
    elif _find_lesson(home, candidate.id) is not None:
        previous = {name: candidate.record.get(name) for name in _REVIEWED_KEYS}
        adding.edit_record(home, candidate.id, {**previous, "status": "candidate"})


def _find_lesson(home: str, lesson_id: str) -> Lesson | None:
    file = lessons_file.read(lessons_file.get_lessons_path(home))
    return next((lesson for lesson in file.lessons if lesson.id == lesson_id), None)


def _sync_with_lessons_file(home: str, connection: Connection) -> None:
    """Give each proposed lesson a row, and update rows whose record was decided about or removed elsewhere.

    If lessons.json is broken the rows stay as they are, so that mined candidates can still be decided about.
    """
    try:
        lessons = {lesson.id: lesson for lesson in lessons_file.read(lessons_file.get_lessons_path(home)).lessons}
    except UserError:
        return
    proposed = [lesson for lesson in lessons.values() if lesson.status == "candidate"]
    rows = {row.id: row for row in candidates.list_by_ids(connection, [lesson.id for lesson in proposed])}
    stale, decided = list[Candidate](), list[Lesson]()
    for row in candidates.list_proposed(connection):
        lesson = lessons.get(row.id)
        if row.status != "candidate":
            continue
        if lesson is None or _has_changed(row, lesson):
            stale.append(row)
        elif lesson.status != "candidate":
            decided.append(lesson)
    # A changed proposal gets a new number, so that nobody accepts unread text by an old number.
    renumbered = {row.id for row in stale}
    missing = [lesson for lesson in proposed if lesson.id not in rows or lesson.id in renumbered]
    reopened = [row for row in rows.values() if is_proposed_by_agent(row) and row.status != "candidate"]
    if not (stale or decided or missing or reopened):
        return
    now, slugs = clock.now(), candidates.list_slugs(connection) - {row.slug for row in stale}
    with transaction(connection):
        for row in stale:
            candidates.remove(connection, row.number)
        for lesson in decided:
            is_active = lesson.status == "active"
            status, lesson_id = ("active", lesson.id) if is_active else ("rejected", "")
            candidates.set_status(connection, lesson.id, status, now, lesson_id)
        for lesson in missing:
            candidates.insert(connection, _build_candidate(lesson, slugs, now))
        for row in reopened:
            candidates.set_status(connection, row.id, "candidate", None)


def _has_changed(row: Candidate, lesson: Lesson) -> bool:
    return lesson.status == "candidate" and row.record != _select_reviewed_fields(lesson)


def _build_candidate(lesson: Lesson, slugs: set[str], now: float) -> Candidate:
    is_slug_used = lesson.slug in slugs  # by a mined candidate, which ignores the names in lessons.json
    return Candidate(
        number=0,
        id=lesson.id,
        slug=f"{lesson.slug}-{lesson.id[-6:].lower()}" if is_slug_used else lesson.slug,
        signature=f"{PROPOSED_PREFIX}{lesson.id}",
        tier=1,
        status="candidate",
        score=lesson.confidence,
        parts={"tag": lesson.confidence},
        occurrences=max(lesson.occurrences, 1),
        sessions=tuple(lesson.source_sessions),
        projects=(lesson.project,) if lesson.project else (),
        record=_select_reviewed_fields(lesson),
        found_at=now,
    )


def _select_reviewed_fields(lesson: Lesson) -> Mapping[str, Any]:
    record = to_lesson_record(lesson)
    evidence = [dict(item) for item in lesson.evidence if item.keys() >= _EVIDENCE_KEYS]
    return {**{name: record[name] for name in _REVIEWED_KEYS if name in record}, "evidence": evidence}
