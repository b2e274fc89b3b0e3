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
def left(house: House, tmp_path: Path, own_home: str) -> Iterator[DraftWriter]:
    owned = DraftWriter(house, create_repository(tmp_path / "kite", own_home))
    yield owned
    owned.connection.close()


def test_a_persons_file_that_said_the_same_outlives_the_undoing(house: House, left: DraftWriter) -> None:
    folder = left.folder / ".claude" / "memory"
    folder.mkdir(parents=True)
    mine = folder / "feedback_pnpm.md"
    mine.write_text(f"{PNPM}\n")
    left.write_draft()
    house.ok("handoff", "ratify", "1", cwd=str(left.folder))
    assert len(list_memory_files(left.folder)) == 2
    house.ok("reflect", "--undo", "1")
    assert list_memory_files(left.folder) == ["feedback_pnpm.md"] and mine.read_text() == f"{PNPM}\n"
    assert PNPM not in print_brief(house, left.folder)
    assert {row["status"] for row in house.stored("memories")} == {"retired"}


def test_undoing_leaves_no_empty_folder(house: House, left: DraftWriter) -> None:
    before = sorted(path.name for path in left.folder.iterdir() if path.name != "docs")
    left.write_draft()
    house.ok("handoff", "ratify", "1", cwd=str(left.folder))
    assert len(list_memory_files(left.folder)) == 2
    house.ok("reflect", "--undo", "1")
    assert sorted(path.name for path in left.folder.iterdir() if path.name != "docs") == before


def test_undoing_one_of_several_that_were_ratified_at_once_leaves_what_the_others_said(
    house: House, left: DraftWriter
) -> None:
    left.write_draft()
    left.write_draft("s2", "## Memories to approve\n\n- project: Spars are cut from ash (L4)\n")
    house.ok("handoff", "ratify", "1", "2", cwd=str(left.folder))
    house.ok("reflect", "--undo", "1")
    states = {row["text"]: row["status"] for row in house.stored("memories")}
    assert states.pop("Spars are cut from ash") == "active" and set(states.values()) == {"retired"}
    assert "Spars are cut from ash" in print_brief(house, left.folder) and PNPM not in print_brief(house, left.folder)


def test_what_was_only_proposed_does_not_wait_on_and_may_be_proposed_again(house: House, left: DraftWriter) -> None:
    left.write_draft()
    left.propose_memory(PNPM)
    house.ok("reflect", "--undo", "1")
    assert [row["status"] for row in house.stored("memories")] == ["retired"]
    left.propose_memory(PNPM)


def test_a_commit_stays_and_the_command_that_takes_it_back_is_said(house: House, left: DraftWriter) -> None:
    (left.folder / "staged.txt").write_text("staged\n")
    run_git(left.folder, "add", "staged.txt")
    left.write_draft()
    house.ok("handoff", "ratify", "--commit", "1", cwd=str(left.folder))
    made = run_git(left.folder, "rev-parse", "HEAD")
    said = house.ok("reflect", "--undo", "1").out
    assert "the commit stays" in said and run_git(left.folder, "rev-parse", "HEAD") == made
    assert not (left.folder / "docs").exists()
    command = next(line.strip() for line in said.splitlines() if line.strip().startswith("git -C "))
    subprocess.run(shlex.split(command), check=True, capture_output=True)
    assert run_git(left.folder, "ls-tree", "-r", "--name-only", "HEAD") == "a.txt\n"
    assert run_git(left.folder, "status", "--porcelain") == "A  staged.txt\n"


def test_without_a_commit_nothing_is_said_of_one(house: House, left: DraftWriter) -> None:
    left.write_draft()
    house.ok("handoff", "ratify", "1", cwd=str(left.folder))
    assert "git" not in house.ok("reflect", "--undo", "1").out.replace(str(left.folder), "")


def test_who_was_cut_off_while_undoing_can_do_it_again(left: DraftWriter) -> None:
    folder = left.folder / ".claude" / "memory"
    folder.mkdir(parents=True)
    (folder / "MEMORY.md").write_text("# Ours\n")
    one = left.write_draft()
    ratification.ratify(left.connection, left.home, one, NOON)
    (folder / "MEMORY.md").write_text("# Ours\n")
    reflection.undo(left.connection, left.home, 1, NOON)
    assert (folder / "MEMORY.md").read_text() == "# Ours\n" and list_memory_files(left.folder) == ["MEMORY.md"]


def test_a_session_that_went_on_is_ratified_again_and_undoing_brings_the_first_page_back(
    house: House, left: DraftWriter
) -> None:
    left.write_draft()
    house.ok("handoff", "ratify", "1", cwd=str(left.folder))
    page = left.folder / "docs" / "sessions" / "s1.md"
    first = page.read_text()
    left.write_draft(text=DRAFT.replace("make test", "make lint"), at=NOON + 60)
    house.ok("handoff", "ratify", "2", cwd=str(left.folder))
    assert "make lint" in page.read_text()
    assert [(one["id"], one["state"]) for one in list_handoffs(house, left.folder)] == [(2, "ratified")]
    house.ok("reflect", "--undo", "2")
    assert page.read_text() == first
    assert [(one["id"], one["state"]) for one in list_handoffs(house, left.folder)] == [(1, "ratified")]
    assert "H1 First: `make test` fails" in print_brief(house, left.folder)


def test_who_was_cut_off_while_ratifying_can_do_it_again(left: DraftWriter) -> None:
    one = left.write_draft()
    page = left.folder / "docs" / "sessions" / "s1.md"
    page.write_text(ratification.build_page_text(one.draft, NOON))
    assert ratification.ratify(left.connection, left.home, one, NOON).page_path == str(page)


def test_a_handoff_that_cannot_be_written_leaves_the_draft(house: House, left: DraftWriter) -> None:
    one = left.write_draft()
    house.session_start("s1", cwd=str(left.folder))
    house.stored("sessions")
    before = reflections.list_reflections(left.connection)
    with pytest.raises(OSError, match=r".*"):
        written_handoffs.save_handoff(
            left.connection,
            left.home,
            "next the rudder",
            folder=str(left.folder / "a.txt"),
            session="s1",
            agent="",
            project=str(left.folder),
            topic="",
            now=NOON,
            is_ratified=True,
        )
    assert reflections.list_reflections(left.connection) == before and os.path.exists(one.draft)


def test_no_path_of_this_machine_stands_in_what_is_shared(house: House, left: DraftWriter) -> None:
    text = DRAFT.replace('status: "draft"\n', 'status: "draft"\ntranscript: "/home/dev/.claude/projects/t.jsonl"\n')
    left.write_draft(text=text)
    memories.propose(
        left.connection,
        left.home,
        "feedback",
        PNPM,
        project=projects.find_project_path(str(left.folder)),
        source=ratification.REFLECTION_SOURCE,
        session="s1",
        evidence=["/home/dev/.claude/projects/t.jsonl:3"],
        now=NOON,
    )
    house.ok("handoff", "ratify", "1", cwd=str(left.folder))
    shared = [*left.folder.glob("docs/sessions/*"), *left.folder.glob(".claude/memory/*")]
    assert len(shared) == 3 and not any("/home/" in path.read_text() for path in shared)
    assert "session s1, L3" in (left.folder / ".claude" / "memory" / list_memory_files(left.folder)[0]).read_text()
    assert "/home/dev" in house.ok("memory", "show", "1").out


def test_a_memory_folder_that_leads_out_of_the_repository_is_not_written_to(
    house: House, left: DraftWriter, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (left.folder / ".claude").symlink_to(outside)
    left.write_draft()
    house.ok("handoff", "ratify", "1", cwd=str(left.folder))
    assert list(outside.iterdir()) == [] and len(os.listdir(os.path.join(house.home, "memory"))) == 2


def test_where_memories_cannot_be_written_the_page_is_and_it_is_said(house: House, left: DraftWriter) -> None:
    (left.folder / ".claude").write_text("no folder\n")
    left.write_draft()
    said = house.ok("handoff", "ratify", "1", cwd=str(left.folder)).out
    assert "ratified: " in said and "not approved: from now on always use pnpm" in said
