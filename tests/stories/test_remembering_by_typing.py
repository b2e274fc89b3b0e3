"""`remember that …` at the start of a typed prompt is approved by typing it; in other text it is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.handoff_drafts import create_repository, run_git
from tests.support.house import House, happened, prompt, wait_for


@pytest.fixture
def repository(house: House, tmp_path: Path, own_home: str) -> Path:
    house.ok("start")
    return create_repository(tmp_path / "kite", own_home)


def list_memories(house: House, folder: Path) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = house.ok("memory", "list", "--json", cwd=str(folder)).json()
    return listed


def type_prompt(house: House, folder: Path, text: str) -> str:
    """Type a prompt and return the notice; work that takes longer is done by then."""
    answer = house.ask("s1", prompt(text, cwd=str(folder)))
    assert "decision" not in json.loads(answer.raw), "the prompt reaches the model"
    if "still saving" in answer.notice:
        house.ok("restart")
    return answer.notice


def test_it_is_approved_and_one_line_says_how_to_undo_it(house: House, repository: Path) -> None:
    notice = type_prompt(house, repository, "remember that tests need docker")
    (memory,) = list_memories(house, repository)
    assert (memory["status"], memory["text"], memory["type"]) == ("active", "tests need docker", "project")
    (page,) = (repository / ".claude" / "memory").glob("*.md")
    expected = f"hardwon: remembered as memory M1, .claude/memory/{page.name} (undo: hardwon undo M1)"
    assert notice in (expected, "hardwon: still saving; run hardwon doctor if it does not appear")
    assert "tests need docker" in house.session_start("s2", cwd=str(repository)).context
    house.ok("memory", "retire", "1", cwd=str(repository))
    assert "tests need docker" not in house.session_start("s3", cwd=str(repository)).context


def test_it_does_not_wait_in_the_queue_as_well(house: House, repository: Path, own_home: str) -> None:
    type_prompt(house, repository, "remember that tests need docker")
    house.ask("s1", happened("Stop", last_assistant_message="I will.", cwd=str(repository)))
    wait_for(lambda: bool(house.stored("summaries")) and not house.stored("jobs"))
    assert not list(Path(own_home).glob(".claude/memory_queue/*.json"))


@pytest.mark.parametrize(
    "text",
    [
        "can you remember what we did?",
        "here is a page\n\nremember that tests need docker\n\nand more of it",
        "fix the tests; and remember that tests need docker",
    ],
)
def test_questions_and_other_text_are_not_approved(house: House, repository: Path, text: str) -> None:
    assert type_prompt(house, repository, text) == ""
    assert not [memory for memory in list_memories(house, repository) if memory["status"] == "active"]
    assert run_git(repository, "status", "--porcelain") == ""


def test_nothing_is_remembered_where_nothing_is_recorded(house: House, repository: Path) -> None:
    house.ok("config", "set", "denyProjects", json.dumps([str(repository)]))
    assert type_prompt(house, repository, "remember that tests need docker") == ""
    assert list_memories(house, repository) == []
