"""Findings about memories that a session contradicts, and context read from the repository."""

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
    (finding,) = findings.detect_doubted_memories(build_story(story), EMPTY_CONTEXT)
    assert (MEMORY in finding.text, reply in finding.text) == (True, True)
    assert (finding.target, has_quoted_evidence(story, finding)) == ("memory", True)


def test_a_memory_that_the_session_opened_with_counts_as_read() -> None:
    story = build_story(build_doubting_session("No, we moved the deploys off Jenkins.", has_read_memory=False))
    assert len(list(findings.detect_doubted_memories(story, ReflectionContext(memories=(("project", MEMORY),))))) == 1
    assert not list(findings.detect_doubted_memories(story, EMPTY_CONTEXT))


@pytest.mark.parametrize("reply", ["thanks, the Jenkins deploys look fine", "no, make the button blue", "go on"])
def test_unrelated_replies_and_corrections_do_not_doubt_a_memory(reply: str) -> None:
    assert not list(findings.detect_doubted_memories(build_story(build_doubting_session(reply)), EMPTY_CONTEXT))


def test_a_memory_that_was_corrected_at_once_is_not_doubted() -> None:
    story = build_doubting_session("No, we moved the deploys off Jenkins.")
    story.edit(f"{KITE}/.claude/memory/project_deploy.md", "Deploys go through Actions.")
    assert not list(findings.detect_doubted_memories(build_story(story), EMPTY_CONTEXT))


@pytest.fixture
def repository(own_home: str) -> str:
    folder = os.path.join(own_home, "kite")
    pages = {
        "docs/conventions/release.md": "---\nowner: dev\n---\n# Releasing\n\nRun `make release`.\n",
        "docs/workstreams/tail.md": '---\nblocked_by: [wind-tunnel, "#41"]\n---\n# The tail\n',
        "CLAUDE.md": "# Kite\n\n```sh\nmake check\n```\n",
        "src/a.py": "",
    }
    for name, text in pages.items():
        os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text)
    run_git(folder, "init", "-q")
    run_git(folder, "add", ".")
    run_git(folder, "commit", "-q", "-m", "all")
    return folder


def run_git(folder: str, *arguments: str) -> None:
    identity = ["-c", "user.name=dev", "-c", "user.email=dev@kite.example"]
    dates = {"GIT_COMMITTER_DATE": "2026-11-16T12:00:00Z", "GIT_AUTHOR_DATE": "2026-11-16T12:00:00Z"}
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, env={**os.environ, **dates})


NOON = 1_794_830_400.0


def test_conventions_and_commits_are_read_from_the_repository(repository: str) -> None:
    context = add_repository_context(EMPTY_CONTEXT, repository, NOON - 60, NOON + 60)
    assert [(convention.name, convention.line, convention.heading) for convention in context.conventions] == [
        ("CLAUDE", 1, "# Kite"),
        ("release", 4, "# Releasing"),
    ]
    assert [convention.quoted_code for convention in context.conventions] == [("make check",), ("make release",)]
    assert [sorted(files) for files in context.commits] == [
        ["CLAUDE.md", "docs/conventions/release.md", "docs/workstreams/tail.md", "src/a.py"]
    ]


def test_commits_outside_the_session_are_left_out(repository: str) -> None:
    assert add_repository_context(EMPTY_CONTEXT, repository, NOON - 900, NOON - 600).commits == ()


def test_without_a_repository_the_context_is_empty(own_home: str) -> None:
    assert add_repository_context(EMPTY_CONTEXT, os.path.join(own_home, "gone"), 0.0, 0.0) == EMPTY_CONTEXT
    context = add_repository_context(EMPTY_CONTEXT, own_home, NOON, NOON)
    assert (context.commits, context.folder_file_counts) == ((), {})
