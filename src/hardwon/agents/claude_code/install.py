"""Claude Code: hooks in settings.json, MCP servers in the file beside its folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from hardwon.agents.claude_code.payload import EVENTS
from hardwon.agents.hook_entries import SERVER, SERVERS, add_hooks, add_server
from hardwon.agents.hook_entries import installed as installed
from hardwon.agents.hook_entries import mcp as mcp
from hardwon.agents.hook_entries import remove_mcp as remove_mcp
from hardwon.agents.hook_entries import uninstall as uninstall

if TYPE_CHECKING:
    from hardwon.agents import Made

TITLE = "Claude Code"
PROGRAM = "claude"
LEAST = (2, 1, 0)
EMPTY = "{}\n"
THEN = ""
PROBE = {
    "session_id": "hardwon-doctor",
    "transcript_path": "",
    "cwd": "/",
    "permission_mode": "default",
    "hook_event_name": "PreToolUse",
    "tool_name": "Bash",
    "tool_input": {"command": "true", "description": "hardwon doctor"},
    "tool_use_id": "toolu_doctor",
}


def settings_file(*, project: str = "") -> str:
    """The person's settings, or with a project the one file there that is never committed."""
    if project:
        return os.path.join(project, ".claude", "settings.local.json")
    folder = os.environ.get("CLAUDE_CONFIG_DIR") or os.path.expanduser("~/.claude")
    return os.path.join(folder, "settings.json")


def install(text: str, command: Callable[[str], str]) -> tuple[str, Made]:
    """The settings with our hooks in them, and which containers had to be made for them."""
    entries = {
        event: {"type": "command", "command": command(event), "timeout": seconds} for event, seconds in EVENTS.items()
    }
    return add_hooks(text, entries)


def mcp_file() -> str:
    folder = os.environ.get("CLAUDE_CONFIG_DIR") or os.path.expanduser("~")
    return os.path.join(folder, ".claude.json")


def add_mcp(text: str, words: Sequence[str]) -> tuple[str, Made]:
    return add_server(text, [SERVERS, SERVER], {"type": "stdio", "command": words[0], "args": [*words[1:]], "env": {}})
