"""Grok CLI: it does not wait for the hook of a session's start."""

from __future__ import annotations

import json
import os
from typing import Any

from hardwon import claims
from tests.support.house import House, lesson
from tests.support.transcript_reading import TESTS

FOLDER = os.path.join(TESTS, "payloads", "grok", "1.0.41")


def read_payload(name: str, **changes: Any) -> bytes:
    with open(os.path.join(FOLDER, f"{name}.json"), encoding="utf-8") as file:
        return json.dumps({**json.load(file), **changes}).encode()


def test_a_start_that_comes_after_the_first_call_does_not_hold_it_again(house: House) -> None:
    house.add(lesson("git stash", delivery="hold"))
    house.stay_cold()
    call = read_payload("PreToolUse-run_terminal_command", tool_input={"command": "git stash"})
    assert b"Held once by hardwon" in house.hook("PreToolUse", call, host="grok")
    claim_folder = claims.get_claim_folder(house.home, json.loads(call)["session_id"])
    held_claims = os.listdir(claim_folder)
    house.hook("SessionStart", read_payload("SessionStart", source="startup"), host="grok")
    assert held_claims and set(held_claims) <= set(os.listdir(claim_folder))
