"""The plugins without the agents: what they name is there, and their script finds hardwon, or says so and stops nobody."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

import hardwon
from hardwon.agents.claude_code import EVENT_TIMEOUTS as CLAUDE_CODE_EVENTS
from hardwon.agents.codex import EVENT_TIMEOUTS as CODEX_EVENTS
from hardwon.agents.gemini import EVENT_TIMEOUTS as GEMINI_EVENTS
from hardwon.agents.gemini import NATIVE_EVENT_NAMES as GEMINI_NAMES
from hardwon.cli import hardwon as program
from hardwon.self_protection.commands import judge_call
from hardwon.types import Event
from tests.support.house import GIT_STASH, House, bash

PLUGINS = Path(__file__).resolve().parents[2] / "plugins"
DOOR = PLUGINS / "hardwon" / "door.sh"
SHELLS = [shell for shell in ("dash", "bash", "ksh", "busybox") if shutil.which(shell)]
TEXTS = sorted(PLUGINS.glob("*/**/*.md"))
MISSING = "uv tool install hardwon, then hardwon up"


def manifest(place: str) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((PLUGINS / place).read_text())
    return read


def commands_in(text: str) -> Iterator[tuple[str, list[str]]]:
    """Every command of ours that a text names as code, with its words."""
    for line in re.findall(r"`(hardwon [^`]+)`", text.replace("\n", " ")):
        yield line, line.split()[1:]


def command_at(words: list[str]) -> click.Command:
    found: click.Command = program
    for name in words:
        if not isinstance(found, click.Group):
            break
        below = found.get_command(click.Context(found), name)
        if below is None:
            break
        found = below
    return found


@pytest.mark.parametrize(
    "place",
    ["hardwon/.claude-plugin/plugin.json", "lessons/.claude-plugin/plugin.json", "gemini/gemini-extension.json"],
)
def test_a_plugin_has_the_version_of_hardwon(place: str) -> None:
    assert manifest(place)["version"] == hardwon.__version__


def test_the_marketplace_has_both_plugins_where_it_says() -> None:
    market = manifest("../.claude-plugin/marketplace.json")
    assert market["metadata"]["version"] == hardwon.__version__
    for plugin in market["plugins"]:
        inside = manifest(f"../{plugin['source']}/.claude-plugin/plugin.json")
        assert (inside["name"], inside["description"]) == (plugin["name"], plugin["description"])


def test_every_event_goes_through_the_door_with_the_longer_budget_of_both_agents() -> None:
    hooks = manifest("hardwon/hooks/hooks.json")["hooks"]
    wanted = {event: max(seconds, CODEX_EVENTS.get(event, 0)) for event, seconds in CLAUDE_CODE_EVENTS.items()}
    assert CODEX_EVENTS.keys() <= wanted.keys()
    assert {event: entries[0]["hooks"][0]["timeout"] for event, entries in hooks.items()} == wanted
    for event, ((entry,),) in ((event, [one["hooks"] for one in entries]) for event, entries in hooks.items()):
        assert entry["command"] == f'sh "${{CLAUDE_PLUGIN_ROOT}}/door.sh" claude-code {event} || :'


def test_the_extension_registers_what_installing_would() -> None:
    hooks = manifest("gemini/hooks/hooks.json")["hooks"]
    for event, seconds in GEMINI_EVENTS.items():
        ((entry,),) = (one["hooks"] for one in hooks.pop(GEMINI_NAMES[event]))
        assert entry["timeout"] == 1000 * seconds
        assert entry["command"] == f'sh "${{extensionPath}}/door.sh" gemini {event} 2>/dev/null || :'
    assert hooks == {}


def test_both_doors_are_the_same() -> None:
    assert (PLUGINS / "gemini" / "door.sh").read_bytes() == DOOR.read_bytes()


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(PLUGINS)))
def test_every_command_that_a_text_names_is_there(path: Path) -> None:
    for line, words in commands_in(path.read_text()):
        options = {name for param in command_at(words).params for name in param.opts}
        assert command_at(words) is not program, line
        assert {word for word in words if word.startswith("--")} <= options | {"--help"}, line


@pytest.mark.parametrize("path", sorted(PLUGINS.glob("*/commands/*.md")), ids=lambda path: path.stem)
def test_a_slash_command_lets_the_agent_run_only_what_an_agent_may(path: Path) -> None:
    for allowed in re.findall(r"Bash\(([^):]+)", path.read_text()):
        asked = Event("claude-code", "PreToolUse", "s1", "/", tool="Bash", command=allowed)
        assert judge_call(asked, "/home/dev/.hardwon") == "", allowed


def door(
    house: House, event: str, payload: dict[str, Any], *, shell: str = "sh", host: str = "claude-code", **env: str
) -> dict[str, Any]:
    """What the script prints, as an agent runs it: with no more of the environment than it has."""
    told = {"PATH": "/usr/bin:/bin", "HOME": os.environ["HOME"], **env}
    command = f"{shell}{' sh' * (shell == 'busybox')} {DOOR} {host} {event} || :"
    done = subprocess.run(
        ["/bin/sh", "-c", command], input=json.dumps(payload), capture_output=True, text=True, env=told
    )
    assert (done.returncode, done.stderr) == (0, "")
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def asks(command: str, **more: Any) -> dict[str, Any]:
    return {"session_id": "s1", **bash(command, **more)}


STARTS = {"session_id": "s1", "hook_event_name": "SessionStart", "source": "startup", "cwd": "/"}


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_becomes_the_hook(house: House, shell: str) -> None:
    house.add({**GIT_STASH, "delivery": "block"})
    house.ok("start")
    said = door(house, "PreToolUse", asks("git stash"), shell=shell)
    assert said["hookSpecificOutput"]["permissionDecision"] == "deny"


def test_codex_is_told_by_what_it_sets(house: House) -> None:
    house.add({**GIT_STASH, "delivery": "block"})
    house.ok("start")
    door(house, "PreToolUse", asks("git stash"), PLUGIN_ROOT=str(DOOR.parent))
    door(house, "PreToolUse", asks("git stash"), PLUGIN_ROOT="/somebody/elses")
    assert sorted(delivery["host"] for delivery in house.deliveries()) == ["claude-code", "codex"]


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("left", ["nothing", "a file that leads nowhere", "half a file"])
def test_without_hardwon_it_is_said_once_and_stops_nobody(house: House, shell: str, left: str) -> None:
    if left != "nothing":
        os.makedirs(house.home)
        Path(house.home, "front-door").write_text("/gone/python\n/gone/hook.py\n" if "nowhere" in left else "/bin/sh")
    assert MISSING in door(house, "SessionStart", STARTS, shell=shell)["systemMessage"]
    assert door(house, "SessionStart", {**STARTS, "source": "compact"}, shell=shell) == {}
    large = {**asks("echo"), "tool_response": "x" * 300_000}
    assert [door(house, event, large, shell=shell) for event in CLAUDE_CODE_EVENTS] == [{}] * len(CLAUDE_CODE_EVENTS)


def test_a_hardwon_on_the_path_that_was_never_started_is_started(house: House, tmp_path: Path) -> None:
    (tmp_path / "hardwon").symlink_to(Path(sys.executable).with_name("hardwon"))
    door(house, "SessionStart", STARTS, PATH=f"{tmp_path}:/usr/bin:/bin")
    assert house.status()["running"]


def test_it_is_silent_where_the_settings_have_our_hooks_and_speaks_once_they_are_out(house: House) -> None:
    house.add({**GIT_STASH, "delivery": "block"})
    house.ok("install", "claude-code", "--yes")
    house.ok("start")
    assert door(house, "PreToolUse", asks("git stash")) == {}
    elsewhere = door(
        house, "PreToolUse", asks("git stash"), CLAUDE_CONFIG_DIR=os.path.join(os.environ["HOME"], "other")
    )
    assert elsewhere["hookSpecificOutput"]["permissionDecision"] == "deny"
    house.ok("uninstall", "claude-code", "--yes")
    assert door(house, "PreToolUse", asks("git stash"))["hookSpecificOutput"]["permissionDecision"] == "deny"


def test_hooks_of_one_project_silence_it_there_alone(house: House, tmp_path: Path) -> None:
    house.add({**GIT_STASH, "delivery": "block"})
    house.ok("start")
    house.ok("install", "claude-code", "--project", "--yes", cwd=str(tmp_path))
    here, there = tmp_path, tmp_path.parent
    assert door(house, "PreToolUse", asks("git stash"), CLAUDE_PROJECT_DIR=str(here)) == {}
    assert door(house, "PreToolUse", asks("git stash"), CLAUDE_PROJECT_DIR=str(there)) != {}


@pytest.mark.parametrize("shell", SHELLS)
def test_hooks_that_a_person_took_out_by_hand_are_noticed_at_once(house: House, shell: str) -> None:
    house.add({**GIT_STASH, "delivery": "block"})
    house.ok("install", "claude-code", "--yes")
    assert door(house, "PreToolUse", asks("git stash"), shell=shell) == {}
    Path(os.environ["HOME"], ".claude", "settings.json").write_text("{}")
    assert door(house, "PreToolUse", asks("git stash"), shell=shell) != {}


def test_hooks_that_codex_does_not_trust_leave_it_to_the_plugin(house: House) -> None:
    house.add({**GIT_STASH, "delivery": "block"})
    house.ok("install", "codex", "--yes")
    assert door(house, "PreToolUse", asks("git stash"), PLUGIN_ROOT=str(DOOR.parent)) != {}
    house.ok("install", "codex", "--trust", "--yes")
    assert door(house, "PreToolUse", asks("git stash"), PLUGIN_ROOT=str(DOOR.parent)) == {}


@pytest.mark.parametrize("host", ["claude-code", "gemini"])
def test_a_guard_holds_where_another_agents_mark_is_inherited_and_no_prompt_counts(house: House, host: str) -> None:
    slug = house.add({**GIT_STASH, "delivery": "block"})
    house.ok("start")
    called = {**asks("git stash"), "tool_name": "Bash" if host == "claude-code" else "run_shell_command"}
    typed = {"session_id": "s1", "hook_event_name": "UserPromptSubmit", "prompt": f"hardwon allow {slug}", "cwd": "/"}
    mark = {"AI_AGENT": "other_agent"}
    assert door(house, "UserPromptSubmit", typed, host=host, **mark) == {}
    assert "deny" in json.dumps(door(house, "PreToolUse", called, host=host, **mark))


def test_turned_off_it_starts_nothing(house: House, tmp_path: Path) -> None:
    (tmp_path / "hardwon").symlink_to(Path(sys.executable).with_name("hardwon"))
    assert door(house, "SessionStart", STARTS, PATH=f"{tmp_path}:/usr/bin:/bin", HARDWON_OFF="1") == {}
    assert not os.path.exists(house.home)


def test_leaving_leaves_nothing_of_it(house: House) -> None:
    house.ok("start")
    assert {"front-door", "hooked"} <= set(os.listdir(house.home))
    house.ok("uninstall", "--all", "--yes")
    assert not {"front-door", "hooked"} & set(os.listdir(house.home))


def initialized(words: list[str], **env: str) -> str:
    """What an MCP server says to the first request."""
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "made up", "version": "1"}}
    asked = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}) + "\n"
    told = {"PATH": "/usr/bin:/bin", "HOME": os.environ["HOME"], **env}
    done = subprocess.run(words, input=asked, capture_output=True, text=True, env=told, timeout=120)
    return done.stdout or done.stderr


@pytest.mark.parametrize("place", ["hardwon/.mcp.json", "gemini/gemini-extension.json"])
def test_the_server_is_found_as_the_hook_is(house: House, place: str) -> None:
    server = manifest(place)["mcpServers"]["hardwon"]
    folder = str((PLUGINS / place).parent)
    words = [server["command"], *(word.replace("${extensionPath}", folder) for word in server["args"])]
    assert MISSING in initialized(words)
    house.ok("start")
    assert '"serverInfo"' in initialized(words)
