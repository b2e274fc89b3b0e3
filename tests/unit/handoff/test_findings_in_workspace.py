"""What a session means for other work, other agents, the repository and what was remembered."""

from __future__ import annotations

import os
import subprocess

import pytest

from hardwon.handoff import findings
from hardwon.handoff.repository_context import add_repository_context
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


@pytest.fixture
def repository(own_home: str) -> str:
    place = os.path.join(own_home, "kite")
    pages = {
        "docs/conventions/release.md": "---\nowner: dev\n---\n# Releasing\n\nRun `make release`.\n",
        "docs/workstreams/tail.md": '---\nblocked_by: [wind-tunnel, "#41"]\n---\n# The tail\n',
        "CLAUDE.md": "# Kite\n\n```sh\nmake check\n```\n",
        "src/a.py": "",
    }
    for name, text in pages.items():
        os.makedirs(os.path.dirname(os.path.join(place, name)), exist_ok=True)
        with open(os.path.join(place, name), "w", encoding="utf-8") as file:
            file.write(text)
    git(place, "init", "-q")
    git(place, "add", ".")
    git(place, "commit", "-q", "-m", "all")
    return place


def git(place: str, *words: str) -> None:
    who = ["-c", "user.name=dev", "-c", "user.email=dev@kite.example"]
    when = {"GIT_COMMITTER_DATE": "2026-11-16T12:00:00Z", "GIT_AUTHOR_DATE": "2026-11-16T12:00:00Z"}
    subprocess.run(["git", *who, *words], cwd=place, check=True, env={**os.environ, **when})


NOON = 1_794_830_400.0


def test_a_repository_says_what_its_pages_name_and_what_was_committed(repository: str) -> None:
    past = add_repository_context(EMPTY_CONTEXT, repository, NOON - 60, NOON + 60)
    assert [(convention.name, convention.line, convention.heading) for convention in past.conventions] == [
        ("CLAUDE", 1, "# Kite"),
        ("release", 4, "# Releasing"),
    ]
    assert [convention.quoted_code for convention in past.conventions] == [("make check",), ("make release",)]
    assert [sorted(files) for files in past.commits] == [
        ["CLAUDE.md", "docs/conventions/release.md", "docs/workstreams/tail.md", "src/a.py"]
    ]


def test_commits_of_another_time_are_not_the_sessions(repository: str) -> None:
    assert add_repository_context(EMPTY_CONTEXT, repository, NOON - 900, NOON - 600).commits == ()


def test_where_there_is_no_repository_nothing_is_known(own_home: str) -> None:
    assert add_repository_context(EMPTY_CONTEXT, os.path.join(own_home, "gone"), 0.0, 0.0) == EMPTY_CONTEXT
    past = add_repository_context(EMPTY_CONTEXT, own_home, NOON, NOON)
    assert (past.commits, past.folder_file_counts) == ((), {})
