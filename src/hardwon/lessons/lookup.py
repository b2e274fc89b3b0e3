"""Find lessons by name, tag and tool, and determine their effective status."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hardwon.errors import UserError
from hardwon.lessons.approved_lessons import WaitingChange
from hardwon.lessons.lessons_file import get_lessons_path, read
from hardwon.lessons.manifest import find_lesson_tools
from hardwon.lessons.record import BadRecord, parse_lesson
from hardwon.types import Lesson

WAITING, NEEDS_REVIEW = "waiting", "needs-review"  # shown instead of a status that only the record claims


def is_about(record: Mapping[str, Any], tag: str | None, tool: str | None) -> bool:
    """Return whether a candidate's record has the tag and concerns the tool, if given."""
    try:
        return has_tag_and_tool(parse_lesson(dict(record)), tag, tool)
    except BadRecord:  # faults are corrected when it is accepted
        return tag is None and tool is None


def get_effective_status(lesson: Lesson, waiting_changes: Mapping[str, WaitingChange]) -> str:
    """Return the effective status, which may differ from the one in the record."""
    if lesson.id in waiting_changes:
        return WAITING
    return NEEDS_REVIEW if lesson.status == "active" and lesson.needs_review else lesson.status


def has_tag_and_tool(lesson: Lesson, tag: str | None, tool: str | None) -> bool:
    return (tag is None or tag in lesson.tags) and (tool is None or tool in find_lesson_tools(lesson))


def find_lesson(home: str, name: str) -> Lesson:
    """Return a lesson by its slug, id, or an unambiguous prefix of the slug."""
    known_lessons = read(get_lessons_path(home)).lessons
    exact_matches = [lesson for lesson in known_lessons if name in (lesson.slug, lesson.id)]
    matches = exact_matches or [lesson for lesson in known_lessons if lesson.slug.startswith(name)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise UserError(f"{name!r} could be {', '.join(lesson.slug for lesson in matches[:5])}", "write more of it")
    raise UserError(f"there is no lesson {name!r}", "hardwon lessons list")
