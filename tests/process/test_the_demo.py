"""Somebody who has never seen hardwon runs the demo: a mistake is found, accepted and held, and nothing is left."""

from __future__ import annotations

import http.client
import os
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from urllib.parse import urlsplit

import pytest

from tests.support.house_of_one import wait_for

DEMO = [sys.executable, "-m", "hardwon", "demo"]
STORY = (
    "pytest: error: unrecognized arguments: --parallel",
    "$ hardwon scan",
    "1 candidate new",
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
    "hardwon demo --view",
)


@pytest.fixture
def world(own_home: str) -> Iterator[dict[str, str]]:
    """An environment whose temporary files and processes can be told from everybody else's."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield {**os.environ, "TMPDIR": folder}


def assert_nothing_is_left(world: dict[str, str]) -> None:
    assert os.listdir(world["TMPDIR"]) == []
    wait_for(lambda: not running_in(world["TMPDIR"]))
    assert os.listdir(world["HOME"]) == [], "the person's own home is not touched"


def running_in(folder: str) -> list[str]:
    """The processes that were told to keep their temporary files below this folder, where the system tells."""
    found = []
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if name.isdigit() and int(name) != os.getpid():
            try:
                told = Path("/proc", name, "environ").read_bytes()
            except OSError:
                continue  # it has ended, or is somebody else's
            if f"TMPDIR={folder}".encode() in told:
                found.append(name)
    return found


def run(world: dict[str, str]) -> str:
    done = subprocess.run(DEMO, capture_output=True, text=True, stdin=subprocess.DEVNULL, env=world)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout[-500:]
    return done.stdout


def test_the_story_is_told_in_order_and_nothing_is_left(world: dict[str, str]) -> None:
    said, place = run(world), 0
    for words in STORY:
        assert words in said[place:], f"{words!r} is not said, or not in its place:\n{said}"
        place = said.index(words, place)
    assert max(map(len, said.splitlines())) <= 80
    assert "\x1b" not in said, "colours are for terminals"
    assert_nothing_is_left(world)


def test_an_agent_may_run_it_too_and_a_broken_home_of_ones_own_does_not_matter(world: dict[str, str]) -> None:
    home = Path(world["HARDWON_HOME"])
    home.mkdir()
    (home / "config.json").write_text("{ broken")
    marks = {"CLAUDECODE": "1", "AI_AGENT": "some_agent", "HARDWON_OFF": "1", "CLAUDE_CONFIG_DIR": str(home)}
    assert "denies it" in run({**world, **marks})
    assert os.listdir(home) == ["config.json"]
    assert (os.listdir(world["TMPDIR"]), os.listdir(world["HOME"])) == ([], [home.name])


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize("moment", ["$ hardwon start", "denies it"])
def test_one_that_is_cut_off_leaves_nothing_either(world: dict[str, str], moment: str, ending: signal.Signals) -> None:
    with subprocess.Popen(DEMO, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=world) as running:
        assert running.stdout
        assert any(moment in line for line in running.stdout)
        running.send_signal(ending)
        running.stdout.read()
    assert running.returncode not in (0, -ending)
    assert_nothing_is_left(world)


def test_at_a_terminal_the_viewer_shows_it_until_enter_is_pressed(world: dict[str, str]) -> None:
    opened = Path(world["HOME"], "opened")
    browser = Path(world["HOME"], "browser")
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {opened}.new && mv {opened}.new {opened}\n')
    browser.chmod(0o700)
    ours, theirs = pty.openpty()
    running = subprocess.Popen(
        [*DEMO, "--view"], stdin=theirs, stdout=theirs, stderr=theirs, env={**world, "BROWSER": str(browser)}
    )
    os.close(theirs)
    said = read_until(ours, "until you press Enter")
    assert "\x1b[36m  $ hardwon scan" in said and "\x1b[33m  hardwon  denies it" in said
    wait_for(opened.exists)
    assert is_let_in(opened.read_text())
    os.write(ours, b"\n")
    assert "home is gone" in read_until(ours, "hardwon up")
    assert running.wait() == 0
    os.close(ours)
    opened.unlink()
    browser.unlink()
    assert_nothing_is_left(world)


def test_without_a_terminal_the_viewer_is_refused(world: dict[str, str]) -> None:
    done = subprocess.run([*DEMO, "--view"], capture_output=True, text=True, stdin=subprocess.DEVNULL, env=world)
    assert (done.returncode, "not a terminal" in done.stderr) == (1, True)


def read_until(terminal: int, words: str) -> str:
    said, end = "", monotonic() + 300
    while words not in said:
        assert select.select([terminal], [], [], max(0.0, end - monotonic()))[0], said
        said += os.read(terminal, 65536).decode(errors="replace")
    return said


def is_let_in(link: str) -> bool:
    """Whether the link's one visit leads into the viewer."""
    parts = urlsplit(link)
    assert parts.port and re.fullmatch(r"code=\S+", parts.query)
    line = http.client.HTTPConnection("127.0.0.1", parts.port)
    line.request("GET", f"{parts.path}?{parts.query}", headers={"Host": parts.netloc})
    answer = line.getresponse()
    line.close()
    return answer.status in (200, 303) and "set-cookie" in {name.lower() for name, _ in answer.getheaders()}
