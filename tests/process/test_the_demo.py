"""Somebody who has never seen hardwon runs the demo: a mistake is found, accepted and held, and nothing is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.house import wait_for

DEMO = [sys.executable, "-m", "hardwon", "demo"]
STORY = (
    "pytest: error: unrecognized arguments: --parallel",
    "$ hardwon scan",
    "1 new candidate",
    "$ hardwon accept 1",
    "in force as a hold",
    "2 sessions, 2 prompts",
    "hardwon  denies it, and the agent reads:",
    "Held once by hardwon: this has gone wrong before.",
    "agent    $ pytest -n 4 tests/test_limiter.py\n  hardwon  lets it run",
    "A hold speaks once:\n  agent    $ pytest --parallel 4 tests/test_limiter.py\n  hardwon  lets it run",
    "request       Let the rate limiter count per API key",
    "$ hardwon search limiter",
    "$ hardwon brief",
    "S3 next: document the new limit in the README.",
    "hardwon up",
)


@pytest.fixture
def demo_environment(own_home: str) -> Iterator[dict[str, str]]:
    """An environment whose temporary files and processes can be recognised."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield {**os.environ, "TMPDIR": folder}


def assert_nothing_is_left(world: dict[str, str]) -> None:
    assert os.listdir(world["TMPDIR"]) == []
    wait_for(lambda: not list_processes(world["TMPDIR"]))
    assert os.listdir(world["HOME"]) == [], "the person's own home is not touched"


def list_processes(folder: str) -> list[str]:
    """Return the processes whose temporary folder is this one, where /proc shows it."""
    process_ids = []
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if name.isdigit() and int(name) != os.getpid():
            try:
                environ = Path("/proc", name, "environ").read_bytes()
            except OSError:
                continue  # it has ended, or is somebody else's
            if f"TMPDIR={folder}".encode() in environ:
                process_ids.append(name)
    return process_ids


def run_demo(world: dict[str, str]) -> str:
    run = subprocess.run(DEMO, capture_output=True, text=True, stdin=subprocess.DEVNULL, env=world)
    assert (run.returncode, run.stderr) == (0, ""), run.stdout[-500:]
    return run.stdout


def test_the_story_is_told_in_order_and_nothing_is_left(demo_environment: dict[str, str]) -> None:
    output, position = run_demo(demo_environment), 0
    for words in STORY:
        assert words in output[position:], f"{words!r} is not said, or not in its place:\n{output}"
        position = output.index(words, position)
    assert max(map(len, output.splitlines())) <= 80
    assert "\x1b" not in output, "colours are for terminals"
    assert_nothing_is_left(demo_environment)


def test_an_agent_may_run_it_too_and_a_broken_home_of_ones_own_does_not_matter(
    demo_environment: dict[str, str],
) -> None:
    home = Path(demo_environment["HARDWON_HOME"])
    home.mkdir()
    (home / "config.json").write_text("{ broken")
    marks = {"CLAUDECODE": "1", "AI_AGENT": "some_agent", "HARDWON_OFF": "1", "CLAUDE_CONFIG_DIR": str(home)}
    assert "denies it" in run_demo({**demo_environment, **marks})
    assert os.listdir(home) == ["config.json"]
    assert (os.listdir(demo_environment["TMPDIR"]), os.listdir(demo_environment["HOME"])) == ([], [home.name])


@pytest.mark.parametrize(
    ("moment", "ending"),
    [("$ hardwon start", signal.SIGTERM), ("denies it", signal.SIGINT), ("denies it", signal.SIGHUP)],
)
def test_one_that_is_cut_off_leaves_nothing_either(
    demo_environment: dict[str, str], moment: str, ending: signal.Signals
) -> None:
    with subprocess.Popen(
        DEMO, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=demo_environment
    ) as running:
        assert running.stdout
        assert any(moment in line for line in running.stdout)
        running.send_signal(ending)
        running.stdout.read()
    assert running.returncode not in (0, -ending)
    assert_nothing_is_left(demo_environment)
