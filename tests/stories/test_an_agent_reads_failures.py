"""An agent reads the failures that the rules made no lesson of; what it proposes passes the gate before a person sees it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.claude_transcript import TranscriptWriter
from tests.support.house import House, bash

AGENT = {"CLAUDECODE": "1"}
NO_HARBOUR = "error: no harbour is set"
FAILING, WORKING = "make dist && kite deploy prod", "make dist && kite deploy prod --harbour north"


@pytest.fixture
def scanned_house(house: House, own_home: str) -> House:
    """Two sessions with a failure of which the rules cannot say which command failed."""
    for _ in range(2):
        writer = TranscriptWriter(own_home)
        writer.works("make dist").works("make test")
        writer.fails(FAILING, NO_HARBOUR).works(WORKING).works("make clean").write()
    house.ok("scan")
    return house


def submit_judgement(house: House, **changes: Any) -> str:
    [entry] = house.ok("review", "--json", env=AGENT).json()["candidates"]
    lesson = {
        "candidate": entry["number"],
        "verdict": "lesson",
        "quotes": [NO_HARBOUR, WORKING],
        "problem": "kite deploy fails without a harbour",
        "solution": "name the harbour: kite deploy prod --harbour north",
        "trigger": r"\bkite\s+deploy\b(?!.*--harbour)",
        "why": "every deployment needs it",
    }
    output: str = house.ok("review", "--judge", "-", stdin=json.dumps([{**lesson, **changes}]), env=AGENT).out
    return output


def list_numbers(house: House) -> list[int]:
    return [row["index"] for row in house.ok("scan", "candidates", "--all", "--json").json()["candidates"]]


def test_a_reader_gets_what_it_needs_to_judge_a_failure_without_a_lesson(scanned_house: House) -> None:
    assert list_numbers(scanned_house) == []
    [entry] = scanned_house.ok("review", "--json", env=AGENT).json()["candidates"]
    assert (entry["isProposed"], entry["sessionCount"]) == (False, 2)
    assert entry["whyNotProposed"] == "several commands of the call could have failed"
    texts = [step["text"] for step in entry["episodes"][0]["steps"]]
    assert any(NO_HARBOUR in text for text in texts) and any(WORKING in text for text in texts)


def test_what_a_reader_proposes_is_gated_listed_and_held_once_a_person_accepts(scanned_house: House) -> None:
    output = submit_judgement(scanned_house)
    [number] = list_numbers(scanned_house)
    assert f"{number}  lesson  kept as a proposal" in output
    assert "stopped 1 of 1 repeats" in " ".join(scanned_house.ok("scan", "candidates", "--all").out.split())
    assert scanned_house.ok("lessons", "list", "--json").json() == []
    scanned_house.ok("scan")
    assert list_numbers(scanned_house) == [number]
    accepted = scanned_house.ok("accept", str(number)).out
    assert "in force as a hold" in accepted and "name the harbour" in accepted
    assert "name the harbour" in scanned_house.ask("s9", bash("kite deploy test", cwd="/home/dev/kite")).denied
    assert scanned_house.ask("s9", bash("kite deploy test --harbour south", cwd="/home/dev/kite")).denied == ""


def test_a_trigger_that_fires_on_calls_that_went_fine_is_refused_and_nothing_is_listed(scanned_house: House) -> None:
    output = submit_judgement(scanned_house, trigger=r"\bmake\b")
    assert "void: its trigger matches" in output and "calls that went fine" in output
    assert list_numbers(scanned_house) == []
    assert "several commands" in scanned_house.ok("review", "--open").out


def test_a_trigger_that_matches_no_failure_is_refused(scanned_house: House) -> None:
    assert "matches no recorded call that failed" in submit_judgement(scanned_house, trigger=r"\bkyte\s+deploy\b")
    assert list_numbers(scanned_house) == []


def test_what_somebody_judged_is_not_given_to_a_reader_again(scanned_house: House) -> None:
    assert "kept as a proposal" in submit_judgement(scanned_house, verdict="trivial")
    assert scanned_house.ok("review", "--json", env=AGENT).json()["candidates"] == []
    assert list_numbers(scanned_house) == []
