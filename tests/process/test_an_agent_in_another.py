"""An agent that was started from another agent's shell is guarded as any, and nobody speaks in it as the person."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hardwon.agents import load_agent
from hardwon.agents.hook_settings import load_settings
from tests.support.house import GIT_STASH, House

HOSTS = ("claude-code", "codex", "gemini")
INHERITED = {"AI_AGENT": "claude-code_2-1-325_agent"}
CALLED = {"claude-code": "Bash", "codex": "Bash", "gemini": "run_shell_command"}


def run_installed_hook(house: House, name: str, event: str, **payload: Any) -> str:
    """Run an event's installed command with another agent's mark in the environment; return what it prints."""
    text = Path(load_settings(name).get_settings_path()).read_text()
    commands = [
        hook_command
        for event_commands in load_settings(name).find_hooks(text).values()
        for hook_command in event_commands
    ]
    (command,) = (hook_command for hook_command in commands if f" {event} " in hook_command)
    wire = json.dumps({"session_id": "s1", "cwd": "/home/dev/project", "transcript_path": "", **payload})
    run = subprocess.run(
        ["/bin/sh", "-c", command], input=wire, capture_output=True, text=True, env=house.environment(INHERITED)
    )
    return run.stdout


@pytest.mark.parametrize("name", HOSTS)
def test_a_block_holds_in_it_and_no_prompt_lifts_it(house: House, name: str) -> None:
    slug = house.add({**GIT_STASH, "delivery": "block"})
    house.ok("install", name, "--yes")
    house.stay_cold()
    stash: dict[str, Any] = {"tool_name": CALLED[name], "tool_input": {"command": "git stash"}}
    assert "deny" in run_installed_hook(house, name, "PreToolUse", **stash)
    assert run_installed_hook(house, name, "UserPromptSubmit", prompt=f"hardwon allow {slug}") == "{}"
    assert "deny" in run_installed_hook(house, name, "PreToolUse", **stash)


@pytest.mark.parametrize("name", HOSTS)
def test_every_event_but_a_prompt_is_marked(house: House, name: str) -> None:
    house.ok("install", name, "--yes")
    text = Path(load_settings(name).get_settings_path()).read_text()
    assert text.count(f"AI_AGENT={name}_hook ") == len(load_agent(name).EVENT_TIMEOUTS) - 1
