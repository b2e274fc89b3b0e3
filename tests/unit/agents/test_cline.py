"""Cline: calls of several commands, results whose own `success` is wrong, and a stop that the run survives."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from click.testing import CliRunner

from hardwon.agents import read_event, write_reply
from hardwon.agents.cline.transcript import Reader
from hardwon.agents.hook_settings import load_settings
from hardwon.cli import hardwon
from hardwon.types import Event, HookReply
from tests.support.house import House
from tests.support.transcript_reading import TESTS, find_recording, read_history_lines, read_steps, summarize_steps

FOLDER = os.path.join(TESTS, "payloads", "cline", "3.0.65")


def read_recorded(name: str, **changes: Any) -> Event | None:
    with open(os.path.join(FOLDER, f"{name}.json"), encoding="utf-8") as file:
        wire = json.load(file)
    return read_event("cline", "", json.dumps({**wire, **changes}).encode())


def build_call(name: str, tool_input: object) -> Event | None:
    return read_recorded("PreToolUse-run_commands", tool_call={"id": "call_1", "name": name, "input": tool_input})


def test_every_command_of_a_call_is_seen() -> None:
    event = build_call("run_commands", {"commands": ["cd src", "git stash"]})
    assert event and (event.tool, event.command) == ("Bash", "cd src\ngit stash")
    event = build_call("run_commands", "git stash")
    assert event and (event.tool, event.command) == ("Bash", "git stash")


@pytest.mark.parametrize(
    ("name", "tool_input", "expected"),
    [
        ("read_files", {"files": [{"path": "/p/a.txt"}, {"path": "/p/b.txt"}]}, ("Read", "/p/a.txt", "")),
        ("editor", {"path": "/p/a.txt", "new_text": "x"}, ("Write", "/p/a.txt", "x")),
        ("editor", {"path": "/p/a.txt", "insert_line": 1, "new_text": "x"}, ("Edit", "/p/a.txt", "x")),
        ("search_codebase", {"queries": ["TODO"]}, ("Grep", "", "TODO")),
        ("fetch_web_content", {"requests": [{"url": "https://a.b", "prompt": "?"}]}, ("WebFetch", "", "https://a.b")),
        ("editor", None, ("Edit", "", "")),
    ],
)
def test_a_call_has_claude_codes_names(name: str, tool_input: object, expected: tuple[str, str, str]) -> None:
    event = build_call(name, tool_input)
    assert event and (event.tool, event.path, event.content) == expected


def test_each_file_of_a_patch_is_judged() -> None:
    patch = "*** Begin Patch\n*** Update File: a.txt\n+one\n*** Add File: b.txt\n+two\n*** End Patch\n"
    event = build_call("apply_patch", {"input": patch})
    assert event and [(part.tool, part.path) for part in event.parts] == [("Edit", "a.txt"), ("Write", "b.txt")]


def test_a_stopped_call_keeps_the_run_alive_and_is_not_a_failure() -> None:
    event = read_recorded("PreToolUse-run_commands")
    assert event
    reply = json.loads(write_reply(event, HookReply(deny="read this first")))
    assert "cancel" not in reply and reply["contextModification"] == "read this first"
    refused = {"id": "call_0_0", "name": "run_commands", "input": reply["overrideInput"], "output": {"error": "x"}}
    assert read_recorded("PostToolUse-run_commands", tool_result=refused) is None


def test_a_failed_edit_is_a_failure_though_cline_calls_it_a_success() -> None:
    event = read_recorded("PostToolUse-editor-fail")
    assert event and event.failed and event.response.startswith("Editor operation failed")


def test_a_sub_agents_calls_are_its_own_and_its_end_is_not_the_sessions() -> None:
    event = read_recorded("PreToolUse-editor", parent_agent_id="agent_0")
    assert event and event.subagent_id == "agent_1794843522251_ph5cc0" and event.session == "1794843521975_2sh48"
    assert read_recorded("TaskComplete", parent_agent_id="agent_0") is None
    event = read_recorded("TaskComplete")
    assert event and (event.kind, event.subagent_id, event.message) == ("Stop", "", "all done")


def test_a_session_is_read_with_its_prompt_its_folder_and_what_was_stopped() -> None:
    path = find_recording("cline", "session.messages.json")
    steps = read_steps(Reader(), read_history_lines("cline", path))
    assert {step.cwd for step in steps} == {"/home/dev/project"}
    assert summarize_steps(steps)[0] == ("person", 14, "Tidy the notes")
    outcomes = [(step.tool, step.failed, step.denied) for step in steps if step.kind == "result"]
    ran, failed, stopped = (False, False), (True, False), (False, True)
    tools = ("Bash", "Bash", "Bash", "Edit", "Edit", "Edit", "Read", "Bash")
    states = (stopped, ran, ran, stopped, ran, failed, ran, failed)
    assert outcomes == [(tool, *state) for tool, state in zip(tools, states, strict=True)]


def test_each_hook_is_a_separate_program_beside_a_persons_own(house: House) -> None:
    folder = os.path.expanduser("~/.cline/hooks")
    os.makedirs(folder)
    persons_hook = os.path.join(folder, "PreToolUse")
    with open(persons_hook, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\n")
    runner = CliRunner()
    assert runner.invoke(hardwon, ["install", "cline", "--yes"]).exit_code == 0
    paths = [file.get_settings_path() for file in load_settings("cline").files]
    assert len(paths) == 5 and all(os.access(path, os.X_OK) and os.path.dirname(path) == folder for path in paths)
    assert runner.invoke(hardwon, ["uninstall", "cline", "--yes"]).exit_code == 0
    assert os.listdir(folder) == ["PreToolUse"]


def test_a_hook_file_of_a_persons_is_not_replaced(house: House) -> None:
    path = load_settings("cline").get_settings_path()
    os.makedirs(os.path.dirname(path))
    with open(path, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\nexit 0\n")
    result = CliRunner().invoke(hardwon, ["install", "cline", "--yes"])
    assert result.exit_code != 0 and "a hook PreToolUse.sh is there" in str(result.exception)
