"""Claude Code: hooks in settings.json, MCP servers in the file beside its folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from hardwon.core import jsontext
from hardwon.hosts.claude_code import EVENTS
from hardwon.hosts.setup import SERVER, add_hooks, add_server, hooks_in, remove_hooks

if TYPE_CHECKING:
    from hardwon.hosts import Made, Ours

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
_SERVERS = "mcpServers"


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


def uninstall(text: str, made: Made, ours: Ours) -> str:
    return remove_hooks(text, made, ours)


def installed(text: str, ours: Ours) -> dict[str, list[str]]:
    return hooks_in(text, ours)


def mcp_file() -> str:
    folder = os.environ.get("CLAUDE_CONFIG_DIR") or os.path.expanduser("~")
    return os.path.join(folder, ".claude.json")


def add_mcp(text: str, words: Sequence[str]) -> tuple[str, Made]:
    return add_server(text, [_SERVERS, SERVER], {"type": "stdio", "command": words[0], "args": [*words[1:]], "env": {}})


def remove_mcp(text: str, made: Made) -> str:
    return jsontext.take(text, [_SERVERS, SERVER], made=made)


def mcp(text: str) -> list[str]:
    """The command that starts our server, by these settings; empty if they have none."""
    found = jsontext.get(text, [_SERVERS, SERVER])
    return [str(found.get("command")), *map(str, found.get("args") or ())] if isinstance(found, dict) else []
