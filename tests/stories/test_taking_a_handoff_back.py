"""What a handoff wrote can be taken back, what a person wrote stays, and nothing of this machine gets into a page."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hardwon import projects
from hardwon.handoff import ratification, reflection, written_handoffs
from hardwon.memories import memories
from hardwon.store import reflections
from tests.support.distilled_store import NOON
from tests.support.handoff_drafts import (
    DRAFT,
    PNPM,
    DraftWriter,
    create_repository,
    list_handoffs,
    list_memory_files,
    print_brief,
    run_git,
)
from tests.support.house import House


@pytest.fixture
def draft_writer(house: House, tmp_path: Path, own_home: str) -> Iterator[DraftWriter]:
    writer = DraftWriter(house, create_repository(tmp_path / "kite", own_home))
    yield writer
    writer.connection.close()


def test_a_persons_file_that_said_the_same_outlives_the_undoing(house: House, draft_writer: DraftWriter) -> None:
    folder = draft_writer.folder / ".claude" / "memory"
    folder.mkdir(parents=True)
    mine = folder / "feedback_pnpm.md"
    mine.write_text(f"{PNPM}\n")
    draft_writer.write_draft()
    house.ok("handoff", "ratify", "1", cwd=str(draft_writer.folder))
    assert len(list_memory_files(draft_writer.folder)) == 2
    house.ok("reflect", "--undo", "1")
    assert list_memory_files(draft_writer.folder) == ["feedback_pnpm.md"] and mine.read_text() == f"{PNPM}\n"
    assert PNPM not in print_brief(house, draft_writer.folder)
    assert {row["status"] for row in house.stored("memories")} == {"retired"}


def test_undoing_leaves_no_empty_folder(house: House, draft_writer: DraftWriter) -> None:
    names_before = sorted(path.name for path in draft_writer.folder.iterdir() if path.name != "docs")
    draft_writer.write_draft()
    house.ok("handoff", "ratify", "1", cwd=str(draft_writer.folder))
    assert len(list_memory_files(draft_writer.folder)) == 2
    house.ok("reflect", "--undo", "1")
    assert sorted(path.name for path in draft_writer.folder.iterdir() if path.name != "docs") == names_before


def test_undoing_one_of_several_that_were_ratified_at_once_leaves_what_the_others_said(
    house: House, draft_writer: DraftWriter
) -> None:
    draft_writer.write_draft()
    draft_writer.write_draft("s2", "## Memories to approve\n\n- project: Spars are cut from ash (L4)\n")
    house.ok("handoff", "ratify", "1", "2", cwd=str(draft_writer.folder))
    house.ok("reflect", "--undo", "1")
    states = {row["text"]: row["status"] for row in house.stored("memories")}
    assert states.pop("Spars are cut from ash") == "active" and set(states.values()) == {"retired"}
    assert "Spars are cut from ash" in print_brief(house, draft_writer.folder) and PNPM not in print_brief(
        house, draft_writer.folder
    )


def test_what_was_only_proposed_does_not_wait_on_and_may_be_proposed_again(
    house: House, draft_writer: DraftWriter
) -> None:
    draft_writer.write_draft()
    draft_writer.propose_memory(PNPM)
    house.ok("reflect", "--undo", "1")
    assert [row["status"] for row in house.stored("memories")] == ["retired"]
    draft_writer.propose_memory(PNPM)


def test_a_commit_stays_and_the_command_that_takes_it_back_is_said(house: House, draft_writer: DraftWriter) -> None:
    (draft_writer.folder / "staged.txt").write_text("staged\n")
    run_git(draft_writer.folder, "add", "staged.txt")
    draft_writer.write_draft()
    house.ok("handoff", "ratify", "--commit", "1", cwd=str(draft_writer.folder))
    commit_id = run_git(draft_writer.folder, "rev-parse", "HEAD")
    output = house.ok("reflect", "--undo", "1").out
    assert "the commit stays" in output and run_git(draft_writer.folder, "rev-parse", "HEAD") == commit_id
    assert not (draft_writer.folder / "docs").exists()
    command = next(line.strip() for line in output.splitlines() if line.strip().startswith("git -C "))
    subprocess.run(shlex.split(command), check=True, capture_output=True)
    assert run_git(draft_writer.folder, "ls-tree", "-r", "--name-only", "HEAD") == "a.txt\n"
    assert run_git(draft_writer.folder, "status", "--porcelain") == "A  staged.txt\n"


def test_without_a_commit_nothing_is_said_of_one(house: House, draft_writer: DraftWriter) -> None:
    draft_writer.write_draft()
    house.ok("handoff", "ratify", "1", cwd=str(draft_writer.folder))
    assert "git" not in house.ok("reflect", "--undo", "1").out.replace(str(draft_writer.folder), "")


def test_an_interrupted_undo_can_be_repeated(draft_writer: DraftWriter) -> None:
    folder = draft_writer.folder / ".claude" / "memory"
    folder.mkdir(parents=True)
    (folder / "MEMORY.md").write_text("# Ours\n")
    draft = draft_writer.write_draft()
    ratification.ratify(draft_writer.connection, draft_writer.home, draft, NOON)
    (folder / "MEMORY.md").write_text("# Ours\n")
    reflection.undo(draft_writer.connection, draft_writer.home, 1, NOON)
    assert (folder / "MEMORY.md").read_text() == "# Ours\n" and list_memory_files(draft_writer.folder) == ["MEMORY.md"]


def test_a_session_that_went_on_is_ratified_again_and_undoing_brings_the_first_page_back(
    house: House, draft_writer: DraftWriter
) -> None:
    draft_writer.write_draft()
    house.ok("handoff", "ratify", "1", cwd=str(draft_writer.folder))
    page = draft_writer.folder / "docs" / "sessions" / "s1.md"
    first = page.read_text()
    draft_writer.write_draft(text=DRAFT.replace("make test", "make lint"), at=NOON + 60)
    house.ok("handoff", "ratify", "2", cwd=str(draft_writer.folder))
    assert "make lint" in page.read_text()
    assert [(handoff["id"], handoff["state"]) for handoff in list_handoffs(house, draft_writer.folder)] == [
        (2, "ratified")
    ]
    house.ok("reflect", "--undo", "2")
    assert page.read_text() == first
    assert [(handoff["id"], handoff["state"]) for handoff in list_handoffs(house, draft_writer.folder)] == [
        (1, "ratified")
    ]
    assert "H1 First: `make test` fails" in print_brief(house, draft_writer.folder)


def test_an_interrupted_ratification_can_be_repeated(draft_writer: DraftWriter) -> None:
    draft = draft_writer.write_draft()
    page = draft_writer.folder / "docs" / "sessions" / "s1.md"
    page.write_text(ratification.build_page_text(draft.draft, NOON))
    assert ratification.ratify(draft_writer.connection, draft_writer.home, draft, NOON).page_path == str(page)


def test_a_handoff_that_cannot_be_written_leaves_the_draft(house: House, draft_writer: DraftWriter) -> None:
    draft = draft_writer.write_draft()
    house.session_start("s1", cwd=str(draft_writer.folder))
    house.stored("sessions")
    reflections_before = reflections.list_reflections(draft_writer.connection)
    with pytest.raises(OSError, match=r".*"):
        written_handoffs.save_handoff(
            draft_writer.connection,
            draft_writer.home,
            "next the rudder",
            folder=str(draft_writer.folder / "a.txt"),
            session="s1",
            agent="",
            project=str(draft_writer.folder),
            topic="",
            now=NOON,
            is_ratified=True,
        )
    assert reflections.list_reflections(draft_writer.connection) == reflections_before and os.path.exists(draft.draft)


def test_no_path_of_this_machine_stands_in_what_is_shared(house: House, draft_writer: DraftWriter) -> None:
    text = DRAFT.replace('status: "draft"\n', 'status: "draft"\ntranscript: "/home/dev/.claude/projects/t.jsonl"\n')
    draft_writer.write_draft(text=text)
    memories.propose(
        draft_writer.connection,
        draft_writer.home,
        "feedback",
        PNPM,
        project=projects.find_project_path(str(draft_writer.folder)),
        source=ratification.REFLECTION_SOURCE,
        session="s1",
        evidence=["/home/dev/.claude/projects/t.jsonl:3"],
        now=NOON,
    )
    house.ok("handoff", "ratify", "1", cwd=str(draft_writer.folder))
    shared = [*draft_writer.folder.glob("docs/sessions/*"), *draft_writer.folder.glob(".claude/memory/*")]
    assert len(shared) == 3 and not any("/home/" in path.read_text() for path in shared)
    assert (
        "session s1, L3"
        in (draft_writer.folder / ".claude" / "memory" / list_memory_files(draft_writer.folder)[0]).read_text()
    )
    assert "/home/dev" in house.ok("memory", "show", "1").out


def test_a_memory_folder_that_leads_out_of_the_repository_is_not_written_to(
    house: House, draft_writer: DraftWriter, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (draft_writer.folder / ".claude").symlink_to(outside)
    draft_writer.write_draft()
    house.ok("handoff", "ratify", "1", cwd=str(draft_writer.folder))
    assert list(outside.iterdir()) == [] and len(os.listdir(os.path.join(house.home, "memory"))) == 2


def test_where_memories_cannot_be_written_the_page_is_and_it_is_said(house: House, draft_writer: DraftWriter) -> None:
    (draft_writer.folder / ".claude").write_text("no folder\n")
    draft_writer.write_draft()
    output = house.ok("handoff", "ratify", "1", cwd=str(draft_writer.folder)).out
    assert "ratified: " in output and "not approved: from now on always use pnpm" in output
