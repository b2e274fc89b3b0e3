"""Find lessons by name, tag or tool, and explain which ones a call would fire, without delivering any."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hardwon import projects, settings
from hardwon.errors import UserError
from hardwon.lessons import manifest
from hardwon.lessons.lessons_file import read_own
from hardwon.lessons.manifest import WaitingChange, find_lesson_tools
from hardwon.lessons.matching import MatchableCall, match_entry, prepare_call
from hardwon.lessons.patterns import PatternCache
from hardwon.lessons.record import BadRecord, parse_lesson
from hardwon.types import Event, Lesson, ManifestEntry, Match, replace

if TYPE_CHECKING:
    from hardwon.lessons.matching import PatternSearch

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
    if lesson.status == "active" and lesson.needs_review:
        return NEEDS_REVIEW
    return lesson.status


def has_tag_and_tool(lesson: Lesson, tag: str | None, tool: str | None) -> bool:
    """Return whether a lesson has the tag and concerns the tool; None for either means any."""
    if tag is not None and tag not in lesson.tags:
        return False
    return tool is None or tool in find_lesson_tools(lesson)


def find_lesson(home: str, name: str) -> Lesson:
    """Return a lesson by its slug, id, or an unambiguous prefix of the slug."""
    known_lessons = read_own(home).lessons
    exact_matches = [lesson for lesson in known_lessons if name in (lesson.slug, lesson.id)]
    matches = exact_matches or [lesson for lesson in known_lessons if lesson.slug.startswith(name)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise UserError(f"{name!r} could be {', '.join(lesson.slug for lesson in matches[:5])}", "write more of it")
    raise UserError(f"there is no lesson {name!r}", "hardwon lessons list")


SlugReasons = list[tuple[str, str]]


def explain_call(home: str, event: Event, now: float) -> tuple[list[Match], SlugReasons]:
    """Return the lessons that would fire on a call, and the slugs of the others with reasons."""
    index = manifest.open_current_index(home, now)
    call = prepare_call(event)
    search = PatternCache().search
    matches: list[Match] = []
    mismatches: SlugReasons = []
    for entry in index.read_all_entries():
        is_told_at_start = entry.delivery == "start"  # whatever its triggers say, no call fires it
        match = None if is_told_at_start else match_entry(entry, call, search)
        if match:
            matches.append(match)
        else:
            mismatches.append((entry.slug, explain_mismatch(entry, call, search)))
    return matches, mismatches


def explain_mismatch(entry: ManifestEntry, call: MatchableCall, search_pattern: PatternSearch) -> str:
    """Explain to a person why this lesson does not fire on this call."""
    if entry.delivery == "start":
        return "is told at session start"
    if call.tool not in entry.tools:
        return f"is about {', '.join(entry.tools)}, not {call.tool}"
    if not projects.is_in_scope(entry.project, call.equivalent_folders):
        return f"belongs to {entry.project}"
    if entry.unless and match_entry(replace(entry, unless=()), call, search_pattern):
        return "is called off by `unless`"
    return "has no pattern that matches"


def explain_inactive_lessons(home: str) -> SlugReasons:
    """Return the slugs of lessons that are not in force, with reasons."""
    values = settings.resolve_settings(settings.read_config(home))
    lessons, _, waiting = manifest.gather_lessons(home)
    _, reasons = manifest.choose_active_lessons(lessons, values, waiting)
    return [(slug, f"is not in the manifest: {reason}") for slug, reason in reasons]
