"""Findings from earlier sessions: recurring failures, undocumented habits, plans not followed."""

from __future__ import annotations

from typing import Any

import pytest

from hardwon.handoff import findings
from hardwon.shell import failures
from hardwon.store.reflections import PastHandoff, ReflectionContext, SessionStats
from hardwon.types import replace
from tests.support.parsed_sessions import KITE, STARTED_AT, build_story, has_quoted_evidence
from tests.support.step_builder import NO_ANCHOR, TYPES, UNKNOWN, StepBuilder

UNKNOWN_SIGNATURE = "kite interface error unrecognized subcommand quoted"
DAY = 86_400.0


def build_past_session(number: int, **fields: Any) -> SessionStats:
    """Build a session from this many days ago."""
    return SessionStats(f"e{number}", STARTED_AT - number * DAY, **fields)


def build_failing_session(failure_text: str = UNKNOWN, times: int = 1) -> StepBuilder:
    story = StepBuilder()
    story.person("fly the kite")
    for _ in range(times):
        story.fails("kite fly", failure_text)
    return story


def build_failure_context(signature: str, sessions: int, session_count: int = 10) -> ReflectionContext:
    failure_counts = {number: {signature: 2} for number in range(1, sessions + 1)}
    return ReflectionContext(
        tuple(
            build_past_session(number, failures=failure_counts.get(number, {}))
            for number in range(1, session_count + 1)
        )
    )


def test_a_failure_of_earlier_sessions_is_a_finding() -> None:
    story = build_failing_session(times=2)
    (finding,) = findings.detect_recurring_failures(build_story(story), build_failure_context(UNKNOWN_SIGNATURE, 3))
    assert "`kite fly` failed twice: error: unrecognized subcommand 'fly'." in finding.text
    assert finding.text.endswith(" It failed 6 times before, in 3 of the last 10 sessions.")
    assert (finding.target, finding.memory, has_quoted_evidence(story, finding)) == ("memory", "", True)


@pytest.mark.parametrize("sessions", [0, 1])
def test_a_failure_that_is_new_or_was_met_once_is_not_a_pattern(sessions: int) -> None:
    assert not list(
        findings.detect_recurring_failures(
            build_story(build_failing_session()), build_failure_context(UNKNOWN_SIGNATURE, sessions)
        )
    )


@pytest.mark.parametrize("text", [TYPES, NO_ANCHOR, "Exit code 1"])
def test_a_failure_of_the_code_or_the_agents_own_tools_is_no_pattern(text: str) -> None:
    signature = failures.compute_signature("Bash", "kite fly", text)
    assert not list(
        findings.detect_recurring_failures(
            build_story(build_failing_session(text)), build_failure_context(signature, 5)
        )
    )


def test_a_failure_that_a_memory_covers_is_not_reported() -> None:
    context = replace(
        build_failure_context(UNKNOWN_SIGNATURE, 5), memories=(("feedback", "kite has no fly subcommand"),)
    )
    assert not list(findings.detect_recurring_failures(build_story(build_failing_session()), context))
    context = replace(context, memories=(("user", "prefers tabs"),))
    assert list(findings.detect_recurring_failures(build_story(build_failing_session()), context))


def test_a_failure_in_more_sessions_scores_higher() -> None:
    rare_context, frequent_context = (build_failure_context(UNKNOWN_SIGNATURE, count) for count in (2, 6))
    (rare_finding,), (frequent_finding,) = (
        findings.detect_recurring_failures(build_story(build_failing_session()), context)
        for context in (rare_context, frequent_context)
    )
    assert rare_finding.score < frequent_finding.score <= 1


def build_habit_session(command: str, times: int = 3) -> StepBuilder:
    story = StepBuilder()
    story.person("make it green")
    for _ in range(times):
        story.works(f"{command} 2>&1 | tail -5")
    return story


def build_habit_context(name: str, sessions: int = 6, *documented_code: str) -> ReflectionContext:
    return ReflectionContext(
        tuple(build_past_session(n, commands={name: 2} if n <= sessions else {}) for n in range(1, 11)),
        documented_code=documented_code,
    )


@pytest.mark.parametrize("name", ["mise run lint", "make check", "./scripts/check.sh"])
def test_a_command_of_the_project_that_is_run_again_and_again_may_be_a_convention(name: str) -> None:
    story = build_habit_session(name)
    (finding,) = findings.detect_undocumented_habits(build_story(story), build_habit_context(name))
    assert f"`{name}` 3 times, and in 6 of the 10 sessions before" in finding.text
    assert (finding.target, has_quoted_evidence(story, finding)) == ("convention", True)


@pytest.mark.parametrize("name", ["git status", "go test", "npm install", "ls"])
def test_a_common_command_is_no_convention(name: str) -> None:
    assert not list(
        findings.detect_undocumented_habits(build_story(build_habit_session(name)), build_habit_context(name))
    )


def test_a_habit_that_is_documented_or_rare_is_not_reported() -> None:
    story = build_story(build_habit_session("make check"))
    assert not list(
        findings.detect_undocumented_habits(story, build_habit_context("make check", 6, "make check before a push"))
    )
    assert not list(findings.detect_undocumented_habits(story, build_habit_context("make check", 4)))
    assert not list(
        findings.detect_undocumented_habits(
            build_story(build_habit_session("make check", times=2)), build_habit_context("make check")
        )
    )


def build_edit_session(*requests: str) -> StepBuilder:
    story = StepBuilder()
    for request in requests:
        story.person(request)
        story.edit(f"{KITE}/src/tail.py")
    return story


def build_handoff(resume: str, ago: float = 3_600.0) -> PastHandoff:
    return PastHandoff(STARTED_AT - ago, "e1", resume)


PLAN = "Write the migration of the wind table, then measure how fast searching is."


def test_a_plan_that_the_next_session_did_not_follow_is_asked_about() -> None:
    story = build_edit_session("ok", "The tail is too short, make it longer")
    (finding,) = findings.detect_stale_resume(build_story(story), ReflectionContext(handoffs=(build_handoff(PLAN),)))
    assert finding.text.startswith(f"The last handoff said: {PLAN} This session was about: The tail is too short")
    assert has_quoted_evidence(story, finding)


def test_editing_a_notebook_counts_as_not_following_the_plan() -> None:
    story = StepBuilder()
    story.person("The tail is too short, make it longer")
    story.result(story.call("NotebookEdit", path=f"{KITE}/tail.ipynb", content="x = 1"), "updated")
    assert (
        len(list(findings.detect_stale_resume(build_story(story), ReflectionContext(handoffs=(build_handoff(PLAN),)))))
        == 1
    )


@pytest.mark.parametrize(
    ("plan", "prompt"),
    [
        (PLAN, "go on with the wind migration and its table"),
        ("Then change src/tail.py so that it bends in every storm", "make the other thing work, please"),
        ("Ship it.", "The tail is too short, make it longer"),
        (PLAN, "ok"),
    ],
    ids=["followed", "same file", "no plan", "nobody said what else"],
)
def test_a_plan_that_was_followed_or_says_nothing_is_not_stale(plan: str, prompt: str) -> None:
    assert not list(
        findings.detect_stale_resume(
            build_story(build_edit_session(prompt)), ReflectionContext(handoffs=(build_handoff(plan),))
        )
    )


def test_only_the_first_session_soon_after_a_handoff_is_compared_with_it() -> None:
    story = build_story(build_edit_session("The tail is too short, make it longer"))
    between = SessionStats("e9", STARTED_AT - 1_800)
    assert not list(findings.detect_stale_resume(story, ReflectionContext((between,), handoffs=(build_handoff(PLAN),))))
    assert not list(
        findings.detect_stale_resume(story, ReflectionContext(handoffs=(build_handoff(PLAN, ago=40 * DAY),)))
    )
    assert not list(findings.detect_stale_resume(story, ReflectionContext(handoffs=(build_handoff(PLAN, ago=-60.0),))))


def test_an_empty_context_gives_no_findings() -> None:
    story = build_story(build_edit_session("The tail is too short, make it longer"))
    for detect in (
        findings.detect_recurring_failures,
        findings.detect_undocumented_habits,
        findings.detect_stale_resume,
    ):
        assert not list(detect(story, ReflectionContext()))
