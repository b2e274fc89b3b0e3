"""With the worker away and the compiled manifest gone: nothing told is lost, it is made once, and not in vain."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from hardwon import paths
from tests.support.house import House, bash, lesson, prompt, wait_for


@pytest.fixture
def bare(house: House) -> House:
    """A home with a lesson in force, no worker, and no manifest."""
    house.add(lesson(r"\bgit stash\b", delivery="hold"))
    house.stay_cold()
    os.unlink(os.path.join(house.home, paths.LESSON_INDEX))
    return house


@contextmanager
def builds_held(house: House) -> Iterator[None]:
    """Whoever builds the manifest meanwhile waits."""
    with open(os.path.join(house.home, "manifest.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def begun(house: House, payload: dict[str, object]) -> subprocess.Popen[bytes]:
    wire = json.dumps({"session_id": "s1", **payload}).encode()
    asked = subprocess.Popen(
        house._command(str(payload["hook_event_name"])),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=house.environment(),
    )
    assert asked.stdin
    asked.stdin.write(wire)
    asked.stdin.close()
    asked.stdin = None  # else `communicate` would want it
    return asked


def builders(house: House) -> list[str]:
    mark, found = f"HARDWON_HOME={house.home}".encode(), []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as words, open(f"/proc/{pid}/environ", "rb") as environ:
                if b"lessons\0build" in words.read() and mark in environ.read():
                    found.append(pid)
        except OSError:
            continue
    return found


def spooled(house: House) -> list[str]:
    folder = os.path.join(house.home, "spool")
    return [name for name in os.listdir(folder) if name.endswith(".json")] if os.path.isdir(folder) else []


def test_a_prompt_is_kept_though_the_agent_ends_the_hook_before_the_manifest_is_there(bare: House) -> None:
    with builds_held(bare):
        asked = begun(bare, prompt("mend the kite"))
        wait_for(lambda: bool(spooled(bare)))
        asked.kill()
        asked.communicate()
    bare.ok("start")
    wait_for(lambda: [row["prompt"] for row in bare.stored("prompts")] == ["mend the kite"])


def test_however_many_calls_wait_it_is_built_once_and_each_is_held(bare: House) -> None:
    with builds_held(bare):
        asked = [begun(bare, bash("git stash", session_id=f"s{number}")) for number in range(3)]
        wait_for(lambda: bool(builders(bare)))
        assert len(builders(bare)) == 1
    answers = [one.communicate()[0] for one in asked]
    assert all(b"Held once by hardwon" in answer for answer in answers)


def test_what_cannot_be_built_is_tried_again_only_when_it_is_another(bare: House) -> None:
    path, stamp = os.path.join(bare.home, paths.LESSONS), os.path.join(bare.home, paths.FAILED_BUILD)
    with open(path) as file:
        good = file.read()
    with open(path, "w") as file:
        file.write("{ not json")
    assert bare.ask("s1", bash("git stash")).denied == ""
    first = os.stat(stamp).st_mtime_ns
    assert bare.ask("s1", bash("git stash")).denied == "" and os.stat(stamp).st_mtime_ns == first
    with open(path, "w") as file:
        file.write(good)
    assert "Held once by hardwon" in bare.ask("s1", bash("git stash")).denied


def test_with_something_else_in_its_place_what_is_told_is_kept(bare: House) -> None:
    os.mkdir(os.path.join(bare.home, paths.LESSON_INDEX))
    bare.ask("s1", prompt("mend the kite"))
    assert len(spooled(bare)) == 1


def test_a_project_that_is_left_out_stays_out_while_lessons_are_broken(
    house: House, tmp_path: os.PathLike[str]
) -> None:
    house.add(lesson("anything"))
    house.ok("start")
    with open(os.path.join(house.home, paths.LESSONS), "w") as file:
        file.write("{ not json")
    house.cli("config", "set", "denyProjects", json.dumps([str(tmp_path)]))
    with open(os.path.join(house.home, paths.CONFIG)) as file:
        assert str(tmp_path) in file.read()
    house.ask("s1", prompt("not to be kept", cwd=str(tmp_path)))
    house.ask("s2", prompt("to be kept"))
    wait_for(lambda: bool(house.stored("prompts")))
    assert [row["prompt"] for row in house.stored("prompts")] == ["to be kept"]
