"""Whether a lesson's trigger fires on a call as it is stored, by the matcher that ships."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from hardwon import projects
from hardwon.agents.fields import content_of, first_of, text_of
from hardwon.lessons import validation
from hardwon.lessons.manifest import compile_entries
from hardwon.lessons.manifest_index import Index
from hardwon.lessons.matching import match, see, texts
from hardwon.lessons.pattern_search import Patterns
from hardwon.lessons.replay import prefilter
from hardwon.store import views
from hardwon.store.db import Connection
from hardwon.types import Entry, Event, Lesson

MOST_FAILURES = 5_000  # that are looked at, those after the last deliveries: a page may not take seconds
_search = Patterns().search  # compiled once for all pages
Fires = Callable[[str, str, str, str], bool]


def trigger_of(lesson: Lesson) -> Fires | None:
    """Whether the lesson fires on a call of a host, in a folder, of a tool, with an input; None if on no call."""
    if lesson.delivery == "start" or validation.unusable(lesson):
        return None
    (entry,) = compile_entries([lesson])
    return _trigger(entry)


@lru_cache(maxsize=50)
def _trigger(entry: Entry) -> Fires:
    """Its answers are kept: they are dear, what was called stays what it was, and pages ask for the same again."""
    may_fire = prefilter(entry)

    @lru_cache(maxsize=2_000)
    def fires(host: str, cwd: str, tool: str, given: str) -> bool:
        event = _event({"host": host, "cwd": cwd, "tool": tool, "input": given})
        fits = event.tool in entry.tools and may_fire(event)
        return fits and match(entry, _seen(event), _search) is not None

    return fires


def first_to_fire(index: Index, call: Mapping[str, Any]) -> Entry | None:
    """The lesson in force that would speak up about this call."""
    event = _event(call)
    numbers = index.candidates(event.tool, {text for text in texts(event) if text})
    sight = _seen(event)
    return next((one for one in map(index.entry, numbers) if match(one, sight, _search)), None)


def repeats(
    connection: Connection, triggers: Mapping[str, Fires | None], deliveries: Sequence[Mapping[str, Any]]
) -> Counter[int]:
    """By delivery, how many calls of the same session that its lesson is about failed after it."""
    failed = views.failures_after(connection, [one["id"] for one in deliveries], limit=MOST_FAILURES)
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
        command=text_of(given, "command"),
        path=first_of(given, "file_path", "notebook_path", "path", "glob"),
        content=content_of(call["tool"], given),
    )


def _seen(event: Event) -> Any:
    root, places = _place(event.cwd)
    return see(event, root=root, places=places)


@lru_cache(maxsize=512)
def _place(cwd: str) -> tuple[str, Sequence[str]]:
    return projects.root(cwd), tuple(projects.places(cwd))
