"""A person decides about handoffs and memories where they are: by typing it to the agent as a prompt."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from hardwon.lessons.typed_prompts import parse_decision
from tests.support.handoff_drafts import DRAFT, PNPM, DraftWriter, create_repository, list_memory_files, run_git
from tests.support.house import House, bash, lesson, prompt


@pytest.fixture
def repository(tmp_path: Path, own_home: str) -> Path:
    return create_repository(tmp_path / "kite", own_home)


@pytest.fixture(params=["worker up", "worker down"])
def left(request: pytest.FixtureRequest, house: House, repository: Path) -> Iterator[DraftWriter]:
    house.add(lesson(r"\bmake\b"))
    if request.param == "worker up":
        house.ok("start")
    else:
        house.stay_cold()
    owned = DraftWriter(house, repository)
    yield owned
    owned.connection.close()


def say(house: House, left: DraftWriter, text: str) -> str:
    """What the person is told. With the worker away they start it and type it again, as they are told to; what takes
    longer than they wait is done by then."""
    said = house.ask("s2", prompt(text, cwd=str(left.folder))).notice
    if "NOT done, the worker is not running" in said:
        house.ok("start")
        said = house.ask("s4", prompt(text, cwd=str(left.folder))).notice
    if "still saving" in said or "the worker is busy" in said:
        house.session_start("s9")  # answered after what waits before it
        house.ok("stop")  # it leaves once it is done
    return said


def test_a_handoff_is_ratified_and_the_next_session_hears_it(house: House, left: DraftWriter) -> None:
    left.draft()
    said = say(house, left, " hardwon  handoff ratify H:1\n")
    page = left.folder / "docs" / "sessions" / "s1.md"
    assert any(words in said for words in (f"ratified: {page}", "still saving", "the worker is busy"))
    assert page.exists() and left.get(1).status == "ratified" and len(list_memory_files(left.folder)) == 2
    opened = house.session_start("s3", cwd=str(left.folder)).context
    assert "H1 Last asked" in opened and f"feedback: {PNPM}" in opened


def test_it_is_committed_if_the_setting_says_so(house: House, left: DraftWriter) -> None:
    house.ok("config", "set", "handoffCommit", "true")
    left.draft()
    say(house, left, "hardwon ratify 1")
    assert run_git(left.folder, "log", "-1", "--format=%s") == "Handoff: Move the kite to pnpm\n"


def test_a_handoff_is_discarded(house: House, left: DraftWriter) -> None:
    one = left.draft("5b6a2f0e-11aa")
    say(house, left, "hardwon discard 5b6a2f0e-11aa")
    assert left.get(one.id).status == "discarded" and not os.path.exists(one.draft)


def test_memories_are_approved_rejected_and_retired(house: House, left: DraftWriter) -> None:
    for text in (PNPM, "the tide is high at noon", "mind the gap between boats"):
        left.propose(text)
    say(house, left, "hardwon approve 1 M:2")
    say(house, left, "hardwon reject M:3")
    say(house, left, "hardwon memory retire 2")
    found = {row["id"]: row["status"] for row in house.stored("memories")}
    assert found == {1: "active", 2: "retired", 3: "rejected"}
    assert f"feedback: {PNPM}" in house.session_start("s3", cwd=str(left.folder)).context


def test_undo_alone_takes_back_the_last_decision(house: House, left: DraftWriter) -> None:
    left.propose(PNPM)
    say(house, left, "hardwon accept M1")
    say(house, left, "hardwon undo")
    assert [row["status"] for row in house.stored("memories")] == ["retired"]


def test_what_cannot_be_done_is_said(house: House, left: DraftWriter) -> None:
    left.draft()
    (left.folder / "docs" / "sessions" / "s1.md").write_text("mine\n")
    wrong = {
        "hardwon ratify 77": "there is no handoff H77",
        "hardwon ratify 1": "there is a handoff of this session already",
        "hardwon approve 5": "there is no memory M5",
    }
    answers = {words: say(house, left, words) for words in wrong}
    path = Path(house.home, "logs", "hook.log")
    left_for_doctor = path.read_text() if path.exists() else ""
    for words, why in wrong.items():
        assert why in answers[words] or why in left_for_doctor
    assert left.get(1).status == "draft"


def test_a_sentence_is_no_decision() -> None:
    for text in (
        "hardwon ratify the handoff please",
        "please hardwon ratify 1",
        "hardwon ratify",
        "hardwon handoff ratify",
        "hardwon handoff list",
        "hardwon handoff show 1",
        "hardwon memory add feedback mind the gap",
        "hardwon approve all of them",
        "does hardwon ratify 1 commit?",
        "hardwon reject the first-class idea",
        "hardwon resume the work",
        "hardwon list",
        "hardwon undo that please",
        "hardwon memory",
    ):
        assert parse_decision(text.split()) is None, text


def test_an_agent_cannot_type_it(house: House, left: DraftWriter) -> None:
    left.draft()
    for words in ("ratify 1", "discard 1", "approve 1", "handoff ratify 1", "memory approve 1"):
        assert "Only the user can do this" in house.ask("s2", bash(f"hardwon {words}")).denied
    house.ask("s2", {**prompt("hardwon ratify 1", cwd=str(left.folder)), "agent_id": "a1"})
    house.ok("start")
    house.ok("stop")
    assert left.get(1).status == "draft"


def test_a_draft_that_was_decided_about_is_not_decided_twice(house: House, left: DraftWriter) -> None:
    left.draft(text=DRAFT)
    say(house, left, "hardwon discard 1")
    say(house, left, "hardwon handoff discard 1")
    assert left.get(1).status == "discarded"
