"""What a session means for other work, other agents, the repository and what was remembered."""

from __future__ import annotations

import os
import subprocess

import pytest
from hardwon.handoff.findings_across_sessions import detect_disused_conventions

from hardwon.handoff import findings_in_workspace
from hardwon.handoff.repository_context import add_repository_context
from hardwon.handoff.transcript_story import is_quote_in_source
from hardwon.store.reflection_types import EMPTY_CONTEXT, ReflectionContext, RepositoryPage, SessionStats
from tests.support.beside import KITE, is_shown, told
from tests.support.story import Story


def workstream(name: str, *after: str) -> RepositoryPage:
    return RepositoryPage(f"{KITE}/docs/workstreams/{name}.md", name, 1, f"# {name}", (), after)


STREAMS = ReflectionContext(
    workstreams=(workstream("tail-redesign", "wind-tunnel"), workstream("wind-tunnel"), workstream("string"))
)


def talk(*said: str) -> Story:
    story = Story()
    story.person("let's do the tail-redesign")
    for text in said:
        story.agent(text)
    return story


@pytest.mark.parametrize(
    ("said", "what"),
    [
        ("The new tail can't be measured until string is done.", "string"),
        ("So this also depends on string, which nobody planned.", "string"),
        ("We are blocked by #41 here.", "#41"),
        ("I would merge it only after KITE-7 has landed, so we wait until KITE-7.", "KITE-7"),
    ],
)
def test_a_dependency_that_no_page_names_is_told_once(said: str, what: str) -> None:
    story = talk(said, f"Again: {said}")
    (found,) = findings_in_workspace.detect_dependencies(told(story), STREAMS)
    assert found.text.startswith(f"tail-redesign waits for {what}, which no page says: ")
    assert (found.target, is_shown(story, found)) == ("workstream", True)


@pytest.mark.parametrize(
    "said",
    [
        "The tail-redesign depends on wind-tunnel.",  # its page says so
        "It depends on how hard the wind blows.",
        "Still waiting for 3 more reviews.",
        "The string is longer now.",
        "See #41 for the same thing.",
        "Nothing depends on stringent checks.",
    ],
)
def test_a_dependency_that_is_known_or_none_of_the_work_is_not_told(said: str) -> None:
    assert not list(findings_in_workspace.detect_dependencies(told(talk(said)), STREAMS))


def test_without_workstreams_only_numbers_are_followed() -> None:
    (found,) = findings_in_workspace.detect_dependencies(
        told(talk("This is blocked by #41.", "It depends on string.")), EMPTY_CONTEXT
    )
    assert found.text.startswith("This work waits for #41")


TOLD = "from tail-team: please do not rename Tail.bend before Thursday, the release depends on it."


def with_message(tool: str = "mcp__claude-peers__check_messages", text: str = TOLD) -> Story:
    story = Story()
    story.person("anything new?")
    story.result(story.call(tool), text)
    return story


def test_what_another_agent_said_and_nobody_wrote_down_is_told() -> None:
    story = with_message()
    (found,) = findings_in_workspace.detect_peer_messages(told(story), EMPTY_CONTEXT)
    assert "do not rename Tail.bend before Thursday" in found.text
    assert (found.target, is_shown(story, found)) == ("workstream", True)


def test_a_message_that_went_into_a_page_is_folded_back() -> None:
    story = with_message()
    story.edit(f"{KITE}/docs/workstreams/tail.md", "The release depends on Tail.bend: no rename before Thursday.")
    assert not list(findings_in_workspace.detect_peer_messages(told(story), EMPTY_CONTEXT))


def test_a_page_about_something_else_folds_nothing_back() -> None:
    story = with_message()
    story.edit(f"{KITE}/docs/workstreams/string.md", "The string is made of silk.")
    assert len(list(findings_in_workspace.detect_peer_messages(told(story), EMPTY_CONTEXT))) == 1


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        ("mcp__claude-peers__check_messages", "No new messages."),
        ("mcp__claude-peers__send_message", f"Message sent: {TOLD}"),
        ("Bash", TOLD),
    ],
)
def test_an_empty_box_a_sent_message_and_other_tools_are_no_peers_words(tool: str, text: str) -> None:
    assert not list(findings_in_workspace.detect_peer_messages(told(with_message(tool, text)), EMPTY_CONTEXT))


def writing(*paths: str) -> Story:
    story = Story()
    story.person("write the scripts")
    for path in paths:
        story.result(story.call("Write", path=f"{KITE}/{path}", content="x"), "written")
    story.agent("The scripts are written.")
    return story


def test_a_folder_that_is_full_and_gets_fuller_is_told() -> None:
    story = writing("scripts/a.py", "scripts/b.py", "src/c.py")
    (found,) = findings_in_workspace.detect_crowded_folders(
        told(story), ReflectionContext(folder_file_counts={"scripts": 47, "src": 90})
    )
    assert found.text == "scripts holds 47 files now, 2 of them written here: time to part it?"
    assert is_shown(story, found)


@pytest.mark.parametrize("folders", [{"scripts": 12}, {"docs": 90}, {}])
def test_a_small_folder_or_one_that_was_left_alone_is_not_told(folders: dict[str, int]) -> None:
    assert not list(
        findings_in_workspace.detect_crowded_folders(
            told(writing("scripts/a.py", "scripts/b.py")), ReflectionContext(folder_file_counts=folders)
        )
    )


def test_a_folder_that_was_changed_and_never_spoken_of_is_told() -> None:
    story = writing("scripts/a.py", "deploy/chart/values.yaml")
    (found,) = findings_in_workspace.detect_unmentioned_files(told(story), EMPTY_CONTEXT)
    assert found.text.startswith("Changed, but never spoken of: deploy/chart (values.yaml).")
    assert is_shown(story, found)


@pytest.mark.parametrize(
    "paths",
    [["scripts/a.py", "scripts/b.py"], ["deploy/values.yaml"], ["scripts/a.py", "lib/scripts/b.py"]],
    ids=["one folder", "nothing to compare with", "named"],
)
def test_what_was_asked_for_or_named_is_noted(paths: list[str]) -> None:
    assert not list(findings_in_workspace.detect_unmentioned_files(told(writing(*paths)), EMPTY_CONTEXT))


MEMORY = "Deploys go through Jenkins, from the release branch."


def doubting(*said: str, read: bool = True) -> Story:
    story = Story()
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
    (found,) = findings_in_workspace.detect_doubted_memories(told(story), EMPTY_CONTEXT)
    assert (MEMORY in found.text, said in found.text) == (True, True)
    assert (found.target, is_shown(story, found)) == ("memory", True)


def test_a_memory_that_the_session_opened_with_counts_as_read() -> None:
    story = told(doubting("No, we moved the deploys off Jenkins.", read=False))
    assert (
        len(
            list(
                findings_in_workspace.detect_doubted_memories(story, ReflectionContext(memories=(("project", MEMORY),)))
            )
        )
        == 1
    )
    assert not list(findings_in_workspace.detect_doubted_memories(story, EMPTY_CONTEXT))


@pytest.mark.parametrize("said", ["thanks, the Jenkins deploys look fine", "no, make the button blue", "go on"])
def test_other_words_and_other_corrections_say_nothing_of_a_memory(said: str) -> None:
    assert not list(findings_in_workspace.detect_doubted_memories(told(doubting(said)), EMPTY_CONTEXT))


def test_a_memory_that_was_mended_at_once_is_not_doubted() -> None:
    story = doubting("No, we moved the deploys off Jenkins.")
    story.edit(f"{KITE}/.claude/memory/project_deploy.md", "Deploys go through Actions.")
    assert not list(findings_in_workspace.detect_doubted_memories(told(story), EMPTY_CONTEXT))


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
    assert [(one.name, one.line, one.heading) for one in past.conventions] == [
        ("release", 4, "# Releasing"),
        ("CLAUDE", 1, "# Kite"),
    ]
    assert [one.quoted_code for one in past.conventions] == [("make release",), ("make check",)]
    assert [(one.name, one.depends_on) for one in past.workstreams] == [("tail", ("wind-tunnel", "#41"))]
    assert [sorted(files) for files in past.commits] == [
        ["CLAUDE.md", "docs/conventions/release.md", "docs/workstreams/tail.md", "src/a.py"]
    ]
    assert past.folder_file_counts == {".": 1, "docs/conventions": 1, "docs/workstreams": 1, "src": 1}


def test_a_heading_can_be_followed_as_a_quote_can(repository: str) -> None:
    sessions = tuple(SessionStats(f"e{number}", NOON - number) for number in range(1, 31))
    past = add_repository_context(ReflectionContext(sessions), repository, NOON - 60, NOON + 60)
    found = list(detect_disused_conventions(told(writing("src/a.py")), past))
    assert [one.evidence[0].quote for one in found] == ["# Releasing", "# Kite"]
    assert all(is_quote_in_source(one.evidence[0]) for one in found)


def test_commits_of_another_time_are_not_the_sessions(repository: str) -> None:
    assert add_repository_context(EMPTY_CONTEXT, repository, NOON - 900, NOON - 600).commits == ()


def test_where_there_is_no_repository_nothing_is_known(own_home: str) -> None:
    assert add_repository_context(EMPTY_CONTEXT, os.path.join(own_home, "gone"), 0.0, 0.0) == EMPTY_CONTEXT
    past = add_repository_context(EMPTY_CONTEXT, own_home, NOON, NOON)
    assert (past.commits, past.folder_file_counts) == ((), {})
