"""What a session shows of the person in it: each detector with sessions it must see and sessions it must pass over."""

from __future__ import annotations

import pathlib

import pytest

from hardwon.handoff import findings
from hardwon.store.reflection_types import ReflectionContext
from tests.support.claude_session import ClaudeSession


@pytest.fixture
def session(tmp_path: pathlib.Path) -> ClaudeSession:
    return ClaudeSession(tmp_path)


def asked(session: ClaudeSession, *prompts: str) -> ClaudeSession:
    for words in prompts:
        session.person(words)
        session.agent("Done.")
    return session


@pytest.mark.parametrize(
    "words",
    [
        "log it and also make sure to memorize the setup so that it is known",
        "fix the knot, and see that this never happens again",
        "note to self: the west field is closed",
        "add this to your memory please",
    ],
)
def test_a_wish_that_slipped_through_is_caught(session: ClaudeSession, words: str) -> None:
    (found,) = asked(session, words).detect(findings.detect_missed_memories)
    assert (found.target, found.memory) == ("memory", "") and found.text.startswith("Asked to be kept")


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
def test_what_is_caught_at_once_asked_or_for_now_was_not_missed(session: ClaudeSession, words: str) -> None:
    assert asked(session, words).detect(findings.detect_missed_memories) == []


def test_a_wish_that_a_memory_holds_was_not_missed(session: ClaudeSession) -> None:
    past = ReflectionContext(memories=(("project", "The west field is closed"),))
    assert asked(session, "note to self: the west field is closed").detect(findings.detect_missed_memories, past) == []
