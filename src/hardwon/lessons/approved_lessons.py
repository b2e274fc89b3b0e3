"""Compare lessons.json with what a person approved.

People edit the file; the approvals decide what is in force. A record added by hand waits like a candidate. If a record
was changed, retired or removed by hand, the last approved version stays in force until a person approves the change
with `hardwon lessons build`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hardwon import paths
from hardwon.errors import UserError
from hardwon.lessons import lessons_file
from hardwon.lessons.hook_replies import open_index
from hardwon.lessons.lessons_file import LessonsFile
from hardwon.lessons.record import hash_authored_fields, parse_lesson, select_authored_fields
from hardwon.store import approvals
from hardwon.store.approvals import ApprovedLesson, LiveApprovals
from hardwon.types import Lesson, replace

ADDED, CHANGED, RETIRED, REMOVED = "added", "changed", "retired", "removed"
APPROVE_COMMAND = "hardwon lessons build"


@dataclass(frozen=True, slots=True)
class WaitingChange:
    """An unapproved change to lessons.json; `approved` stays in force, `proposed` is in the file."""

    id: str
    slug: str
    summary: str
    change: str
    approved: Lesson | None
    proposed: Lesson | None


def read_approvals(home: str) -> LiveApprovals:
    """Return the live approvals; UserError if they cannot be read, so that the last good manifest stays in force."""
    live_approvals = approvals.read_live_approvals(home)
    if live_approvals is not None:
        return live_approvals
    if not find_ids_in_force(home):
        return LiveApprovals({}, {})
    path = os.path.join(home, paths.DATABASE)
    reason = "is not brought up to date yet" if os.path.exists(path) else "is missing"
    raise UserError(f"{path} {reason}, so nobody can tell what is approved", "hardwon restart")


def find_ids_in_force(home: str) -> set[str]:
    """Return the ids of the lessons in the last good manifest; empty if it is missing or unreadable."""
    try:
        index = open_index(home)  # read the index, because the lessons.json beside it may have been edited since
        return {index.read_entry(number).id for number in range(len(index))}
    except (OSError, ValueError):
        pass
    try:
        with open(os.path.join(home, paths.MANIFEST), encoding="utf-8") as file:
            document = json.load(file)
    except (OSError, ValueError, RecursionError):
        return set()
    lessons = document.get("lessons") if isinstance(document, dict) else None
    return set(lessons) if isinstance(lessons, dict) else set()


def apply_approvals(home: str, file: LessonsFile, in_force: LiveApprovals) -> tuple[list[Lesson], list[WaitingChange]]:
    """Return the personal lessons in their approved versions, and the changes that wait for approval."""
    unchanged_ids = {
        lesson.id
        for lesson in file.lessons
        if lesson.id in in_force.lessons and hash_authored_fields(lesson) == in_force.lessons[lesson.id].hash
    }
    changed_approvals = {
        lesson_id: approval for lesson_id, approval in in_force.lessons.items() if lesson_id not in unchanged_ids
    }
    approved_versions = _read_approved_versions(home, changed_approvals)
    lessons: list[Lesson] = []
    waiting: list[WaitingChange] = []
    for lesson in file.lessons:
        approval = in_force.lessons.get(lesson.id)
        if approval is None:
            lessons.append(replace(lesson, status="candidate") if is_marked_active(lesson) else lesson)
            if is_marked_active(lesson):
                waiting.append(_build_change(lesson, ADDED, None, lesson))
            continue
        if lesson.id in unchanged_ids:
            approved = replace(lesson, status="active", needs_review=False)
            if approval.confidence is not None:
                # Otherwise lowering the number in the file would take a guard out of force.
                approved = replace(approved, confidence=approval.confidence)
            if not is_marked_active(lesson):
                waiting.append(_build_change(lesson, RETIRED, approved, lesson))
            lessons.append(approved)
            continue
        last_approved = approved_versions.get(lesson.id)
        waiting.append(_build_change(lesson, CHANGED, last_approved, lesson))
        lessons.append(last_approved or replace(lesson, status="candidate"))
    ids_in_file = {lesson.id for lesson in file.lessons}
    for lesson_id in in_force.lessons:
        last_approved = approved_versions.get(lesson_id)
        if lesson_id in ids_in_file or last_approved is None:
            continue
        lessons.append(last_approved)
        if lesson_id not in file.unreadable_ids:  # an unreadable lesson is reported as a fault
            waiting.append(_build_change(last_approved, REMOVED, last_approved, None))
    return lessons, waiting


def _build_change(lesson: Lesson, change: str, approved: Lesson | None, proposed: Lesson | None) -> WaitingChange:
    return WaitingChange(lesson.id, lesson.slug, lesson.summary, change, approved, proposed)


def is_marked_active(lesson: Lesson) -> bool:
    """Return whether the record itself claims to be in force."""
    return lesson.status == "active" and not lesson.needs_review


def find_waiting_changes(home: str) -> list[WaitingChange]:
    """Return the unapproved changes to lessons.json."""
    return apply_approvals(home, lessons_file.read(lessons_file.get_lessons_path(home)), read_approvals(home))[1]


def to_approval_body(lesson: Lesson) -> str:
    """Serialise a lesson for its approval, complete enough to keep it in force if the file is lost."""
    fields = {"id": lesson.id, **select_authored_fields(lesson), "confidence": lesson.confidence}
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))


def _read_approved_versions(home: str, approved: Mapping[str, ApprovedLesson]) -> dict[str, Lesson]:
    bodies = approvals.read_bodies(home, [approval.approval_id for approval in approved.values()])
    lessons = {
        lesson_id: parse_approval_body(bodies.get(approval.approval_id, "")) for lesson_id, approval in approved.items()
    }
    return {lesson_id: lesson for lesson_id, lesson in lessons.items() if lesson is not None}


def parse_approval_body(body: str) -> Lesson | None:
    """Parse the lesson stored with an approval; None if a purge removed it."""
    if not body:
        return None
    try:
        return parse_lesson(json.loads(body))
    except (ValueError, RecursionError):
        return None


def describe_waiting_changes(waiting: Sequence[WaitingChange]) -> str:
    """Return the number of waiting changes as a phrase: `2 changes to lessons.json wait`."""
    count = len(waiting)
    return f"{count} change{'s' if count != 1 else ''} to lessons.json wait{'s' if count == 1 else ''} for approval"
