"""A lesson that one machine shared holds the call of the real Claude Code on another.

The agent runs in a network of its own, so its hooks cannot reach the team's server: what they know is on their machine.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.test_team import STASH, Machines, find_server
from tests.support.team_server import RunningServer

from .house import House
from .model_server import Reply, bash

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    yield from find_server()


@pytest.fixture
def machines(tmp_path: Path, server: RunningServer) -> Iterator[Machines]:
    created = Machines(tmp_path, server)
    created.founder.ok("team", "policy", "hold")
    created.founder.ok("team", "share", created.founder.add(STASH), "--yes")
    yield created
    created.leave()


def assert_held(house: House) -> None:
    session = house.session([bash("git stash"), Reply("done")])
    assert [result.refused for result in session.results] == [True]
    assert STASH["solution"] in session.results[0].text and house.stashes == 0


def test_a_lesson_of_machine_a_holds_the_call_on_machine_b(house: House, machines: Machines) -> None:
    house.hardwon(*machines.founder.ok("team", "invite", "--member", "bob").out.split()[1:])
    assert_held(house)


def test_a_container_holds_the_call_after_one_pull_and_without_a_worker(house: House, machines: Machines) -> None:
    token = machines.founder.ok("team", "token", "ci").out.strip()
    url = json.loads(Path(machines.founder.home, "team.json").read_text())["url"]
    pulled = house.hardwon("team", "pull", "--once", "--url", url, "--token", token)
    assert "1 lesson of team here" in pulled and not house.status()["running"]
    assert_held(house)


def test_with_the_server_gone_the_call_is_held_as_before(
    house: House, machines: Machines, server: RunningServer
) -> None:
    house.hardwon(*machines.founder.ok("team", "invite", "--member", "bob").out.split()[1:])
    house.hardwon("start")
    server.stop()
    assert_held(house)
    server.start()
