"""Whether a lesson's trigger fires on a call as it is stored, by the matcher that ships."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from hardwon import projects
from hardwon.agents.fields import get_first_text, get_text, get_tool_content
from hardwon.lessons import validation
from hardwon.lessons.manifest import compile_entries
from hardwon.lessons.manifest_index import ManifestIndex
from hardwon.lessons.matching import list_call_texts, match_entry, prepare_call
from hardwon.lessons.pattern_search import PatternCache
from hardwon.lessons.replay import build_prefilter
from hardwon.store import views
from hardwon.store.db import Connection
from hardwon.types import Event, Lesson, ManifestEntry

MAX_FAILURES = 5_000  # that are looked at, those after the last deliveries: a page may not take seconds
_search = PatternCache().search  # compiled once for all pages
Trigger = Callable[[str, str, str, str], bool]


def build_trigger(lesson: Lesson) -> Trigger | None:
    """Whether the lesson fires on a call of a host, in a folder, of a tool, with an input; None if on no call."""
    if lesson.delivery == "start" or validation.find_disabling_faults(lesson):
        return None
    (entry,) = compile_entries([lesson])
    return _trigger(entry)


@lru_cache(maxsize=50)
def _trigger(entry: ManifestEntry) -> Trigger:
    """Its answers are kept: they are dear, what was called stays what it was, and pages ask for the same again."""
    may_fire = build_prefilter(entry)

    @lru_cache(maxsize=2_000)
    def fires(host: str, cwd: str, tool: str, given: str) -> bool:
        event = _event({"host": host, "cwd": cwd, "tool": tool, "input": given})
        fits = event.tool in entry.tools and may_fire(event)
        return fits and match_entry(entry, _seen(event), _search) is not None

    return fires


def find_firing_lesson(index: ManifestIndex, call: Mapping[str, Any]) -> ManifestEntry | None:
    """The lesson in force that would speak up about this call."""
    event = _event(call)
    numbers = index.find_possible_matches(event.tool, {text for text in list_call_texts(event) if text})
    sight = _seen(event)
    return next((one for one in map(index.read_entry, numbers) if match_entry(one, sight, _search)), None)


def count_repeats(
    connection: Connection, triggers: Mapping[str, Trigger | None], deliveries: Sequence[Mapping[str, Any]]
) -> Counter[int]:
    """By delivery, how many calls of the same session that its lesson is about failed after it."""
    failed = views.list_failures_after(connection, [one["id"] for one in deliveries], limit=MAX_FAILURES)
    found = Counter[int]()
    for call in failed:
        fires = triggers.get(call["lesson"])
        if fires and fires(call["host"], call["cwd"], call["tool"], call["input"]):
            found[call["delivery"]] += 1
    return found


def _event(call: Mapping[str, Any]) -> Event:
    try:
        given = json.loads(call["input"]) if call["input"] else {}
    except (ValueError, RecursionError):
        given = {}
    given = given if isinstance(given, dict) else {}
    return Event(
        call["host"],
        "PreToolUse",
        "",
        call["cwd"],
        tool=call["tool"],
        command=get_text(given, "command"),
        path=get_first_text(given, "file_path", "notebook_path", "path", "glob"),
        content=get_tool_content(call["tool"], given),
    )


def _seen(event: Event) -> Any:
    root, places = _place(event.cwd)
    return prepare_call(event, project_root=root, equivalent_folders=places)


@lru_cache(maxsize=512)
def _place(cwd: str) -> tuple[str, Sequence[str]]:
    return projects.find_git_root(cwd), tuple(projects.list_equivalent_folders(cwd))
