"""A session beside those before it: what returns, what it took, what became a habit, which plans held."""

from __future__ import annotations

from typing import Any

import pytest

from hardwon.handoff import findings_across_sessions
from hardwon.shell import failures
from hardwon.store.reflection_types import EMPTY_CONTEXT, PastHandoff, ReflectionContext, RepositoryPage, SessionStats
from hardwon.types import replace
from tests.support.beside import BEGAN, KITE, is_shown, told
from tests.support.story import NO_ANCHOR, TYPES, UNKNOWN, Story

UNKNOWN_SIGNATURE = "kite interface error unrecognized subcommand quoted"
DAY = 86_400.0


def earlier(number: int, **more: Any) -> SessionStats:
    """The session that was so many days ago."""
    return SessionStats(f"e{number}", BEGAN - number * DAY, **{"prompts": 2, **more})


def failing(text: str = UNKNOWN, times: int = 1) -> Story:
    story = Story()
    story.person("fly the kite")
    for _ in range(times):
        story.fails("kite fly", text)
    return story


def with_failures(signature: str, sessions: int, of: int = 10) -> ReflectionContext:
    had = {number: {signature: 2} for number in range(1, sessions + 1)}
    return ReflectionContext(tuple(earlier(number, failures=had.get(number, {})) for number in range(1, of + 1)))


def test_a_failure_that_sessions_before_had_is_worth_mending() -> None:
    story = failing(times=2)
    (found,) = findings_across_sessions.detect_recurring_failures(told(story), with_failures(UNKNOWN_SIGNATURE, 3))
    assert "`kite fly` failed twice: error: unrecognized subcommand 'fly'." in found.text
    assert "failed 6 times in 3 of the 10 sessions before" in found.text
    assert (found.target, found.memory, is_shown(story, found)) == ("memory", "feedback", True)


@pytest.mark.parametrize("sessions", [0, 1])
def test_a_failure_that_is_new_or_was_met_once_is_not_a_pattern(sessions: int) -> None:
    assert not list(
        findings_across_sessions.detect_recurring_failures(told(failing()), with_failures(UNKNOWN_SIGNATURE, sessions))
    )


@pytest.mark.parametrize("text", [TYPES, NO_ANCHOR, "Exit code 1"])
def test_what_depends_on_the_code_or_on_the_agents_own_tools_is_no_pattern(text: str) -> None:
    signature = failures.compute_signature("Bash", "kite fly", text)
    assert not list(
        findings_across_sessions.detect_recurring_failures(told(failing(text)), with_failures(signature, 5))
    )


def test_a_failure_that_a_memory_speaks_of_is_known() -> None:
    past = replace(with_failures(UNKNOWN_SIGNATURE, 5), memories=(("feedback", "kite has no fly subcommand"),))
    assert not list(findings_across_sessions.detect_recurring_failures(told(failing()), past))
    past = replace(past, memories=(("user", "prefers tabs"),))
    assert list(findings_across_sessions.detect_recurring_failures(told(failing()), past))


def test_more_of_a_failure_in_more_sessions_tells_more() -> None:
    few, many = (with_failures(UNKNOWN_SIGNATURE, count) for count in (2, 6))
    (less,), (more,) = (
        findings_across_sessions.detect_recurring_failures(told(failing()), past) for past in (few, many)
    )
    assert less.score < more.score <= 1


USUAL = {"tokens": 10_000, "minutes": 10.0, "calls": 30}


def compared(own: dict[str, Any], *, sessions: int = 6, prompts: int = 2, usual: dict[str, Any] = USUAL) -> list[str]:
    past = ReflectionContext(
        tuple(earlier(number, **usual) for number in range(1, sessions + 1)),
        current_session=SessionStats("s1", BEGAN, **{**USUAL, "prompts": prompts, **own}),
    )
    story = failing()
    found = list(findings_across_sessions.detect_unusual_cost(told(story), past))
    assert all(is_shown(story, one) for one in found)
    return [one.text for one in found]


def test_a_session_that_took_twice_the_usual_is_asked_what_held_it_up() -> None:
    (text,) = compared({"tokens": 25_000, "calls": 70})
    assert text == (
        "More than 2 times what 6 sessions like it took: tokens 25,000 (usually 10,000), minutes 10 (usually 10),"
        " calls 70 (usually 30). What held it up?"
    )


def test_one_that_took_half_and_was_committed_is_asked_what_worked() -> None:
    (text,) = compared({"tokens": 4_000, "minutes": 3.0, "calls": 12, "has_commit": True})
    assert text.startswith("Less than half of what 6 sessions like it took, and committed")


@pytest.mark.parametrize(
    "own",
    [
        {},
        {"tokens": 25_000},  # one measure alone is chance
        {"tokens": 4_000, "minutes": 3.0, "calls": 12},  # little was done, perhaps because it was given up
        {"tokens": 1_000, "minutes": 1.0, "calls": 3, "has_commit": True},  # hardly a session
    ],
)
def test_a_usual_or_a_tiny_session_is_not_compared(own: dict[str, Any]) -> None:
    assert compared(own) == []


def test_a_session_is_only_compared_with_enough_that_are_like_it() -> None:
    much = {"tokens": 90_000, "minutes": 90.0, "calls": 200}
    assert compared(much, sessions=3) == []
    assert compared(much, prompts=12) == []
    assert len(compared(much)) == 1


def habit(command: str, times: int = 3) -> Story:
    story = Story()
    story.person("make it green")
    for _ in range(times):
        story.works(f"{command} 2>&1 | tail -5")
    return story


def with_habit(name: str, sessions: int = 6, *pages: RepositoryPage) -> ReflectionContext:
    return ReflectionContext(
        tuple(earlier(n, commands={name: 2} if n <= sessions else {}) for n in range(1, 11)), conventions=pages
    )


def page(name: str, *names: str) -> RepositoryPage:
    return RepositoryPage(f"{KITE}/docs/conventions/{name}.md", name, 1, f"# {name}", names)


@pytest.mark.parametrize("name", ["mise run lint", "make check", "./scripts/check.sh"])
def test_a_command_of_the_project_that_is_run_again_and_again_may_be_a_convention(name: str) -> None:
    story = habit(name)
    (found,) = findings_across_sessions.detect_undocumented_habits(told(story), with_habit(name))
    assert f"`{name}` 3 times, and in 6 of the 10 sessions before" in found.text
    assert (found.target, is_shown(story, found)) == ("convention", True)


@pytest.mark.parametrize("name", ["git status", "go test", "npm install", "ls"])
def test_what_everybody_runs_is_no_convention(name: str) -> None:
    assert not list(findings_across_sessions.detect_undocumented_habits(told(habit(name)), with_habit(name)))


def test_a_habit_that_is_written_down_or_rare_is_not_told() -> None:
    story = told(habit("make check"))
    assert not list(
        findings_across_sessions.detect_undocumented_habits(
            story, with_habit("make check", 6, page("checks", "make check before a push"))
        )
    )
    assert not list(findings_across_sessions.detect_undocumented_habits(story, with_habit("make check", 4)))
    assert not list(
        findings_across_sessions.detect_undocumented_habits(
            told(habit("make check", times=2)), with_habit("make check")
        )
    )


def test_a_convention_that_thirty_sessions_did_not_use_is_asked_about() -> None:
    unused, used, words = page("release", "make release"), page("checks", "make check"), page("naming")
    sessions = tuple(earlier(number, commands={"make check": 1}) for number in range(1, 31))
    found = list(
        findings_across_sessions.detect_disused_conventions(
            told(habit("go test")), ReflectionContext(sessions, conventions=(unused, used, words))
        )
    )
    assert [one.text for one in found] == [
        "release is a convention, but `make release` was not run in 30 sessions: still wanted?"
    ]
    assert (found[0].evidence[0].path, found[0].evidence[0].quote) == (unused.path, "# release")


def test_before_thirty_sessions_or_when_it_was_just_used_nothing_is_said_of_a_convention() -> None:
    release = (page("release", "make release"),)
    sessions = tuple(earlier(number) for number in range(1, 31))
    assert not list(
        findings_across_sessions.detect_disused_conventions(
            told(habit("go test")), ReflectionContext(sessions[:29], conventions=release)
        )
    )
    assert not list(
        findings_across_sessions.detect_disused_conventions(
            told(habit("make release")), ReflectionContext(sessions, conventions=release)
        )
    )


def working(*asked: str) -> Story:
    story = Story()
    for text in asked:
        story.person(text)
        story.edit(f"{KITE}/src/tail.py")
    return story


def handed(resume: str, ago: float = 3_600.0, confidence: str = "H") -> PastHandoff:
    return PastHandoff(BEGAN - ago, "e1", resume, confidence)


PLAN = "Write the migration of the wind table, then measure how fast searching is."


def test_a_plan_that_the_next_session_did_not_follow_is_asked_about() -> None:
    story = working("ok", "The tail is too short, make it longer")
    (found,) = findings_across_sessions.detect_stale_resume(told(story), ReflectionContext(handoffs=(handed(PLAN),)))
    assert found.text.startswith(f"The last handoff said: {PLAN} This session was about: The tail is too short")
    assert is_shown(story, found)


def test_a_session_that_changes_a_notebook_is_held_to_the_plan_too() -> None:
    story = Story()
    story.person("The tail is too short, make it longer")
    story.result(story.call("NotebookEdit", path=f"{KITE}/tail.ipynb", content="x = 1"), "updated")
    assert (
        len(
            list(findings_across_sessions.detect_stale_resume(told(story), ReflectionContext(handoffs=(handed(PLAN),))))
        )
        == 1
    )


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
        findings_across_sessions.detect_stale_resume(told(working(asked)), ReflectionContext(handoffs=(handed(plan),)))
    )


def test_only_the_first_session_after_a_handoff_is_held_to_it() -> None:
    story = told(working("The tail is too short, make it longer"))
    between = SessionStats("e9", BEGAN - 1_800)
    assert not list(
        findings_across_sessions.detect_stale_resume(story, ReflectionContext((between,), handoffs=(handed(PLAN),)))
    )
    assert not list(
        findings_across_sessions.detect_stale_resume(story, ReflectionContext(handoffs=(handed(PLAN, ago=40 * DAY),)))
    )
    assert not list(
        findings_across_sessions.detect_stale_resume(story, ReflectionContext(handoffs=(handed(PLAN, ago=-60.0),)))
    )


def after_plans(followed: int, of: int, confidence: str = "H") -> ReflectionContext:
    """Each day a session takes up, or does not, what was handed over the hour before."""
    plans = tuple(
        PastHandoff(BEGAN - number * DAY - 3_600, f"x{number}", PLAN, confidence) for number in range(1, of + 1)
    )
    asked = ["the wind table's migration", "longer tails"]
    sessions = tuple(earlier(number, first_prompt=asked[number > followed]) for number in range(1, of + 1))
    return ReflectionContext(sessions, handoffs=plans)


def test_confidence_that_does_not_come_true_is_told_after_five() -> None:
    story = failing()
    (found,) = findings_across_sessions.detect_miscalibration(told(story), after_plans(1, of=5))
    assert found.text == "Of 5 handoffs with confidence H, 1 were followed by the session after: H says too much."
    assert is_shown(story, found)
    (found,) = findings_across_sessions.detect_miscalibration(told(story), after_plans(4, of=5, confidence="L"))
    assert found.text.endswith("L says too little.")


@pytest.mark.parametrize("past", [after_plans(5, of=5), after_plans(1, of=4), after_plans(1, of=6), EMPTY_CONTEXT])
def test_confidence_that_comes_true_or_was_just_told_is_not_told(past: ReflectionContext) -> None:
    assert not list(findings_across_sessions.detect_miscalibration(told(failing()), past))


def test_with_nothing_known_of_the_past_nothing_is_found() -> None:
    story = told(working("The tail is too short, make it longer"))
    for detect in (
        findings_across_sessions.detect_recurring_failures,
        findings_across_sessions.detect_unusual_cost,
        findings_across_sessions.detect_undocumented_habits,
        findings_across_sessions.detect_disused_conventions,
        findings_across_sessions.detect_stale_resume,
    ):
        assert not list(detect(story, EMPTY_CONTEXT))


def test_without_tokens_both_other_measures_must_say_so() -> None:
    unknown = {"tokens": None}
    usual = {**USUAL, **unknown}
    assert compared({**unknown, "minutes": 25.0, "calls": 70}, usual=usual)
    assert not compared({**unknown, "minutes": 25.0}, usual=usual)
