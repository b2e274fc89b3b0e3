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
from hardwon.agents.installation_checks import try_hook
from hardwon.agents.prompt_origin import HOOK_PATH
from tests.support.house import House, happened, prompt, used

SESSION = "5e551017-0000-4000-8000-000000000001"


def checks(house: House, name: str, **more: Any) -> list[dict[str, Any]]:
    ran = house.cli("doctor", "--json", **more)
    return [check for check in ran.json() if check["name"] == name]


def settle(home: str, settings: dict[str, Any], name: str = "settings.json") -> str:
    path = os.path.join(home, ".claude", name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        json.dump(settings, file)
    return path


def hooked(command: str) -> dict[str, Any]:
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
    path = settle(own_home, hooked(command))
    (found,) = checks(house, "others")
    assert (found["well"], name in found["found"], path in found["fix"]) == (None, True, True)


def test_a_plugin_is_named_if_it_is_on_and_a_hook_for_something_else_is_not(house: House, own_home: str) -> None:
    plugins = {"claude-mem@thedotmack": True, "hookify@claude-code-plugins": False}
    settle(own_home, {**hooked("prettier --write"), "enabledPlugins": plugins})
    (found,) = checks(house, "others")
    assert "claude-mem" in found["found"] and "/plugin disable claude-mem" in found["fix"]


def test_what_a_project_hooks_is_seen_from_within_it(house: House, own_home: str) -> None:
    project = os.path.join(own_home, "project")
    os.makedirs(os.path.join(project, ".git"))
    settle(project, hooked("npx claude-mem hook save"), "settings.local.json")
    assert len(checks(house, "others", cwd=project)) == 1
    assert checks(house, "others", cwd=own_home) == []


def test_the_agents_own_memory_is_named_while_it_is_on(house: House, own_home: str) -> None:
    path = settle(own_home, {"theme": "dark"})
    (found,) = checks(house, "auto-memory")
    assert (found["well"], path in found["fix"]) == (None, True)
    assert checks(house, "auto-memory", env={"CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1"}) == []
    settle(own_home, {"autoMemoryEnabled": False})
    assert checks(house, "auto-memory") == []
    assert len(checks(house, "auto-memory", env={"CLAUDE_CODE_DISABLE_AUTO_MEMORY": "0"})) == 1


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
        place = os.path.join(own_home, name)
        if on or program in PLUGGED:
            os.makedirs(os.path.dirname(place), exist_ok=True)
            with open(place, "w") as file:
                file.write(text.replace("%s", "true" if on else "false"))
        return "by the plugin" in json.dumps(checks(house, "hooks", **only))

    assert (is_known(False), is_known(True)) == (False, True)


def test_a_hook_that_never_answers_is_said_to_be_so() -> None:
    found = try_hook("exec sleep 600", {}, "hardwon install claude-code", timeout=0.1)
    assert (found.is_ok, "did not answer" in found.finding) == (False, True)


def test_settings_of_any_shape_are_looked_at_without_harm(own_home: str) -> None:
    shapes: list[Any] = [None, [], 3, {"hooks": 1}, {"hooks": {"Stop": [None, {"hooks": [1, {}]}]}}]
    for shape in [*shapes, {"enabledPlugins": ["x"], "hooks": {"Stop": {"a": 1}}}]:
        assert find_memory_tools(shape) == {}
        assert is_auto_memory_on([shape], {})


def test_the_hooks_of_the_latest_sessions_are_counted_and_timed(house: House, own_home: str) -> None:
    house.stay_cold()
    assert checks(house, "hooks fired") == []
    transcript = os.path.join(own_home, "transcript.jsonl")
    with open(transcript, "w") as file:
        file.writelines(
            f"{json.dumps(line)}\n" for line in [ran(30), ran(50), ran(400, "SessionStart"), ran(9, own=False)]
        )
        file.write('{"attachment": {"type": "hook_success", "durationMs": \n')
    told = {"transcript_path": transcript}
    house.ask(SESSION, prompt("look around", **told))
    house.ask(SESSION, used("Bash", {"command": "ls"}, {"stdout": "a"}, **told))
    house.ask(SESSION, happened("Stop", last_assistant_message="looked", **told))
    house.ok("sessions", "list")  # takes in the spool
    (fired,), (timed,) = checks(house, "hooks fired"), checks(house, "hook time")
    assert (fired["well"], fired["found"]) == (True, "in 1 of the last 1 sessions, 2 events")
    assert timed["found"] == "median 50 ms, max 400 ms (SessionStart), 3 runs timed by the agent"


def ran(milliseconds: int, event: str = "PreToolUse", *, own: bool = True) -> dict[str, Any]:
    """The line that Claude Code writes into its transcript after a hook."""
    command = f"python -I -S {HOOK_PATH} claude-code {event} /home/dev/.hardwon || :" if own else "prettier --write"
    told = {"type": "hook_success", "hookEvent": event, "command": command, "durationMs": milliseconds, "stdout": "{}"}
    return {"type": "attachment", "attachment": told}


def test_sessions_that_no_hook_told_of_come_with_what_to_do(house: House, own_home: str) -> None:
    path = os.path.join(own_home, ".claude", "projects", "-home-dev-kite", "old.jsonl")
    os.makedirs(os.path.dirname(path))
    said = {"type": "user", "message": {"role": "user", "content": "look around"}, "sessionId": "old"}
    common = {"uuid": "u1", "timestamp": "2026-11-01T10:00:00.000Z", "cwd": "/home/dev/kite", "version": "2.1.325"}
    with open(path, "w") as file:
        file.write(json.dumps({**said, **common}) + "\n")
    house.ok("import", "transcripts")
    (fired,) = checks(house, "hooks fired")
    assert (fired["well"], "0 of the last 1" in fired["found"], "hardwon install" in fired["fix"]) == (None, True, True)


def test_whatever_is_not_well_comes_with_its_fix(house: House, own_home: str) -> None:
    """In a home where much is wrong at once."""
    settle(own_home, hooked("npx claude-mem hook save"))
    house.ok("start")
    house.ok("stop")
    os.chmod(house.home, 0o755)
    with open(os.path.join(house.home, "lessons.json"), "w") as file:
        json.dump({"lessons": [{"summary": "no lesson"}]}, file)
    found = house.cli("doctor", "--json").json()
    assert [check for check in found if check["well"] is not True and not check["fix"]] == []
    assert sum(check["well"] is False for check in found) >= 2


def test_colours_are_for_terminals_and_for_who_wants_them(house: House) -> None:
    assert "\x1b" not in house.cli("doctor").out
    assert "\x1b[33m--" in at_a_terminal(house.environment())
    assert "\x1b" not in at_a_terminal(house.environment({"NO_COLOR": "1"}))


def at_a_terminal(environment: dict[str, str]) -> str:
    ours, theirs = pty.openpty()
    subprocess.run([sys.executable, "-m", "hardwon", "doctor"], stdin=theirs, stdout=theirs, env=environment)
    said = os.read(ours, 65536).decode()
    os.close(ours)
    os.close(theirs)
    return said
