"""Gemini CLI: hooks and MCP servers in one settings.json, with times in milliseconds. It may have comments."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from hardwon.agents import hook_entries, json_edit
from hardwon.agents.gemini.payload import EVENT_TIMEOUTS, NATIVE_EVENT_NAMES
from hardwon.agents.hook_entries import SERVER_NAME, SERVERS_KEY, add_hook_entries, add_server_entry
from hardwon.errors import UserError
from hardwon.paths import open_plain_file

if TYPE_CHECKING:
    from hardwon.agents import CreatedPaths

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

find_hooks = partial(hook_entries.find_hooks, allow_comments=True)
remove_hooks = partial(hook_entries.remove_hooks, allow_comments=True)
find_mcp_command = partial(hook_entries.find_mcp_command, allow_comments=True)
remove_mcp_server = partial(hook_entries.remove_mcp_server, allow_comments=True)


def get_settings_path(*, project: str = "") -> str:
    if project:
        message = "Gemini CLI has no hooks for one project but in a file that is committed"
        raise UserError(message, "leave out --project; HARDWON_OFF=1 keeps hardwon out of one session")
    return os.path.join(_get_config_folder(), "settings.json")


def _get_config_folder() -> str:
    return os.path.join(os.environ.get("GEMINI_CLI_HOME") or os.path.expanduser("~"), ".gemini")


def add_hooks(text: str, build_command: Callable[[str], str]) -> tuple[str, CreatedPaths]:
    """The settings with our hooks in them, and which containers had to be made for them. By one name they can all be
    switched off in the program."""
    entries = {
        NATIVE_EVENT_NAMES[event]: {
            "name": SERVER_NAME,
            "type": "command",
            "command": _silence_command(build_command(event)),
            "timeout": seconds * 1000,
        }
        for event, seconds in EVENT_TIMEOUTS.items()
    }
    return add_hook_entries(text, entries, allow_comments=True)


def _silence_command(command: str) -> str:
    """Without a word on stderr: with nothing on stdout it shows that to the person, at every call once we are gone."""
    return f"{command.removesuffix(_COMMAND_SUFFIX)} 2>/dev/null{_COMMAND_SUFFIX}"


def find_hook_obstacle(text: str, folder: str) -> str:
    """Why hooks in these settings do not run in a folder; empty if they do."""
    switches = json_edit.get_value(text, ["hooksConfig"], allow_comments=True)
    switches = switches if isinstance(switches, dict) else {}
    if switches.get("enabled") is False or SERVER_NAME in (switches.get("disabled") or ()):
        return f"hooksConfig in {get_settings_path()} switches them off"
    needs_trust = json_edit.get_value(text, ["security", "folderTrust", "enabled"], allow_comments=True) is not False
    return f"{TITLE} was not told to trust {folder}" if needs_trust and not _is_trusted_folder(folder) else ""


def _is_trusted_folder(folder: str) -> bool:
    """By the nearest folder at or above this one about which the person has said something."""
    trust_path = os.environ.get("GEMINI_CLI_TRUSTED_FOLDERS_PATH") or os.path.join(
        _get_config_folder(), "trustedFolders.json"
    )
    try:
        with open(trust_path, encoding="utf-8", opener=open_plain_file) as file:
            trust_levels = json.load(file)
    except (OSError, ValueError):
        return False
    folder_prefix, levels = f"{os.path.realpath(folder)}/", {}
    for path, level in trust_levels.items() if isinstance(trust_levels, dict) else ():
        root = os.path.realpath(os.path.dirname(path) if level == "TRUST_PARENT" else path)
        if folder_prefix.startswith(f"{root.rstrip('/')}/"):
            levels[root] = level
    return bool(levels) and levels[max(levels, key=len)] in ("TRUST_FOLDER", "TRUST_PARENT")


def get_mcp_path() -> str:
    return get_settings_path()


def add_mcp_server(text: str, command: Sequence[str]) -> tuple[str, CreatedPaths]:
    return add_server_entry(
        text, [SERVERS_KEY, SERVER_NAME], {"command": command[0], "args": [*command[1:]]}, allow_comments=True
    )
