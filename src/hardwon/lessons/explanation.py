"""Explain which lessons a call would fire, and why the others would not, without delivering or claiming any."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hardwon import projects, settings
from hardwon.lessons import manifest
from hardwon.lessons.matching import MatchableCall, match_entry, prepare_call
from hardwon.lessons.pattern_search import PatternCache
from hardwon.types import Event, ManifestEntry, Match, replace

if TYPE_CHECKING:
    from hardwon.lessons.matching import PatternSearch

SlugReasons = list[tuple[str, str]]


def explain_call(home: str, event: Event, now: float) -> tuple[list[Match], SlugReasons]:
    """Return the lessons that would fire on a call, and the slugs of the others with reasons."""
    index = manifest.open_current_index(home, now)
    call = prepare_call(
        event,
        project_root=projects.find_git_root(event.cwd),
        equivalent_folders=projects.list_equivalent_folders(event.cwd),
    )
    search = PatternCache().search
    matches: list[Match] = []
    mismatches: SlugReasons = []
    for entry in map(index.read_entry, range(len(index))):
        match = match_entry(entry, call, search) if entry.delivery != "start" else None
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
