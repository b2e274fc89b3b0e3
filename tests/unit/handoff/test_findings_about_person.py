"""What a session shows of the person in it: each detector with sessions it must see and sessions it must pass over."""

from __future__ import annotations

import pathlib
from datetime import timedelta, timezone

import pytest

from hardwon.handoff import findings_about_person
from hardwon.store.reflection_types import ReflectionContext
from tests.support.whole_session import Session

BERLIN = timezone(timedelta(hours=2))
COMMITTED = "[main 1a2b3c4] Tie the tail\n 1 file changed, 2 insertions(+)"


@pytest.fixture
def session(tmp_path: pathlib.Path) -> Session:
    return Session(tmp_path)


def asked(session: Session, *prompts: str) -> Session:
    for words in prompts:
        session.person(words)
        session.agent("Done.")
    return session


def test_a_person_who_pushes_back_three_times_loses_patience(session: Session) -> None:
    prompts = ("build the kite", "still not flying", "ugh, why did you cut the tail", "no, I said the red one")
    (found,) = asked(session, *prompts).found(findings_about_person.detect_tone)
    assert "3 of 4 messages push back" in found.text and "“ugh, why did you cut the tail”" in found.text
    assert (found.target, found.memory, len(found.evidence)) == ("memory", "", 3)


def test_messages_that_became_terse_are_told_with_it(session: Session) -> None:
    long = "please build a kite with a long red tail and two strings that hold in a storm"
    prompts = (long, long.replace("red", "blue"), "this is annoying", "still failing", "nope", "nope again")
    (found,) = asked(session, *prompts).found(findings_about_person.detect_tone)
    assert "messages went from 17 words to 2" in found.text


@pytest.mark.parametrize(
    "prompts",
    [
        ("build the kite", "commit", "push", "thanks"),
        ("build the kite", "still failing", "great, thanks"),
        ("no changes to the tail please", "No conversation found to continue", "is it still there", "no rush"),
        ("$ make\nmake: still failing", "> ugh", "```\nwtf\n```", "why does it fall?"),
    ],
)
def test_a_calm_person_is_left_in_peace(session: Session, prompts: tuple[str, ...]) -> None:
    assert asked(session, *prompts).found(findings_about_person.detect_tone) == []


def test_the_same_complaint_repeated_counts_once(session: Session) -> None:
    assert (
        asked(session, "still failing", "still failing", "still failing").found(findings_about_person.detect_tone) == []
    )


def test_a_commit_made_late_is_marked(session: Session) -> None:
    session.at = "2026-05-12T21:40:00+00:00"
    session.person("tie the tail and commit")
    session.bash("git commit -m 'Tie the tail'", COMMITTED)
    session.at = "2026-05-12T23:10:00+00:00"
    session.person("thanks")
    (found,) = session.found(findings_about_person.detect_late_commits, zone=BERLIN)
    assert "between 23:40 and 01:10: “Tie the tail”" in found.text
    assert findings_about_person.find_fatigue_window(session.story(), BERLIN) == "23:40-01:10"


@pytest.mark.parametrize(("at", "late"), [("21:00", True), ("20:59", False), ("23:59", True), ("00:00", False)])
def test_late_is_from_eleven_to_two(session: Session, at: str, late: bool) -> None:
    session.at = f"2026-05-12T{at}:00+00:00"
    session.person("tie the tail")
    assert bool(findings_about_person.find_fatigue_window(session.story(), BERLIN)) is late


def test_a_late_session_that_commits_nothing_is_only_marked(session: Session) -> None:
    session.at = "2026-05-12T22:00:00+00:00"
    session.person("why does it fall?")
    session.bash("git commit -m 'Tie the tail'", "Exit code 1\nnothing to commit", failed=True)
    assert session.found(findings_about_person.detect_late_commits, zone=BERLIN) == []
    assert findings_about_person.find_fatigue_window(session.story(), BERLIN) == "00:00"


def test_a_session_without_times_is_not_late(session: Session) -> None:
    session.at = ""
    session.person("tie the tail")
    assert findings_about_person.find_fatigue_window(session.story(), BERLIN) == ""


@pytest.mark.parametrize(
    "words",
    [
        "log it and also make sure to memorize the setup so that it is known",
        "fix the knot, and see that this never happens again",
        "note to self: the west field is closed",
        "add this to your memory please",
    ],
)
def test_a_wish_that_slipped_through_is_caught(session: Session, words: str) -> None:
    (found,) = asked(session, words).found(findings_about_person.detect_missed_memories)
    assert (found.target, found.memory) == ("memory", "feedback") and found.text.startswith("Asked to be kept")


@pytest.mark.parametrize(
    "words",
    [
        "from now on always use silk, never cotton",
        "do you remember that the west field is closed?",
        "remember to run the tests first",
        "don't forget to branch off main",
        "I don't remember how it was tied",
        "> memorize the setup",
    ],
)
def test_what_is_caught_at_once_asked_or_for_now_was_not_missed(session: Session, words: str) -> None:
    assert asked(session, words).found(findings_about_person.detect_missed_memories) == []


def test_a_wish_that_a_memory_holds_was_not_missed(session: Session) -> None:
    past = ReflectionContext(memories=(("project", "The west field is closed"),))
    assert (
        asked(session, "note to self: the west field is closed").found(
            findings_about_person.detect_missed_memories, past
        )
        == []
    )


@pytest.mark.parametrize(
    "turn",
    [
        "ok, change of plan: we build a boat",
        "thinking again: let's drop the tail",
        "I changed my mind, make it blue",
        "never mind, use the old one",
        "forget about that, we build a boat",
    ],
)
def test_a_goal_that_was_given_up_is_told_with_what_it_was(session: Session, turn: str) -> None:
    (found,) = asked(session, "build a kite with a red tail", "ok", turn).found(
        findings_about_person.detect_changed_goal
    )
    assert turn in found.text and "build a kite with a red tail" in found.text and found.target == "workstream"


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ("build a kite with a red tail", "and a second one"),
        ("build a kite with a red tail", "should we have a change of plan?"),
        ("change of plan: we build a boat today", "thanks"),
        ("build a kite with a red tail", "```\nnever mind\n```\nwhat does this log say"),
        ("build a kite with a red tail", "don't forget that the west field is closed"),
        ("build a kite with a red tail", "please don’t ever forget it again"),
        ("build a kite with a red tail", "let's not forget about that wind"),
    ],
)
def test_a_goal_that_held_is_passed_over(session: Session, first: str, then: str) -> None:
    assert asked(session, first, then).found(findings_about_person.detect_changed_goal) == []
