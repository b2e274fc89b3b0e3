"""Gemini CLI: hooks and MCP servers in one settings.json, with times in milliseconds."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from hardwon import projects
from hardwon.agents.fields import get_list, get_object
from hardwon.agents.gemini.payload import EVENT_TIMEOUTS, NATIVE_EVENT_NAMES
from hardwon.agents.settings_files import (
    SERVER_NAME,
    SERVERS_KEY,
    add_hook_entries,
    add_server_entry,
    find_hooks,
    find_mcp_command,
    get_value,
    remove_hooks,
    remove_mcp_server,
    runs_hooks,
)
from hardwon.errors import UserError
from hardwon.paths import open_plain_file

if TYPE_CHECKING:
    from hardwon.agents import CreatedPaths, TrustFinding

__all__ = ["find_hooks", "find_mcp_command", "remove_hooks", "remove_mcp_server", "runs_hooks"]

TITLE = "Gemini CLI"
PROGRAM = "gemini"
MINIMUM_VERSION = (0, 40, 0)
EMPTY_SETTINGS = "{}\n"
NEXT_STEP = (
    "Gemini CLI runs hooks only in folders that you trust: say so when it asks, or type /permissions trust in it"
)
PROBE_PAYLOAD = {
    "session_id": "hardwon-doctor",
    "transcript_path": "",
    "cwd": "/",
    "hook_event_name": "BeforeTool",
    "timestamp": "2026-01-01T00:00:00.000Z",
    "tool_name": "run_shell_command",
    "tool_input": {"command": "true", "description": "hardwon doctor"},
}
_COMMAND_SUFFIX = " || :"


def get_settings_path(*, project: str = "") -> str:
    if project:
        message = "Gemini CLI has no hooks for one project but in a file that is committed"
        raise UserError(message, "leave out --project; HARDWON_OFF=1 keeps hardwon out of one session")
    return os.path.join(_get_config_folder(), "settings.json")


def _get_config_folder() -> str:
    return os.path.join(os.environ.get("GEMINI_CLI_HOME") or os.path.expanduser("~"), ".gemini")


def add_hooks(text: str, build_command: Callable[[str], str]) -> tuple[str, CreatedPaths]:
    entries = {
        NATIVE_EVENT_NAMES[event]: {
            "name": SERVER_NAME,  # a person can switch off all hooks of this name in the program
            "type": "command",
            "command": _silence_command(build_command(event)),
            "timeout": seconds * 1000,
        }
        for event, seconds in EVENT_TIMEOUTS.items()
    }
    return add_hook_entries(text, entries)


def _silence_command(command: str) -> str:
    """Discard stderr: with an empty stdout Gemini CLI shows it to the person, at every call once hardwon is gone."""
    return f"{command.removesuffix(_COMMAND_SUFFIX)} 2>/dev/null{_COMMAND_SUFFIX}"


def find_hook_obstacle(text: str, folder: str) -> str:
    """Return why hooks in these settings do not run in a folder; empty if they do."""
    settings = get_value(text)
    switches = get_object(settings, "hooksConfig")
    if switches.get("enabled") is False or SERVER_NAME in get_list(switches, "disabled"):
        return f"hooksConfig in {get_settings_path()} switches them off"
    folder_trust = get_object(get_object(settings, "security"), "folderTrust")
    if folder_trust.get("enabled") is False or _is_trusted_folder(folder):
        return ""
    return f"{TITLE} was not told to trust {folder}"


def _is_trusted_folder(folder: str) -> bool:
    """Return the person's decision for the nearest folder at or above this one."""
    default_path = os.path.join(_get_config_folder(), "trustedFolders.json")
    try:
        trust_path = os.environ.get("GEMINI_CLI_TRUSTED_FOLDERS_PATH") or default_path
        with open(trust_path, encoding="utf-8", opener=open_plain_file) as file:
            trust_levels = json.load(file)
    except (OSError, ValueError):
        return False
    # The nearest folder decides.
    levels: dict[str, str] = {}
    for path, level in trust_levels.items() if isinstance(trust_levels, dict) else ():
        root = os.path.realpath(os.path.dirname(path) if level == "TRUST_PARENT" else path)
        if f"{os.path.realpath(folder)}/".startswith(f"{root.rstrip('/')}/"):
            levels[root] = level
    return bool(levels) and levels[max(levels, key=len)] in ("TRUST_FOLDER", "TRUST_PARENT")


def find_plugin() -> str:
    folder = os.path.join(_get_config_folder(), "extensions", SERVER_NAME)
    return folder if os.path.isdir(folder) else ""


def check_trust(text: str) -> TrustFinding | None:
    obstacle = find_hook_obstacle(text, projects.find_git_root(os.getcwd()))
    return (None, obstacle, NEXT_STEP) if obstacle else None


def get_mcp_path() -> str:
    return get_settings_path()


def add_mcp_server(text: str, command: Sequence[str]) -> tuple[str, CreatedPaths]:
    entry = {"command": command[0], "args": [*command[1:]]}
    return add_server_entry(text, [SERVERS_KEY, SERVER_NAME], entry)
