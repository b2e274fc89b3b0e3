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
def house_without_manifest(house: House) -> House:
    """A home with a lesson in force, no worker, and no manifest."""
    house.add(lesson(r"\bgit stash\b", delivery="hold"))
    house.stay_cold()
    os.unlink(os.path.join(house.home, paths.LESSON_INDEX))
    return house


@contextmanager
def hold_builds(house: House) -> Iterator[None]:
    """Make every build of the manifest wait until the end of the block."""
    with open(os.path.join(house.home, "manifest.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def start_hook(house: House, payload: dict[str, object]) -> subprocess.Popen[bytes]:
    wire = json.dumps({"session_id": "s1", **payload}).encode()
    hook = subprocess.Popen(
        house._command(str(payload["hook_event_name"])),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=house.environment(),
    )
    assert hook.stdin
    hook.stdin.write(wire)
    hook.stdin.close()
    hook.stdin = None  # else `communicate` would want it
    return hook


def list_builders(house: House) -> list[str]:
    mark, process_ids = f"HARDWON_HOME={house.home}".encode(), []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as words, open(f"/proc/{pid}/environ", "rb") as environ:
                if b"lessons\0build" in words.read() and mark in environ.read():
                    process_ids.append(pid)
        except OSError:
            continue
    return process_ids


def list_spool(house: House) -> list[str]:
    folder = os.path.join(house.home, "spool")
    return [name for name in os.listdir(folder) if name.endswith(".json")] if os.path.isdir(folder) else []


def test_a_prompt_is_kept_though_the_agent_ends_the_hook_before_the_manifest_is_there(
    house_without_manifest: House,
) -> None:
    with hold_builds(house_without_manifest):
        hook = start_hook(house_without_manifest, prompt("mend the kite"))
        wait_for(lambda: bool(list_spool(house_without_manifest)))
        hook.kill()
        hook.communicate()
    house_without_manifest.ok("start")
    wait_for(lambda: [row["prompt"] for row in house_without_manifest.stored("prompts")] == ["mend the kite"])


def test_however_many_calls_wait_it_is_built_once_and_each_is_held(house_without_manifest: House) -> None:
    with hold_builds(house_without_manifest):
        hooks = [start_hook(house_without_manifest, bash("git stash", session_id=f"s{number}")) for number in range(3)]
        wait_for(lambda: bool(list_builders(house_without_manifest)))
        assert len(list_builders(house_without_manifest)) == 1
    answers = [hook.communicate()[0] for hook in hooks]
    assert all(b"Held once by hardwon" in answer for answer in answers)


def test_what_cannot_be_built_is_tried_again_only_when_it_is_another(house_without_manifest: House) -> None:
    path, stamp = (
        os.path.join(house_without_manifest.home, paths.LESSONS),
        os.path.join(house_without_manifest.home, paths.FAILED_BUILD),
    )
    with open(path) as file:
        good = file.read()
    with open(path, "w") as file:
        file.write("{ not json")
    assert house_without_manifest.ask("s1", bash("git stash")).denied == ""
    first = os.stat(stamp).st_mtime_ns
    assert house_without_manifest.ask("s1", bash("git stash")).denied == "" and os.stat(stamp).st_mtime_ns == first
    with open(path, "w") as file:
        file.write(good)
    assert "Held once by hardwon" in house_without_manifest.ask("s1", bash("git stash")).denied


def test_with_something_else_in_its_place_what_is_told_is_kept(house_without_manifest: House) -> None:
    os.mkdir(os.path.join(house_without_manifest.home, paths.LESSON_INDEX))
    house_without_manifest.ask("s1", prompt("mend the kite"))
    assert len(list_spool(house_without_manifest)) == 1


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
