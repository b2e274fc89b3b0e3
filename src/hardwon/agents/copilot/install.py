"""GitHub Copilot: a hook file of our own, which Copilot CLI and VS Code both read, and MCP servers in mcp-config.json.

Copilot CLI denies every call if a hook exits with another code than 0, so the command ends with `|| :`: without
hardwon it prints nothing and every call runs. VS Code ignores matchers, so there are none.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from hardwon.agents.copilot.payload import EVENT_TIMEOUTS
from hardwon.agents.fields import get_list, get_object, get_text
from hardwon.agents.settings_files import (
    SERVER_NAME,
    SERVERS_KEY,
    add_server_entry,
    append_value,
    find_mcp_command,
    get_value,
    is_hardwon_hook,
    remove_children,
    remove_mcp_server,
)
from hardwon.errors import UserError

if TYPE_CHECKING:
    from hardwon.agents import CreatedPaths

__all__ = ["find_mcp_command", "remove_mcp_server"]

TITLE = "GitHub Copilot"
PROGRAM = "copilot"
MINIMUM_VERSION = (1, 0, 102)
EMPTY_SETTINGS = '{\n  "version": 1\n}\n'
NEXT_STEP = ""
PROBE_PAYLOAD = {
    "hook_event_name": "PreToolUse",
    "session_id": "hardwon-doctor",
    "timestamp": "2026-01-01T00:00:00.000Z",
    "cwd": "/",
    "tool_name": "Bash",
    "tool_input": {"command": "true", "description": "hardwon doctor"},
}
_COMMAND_SUFFIX = " || :"


def get_settings_path(*, project: str = "") -> str:
    if project:
        message = "GitHub Copilot has no hooks for one project but in a file that is committed"
        raise UserError(message, "leave out --project; HARDWON_OFF=1 keeps hardwon out of one session")
    return os.path.join(_get_config_folder(), "hooks", "hardwon.json")


def _get_config_folder() -> str:
    return os.environ.get("COPILOT_HOME") or os.path.expanduser("~/.copilot")


def add_hooks(text: str, build_command: Callable[[str], str]) -> tuple[str, CreatedPaths]:
    created_paths: CreatedPaths = []
    for event, seconds in EVENT_TIMEOUTS.items():
        # VS Code shows what a hook writes to stderr as a warning, at every call once hardwon is gone.
        command = f"{build_command(event).removesuffix(_COMMAND_SUFFIX)} 2>/dev/null{_COMMAND_SUFFIX}"
        entry = {"type": "command", "command": command, "timeout": seconds}
        text, new_paths = append_value(text, ["hooks", event], entry)
        created_paths += new_paths
    return text, created_paths


def remove_hooks(text: str, created_paths: CreatedPaths) -> str:
    def is_hardwon_entry(_: str, entry: object) -> bool:
        return is_hardwon_hook(get_text(entry, "command"))

    for event in find_hooks(text):
        text = remove_children(text, ["hooks", event], is_hardwon_entry, created_paths)
    return text


def find_hooks(text: str) -> dict[str, list[str]]:
    """Return our commands in this file by event; its entries have no list of hooks within, as Claude Code's have."""
    hooks = get_object(get_value(text), "hooks")
    commands_by_event: dict[str, list[str]] = {}
    for event in hooks:
        commands = [get_text(entry, "command") for entry in get_list(hooks, event)]
        if own_commands := [command for command in commands if is_hardwon_hook(command)]:
            commands_by_event[event] = own_commands
    return commands_by_event


def runs_hooks(path: str, text: str) -> bool:
    return bool(find_hooks(text))


def find_plugin() -> str:
    return ""  # there is no plugin for it


def check_trust(text: str) -> None:
    """Both programs run every hook in the person's own folder."""


def get_mcp_path() -> str:
    return os.path.join(_get_config_folder(), "mcp-config.json")


def add_mcp_server(text: str, command: Sequence[str]) -> tuple[str, CreatedPaths]:
    entry = {"type": "local", "command": command[0], "args": [*command[1:]], "tools": ["*"]}
    return add_server_entry(text, [SERVERS_KEY, SERVER_NAME], entry)
