"""The menu that a reflection draws from: one row for each thing it may notice. Most sessions give reason for few."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from hardwon.handoff import (
    findings_about_person,
    findings_across_sessions,
    findings_in_session,
    findings_in_workspace,
)
from hardwon.handoff.transcript_story import Story
from hardwon.store.reflection_types import Finding, Past

Detector = Callable[[Story, Past], Iterable[Finding]]


class Item(NamedTuple):
    """A thing to notice: its name, the group it stands in, a line for people, and what finds it."""

    name: str
    group: str
    help: str
    detect: Detector


MENU: tuple[Item, ...] = (
    Item(
        "failed experiments",
        "content",
        "what was tried and taken back, and why",
        findings_in_session.failed_experiments,
    ),
    Item(
        "implicit decisions",
        "content",
        "choices of the agent that a short yes let pass",
        findings_in_session.implicit_decisions,
    ),
    Item("assumptions", "content", "what was said to be taken for granted", findings_in_session.assumptions),
    Item(
        "external events", "content", "people, dates and events a person mentioned", findings_in_session.external_events
    ),
    Item(
        "naming inconsistencies",
        "content",
        "old names in use after a rename",
        findings_in_session.naming_inconsistencies,
    ),
    Item("not done", "content", "what was put off, left out or not answered", findings_in_session.not_done),
    Item("recurring failures", "across", "what failed here and in sessions before", findings_across_sessions.recurring),
    Item(
        "velocity and cost", "across", "much more or much less than sessions like it", findings_across_sessions.velocity
    ),
    Item(
        "convention adoption",
        "across",
        "commands that became a habit and that no page names",
        findings_across_sessions.adopted,
    ),
    Item(
        "convention disuse",
        "across",
        "conventions whose commands nobody runs any more",
        findings_across_sessions.disused,
    ),
    Item(
        "stale resume prompts",
        "across",
        "a plan handed over that was not followed",
        findings_across_sessions.stale_resume,
    ),
    Item(
        "confidence calibration",
        "across",
        "whether handoffs that were sure came true",
        findings_across_sessions.calibration,
    ),
    Item("dependencies discovered", "graph", "work found to wait for other work", findings_in_workspace.dependencies),
    Item("peer messages", "graph", "what another agent said and no page holds", findings_in_workspace.peer_messages),
    Item("code health", "graph", "folders that are full and get fuller", findings_in_workspace.crowded),
    Item("files not noted", "graph", "folders changed and never spoken of", findings_in_workspace.unnoted),
    Item(
        "memory hits without writes",
        "graph",
        "memories that a person spoke against",
        findings_in_workspace.doubted_memory,
    ),
    Item("tone", "person", "a person pushing back, and terser than before", findings_about_person.tone),
    Item("time of day", "person", "commits made late at night", findings_about_person.time_of_day),
    Item(
        "missed remember", "person", "wishes to be remembered that nothing holds", findings_about_person.missed_remember
    ),
    Item("outcome", "person", "a goal that was given up for another", findings_about_person.outcome),
)


def findings(story: Story, past: Past) -> list[Finding]:
    """What the menu finds in a session, the most telling first."""
    found = [one for item in MENU for one in item.detect(story, past)]
    return sorted(found, key=lambda one: -one.score)
