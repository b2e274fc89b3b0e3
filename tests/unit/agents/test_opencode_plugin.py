"""opencode's plugin does as the answer says and nothing else, with node in opencode's place; and how it is installed."""

from __future__ import annotations

import json
import os
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


def play(folder: Path, answer: str, *steps: tuple[Any, ...]) -> tuple[dict[str, Any], list[tuple[str, dict[str, Any]]]]:
    """What became of each step, and what was handed over for which event; `answer` is a command that answers."""
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
    done = subprocess.run(
        [node, OPENCODE, str(plugin)], input=json.dumps(steps), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    lines = log.read_text().splitlines()
    return json.loads(done.stdout), [
        (name, json.loads(sent)) for name, sent in zip(lines[::2], lines[1::2], strict=True)
    ]


ABOUT = {"tool": "bash", "sessionID": "ses_1", "callID": "call_1"}
BEFORE = ("tool.execute.before", ABOUT, {"args": {"command": "x"}})
AFTER = ("tool.execute.after", {**ABOUT, "args": {"command": "x"}}, {"output": "y", "metadata": {"exit": 0}})
MESSAGE = (
    "chat.message",
    {"sessionID": "ses_1"},
    {"message": {"id": "msg_1"}, "parts": [{"id": "prt_1", "type": "text", "text": "hi"}]},
)


def failure(call: str = "call_1", session: str = "ses_1") -> tuple[str, Any]:
    state = {"status": "error", "input": {"filePath": "a"}, "error": "no such file"}
    part = {"type": "tool", "tool": "read", "callID": call, "sessionID": session, "state": state}
    return "event", {"event": {"type": "message.part.updated", "properties": {"part": part}}}


def occurred(name: str, **properties: object) -> tuple[str, Any]:
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
def test_without_a_sound_answer_the_tool_runs_and_the_prompt_passes(tmp_path: Path, answer: str) -> None:
    found, _ = (
        play(tmp_path, answer, MESSAGE, BEFORE, AFTER) if answer != "sleep 30" else play(tmp_path, answer, BEFORE)
    )
    assert [result["thrown"] for result in found["results"]] == [""] * len(found["results"])
    assert [result["output"].get("output", "y") for result in found["results"]] == ["y"] * len(found["results"])


def test_a_command_that_is_gone_while_its_output_is_held_open_does_no_harm(tmp_path: Path) -> None:
    elsewhere = f"{sys.executable} -c 'import os, time; os.setsid(); time.sleep(3)' &"
    found, _ = play(tmp_path, elsewhere, BEFORE)
    assert [result["thrown"] for result in found["results"]] == [""]


def test_a_tool_without_output_gets_the_words_alone(tmp_path: Path) -> None:
    after: Any = (*AFTER[:2], {"metadata": {}})
    found, _ = play(tmp_path, """echo '{"context": "a note"}'""", after)
    assert found["results"][0]["output"]["output"] == "\n\na note"


def test_a_denial_is_thrown_and_not_told_as_a_failure(tmp_path: Path) -> None:
    found, sent = play(tmp_path, """echo '{"deny": "why", "notice": "held"}'""", BEFORE, failure())
    assert ([result["thrown"] for result in found["results"]], found["toasts"]) == (["why", ""], ["held"])
    assert [name for name, _ in sent] == ["PreToolUse"]


def test_each_call_is_told_once_whichever_way_it_ended(tmp_path: Path) -> None:
    _, sent = play(
        tmp_path, "echo '{}'", AFTER, failure(), failure("call_2"), failure("call_2"), failure("call_1", "ses_2")
    )
    assert [(name, wire["sessionID"], wire["callID"]) for name, wire in sent] == [
        ("PostToolUse", "ses_1", "call_1"),
        ("PostToolUseFailure", "ses_1", "call_2"),
        ("PostToolUseFailure", "ses_2", "call_1"),
    ]


def test_words_for_the_model_come_behind_a_result_and_as_a_part_of_the_prompt(tmp_path: Path) -> None:
    of_server = (
        "tool.execute.after",
        {**ABOUT, "callID": "call_2", "args": {}},
        {"content": [{"type": "text", "text": "y"}]},
    )
    found, sent = play(tmp_path, """echo '{"context": "a note"}'""", MESSAGE, MESSAGE, AFTER, of_server)
    opened, again, ended, served = (result["output"] for result in found["results"])
    added = {"id": "prt_1h", "sessionID": "ses_1", "messageID": "msg_1", "type": "text", "synthetic": True}
    assert opened["parts"][1:] == [{**added, "text": "a note\n\na note"}]
    assert again["parts"][1:] == [{**added, "text": "a note"}], "a session opens once"
    assert (ended["output"], [row["text"] for row in served["content"]]) == ("y\n\na note", ["y", "a note"])
    assert [name for name, _ in sent][:3] == ["SessionStart", "UserPromptSubmit", "UserPromptSubmit"]
    assert sent[0][1]["source"] == "resume", "it was not created here"


def test_what_is_typed_is_told_and_not_what_the_program_adds_or_a_commands_text(tmp_path: Path) -> None:
    parts = [{"id": "prt_1", "type": "text", "text": "a file", "synthetic": True}]
    added = ("chat.message", {"sessionID": "ses_1"}, {"message": {"id": "msg_1"}, "parts": parts})
    command = (
        "command.execute.before",
        {"command": "tidy", "sessionID": "ses_1", "arguments": "the shed"},
        {"parts": [{"type": "text", "text": "hi"}]},
    )
    _, sent = play(tmp_path, "echo '{}'", added, command, MESSAGE)
    assert [wire.get("prompt") for _, wire in sent] == [None, "/tidy the shed"]


def test_what_was_kept_of_a_session_goes_with_it(tmp_path: Path) -> None:
    command = (
        "command.execute.before",
        {"command": "tidy", "sessionID": "ses_1", "arguments": ""},
        {"parts": [{"type": "text", "text": "hi"}]},
    )
    _, sent = play(
        tmp_path,
        "echo '{}'",
        command,
        MESSAGE,
        AFTER,
        occurred("session.deleted", info={"id": "ses_1"}),
        MESSAGE,
        failure(),
    )
    assert [wire.get("prompt") for name, wire in sent if name == "UserPromptSubmit"] == ["/tidy", "hi"]
    assert [name for name, _ in sent].count("PostToolUseFailure") == 1, "the call is known no more"


def test_a_sub_agent_has_its_parents_session_and_nobodys_prompt(tmp_path: Path) -> None:
    asked = ("chat.message", {"sessionID": "ses_child", "agent": "general"}, MESSAGE[2])
    idle = occurred("session.idle", sessionID="ses_child")
    _, sent = play(tmp_path, "echo '{}'", asked, idle, ("dispose", {}, {}))
    assert [(name, wire["sessionID"], wire["parentID"]) for name, wire in sent] == [
        ("SubagentStart", "ses_child", "ses_1"),
        ("SubagentStop", "ses_child", "ses_1"),
    ]


def test_a_sub_agent_of_a_sub_agent_belongs_to_the_session_in_which_a_person_types(tmp_path: Path) -> None:
    asked = ("chat.message", {"sessionID": "ses_grandchild"}, MESSAGE[2])
    before = (BEFORE[0], {**ABOUT, "sessionID": "ses_grandchild"}, BEFORE[2])
    idle = occurred("session.idle", sessionID="ses_grandchild")
    _, sent = play(tmp_path, "echo '{}'", asked, before, idle)
    assert [(name, wire["sessionID"], wire["parentID"]) for name, wire in sent] == [
        ("SubagentStart", "ses_grandchild", "ses_1"),
        ("PreToolUse", "ses_grandchild", "ses_1"),
        ("SubagentStop", "ses_grandchild", "ses_1"),
    ]


def test_in_a_session_nobody_can_tell_the_parent_of_calls_are_guarded_and_no_words_are_a_persons(
    tmp_path: Path,
) -> None:
    asked = ("chat.message", {"sessionID": "ses_lost"}, MESSAGE[2])
    before, after = ((step[0], {**step[1], "sessionID": "ses_lost"}, step[2]) for step in (BEFORE, AFTER))
    idle = occurred("session.idle", sessionID="ses_lost")
    found, sent = play(tmp_path, """echo '{"deny": "why", "context": "a note"}'""", asked, before, after, idle)
    assert [name for name, _ in sent] == ["PreToolUse"]
    assert [result["thrown"] for result in found["results"]] == ["", "why", "", ""]


def test_a_parent_that_could_not_be_told_is_asked_for_again(tmp_path: Path) -> None:
    asked = ("chat.message", {"sessionID": "ses_late"}, MESSAGE[2])
    _, sent = play(tmp_path, "echo '{}'", asked, asked)
    assert [(name, wire["parentID"]) for name, wire in sent] == [("SubagentStart", "ses_1")]


def test_a_session_from_its_beginning_through_a_compaction_to_its_end(tmp_path: Path) -> None:
    said = {"type": "text", "sessionID": "ses_1", "text": "all done", "time": {"start": 1, "end": 2}}
    found, sent = play(
        tmp_path,
        """echo '{"context": "a brief"}'""",
        occurred("session.created", info={"id": "ses_1"}),
        MESSAGE,
        ("experimental.session.compacting", {"sessionID": "ses_1"}, {}),
        occurred("session.compacted", sessionID="ses_1"),
        MESSAGE,
        occurred("message.part.updated", part=said),
        occurred("session.idle", sessionID="ses_1"),
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
    assert found["results"][4]["output"]["parts"][1]["text"] == "a brief\n\na brief"


def test_a_shell_of_the_agent_is_marked_and_the_persons_is_not(tmp_path: Path) -> None:
    found, _ = play(
        tmp_path, "echo '{}'", ("shell.env", {"callID": "call_1"}, {"env": {}}), ("shell.env", {}, {"env": {}})
    )
    assert [result["output"]["env"] for result in found["results"]] == [{"AI_AGENT": "opencode_agent"}, {}]


# Installing


def test_the_handoff_command_is_there_and_a_shell_knows_its_session(tmp_path: Path) -> None:
    seen, _ = play(
        tmp_path,
        'echo \'{"context": "keep the decisions"}\'',
        ("config", {"command": {"mine": {"template": "x"}}}, None),
        ("shell.env", {"callID": "call_1", "sessionID": "ses_child"}, {"env": {}}),
        ("experimental.session.compacting", {"sessionID": "ses_1"}, {"context": ["theirs"]}),
    )
    assert all(step["thrown"] == "" for step in seen["results"])
    commands = seen["results"][0]["input"]["command"]
    assert commands["mine"] == {"template": "x"} and commands["handoff"]["template"] == HANDOFF_REQUEST
    assert seen["results"][1]["output"]["env"]["HARDWON_SESSION"] == "ses_1"
    assert seen["results"][2]["output"]["context"] == ["theirs", "keep the decisions"]


@pytest.fixture
def plugin(own_home: str) -> Path:
    return Path(own_home, ".config", "opencode", "plugin", "hardwon.js")


def test_the_plugin_is_written_and_taken_away_again_with_the_program_absent(house: House, plugin: Path) -> None:
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
    asked = {**install.SETTINGS.probe_payload, "args": {"command": "git stash"}}
    done = subprocess.run(["/bin/sh", "-c", command], input=json.dumps(asked).encode(), capture_output=True)
    assert "git stash -u" in json.loads(done.stdout)["deny"]


def test_somebody_elses_file_of_that_name_stays(house: House, plugin: Path) -> None:
    plugin.parent.mkdir(parents=True)
    plugin.write_text("export const Other = async () => ({})\n")
    assert "did not write" in house.cli("install", "opencode", "--yes").err
    house.ok("uninstall", "opencode", "--yes")
    assert plugin.read_text() == "export const Other = async () => ({})\n"


def test_a_plugin_of_another_version_is_known_and_replaced(house: House, plugin: Path) -> None:
    house.ok("install", "opencode", "--yes")
    now = plugin.read_text()
    plugin.write_text(now.replace("const parsed", "const understood"))
    assert list(install.SETTINGS.find_hooks(plugin.read_text())) == [install.OTHER_VERSION]
    house.ok("install", "opencode", "--yes")
    assert plugin.read_text() == now


SETTINGS = '{\n\t"mcp": { "other": {"type":"remote", "url": "https://example.invalid"} }, "note": "caf\\u00e9"}\n\n'


@pytest.mark.parametrize(
    "before", [SETTINGS, "{}", "{} // mine\n", '{"$schema": "https://opencode.ai/config.json"}', "", None]
)
def test_the_mcp_server_comes_and_goes_and_leaves_every_byte(house: House, plugin: Path, before: str | None) -> None:
    settings = plugin.parent.parent / "opencode.json"
    plugin.parent.mkdir(parents=True)
    if before is not None:
        settings.write_text(before)
    house.ok("install", "opencode", "--mcp", "--yes")
    served = get_value(settings.read_text(), ["mcp", "hardwon"])
    assert (served["type"], served["enabled"], served["command"][-1]) == ("local", True, "mcp")
    assert "already installed" in house.ok("install", "opencode", "--mcp", "--yes").out
    house.ok("uninstall", "opencode", "--yes")
    assert (settings.read_text() if settings.exists() else None) == before


def test_settings_that_are_no_json_are_left_alone_and_the_way_out_is_said(house: House, plugin: Path) -> None:
    settings = plugin.parent.parent / "opencode.json"
    plugin.parent.mkdir(parents=True)
    settings.write_text('{"a": 1,} // mine\n')
    said = house.cli("install", "opencode", "--mcp", "--yes").err
    assert "line 1, column 9" in said and "opencode.jsonc" in said
    assert (settings.read_text(), plugin.exists()) == ('{"a": 1,} // mine\n', False)
    settings.rename(settings.with_suffix(".jsonc"))
    house.ok("install", "opencode", "--mcp", "--yes")
    assert "hardwon" in json.loads(settings.read_text())["mcp"]
