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
from hardwon.store.reflection_types import Finding, ReflectionContext

Detector = Callable[[Story, ReflectionContext], Iterable[Finding]]


class MenuItem(NamedTuple):
    """A thing to notice: its name, the group it stands in, a line for people, and what finds it."""

    name: str
    group: str
    help: str
    detect: Detector


MENU: tuple[MenuItem, ...] = (
    MenuItem(
        "failed experiments",
        "content",
        "what was tried and taken back, and why",
        findings_in_session.detect_failed_experiments,
    ),
    MenuItem(
        "implicit decisions",
        "content",
        "choices of the agent that a short yes let pass",
        findings_in_session.detect_implicit_decisions,
    ),
    MenuItem("assumptions", "content", "what was said to be taken for granted", findings_in_session.detect_assumptions),
    MenuItem(
        "external events",
        "content",
        "people, dates and events a person mentioned",
        findings_in_session.detect_external_events,
    ),
    MenuItem(
        "naming inconsistencies",
        "content",
        "old names in use after a rename",
        findings_in_session.detect_naming_inconsistencies,
    ),
    MenuItem(
        "not done", "content", "what was put off, left out or not answered", findings_in_session.detect_unfinished_work
    ),
    MenuItem(
        "recurring failures",
        "across",
        "what failed here and in sessions before",
        findings_across_sessions.detect_recurring_failures,
    ),
    MenuItem(
        "velocity and cost",
        "across",
        "much more or much less than sessions like it",
        findings_across_sessions.detect_unusual_cost,
    ),
    MenuItem(
        "convention adoption",
        "across",
        "commands that became a habit and that no page names",
        findings_across_sessions.detect_undocumented_habits,
    ),
    MenuItem(
        "convention disuse",
        "across",
        "conventions whose commands nobody runs any more",
        findings_across_sessions.detect_disused_conventions,
    ),
    MenuItem(
        "stale resume prompts",
        "across",
        "a plan handed over that was not followed",
        findings_across_sessions.detect_stale_resume,
    ),
    MenuItem(
        "confidence calibration",
        "across",
        "whether handoffs that were sure came true",
        findings_across_sessions.detect_miscalibration,
    ),
    MenuItem(
        "dependencies discovered",
        "graph",
        "work found to wait for other work",
        findings_in_workspace.detect_dependencies,
    ),
    MenuItem(
        "peer messages",
        "graph",
        "what another agent said and no page holds",
        findings_in_workspace.detect_peer_messages,
    ),
    MenuItem(
        "code health", "graph", "folders that are full and get fuller", findings_in_workspace.detect_crowded_folders
    ),
    MenuItem(
        "files not noted",
        "graph",
        "folders changed and never spoken of",
        findings_in_workspace.detect_unmentioned_files,
    ),
    MenuItem(
        "memory hits without writes",
        "graph",
        "memories that a person spoke against",
        findings_in_workspace.detect_doubted_memories,
    ),
    MenuItem("tone", "person", "a person pushing back, and terser than before", findings_about_person.detect_tone),
    MenuItem("time of day", "person", "commits made late at night", findings_about_person.detect_late_commits),
    MenuItem(
        "missed remember",
        "person",
        "wishes to be remembered that nothing holds",
        findings_about_person.detect_missed_memories,
    ),
    MenuItem("outcome", "person", "a goal that was given up for another", findings_about_person.detect_changed_goal),
)


def detect_findings(story: Story, past: ReflectionContext) -> list[Finding]:
    """What the menu finds in a session, the most telling first."""
    findings = [finding for item in MENU for finding in item.detect(story, past)]
    return sorted(findings, key=lambda finding: -finding.score)
