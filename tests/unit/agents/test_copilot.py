"""Copilot CLI's and VS Code's payloads become events, and a reply has the form of both."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

import pytest

from hardwon.agents.copilot import parse_payload, render_reply
from hardwon.agents.copilot.transcript import Reader
from hardwon.agents.hook_settings import load_settings
from hardwon.agents.installation import build_hook_command
from hardwon.types import Event, HookReply
from tests.support.transcript_reading import TESTS, find_recording, read_lines, read_steps, summarize_steps

CLI = os.path.join(TESTS, "payloads", "copilot-cli", "1.0.102")
VSCODE = os.path.join(TESTS, "payloads", "vscode", "1.139.1-copilot-chat-0.67.0")
NOTES = "/home/dev/project/notes.txt"


def read_payload(folder: str, name: str, **changes: Any) -> bytes:
    with open(os.path.join(folder, f"{name}.json"), "rb") as file:
        wire = json.load(file)
    return json.dumps({**wire, **changes}).encode()


def parse_recorded(folder: str, name: str) -> Event | None:
    return parse_payload(name.split("-")[0], read_payload(folder, name))


CALLS = [
    (CLI, "PreToolUse-Bash", {"tool": "Bash", "command": "echo hi; env | sort > env.txt", "path": "", "content": ""}),
    (CLI, "PreToolUse-Read", {"tool": "Read", "path": NOTES}),
    (CLI, "PreToolUse-Edit", {"tool": "Edit", "path": NOTES, "content": "line 2"}),
    (CLI, "PreToolUse-Write", {"tool": "Write", "path": "/home/dev/project/new.txt", "content": "x\n"}),
    (CLI, "PreToolUse-Grep", {"tool": "Grep", "content": "hello"}),
    (CLI, "PreToolUse-Agent", {"tool": "Task", "content": "explore\nSUBPROMPT say hi"}),
    (CLI, "PostToolUse-Bash", {"kind": "PostToolUse", "failed": False}),
    (CLI, "PostToolUse-Bash-fail", {"kind": "PostToolUseFailure", "failed": True, "tool": "Bash"}),
    (CLI, "PostToolUseFailure-Edit-fail", {"failed": True, "response": "No match found"}),
    (CLI, "SessionStart", {"kind": "SessionStart", "source": "startup"}),
    (CLI, "UserPromptSubmit", {"prompt": "Do things"}),
    (CLI, "SubagentStart", {"kind": "SubagentStart", "subagent_id": "c247849c-8ceb-434b-a253-9c692ffcbf34"}),
    (CLI, "SubagentStop", {"message": "all done", "session": "f14637b9-5e08-4c85-975a-eb13df425f70"}),
    (CLI, "SessionEnd", {"kind": "SessionEnd", "message": "complete"}),
    (VSCODE, "PreToolUse-run_in_terminal", {"tool": "Bash", "tool_use_id": "call_1_0"}),
    (VSCODE, "PreToolUse-create_file", {"tool": "Write"}),
    (VSCODE, "PreToolUse-replace_string_in_file", {"tool": "Edit", "path": "/home/dev/project/a.txt"}),
    (VSCODE, "PreToolUse-grep_search", {"tool": "Grep", "content": "hello"}),
    (VSCODE, "PostToolUse-run_in_terminal", {"kind": "PostToolUse", "failed": False}),
    (VSCODE, "PostToolUse-run_in_terminal-fail", {"kind": "PostToolUseFailure", "failed": True}),
    (VSCODE, "SessionStart", {"source": "startup"}),
]


@pytest.mark.parametrize(("folder", "name", "expected"), CALLS)
def test_a_payload_becomes_an_event(folder: str, name: str, expected: dict[str, Any]) -> None:
    event = parse_recorded(folder, name)
    assert event and event.host == "copilot" and event.cwd == "/home/dev/project"
    assert {field: getattr(event, field) for field in expected} == expected


def test_a_subagents_prompt_and_end_give_no_event() -> None:
    assert parse_recorded(CLI, "UserPromptSubmit-2") is None  # the sub-agent's
    assert parse_recorded(CLI, "Stop") is None
    main_stop = parse_recorded(CLI, "Stop-2")
    assert main_stop and main_stop.kind == "Stop" and not main_stop.subagent_id


@pytest.mark.parametrize("name", ["preToolUse-bash", "userPromptSubmitted", "PermissionRequest-bash"])
def test_payloads_in_camel_case_are_ignored(name: str) -> None:
    assert parse_payload("PreToolUse", read_payload(CLI, name)) is None


def write_transcript(own_home: str, *lines: dict[str, Any]) -> None:
    folder = os.path.join(own_home, ".copilot", "session-state", "f14637b9-5e08-4c85-975a-eb13df425f70")
    os.makedirs(folder)
    with open(os.path.join(folder, "events.jsonl"), "w") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def start_call(call_id: str, command: str) -> dict[str, Any]:
    arguments = {"command": command, "description": "d"}
    return {"type": "tool.execution_start", "data": {"toolCallId": call_id, "toolName": "bash", "arguments": arguments}}


FAILING = "ls /nonexistent-dir; exit 3"


def test_a_calls_id_comes_from_the_transcript(own_home: str) -> None:
    end_line = {"type": "tool.execution_complete", "data": {"toolCallId": "call_1", "success": True}}
    write_transcript(own_home, start_call("call_1", FAILING), end_line, start_call("call_2", FAILING))
    event = parse_recorded(CLI, "PostToolUse-Bash-fail")
    assert event and event.tool_use_id == "call_2" and event.transcript.endswith("events.jsonl")


def test_a_result_without_an_id_is_left_to_the_transcript(own_home: str) -> None:
    write_transcript(own_home, start_call("call_1", "another command"))
    assert parse_recorded(CLI, "PostToolUse-Bash-fail") is None
    call_event = parse_recorded(CLI, "PreToolUse-Bash-fail")
    assert call_event and call_event.command == FAILING  # it is judged all the same


def test_a_denial_has_the_form_of_both_programs() -> None:
    event = Event("copilot", "PreToolUse", "s1", "/", tool="Bash")
    answer = json.loads(render_reply(event, HookReply(deny="stop here")))
    for form in (answer, answer["hookSpecificOutput"]):
        assert (form["permissionDecision"], form["permissionDecisionReason"]) == ("deny", "stop here")
    assert answer["hookSpecificOutput"]["hookEventName"] == "PreToolUse"


@pytest.mark.parametrize("kind", ["SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse"])
def test_a_note_has_the_form_of_both_programs(kind: str) -> None:
    answer = json.loads(render_reply(Event("copilot", kind, "s1", "/"), HookReply(context="remember")))
    assert answer["additionalContext"] == answer["hookSpecificOutput"]["additionalContext"] == "remember"
    assert "decision" not in answer and "permissionDecision" not in answer


def test_the_installed_command_succeeds_when_hardwon_is_gone(tmp_path: Any) -> None:
    def build_missing_command(event: str) -> str:
        return build_hook_command("copilot", str(tmp_path))(event).replace("/hardwon/hook.py", "/gone/hardwon/hook.py")

    text, _ = load_settings("copilot").add_hooks(load_settings("copilot").empty_settings, build_missing_command)
    for commands in load_settings("copilot").find_hooks(text).values():
        for command in (commands[0], commands[0].replace("python", "no-such-python")):
            process = subprocess.run(["/bin/sh", "-c", command], input=b"{}", capture_output=True)
            assert (process.returncode, process.stdout, process.stderr) == (0, b"", b"")


def test_uninstalling_restores_the_file_and_keeps_the_hooks_of_others() -> None:
    others = '{\n  "version": 1,\n  "hooks": {\n    "PreToolUse": [{"type": "command", "command": "lint"}]\n  }\n}\n'
    for original_text in (load_settings("copilot").empty_settings, others):
        text, created_paths = load_settings("copilot").add_hooks(
            original_text, build_hook_command("copilot", "/home/dev/.hardwon")
        )
        assert len(load_settings("copilot").find_hooks(text)) == 9
        assert all("matcher" not in line for line in text.splitlines())  # VS Code ignores matchers
        assert load_settings("copilot").remove_hooks(text, created_paths) == original_text


def test_a_transcript_of_the_cli_has_exit_codes_and_no_subagents_prompts() -> None:
    steps = read_steps(Reader(), read_lines(find_recording("copilot", "events.jsonl")))
    assert [step.text for step in steps if step.kind == "person"] == ["Do things"]
    commands = {step.call: step.command for step in steps if step.kind == "call"}
    failed_commands = [commands[step.call] for step in steps if step.failed]
    assert FAILING in failed_commands and "echo hi; env | sort > env.txt" not in failed_commands
    assert {step.cwd for step in steps} == {"/home/dev/project"}


def test_only_failures_are_taken_from_a_transcript_of_vscode() -> None:
    steps = read_steps(Reader(), read_lines(find_recording("copilot", "vscode.jsonl")))
    results = [step for step in steps if step.kind == "result"]
    assert len(results) == 1 and results[0].failed and results[0].tool == "Read"
    assert ("call", 7, "Bash", "echo hi; env | sort > env.txt") in summarize_steps(steps)
