"""How a worker comes to its end: by itself, for a newer one, or when told; and that nothing is lost by it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any

import httpx
import pytest

import hardwon
from hardwon.fallback import worker_start
from hardwon.store import db, retention
from hardwon.worker.lifecycle import can_exit_idle
from tests.stories.test_retention import create_old_database, store_session, wait_until
from tests.stories.test_the_viewer import open_browser
from tests.support.house import HOOK, House, call, find_processes_of

PACKAGE = os.path.dirname(os.path.abspath(hardwon.__file__))

# A real worker, whose clock runs as fast as the test wants.
WORKER = """
import sys, time
home, package, seconds = sys.argv[1:4]
sys.path.insert(0, package)
from hardwon.worker import hook_server
sys.exit(hook_server.main(home, seconds=eval(seconds), tick=0.05))
"""


class WorkerStarter:
    """Owns workers that a test started by itself."""

    def __init__(self, home: str) -> None:
        self.home, self.running = home, list[subprocess.Popen[bytes]]()

    def start_worker(
        self, *, speed: float = 1.0, seconds: str = "", package: str = os.path.dirname(PACKAGE)
    ) -> subprocess.Popen[bytes]:
        """Start one and wait until it serves."""
        os.makedirs(self.home, mode=0o700, exist_ok=True)
        clock = seconds or f"lambda: time.monotonic() * {speed}"
        process = subprocess.Popen([sys.executable, "-c", WORKER, self.home, package, clock])
        self.running.append(process)
        assert wait_until(lambda: self.is_serving() or process.poll() is not None)
        return process

    def is_serving(self) -> bool:
        return os.path.exists(os.path.join(self.home, "worker.json"))

    def read_log(self) -> str:
        with open(os.path.join(self.home, "logs", "worker.log")) as file:
            return file.read()


@pytest.fixture
def worker_starter(house: House) -> Iterator[WorkerStarter]:
    starter = WorkerStarter(house.home)
    yield starter
    for worker in starter.running:
        worker.kill()
        worker.wait()


def write_config(house: House, **values: Any) -> None:
    os.makedirs(house.home, mode=0o700, exist_ok=True)
    with open(os.path.join(house.home, "config.json"), "w") as file:
        json.dump(values, file)


def build_tell(session: str, number: int, text: str = "done") -> bytes:
    """Return what Claude Code sends after a call."""
    payload = call("Bash", {"command": f"echo {number}"}, hook_event_name="PostToolUse", tool_use_id=f"toolu_{number}")
    response = {"stdout": text, "stderr": "", "interrupted": False}
    return json.dumps({"session_id": session, **payload, "tool_response": response}).encode()


def list_stored(house: House) -> list[str]:
    """Return the ids of the calls in the database."""
    if not os.path.exists(os.path.join(house.home, "hardwon.db")):
        return []
    with closing(sqlite3.connect(os.path.join(house.home, "hardwon.db"))) as connection:
        return [row[0] for row in connection.execute("select tool_use_id from events where kind = 'tool'")]


def list_spooled(house: House) -> list[str]:
    folder = os.path.join(house.home, "spool")
    call_ids = []
    for name in os.listdir(folder) if os.path.isdir(folder) else []:
        if name.endswith(".json"):
            with suppress(FileNotFoundError), open(os.path.join(folder, name)) as file:  # taken in just now
                call_ids.append(json.load(file)["event"]["tool_use_id"])
    return call_ids


@pytest.mark.parametrize(
    ("quiet", "minutes", "due", "rests"),
    [
        (3599, 60, False, False),
        (3600, 60, False, True),
        (3600, 60, True, False),
        (1e9, 0, False, False),
        (-5, 1, False, False),
    ],
)
def test_a_worker_rests_after_so_many_minutes_without_a_hook_or_work(
    quiet: float, minutes: int, due: bool, rests: bool
) -> None:
    assert can_exit_idle(1000.0 + quiet, 1000.0, minutes, due) is rests


def test_a_worker_that_hears_nothing_ends_by_itself(house: House, worker_starter: WorkerStarter) -> None:
    write_config(house, idleExitMinutes=240)
    worker = worker_starter.start_worker(speed=100_000.0)
    assert worker.wait(timeout=300) == 0
    assert "stopping: idle" in worker_starter.read_log() and not house.status()["running"]
    assert not os.path.lexists(os.path.join(house.home, "socket"))


def test_a_worker_does_not_rest_while_somebody_looks_at_the_viewer_or_calls(
    house: House, worker_starter: WorkerStarter
) -> None:
    write_config(house, idleExitMinutes=60, apiPort=0)
    watch = os.path.join(os.path.dirname(house.home), "watch")

    def set_watch(minutes: float) -> None:
        with open(watch, "w"):
            os.utime(watch, (0, minutes * 60))

    def wait_for_a_round() -> bool:
        """A socket that was removed is made again at the end of each round; the first may have begun before."""
        address = os.path.realpath(os.path.join(house.home, "socket"))
        for _ in range(2):
            os.unlink(address)
            if not wait_until(lambda: os.path.exists(address) or worker.poll() is not None):
                return False
        return worker.poll() is None

    set_watch(0)
    worker = worker_starter.start_worker(seconds=f"lambda: __import__('os').stat({watch!r}).st_mtime")
    assert wait_until(lambda: house.status()["port"])
    browser = open_browser(house)
    set_watch(50)
    assert browser.get("/sessions").status_code == 200
    set_watch(100)
    assert wait_for_a_round()
    with browser.client.stream("GET", "/live"):
        set_watch(200)
        assert wait_for_a_round()
    set_watch(250)
    assert wait_for_a_round()
    with open(os.path.join(house.home, "token")) as file:
        token = {"authorization": f"Bearer {file.read().strip()}"}
    address = f"http://127.0.0.1:{house.status()['port']}/api/health"
    assert httpx.get(address, headers=token, trust_env=False).status_code == 200
    set_watch(300)
    assert wait_for_a_round()
    httpx.get(address, trust_env=False)
    browser.get("/sessions", cookie="")  # nobody who was let in
    set_watch(311)
    assert worker.wait(timeout=300) == 0


def test_a_worker_told_never_to_rest_stays(house: House, worker_starter: WorkerStarter) -> None:
    write_config(house, idleExitMinutes=0)
    worker = worker_starter.start_worker(speed=100_000.0)
    house.hook("PostToolUse", build_tell("s1", 1))
    assert list_stored(house) == ["toolu_1"] and worker.poll() is None


def test_a_worker_does_not_rest_before_the_spool_is_taken_in(house: House, worker_starter: WorkerStarter) -> None:
    write_config(house, idleExitMinutes=1)
    house.hook("PostToolUse", build_tell("s1", 1))
    with closing(db.connect(house.home)) as somebody:
        somebody.execute("begin immediate")
        worker = worker_starter.start_worker(speed=10_000.0)
        assert wait_until(lambda: "database is locked" in worker_starter.read_log())
        assert (worker.poll(), list_spooled(house)) == (None, ["toolu_1"])
        somebody.execute("rollback")
    assert worker.wait(timeout=300) == 0
    assert (list_stored(house), list_spooled(house)) == (["toolu_1"], [])
    assert "stopping: idle" in worker_starter.read_log()


def test_a_worker_outlives_the_agent_whose_hook_started_it(house: House) -> None:
    payload = json.dumps({"session_id": "s1", "hook_event_name": "SessionStart", "source": "startup", "cwd": "/"})
    command = f"{sys.executable} -I -S {HOOK} claude-code SessionStart {house.home}; sleep 60"
    agent = subprocess.Popen(
        ["/bin/sh", "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    assert agent.stdin and agent.stdout
    agent.stdin.write(payload.encode())
    agent.stdin.close()
    assert agent.stdout.read(1) == b"{"
    assert wait_until(lambda: house.status()["running"])
    pid = house.status()["pid"]
    os.killpg(agent.pid, signal.SIGHUP)
    os.killpg(agent.pid, signal.SIGKILL)
    agent.wait()
    agent.stdout.close()
    assert (os.getsid(pid), house.status()["pid"]) == (pid, pid)
    house.hook("PostToolUse", build_tell("s1", 1))
    assert list_stored(house) == ["toolu_1"]


def test_a_worker_steps_aside_when_another_version_is_installed(
    house: House, worker_starter: WorkerStarter, tmp_path_factory: pytest.TempPathFactory
) -> None:
    package = str(tmp_path_factory.mktemp("installed"))
    shutil.copytree(PACKAGE, os.path.join(package, "hardwon"), ignore=shutil.ignore_patterns("__pycache__"))
    worker = worker_starter.start_worker(package=package)
    house.hook("PostToolUse", build_tell("s1", 1))
    assert worker.poll() is None
    fresh = os.path.join(package, "fresh.py")
    with open(fresh, "w") as file:
        file.write('__version__ = "99.0"\n')
    os.replace(fresh, os.path.join(package, "hardwon", "__init__.py"))
    assert worker.wait(timeout=300) == 0
    assert "another version was installed" in worker_starter.read_log()
    house.hook("PostToolUse", build_tell("s1", 2))
    house.session_start("s2")
    assert wait_until(lambda: house.status()["running"]) and house.status()["pid"] != worker.pid
    assert wait_until(lambda: sorted(list_stored(house)) == ["toolu_1", "toolu_2"])


def test_a_worker_leaves_a_database_that_a_newer_version_brought_up_to_date(
    house: House, worker_starter: WorkerStarter
) -> None:
    worker = worker_starter.start_worker()
    with closing(sqlite3.connect(os.path.join(house.home, "hardwon.db"))) as connection:
        connection.execute("pragma user_version = 99")
    assert worker.wait(timeout=300) == 0
    assert worker_starter.read_log().count("stopping: a newer hardwon upgraded hardwon.db") == 1


def test_a_database_newer_than_the_code_is_not_served_and_starts_no_further_worker(house: House) -> None:
    os.makedirs(house.home, mode=0o700)
    with closing(sqlite3.connect(os.path.join(house.home, "hardwon.db"))) as connection:
        connection.execute("pragma user_version = 99")
    for number in range(4):
        assert house.session_start(f"s{number}").raw
        house.hook("PostToolUse", build_tell(f"s{number}", number))
    assert wait_until(lambda: not find_processes_of(house.home))
    with open(os.path.join(house.home, "logs", "worker.log")) as file:
        lines = file.read().splitlines()
    assert len(lines) == 1 and "written by a newer hardwon" in lines[0]
    assert os.path.getsize(os.path.join(house.home, "worker.starts")) == 1
    assert sorted(filter(None, list_spooled(house))) == [f"toolu_{number}" for number in range(4)]
    assert "newer hardwon" in house.ok("status").out


def test_what_was_told_while_no_worker_was_there_is_taken_in_at_its_start(house: House) -> None:
    for number in range(5):
        house.hook("PostToolUse", build_tell("s1", number))
    assert (len(list_spooled(house)), house.status()["spool"]) == (5, 5)
    house.ok("start")
    assert wait_until(lambda: not list_spooled(house))
    assert sorted(list_stored(house)) == [f"toolu_{number}" for number in range(5)]


def test_hooks_under_way_when_the_worker_is_told_to_stop_are_stored_exactly_once(house: House) -> None:
    house.ok("start")
    pid = house.status()["pid"]
    command = [sys.executable, "-I", "-S", HOOK, "claude-code", "PostToolUse", house.home]
    hooks = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(50)]
    for number, hook in enumerate(hooks):
        assert hook.stdin
        hook.stdin.write(build_tell("s1", number, "x" * 20_000))
        hook.stdin.close()
        if number == 25:
            os.kill(pid, signal.SIGTERM)
    for hook in hooks:
        assert hook.stdout and hook.stdout.read() == b"{}" and hook.wait() == 0
        hook.stdout.close()
    assert wait_until(lambda: not house.status()["running"])
    expected = sorted(f"toolu_{number}" for number in range(50))
    assert sorted({*list_stored(house), *list_spooled(house)}) == expected
    house.ok("start")
    assert wait_until(lambda: not list_spooled(house))
    assert sorted(list_stored(house)) == expected


def test_a_worker_that_is_told_to_stop_leaves_at_once_whatever_it_is_deleting(house: House) -> None:
    now = 1_790_000_000.0
    with closing(db.connect(house.home)) as store:
        store_session(store, [now - 200 * retention.DAY_SECONDS + number for number in range(50_000)], chars=1000)
        store_session(store, [now, now - 3 * retention.DAY_SECONDS], session="new")
    house.ok("start")
    house.ok("stop")
    with open(os.path.join(house.home, "logs", "worker.log")) as file:
        assert "stopped" in file.read()
    with closing(db.connect(house.home)) as store:
        assert retention.read_store_totals(store).events > 2
        assert store.execute("pragma integrity_check").fetchone()[0] == "ok"


def test_a_file_that_could_not_shrink_is_rebuilt_when_it_has_been_quiet(
    house: House, worker_starter: WorkerStarter
) -> None:
    os.makedirs(house.home, mode=0o700)
    create_old_database(house.home)
    worker_starter.start_worker(speed=10_000.0)
    with closing(db.connect(house.home)) as store:
        assert wait_until(lambda: retention.can_release_pages(store))


def test_an_edit_of_the_settings_is_in_force_at_the_next_event(house: House) -> None:
    write_config(house, maxEventChars=1000)
    house.ok("start")
    house.hook("PostToolUse", build_tell("s1", 1, "y" * 5000))
    write_config(house, maxEventChars=3000)
    house.hook("PostToolUse", build_tell("s1", 2, "y" * 5000))
    write_config(house, maxEventChars=3000, skipTools=["Bash"])
    house.hook("PostToolUse", build_tell("s1", 3, "y" * 5000))
    with closing(sqlite3.connect(os.path.join(house.home, "hardwon.db"))) as connection:
        rows = connection.execute("select tool_use_id, length(response) from events where kind = 'tool' order by id")
        lengths = dict(rows.fetchall())
    assert list(lengths) == ["toolu_1", "toolu_2"]
    assert 900 < lengths["toolu_1"] < 1300 and 2900 < lengths["toolu_2"] < 3300


def test_a_worker_looks_where_the_agents_of_the_person_keep_their_files(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "GEMINI_CLI_TRUSTED_FOLDERS_PATH", "XDG_CONFIG_HOME")
    for name in (*names, "CLAUDECODE"):
        monkeypatch.setenv(name, "/elsewhere")
    assert set(worker_start.build_environment(house.home)) & {*names, "CLAUDECODE"} == {*names}
