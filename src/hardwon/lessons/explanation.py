"""Which lessons a call would meet, and why not the others. Nothing is delivered and nothing is claimed by asking."""

from __future__ import annotations

from hardwon import projects, settings
from hardwon.lessons import manifest
from hardwon.lessons.matching import explain_mismatch, match_entry, prepare_call
from hardwon.lessons.pattern_search import PatternCache
from hardwon.types import Event, Match

SlugReasons = list[tuple[str, str]]


def explain_call(home: str, event: Event, now: float) -> tuple[list[Match], SlugReasons]:
    """The lessons that would fire on a call, and the slugs of the others with what keeps each from it."""
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


def explain_inactive_lessons(home: str) -> SlugReasons:
    """The slugs of the lessons that are not in force, each with the reason."""
    values = settings.resolve_settings(settings.read_config(home))
    lessons, _, waiting = manifest.gather_lessons(home)
    _, reasons = manifest.choose_active_lessons(lessons, values, waiting)
    return [(slug, f"is not in the manifest: {reason}") for slug, reason in reasons]
