"""One candidate at a time: a person sees what speaks for it, and decides; a reader may say what it thinks."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from typing import Any

import pytest

from tests.house_of_one import House, bash
from tests.told import TAG, UNKNOWN, Told


def at_terminal(*words: str, typed: str = "", **env: str) -> str:
    """What a person sees who types this into a terminal of 80 columns."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb", **env}
    command = [sys.executable, "-m", "hardwon", *words]
    child = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    os.write(ours, typed.encode())
    seen = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:
            break
        if not part:
            break
        seen += part
    os.close(ours)
    assert child.wait() == 0, seen.decode()
    return seen.decode().replace("\r\n", "\n")


def slugs(house: House, status: str) -> list[str]:
    return [one["summary"] for one in house.ok("lessons", "list", "--status", status, "--json").json()]


@pytest.fixture
def scanned(house: House, own_home: str) -> House:
    """Two candidates: git's option in two sessions, cargo's in one; and some calls that went fine."""
    Told(own_home).mistake().works("git log --oneline").write()
    other = Told(own_home).mistake()
    other.fails("cargo build --fast", "error: unexpected argument '--fast' found").works(
        "cargo build --release"
    ).write()
    house.ok("scan")
    return house


def test_review_shows_the_evidence_the_suggestion_and_what_the_trigger_would_have_done(scanned: House) -> None:
    seen = at_terminal("review", typed="q\n")
    for wanted in (
        "1 of 2", "error: unknown option", ".jsonl:2", "--color=always", "would have fired 2 times: 2 failed, 0 went fine",
        "score     ", "seen      2 times in 2 sessions, 1 project", "[a]ccept [e]dit [s]kip [r]eject [u]ndo [q]uit",
    ):  # fmt: skip
        assert wanted in seen, seen
    assert "0 decisions kept; 2 candidates left" in seen


def test_decisions_are_kept_as_they_are_made(scanned: House) -> None:
    seen = at_terminal("review", typed="a\nr\n")
    assert "2 decisions kept; 0 candidates left" in seen
    assert len(slugs(scanned, "active")) == 1
    assert scanned.ok("scan", "candidates", "--all", "--json").json()["candidates"] == []


def test_a_decision_can_be_taken_back(scanned: House) -> None:
    seen = at_terminal("review", typed="a\nu\nr\nu\ns\ns\n")
    assert "0 decisions kept; 2 candidates left" in seen
    assert slugs(scanned, "active") == []


def test_what_a_person_edits_is_what_is_kept(scanned: House, tmp_path: Any) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i \'s/"priority": [0-9]*/"priority": 9/; s/"note"/"hold"/\' "$1"\n')
    editor.chmod(0o755)
    at_terminal("review", typed="e\nq\n", EDITOR=str(editor), VISUAL=str(editor))
    [kept] = scanned.ok("lessons", "list", "--json").json()
    assert (kept["priority"], kept["delivery"], kept["status"]) == (9, "hold", "active")
    assert scanned.ask("s9", bash("git log --colour=auto", cwd="/home/dev/kite")).denied


def test_a_block_must_not_stop_what_went_fine(scanned: House) -> None:
    wide = scanned.cli("accept", "1", "--delivery", "block", "--command", r"\bgit log\b")
    assert (wide.code, "fired on 3 calls that went fine" in wide.err) == (1, True)
    seldom = scanned.cli("accept", "1", "--delivery", "block")
    assert (seldom.code, "too few to be sure" in seldom.err) == (1, True)
    scanned.ok("accept", "1", "--delivery", "block", "--confirm")
    assert scanned.ask("s9", bash("git log --colour", cwd="/home/dev/kite")).denied


def test_promoting_at_a_terminal_asks_for_the_fields(scanned: House) -> None:
    typed = "git log has no option --colour at all\n\nnote\n8\ntool:git\n"
    at_terminal("scan", "promote", "1", typed=typed)
    [kept] = scanned.ok("lessons", "list", "--json").json()
    assert (kept["summary"], kept["priority"], kept["tags"]) == (
        "git log has no option --colour at all",
        8,
        ["tool:git"],
    )


def test_a_scan_at_a_terminal_previews_what_agents_reported_and_asks(house: House, own_home: str) -> None:
    Told(own_home).agent(TAG).write()
    assert "Put it in force? (1 of 1)" in at_terminal("scan", typed="y\n")
    assert len(slugs(house, "active")) == 1


def test_a_reader_sees_the_episodes_whole_and_its_judgement_is_shown_but_approves_nothing(scanned: House) -> None:
    agent = {"CLAUDECODE": "1"}
    given = scanned.ok("review", "--json", env=agent).json()
    first = given["candidates"][0]
    assert UNKNOWN.splitlines()[0] in json.dumps(first["episodes"])
    judged = [
        {
            "candidate": first["number"],
            "verdict": "lesson",
            "quotes": ["error: unknown option `--colour'"],
            "problem": "git log spells the option the American way",
            "solution": "use git log --color=always",
            "why": "another session would meet it too",
        }
    ]
    said = scanned.ok("review", "--judge", "-", stdin=json.dumps(judged), env=agent)
    assert "kept as a proposal" in said.out
    assert slugs(scanned, "active") == []
    assert "another session would meet it too" in at_terminal("review", typed="q\n")


def test_a_judgement_with_a_quote_that_is_not_there_is_void(scanned: House) -> None:
    judged = [{"candidate": 1, "verdict": "trivial", "quotes": ["error: no such thing was ever said"]}]
    said = scanned.ok("review", "--judge", "-", stdin=json.dumps(judged))
    assert "void" in said.out


def test_review_without_a_terminal_says_how_to_read(scanned: House) -> None:
    ran = scanned.cli("review")
    assert (ran.code, "hardwon review --json" in ran.err) == (1, True)
