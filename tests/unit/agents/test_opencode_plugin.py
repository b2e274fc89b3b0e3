"""opencode's plugin follows hardwon's answers (node stands in for opencode), and is installed and removed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hardwon.agents.opencode import install
from hardwon.agents.settings_files import get_value
from hardwon.text.handoff_request import HANDOFF_REQUEST
from tests.support.house import GIT_STASH, House
from tests.support.transcript_reading import TESTS

OPENCODE = os.path.join(TESTS, "unit", "agents", "opencode_host.mjs")


def run_plugin(
    folder: Path, answer: str, *steps: tuple[Any, ...]
) -> tuple[dict[str, Any], list[tuple[str, dict[str, Any]]]]:
    """Return the outcome of each step and the payload of each event; `answer` is the command that answers."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no node on this machine")
    log = folder / "log"
    log.touch()
    plugin = folder / "hardwon.mjs"
    plugin.write_text(
        install.SETTINGS.add_hooks(
            "", lambda name: f"cat > {log}.new; (echo {name}; cat {log}.new; echo) >> {log}; {answer}"
        )[0]
    )
    process = subprocess.run(
        [node, OPENCODE, str(plugin)], input=json.dumps(steps), capture_output=True, text=True, timeout=60
    )
    assert process.returncode == 0, process.stderr
    lines = log.read_text().splitlines()
    return json.loads(process.stdout), [
        (name, json.loads(sent)) for name, sent in zip(lines[::2], lines[1::2], strict=True)
    ]


CALL = {"tool": "bash", "sessionID": "ses_1", "callID": "call_1"}
CALL_STEP = ("tool.execute.before", CALL, {"args": {"command": "x"}})
RESULT_STEP = ("tool.execute.after", {**CALL, "args": {"command": "x"}}, {"output": "y", "metadata": {"exit": 0}})
MESSAGE = (
    "chat.message",
    {"sessionID": "ses_1"},
    {"message": {"id": "msg_1"}, "parts": [{"id": "prt_1", "type": "text", "text": "hi"}]},
)


def build_failure(call: str = "call_1", session: str = "ses_1") -> tuple[str, Any]:
    state = {"status": "error", "input": {"filePath": "a"}, "error": "no such file"}
    part = {"type": "tool", "tool": "read", "callID": call, "sessionID": session, "state": state}
    return "event", {"event": {"type": "message.part.updated", "properties": {"part": part}}}


def build_bus_event(name: str, **properties: object) -> tuple[str, Any]:
    return "event", {"event": {"type": name, "properties": properties}}


@pytest.mark.parametrize(
    "answer",
    [
        "exit 3",
        "kill -9 $$",
        "echo garbage",
        "echo null",
        "echo 7",
        "echo '[\"deny\"]'",
        "/nowhere/python3",
        "sleep 30",
    ],
)
def test_without_a_valid_answer_the_tool_runs_and_the_prompt_passes(tmp_path: Path, answer: str) -> None:
    outcome, _ = (
        run_plugin(tmp_path, answer, MESSAGE, CALL_STEP, RESULT_STEP)
        if answer != "sleep 30"
        else run_plugin(tmp_path, answer, CALL_STEP)
    )
    assert [result["thrown"] for result in outcome["results"]] == [""] * len(outcome["results"])
    assert [result["output"].get("output", "y") for result in outcome["results"]] == ["y"] * len(outcome["results"])


def test_an_ended_command_whose_output_stays_open_does_no_harm(tmp_path: Path) -> None:
    detached_command = f"{sys.executable} -c 'import os, time; os.setsid(); time.sleep(1.5)' &"
    outcome, _ = run_plugin(tmp_path, detached_command, CALL_STEP)
    assert [result["thrown"] for result in outcome["results"]] == [""]


def test_a_note_becomes_the_output_of_a_tool_without_output(tmp_path: Path) -> None:
    result_step: Any = (*RESULT_STEP[:2], {"metadata": {}})
    outcome, _ = run_plugin(tmp_path, """echo '{"context": "a note"}'""", result_step)
    assert outcome["results"][0]["output"]["output"] == "\n\na note"


def test_a_denial_is_thrown_and_not_reported_as_a_failure(tmp_path: Path) -> None:
    outcome, sent = run_plugin(tmp_path, """echo '{"deny": "why", "notice": "held"}'""", CALL_STEP, build_failure())
    assert ([result["thrown"] for result in outcome["results"]], outcome["toasts"]) == (["why", ""], ["held"])
    assert [name for name, _ in sent] == ["PreToolUse"]


def test_each_call_is_reported_once_however_it_ended(tmp_path: Path) -> None:
    _, sent = run_plugin(
        tmp_path,
        "echo '{}'",
        RESULT_STEP,
        build_failure(),
        build_failure("call_2"),
        build_failure("call_2"),
        build_failure("call_1", "ses_2"),
    )
    assert [(name, wire["sessionID"], wire["callID"]) for name, wire in sent] == [
        ("PostToolUse", "ses_1", "call_1"),
        ("PostToolUseFailure", "ses_1", "call_2"),
        ("PostToolUseFailure", "ses_2", "call_1"),
    ]


def test_a_note_is_appended_to_a_result_and_added_to_the_prompt(tmp_path: Path) -> None:
    mcp_result = (
        "tool.execute.after",
        {**CALL, "callID": "call_2", "args": {}},
        {"content": [{"type": "text", "text": "y"}]},
    )
    outcome, sent = run_plugin(tmp_path, """echo '{"context": "a note"}'""", MESSAGE, MESSAGE, RESULT_STEP, mcp_result)
    first_message, second_message, shell_result, server_result = (result["output"] for result in outcome["results"])
    added_part = {"id": "prt_1h", "sessionID": "ses_1", "messageID": "msg_1", "type": "text", "synthetic": True}
    assert first_message["parts"][1:] == [{**added_part, "text": "a note\n\na note"}]
    assert second_message["parts"][1:] == [{**added_part, "text": "a note"}], "a session opens once"
    assert (shell_result["output"], [row["text"] for row in server_result["content"]]) == (
        "y\n\na note",
        ["y", "a note"],
    )
    assert [name for name, _ in sent][:3] == ["SessionStart", "UserPromptSubmit", "UserPromptSubmit"]
    assert sent[0][1]["source"] == "resume", "it was not created here"


def test_a_typed_prompt_is_reported_without_added_text_or_command_templates(tmp_path: Path) -> None:
    parts = [{"id": "prt_1", "type": "text", "text": "a file", "synthetic": True}]
    synthetic_message = ("chat.message", {"sessionID": "ses_1"}, {"message": {"id": "msg_1"}, "parts": parts})
    command = (
        "command.execute.before",
        {"command": "tidy", "sessionID": "ses_1", "arguments": "the shed"},
        {"parts": [{"type": "text", "text": "hi"}]},
    )
    _, sent = run_plugin(tmp_path, "echo '{}'", synthetic_message, command, MESSAGE)
    assert [wire.get("prompt") for _, wire in sent] == [None, "/tidy the shed"]


def test_the_state_of_a_deleted_session_is_dropped(tmp_path: Path) -> None:
    command = (
        "command.execute.before",
        {"command": "tidy", "sessionID": "ses_1", "arguments": ""},
        {"parts": [{"type": "text", "text": "hi"}]},
    )
    _, sent = run_plugin(
        tmp_path,
        "echo '{}'",
        command,
        MESSAGE,
        RESULT_STEP,
        build_bus_event("session.deleted", info={"id": "ses_1"}),
        MESSAGE,
        build_failure(),
    )
    assert [wire.get("prompt") for name, wire in sent if name == "UserPromptSubmit"] == ["/tidy", "hi"]
    assert [name for name, _ in sent].count("PostToolUseFailure") == 1, "the call is known no more"


def test_a_subagent_has_its_parents_session_and_no_prompt(tmp_path: Path) -> None:
    prompt_step = ("chat.message", {"sessionID": "ses_child", "agent": "general"}, MESSAGE[2])
    idle = build_bus_event("session.idle", sessionID="ses_child")
    _, sent = run_plugin(tmp_path, "echo '{}'", prompt_step, idle, ("dispose", {}, {}))
    assert [(name, wire["sessionID"], wire["parentID"]) for name, wire in sent] == [
        ("SubagentStart", "ses_child", "ses_1"),
        ("SubagentStop", "ses_child", "ses_1"),
    ]


def test_a_sub_agent_of_a_sub_agent_belongs_to_the_session_in_which_a_person_types(tmp_path: Path) -> None:
    prompt_step = ("chat.message", {"sessionID": "ses_grandchild"}, MESSAGE[2])
    call_step = (CALL_STEP[0], {**CALL, "sessionID": "ses_grandchild"}, CALL_STEP[2])
    idle = build_bus_event("session.idle", sessionID="ses_grandchild")
    _, sent = run_plugin(tmp_path, "echo '{}'", prompt_step, call_step, idle)
    assert [(name, wire["sessionID"], wire["parentID"]) for name, wire in sent] == [
        ("SubagentStart", "ses_grandchild", "ses_1"),
        ("PreToolUse", "ses_grandchild", "ses_1"),
        ("SubagentStop", "ses_grandchild", "ses_1"),
    ]


def test_with_an_unknown_parent_calls_are_guarded_and_prompts_are_not_reported(
    tmp_path: Path,
) -> None:
    prompt_step = ("chat.message", {"sessionID": "ses_lost"}, MESSAGE[2])
    call_step, result_step = (
        (step[0], {**step[1], "sessionID": "ses_lost"}, step[2]) for step in (CALL_STEP, RESULT_STEP)
    )
    idle = build_bus_event("session.idle", sessionID="ses_lost")
    outcome, sent = run_plugin(
        tmp_path, """echo '{"deny": "why", "context": "a note"}'""", prompt_step, call_step, result_step, idle
    )
    assert [name for name, _ in sent] == ["PreToolUse"]
    assert [result["thrown"] for result in outcome["results"]] == ["", "why", "", ""]


def test_an_unknown_parent_is_looked_up_again(tmp_path: Path) -> None:
    prompt_step = ("chat.message", {"sessionID": "ses_late"}, MESSAGE[2])
    _, sent = run_plugin(tmp_path, "echo '{}'", prompt_step, prompt_step)
    assert [(name, wire["parentID"]) for name, wire in sent] == [("SubagentStart", "ses_1")]


def test_a_session_is_reported_from_start_through_compaction_to_end(tmp_path: Path) -> None:
    text_part = {"type": "text", "sessionID": "ses_1", "text": "all done", "time": {"start": 1, "end": 2}}
    outcome, sent = run_plugin(
        tmp_path,
        """echo '{"context": "a brief"}'""",
        build_bus_event("session.created", info={"id": "ses_1"}),
        MESSAGE,
        ("experimental.session.compacting", {"sessionID": "ses_1"}, {}),
        build_bus_event("session.compacted", sessionID="ses_1"),
        MESSAGE,
        build_bus_event("message.part.updated", part=text_part),
        build_bus_event("session.idle", sessionID="ses_1"),
        ("dispose", {}, {}),
    )
    assert [(name, wire.get("source") or wire.get("said") or wire.get("reason")) for name, wire in sent] == [
        ("SessionStart", "startup"),
        ("UserPromptSubmit", None),
        ("PreCompact", None),
        ("SessionStart", "compact"),
        ("UserPromptSubmit", None),
        ("Stop", "all done"),
        ("SessionEnd", "exit"),
    ]
    assert outcome["results"][4]["output"]["parts"][1]["text"] == "a brief\n\na brief"


def test_only_a_shell_of_the_agent_is_marked(tmp_path: Path) -> None:
    outcome, _ = run_plugin(
        tmp_path, "echo '{}'", ("shell.env", {"callID": "call_1"}, {"env": {}}), ("shell.env", {}, {"env": {}})
    )
    assert [result["output"]["env"] for result in outcome["results"]] == [{"AI_AGENT": "opencode_agent"}, {}]


# Installing


def test_the_handoff_command_is_added_and_a_shell_has_its_session(tmp_path: Path) -> None:
    outcome, _ = run_plugin(
        tmp_path,
        'echo \'{"context": "keep the decisions"}\'',
        ("config", {"command": {"mine": {"template": "x"}}}, None),
        ("shell.env", {"callID": "call_1", "sessionID": "ses_child"}, {"env": {}}),
        ("experimental.session.compacting", {"sessionID": "ses_1"}, {"context": ["theirs"]}),
    )
    assert all(step["thrown"] == "" for step in outcome["results"])
    commands = outcome["results"][0]["input"]["command"]
    assert commands["mine"] == {"template": "x"} and commands["handoff"]["template"] == HANDOFF_REQUEST
    assert outcome["results"][1]["output"]["env"]["HARDWON_SESSION"] == "ses_1"
    assert outcome["results"][2]["output"]["context"] == ["theirs", "keep the decisions"]


@pytest.fixture
def plugin(own_home: str) -> Path:
    return Path(own_home, ".config", "opencode", "plugin", "hardwon.js")


def test_the_plugin_is_written_and_removed_without_opencode(house: House, plugin: Path) -> None:
    assert "not on the PATH" in house.ok("install", "opencode", "--yes").out
    assert f"hook.py opencode PreToolUse {house.home} || :" in plugin.read_text()
    assert "already installed" in house.ok("install", "opencode", "--yes").out
    house.ok("uninstall", "opencode", "--yes")
    assert not plugin.exists()
    assert "nothing of hardwon's" in house.ok("uninstall", "opencode", "--yes").out


def test_the_installed_command_holds_a_call(house: House, plugin: Path) -> None:
    house.add({**GIT_STASH, "delivery": "hold"})
    house.ok("install", "opencode", "--yes")
    [command] = install.SETTINGS.find_hooks(plugin.read_text())["PreToolUse"]
    payload = {**install.SETTINGS.probe_payload, "args": {"command": "git stash"}}
    process = subprocess.run(["/bin/sh", "-c", command], input=json.dumps(payload).encode(), capture_output=True)
    assert "git stash -u" in json.loads(process.stdout)["deny"]


def test_a_foreign_file_of_that_name_stays(house: House, plugin: Path) -> None:
    plugin.parent.mkdir(parents=True)
    plugin.write_text("export const Other = async () => ({})\n")
    assert "did not write" in house.cli("install", "opencode", "--yes").err
    house.ok("uninstall", "opencode", "--yes")
    assert plugin.read_text() == "export const Other = async () => ({})\n"


def test_a_plugin_of_another_version_is_recognised_and_replaced(house: House, plugin: Path) -> None:
    house.ok("install", "opencode", "--yes")
    current_text = plugin.read_text()
    plugin.write_text(current_text.replace("const parsed", "const understood"))
    assert list(install.SETTINGS.find_hooks(plugin.read_text())) == [install.OTHER_VERSION]
    house.ok("install", "opencode", "--yes")
    assert plugin.read_text() == current_text


SETTINGS = '{\n\t"mcp": { "other": {"type":"remote", "url": "https://example.invalid"} }, "note": "caf\\u00e9"}\n\n'


@pytest.mark.parametrize(
    "original_settings", [SETTINGS, "{}", "{} // mine\n", '{"$schema": "https://opencode.ai/config.json"}', "", None]
)
def test_removing_the_mcp_server_restores_every_byte(house: House, plugin: Path, original_settings: str | None) -> None:
    settings = plugin.parent.parent / "opencode.json"
    plugin.parent.mkdir(parents=True)
    if original_settings is not None:
        settings.write_text(original_settings)
    house.ok("install", "opencode", "--mcp", "--yes")
    server = get_value(settings.read_text(), ["mcp", "hardwon"])
    assert (server["type"], server["enabled"], server["command"][-1]) == ("local", True, "mcp")
    assert "already installed" in house.ok("install", "opencode", "--mcp", "--yes").out
    house.ok("uninstall", "opencode", "--yes")
    assert (settings.read_text() if settings.exists() else None) == original_settings


def test_invalid_settings_are_left_alone_and_the_error_names_the_fix(house: House, plugin: Path) -> None:
    settings = plugin.parent.parent / "opencode.json"
    plugin.parent.mkdir(parents=True)
    settings.write_text('{"a": 1,} // mine\n')
    error_output = house.cli("install", "opencode", "--mcp", "--yes").err
    # Python 3.13 names the comma, earlier versions what follows it.
    assert re.search("line 1, column [89]", error_output) and "opencode.jsonc" in error_output
    assert (settings.read_text(), plugin.exists()) == ('{"a": 1,} // mine\n', False)
    settings.rename(settings.with_suffix(".jsonc"))
    house.ok("install", "opencode", "--mcp", "--yes")
    assert "hardwon" in json.loads(settings.read_text())["mcp"]
