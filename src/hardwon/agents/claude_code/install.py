"""Claude Code: hooks in settings.json, MCP servers in the file beside its folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from hardwon.agents.claude_code.payload import EVENT_TIMEOUTS
from hardwon.agents.hook_entries import SERVER_NAME, SERVERS_KEY, add_hook_entries, add_server_entry
from hardwon.agents.hook_entries import find_hooks as find_hooks
from hardwon.agents.hook_entries import find_mcp_command as find_mcp_command
from hardwon.agents.hook_entries import remove_hooks as remove_hooks
from hardwon.agents.hook_entries import remove_mcp_server as remove_mcp_server

if TYPE_CHECKING:
    from hardwon.agents import CreatedPaths

TITLE = "Claude Code"
PROGRAM = "claude"
MINIMUM_VERSION = (2, 1, 0)
EMPTY_SETTINGS = "{}\n"
NEXT_STEP = ""
PROBE_PAYLOAD = {
    "session_id": "hardwon-doctor",
    "transcript_path": "",
    "cwd": "/",
    "permission_mode": "default",
    "hook_event_name": "PreToolUse",
    "tool_name": "Bash",
    "tool_input": {"command": "true", "description": "hardwon doctor"},
    "tool_use_id": "toolu_doctor",
}


def get_settings_path(*, project: str = "") -> str:
    """The person's settings, or with a project the one file there that is never committed."""
    if project:
        return os.path.join(project, ".claude", "settings.local.json")
    folder = os.environ.get("CLAUDE_CONFIG_DIR") or os.path.expanduser("~/.claude")
    return os.path.join(folder, "settings.json")


def add_hooks(text: str, build_command: Callable[[str], str]) -> tuple[str, CreatedPaths]:
    """The settings with our hooks in them, and which containers had to be made for them."""
    entries = {
        event: {"type": "command", "command": build_command(event), "timeout": seconds}
        for event, seconds in EVENT_TIMEOUTS.items()
    }
    return add_hook_entries(text, entries)


def get_mcp_path() -> str:
    folder = os.environ.get("CLAUDE_CONFIG_DIR") or os.path.expanduser("~")
    return os.path.join(folder, ".claude.json")


def add_mcp_server(text: str, command: Sequence[str]) -> tuple[str, CreatedPaths]:
    return add_server_entry(
        text, [SERVERS_KEY, SERVER_NAME], {"type": "stdio", "command": command[0], "args": [*command[1:]], "env": {}}
    )
