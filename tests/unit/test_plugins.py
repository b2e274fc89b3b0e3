"""The plugins without the agents: what they name exists, and their script finds hardwon or reports its absence."""

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


def load_manifest(path: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((PLUGINS / path).read_text())
    return document


def find_commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield every hardwon command that a text names as code, with its arguments."""
    for line in re.findall(r"`(hardwon [^`]+)`", text.replace("\n", " ")):
        yield line, line.split()[1:]


def get_command(words: list[str]) -> click.Command:
    command: click.Command = program
    for name in words:
        if not isinstance(command, click.Group):
            break
        subcommand = command.get_command(click.Context(command), name)
        if subcommand is None:
            break
        command = subcommand
    return command


@pytest.mark.parametrize(
    "path",
    ["hardwon/.claude-plugin/plugin.json", "lessons/.claude-plugin/plugin.json", "gemini/gemini-extension.json"],
)
def test_a_plugin_has_the_version_of_hardwon(path: str) -> None:
    assert load_manifest(path)["version"] == hardwon.__version__


def test_the_marketplace_has_both_plugins_where_it_says() -> None:
    market = load_manifest("../.claude-plugin/marketplace.json")
    assert market["metadata"]["version"] == hardwon.__version__
    for plugin in market["plugins"]:
        plugin_manifest = load_manifest(f"../{plugin['source']}/.claude-plugin/plugin.json")
        assert (plugin_manifest["name"], plugin_manifest["description"]) == (plugin["name"], plugin["description"])


def test_every_event_goes_through_the_door_with_the_longer_budget_of_both_agents() -> None:
    hooks = load_manifest("hardwon/hooks/hooks.json")["hooks"]
    expected_timeouts = {
        event: max(seconds, CODEX_EVENTS.get(event, 0)) for event, seconds in CLAUDE_CODE_EVENTS.items()
    }
    assert CODEX_EVENTS.keys() <= expected_timeouts.keys()
    assert {event: entries[0]["hooks"][0]["timeout"] for event, entries in hooks.items()} == expected_timeouts
    for event, ((entry,),) in ((event, [group["hooks"] for group in entries]) for event, entries in hooks.items()):
        assert entry["command"] == f'sh "${{CLAUDE_PLUGIN_ROOT}}/door.sh" claude-code {event} || :'


def test_the_extension_registers_what_installing_would() -> None:
    hooks = load_manifest("gemini/hooks/hooks.json")["hooks"]
    for event, seconds in GEMINI_EVENTS.items():
        ((entry,),) = (group["hooks"] for group in hooks.pop(GEMINI_NAMES[event]))
        assert entry["timeout"] == 1000 * seconds
        assert entry["command"] == f'sh "${{extensionPath}}/door.sh" gemini {event} 2>/dev/null || :'
    assert hooks == {}


def test_both_doors_are_the_same() -> None:
    assert (PLUGINS / "gemini" / "door.sh").read_bytes() == DOOR.read_bytes()


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(PLUGINS)))
def test_every_command_that_a_text_names_exists(path: Path) -> None:
    for line, words in find_commands(path.read_text()):
        options = {name for param in get_command(words).params for name in param.opts}
        assert get_command(words) is not program, line
        assert {word for word in words if word.startswith("--")} <= options | {"--help"}, line


@pytest.mark.parametrize("path", sorted(PLUGINS.glob("*/commands/*.md")), ids=lambda path: path.stem)
def test_a_slash_command_lets_the_agent_run_only_what_an_agent_may(path: Path) -> None:
    for allowed in re.findall(r"Bash\(([^):]+)", path.read_text()):
        event = Event("claude-code", "PreToolUse", "s1", "/", tool="Bash", command=allowed)
        assert judge_call(event, "/home/dev/.hardwon") == "", allowed


def run_door(
    house: House, event: str, payload: dict[str, Any], *, shell: str = "sh", host: str = "claude-code", **env: str
) -> dict[str, Any]:
    """Run the script as an agent does, with a minimal environment, and return its answer."""
    environment = {"PATH": "/usr/bin:/bin", "HOME": os.environ["HOME"], **env}
    command = f"{shell}{' sh' * (shell == 'busybox')} {DOOR} {host} {event} || :"
    process = subprocess.run(
        ["/bin/sh", "-c", command], input=json.dumps(payload), capture_output=True, text=True, env=environment
    )
    assert (process.returncode, process.stderr) == (0, "")
    answer: dict[str, Any] = json.loads(process.stdout)
    return answer


def build_bash_payload(command: str, **fields: Any) -> dict[str, Any]:
    return {"session_id": "s1", **bash(command, **fields)}


START_PAYLOAD = {"session_id": "s1", "hook_event_name": "SessionStart", "source": "startup", "cwd": "/"}


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_becomes_the_hook(house: House, shell: str) -> None:
    house.add({**GIT_STASH, "delivery": "block"})
    house.ok("start")
    answer = run_door(house, "PreToolUse", build_bash_payload("git stash"), shell=shell)
    assert answer["hookSpecificOutput"]["permissionDecision"] == "deny"


def test_codex_is_recognised_by_its_variable(house: House) -> None:
    house.add({**GIT_STASH, "delivery": "block"})
    house.ok("start")
    run_door(house, "PreToolUse", build_bash_payload("git stash"), PLUGIN_ROOT=str(DOOR.parent))
    run_door(house, "PreToolUse", build_bash_payload("git stash"), PLUGIN_ROOT="/somebody/elses")
    assert sorted(delivery["host"] for delivery in house.deliveries()) == ["claude-code", "codex"]


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("remains", ["nothing", "a file that leads nowhere", "half a file"])
def test_a_missing_hardwon_is_reported_once_and_stops_nothing(house: House, shell: str, remains: str) -> None:
    if remains != "nothing":
        os.makedirs(house.home)
        Path(house.home, "front-door").write_text(
            "/gone/python\n/gone/hook.py\n" if "nowhere" in remains else "/bin/sh"
        )
    assert MISSING in run_door(house, "SessionStart", START_PAYLOAD, shell=shell)["systemMessage"]
    assert run_door(house, "SessionStart", {**START_PAYLOAD, "source": "compact"}, shell=shell) == {}
    large = {**build_bash_payload("echo"), "tool_response": "x" * 300_000}
    assert [run_door(house, event, large, shell=shell) for event in CLAUDE_CODE_EVENTS] == [{}] * len(
        CLAUDE_CODE_EVENTS
    )


def test_a_hardwon_on_the_path_that_was_never_started_is_started(house: House, tmp_path: Path) -> None:
    (tmp_path / "hardwon").symlink_to(Path(sys.executable).with_name("hardwon"))
    run_door(house, "SessionStart", START_PAYLOAD, PATH=f"{tmp_path}:/usr/bin:/bin")
    assert house.status()["running"]


def test_the_plugin_is_silent_while_the_settings_have_our_hooks(house: House) -> None:
    house.add({**GIT_STASH, "delivery": "block"})
    house.ok("install", "claude-code", "--yes")
    house.ok("start")
    assert run_door(house, "PreToolUse", build_bash_payload("git stash")) == {}
    other_answer = run_door(
        house,
        "PreToolUse",
        build_bash_payload("git stash"),
        CLAUDE_CONFIG_DIR=os.path.join(os.environ["HOME"], "other"),
    )
    assert other_answer["hookSpecificOutput"]["permissionDecision"] == "deny"
    house.ok("uninstall", "claude-code", "--yes")
    assert (
        run_door(house, "PreToolUse", build_bash_payload("git stash"))["hookSpecificOutput"]["permissionDecision"]
        == "deny"
    )


def test_hooks_of_one_project_silence_the_plugin_only_there(house: House, tmp_path: Path) -> None:
    house.add({**GIT_STASH, "delivery": "block"})
    house.ok("start")
    house.ok("install", "claude-code", "--project", "--yes", cwd=str(tmp_path))
    project, other_folder = tmp_path, tmp_path.parent
    assert run_door(house, "PreToolUse", build_bash_payload("git stash"), CLAUDE_PROJECT_DIR=str(project)) == {}
    assert run_door(house, "PreToolUse", build_bash_payload("git stash"), CLAUDE_PROJECT_DIR=str(other_folder)) != {}


@pytest.mark.parametrize("shell", SHELLS)
def test_hooks_removed_by_hand_are_noticed_at_once(house: House, shell: str) -> None:
    house.add({**GIT_STASH, "delivery": "block"})
    house.ok("install", "claude-code", "--yes")
    assert run_door(house, "PreToolUse", build_bash_payload("git stash"), shell=shell) == {}
    Path(os.environ["HOME"], ".claude", "settings.json").write_text("{}")
    assert run_door(house, "PreToolUse", build_bash_payload("git stash"), shell=shell) != {}


def test_hooks_that_codex_does_not_trust_leave_it_to_the_plugin(house: House) -> None:
    house.add({**GIT_STASH, "delivery": "block"})
    house.ok("install", "codex", "--yes")
    assert run_door(house, "PreToolUse", build_bash_payload("git stash"), PLUGIN_ROOT=str(DOOR.parent)) != {}
    house.ok("install", "codex", "--trust", "--yes")
    assert run_door(house, "PreToolUse", build_bash_payload("git stash"), PLUGIN_ROOT=str(DOOR.parent)) == {}


@pytest.mark.parametrize("host", ["claude-code", "gemini"])
def test_under_another_agent_a_guard_holds_and_no_prompt_decides(house: House, host: str) -> None:
    slug = house.add({**GIT_STASH, "delivery": "block"})
    house.ok("start")
    call_payload = {
        **build_bash_payload("git stash"),
        "tool_name": "Bash" if host == "claude-code" else "run_shell_command",
    }
    prompt_payload = {
        "session_id": "s1",
        "hook_event_name": "UserPromptSubmit",
        "prompt": f"hardwon allow {slug}",
        "cwd": "/",
    }
    agent_variable = {"AI_AGENT": "other_agent"}
    assert run_door(house, "UserPromptSubmit", prompt_payload, host=host, **agent_variable) == {}
    assert "deny" in json.dumps(run_door(house, "PreToolUse", call_payload, host=host, **agent_variable))


def test_the_plugin_starts_nothing_when_turned_off(house: House, tmp_path: Path) -> None:
    (tmp_path / "hardwon").symlink_to(Path(sys.executable).with_name("hardwon"))
    assert run_door(house, "SessionStart", START_PAYLOAD, PATH=f"{tmp_path}:/usr/bin:/bin", HARDWON_OFF="1") == {}
    assert not os.path.exists(house.home)


def test_uninstalling_removes_the_files_of_the_plugin(house: House) -> None:
    house.ok("start")
    assert {"front-door", "hooked"} <= set(os.listdir(house.home))
    house.ok("uninstall", "--all", "--yes")
    assert not {"front-door", "hooked"} & set(os.listdir(house.home))


def initialize_server(words: list[str], **env: str) -> str:
    """Return what an MCP server answers to the first request."""
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "made up", "version": "1"}}
    payload_text = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}) + "\n"
    environment = {"PATH": "/usr/bin:/bin", "HOME": os.environ["HOME"], **env}
    process = subprocess.run(words, input=payload_text, capture_output=True, text=True, env=environment, timeout=120)
    return process.stdout or process.stderr


@pytest.mark.parametrize("path", ["hardwon/.mcp.json", "gemini/gemini-extension.json"])
def test_the_mcp_server_is_found_through_the_door(house: House, path: str) -> None:
    server = load_manifest(path)["mcpServers"]["hardwon"]
    folder = str((PLUGINS / path).parent)
    words = [server["command"], *(word.replace("${extensionPath}", folder) for word in server["args"])]
    assert MISSING in initialize_server(words)
    house.ok("start")
    assert '"serverInfo"' in initialize_server(words)
