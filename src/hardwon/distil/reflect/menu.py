"""The menu that a reflection draws from: one row for each thing it may notice. Most sessions give reason for few."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from hardwon.core.reflected import Finding, Past
from hardwon.distil.reflect import across, content, graph, person
from hardwon.distil.reflect.story import Story

Detector = Callable[[Story, Past], Iterable[Finding]]


class Item(NamedTuple):
    """A thing to notice: its name, the group it stands in, a line for people, and what finds it."""

    name: str
    group: str
    help: str
    detect: Detector


MENU: tuple[Item, ...] = (
    Item("failed experiments", "content", "what was tried and taken back, and why", content.failed_experiments),
    Item("implicit decisions", "content", "choices of the agent that a short yes let pass", content.implicit_decisions),
    Item("assumptions", "content", "what was said to be taken for granted", content.assumptions),
    Item("external events", "content", "people, dates and events a person mentioned", content.external_events),
    Item("naming inconsistencies", "content", "old names in use after a rename", content.naming_inconsistencies),
    Item("not done", "content", "what was put off, left out or not answered", content.not_done),
    Item("recurring failures", "across", "what failed here and in sessions before", across.recurring),
    Item("velocity and cost", "across", "much more or much less than sessions like it", across.velocity),
    Item("convention adoption", "across", "commands that became a habit and that no page names", across.adopted),
    Item("convention disuse", "across", "conventions whose commands nobody runs any more", across.disused),
    Item("stale resume prompts", "across", "a plan handed over that was not followed", across.stale_resume),
    Item("confidence calibration", "across", "whether handoffs that were sure came true", across.calibration),
    Item("dependencies discovered", "graph", "work found to wait for other work", graph.dependencies),
    Item("peer messages", "graph", "what another agent said and no page holds", graph.peer_messages),
    Item("code health", "graph", "folders that are full and get fuller", graph.crowded),
    Item("files not noted", "graph", "folders changed and never spoken of", graph.unnoted),
    Item("memory hits without writes", "graph", "memories that a person spoke against", graph.doubted_memory),
    Item("tone", "person", "a person pushing back, and terser than before", person.tone),
    Item("time of day", "person", "commits made late at night", person.time_of_day),
    Item("missed remember", "person", "wishes to be remembered that nothing holds", person.missed_remember),
    Item("outcome", "person", "a goal that was given up for another", person.outcome),
)


def findings(story: Story, past: Past) -> list[Finding]:
    """What the menu finds in a session, the most telling first."""
    found = [one for item in MENU for one in item.detect(story, past)]
    return sorted(found, key=lambda one: -one.score)
