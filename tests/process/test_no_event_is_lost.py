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


def tellers(house: House, first: int = 0, last: int = EVENTS) -> list[subprocess.Popen[bytes]]:
    words = [sys.executable, "-c", TELLER, sys.executable, HOOK, house.home]
    return [subprocess.Popen([*words, str(first + n), str(last), str(PROCESSES)]) for n in range(PROCESSES)]


def spooled(house: House) -> list[str]:
    folder = os.path.join(house.home, "spool")
    return sorted(os.listdir(folder)) if os.path.isdir(folder) else []


def words_stored(home: str) -> Counter[str]:
    """How often each told word is in the database, as it is now."""
    connection = sqlite3.connect(os.path.join(home, "hardwon.db"))
    try:
        rows = connection.execute(
            "select prompt from prompts union all select response from events where kind = 'Stop' union all"
            " select json_extract(input, '$.command') from events where kind = 'tool'"
        ).fetchall()
    finally:
        connection.close()
    return Counter(word for (word,) in rows)


def all_of_them() -> Counter[str]:
    return Counter(f"word{number}" for number in range(EVENTS))


def wait_for_more(house: House, telling: list[subprocess.Popen[bytes]]) -> None:
    """Until the worker has taken something in, or there is nobody left to tell it anything."""
    before = words_stored(house.home).total()
    wait_for(lambda: words_stored(house.home).total() > before or all(teller.poll() is not None for teller in telling))


def test_nothing_is_lost_or_doubled_while_the_worker_is_killed_again_and_again(house: House) -> None:
    house.ok("start")
    for first in range(0, EVENTS, EVENTS // 4):
        telling = tellers(house, first, first + EVENTS // 4)
        while any(teller.poll() is None for teller in telling):
            house.ok("start")
            wait_for_more(house, telling)
            house.kill()
        assert [teller.wait() for teller in telling] == [0] * PROCESSES
    house.ok("start")
    wait_for(lambda: not spooled(house))
    assert words_stored(house.home) == all_of_them()
    numbers = [row["number"] for row in house.stored("prompts")]
    assert Counter(numbers) == Counter(
        n for s in range(7) for n in range(1, 1 + sum(n % 7 == s for n in range(2, EVENTS, 3)))
    )


def test_nothing_is_lost_with_the_worker_away_throughout(house: House) -> None:
    telling = tellers(house)
    assert [teller.wait() for teller in telling] == [0] * PROCESSES
    assert len(spooled(house)) == EVENTS
    house.ok("start")
    wait_for(lambda: not spooled(house))
    assert words_stored(house.home) == all_of_them()


def test_the_worker_and_a_command_may_take_in_the_same_spool(house: House) -> None:
    house.stay_cold()
    for number in range(20):
        house.ask("s1", used("Bash", {"command": f"word{number}"}, ""))
    reading = [
        subprocess.Popen([sys.executable, "-m", "hardwon", "deliveries"], stdout=subprocess.DEVNULL) for _ in range(3)
    ]
    house.ok("start")
    assert [reader.wait() for reader in reading] == [0] * 3
    wait_for(lambda: not spooled(house))
    assert words_stored(house.home) == Counter(f"word{number}" for number in range(20))


def mute(line: socket.socket) -> None:
    """Says nothing, ever; the line stays open as long as the test."""


def deaf(line: socket.socket) -> None:
    line.close()


def cut_off(line: socket.socket) -> None:
    with suppress(BrokenPipeError):  # on a busy machine the hook may have given up already
        line.sendall(b"{")
    line.close()


@pytest.mark.parametrize("way", [mute, deaf, cut_off])
@pytest.mark.parametrize(
    "told",
    [
        used("Bash", {"command": "word"}, ""),
        prompt("word"),
        happened("Stop", last_assistant_message="word"),
        happened("SessionStart", source="startup"),
    ],
)
def test_a_listener_that_does_not_answer_costs_little_and_loses_nothing(
    house: House, tmp_path: Any, way: Callable[[socket.socket], None], told: dict[str, Any]
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
            way(lines[-1])

    serving = threading.Thread(target=serve, daemon=True)
    serving.start()
    os.symlink(address, os.path.join(house.home, "socket"))
    try:
        words = [sys.executable, "-I", "-S", HOOK, "claude-code", told["hook_event_name"], house.home]
        wire = json.dumps({"session_id": "s1", **told}).encode()
        done = subprocess.run(words, input=wire, capture_output=True, timeout=120)
        assert (done.returncode, done.stdout, len(spooled(house))) == (0, b"{}", 1)
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for line in lines:
            line.close()
    rows = [*house.stored("prompts"), *house.stored("events")]
    assert len(rows) == 1


@pytest.fixture
def small_disk(tmp_path: object) -> Iterator[str]:
    place = str(tmp_path)
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", place], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"no small file system can be mounted here: {made.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", place])


def fill(disk: str) -> None:
    """Leave not a byte free."""
    try:
        with open(os.path.join(disk, "ballast"), "wb", buffering=0) as file:
            while True:
                file.write(b"x" * 4096)
    except OSError:
        pass


@pytest.fixture
def full(small_disk: str) -> Iterator[House]:
    """A house on a small disk, its worker up."""
    house = House(os.path.join(small_disk, "hardwon"), with_processes=True)
    house.ok("start")
    house.ask("s1", used("Bash", {"command": "before"}, ""))
    yield house
    house.leave()


def told_straight(house: House, number: int) -> bool:
    """Tell the worker over its socket as the hook does; whether it said that it has it."""
    wire = {"session_id": "s1", **used("Bash", {"command": f"word{number}"}, "y " * 2000)}
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(120)
        line.connect(os.readlink(os.path.join(house.home, "socket")))
        line.sendall(f"hardwon 1 claude-code PostToolUse {number:032x}\n".encode() + json.dumps(wire).encode())
        line.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: line.recv(4096), b""))
    return answer.endswith(b"\n")


def test_with_the_disk_full_for_a_while_a_running_worker_loses_nothing(full: House, small_disk: str) -> None:
    fill(small_disk)
    for number in range(30):
        full.ask("s1", used("Bash", {"command": f"word{number}"}, "y " * 2000))
    os.unlink(os.path.join(small_disk, "ballast"))
    for number in range(30, 40):
        full.ask("s1", used("Bash", {"command": f"word{number}"}, "y " * 2000))
    wanted = Counter(["before", *(f"word{number}" for number in range(40))])
    wait_for(lambda: words_stored(full.home).total() >= wanted.total())
    assert words_stored(full.home) == wanted
    assert [name for name in spooled(full) if name.endswith(".new")] == []


def test_what_was_acknowledged_with_the_disk_full_outlives_the_worker(full: House, small_disk: str) -> None:
    fill(small_disk)
    acknowledged = {f"word{number}" for number in range(30) if told_straight(full, number)}
    full.kill()
    os.unlink(os.path.join(small_disk, "ballast"))
    full.ok("start")
    assert told_straight(full, 30)
    wait_for(lambda: not spooled(full))
    stored = words_stored(full.home)
    assert acknowledged | {"before", "word30"} <= set(stored) and set(stored.values()) == {1}
    assert len(acknowledged) < 30, "the disk was not full"


def test_with_the_clock_set_back_what_happens_now_still_comes_last(house: House) -> None:
    house.stay_cold()
    for told in (prompt("one"), used("Bash", {"command": "first"}, ""), happened("SessionEnd", reason="logout")):
        house.ask("s1", told)
    for name in spooled(house):
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
    wait_for(lambda: not spooled(house))
    for told in (happened("SessionStart", source="resume"), prompt("two"), used("Bash", {"command": "second"}, "")):
        house.ask("s1", told)
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


def killed_at(call: str, number: int, words: list[str], wire: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run a command that is killed as it makes this system call for the nth time; its code is 0 if it never did."""
    found = shutil.which("strace")
    if found is None:
        pytest.skip("strace is not here to kill at a chosen system call")
    before = [
        found,
        "-f",
        "-qqq",
        "-o",
        os.devnull,
        "-e",
        f"trace={call}",
        "-e",
        f"inject={call}:signal=KILL:when={number}",
    ]
    done = subprocess.run([*before, *words], input=wire, capture_output=True)
    if b"ptrace" in done.stderr.lower():
        pytest.skip(f"no process can be traced here: {done.stderr.decode().strip()}")
    return done


@pytest.mark.parametrize(("call", "times"), [("mkdir", 1), ("write", 2), ("rename", 1)])
def test_a_hook_killed_at_any_write_leaves_its_event_whole_or_not_at_all(house: House, call: str, times: int) -> None:
    house.stay_cold()
    words = [sys.executable, "-I", "-S", HOOK, "claude-code", "PostToolUse", house.home]
    for number in range(1, 20):
        shutil.rmtree(os.path.join(house.home, "spool"), ignore_errors=True)
        wire = json.dumps({"session_id": "s1", **used("Bash", {"command": f"word{number}"}, "y " * 20_000)}).encode()
        done = killed_at(call, number, words, wire)
        ready = [name for name in spooled(house) if name.endswith(".json")]
        for name in ready:
            with open(os.path.join(house.home, "spool", name)) as file:
                assert json.load(file)["event"]["command"] == f"word{number}"
        house.stored("events")
        assert words_stored(house.home)[f"word{number}"] == len(ready)
        assert ready or not done.stdout
        if done.returncode == 0:
            break
    assert (done.stdout, len(ready), number) == (b"{}", 1, times + 1)


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
        done = killed_at(call, number, [sys.executable, "-c", DRAIN, home])
        with closing(db.connect(home)) as store:
            ingest.drain_spool(home, store, lambda *_: "")
        assert words_stored(home) == Counter(["one", "two"]) and os.listdir(os.path.join(home, "spool")) == []
        shutil.rmtree(home)
        if done.returncode == 0:
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
    assert spooled(house) == ["young.new"] and words_stored(house.home) == Counter(["word"])


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
    assert (spooled(house), words_stored(house.home)) == (["0.json.bad"], Counter(["word"]))


def test_what_cannot_be_opened_in_the_spool_stays_there_and_does_not_stop_the_others(house: House) -> None:
    house.stay_cold()
    house.ask("s1", used("Bash", {"command": "word"}, ""))
    place = os.path.join(house.home, "spool")
    os.mkdir(os.path.join(place, "0.json"))
    os.mkdir(os.path.join(place, "0.new"))
    os.utime(os.path.join(place, "0.new"), (0, 0))
    os.symlink("1.json", os.path.join(place, "1.json"))
    assert house.ok("sessions", "show", "s1").out
    assert (spooled(house), words_stored(house.home)) == (["0.json", "0.new", "1.json"], Counter(["word"]))
    assert "0.json cannot be opened" in house.cli("doctor").out
