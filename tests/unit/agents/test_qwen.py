"""Qwen Code's payloads become events, and replies have the form it honours."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from hardwon.agents.hook_settings import load_settings
from hardwon.agents.installation import build_hook_command
from hardwon.agents.qwen import parse_payload, render_reply
from hardwon.agents.qwen.transcript import Reader
from hardwon.types import Event, HookReply
from tests.support.transcript_reading import TESTS, find_recording, read_lines, read_steps

RECORDED = os.path.join(TESTS, "payloads", "qwen-code", "0.24.4")
NOTES = "/home/dev/project/notes.txt"
FAILING = "ls /nonexistent-dir; exit 3"


def parse_recorded(name: str) -> Event | None:
    with open(os.path.join(RECORDED, f"{name}.json"), "rb") as file:
        return parse_payload(name.split("-")[0], file.read())


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("SessionStart", {"kind": "SessionStart", "source": "startup"}),
        ("UserPromptSubmit", {"prompt": "Do things"}),
        ("PreToolUse-run_shell_command", {"tool": "Bash", "command": "echo hi; env | sort > env.txt"}),
        ("PreToolUse-read_file", {"tool": "Read", "path": NOTES}),
        ("PreToolUse-edit", {"tool": "Edit", "path": NOTES, "content": "line 2", "tool_use_id": "call_2_0"}),
        ("PreToolUse-write_file", {"tool": "Write"}),
        ("PostToolUse-run_shell_command", {"kind": "PostToolUse", "response": "hi", "failed": False}),
        ("PostToolUseFailure-run_shell_command-fail", {"command": FAILING, "failed": True}),
        ("PostToolUseFailure-edit-fail", {"tool": "Edit", "failed": True}),
        ("Stop", {"message": "all done"}),
    ],
)
def test_a_payload_becomes_an_event(name: str, expected: dict[str, Any]) -> None:
    event = parse_recorded(name)
    assert event and event.host == "qwen" and event.cwd == "/home/dev/project"
    assert {field: getattr(event, field) for field in expected} == expected


def test_only_the_prompt_that_was_submitted_counts() -> None:
    assert parse_recorded("UserPromptSubmit-2") is None  # sent again before each request to the model


@pytest.mark.parametrize("name", ["Notification", "PostToolBatch"])
def test_other_events_are_of_no_interest(name: str) -> None:
    assert parse_recorded(name) is None


def test_a_denial_is_sent_before_a_call_and_a_note_after_it() -> None:
    call_event, result_event = (Event("qwen", kind, "s1", "/", tool="Bash") for kind in ("PreToolUse", "PostToolUse"))
    denial = json.loads(render_reply(call_event, HookReply(deny="stop here")))
    assert denial["hookSpecificOutput"]["permissionDecisionReason"] == "stop here"
    assert json.loads(render_reply(call_event, HookReply(context="remember"))) == {}
    note = json.loads(render_reply(result_event, HookReply(context="remember")))
    assert note["hookSpecificOutput"] == {"hookEventName": "PostToolUse", "additionalContext": "remember"}
    assert json.loads(render_reply(result_event, HookReply(deny="too late"))) == {}


def test_uninstalling_restores_the_settings() -> None:
    original_settings = '{\n  "security": {"auth": {"selectedType": "openai"}}\n}\n'
    text, created_paths = load_settings("qwen").add_hooks(
        original_settings, build_hook_command("qwen", "/home/dev/.hardwon")
    )
    assert len(load_settings("qwen").find_hooks(text)) == 7
    hooks = json.loads(text)["hooks"]
    assert all(entry["hooks"][0]["timeout"] < 1000 for entries in hooks.values() for entry in entries)
    assert load_settings("qwen").remove_hooks(text, created_paths) == original_settings


def test_a_transcript_has_what_the_hooks_report() -> None:
    steps = read_steps(Reader(), read_lines(find_recording("qwen", "chat.jsonl")))
    assert [step.text for step in steps if step.kind == "person"] == ["Do things"]
    calls = {step.call: step for step in steps if step.kind == "call"}
    failed_commands = [calls[step.call].command for step in steps if step.failed and step.tool == "Bash"]
    assert failed_commands == [FAILING]
    results = {calls[step.call].command: step.text for step in steps if step.kind == "result" and step.tool == "Bash"}
    assert results["echo hi; env | sort > env.txt"] == "hi"
    failure = parse_recorded("PostToolUseFailure-run_shell_command-fail")
    assert failure and failure.response == results[FAILING] and failure.tool_use_id in calls
