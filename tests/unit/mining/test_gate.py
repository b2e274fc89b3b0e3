"""Recorded calls decide which candidates are proposed, with which delivery, and in which order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hardwon import settings
from hardwon.lessons.review_queue import describe_figures
from hardwon.mining import gate
from hardwon.mining.episodes import find_episodes
from hardwon.mining.gate import ReplayFigures, choose_delivery, replay_records
from hardwon.mining.mined_episodes import mine_episode
from hardwon.mining.proposals import refresh_candidates
from hardwon.store import candidates
from hardwon.store.candidates import Candidate
from hardwon.store.transcripts import Portion, ScannedCall, store_portions
from hardwon.types import ReadPosition
from tests.support.new_store import connect_to_new_store
from tests.support.step_builder import UNKNOWN, StepBuilder

PROJECT = "/home/dev/kite"


class Archive:
    """A store of recorded calls and episodes, filled session by session."""

    def __init__(self, home: str) -> None:
        self.connection = connect_to_new_store(home)
        self._sessions = 0

    def add_session(self, *calls: tuple[str, str]) -> None:
        """Add a session of commands, each with its error, or "" if it went fine."""
        self._sessions += 1
        session, story = f"s{self._sessions}", StepBuilder()
        at = f"2026-11-{self._sessions:02}T08:00:00Z"
        scanned: list[ScannedCall] = []
        for number, (command, error) in enumerate(calls):
            story.fails(command, error) if error else story.works(command)
            outcome = "failed" if error else "fine"
            key = f"claude-code:{session}-{number}"
            scanned.append(
                ScannedCall(key, "claude-code", session, PROJECT, at, "p", 1, "Bash", command, "", "", outcome)
            )
        steps = [step._replace(session=session, id=f"{session}-{step.id}", at=at) for step in story.steps]
        mined = [mine_episode(episode, "claude-code", "p", PROJECT) for episode in find_episodes(steps)]
        portion = Portion("p", "claude-code", ReadPosition(), tuple(scanned), episodes=tuple(mined))
        store_portions(self.connection, [portion], 0.0)

    def refresh_candidates(self, **changes: Any) -> list[Candidate]:
        values = settings.resolve_settings(changes)
        refresh_candidates(self.connection, values, tiers=(1, 2), now=1.0)
        return candidates.list_candidates(self.connection)

    def list_open(self) -> list[Candidate]:
        return candidates.list_candidates(self.connection, "open")


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    archive = Archive(str(tmp_path))
    yield archive
    archive.connection.close()


MISTAKE = (("kite fly --high", UNKNOWN), ("kite launch --high", ""))


def test_a_named_word_with_a_verified_cure_is_held_after_one_session(archive: Archive) -> None:
    archive.add_session(*MISTAKE)
    [candidate] = archive.refresh_candidates()
    assert (candidate.record["delivery"], candidate.parts["repeats"]) == ("hold", 0)
    assert archive.list_open() == []


def test_the_list_says_what_a_proposal_would_have_stopped(archive: Archive) -> None:
    for _ in range(4):
        archive.add_session(*MISTAKE, ("ls", ""))
    [candidate] = archive.refresh_candidates()
    assert describe_figures(candidate.parts) == (
        "would have stopped 3 of 3 repeats; fired on 0 of 8 calls that went fine"
    )


def test_proposals_are_ordered_by_the_repeats_they_would_have_stopped(archive: Archive) -> None:
    archive.add_session(("gust blow --loud", "error: unknown option '--loud'"), ("gust blow --softly", ""))
    for _ in range(3):
        archive.add_session(*MISTAKE)
    assert [candidate.record["problem"].split("`")[1] for candidate in archive.refresh_candidates()] == [
        "kite fly",
        "gust blow --loud",
    ]


def test_a_trigger_that_fires_mostly_on_calls_that_go_fine_is_not_listed(archive: Archive) -> None:
    archive.add_session(*MISTAKE)
    archive.add_session(("kite fly low", ""), ("kite fly far", ""))
    assert archive.refresh_candidates() == []
    [candidate] = archive.list_open()
    assert (candidate.parts["failed"], candidate.parts["fine"]) == (1, 2)


def test_the_required_precision_is_a_setting(archive: Archive) -> None:
    archive.add_session(*MISTAKE)
    archive.add_session(("kite fly low", ""), ("kite fly far", ""))
    assert len(archive.refresh_candidates(minTriggerPrecision=0.3)) == 1


def test_the_gate_runs_again_after_each_scan(archive: Archive) -> None:
    archive.add_session(*MISTAKE)
    assert len(archive.refresh_candidates()) == 1
    archive.add_session(("kite fly low", ""), ("kite fly far", ""))
    assert (archive.refresh_candidates(), len(archive.list_open())) == ([], 1)
    archive.add_session(*MISTAKE)
    archive.add_session(*MISTAKE)
    [candidate] = archive.refresh_candidates()
    assert candidate.record["delivery"] == "hold"


def test_a_cause_that_the_error_does_not_name_needs_a_second_session(archive: Archive) -> None:
    session = (("kite sail red --slow", "Exit code 1\nkite: the wind failed"), ("kite sail red", ""))
    archive.add_session(*session)
    assert archive.refresh_candidates() == []
    archive.add_session(*session)
    assert len(archive.refresh_candidates()) == 1


def test_a_failure_without_a_cure_is_no_lesson_but_stays_open_once_it_repeats(archive: Archive) -> None:
    archive.add_session(("kite fly --high", UNKNOWN))
    archive.refresh_candidates()
    assert archive.list_open() == []
    archive.add_session(("kite fly --high", UNKNOWN))
    assert archive.refresh_candidates() == []
    [candidate] = archive.list_open()
    assert (len(candidate.sessions), candidate.record["solution"]) == (2, "")


def test_a_fix_may_come_in_a_later_session(archive: Archive) -> None:
    archive.add_session(("gust blow --loud red", "error: unknown option '--loud'"))
    archive.add_session(("gust blow --soft red", ""), ("gust blow --help", ""), ("gust blow red --loudly", ""))
    [candidate] = archive.refresh_candidates()
    assert candidate.record["solution"] == "Use `gust blow --loudly` instead."
    assert candidate.record["delivery"] == "hold"


def test_a_call_of_another_session_that_differs_in_more_than_the_wrong_word_is_no_fix(archive: Archive) -> None:
    archive.add_session(("gust blow red", ""), ("gust blow --loud red", "error: unknown option '--loud'"))
    archive.add_session(("gust blow --soft red", ""), ("gust blow --fast", ""), ("gust stop red", ""))
    assert archive.refresh_candidates() == []


def test_a_trigger_that_begins_a_command_counts_the_calls_that_change_folder_first(archive: Archive) -> None:
    for _ in range(2):
        archive.add_session(
            ("cd web && gust blow", "Exit code 127\nbash: line 1: gust: command not found"),
            ("cd web && npx gust blow", ""),
        )
    [candidate] = archive.refresh_candidates()
    assert candidate.record["triggers"]["commandPatterns"] == ["^gust(?![\\w-])"]
    assert (candidate.parts["failed"], candidate.parts["fine"]) == (2, 0)


def test_frequent_failures_of_edited_code_never_become_a_lesson(archive: Archive) -> None:
    for _ in range(5):
        archive.add_session(("gust test ./a", "--- FAIL: TestWind"), ("gust test ./a -run Breeze", ""))
    assert archive.refresh_candidates() == []


def test_a_decided_candidate_is_not_opened_again(archive: Archive) -> None:
    archive.add_session(*MISTAKE)
    [candidate] = archive.refresh_candidates()
    candidates.record_decision(archive.connection, candidate.id, "rejected", 1.0)
    archive.add_session(*MISTAKE)
    assert (archive.refresh_candidates(), archive.list_open()) == ([], [])


def test_a_block_needs_twenty_firings_and_none_that_went_fine() -> None:
    assert choose_delivery(ReplayFigures(failed=19), has_cure=True) == "hold"
    assert choose_delivery(ReplayFigures(failed=20), has_cure=True) == "block"
    assert choose_delivery(ReplayFigures(failed=40, fine=1), has_cure=True) == "hold"
    assert choose_delivery(ReplayFigures(failed=40), has_cure=False) == "note"


def test_records_that_cannot_fire_have_no_figures(archive: Archive) -> None:
    archive.add_session(*MISTAKE)
    broken_record = {"summary": "s", "problem": "p", "solution": "x", "triggers": {"commandPatterns": ["("]}}
    start_record = {"summary": "s", "problem": "p", "solution": "x", "delivery": "start", "triggers": {}}
    assert replay_records(archive.connection, {"1": broken_record, "2": start_record}) == {}


def test_only_the_newest_calls_are_tried(archive: Archive) -> None:
    archive.add_session(*MISTAKE)
    archive.add_session(("kite fly low", ""))
    [candidate] = archive.refresh_candidates()
    figures = gate.replay_records(archive.connection, {"1": candidate.record}, limit=1)["1"]
    assert (figures.failed, figures.fine) == (0, 1)
