"""Whatever happens to the worker, the disk, the clock or the hook itself: what was told is stored, and stored once."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from typing import Any

import pytest

from hardwon.sessions import ingest
from hardwon.store import db
from tests.support.house import HOOK, House, happened, prompt, used, wait_for

PROCESSES = 16
IS_LONG = os.environ.get("HARDWON_LONG") == "1"
EVENTS = 10_000 if IS_LONG else 120
STEP = 1 if IS_LONG else 4  # of the system calls at which a process is killed, every fourth

# One of the processes: it runs the installed hook again and again, as an agent would.
TELLER = """
import json, os, sys
python, hook, home, first, last, processes = sys.argv[1:7]
wrong = 0
for number in range(int(first), int(last), int(processes)):
    told = {"session_id": f"s{number % 7}", "cwd": "/home/dev/project"}
    kind = ("PostToolUse", "Stop", "UserPromptSubmit")[number % 3]
    told |= {"hook_event_name": kind, "prompt": f"word{number}", "last_assistant_message": f"word{number}"}
    if kind == "PostToolUse":
        told |= {"tool_name": "Bash", "tool_input": {"command": f"word{number}"}, "tool_use_id": f"toolu_{number}"}
    source, into = os.pipe()
    os.write(into, json.dumps(told).encode())
    os.close(into)
    files = [(os.POSIX_SPAWN_DUP2, source, 0), (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    words = [python, "-I", "-S", hook, "claude-code", kind, home]
    wrong += os.waitpid(os.posix_spawn(python, words, os.environ, file_actions=files), 0)[1] != 0
    os.close(source)
sys.exit(wrong > 0)
"""


def start_tellers(house: House, first: int = 0, last: int = EVENTS) -> list[subprocess.Popen[bytes]]:
    words = [sys.executable, "-c", TELLER, sys.executable, HOOK, house.home]
    return [subprocess.Popen([*words, str(first + n), str(last), str(PROCESSES)]) for n in range(PROCESSES)]


def list_spool(house: House) -> list[str]:
    folder = os.path.join(house.home, "spool")
    return sorted(os.listdir(folder)) if os.path.isdir(folder) else []


def count_stored_words(home: str) -> Counter[str]:
    """Count how often each reported word is in the database now."""
    connection = sqlite3.connect(os.path.join(home, "hardwon.db"))
    try:
        rows = connection.execute(
            "select prompt from prompts union all select response from events where kind = 'Stop' union all"
            " select json_extract(input, '$.command') from events where kind = 'tool'"
        ).fetchall()
    finally:
        connection.close()
    return Counter(word for (word,) in rows)


def count_expected_words() -> Counter[str]:
    return Counter(f"word{number}" for number in range(EVENTS))


def wait_for_more(house: House, telling: list[subprocess.Popen[bytes]]) -> None:
    """Wait until the worker has stored more events, or no process is left to report any."""
    count_before = count_stored_words(house.home).total()
    wait_for(
        lambda: (
            count_stored_words(house.home).total() > count_before
            or all(teller.poll() is not None for teller in telling)
        )
    )


def test_nothing_is_lost_or_doubled_while_the_worker_is_killed_again_and_again(house: House) -> None:
    house.ok("start")
    for first in range(0, EVENTS, EVENTS // 4):
        telling = start_tellers(house, first, first + EVENTS // 4)
        while any(teller.poll() is None for teller in telling):
            house.ok("start")
            wait_for_more(house, telling)
            house.kill()
        assert [teller.wait() for teller in telling] == [0] * PROCESSES
    house.ok("start")
    wait_for(lambda: not list_spool(house))
    assert count_stored_words(house.home) == count_expected_words()
    numbers = [row["number"] for row in house.stored("prompts")]
    assert Counter(numbers) == Counter(
        n for s in range(7) for n in range(1, 1 + sum(n % 7 == s for n in range(2, EVENTS, 3)))
    )


def test_nothing_is_lost_with_the_worker_away_throughout(house: House) -> None:
    telling = start_tellers(house)
    assert [teller.wait() for teller in telling] == [0] * PROCESSES
    assert len(list_spool(house)) == EVENTS
    house.ok("start")
    wait_for(lambda: not list_spool(house))
    assert count_stored_words(house.home) == count_expected_words()


def test_the_worker_and_a_command_may_take_in_the_same_spool(house: House) -> None:
    house.stay_cold()
    for number in range(20):
        house.ask("s1", used("Bash", {"command": f"word{number}"}, ""))
    reading = [
        subprocess.Popen([sys.executable, "-m", "hardwon", "deliveries"], stdout=subprocess.DEVNULL) for _ in range(3)
    ]
    house.ok("start")
    assert [reader.wait() for reader in reading] == [0] * 3
    wait_for(lambda: not list_spool(house))
    assert count_stored_words(house.home) == Counter(f"word{number}" for number in range(20))


def stay_mute(line: socket.socket) -> None:
    """Answer nothing, and keep the line open as long as the test."""


def close_line(line: socket.socket) -> None:
    line.close()


def cut_off(line: socket.socket) -> None:
    with suppress(BrokenPipeError):  # on a busy machine the hook may have given up already
        line.sendall(b"{")
    line.close()


@pytest.mark.parametrize("handle_line", [stay_mute, close_line, cut_off])
@pytest.mark.parametrize(
    "payload",
    [
        used("Bash", {"command": "word"}, ""),
        prompt("word"),
        happened("Stop", last_assistant_message="word"),
        happened("SessionStart", source="startup"),
    ],
)
def test_a_listener_that_does_not_answer_costs_little_and_loses_nothing(
    house: House, tmp_path: Any, handle_line: Callable[[socket.socket], None], payload: dict[str, Any]
) -> None:
    house.stay_cold()
    address = os.path.join(str(tmp_path), "s")
    listener, lines = socket.socket(socket.AF_UNIX), list[socket.socket]()
    listener.bind(address)
    listener.listen()

    def serve() -> None:
        while True:
            try:
                lines.append(listener.accept()[0])
            except OSError:
                return
            handle_line(lines[-1])

    serving = threading.Thread(target=serve, daemon=True)
    serving.start()
    os.symlink(address, os.path.join(house.home, "socket"))
    try:
        words = [sys.executable, "-I", "-S", HOOK, "claude-code", payload["hook_event_name"], house.home]
        wire = json.dumps({"session_id": "s1", **payload}).encode()
        run = subprocess.run(words, input=wire, capture_output=True, timeout=120)
        assert (run.returncode, run.stdout, len(list_spool(house))) == (0, b"{}", 1)
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for line in lines:
            line.close()
    rows = [*house.stored("prompts"), *house.stored("events")]
    assert len(rows) == 1


@pytest.fixture
def small_disk(tmp_path: object) -> Iterator[str]:
    folder = str(tmp_path)
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder], capture_output=True, text=True)
    if mount.returncode:
        pytest.skip(f"no small file system can be mounted here: {mount.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", folder])


def fill_disk(disk: str) -> None:
    """Leave not a byte free."""
    try:
        with open(os.path.join(disk, "ballast"), "wb", buffering=0) as file:
            while True:
                file.write(b"x" * 4096)
    except OSError:
        pass


@pytest.fixture
def house_on_small_disk(small_disk: str) -> Iterator[House]:
    """A house on a small disk, its worker up."""
    house = House(os.path.join(small_disk, "hardwon"), with_processes=True)
    house.start_with(tick=0.5)
    house.ask("s1", used("Bash", {"command": "before"}, ""))
    yield house
    house.leave()


def tell_worker(house: House, number: int) -> bool:
    """Report an event over the worker's socket as the hook does; return whether it was acknowledged."""
    wire = {"session_id": "s1", **used("Bash", {"command": f"word{number}"}, "y " * 2000)}
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(120)
        line.connect(os.readlink(os.path.join(house.home, "socket")))
        line.sendall(f"hardwon 1 claude-code PostToolUse {number:032x}\n".encode() + json.dumps(wire).encode())
        line.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: line.recv(4096), b""))
    return answer.endswith(b"\n")


def test_with_the_disk_full_for_a_while_a_running_worker_loses_nothing(
    house_on_small_disk: House, small_disk: str
) -> None:
    fill_disk(small_disk)
    for number in range(30):
        house_on_small_disk.ask("s1", used("Bash", {"command": f"word{number}"}, "y " * 2000))
    os.unlink(os.path.join(small_disk, "ballast"))
    for number in range(30, 40):
        house_on_small_disk.ask("s1", used("Bash", {"command": f"word{number}"}, "y " * 2000))
    expected = Counter(["before", *(f"word{number}" for number in range(40))])
    wait_for(lambda: count_stored_words(house_on_small_disk.home).total() >= expected.total())
    assert count_stored_words(house_on_small_disk.home) == expected
    assert [name for name in list_spool(house_on_small_disk) if name.endswith(".new")] == []


def test_what_was_acknowledged_with_the_disk_full_outlives_the_worker(
    house_on_small_disk: House, small_disk: str
) -> None:
    fill_disk(small_disk)
    acknowledged = {f"word{number}" for number in range(30) if tell_worker(house_on_small_disk, number)}
    house_on_small_disk.kill()
    os.unlink(os.path.join(small_disk, "ballast"))
    house_on_small_disk.ok("start")
    assert tell_worker(house_on_small_disk, 30)
    wait_for(lambda: not list_spool(house_on_small_disk))
    stored = count_stored_words(house_on_small_disk.home)
    assert acknowledged | {"before", "word30"} <= set(stored) and set(stored.values()) == {1}
    assert len(acknowledged) < 30, "the disk was not full"


def test_with_the_clock_set_back_what_happens_now_still_comes_last(house: House) -> None:
    house.stay_cold()
    for payload in (prompt("one"), used("Bash", {"command": "first"}, ""), happened("SessionEnd", reason="logout")):
        house.ask("s1", payload)
    for name in list_spool(house):
        path = os.path.join(house.home, "spool", name)
        with open(path) as file:
            record = json.load(file)
        record["event"]["at"] += 86_400
        os.unlink(path)
        with open(
            os.path.join(house.home, "spool", f"{record['event']['at']:017.6f}-{record['event']['id']}.json"), "w"
        ) as file:
            json.dump(record, file)
    house.ok("start")
    wait_for(lambda: not list_spool(house))
    for payload in (happened("SessionStart", source="resume"), prompt("two"), used("Bash", {"command": "second"}, "")):
        house.ask("s1", payload)
    [session] = house.stored("sessions")
    assert (session["status"], session["prompts"]) == ("active", 2)
    assert [(row["number"], row["prompt"]) for row in house.stored("prompts")] == [(1, "one"), (2, "two")]
    events = sorted(house.stored("events"), key=lambda row: row["at"])
    assert [(row["kind"], row["prompt"]) for row in events] == [
        ("tool", 1),
        ("SessionEnd", 1),
        ("SessionStart", 1),
        ("tool", 2),
    ]


def run_killed_at(call: str, number: int, words: list[str], wire: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run a command that is killed at the nth call of this system call; its code is 0 if it makes fewer."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not here to kill at a chosen system call")
    strace_command = [
        strace,
        "-f",
        "-qqq",
        "-o",
        os.devnull,
        "-e",
        f"trace={call}",
        "-e",
        f"inject={call}:signal=KILL:when={number}",
    ]
    run = subprocess.run([*strace_command, *words], input=wire, capture_output=True)
    if b"ptrace" in run.stderr.lower():
        pytest.skip(f"no process can be traced here: {run.stderr.decode().strip()}")
    return run


@pytest.mark.parametrize(("call", "times"), [("mkdir", 1), ("write", 2), ("rename", 1)])
def test_a_hook_killed_at_any_write_leaves_its_event_whole_or_not_at_all(house: House, call: str, times: int) -> None:
    house.stay_cold()
    words = [sys.executable, "-I", "-S", HOOK, "claude-code", "PostToolUse", house.home]
    for number in range(1, 20):
        shutil.rmtree(os.path.join(house.home, "spool"), ignore_errors=True)
        wire = json.dumps({"session_id": "s1", **used("Bash", {"command": f"word{number}"}, "y " * 20_000)}).encode()
        run = run_killed_at(call, number, words, wire)
        ready = [name for name in list_spool(house) if name.endswith(".json")]
        for name in ready:
            with open(os.path.join(house.home, "spool", name)) as file:
                assert json.load(file)["event"]["command"] == f"word{number}"
        house.stored("events")
        assert count_stored_words(house.home)[f"word{number}"] == len(ready)
        assert ready or not run.stdout
        if run.returncode == 0:
            break
    assert (run.stdout, len(ready), number) == (b"{}", 1, times + 1)


DRAIN = "import sys; from hardwon.sessions import ingest; from hardwon.store import db; ingest.drain_spool(sys.argv[1], db.connect(sys.argv[1]), lambda *_: '')"


@pytest.mark.parametrize(("call", "least"), [("pwrite64", 4), ("unlink", 2)])
def test_a_spool_whose_reader_is_killed_at_any_write_is_taken_in_once(
    house: House, tmp_path: Any, call: str, least: int
) -> None:
    house.stay_cold()
    house.stored("events")
    for word in ("one", "two"):
        house.ask("s1", used("Bash", {"command": word}, ""))
    for number in range(1, 200, STEP):
        home = shutil.copytree(house.home, os.path.join(tmp_path, str(number)))
        run = run_killed_at(call, number, [sys.executable, "-c", DRAIN, home])
        with closing(db.connect(home)) as store:
            ingest.drain_spool(home, store, lambda *_: "")
        assert count_stored_words(home) == Counter(["one", "two"]) and os.listdir(os.path.join(home, "spool")) == []
        shutil.rmtree(home)
        if run.returncode == 0:
            break
    assert least < number < 190


def test_what_a_killed_hook_left_half_written_is_removed_after_an_hour(house: House) -> None:
    house.stay_cold()
    house.ask("s1", used("Bash", {"command": "word"}, ""))
    old, young = (os.path.join(house.home, "spool", f"{name}.new") for name in ("old", "young"))
    for path in (old, young):
        with open(path, "w") as file:
            file.write('{"event": {"host": "cla')
    two_hours_ago = os.stat(old).st_mtime - 7200
    os.utime(old, (two_hours_ago, two_hours_ago))
    house.stored("events")
    assert list_spool(house) == ["young.new"] and count_stored_words(house.home) == Counter(["word"])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        '{"event": {"host": "cla',
        '{"event": {"nothing": 1}, "injections": [], "lessons": []}',
        '{"event": {"host": "claude-code", "kind": "Stop", "session": {}, "cwd": "", "at": 1.5, "id": "x"}, "injections": [], "lessons": []}',
        '{"event": {"host": "claude-code", "kind": "Stop", "session": "s", "cwd": "", "at": "noon", "id": "x"}, "injections": [], "lessons": []}',
    ],
)
def test_a_spooled_file_that_is_not_one_is_set_aside_and_does_not_stop_the_others(house: House, text: str) -> None:
    house.stay_cold()
    house.ask("s1", used("Bash", {"command": "word"}, ""))
    with open(os.path.join(house.home, "spool", "0.json"), "w") as file:
        file.write(text)
    house.stored("events")
    assert (list_spool(house), count_stored_words(house.home)) == (["0.json.bad"], Counter(["word"]))


def test_what_cannot_be_opened_in_the_spool_stays_there_and_does_not_stop_the_others(house: House) -> None:
    house.stay_cold()
    house.ask("s1", used("Bash", {"command": "word"}, ""))
    spool_folder = os.path.join(house.home, "spool")
    os.mkdir(os.path.join(spool_folder, "0.json"))
    os.mkdir(os.path.join(spool_folder, "0.new"))
    os.utime(os.path.join(spool_folder, "0.new"), (0, 0))
    os.symlink("1.json", os.path.join(spool_folder, "1.json"))
    assert house.ok("sessions", "show", "s1").out
    assert (list_spool(house), count_stored_words(house.home)) == (["0.json", "0.new", "1.json"], Counter(["word"]))
    assert "0.json cannot be opened" in house.cli("doctor").out
