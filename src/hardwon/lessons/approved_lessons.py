"""Which lessons count: lessons.json compared with what a person approved.

The file is what people edit, the approvals say what is in force. A record that was added by hand waits like a
candidate. Where a record was changed, retired or removed by hand, the last approved version stays in force until a
person approves the change with `hardwon lessons build`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence

from hardwon import paths
from hardwon.errors import UserError
from hardwon.lessons import lessons_file as shelves
from hardwon.lessons import record as records
from hardwon.lessons import trust_file
from hardwon.lessons.delivery import open_index
from hardwon.store import approvals
from hardwon.store.approvals import ApprovedLesson, LiveApprovals
from hardwon.types import Lesson, frozen, replace

ADDED, CHANGED, RETIRED, REMOVED = "added", "changed", "retired", "removed"
APPROVE_COMMAND = "hardwon lessons build"


@frozen
class WaitingChange:
    """A change to lessons.json that nobody has approved; `approved` stays in force, `proposed` stands in the file."""

    id: str
    slug: str
    summary: str
    change: str
    approved: Lesson | None
    proposed: Lesson | None


def read_approvals(home: str) -> LiveApprovals:
    """Return the live approvals; UserError, so that the last good manifest stays in force, if they are not known."""
    live_approvals = approvals.read_live_approvals(home)
    if live_approvals is not None:
        return live_approvals
    if not find_ids_in_force(home):
        return LiveApprovals({}, {})
    path = os.path.join(home, paths.DATABASE)
    reason = "is not brought up to date yet" if os.path.exists(path) else "is missing"
    raise UserError(f"{path} {reason}, so nobody can tell what is approved", "hardwon restart")


def find_ids_in_force(home: str) -> set[str]:
    """Return the ids of the lessons in the last good manifest; none if there is none that can be read."""
    try:
        index = open_index(home)
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


def apply_approvals(
    home: str, file: shelves.LessonsFile, in_force: LiveApprovals
) -> tuple[list[Lesson], list[WaitingChange]]:
    """Return the personal lessons as they count, and the changes that wait for a person."""
    unchanged_ids = _find_unchanged_ids(file, in_force.lessons)
    approval_ids = {
        lesson_id: approved_lesson.approval_id
        for lesson_id, approved_lesson in in_force.lessons.items()
        if lesson_id not in unchanged_ids
    }
    approved_versions = _read_approved_versions(home, approval_ids)
    lessons: list[Lesson] = []
    waiting: list[WaitingChange] = []
    for lesson in file.lessons:
        approval = in_force.lessons.get(lesson.id)
        if approval is None:
            if is_marked_active(lesson):
                waiting.append(WaitingChange(lesson.id, lesson.slug, lesson.summary, ADDED, None, lesson))
                lessons.append(replace(lesson, status="candidate"))
            else:
                lessons.append(lesson)
            continue
        if lesson.id in unchanged_ids:
            approved = replace(lesson, status="active", needs_review=False)
            if approval.confidence is not None:
                # Otherwise lowering the number in the file would take a guard out of force.
                approved = replace(approved, confidence=approval.confidence)
            if not is_marked_active(lesson):
                waiting.append(WaitingChange(lesson.id, lesson.slug, lesson.summary, RETIRED, approved, lesson))
            lessons.append(approved)
            continue
        last_approved = approved_versions.get(lesson.id)
        waiting.append(WaitingChange(lesson.id, lesson.slug, lesson.summary, CHANGED, last_approved, lesson))
        lessons.append(last_approved or replace(lesson, status="candidate"))
    ids_in_file = {lesson.id for lesson in file.lessons}
    for lesson_id in in_force.lessons:
        last_approved = approved_versions.get(lesson_id)
        if lesson_id in ids_in_file or last_approved is None:
            continue
        lessons.append(last_approved)
        if lesson_id not in file.unreadable_ids:  # one that cannot be read is named as a fault
            waiting.append(
                WaitingChange(lesson_id, last_approved.slug, last_approved.summary, REMOVED, last_approved, None)
            )
    return lessons, waiting


def is_marked_active(lesson: Lesson) -> bool:
    """Return whether the record itself says that it is in force."""
    return lesson.status == "active" and not lesson.needs_review


def find_waiting_changes(home: str) -> list[WaitingChange]:
    """Return the changes to lessons.json that nobody has approved."""
    return apply_approvals(home, shelves.read(shelves.get_lessons_path(home)), read_approvals(home))[1]


def to_approval_body(lesson: Lesson) -> str:
    """Return what an approval keeps of a lesson: enough to keep it in force whatever happens to the file."""
    fields = {"id": lesson.id, **records.select_authored_fields(lesson), "confidence": lesson.confidence}
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))


def is_trust_approved(project: str, content_hash: str, in_force: LiveApprovals) -> bool:
    """Return whether a person trusted this content of a repository's file; trusted.json alone may be edited by hand."""
    return in_force.trusted_hashes.get(project) == content_hash


def describe_unapproved_trust(project: str) -> str:
    return (
        f"{trust_file.get_project_lessons_path(project)} is trusted without an approval and is not used: "
        f"hardwon trust {project}"
    )


def _find_unchanged_ids(file: shelves.LessonsFile, approved: Mapping[str, ApprovedLesson]) -> set[str]:
    """Return the ids of the lessons that the file says as they were approved."""
    lessons = [lesson for lesson in file.lessons if lesson.id in approved]
    return {lesson.id for lesson in lessons if records.hash_authored_fields(lesson) == approved[lesson.id].hash}


def _read_approved_versions(home: str, approval_ids: Mapping[str, int]) -> dict[str, Lesson]:
    bodies = approvals.read_bodies(home, approval_ids.values())
    lessons: dict[str, Lesson] = {}
    for lesson_id, approval_id in approval_ids.items():
        lesson = parse_approval_body(bodies.get(approval_id, ""))
        if lesson is not None:
            lessons[lesson_id] = lesson
    return lessons


def parse_approval_body(body: str) -> Lesson | None:
    """Return the lesson that an approval keeps; None after a purge took it out."""
    if not body:
        return None
    try:
        return records.parse_lesson(json.loads(body))
    except (ValueError, RecursionError):
        return None


def describe_waiting_changes(waiting: Sequence[WaitingChange]) -> str:
    """Return how many changes wait, in a phrase: `2 changes to lessons.json wait`."""
    count = len(waiting)
    return f"{count} change{'s' if count != 1 else ''} to lessons.json wait{'s' if count == 1 else ''} for approval"
