"""doctor names who else remembers for the agent, and says whether our hooks fired and how long they took."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from typing import Any

import pytest

from hardwon.agents.claude_code.install import find_memory_tools, is_auto_memory_on
from hardwon.agents.installation import try_hook
from hardwon.agents.prompt_origin import HOOK_PATH
from tests.support.house import House, happened, prompt, used

SESSION = "5e551017-0000-4000-8000-000000000001"


def list_checks(house: House, name: str, **more: Any) -> list[dict[str, Any]]:
    result = house.cli("doctor", "--json", **more)
    return [check for check in result.json() if check["name"] == name]


def write_settings(home: str, settings: dict[str, Any], name: str = "settings.json") -> str:
    path = os.path.join(home, ".claude", name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        json.dump(settings, file)
    return path


def build_hook_settings(command: str) -> dict[str, Any]:
    return {"hooks": {"PostToolUse": [{"matcher": "*", "hooks": [{"type": "command", "command": command}]}]}}


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("claude-mem", 'node "/home/dev/.claude/plugins/marketplaces/thedotmack/claude-mem/scripts/save-hook.js"'),
        ("mem0", "uvx mem0 hook add"),
        ("lessons-learned", "node /home/dev/lessons-learned/hooks/pre-tool-use.mjs"),
        ("hookify", "python3 /opt/plugins/hookify/hooks/pretooluse.py"),
        ("mcp-memory-service", "node /home/dev/.claude/hooks/core/session-start.js"),
    ],
)
def test_a_hook_of_another_memory_is_named_with_its_fix(house: House, own_home: str, name: str, command: str) -> None:
    path = write_settings(own_home, build_hook_settings(command))
    (check,) = list_checks(house, "others")
    assert (check["well"], name in check["found"], path in check["fix"]) == (None, True, True)


def test_a_plugin_is_named_if_it_is_on_and_a_hook_for_something_else_is_not(house: House, own_home: str) -> None:
    plugins = {"claude-mem@thedotmack": True, "hookify@claude-code-plugins": False}
    write_settings(own_home, {**build_hook_settings("prettier --write"), "enabledPlugins": plugins})
    (check,) = list_checks(house, "others")
    assert "claude-mem" in check["found"] and "/plugin disable claude-mem" in check["fix"]


def test_what_a_project_hooks_is_seen_from_within_it(house: House, own_home: str) -> None:
    project = os.path.join(own_home, "project")
    os.makedirs(os.path.join(project, ".git"))
    write_settings(project, build_hook_settings("npx claude-mem hook save"), "settings.local.json")
    assert len(list_checks(house, "others", cwd=project)) == 1
    assert list_checks(house, "others", cwd=own_home) == []


def test_the_agents_own_memory_is_named_while_it_is_on(house: House, own_home: str) -> None:
    path = write_settings(own_home, {"theme": "dark"})
    (check,) = list_checks(house, "auto-memory")
    assert (check["well"], path in check["fix"]) == (None, True)
    assert list_checks(house, "auto-memory", env={"CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1"}) == []
    write_settings(own_home, {"autoMemoryEnabled": False})
    assert list_checks(house, "auto-memory") == []
    assert len(list_checks(house, "auto-memory", env={"CLAUDE_CODE_DISABLE_AUTO_MEMORY": "0"})) == 1


PLUGGED = {
    "claude": (".claude/settings.json", '{"enabledPlugins": {"hardwon@hardwon": %s}}'),
    "codex": (".codex/config.toml", '[plugins."hardwon@hardwon"]\nenabled = %s\n'),
}


@pytest.mark.parametrize("program", [*PLUGGED, "gemini"])
def test_hooks_that_come_by_our_plugin_are_known(house: House, own_home: str, program: str) -> None:
    path = os.path.join(own_home, "bin", program)
    os.makedirs(os.path.dirname(path))
    with open(path, "w") as file:
        file.write("#!/bin/sh\necho 99.0.0\n")
    os.chmod(path, 0o755)
    only = {"env": {"PATH": f"{os.path.dirname(path)}:/usr/bin:/bin"}}

    def is_known(on: bool) -> bool:
        name, text = PLUGGED.get(program, (".gemini/extensions/hardwon/gemini-extension.json", "{}"))
        path = os.path.join(own_home, name)
        if on or program in PLUGGED:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as file:
                file.write(text.replace("%s", "true" if on else "false"))
        return "by the plugin" in json.dumps(list_checks(house, "hooks", **only))

    assert (is_known(False), is_known(True)) == (False, True)


def test_a_hook_that_never_answers_is_said_to_be_so() -> None:
    check = try_hook("exec sleep 600", {}, "hardwon install claude-code", timeout=0.1)
    assert (check.is_ok, "did not answer" in check.finding) == (False, True)


def test_settings_of_any_shape_are_looked_at_without_harm(own_home: str) -> None:
    shapes: list[Any] = [None, [], 3, {"hooks": 1}, {"hooks": {"Stop": [None, {"hooks": [1, {}]}]}}]
    for shape in [*shapes, {"enabledPlugins": ["x"], "hooks": {"Stop": {"a": 1}}}]:
        assert find_memory_tools(shape) == {}
        assert is_auto_memory_on([shape], {})


def test_the_hooks_of_the_latest_sessions_are_counted_and_timed(house: House, own_home: str) -> None:
    house.stay_cold()
    assert list_checks(house, "hooks fired") == []
    transcript = os.path.join(own_home, "transcript.jsonl")
    with open(transcript, "w") as file:
        file.writelines(
            f"{json.dumps(line)}\n"
            for line in [
                build_hook_line(30),
                build_hook_line(50),
                build_hook_line(400, "SessionStart"),
                build_hook_line(9, is_own=False),
            ]
        )
        file.write('{"attachment": {"type": "hook_success", "durationMs": \n')
    transcript_field = {"transcript_path": transcript}
    house.ask(SESSION, prompt("look around", **transcript_field))
    house.ask(SESSION, used("Bash", {"command": "ls"}, {"stdout": "a"}, **transcript_field))
    house.ask(SESSION, happened("Stop", last_assistant_message="looked", **transcript_field))
    house.ok("sessions", "list")  # takes in the spool
    (fired,), (timed,) = list_checks(house, "hooks fired"), list_checks(house, "hook time")
    assert (fired["well"], fired["found"]) == (True, "in 1 of the last 1 sessions, 2 events")
    assert timed["found"] == "median 50 ms, max 400 ms (SessionStart), 3 runs timed by the agent"


def build_hook_line(milliseconds: int, event: str = "PreToolUse", *, is_own: bool = True) -> dict[str, Any]:
    """Return the line that Claude Code writes into its transcript after a hook."""
    command = f"python -I -S {HOOK_PATH} claude-code {event} /home/dev/.hardwon || :" if is_own else "prettier --write"
    attachment = {
        "type": "hook_success",
        "hookEvent": event,
        "command": command,
        "durationMs": milliseconds,
        "stdout": "{}",
    }
    return {"type": "attachment", "attachment": attachment}


def test_sessions_that_no_hook_told_of_come_with_what_to_do(house: House, own_home: str) -> None:
    path = os.path.join(own_home, ".claude", "projects", "-home-dev-kite", "old.jsonl")
    os.makedirs(os.path.dirname(path))
    line = {"type": "user", "message": {"role": "user", "content": "look around"}, "sessionId": "old"}
    common = {"uuid": "u1", "timestamp": "2026-11-01T10:00:00.000Z", "cwd": "/home/dev/kite", "version": "2.1.325"}
    with open(path, "w") as file:
        file.write(json.dumps({**line, **common}) + "\n")
    house.ok("import", "transcripts")
    (fired,) = list_checks(house, "hooks fired")
    assert (fired["well"], "0 of the last 1" in fired["found"], "hardwon install" in fired["fix"]) == (None, True, True)


def test_every_failed_check_comes_with_its_fix(house: House, own_home: str) -> None:
    """In a home where much is wrong at once."""
    write_settings(own_home, build_hook_settings("npx claude-mem hook save"))
    house.ok("start")
    house.ok("stop")
    os.chmod(house.home, 0o755)
    with open(os.path.join(house.home, "lessons.json"), "w") as file:
        json.dump({"lessons": [{"summary": "no lesson"}]}, file)
    checks = house.cli("doctor", "--json").json()
    assert [check for check in checks if check["well"] is not True and not check["fix"]] == []
    assert sum(check["well"] is False for check in checks) >= 2


def test_colours_are_printed_at_a_terminal_or_on_request(house: House) -> None:
    assert "\x1b" not in house.cli("doctor").out
    assert "\x1b[33m--" in run_doctor_at_terminal(house.environment())
    assert "\x1b" not in run_doctor_at_terminal(house.environment({"NO_COLOR": "1"}))


def run_doctor_at_terminal(environment: dict[str, str]) -> str:
    our_end, their_end = pty.openpty()
    subprocess.run([sys.executable, "-m", "hardwon", "doctor"], stdin=their_end, stdout=their_end, env=environment)
    output = os.read(our_end, 65536).decode()
    os.close(our_end)
    os.close(their_end)
    return output
