"""One worker per home: it starts once, leaves when told, comes back with a session, and never as a storm."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

from tests.support.house import GIT_STASH, House, bash, wait_for


def list_workers(house: House) -> list[int]:
    """Return the worker processes of this home, from /proc."""
    process_ids = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/cmdline", "rb") as file:
                    words = file.read().split(b"\0")
                with open(f"/proc/{name}/environ", "rb") as file:
                    is_ours = f"HARDWON_HOME={house.home}".encode() in file.read().split(b"\0")
            except OSError:
                continue
            if is_ours and b"hardwon.worker" in words:
                process_ids.append(int(name))
    return process_ids


def test_status_is_valid_json_running_or_stopped(house: House) -> None:
    stopped = house.status()
    assert {key: stopped[key] for key in ("running", "pid", "port", "socket")} == {
        "running": False,
        "pid": None,
        "port": None,
        "socket": None,
    }
    house.ok("start")
    running = house.status()
    assert (running["running"], running["home"], list_workers(house)) == (True, house.home, [running["pid"]])
    assert os.path.exists(running["socket"])


def test_many_starts_make_one_worker(house: House) -> None:
    command = [sys.executable, "-m", "hardwon", "start"]
    starts = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for _ in range(6)]
    assert [start.wait() for start in starts] == [0] * 6
    assert list_workers(house) == [house.status()["pid"]]


def test_stop_leaves_no_process_and_no_socket(house: House) -> None:
    house.ok("start")
    socket = house.status()["socket"]
    house.ok("stop")
    assert (list_workers(house), os.path.exists(socket), house.status()["running"]) == ([], False, False)
    assert house.ok("stop").out == "no worker was running\n"


def test_restart_gives_another_process(house: House) -> None:
    house.ok("start")
    old_pid = house.status()["pid"]
    house.ok("restart")
    assert house.status()["pid"] != old_pid and len(list_workers(house)) == 1


def test_a_session_start_brings_the_worker_back_after_a_kill(house: House) -> None:
    house.add({**GIT_STASH, "delivery": "start"})
    house.ok("start")
    os.kill(house.status()["pid"], signal.SIGKILL)
    assert "git stash -u" in house.session_start("s1").context
    wait_for(lambda: bool(house.status()["running"]))


def test_a_tool_call_does_not_start_a_worker(house: House) -> None:
    house.add({**GIT_STASH, "delivery": "block"})
    assert house.ask("s1", bash("git stash")).denied
    assert list_workers(house) == []


def test_a_worker_that_dies_at_start_is_not_started_again_at_once_and_doctor_says_so(house: House) -> None:
    house.add({**GIT_STASH, "delivery": "start"})
    with open(os.path.join(house.home, "hardwon.db"), "w") as file:
        file.write("this is not a database, and it is long enough to be looked at as one" * 20)
    for number in range(4):
        assert "git stash -u" in house.session_start(f"s{number}").context
    assert os.path.getsize(os.path.join(house.home, "worker.starts")) == 1
    checks = {check["name"]: check for check in json.loads(house.cli("doctor", "--json").out)}
    assert checks["worker"]["well"] is False and "failed" in checks["worker"]["found"]


def test_an_edit_of_lessons_json_is_in_force_at_the_next_call_once_a_person_built(house: House) -> None:
    house.add({**GIT_STASH, "delivery": "block"})
    house.ok("start")
    assert house.ask("s1", bash("git stash")).denied
    path = os.path.join(house.home, "lessons.json")
    with open(path) as file:
        text = file.read()
    with open(path, "w") as file:
        file.write(text.replace("git stash", "git stow"))
    assert house.ask("s1", bash("git stash")).denied and house.ask("s1", bash("git stow")).raw == b"{}"
    house.ok("lessons", "build")
    assert (house.ask("s1", bash("git stash")).raw, bool(house.ask("s1", bash("git stow")).denied)) == (b"{}", True)


def test_a_broken_lessons_file_leaves_the_last_good_manifest_in_force(house: House) -> None:
    house.add({**GIT_STASH, "delivery": "block"})
    path = os.path.join(house.home, "lessons.json")
    with open(path) as file:
        text = file.read()
    with open(path, "w") as file:
        file.write(text.replace('"lessons": [', '"lessons" ['))
    house.ok("start")
    assert house.ask("s1", bash("git stash")).denied
    refused = house.cli("lessons", "check")
    assert refused.code == 1 and "line 3, column 13: expecting ':' delimiter" in refused.out


def test_the_home_and_its_files_are_the_owners_alone(house: House) -> None:
    house.add({**GIT_STASH, "delivery": "note"})
    house.ok("start")
    house.session_start("s1")
    house.ask("s1", bash("git stash"))
    open_to_others = [
        os.path.join(folder, name)
        for folder, folders, files in os.walk(house.home)
        for name in [*folders, *files]
        if not os.path.islink(os.path.join(folder, name)) and os.stat(os.path.join(folder, name)).st_mode & 0o077
    ]
    assert (open_to_others, os.stat(house.home).st_mode & 0o077) == ([], 0)


def test_the_workers_environment_has_nothing_of_the_agents(house: House) -> None:
    house.ask("s1", {"hook_event_name": "SessionStart", "source": "startup", "cwd": "/"}, env={"MY_SECRET": "hunter2"})
    wait_for(lambda: bool(house.status()["running"]))
    with open(f"/proc/{house.status()['pid']}/environ", "rb") as file:
        assert b"hunter2" not in file.read()
