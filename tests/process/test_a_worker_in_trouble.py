"""A worker that is stuck, whose status file is gone, or that has no room for the events it gets."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import sqlite3
import threading
from contextlib import closing

import pytest

from hardwon.sessions import ingest
from hardwon.store import db
from hardwon.worker import lifecycle
from hardwon.worker.hook_responder import HookResponder
from tests.support.house import GIT_STASH, House, bash, used, wait_for


@pytest.mark.parametrize("text", [None, "", "{", "[]", "{}", '{"pid": 1}'])
def test_a_worker_writes_its_status_file_again_by_itself(house: House, text: str | None) -> None:
    house.start_with(tick=0.05)
    status_before = house.status()
    path = os.path.join(house.home, "worker.json")
    os.unlink(path)
    if text is not None:
        with open(path, "w") as file:
            file.write(text)
    wait_for(lambda: lifecycle.read_status(house.home).running)
    status_after = house.status()
    assert (status_after["pid"], status_after["since"]) == (status_before["pid"], status_before["since"])


def test_a_worker_that_is_stuck_is_asked_once_at_the_start_of_a_session(house: House) -> None:
    """What it costs is what one question costs: docs/hooks.md says how long that is."""
    house.add({**GIT_STASH, "delivery": "block"})
    messages: list[bytes] = []
    address = os.path.join(house.home, "mute.sock")

    def listen(listener: socket.socket) -> None:
        while True:
            try:
                line, _ = listener.accept()
            except OSError:
                return
            messages.append(line.recv(1 << 20))
            connections.append(line)

    connections: list[socket.socket] = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(8)
        os.symlink(address, os.path.join(house.home, "socket"))
        thread = threading.Thread(target=listen, args=(listener,), daemon=True)
        thread.start()
        assert "hardwon" in house.session_start("s1").context
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
    assert [message.split(b"\n")[0].split()[3] for message in messages if message] == [b"SessionStart"]
    for line in connections:
        line.close()


def test_a_stopped_worker_still_leaves_the_guards(house: House) -> None:
    house.add({**GIT_STASH, "delivery": "block"})
    house.ok("start")
    pid = house.status()["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        assert house.session_start("s1").context
        assert house.ask("s1", bash("git stash")).denied
    finally:
        os.kill(pid, signal.SIGCONT)


def report_call(desk: HookResponder, number: int) -> None:
    wire = {"session_id": "s1", **used("Bash", {"command": f"word{number}"}, "done")}
    desk.answer(f"hardwon 1 claude-code PostToolUse {number:032x}\n".encode() + json.dumps(wire).encode())


@pytest.fixture
def home_without_room(own_home: str) -> str:
    """A home in which neither the spool nor, while somebody holds it, the database can be written."""
    home = os.path.join(own_home, ".hardwon")
    db.connect(home).close()
    with open(os.path.join(home, "spool"), "w"):
        return home


def test_what_had_no_room_is_spooled_when_the_worker_ends(home_without_room: str) -> None:
    home, database = home_without_room, os.path.join(home_without_room, "hardwon.db")
    with (
        closing(db.connect(home, busy_milliseconds=0)) as connection,
        closing(sqlite3.connect(database, isolation_level=None)) as locking_connection,
    ):
        desk = HookResponder(home, connection)
        locking_connection.execute("begin immediate")
        for number in range(3):
            report_call(desk, number)
        assert desk.has_unwritten_events
        os.unlink(os.path.join(home, "spool"))
        desk.save_unwritten_events(seconds=0)
        assert not desk.has_unwritten_events
        locking_connection.execute("rollback")
        assert ingest.drain_spool(home, connection, lambda prompt, cwd: "") == 3


def test_what_had_no_room_to_the_end_is_counted_in_the_log(
    home_without_room: str, caplog: pytest.LogCaptureFixture
) -> None:
    home, database = home_without_room, os.path.join(home_without_room, "hardwon.db")
    os.makedirs(os.path.join(home, "logs"))
    for name in ("worker.log", "worker.log.1"):
        with open(os.path.join(home, "logs", name), "w") as file:
            file.write("said before\n")
    with (
        closing(db.connect(home, busy_milliseconds=0)) as connection,
        closing(sqlite3.connect(database, isolation_level=None)) as locking_connection,
        caplog.at_level(logging.ERROR),
    ):
        desk = HookResponder(home, connection)
        locking_connection.execute("begin immediate")
        for number in range(3):
            report_call(desk, number)
        desk.save_unwritten_events(seconds=0)
    assert "3 events were LOST" in caplog.text
    assert os.listdir(os.path.join(home, "logs")) == ["worker.log"], "old logs make room for events"
