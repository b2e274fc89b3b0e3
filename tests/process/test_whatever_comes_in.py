"""A hook is given anything at all: it exits 0 and prints `{}` or a right answer, with the worker there or away."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.house import GIT_STASH, HOOK, House, bash, call, lesson, used

PAYLOADS = os.path.join(os.path.dirname(os.path.dirname(__file__)), "payloads", "claude-code")
EVENTS = [
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "SubagentStart",
    "Stop",
    "SessionEnd",
    "NoSuch",
]
ODD = {
    "empty": b"",
    "white space": b"  \n",
    "not JSON": b"{not json}",
    "cut off": b'{"session_id": "s1", "tool_na',
    "not UTF-8": b'{"session_id":"s1","tool_name":"Bash","tool_input":{"command":"ls \xff\xfe"}}',
    "null": b"null",
    "a list": b'["PreToolUse"]',
    "a number": b"17",
    "wrong types": b'{"session_id":7,"cwd":[],"tool_name":{},"tool_input":"x","tool_use_id":null,"hook_event_name":[]}',
    "no session": b'{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls"}}',
    "a path for a session": json.dumps({"session_id": "../../../../etc/passwd", **bash("git stash -h")}).encode(),
    "lone surrogates": b'{"session_id":"\\ud800","tool_name":"Bash","tool_input":{"command":"git stash \\udfff"}}',
    "nested deeply": b'{"tool_input":' * 100_000,
    "NULs": json.dumps({"session_id": "s\0", **bash("git stash\0")}).encode(),
    "a path of 800 kB": json.dumps({"session_id": "s1", **call("Edit", {"file_path": "/a" * 400_000})}).encode(),
    "a folder of 800 kB": json.dumps({"session_id": "s1", **bash("ls"), "cwd": "/a" * 400_000}).encode(),
    "a glob of 1 MB": json.dumps(
        {"session_id": "s1", **call("Grep", {"pattern": "x", "glob": "**/" * 350_000})}
    ).encode(),
    "100,000 keys": json.dumps(
        {"session_id": "s1", **call("mcp__x__y", {f"k{n}": "v" for n in range(100_000)})}
    ).encode(),
    "a session of 600 kB": json.dumps({**bash("git stash"), "session_id": "s" * 600_000}).encode(),
    "5 MB": json.dumps({"session_id": "s1", **bash("echo " + "x y\n" * 1_250_000)}).encode(),
}


@pytest.fixture(scope="module")
def blocking_house(shared_house: House) -> House:
    shared_house.add({**GIT_STASH, "delivery": "block"})
    return shared_house


@pytest.fixture(scope="module", params=["worker up", "worker down"])
def guarded_house(request: pytest.FixtureRequest, blocking_house: House) -> House:
    """One house that all tests of this module share, with the worker up and then down."""
    blocking_house.ok("start" if request.param == "worker up" else "stop")
    blocking_house.stay_cold()
    return blocking_house


@pytest.mark.parametrize("name", ODD)
def test_odd_input_is_answered_with_nothing_or_rightly(guarded_house: House, name: str) -> None:
    for event in EVENTS if len(ODD[name]) < 10_000 else ["PreToolUse"]:
        answer = json.loads(guarded_house.hook(event, ODD[name]).strip() or b"{}")
        about_a_call = event == "PreToolUse" or b'"hook_event_name": "PreToolUse"' in ODD[name]
        if b"git stash" in ODD[name] and about_a_call:
            assert answer["hookSpecificOutput"]["permissionDecision"] == "deny"
        else:
            assert is_nothing_or_an_opening(event, answer)


def test_a_guard_in_five_megabytes_still_denies(guarded_house: House) -> None:
    assert guarded_house.ask("s1", bash("echo " + "x y\n" * 1_250_000 + "git stash")).denied


def test_a_guard_holds_for_a_path_of_800_kb(guarded_house: House) -> None:
    content = lesson(triggers={"toolNames": ["Edit"], "contentPatterns": ["zimtwaffel"]}, delivery="block")
    folder = lesson(triggers={"toolNames": ["Write"], "pathPatterns": ["/generated/**"]}, delivery="block")
    for record in (content, folder):
        guarded_house.add(record)
    long = "/generated" + "/a" * 400_000
    assert guarded_house.ask("s1", call("Edit", {"file_path": long, "new_string": "zimtwaffel"})).denied
    assert guarded_house.ask("s1", call("Write", {"file_path": long, "content": "x"})).denied
    home = "/" + "x/../" * 200_000 + guarded_house.home.lstrip("/")
    assert guarded_house.ask("s1", call("Write", {"file_path": f"{home}/lessons.json", "content": "x"})).denied


@pytest.mark.parametrize(
    "response",
    [
        pytest.param({"stdout": "harbour log line\n" * 330_000, "stderr": "the last word"}, id="5 MB of text"),
        pytest.param([{"type": "text", "text": "harbour log"}] * 100_000, id="100,000 blocks"),
    ],
)
def test_a_large_result_is_kept_cut(guarded_house: House, response: object) -> None:
    session = f"large-{guarded_house.status()['running']}-{len(str(response))}"
    guarded_house.ask(session, used("Bash", {"command": "make"}, response))
    (event,) = [
        row for row in guarded_house.stored("events") if row["session"] == find_session_number(guarded_house, session)
    ]
    assert event["response"].startswith("harbour log") and len(event["response"]) < 100_000
    assert "characters cut" in event["response"] or "items left out" in event["response"]


def find_session_number(house: House, name: str) -> int:
    (number,) = [row["id"] for row in house.stored("sessions") if row["session"] == name]
    return int(number)


def test_every_recorded_payload_is_answered(guarded_house: House) -> None:
    count = 0
    for path in list_payload_paths():
        with open(path, "rb") as file:
            payload = file.read()
        event = json.loads(payload)["hook_event_name"]
        assert is_nothing_or_an_opening(event, json.loads(guarded_house.hook(event, payload).strip() or b"{}")), path
        count += 1
    assert count > 100


def is_nothing_or_an_opening(event: str, answer: dict[str, Any]) -> bool:
    """Return whether the answer is empty, or for the start of a session or sub-agent, how to report a lesson."""
    if not answer:
        return True
    hook_output = answer["hookSpecificOutput"]
    opens = event in ("SessionStart", "SubagentStart") and hook_output["hookEventName"] == event
    return opens and hook_output["additionalContext"].startswith("<hardwon-context>\n")


def list_payload_paths() -> Iterator[str]:
    for folder, _, names in os.walk(PAYLOADS):
        yield from (os.path.join(folder, name) for name in names)


def test_an_unknown_host_is_answered_with_nothing(guarded_house: House) -> None:
    home = guarded_house.home
    for words in ([], ["claude-code"], ["no-such-host", "PreToolUse", home], ["claude-code", "PreToolUse", "/nowhere"]):
        run = subprocess.run([sys.executable, "-I", "-S", HOOK, *words], input=b"{}", capture_output=True)
        assert (run.returncode, run.stdout in (b"", b"{}")) == (0, True)


def test_a_mute_listener_in_the_workers_place_does_not_void_the_guard(house: House) -> None:
    house.add({**GIT_STASH, "delivery": "block"})
    address = os.path.join(house.home, "mute.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(8)
        os.symlink(address, os.path.join(house.home, "socket"))
        assert house.ask("s1", bash("git stash")).denied


def test_a_listener_that_speaks_another_protocol_does_not_void_the_guard(house: House) -> None:
    house.add({**GIT_STASH, "delivery": "block"})
    house.ok("start")
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(os.readlink(os.path.join(house.home, "socket")))
        line.sendall(b"hardwon 99 claude-code PreToolUse x\n{}")
        line.shutdown(socket.SHUT_WR)
        assert line.recv(100) == b""
