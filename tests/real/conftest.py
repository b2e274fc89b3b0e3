"""Real agents, pinned, each test in a house of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from . import agents, loopback
from .house import House

CLAUDE_CODES = [agents.describe_claude_code("2.1.197"), agents.describe_claude_code("2.1.325")]


@pytest.fixture(scope="session")
def own_network() -> bool:
    return not loopback.find_refusal()


@pytest.fixture(params=CLAUDE_CODES, ids=str, scope="session")
def claude(request: pytest.FixtureRequest) -> Path:
    return agents.find_program(request.param)


@pytest.fixture
def bare_house(claude: Path, own_network: bool, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A house with the agent and without hardwon; afterwards no process of a test may be left."""
    house = House(tmp_path_factory.mktemp("h"), claude, own_network=own_network)
    yield house
    house.hardwon("stop")
    house.wait_for_background()
    assert house.list_processes() == []


@pytest.fixture
def house(bare_house: House) -> House:
    bare_house.hardwon("install", "claude-code", "--yes")
    return bare_house


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if any("tests/real/" in report.nodeid for report in terminalreporter.getreports("passed")):
        refused = loopback.find_refusal()
        network = "each in a network of its own, with nothing in it but loopback"
        if refused:
            network = f"told to use loopback only, since they get no network of their own here ({refused})"
        terminalreporter.write_line(f"real agents: {network}")
