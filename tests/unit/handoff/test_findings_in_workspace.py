"""What a session means for other work, other agents, the repository and what was remembered."""

from __future__ import annotations

import os

import pytest

from hardwon.handoff import findings
from hardwon.handoff.repository_context import read_documented_code
from hardwon.store.reflection_types import EMPTY_CONTEXT, ReflectionContext
from tests.support.parsed_sessions import KITE, build_story, has_quoted_evidence
from tests.support.step_builder import StepBuilder

MEMORY = "Deploys go through Jenkins, from the release branch."


def doubting(*said: str, read: bool = True) -> StepBuilder:
    story = StepBuilder()
    story.person("deploy it")
    if read:
        story.result(story.call("Read", path=f"{KITE}/.claude/memory/project_deploy.md"), MEMORY)
    story.agent("I start the job in Jenkins.")
    for text in said:
        story.person(text)
    return story


@pytest.mark.parametrize("said", ["No, we moved the deploys off Jenkins.", "jenkins is outdated, use the new deploys"])
def test_a_memory_that_a_person_speaks_against_may_be_wrong(said: str) -> None:
    story = doubting(said)
    (found,) = findings.detect_doubted_memories(build_story(story), EMPTY_CONTEXT)
    assert (MEMORY in found.text, said in found.text) == (True, True)
    assert (found.target, has_quoted_evidence(story, found)) == ("memory", True)


def test_a_memory_that_the_session_opened_with_counts_as_read() -> None:
    story = build_story(doubting("No, we moved the deploys off Jenkins.", read=False))
    assert len(list(findings.detect_doubted_memories(story, ReflectionContext(memories=(("project", MEMORY),))))) == 1
    assert not list(findings.detect_doubted_memories(story, EMPTY_CONTEXT))


@pytest.mark.parametrize("said", ["thanks, the Jenkins deploys look fine", "no, make the button blue", "go on"])
def test_other_words_and_other_corrections_say_nothing_of_a_memory(said: str) -> None:
    assert not list(findings.detect_doubted_memories(build_story(doubting(said)), EMPTY_CONTEXT))


def test_a_memory_that_was_mended_at_once_is_not_doubted() -> None:
    story = doubting("No, we moved the deploys off Jenkins.")
    story.edit(f"{KITE}/.claude/memory/project_deploy.md", "Deploys go through Actions.")
    assert not list(findings.detect_doubted_memories(build_story(story), EMPTY_CONTEXT))


def test_the_code_that_the_conventions_of_a_repository_quote_is_known(own_home: str) -> None:
    pages = {
        "docs/conventions/release.md": "---\nowner: dev\n---\n# Releasing\n\nRun `make release`.\n",
        "docs/workstreams/tail.md": "# The tail\n\nRun `make tail`.\n",
        "CLAUDE.md": "# Kite\n\n```sh\nmake check\n```\n",
    }
    for name, text in pages.items():
        path = os.path.join(own_home, "kite", name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    assert read_documented_code(os.path.join(own_home, "kite")) == ("make check", "make release")
    assert read_documented_code(os.path.join(own_home, "gone")) == ()
