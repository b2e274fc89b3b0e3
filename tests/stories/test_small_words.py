"""What commands say about small slips: counts, limits, folders that are not there, an interrupt."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.claude_transcript import TAG, TranscriptWriter
from tests.support.house import GIT_STASH, House, bash, prompt, wait_for


@pytest.mark.parametrize("limit", ["0", "-1"])
def test_a_limit_below_one_is_refused(house: House, limit: str) -> None:
    for words in (["deliveries", "--limit", limit], ["logs", "-n", limit], ["review", "--limit", limit]):
        ran = house.cli(*words)
        assert ran.code == 2 and "x>=1" in ran.err, words


def test_an_export_into_a_folder_that_is_not_there_names_the_folder(house: House, tmp_path: Path) -> None:
    ran = house.cli("export", "--out", str(tmp_path / "nope" / "x"))
    assert ran.err == f"error: there is no folder {tmp_path}/nope\n  fix: mkdir -p {tmp_path}/nope\n"


def test_one_item_is_printed_in_the_singular(house: House) -> None:
    ran = house.cli("lessons", "add", "--summary", "x", "--problem", "p" * 30, "--solution", "s" * 30)
    assert "summary is too short (1 character, at least 20)" in ran.err
    house.ask("s1", prompt("about a kumquat", cwd="/home/dev/kumquat"))
    house.deliveries()
    assert "sessions (cut out) 1" in house.ok("purge", "--text", "kumquat", "--dry-run").out


def test_a_record_that_is_not_there_is_said_like_any_error(house: House) -> None:
    ran = house.cli("show", "O999")
    assert ran.code == 1 and ran.err.startswith("error: there is no O999\n  fix: ")


def test_every_line_of_the_log_begins_with_a_time(house: House) -> None:
    house.add({**GIT_STASH, "delivery": "block"})
    house.ok("start")
    house.session_start("s1")
    house.ask("s1", bash("git stash"))
    code = "from hardwon.worker import job_process; job_process._write_log_line('a handoff was drafted')"
    path = os.path.join(house.home, "logs", "worker.log")
    with open(path, "a") as log:
        subprocess.run([sys.executable, "-c", code], stderr=log, check=True)
    house.ok("stop")
    with open(path) as file:
        lines = file.read().splitlines()
    assert any("a handoff was drafted" in line for line in lines)
    assert [line for line in lines if not line[:4].isdecimal()] == []


def is_asleep(pid: int) -> bool:
    """Return whether a process waits for something; True where the system does not tell."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "S"
    except OSError:
        return True


def run_and_interrupt(house: House, *words: str, expected: bytes) -> int:
    """Run a command at a terminal, interrupt it once it has said this, and return its exit code."""
    our_end, their_end = pty.openpty()
    command = [sys.executable, "-m", "hardwon", *words]
    # Tests that run in the background of a shell have the interrupt ignored, and their children would inherit that.
    old_handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    child = subprocess.Popen(
        command, stdin=their_end, stdout=their_end, stderr=their_end, env=house.environment({"TERM": "dumb"})
    )
    signal.signal(signal.SIGINT, old_handler)
    os.close(their_end)
    output = b""
    while expected not in output:
        output += os.read(our_end, 4096)
    # Python's readline misses a signal that arrives between its prompt and its wait, and a person presses again.
    wait_for(lambda: is_asleep(child.pid))
    code = None
    while code is None:
        child.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            code = child.wait(timeout=30)  # a second signal while it ends would kill it
    os.close(our_end)
    return code


def test_an_interrupt_ends_with_130(house: House, own_home: str) -> None:
    house.ok("start")
    wait_for(lambda: os.path.getsize(os.path.join(house.home, "logs", "worker.log")) > 0)
    assert run_and_interrupt(house, "logs", "-f", expected=b"serving") == 130
    house.ok("backup")
    name = os.listdir(os.path.join(house.home, "backups"))[0]
    assert run_and_interrupt(house, "restore", name, expected=b"[y/N]") == 130
    TranscriptWriter(own_home).agent(TAG).write()
    assert run_and_interrupt(house, "scan", expected=b"[l]ater") == 130
