"""Findings about memories that a session contradicts, and context read from the repository."""

from __future__ import annotations

import os

import pytest

from hardwon.handoff import findings
from hardwon.handoff.repository_context import read_documented_code
from hardwon.store.reflections import ReflectionContext
from tests.support.parsed_sessions import KITE, build_story, has_quoted_evidence
from tests.support.step_builder import StepBuilder

MEMORY = "Deploys go through Jenkins, from the release branch."


def build_doubting_session(*replies: str, has_read_memory: bool = True) -> StepBuilder:
    story = StepBuilder()
    story.person("deploy it")
    if has_read_memory:
        story.result(story.call("Read", path=f"{KITE}/.claude/memory/project_deploy.md"), MEMORY)
    story.agent("I start the job in Jenkins.")
    for reply in replies:
        story.person(reply)
    return story


@pytest.mark.parametrize("reply", ["No, we moved the deploys off Jenkins.", "jenkins is outdated, use the new deploys"])
def test_a_memory_that_a_person_contradicts_is_doubted(reply: str) -> None:
    story = build_doubting_session(reply)
    (finding,) = findings.detect_doubted_memories(build_story(story), ReflectionContext())
    assert (MEMORY in finding.text, reply in finding.text) == (True, True)
    assert (finding.target, has_quoted_evidence(story, finding)) == ("memory", True)


def test_a_memory_that_the_session_opened_with_counts_as_read() -> None:
    story = build_story(build_doubting_session("No, we moved the deploys off Jenkins.", has_read_memory=False))
    assert len(list(findings.detect_doubted_memories(story, ReflectionContext(memories=(("project", MEMORY),))))) == 1
    assert not list(findings.detect_doubted_memories(story, ReflectionContext()))


@pytest.mark.parametrize("reply", ["thanks, the Jenkins deploys look fine", "no, make the button blue", "go on"])
def test_unrelated_replies_and_corrections_do_not_doubt_a_memory(reply: str) -> None:
    assert not list(findings.detect_doubted_memories(build_story(build_doubting_session(reply)), ReflectionContext()))


def test_a_memory_that_was_corrected_at_once_is_not_doubted() -> None:
    story = build_doubting_session("No, we moved the deploys off Jenkins.")
    story.edit(f"{KITE}/.claude/memory/project_deploy.md", "Deploys go through Actions.")
    assert not list(findings.detect_doubted_memories(build_story(story), ReflectionContext()))


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
