"""What hardwon keeps goes into the notes that every agent reads, and what people wrote there may come back, reviewed."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from hardwon.agents import AGENT_NAMES
from tests.support.house import GIT_STASH, House, lesson

MINE = "# Working here\n\n- Use pnpm, never npm, in this repository\n- Run make test before every commit\n"
SECRET = "sk-ant-" + "api03-" + "Ab1" * 30


@pytest.fixture
def project(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "AGENTS.md").write_text(MINE)
    return tmp_path


def export_notes(house: House, project: Path, *words: str) -> str:
    return house.ok("export", "notes", *words, cwd=str(project)).out


def test_lessons_and_memories_of_here_and_everywhere_go_in_and_out_again(house: House, project: Path) -> None:
    elsewhere = {"type": "project", "path": "/home/dev/elsewhere"}
    house.add(GIT_STASH)
    house.add(lesson(r"\bfrobnicate\b", summary="frobnicate eats the caches of others", scope=elsewhere))
    house.ok("memory", "add", "project", "The staging database is read only on Fridays", cwd=str(project))
    output = export_notes(house, project, "--yes")
    text = (project / "AGENTS.md").read_text()
    assert text.startswith(MINE) and "+- git stash leaves untracked files behind" in output
    assert "- The staging database is read only on Fridays\n" in text and "use git stash -u" in text
    assert "frobnicate" not in text
    assert "nothing to change" in export_notes(house, project, "--yes")
    export_notes(house, project, "--remove", "--yes")
    assert (project / "AGENTS.md").read_text() == MINE


def test_a_link_out_of_the_project_is_not_followed(house: House, project: Path, own_home: str) -> None:
    outside = Path(own_home, "theirs")
    outside.write_text("theirs\n")
    (project / ".cursorrules").symlink_to(outside)
    house.add(GIT_STASH)
    refused = house.cli("export", "notes", "--to", ".cursorrules", "--yes", cwd=str(project))
    assert (refused.code, "where a link leads" in refused.err, outside.read_text()) == (1, True, "theirs\n")
    (project / "CLAUDE.md").symlink_to("AGENTS.md")
    export_notes(house, project, "--to", "CLAUDE.md", "--yes")
    assert "use git stash -u" in (project / "AGENTS.md").read_text() and (project / "CLAUDE.md").is_symlink()


def test_only_what_is_approved_and_in_force_goes_in(house: House, project: Path) -> None:
    house.ok("memory", "add", "project", "An agent thinks that this is so", cwd=str(project), env={"CLAUDECODE": "1"})
    slug = house.add(GIT_STASH)
    house.ok("lessons", "retire", slug)
    assert "nothing to change" in export_notes(house, project, "--yes")


def test_what_is_left_to_this_project_says_nothing_of_the_person(house: House, project: Path) -> None:
    house.add(GIT_STASH)
    house.ok("memory", "add", "user", "The person likes short answers in the morning", cwd=str(project))
    house.ok("memory", "add", "project", "The staging database is read only on Fridays", cwd=str(project))
    export_notes(house, project, "--here", "--yes")
    text = (project / "AGENTS.md").read_text()
    assert ("Fridays" in text, "short answers" in text, "git stash" in text) == (True, False, False)


def test_nothing_is_written_unasked_and_other_files_are_made(house: House, project: Path) -> None:
    house.add(GIT_STASH)
    refused = house.cli("export", "notes", cwd=str(project))
    assert refused.code == 1 and "confirmation needed" in refused.err
    assert "untracked" in export_notes(house, project, "--print")
    assert (project / "AGENTS.md").read_text() == MINE
    (project / "CLAUDE.md").symlink_to("AGENTS.md")
    export_notes(
        house, project, "--to", "CLAUDE.md", "--to", "AGENTS.md", "--to", "GEMINI.md", "--to", ".cursorrules", "--yes"
    )
    assert (project / "CLAUDE.md").is_symlink() and (project / "AGENTS.md").read_text().count("hardwon: begin") == 1
    export_notes(house, project, "--to", "GEMINI.md", "--to", ".cursorrules", "--remove", "--yes")
    assert not (project / "GEMINI.md").exists() and not (project / ".cursorrules").exists()


def test_a_secret_in_a_file_that_a_person_edited_does_not_go_out(house: House, project: Path) -> None:
    house.ok("memory", "add", "user", "The key of the staging database lies in the vault", cwd=str(project))
    (file,) = Path(house.home, "memory").glob("*.md")
    file.write_text(file.read_text().replace("lies in the vault", f"is {SECRET}"))
    house.cli("memory", "approve", "1", cwd=str(project))
    export_notes(house, project, "--yes")
    text = (project / "AGENTS.md").read_text()
    assert "The key of the staging database" in text and SECRET not in text


# Grok CLI, Mistral Vibe and Cline show the model nothing at the start; Cursor's events have other names.
OPENED = [agent for agent in AGENT_NAMES if agent not in ("grok", "vibe", "cursor", "cline")]
READERS = {"codex", "copilot", "opencode", "qwen", "kilo", "droid", "deepagents"}


def open_session(house: House, project: Path, host: str, session: str) -> list[bool]:
    """Return whether a session of this agent opens with the lesson, and whether with the memory."""
    event = "UserPromptSubmit" if host == "gemini" else "SessionStart"  # as Gemini CLI would show it
    agent_fields = {"source": "startup", "prompt": "hello"}
    if host in ("opencode", "kilo"):
        agent_fields |= {"sessionID": session, "directory": str(project)}
    payload = {
        "session_id": session,
        "hook_event_name": event,
        "cwd": str(project),
        "transcript_path": "",
        **agent_fields,
    }
    answer = house.hook(event, json.dumps(payload).encode(), host=host).decode()
    return [text in answer for text in ("the cache must be warmed", "read only on Fridays")]


@pytest.mark.parametrize(
    ("name", "readers"),
    [
        ("AGENTS.md", READERS),
        ("CLAUDE.md", {"claude-code"}),
        ("GEMINI.md", {"gemini"}),
        ("CLAUDE.md to AGENTS.md", {"claude-code", *READERS}),
        ("CLAUDE.md alone", {"claude-code", "opencode"}),
        ("CLAUDE.md with @AGENTS.md", {"claude-code", *READERS}),
    ],
)
def test_a_brief_does_not_repeat_what_our_block_says_where_the_agent_reads_it(
    house: House, project: Path, name: str, readers: set[str]
) -> None:
    house.add(lesson(delivery="start", summary="the cache must be warmed before the nightly run", triggers={}))
    house.ok("memory", "add", "project", "The staging database is read only on Fridays", cwd=str(project))
    assert [open_session(house, project, host, f"{host} 1") for host in OPENED] == [[True, True]] * len(OPENED)
    file, _, layout = name.partition(" ")
    if layout == "to AGENTS.md":
        (project / file).symlink_to("AGENTS.md")
    elif layout == "alone":
        (project / "AGENTS.md").unlink()
    elif layout:
        (project / file).write_text("See @AGENTS.md.\n")
    export_notes(house, project, "--to", "AGENTS.md" if "@" in layout else file, "--yes")
    silent = {host for host in OPENED if open_session(house, project, host, f"{host} 2") == [False, False]}
    assert silent == readers


def test_rules_are_proposed_and_none_counts_before_a_person_says_so(house: House, project: Path) -> None:
    house.add(GIT_STASH)
    export_notes(house, project, "--yes")
    path = str(project / "AGENTS.md")
    first = house.ok("import", "notes", path, "--json", cwd=str(project)).json()
    second = house.ok("import", "notes", path, "--json", cwd=str(project)).json()
    assert (len(first["proposed"]), len(second["proposed"]), len(second["refused"])) == (2, 0, 2)
    listed = house.ok("memory", "list", "--json", cwd=str(project)).json()
    assert {(item["text"], item["status"], item["evidence"][0]) for item in listed} == {
        ("Use pnpm, never npm, in this repository", "candidate", "AGENTS.md:3"),
        ("Run make test before every commit", "candidate", "AGENTS.md:4"),
    }
    os.unlink(path)
    assert "pnpm" not in house.session_start("s1", cwd=str(project)).context
    house.ok("memory", "approve", str(first["proposed"][0]), cwd=str(project))
    assert "pnpm" in house.session_start("s2", cwd=str(project)).context


def test_broken_markers_of_our_block_are_named(house: House, project: Path) -> None:
    house.add(GIT_STASH)
    (project / "AGENTS.md").write_text(f"{MINE}<!-- hardwon: begin -->\n")
    for words in (["export", "notes", "--yes"], ["import", "notes", "AGENTS.md"]):
        refused = house.cli(*words, cwd=str(project))
        assert refused.code == 1 and "are not one pair" in refused.err
