"""What a person says is to last outlives the session: drafted when it ends, ratified by them, told to the next."""

from __future__ import annotations

import json
from time import monotonic, sleep
from typing import Any

import pytest

from .house import WAIT_SECONDS, House
from .model_server import Reply, bash

pytestmark = pytest.mark.real
WISH = "from now on always use pnpm, never npm"


def wait_for_draft(house: House) -> dict[str, Any]:
    deadline = monotonic() + WAIT_SECONDS
    while not (listed := json.loads(house.hardwon("handoff", "list", "--json"))):
        assert monotonic() < deadline, house.hardwon("logs")
        sleep(0.2)
    draft: dict[str, Any] = listed[0]
    return draft


def test_a_wish_is_drafted_when_the_session_ends_and_told_to_the_next_once_it_is_ratified(house: House) -> None:
    house.hardwon("start")
    house.session([bash("ls"), Reply("noted")], WISH)
    draft = wait_for_draft(house)
    [memory] = json.loads(house.hardwon("memory", "list", "--json"))
    assert (memory["status"], "pnpm" in memory["text"]) == ("candidate", True)
    house.hardwon("handoff", "ratify", str(draft["id"]))
    assert list((house.project / "docs" / "sessions").glob("*.md"))
    next_session = house.session([Reply("hello")], "good morning")
    assert "always use pnpm" in next_session.requests[0]
