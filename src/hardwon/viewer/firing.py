"""Whether a lesson's trigger fires on a call as it is stored, by the matcher that ships."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from hardwon import projects
from hardwon.core import rules
from hardwon.core.index import Index
from hardwon.core.match import match, see, texts
from hardwon.hosts.fields import content_of, first_of, text_of
from hardwon.recall.manifest import compile_entries
from hardwon.recall.patterns import Patterns
from hardwon.recall.replay import prefilter
from hardwon.store import views
from hardwon.store.db import Connection
from hardwon.words import Entry, Event, Lesson, word


@word
class Trigger:
    """A lesson compiled, and what any call must hold that it fires on: reading a command as a shell does is dear."""

    entry: Entry
    may_fire: Callable[[Event], bool]


def trigger_of(lesson: Lesson) -> Trigger | None:
    """The lesson's trigger; None if it fires on no call."""
    if lesson.delivery == "start" or rules.unusable(lesson):
        return None
    (entry,) = compile_entries([lesson])
    return Trigger(entry, prefilter(entry))


def fires(trigger: Trigger, call: Mapping[str, Any], patterns: Patterns) -> bool:
    event = _event(call)
    may_fire = event.tool in trigger.entry.tools and trigger.may_fire(event)
    return may_fire and match(trigger.entry, _seen(event), patterns.search) is not None


def first_to_fire(index: Index, call: Mapping[str, Any], patterns: Patterns) -> Entry | None:
    """The lesson in force that would speak up about this call."""
    event = _event(call)
    numbers = index.candidates(event.tool, {text for text in texts(event) if text})
    sight = _seen(event)
    return next((one for one in map(index.entry, numbers) if match(one, sight, patterns.search)), None)


def repeats(connection: Connection, trigger: Trigger, delivery: Mapping[str, Any], patterns: Patterns) -> int:
    """How many calls of the same session that the lesson is about failed after it had been delivered."""
    if delivery["number"] is None:
        return 0
    failed = views.failures_after(connection, delivery["number"], delivery["at"])
    return sum(fires(trigger, call, patterns) for call in failed)


def _event(call: Mapping[str, Any]) -> Event:
    try:
        given = json.loads(call["input"]) if call["input"] else {}
    except (ValueError, RecursionError):
        given = {}
    given = given if isinstance(given, dict) else {}
    return Event(
        call["host"], "PreToolUse", "", call["cwd"], tool=call["tool"], command=text_of(given, "command"),
        path=first_of(given, "file_path", "notebook_path", "path", "glob"), content=content_of(call["tool"], given),
    )  # fmt: skip


def _seen(event: Event) -> Any:
    root, places = _place(event.cwd)
    return see(event, root=root, places=places)


@lru_cache(maxsize=512)
def _place(cwd: str) -> tuple[str, Sequence[str]]:
    return projects.root(cwd), tuple(projects.places(cwd))
