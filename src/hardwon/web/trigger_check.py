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
_search_pattern = PatternCache().search  # compiled once for all pages
Trigger = Callable[[str, str, str, str], bool]


def build_trigger(lesson: Lesson) -> Trigger | None:
    """Whether the lesson fires on a call of a host, in a folder, of a tool, with an input; None if on no call."""
    if lesson.delivery == "start" or validation.find_disabling_faults(lesson):
        return None
    (entry,) = compile_entries([lesson])
    return _build_cached_trigger(entry)


@lru_cache(maxsize=50)
def _build_cached_trigger(entry: ManifestEntry) -> Trigger:
    """Its answers are kept: they are dear, what was called stays what it was, and pages ask for the same again."""
    may_fire = build_prefilter(entry)

    @lru_cache(maxsize=2_000)
    def fires(host: str, cwd: str, tool: str, tool_input: str) -> bool:
        event = _build_event({"host": host, "cwd": cwd, "tool": tool, "input": tool_input})
        is_possible = event.tool in entry.tools and may_fire(event)
        return is_possible and match_entry(entry, _prepare_event(event), _search_pattern) is not None

    return fires


def find_firing_lesson(index: ManifestIndex, call: Mapping[str, Any]) -> ManifestEntry | None:
    """The lesson in force that would speak up about this call."""
    event = _build_event(call)
    numbers = index.find_possible_matches(event.tool, {text for text in list_call_texts(event) if text})
    prepared_call = _prepare_event(event)
    return next(
        (entry for entry in map(index.read_entry, numbers) if match_entry(entry, prepared_call, _search_pattern)), None
    )


def count_repeats(
    connection: Connection, triggers: Mapping[str, Trigger | None], deliveries: Sequence[Mapping[str, Any]]
) -> Counter[int]:
    """By delivery, how many calls of the same session that its lesson is about failed after it."""
    failed_calls = views.list_failures_after(
        connection, [delivery["id"] for delivery in deliveries], limit=MAX_FAILURES
    )
    repeat_counts = Counter[int]()
    for call in failed_calls:
        fires = triggers.get(call["lesson"])
        if fires and fires(call["host"], call["cwd"], call["tool"], call["input"]):
            repeat_counts[call["delivery"]] += 1
    return repeat_counts


def _build_event(call: Mapping[str, Any]) -> Event:
    try:
        tool_input = json.loads(call["input"]) if call["input"] else {}
    except (ValueError, RecursionError):
        tool_input = {}
    tool_input = tool_input if isinstance(tool_input, dict) else {}
    return Event(
        call["host"],
        "PreToolUse",
        "",
        call["cwd"],
        tool=call["tool"],
        command=get_text(tool_input, "command"),
        path=get_first_text(tool_input, "file_path", "notebook_path", "path", "glob"),
        content=get_tool_content(call["tool"], tool_input),
    )


def _prepare_event(event: Event) -> Any:
    root, folders = _resolve_folders(event.cwd)
    return prepare_call(event, project_root=root, equivalent_folders=folders)


@lru_cache(maxsize=512)
def _resolve_folders(cwd: str) -> tuple[str, Sequence[str]]:
    return projects.find_git_root(cwd), tuple(projects.list_equivalent_folders(cwd))
