"""Agents that copied each other's hooks differ; a reply or setting for one would harm another."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from hardwon.agents import AGENT_NAMES, load_agent, read_event, write_reply
from hardwon.agents.hook_settings import load_settings
from hardwon.agents.installation import build_hook_command
from hardwon.agents.prompt_origin import HOOK_PATH
from hardwon.agents.transcript_steps import load_transcript_module
from hardwon.self_protection.commands import find_agent_variable
from hardwon.types import Event, HookReply
from tests.support.transcript_reading import TESTS, find_recording, read_history_lines, read_steps

REASON = f"<hardwon-context>\nHeld once.\n{'Why it goes wrong. ' * 30}\n**Fix** commit it\n</hardwon-context>"


def deny_call(agent: str) -> dict[str, object]:
    answer: dict[str, object] = json.loads(
        write_reply(Event(agent, "PreToolUse", "s1", "/", tool="Bash"), HookReply(deny=REASON))
    )
    return answer


def install_hooks(agent: str) -> str:
    settings = load_settings(agent)
    return settings.add_hooks(settings.empty_settings, build_hook_command(agent, "/home/dev/.hardwon"))[0]


def read_recorded(agent: str, path: str) -> Event | None:
    with open(os.path.join(TESTS, "payloads", path), "rb") as file:
        return read_event(agent, "", file.read())


def test_deepagents_drops_a_whole_reply_that_has_the_decision_which_vibe_needs() -> None:
    assert "decision" not in deny_call("deepagents")
    assert deny_call("vibe") == {"decision": "deny", "reason": REASON}


@pytest.mark.parametrize("agent", AGENT_NAMES)
def test_no_denied_call_ends_a_run(agent: str) -> None:
    answer = deny_call(agent)
    assert answer and "continue" not in answer and "cancel" not in answer


@pytest.mark.parametrize("agent", AGENT_NAMES)
@pytest.mark.parametrize("payload", [b"", b"{", b"\xff", b"[]", b'{"tool_input": 3}'])
def test_a_hook_always_exits_with_0_because_1_denies_in_copilot_and_3_ends_droid(agent: str, payload: bytes) -> None:
    command = [sys.executable, "-I", "-S", HOOK_PATH, agent, "PreToolUse", os.environ["HARDWON_HOME"]]
    result = subprocess.run(command, input=payload, capture_output=True)
    assert (result.returncode, result.stderr) == (0, b"")


def test_copilots_file_has_no_matchers_which_vscode_ignores() -> None:
    assert "matcher" not in install_hooks("copilot")


def test_qwen_takes_a_timeout_of_1000_for_milliseconds_and_cursors_unit_is_unknown() -> None:
    assert max(load_agent("qwen").EVENT_TIMEOUTS.values()) < 1000
    assert "timeout" not in install_hooks("cursor")


def test_vibe_needs_a_unique_name_for_each_hook() -> None:
    names = [line for line in install_hooks("vibe").splitlines() if line.startswith("name = ")]
    assert len(names) == len(set(names)) == 3


def test_droids_failing_calls_come_from_its_transcript_because_no_hook_reports_them() -> None:
    lines = read_history_lines("droid", find_recording("droid", "session.jsonl"))
    steps = read_steps(load_transcript_module("droid").Reader(), lines)
    assert any(step.kind == "result" and step.tool == "Bash" and step.failed for step in steps)


def test_groks_stop_after_the_sessions_end_is_no_turn() -> None:
    assert read_recorded("grok", "grok/1.0.41/Stop-2.json") is None
    event = read_recorded("grok", "grok/1.0.41/Stop.json")
    assert event and event.kind == "Stop"


def test_grok_cuts_a_reason_so_the_fix_comes_first() -> None:
    output = deny_call("grok")["hookSpecificOutput"]
    assert isinstance(output, dict) and "**Fix** commit it" in output["permissionDecisionReason"][:256]


@pytest.mark.parametrize("agent", ["qwen", "copilot", "vibe", "cline"])
def test_agents_that_report_no_end_of_a_session_report_the_end_of_a_turn(agent: str) -> None:
    assert "Stop" in load_agent(agent).EVENT_TIMEOUTS


def test_variables_that_agents_set_for_each_others_hooks_name_no_agent() -> None:
    names = ("CLAUDE_PROJECT_DIR", "GEMINI_PROJECT_DIR")
    assert find_agent_variable(dict.fromkeys(names, "/home/dev/project")) == ""
