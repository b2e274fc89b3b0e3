"""Every recorded payload of every agent through every agent's entry: nothing is denied or approved by accident.

Agents run each other's hooks, so a payload arrives at the wrong entry in the field. That entry stays silent.
"""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from hardwon.agents import AGENT_NAMES, read_event
from hardwon.agents.hook_contract import find_sender
from tests.support.house import House, lesson
from tests.support.transcript_reading import TESTS

PAYLOADS = os.path.join(TESTS, "payloads")
# The agents whose recordings have another name than their entry, or whose entry serves several.
SENDERS = {
    "copilot-cli": ("copilot",),
    "vscode": ("copilot",),
    "qwen-code": ("qwen",),
    "deepagents-code": ("deepagents",),
    "mistral-vibe": ("vibe",),
    "opencode": ("opencode", "kilo"),
    "kilo": ("opencode", "kilo"),
}
OUR_NAMES = {
    "BeforeTool": "PreToolUse",
    "AfterTool": "PostToolUse",
    "BeforeAgent": "UserPromptSubmit",
    "AfterAgent": "Stop",
    "pre_tool": "PreToolUse",
    "post_tool": "PostToolUse",
    "post_agent": "Stop",
    "TaskStart": "SessionStart",
    "TaskComplete": "Stop",
    "agentStop": "Stop",
    "beforeSubmitPrompt": "UserPromptSubmit",
    "userPromptSubmitted": "UserPromptSubmit",
}
# Commands that the recorded sessions run; a block on each shows whether an entry reads the payload as a call.
COMMANDS = ("ls /nonexistent-dir", "echo hi", "echo one", "echo RAN-ORIGINAL", "cat notes.txt")
STOPPING_WORDS = ('"deny"', '"block"', '"ask"', '"permission', '"decision"', '"continue"', '"cancel"')
# Cline's only way to stop a call: arguments that its tools refuse.
CLINE_STOP = '"overrideInput":{"stoppedByHardwon":true}'
APPROVING_WORDS = ('"allow"', '"approve"', '"updatedInput"', '"modifiedArgs"', '"overrideInput"')


def list_payloads() -> list[tuple[str, str, str]]:
    """Return the agent, the file and our name of the event for every recorded payload."""
    rows = []
    for folder, _, names in sorted(os.walk(PAYLOADS)):
        for name in sorted(names):
            agent = os.path.relpath(folder, PAYLOADS).split(os.sep)[0]
            native_name = name.removesuffix(".json").split("-")[0]
            kind = OUR_NAMES.get(native_name, native_name[:1].upper() + native_name[1:])
            rows.append((agent, os.path.join(folder, name), kind))
    return rows


def read_payload(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def get_senders(agent: str) -> tuple[str, ...]:
    return SENDERS.get(agent, (agent,))


def test_the_sender_is_known_by_the_shape_or_not_at_all() -> None:
    unknown = []
    for agent, path, _ in list_payloads():
        wire = json.loads(read_payload(path))
        sender = find_sender(wire) if isinstance(wire, dict) else ""
        assert sender in ("", *get_senders(agent)), path
        if not sender:
            unknown.append(f"{agent}/{os.path.basename(path)}")
    # Neither is a hook's payload: a plugin's end, whatever its program, and rows of a database.
    assert set(unknown) <= {"kilo/dispose.json", "opencode/database_rows.json", "opencode/0010_messages.transform.json"}


@pytest.mark.parametrize("entry", AGENT_NAMES)
def test_a_foreign_payload_gets_no_answer(house: House, entry: str) -> None:
    for command in COMMANDS:
        house.add(lesson(command, delivery="block"))
    house.stay_cold()
    stopped = 0
    for agent, path, named_kind in list_payloads():
        payload = read_payload(path)
        for kind in dict.fromkeys((named_kind, "PreToolUse")):
            answer = house.hook(kind, payload, host=entry).decode()
            if entry == "cline":
                answer = answer.replace(CLINE_STOP, '"deny"')
            assert not any(word in answer for word in APPROVING_WORDS), (entry, path)
            is_stop = any(word in answer for word in STOPPING_WORDS)
            if entry not in get_senders(agent):
                assert answer.strip() in ("", "{}"), (entry, kind, path)
            elif is_stop:
                assert "Blocked by hardwon" in answer, path
                assert any(command.encode() in payload for command in COMMANDS), path
                stopped += 1
    assert stopped  # its own calls are still guarded


@pytest.mark.parametrize("entry", AGENT_NAMES)
@pytest.mark.parametrize("wire", [{}, {"hook_event_name": 7}, {"session_id": None, "tool_input": []}, [], "x", None, 3])
def test_no_shape_stops_a_call(house: House, entry: str, wire: Any) -> None:
    house.stay_cold()
    answer = house.hook("PreToolUse", json.dumps(wire).encode(), host=entry)
    assert not any(word in answer.decode() for word in (*STOPPING_WORDS, *APPROVING_WORDS))


def test_an_agent_that_moved_its_folder_keeps_its_guards() -> None:
    wire = {
        "session_id": "s1",
        "transcript_path": "/srv/config/projects/p/s1.jsonl",
        "cwd": "/home/dev",
        "hook_event_name": "PreToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": "true"},
        "tool_use_id": "toolu_1",
    }
    event = read_event("claude-code", "PreToolUse", json.dumps(wire).encode())
    assert event and event.command == "true"
