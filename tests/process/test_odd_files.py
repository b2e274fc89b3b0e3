"""A pipe, a folder or a device stands where a file of ours should be, or a number in one is out of any range."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

import pytest

from tests.support.house import GIT_STASH, House, bash

FILES = ["lessons.json", "config.json", "paused", "trusted.json", "token", "hardwon.db"]
COMMANDS = [["status"], ["brief"], ["config"], ["lessons", "check"], ["why", "git stash"]]
KINDS: dict[str, Callable[[str], None]] = {
    "a pipe": os.mkfifo,
    "a folder": os.mkdir,
    "a device": lambda path: os.symlink("/dev/zero", path),
    "a broken link": lambda path: os.symlink("/nowhere/at/all", path),
}


def replace_file(house: House, name: str, kind: str) -> str:
    """Put something odd in the place of a file."""
    path = os.path.join(house.home, name)
    if os.path.lexists(path):
        os.unlink(path)
    KINDS[kind](path)
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_every_command_and_hook_answers_with_an_odd_file_in_the_home(house: House, kind: str) -> None:
    house.add({**GIT_STASH, "delivery": "block"})
    house.stay_cold()
    for name in FILES:
        path = replace_file(house, name, kind)
        for words in COMMANDS:
            ran = house.cli(*words)
            assert "Traceback" not in ran.err, (name, words, ran.err)
            assert ran.code == 0 or path in ran.out + ran.err, (name, words, ran.out, ran.err)
        assert house.hook("PreToolUse", json.dumps({"session_id": "s1", **bash("git stash")}).encode())
        if kind != "a broken link":
            result = house.cli("doctor")
            assert result.code == 1 and path in result.out and "fix:" in result.out, (name, result.out)
        os.rmdir(path) if kind == "a folder" else os.unlink(path)
        house.cli("lessons", "build")


def test_a_pause_that_cannot_be_read_is_quiet_everywhere_until_it_is_lifted(house: House) -> None:
    house.add({**GIT_STASH, "delivery": "block"})
    for kind in ("a pipe", "a folder"):
        replace_file(house, "paused", kind)
        assert not house.ask("s1", bash("git stash")).denied
        assert "quiet everywhere" in house.cli("doctor").out
        house.ok("unpause")
        assert house.ask("s1", bash("git stash")).denied


HUGE = "1" + "0" * 400


@pytest.mark.parametrize("number", [HUGE, "-" + HUGE, "NaN", "Infinity", "-Infinity", "1e999", "9" * 5000])
def test_a_number_out_of_range_in_a_file_is_named(house: House, number: str) -> None:
    house.add({**GIT_STASH, "delivery": "block"})
    config, lessons = (os.path.join(house.home, name) for name in ("config.json", "lessons.json"))
    with open(config, "w") as file:
        file.write(
            json.dumps({"minConfidence": "?", "maxDbMb": "?", "caps": {"dollarsPerDay": "?"}}).replace('"?"', number)
        )
    for words in COMMANDS:
        ran = house.cli(*words)
        assert "Traceback" not in ran.err, (words, ran.err)
    result = house.cli("lessons", "check")
    assert result.code == 1 and ("minConfidence" in result.out + result.err or "4300" in result.out + result.err)
    os.unlink(config)
    with open(lessons) as file:
        text = file.read()
    for key in ("priority", "confidence", "occurrenceCount"):
        document = json.loads(text)
        document["lessons"][0][key] = "PLACE"
        with open(lessons, "w") as file:
            file.write(json.dumps(document).replace('"PLACE"', number))
        for words in COMMANDS:
            ran = house.cli(*words)
            assert "Traceback" not in ran.err, (key, words, ran.err)
        result = house.cli("lessons", "check")
        assert result.code == 1 and (key in result.out + result.err or "4300" in result.out + result.err)


def test_a_pause_without_end_holds_until_it_is_lifted_and_is_said(house: House) -> None:
    house.add({**GIT_STASH, "delivery": "block"})
    with open(os.path.join(house.home, "paused"), "w") as file:
        file.write("1e999 *\nnan *\n")
    assert not house.ask("s1", bash("git stash")).denied
    result = house.cli("doctor")
    assert "paused everywhere until lifted" in result.out and "line 2 is no pause" in result.out and not result.err
    house.ok("unpause")
    assert house.ask("s1", bash("git stash")).denied


@pytest.mark.parametrize(
    "words",
    [
        ["pause", "--for", f"{HUGE}d"],
        ["purge", "--older-than", f"{HUGE}d", "--yes"],
        ["purge", "--older-than", "9" * 5000 + "d", "--yes"],
        ["config", "set", "minConfidence", HUGE],
        ["scan", "--since", "0001-01-01"],
    ],
)
def test_a_number_out_of_range_on_the_command_line_is_refused(house: House, words: list[str]) -> None:
    ran = house.cli(*words)
    assert "Traceback" not in ran.err and (ran.code == 0 or "fix:" in ran.err)


def test_a_pause_is_said_by_status_up_and_why(house: House) -> None:
    house.add({**GIT_STASH, "delivery": "block"})
    house.ok("pause", "--for", "2h")
    for words in (["status"], ["up"]):
        assert "pause     paused everywhere until " in house.ok(*words).out
    assert house.ok("why", "git stash").out.startswith("paused here, so nothing fires")
    assert house.status()["pauses"] and house.ok("why", "git stash", "--json").json()["paused"]


@pytest.mark.parametrize("kind", ["a file", "a broken link", "a folder that cannot be written"])
@pytest.mark.parametrize("worker", ["up", "away"])
def test_a_hold_holds_when_the_claims_folder_cannot_be_used(house: House, kind: str, worker: str) -> None:
    house.add({**GIT_STASH, "delivery": "hold"})
    house.ok("start") if worker == "up" else house.stay_cold()
    claims_path = os.path.join(house.home, "claims")
    if kind == "a file":
        with open(claims_path, "w") as file:
            file.write("mine")
    elif kind == "a broken link":
        os.symlink("/nowhere/at/all", claims_path)
    elif os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    else:
        os.mkdir(claims_path, 0o500)
    result = house.cli("doctor")
    assert result.code == 1 and f"mv {claims_path}" in result.out
    assert house.ask("s1", bash("git stash"), {}).denied
    wire = json.dumps({"session_id": "s1", **bash("git stash")}).encode()
    later = "import time; now = time.time; time.time = lambda: now() + 60"
    house.ok("stop")
    house.stay_cold()
    assert json.loads(house.hook("PreToolUse", wire, first=later)) == {}
    if kind == "a file":
        (aside,) = [name for name in os.listdir(house.home) if name.startswith("claims.") and name.endswith(".old")]
        with open(os.path.join(house.home, aside)) as file:
            assert file.read() == "mine"
