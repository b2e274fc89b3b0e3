"""A session beside those before it: what returns, what it took, what became a habit, which plans held."""

from __future__ import annotations

from typing import Any

import pytest

from hardwon.handoff import findings
from hardwon.shell import failures
from hardwon.store.reflection_types import EMPTY_CONTEXT, PastHandoff, ReflectionContext, SessionStats
from hardwon.types import replace
from tests.support.parsed_sessions import KITE, STARTED_AT, build_story, has_quoted_evidence
from tests.support.step_builder import NO_ANCHOR, TYPES, UNKNOWN, StepBuilder

UNKNOWN_SIGNATURE = "kite interface error unrecognized subcommand quoted"
DAY = 86_400.0


def earlier(number: int, **more: Any) -> SessionStats:
    """The session that was so many days ago."""
    return SessionStats(f"e{number}", STARTED_AT - number * DAY, **more)


def failing(text: str = UNKNOWN, times: int = 1) -> StepBuilder:
    story = StepBuilder()
    story.person("fly the kite")
    for _ in range(times):
        story.fails("kite fly", text)
    return story


def with_failures(signature: str, sessions: int, of: int = 10) -> ReflectionContext:
    had = {number: {signature: 2} for number in range(1, sessions + 1)}
    return ReflectionContext(tuple(earlier(number, failures=had.get(number, {})) for number in range(1, of + 1)))


def test_a_failure_that_sessions_before_had_is_worth_mending() -> None:
    story = failing(times=2)
    (found,) = findings.detect_recurring_failures(build_story(story), with_failures(UNKNOWN_SIGNATURE, 3))
    assert "`kite fly` failed twice: error: unrecognized subcommand 'fly'." in found.text
    assert found.text.endswith(" It failed 6 times before, in 3 of the last 10 sessions.")
    assert (found.target, found.memory, has_quoted_evidence(story, found)) == ("memory", "", True)


@pytest.mark.parametrize("sessions", [0, 1])
def test_a_failure_that_is_new_or_was_met_once_is_not_a_pattern(sessions: int) -> None:
    assert not list(
        findings.detect_recurring_failures(build_story(failing()), with_failures(UNKNOWN_SIGNATURE, sessions))
    )


@pytest.mark.parametrize("text", [TYPES, NO_ANCHOR, "Exit code 1"])
def test_what_depends_on_the_code_or_on_the_agents_own_tools_is_no_pattern(text: str) -> None:
    signature = failures.compute_signature("Bash", "kite fly", text)
    assert not list(findings.detect_recurring_failures(build_story(failing(text)), with_failures(signature, 5)))


def test_a_failure_that_a_memory_speaks_of_is_known() -> None:
    past = replace(with_failures(UNKNOWN_SIGNATURE, 5), memories=(("feedback", "kite has no fly subcommand"),))
    assert not list(findings.detect_recurring_failures(build_story(failing()), past))
    past = replace(past, memories=(("user", "prefers tabs"),))
    assert list(findings.detect_recurring_failures(build_story(failing()), past))


def test_more_of_a_failure_in_more_sessions_tells_more() -> None:
    few, many = (with_failures(UNKNOWN_SIGNATURE, count) for count in (2, 6))
    (less,), (more,) = (findings.detect_recurring_failures(build_story(failing()), past) for past in (few, many))
    assert less.score < more.score <= 1


def habit(command: str, times: int = 3) -> StepBuilder:
    story = StepBuilder()
    story.person("make it green")
    for _ in range(times):
        story.works(f"{command} 2>&1 | tail -5")
    return story


def with_habit(name: str, sessions: int = 6, *documented_code: str) -> ReflectionContext:
    return ReflectionContext(
        tuple(earlier(n, commands={name: 2} if n <= sessions else {}) for n in range(1, 11)),
        documented_code=documented_code,
    )


@pytest.mark.parametrize("name", ["mise run lint", "make check", "./scripts/check.sh"])
def test_a_command_of_the_project_that_is_run_again_and_again_may_be_a_convention(name: str) -> None:
    story = habit(name)
    (found,) = findings.detect_undocumented_habits(build_story(story), with_habit(name))
    assert f"`{name}` 3 times, and in 6 of the 10 sessions before" in found.text
    assert (found.target, has_quoted_evidence(story, found)) == ("convention", True)


@pytest.mark.parametrize("name", ["git status", "go test", "npm install", "ls"])
def test_what_everybody_runs_is_no_convention(name: str) -> None:
    assert not list(findings.detect_undocumented_habits(build_story(habit(name)), with_habit(name)))


def test_a_habit_that_is_written_down_or_rare_is_not_told() -> None:
    story = build_story(habit("make check"))
    assert not list(findings.detect_undocumented_habits(story, with_habit("make check", 6, "make check before a push")))
    assert not list(findings.detect_undocumented_habits(story, with_habit("make check", 4)))
    assert not list(
        findings.detect_undocumented_habits(build_story(habit("make check", times=2)), with_habit("make check"))
    )


def working(*asked: str) -> StepBuilder:
    story = StepBuilder()
    for text in asked:
        story.person(text)
        story.edit(f"{KITE}/src/tail.py")
    return story


def handed(resume: str, ago: float = 3_600.0) -> PastHandoff:
    return PastHandoff(STARTED_AT - ago, "e1", resume)


PLAN = "Write the migration of the wind table, then measure how fast searching is."


def test_a_plan_that_the_next_session_did_not_follow_is_asked_about() -> None:
    story = working("ok", "The tail is too short, make it longer")
    (found,) = findings.detect_stale_resume(build_story(story), ReflectionContext(handoffs=(handed(PLAN),)))
    assert found.text.startswith(f"The last handoff said: {PLAN} This session was about: The tail is too short")
    assert has_quoted_evidence(story, found)


def test_a_session_that_changes_a_notebook_is_held_to_the_plan_too() -> None:
    story = StepBuilder()
    story.person("The tail is too short, make it longer")
    story.result(story.call("NotebookEdit", path=f"{KITE}/tail.ipynb", content="x = 1"), "updated")
    assert len(list(findings.detect_stale_resume(build_story(story), ReflectionContext(handoffs=(handed(PLAN),))))) == 1


@pytest.mark.parametrize(
    ("plan", "asked"),
    [
        (PLAN, "go on with the wind migration and its table"),
        ("Then change src/tail.py so that it bends in every storm", "make the other thing work, please"),
        ("Ship it.", "The tail is too short, make it longer"),
        (PLAN, "ok"),
    ],
    ids=["followed", "same file", "no plan", "nobody said what else"],
)
def test_a_plan_that_was_followed_or_says_nothing_is_not_stale(plan: str, asked: str) -> None:
    assert not list(
        findings.detect_stale_resume(build_story(working(asked)), ReflectionContext(handoffs=(handed(plan),)))
    )


def test_only_the_first_session_after_a_handoff_is_held_to_it() -> None:
    story = build_story(working("The tail is too short, make it longer"))
    between = SessionStats("e9", STARTED_AT - 1_800)
    assert not list(findings.detect_stale_resume(story, ReflectionContext((between,), handoffs=(handed(PLAN),))))
    assert not list(findings.detect_stale_resume(story, ReflectionContext(handoffs=(handed(PLAN, ago=40 * DAY),))))
    assert not list(findings.detect_stale_resume(story, ReflectionContext(handoffs=(handed(PLAN, ago=-60.0),))))


def test_with_nothing_known_of_the_past_nothing_is_found() -> None:
    story = build_story(working("The tail is too short, make it longer"))
    for detect in (
        findings.detect_recurring_failures,
        findings.detect_undocumented_habits,
        findings.detect_stale_resume,
    ):
        assert not list(detect(story, EMPTY_CONTEXT))
