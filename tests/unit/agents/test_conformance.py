"""Checks that every agent passes; a new agent adds its row to TABLE and its recorded payloads."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass

import pytest

from hardwon.agents import AGENT_NAMES, load_agent, read_event
from hardwon.agents.hook_settings import load_settings
from hardwon.agents.installation import build_hook_command
from hardwon.types import Event, HookReply
from tests.support.transcript_reading import TESTS

OWN_PAYLOADS = "hardwon's plugin"  # what the agent sends is what our plugin hands over, tested with the plugin


@dataclass(frozen=True)
class Row:
    """The names of an agent's recorded payloads; empty where it reports none."""

    folder: str
    shell: str  # `echo hi` and more
    failed: str
    edit: str = ""
    prompt: str = "UserPromptSubmit"
    has_call_ids: bool = True  # in payloads; else they are looked up in the transcript
    denial_field: str = '"permissionDecisionReason"'
    others: str = '{\n  "kept": "by hand"\n}\n'  # settings that a person had before


TABLE = {
    "claude-code": Row("claude-code/2.1.325", "PreToolUse-Bash", "PostToolUseFailure-Bash"),
    "codex": Row("codex/0.166.0", "PreToolUse-Bash", ""),
    "gemini": Row(
        "gemini/0.61.0",
        "BeforeTool-run_shell_command",
        "AfterTool-run_shell_command-failed",
        prompt="BeforeAgent",
        has_call_ids=False,
        denial_field='"reason"',
    ),
    "opencode": Row(OWN_PAYLOADS, "", "", denial_field='"deny"', others=""),
    "copilot": Row(
        "copilot-cli/1.0.102", "PreToolUse-Bash", "PostToolUse-Bash-fail", "PreToolUse-Edit", has_call_ids=False
    ),
    "qwen": Row(
        "qwen-code/0.24.4",
        "PreToolUse-run_shell_command",
        "PostToolUseFailure-run_shell_command-fail",
        "PreToolUse-edit",
    ),
    "kilo": Row(OWN_PAYLOADS, "", "", denial_field='"deny"', others=""),
    "grok": Row(
        "grok/1.0.41",
        "PreToolUse-run_terminal_command",
        "PostToolUse-run_terminal_command-fail",
        "PreToolUse-search_replace",
    ),
    "droid": Row("droid/0.225.2", "PreToolUse-Execute", "", "PreToolUse-Edit", prompt="", has_call_ids=False),
    "vibe": Row(
        "mistral-vibe/3.0.2",
        "pre_tool-file_system.bash",
        "post_tool-file_system.bash-fail",
        "pre_tool-file_system.search_replace",
        prompt="",
        denial_field='"reason"',
        others='[[hooks]]\nname = "mine"\ntype = "post_agent"\ncommand = "true"\n',
    ),
    "deepagents": Row("deepagents-code/0.1.88", "PreToolUse-Bash", "PostToolUseFailure-Bash-fail", "PreToolUse-Edit"),
    "cursor": Row(
        "cursor/documented",
        "preToolUse-Shell",
        "postToolUseFailure-Shell-fail",
        prompt="beforeSubmitPrompt",
        denial_field='"agent_message"',
    ),
    "cline": Row(
        "cline/3.0.65",
        "PreToolUse-run_commands",
        "PostToolUse-run_commands-fail",
        "PreToolUse-editor",
        prompt="",
        denial_field='"contextModification"',
        others="",
    ),
}
EVERY_AGENT = pytest.mark.parametrize("agent", AGENT_NAMES)


def read_recorded(agent: str, name: str) -> Event | None:
    path = os.path.join(TESTS, "payloads", TABLE[agent].folder, f"{name}.json")
    with open(path, "rb") as file:
        return read_event(agent, "", file.read())


@EVERY_AGENT
def test_a_shell_call_has_its_command_its_session_and_its_folder(agent: str) -> None:
    row = TABLE[agent]
    if not row.shell:
        return
    event = read_recorded(agent, row.shell)
    assert event and (event.host, event.kind, event.tool) == (agent, "PreToolUse", "Bash")
    assert event.session and event.cwd.startswith("/") and event.command
    assert bool(event.tool_use_id) == row.has_call_ids


@EVERY_AGENT
def test_a_failed_command_is_a_failure_however_it_is_reported(agent: str) -> None:
    row = TABLE[agent]
    if not row.failed:
        return
    event = read_recorded(agent, row.failed)
    assert event and event.failed and (event.kind, event.tool) == ("PostToolUseFailure", "Bash")
    assert event.response and event.command


@EVERY_AGENT
def test_an_edit_has_its_path_and_its_text(agent: str) -> None:
    row = TABLE[agent]
    if not row.edit:
        return
    event = read_recorded(agent, row.edit)
    assert event and event.tool == "Edit" and event.path == "/home/dev/project/notes.txt"
    assert event.content == event.input["new_string"] == "line 2" and event.input["old_string"] == "line two"


@EVERY_AGENT
def test_a_prompt_is_what_the_person_typed(agent: str) -> None:
    row = TABLE[agent]
    if not row.prompt or not row.shell:
        return
    event = read_recorded(agent, row.prompt)
    assert event and event.kind == "UserPromptSubmit" and event.prompt and not event.subagent_id


@EVERY_AGENT
def test_a_denial_stops_a_call_before_it_and_nothing_after_it(agent: str) -> None:
    module = load_agent(agent)
    call_event, result_event = (Event(agent, kind, "s1", "/", tool="Bash") for kind in ("PreToolUse", "PostToolUse"))
    denial = module.render_reply(call_event, HookReply(deny="stop here")).decode()
    assert f'{TABLE[agent].denial_field}:"stop here"' in denial
    if TABLE[agent].folder != OWN_PAYLOADS:
        assert json.loads(module.render_reply(result_event, HookReply(deny="stop here"))) == {}


@EVERY_AGENT
def test_uninstalling_restores_every_byte(agent: str) -> None:
    settings = load_settings(agent)
    build_command = build_hook_command(agent, "/home/dev/.hardwon")
    for original_text in {settings.empty_settings, TABLE[agent].others}:
        installed: dict[str, list[str]] = {}
        for file in settings.files:
            text, created_paths = file.add_hooks(original_text, build_command)
            installed |= settings.find_hooks(text)
            assert settings.remove_hooks(text, created_paths) == original_text
        assert len(installed) == len(load_agent(agent).EVENT_TIMEOUTS)


@EVERY_AGENT
def test_a_hook_whose_program_is_gone_stops_nothing(agent: str) -> None:
    settings = load_settings(agent)

    def build_command(event: str) -> str:
        return build_hook_command(agent, "/home/dev/.hardwon")(event).replace(
            "/hardwon/hook.py", "/gone/hardwon/hook.py"
        )

    for file in settings.files:
        text, _ = file.add_hooks(settings.empty_settings, build_command)
        command = next(iter(settings.find_hooks(text).values()))[0]
        result = subprocess.run(["/bin/sh", "-c", command], input=b"{}", capture_output=True)
        assert (result.returncode, result.stdout) == (0, b"")


@EVERY_AGENT
def test_the_probe_of_doctor_is_read_as_a_call(agent: str) -> None:
    event = read_event(agent, "PreToolUse", json.dumps(load_settings(agent).probe_payload).encode())
    assert event and (event.tool, event.command, event.session) == ("Bash", "true", "hardwon-doctor")
