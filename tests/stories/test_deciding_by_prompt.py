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
def draft_writer(request: pytest.FixtureRequest, house: House, repository: Path) -> Iterator[DraftWriter]:
    house.add(lesson(r"\bmake\b"))
    if request.param == "worker up":
        house.ok("start")
    else:
        house.stay_cold()
    writer = DraftWriter(house, repository)
    yield writer
    writer.connection.close()


def type_prompt(house: House, draft_writer: DraftWriter, text: str) -> str:
    """Type a prompt and return the notice.

    With the worker away, start it and type again, as the notice says; wait until work that takes longer is done."""
    notice = house.ask("s2", prompt(text, cwd=str(draft_writer.folder))).notice
    if "NOT done, the worker is not running" in notice:
        house.ok("start")
        notice = house.ask("s4", prompt(text, cwd=str(draft_writer.folder))).notice
    if "still saving" in notice or "the worker is busy" in notice:
        house.session_start("s9")  # answered after what waits before it
        house.ok("stop")  # it leaves once it is done
    return notice


def test_a_handoff_is_ratified_and_the_next_session_hears_it(house: House, draft_writer: DraftWriter) -> None:
    draft_writer.write_draft()
    notice = type_prompt(house, draft_writer, " hardwon  handoff ratify H:1\n")
    page = draft_writer.folder / "docs" / "sessions" / "s1.md"
    assert any(words in notice for words in (f"ratified: {page}", "still saving", "the worker is busy"))
    assert (
        page.exists() and draft_writer.get(1).status == "ratified" and len(list_memory_files(draft_writer.folder)) == 2
    )
    opened = house.session_start("s3", cwd=str(draft_writer.folder)).context
    assert "H1 Last asked" in opened and f"feedback: {PNPM}" in opened


def test_it_is_committed_if_the_setting_says_so(house: House, draft_writer: DraftWriter) -> None:
    house.ok("config", "set", "handoffCommit", "true")
    draft_writer.write_draft()
    type_prompt(house, draft_writer, "hardwon ratify 1")
    assert run_git(draft_writer.folder, "log", "-1", "--format=%s") == "Handoff: Move the kite to pnpm\n"


def test_a_handoff_is_discarded(house: House, draft_writer: DraftWriter) -> None:
    handoff = draft_writer.write_draft("5b6a2f0e-11aa")
    type_prompt(house, draft_writer, "hardwon discard 5b6a2f0e-11aa")
    assert draft_writer.get(handoff.id).status == "discarded" and not os.path.exists(handoff.draft)


def test_memories_are_approved_rejected_and_retired(house: House, draft_writer: DraftWriter) -> None:
    for text in (PNPM, "the tide is high at noon", "mind the gap between boats"):
        draft_writer.propose_memory(text)
    type_prompt(house, draft_writer, "hardwon approve 1 M:2")
    type_prompt(house, draft_writer, "hardwon reject M:3")
    type_prompt(house, draft_writer, "hardwon memory retire 2")
    statuses = {row["id"]: row["status"] for row in house.stored("memories")}
    assert statuses == {1: "active", 2: "retired", 3: "rejected"}
    assert f"feedback: {PNPM}" in house.session_start("s3", cwd=str(draft_writer.folder)).context


def test_undo_alone_takes_back_the_last_decision(house: House, draft_writer: DraftWriter) -> None:
    draft_writer.propose_memory(PNPM)
    type_prompt(house, draft_writer, "hardwon accept M1")
    type_prompt(house, draft_writer, "hardwon undo")
    assert [row["status"] for row in house.stored("memories")] == ["retired"]


def test_what_cannot_be_done_is_said(house: House, draft_writer: DraftWriter) -> None:
    draft_writer.write_draft()
    (draft_writer.folder / "docs" / "sessions" / "s1.md").write_text("mine\n")
    wrong = {
        "hardwon ratify 77": "there is no handoff H77",
        "hardwon ratify 1": "there is a handoff of this session already",
        "hardwon approve 5": "there is no memory M5",
    }
    answers = {words: type_prompt(house, draft_writer, words) for words in wrong}
    path = Path(house.home, "logs", "hook.log")
    left_for_doctor = path.read_text() if path.exists() else ""
    for words, why in wrong.items():
        assert why in answers[words] or why in left_for_doctor
    assert draft_writer.get(1).status == "draft"


def test_a_name_may_have_a_small_letter_or_a_colon() -> None:
    for name in ("3", "L3", "l3", "M:3", "git-stash-leaves-7kq2"):
        decision = parse_decision(["hardwon", "accept", name])
        assert decision is not None and decision.names == (name,)


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


def test_an_agent_cannot_type_it(house: House, draft_writer: DraftWriter) -> None:
    draft_writer.write_draft()
    for words in ("ratify 1", "discard 1", "approve 1", "handoff ratify 1", "memory approve 1"):
        assert "Only the user can do this" in house.ask("s2", bash(f"hardwon {words}")).denied
    house.ask("s2", {**prompt("hardwon ratify 1", cwd=str(draft_writer.folder)), "agent_id": "a1"})
    house.ok("start")
    house.ok("stop")
    assert draft_writer.get(1).status == "draft"


def test_a_draft_that_was_decided_about_is_not_decided_twice(house: House, draft_writer: DraftWriter) -> None:
    draft_writer.write_draft(text=DRAFT)
    type_prompt(house, draft_writer, "hardwon discard 1")
    type_prompt(house, draft_writer, "hardwon handoff discard 1")
    assert draft_writer.get(1).status == "discarded"
