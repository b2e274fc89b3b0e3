"""A day in Gemini CLI: its settings are kept, a held call made again runs, and what a hook and the transcript tell is one."""

from __future__ import annotations

import json
import os
import subprocess
from time import sleep
from typing import Any

import pytest

from hardwon.agents.settings_files import get_value
from hardwon.lessons.delivery import PARALLEL_CALL_SECONDS
from tests.support.house import GIT_STASH, House, lesson, wait_for
from tests.support.text_files import read_text, write_text

SOMEBODY_ELSES = """{
\t"theme": "dark",   "maxSessionTurns": 1e2,
\t"mcpServers": {"other": {"command": "other"}},
\t"hooks": {
\t\t"BeforeTool": [ {"matcher": "replace", "hooks": [{"type": "command", "command": "/usr/local/bin/other"}]} ]
\t},
\t"note": "caf\\u00e9"
}"""


@pytest.fixture
def settings_path(own_home: str) -> str:
    path = os.path.join(own_home, ".gemini", "settings.json")
    os.makedirs(os.path.dirname(path))
    return path


def list_hooks(path: str, event: str) -> list[dict[str, Any]]:
    return [hook for entry in json.loads(read_text(path))["hooks"][event] for hook in entry["hooks"]]


# Installing


@pytest.mark.parametrize(
    ("original", "more"),
    [
        (SOMEBODY_ELSES, ()),
        (SOMEBODY_ELSES, ("--mcp",)),
        ("{}", ("--mcp",)),
        ("{\n}\n", ()),
        ('{"hooks": {}, "mcpServers":{}}', ("--mcp",)),
        ("", ("--mcp",)),
        ('// mine\n{\n  "theme": "dark", /* a */ // why\n  "hooks": { // b\n  } // c\n}\n', ("--mcp",)),
    ],
)
def test_uninstalling_leaves_every_byte_as_it_was(
    house: House, settings_path: str, original: str, more: tuple[str]
) -> None:
    write_text(settings_path, original)
    house.ok("install", "gemini", *more, "--yes")
    once = read_text(settings_path)
    assert ("hardwon" in get_value(once).get("mcpServers", {})) == bool(more)
    assert "already installed" in house.ok("install", "gemini", *more, "--yes").out
    assert read_text(settings_path) == once
    house.ok("uninstall", "gemini", "--yes")
    assert read_text(settings_path) == original


def test_each_hook_has_a_name_and_its_time_in_milliseconds(house: House, settings_path: str) -> None:
    output = house.ok("install", "gemini", "--yes", env={"PATH": "/usr/bin:/bin"}).out
    assert "not on the PATH" in output and "only in folders that you trust" in output
    registered = {
        event: (hook["name"], hook["timeout"], hook["command"].split(" gemini ")[1].split()[0])
        for event in json.loads(read_text(settings_path))["hooks"]
        for hook in list_hooks(settings_path, event)
    }
    assert registered == {
        "SessionStart": ("hardwon", 10_000, "SessionStart"),
        "BeforeAgent": ("hardwon", 1_000, "UserPromptSubmit"),
        "BeforeTool": ("hardwon", 1_000, "PreToolUse"),
        "AfterTool": ("hardwon", 2_000, "PostToolUse"),
        "AfterAgent": ("hardwon", 2_000, "Stop"),
        "SessionEnd": ("hardwon", 3_000, "SessionEnd"),
    }
    house.ok("uninstall", "gemini", "--yes")
    assert not os.path.exists(settings_path)


def test_a_project_has_no_file_of_its_own_that_is_not_committed(house: House, settings_path: str) -> None:
    refused = house.cli("install", "gemini", "--project", "--yes")
    assert (refused.code, "committed" in refused.err, os.path.exists(settings_path)) == (1, True, False)


def test_another_home_of_the_agent_is_honoured(house: House, own_home: str) -> None:
    elsewhere = os.path.join(own_home, "elsewhere")
    house.ok("install", "gemini", "--yes", env={"GEMINI_CLI_HOME": elsewhere})
    assert os.listdir(os.path.join(elsewhere, ".gemini")) == ["settings.json"]


@pytest.mark.parametrize("missing", ["/hardwon/hook.py", "python"])
def test_with_the_package_or_the_interpreter_gone_every_tool_runs(
    house: House, settings_path: str, missing: str
) -> None:
    """Any exit code but 0 and 1 would deny the call, and a word on either stream would be shown at every call."""
    house.ok("install", "gemini", "--yes")
    for event in json.loads(read_text(settings_path))["hooks"]:
        [hook] = list_hooks(settings_path, event)
        command = hook["command"].replace(missing, "/gone")
        run = subprocess.run(["bash", "-c", command], input="{}", capture_output=True, text=True)
        assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


def test_doctor_says_where_the_hooks_are_not_run(house: House, settings_path: str, own_home: str) -> None:
    house.ok("install", "gemini", "--yes")
    checks = {check["name"]: check for check in json.loads(house.cli("doctor", "--json", cwd=own_home).out)}
    assert (checks["trust"]["well"], checks["trust"]["found"]) == (None, f"Gemini CLI was not told to trust {own_home}")


# At work


class Chat:
    """Owns the transcript that the agent writes, and calls our hook as the agent would."""

    def __init__(self, house: House, folder: str) -> None:
        self.house, self.path = house, os.path.join(folder, "session-1.jsonl")
        write_text(self.path, json.dumps({"sessionId": "s1", "projectHash": "p", "kind": "main"}) + "\n")

    def write_message(self, message_id: str, **more: object) -> None:
        """Write the model's message: first the text, and again with the calls once they have ended."""
        wire = {"id": message_id, "timestamp": "2026-11-15T20:00:00Z", "type": "gemini", "content": "", **more}
        with open(self.path, "a") as file:
            file.write(json.dumps(wire, separators=(",", ":")) + "\n")

    def hook(self, our_event: str, agent_event: str, **more: object) -> Any:
        wire = {
            "session_id": "s1",
            "transcript_path": self.path,
            "cwd": "/home/dev/project",
            "hook_event_name": agent_event,
        }
        return json.loads(self.house.hook(our_event, json.dumps({**wire, **more}).encode(), host="gemini"))

    def ask_before_call(self, command: str) -> Any:
        return self.hook("PreToolUse", "BeforeTool", tool_name="run_shell_command", tool_input={"command": command})

    def report_after_call(self, command: str, text: str) -> Any:
        wire = {
            "tool_name": "run_shell_command",
            "tool_input": {"command": command},
            "tool_response": {"llmContent": text},
        }
        return self.hook("PostToolUse", "AfterTool", **wire)


@pytest.fixture
def chat(house: House, own_home: str) -> Chat:
    return Chat(house, own_home)


@pytest.mark.parametrize("warm", [True, False])
@pytest.mark.parametrize("prompt", ["hardwon allow SLUG", "hardwon accept 3", "#lesson\nsummary: x\n#/lesson"])
def test_a_prompt_from_a_repositorys_command_is_not_a_persons(
    house: House, chat: Chat, own_home: str, prompt: str, warm: bool
) -> None:
    slug = house.add({**GIT_STASH, "delivery": "block"})
    house.ok("start") if warm else house.stay_cold()
    prompt = prompt.replace("SLUG", slug)
    commands = os.path.join(own_home, "project", ".gemini", "commands")
    os.makedirs(commands)
    write_text(os.path.join(commands, "build.toml"), f'prompt = """{prompt}"""')
    wire = {"cwd": os.path.dirname(os.path.dirname(commands)), "prompt": prompt}
    assert "type it yourself" in chat.hook("UserPromptSubmit", "BeforeAgent", **wire)["systemMessage"]
    assert chat.ask_before_call("git stash")["decision"] == "deny"
    assert len(house.ok("lessons", "list", "--json").json()) == 1


def wait_out_twins() -> None:
    sleep(PARALLEL_CALL_SECONDS)


@pytest.mark.parametrize("warm", [True, False])
def test_a_held_call_made_again_runs_but_not_one_of_the_same_message(house: House, chat: Chat, warm: bool) -> None:
    house.add({**GIT_STASH, "delivery": "hold"})
    house.ok("start") if warm else house.stay_cold()
    chat.write_message("m1")
    assert "git stash -u" in chat.ask_before_call("git stash")["reason"]
    wait_out_twins()
    assert chat.ask_before_call("git stash")["decision"] == "deny"
    chat.write_message("m1", toolCalls=[])
    chat.write_message("m2")
    assert chat.ask_before_call("git stash") == {}


@pytest.mark.parametrize("warm", [True, False])
def test_a_note_comes_with_the_result_and_once(house: House, chat: Chat, warm: bool) -> None:
    house.add(lesson(r"\bmake\b", solution="make 2>&1 shows what went wrong, without it nothing does"))
    house.ok("start") if warm else house.stay_cold()
    chat.write_message("m1")
    assert chat.ask_before_call("make") == {}
    reply = chat.report_after_call("make", "Output: no\nExit Code: 2")["hookSpecificOutput"]
    assert reply["hookEventName"] == "AfterTool" and "make 2>&1 shows" in reply["additionalContext"]
    assert chat.report_after_call("make", "Output: no\nExit Code: 2") == {}


def test_what_the_hooks_and_the_transcript_tell_is_one_call_however_often_it_is_told(house: House, chat: Chat) -> None:
    house.ok("start")
    chat.write_message("m1")
    chat.hook("UserPromptSubmit", "BeforeAgent", prompt="go")
    for _ in range(2):  # as with the extension beside the settings
        chat.report_after_call("make", "Output: no\nExit Code: 2")
    call = {"id": "c", "name": "run_shell_command", "args": {"command": "make"}, "status": "success"}
    result = [{"functionResponse": {"response": {"output": "Output: no\nExit Code: 2"}}}]
    chat.write_message("m1", toolCalls=[{**call, "result": result}])
    chat.hook("Stop", "AfterAgent", prompt_response="done")
    wait_for(lambda: [row["to_fill"] for row in house.stored("sessions")] == [0])
    rows = [row for row in house.stored("events") if row["kind"] == "tool"]
    assert [(row["tool"], row["outcome"], row["response"], row["origin"]) for row in rows] == [
        ("Bash", "failed", "no\nExit Code: 2", "hook")
    ]
    assert [row["prompt"] for row in house.stored("prompts")] == ["go"]


@pytest.mark.parametrize("warm", [True, False])
def test_a_session_opens_with_its_first_prompt_and_again_when_it_is_cleared(
    house: House, chat: Chat, warm: bool
) -> None:
    """What stands before a prompt is left out when the session is resumed, and the prompt with it."""
    house.add(lesson(delivery="start", solution="read CONTRIBUTING before the first change of all"))
    house.ok("start") if warm else house.stay_cold()
    has_lesson = []
    for source in ("startup", "resume", "clear"):
        assert chat.hook("SessionStart", "SessionStart", source=source) == {}
        for _ in range(2):
            reply = chat.hook("UserPromptSubmit", "BeforeAgent", prompt=f"go on, {source}")
            has_lesson.append("read CONTRIBUTING" in json.dumps(reply.get("hookSpecificOutput")))
    assert has_lesson == [True, False, False, False, True, False]
