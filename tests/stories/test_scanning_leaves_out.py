"""What a person said is not to be recorded is not mined from a transcript either, by itself or when asked for."""

from __future__ import annotations

import json
import os
import time

import pytest

from hardwon import claims
from tests.house_of_one import House
from tests.stories.test_privacy import PLANTED, traces
from tests.told import TAG, UNKNOWN, Told

APP = "/home/dev/app"


def told_of(own_home: str, project: str) -> Told:
    """A mistake, a lesson and a file, all with what is looked for afterwards."""
    told = Told(own_home, project=project).person(f"run it for {PLANTED}")
    told.fails(f"{PLANTED} log --colour=always", f"{UNKNOWN} {PLANTED}").works(f"{PLANTED} log --color=always")
    told.agent(TAG.replace("so untracked ones", f"so {PLANTED} and untracked ones"))
    told.call("Write", {"file_path": f"{project}/a", "content": PLANTED})
    return told


@pytest.mark.parametrize("asked", [(), ("--full",), ("--auto",), ("--path",)])
def test_nothing_is_mined_in_a_denied_project(house: House, own_home: str, asked: tuple[str, ...]) -> None:
    house.ok("config", "set", "denyProjects", json.dumps([APP]))
    path = told_of(own_home, f"{APP}/below").write()
    house.ok("scan", *asked, *([path] if asked == ("--path",) else []))
    assert (house.stored("calls"), house.stored("signals"), traces(house, PLANTED)) == ([], [], [])
    Told(own_home, project=f"{APP}2").mistake().write()
    house.ok("scan")
    assert {row["cwd"] for row in house.stored("calls")} == {f"{APP}2"}


def test_nothing_is_mined_of_a_session_part_of_which_was_paused(house: House, own_home: str) -> None:
    told = told_of(own_home, APP)
    told.write()
    house.ok("status")
    claims.note_pause(house.home, told.session, time.time())
    other = Told(own_home, project=APP).mistake()
    other.write()
    house.ok("scan")
    assert traces(house, PLANTED) == []
    assert {row["session"] for row in house.stored("calls")} == {other.session}


def test_a_dry_run_knows_what_was_paused_too(house: House, own_home: str) -> None:
    told = told_of(own_home, APP)
    told.write()
    claims.note_pause(house.home, told.session, time.time())
    assert house.ok("scan", "--dry-run", "--json").json()["candidates"] == []


def test_no_call_about_a_denied_path_is_mined(house: House, own_home: str) -> None:
    house.ok("config", "set", "denyPaths", '["vault"]')
    told = Told(own_home, project=APP)
    told.fails(f"cat vault/a --colour {PLANTED}", f"{UNKNOWN} {PLANTED}").works(f"cat vault/a --color {PLANTED}")
    told.call("Write", {"file_path": f"{APP}/vault/b", "content": PLANTED})
    told.call("mcp__files__write", {"any": f"{APP}/vault/b", "words": PLANTED})
    told.mistake().write()
    house.ok("scan")
    assert traces(house, PLANTED) == []
    assert [row["command"] for row in house.stored("calls")] == ["git log --colour=always", "git log --color=always"]


def test_a_command_under_way_in_a_denied_project_is_not_remembered_until_it_ends(house: House, own_home: str) -> None:
    house.ok("config", "set", "denyProjects", json.dumps([APP]))
    folder = os.path.join(own_home, ".codex", "sessions", "2026", "11", "01")
    os.makedirs(folder)
    given = json.dumps({"cmd": f"deploy {PLANTED}"})
    lines = [
        ("session_meta", {"id": "t1", "cwd": APP, "originator": "codex_cli_rs", "cli_version": "0.125.0"}),
        ("response_item", {"type": "function_call", "name": "exec_command", "arguments": given, "call_id": "c1"}),
    ]
    with open(os.path.join(folder, "rollout-2026-11-01T10-00-00-t1.jsonl"), "w", encoding="utf-8") as file:
        for kind, payload in lines:
            file.write(json.dumps({"timestamp": "2026-11-01T10:00:00Z", "type": kind, "payload": payload}) + "\n")
    assert "1 transcript" in house.ok("scan").out
    assert traces(house, PLANTED) == []
