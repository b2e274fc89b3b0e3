"""Wishes to remember something that no rule found, and prompts that are none."""

from __future__ import annotations

import pathlib

import pytest

from hardwon.handoff import findings
from hardwon.store.reflections import ReflectionContext
from tests.support.claude_session import ClaudeSession


@pytest.fixture
def session(tmp_path: pathlib.Path) -> ClaudeSession:
    return ClaudeSession(tmp_path)


def add_prompts(session: ClaudeSession, *prompts: str) -> ClaudeSession:
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
def test_a_missed_wish_is_found(session: ClaudeSession, words: str) -> None:
    (finding,) = add_prompts(session, words).detect(findings.detect_missed_memories)
    assert (finding.target, finding.memory) == ("memory", "") and finding.text.startswith("Asked to be kept")


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
def test_statements_found_at_once_and_questions_were_not_missed(session: ClaudeSession, words: str) -> None:
    assert add_prompts(session, words).detect(findings.detect_missed_memories) == []


def test_a_wish_that_is_a_memory_was_not_missed(session: ClaudeSession) -> None:
    context = ReflectionContext(memories=(("project", "The west field is closed"),))
    assert (
        add_prompts(session, "note to self: the west field is closed").detect(findings.detect_missed_memories, context)
        == []
    )


def test_a_wish_that_the_agent_wrote_into_its_memory_was_not_missed(session: ClaudeSession) -> None:
    session.person("log it and also make sure to memorize the setup so that it is known")
    session.edit("memory/MEMORY.md")
    session.agent("Noted in the memory.")
    assert session.detect(findings.detect_missed_memories) == []
