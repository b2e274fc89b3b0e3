"""Sixteen hooks at once for one session and one lesson: never two deliveries, never none."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from tests.support.house import GIT_STASH, House, bash

HOOKS = 16
ROUNDS = 50 if os.environ.get("HARDWON_LONG") == "1" else 3


def all_at_once(house: House, session: str, meanwhile: threading.Thread | None = None) -> list[bytes]:
    return house.ask_at_once(session, [bash("git stash") for _ in range(HOOKS)], meanwhile)


@pytest.mark.parametrize("worker", ["up", "down", "killed between"])
def test_a_note_is_delivered_exactly_once(house: House, worker: str) -> None:
    house.add({**GIT_STASH, "delivery": "note"})
    counts = []
    for number in range(ROUNDS):
        killer = None
        if worker != "down":
            house.ok("start")
        if worker == "killed between":
            killer = threading.Thread(target=os.kill, args=(house.status()["pid"], signal.SIGKILL))
        answers = all_at_once(house, f"s{number}", killer)
        counts.append(sum(b"git stash -u" in answer for answer in answers))
        assert all(answer == b"{}" or b"git stash -u" in answer for answer in answers)
    assert counts == [1] * ROUNDS
    assert len(house.deliveries()) == ROUNDS


@pytest.mark.parametrize("worker", ["up", "down"])
def test_a_block_stops_all_of_them(house: House, worker: str) -> None:
    house.add({**GIT_STASH, "delivery": "block"})
    if worker == "up":
        house.ok("start")
    assert sum(b'"deny"' in answer for answer in all_at_once(house, "s1")) == HOOKS
