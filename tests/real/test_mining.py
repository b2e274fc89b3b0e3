"""Mining what the real Claude Code wrote down: a mistake made twice is found, accepted, and held the third time."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .house import House, SeparateInstall
from .model_server import Call, Reply, Request, Script, bash

pytestmark = pytest.mark.real

DONE = Reply("done")
WRONG, RIGHT = "git log --oneline --colour", "git log --oneline --color"
REASON = "The problem is that git spells it the American way."
MISTAKE = (bash(WRONG), Reply(REASON, bash(RIGHT).calls), DONE)
ERRAND = Call("Agent", {"description": "an errand", "prompt": "look at the log", "run_in_background": False})
ADVICE = "ADVICE-7: make files with install -m 644, which sets the owner too"
REPORT = f"""Noted for next time.

#lesson
tool: Bash
trigger: touch
problem: a file made by touch has the wrong owner in this house, so the build cannot read it
solution: {ADVICE}
tags: tool:touch, severity:silent-failure
#/lesson
"""


def list_candidates(house: House, *flags: str) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = json.loads(house.hardwon("scan", "candidates", "--json", *flags))["candidates"]
    return listed


def run_scan(house: House) -> tuple[int, list[Any]]:
    """Run a scan; return how many transcripts it read, and its proposals."""
    outcome = json.loads(house.hardwon("scan", "--json"))
    return outcome["files"], outcome["candidates"]


def list_scanned_sessions(house: House) -> set[str]:
    """Return the sessions whose transcripts were scanned."""
    return {Path(path).stem for path in json.loads(house.hardwon("scan", "state", "--json"))["files"]}


def list_lessons(house: House) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = json.loads(house.hardwon("lessons", "list", "--json"))
    return listed


def iter_strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from iter_strings(inner)


def is_in_transcript(evidence: dict[str, Any]) -> bool:
    line = Path(evidence["path"]).read_text(encoding="utf-8").splitlines()[evidence["line"] - 1]
    return any(evidence["quote"] in text for text in iter_strings(json.loads(line)))


def echo_lesson_at_end(*replies: Reply) -> Script:
    """Return a script with these replies, and then the `#lesson` block that the model was shown as an example."""
    remaining = iter(replies)

    def script(request: Request) -> Reply:
        example = next(text for text in request.texts if "#/lesson" in text)
        return next(remaining, None) or Reply(
            example[example.index("#lesson") : example.index("#/lesson")] + "#/lesson"
        )

    return script


def test_a_mistake_made_in_two_sessions_is_held_in_the_third(bare_house: House) -> None:
    first, second = bare_house.session(MISTAKE), bare_house.session(MISTAKE)
    bare_house.hardwon("install", "claude-code", "--yes")
    bare_house.hardwon("scan")
    [candidate] = list_candidates(bare_house)
    assert (candidate["sessionCount"], set(candidate["sourceSessionIds"])) == (2, {first.id, second.id})
    assert (candidate["difference"]["removed"], candidate["difference"]["added"]) == (["--colour"], ["--color"])

    bare_house.hardwon("accept", str(candidate["index"]), "--delivery", "hold")
    third = bare_house.session([bash(WRONG), bash(RIGHT), DONE])
    assert [result.refused for result in third.results] == [True, False]
    assert [third.turns_with(expected) for expected in ("--color` instead", "Held once by hardwon")] == [[1, 2], [1, 2]]
    assert "start" in third.results[1].text, "the corrected command did not show the log"

    assert run_scan(bare_house) == (1, [])
    assert list_candidates(bare_house, "--all") == []


def test_the_evidence_of_a_candidate_is_in_the_transcripts(house: House) -> None:
    sessions = [house.session(MISTAKE), house.session(MISTAKE)]
    house.hardwon("scan")
    [candidate] = list_candidates(house)
    evidence = candidate["evidence"]
    assert [evidence_item["kind"] for evidence_item in evidence] == ["error", "correction", "correction"] * 2
    assert {Path(evidence_item["path"]).stem for evidence_item in evidence} == {session.id for session in sessions}
    assert [evidence_item["quote"] for evidence_item in evidence if not is_in_transcript(evidence_item)] == []


def test_a_mistake_of_a_sub_agent_counts_for_its_session(house: House) -> None:
    house.session([Reply(calls=(ERRAND,)), DONE], sub=MISTAKE)
    house.session(MISTAKE)
    house.hardwon("scan")
    [candidate] = list_candidates(house)
    assert candidate["sessionCount"] == 2
    assert len({Path(evidence_item["path"]).parent for evidence_item in candidate["evidence"]}) == 2, (
        "sub-agents have files of their own"
    )
    assert all(map(is_in_transcript, candidate["evidence"]))


def test_a_lesson_that_the_agent_reported_is_delivered_in_the_next_session(house: House) -> None:
    reporting = house.session([Reply(REPORT)])
    assert reporting.turns_with("#/lesson") == [0], "nobody told the model how to report"
    assert "in force as a note" in house.hardwon("scan", "--yes")
    session = house.session([bash("touch made"), DONE])
    assert (session.turns_with(ADVICE), (house.project / "made").exists()) == ([1], True)
    house.hardwon("scan", "--yes")
    assert (len(list_lessons(house)), list_candidates(house, "--all")) == (1, [])


def test_what_hardwon_said_itself_is_not_found_again(house: House) -> None:
    """Its words come back in the transcript as the result of a failed call, in attachments, and in the model's answers."""
    wrong = "error: unknown option, which git does not support: leave it out"
    house.add("start", wrong)
    house.add("note", wrong, r"\bls\b")
    house.add("hold", wrong, r"\bgit stash --nothing\b")
    house.add("block", wrong, r"\btouch --nothing\b")
    commands = ("ls", "git stash --nothing", "git stash", "touch --nothing one two", "touch one two")
    session = house.session(echo_lesson_at_end(*map(bash, commands)))
    assert [result.refused for result in session.results] == [False, True, False, True, False]
    assert session.turns_with(wrong)[0] == 0 and session.said[-1].startswith("#lesson")
    house.hardwon("scan")
    assert list_candidates(house, "--all") == []


def test_what_was_found_is_not_the_agents_to_accept(house: House) -> None:
    house.session(MISTAKE)
    house.hardwon("scan")
    [candidate] = list_candidates(house, "--all")
    accept = f"hardwon accept {candidate['index']}"
    by_another_door = f"HARDWON_HOME={house.root}/hardwon {sys.executable} -m {accept}\n"
    (house.project / "tidy.sh").write_text(by_another_door)
    session = house.session([bash(accept), bash("sh tidy.sh"), DONE])
    by_the_hook, by_the_command = session.results
    assert "Only the user can do this" in by_the_hook.text
    assert "says an agent runs this" in by_the_command.text
    assert (list_lessons(house), len(list_candidates(house, "--all"))) == ([], 1)


def test_a_session_starts_a_scan_in_the_background_and_does_not_wait_for_it(bare_house: House) -> None:
    bare_house.hardwon("config", "set", "autoScanIntervalHours", "0")
    bare_house.hardwon("scan")
    earlier_session = bare_house.session(MISTAKE)
    install = SeparateInstall(bare_house.root / "separate")
    bare_house.hardwon("install", "claude-code", "--yes", program=install.program)
    bare_house.add("start", ADVICE)
    bare_house.hardwon("start", program=install.program)
    with install.hold_background_scans():
        session = bare_house.session([DONE])
        assert (len(bare_house.list_scans()), list_scanned_sessions(bare_house)) == (1, set()), (
            "no scan waits, so nothing is shown"
        )
        assert (session.turns_with(ADVICE), bare_house.spooled_events) == ([0], 0), "the worker did not answer the hook"
    bare_house.wait_for_background()
    assert earlier_session.id in list_scanned_sessions(bare_house)
    assert (len(list_candidates(bare_house, "--all")), len(list_lessons(bare_house))) == (1, 1), (
        "a background scan only proposes"
    )
