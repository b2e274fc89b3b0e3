"""Qwen Code: hooks and MCP servers in one settings.json, in Claude Code's form and with times in seconds."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from hardwon.agents.qwen.payload import EVENT_TIMEOUTS
from hardwon.agents.settings_files import (
    SERVER_NAME,
    SERVERS_KEY,
    add_hook_entries,
    add_server_entry,
    find_hooks,
    find_mcp_command,
    remove_hooks,
    remove_mcp_server,
    runs_hooks,
)
from hardwon.errors import UserError

if TYPE_CHECKING:
    from hardwon.agents import CreatedPaths

__all__ = ["find_hooks", "find_mcp_command", "remove_hooks", "remove_mcp_server", "runs_hooks"]

TITLE = "Qwen Code"
PROGRAM = "qwen"
MINIMUM_VERSION = (0, 24, 4)
EMPTY_SETTINGS = "{}\n"
NEXT_STEP = ""
PROBE_PAYLOAD = {
    "session_id": "hardwon-doctor",
    "transcript_path": "",
    "cwd": "/",
    "hook_event_name": "PreToolUse",
    "timestamp": "2026-01-01T00:00:00.000Z",
    "permission_mode": "default",
    "tool_name": "run_shell_command",
    "tool_input": {"command": "true", "description": "hardwon doctor", "is_background": False},
    "tool_use_id": "toolu_doctor",
    "tool_call_id": "call_doctor",
}


def get_settings_path(*, project: str = "") -> str:
    if project:
        message = "Qwen Code has no hooks for one project but in a file that is committed"
        raise UserError(message, "leave out --project; HARDWON_OFF=1 keeps hardwon out of one session")
    return os.path.expanduser("~/.qwen/settings.json")


def add_hooks(text: str, build_command: Callable[[str], str]) -> tuple[str, CreatedPaths]:
    # A timeout of 1000 or more would be read as milliseconds; ours are far below.
    entries = {
        event: {"type": "command", "command": build_command(event), "timeout": seconds}
        for event, seconds in EVENT_TIMEOUTS.items()
    }
    return add_hook_entries(text, entries)


def find_plugin() -> str:
    return ""  # there is no plugin for it


def check_trust(text: str) -> None:
    """Qwen Code runs every hook in the person's own settings."""


def get_mcp_path() -> str:
    return get_settings_path()


def add_mcp_server(text: str, command: Sequence[str]) -> tuple[str, CreatedPaths]:
    entry = {"command": command[0], "args": [*command[1:]]}
    return add_server_entry(text, [SERVERS_KEY, SERVER_NAME], entry)
