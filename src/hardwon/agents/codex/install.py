"""Codex: hooks in hooks.json, MCP servers in config.toml, and there, too, which hooks a person has trusted."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from hardwon.agents import toml_edit
from hardwon.agents.codex.payload import EVENT_TIMEOUTS
from hardwon.agents.hook_entries import SERVER_NAME, add_hook_entries, read_server_command
from hardwon.agents.hook_entries import find_hooks as find_hooks
from hardwon.agents.hook_entries import remove_hooks as remove_hooks
from hardwon.errors import UserError

if TYPE_CHECKING:
    from hardwon.agents import CreatedPaths

TITLE = "Codex"
PROGRAM = "codex"
MINIMUM_VERSION = (0, 130, 0)
EMPTY_SETTINGS = "{}\n"
NEXT_STEP = (
    "Codex runs no hook that you have not trusted, and does not say so: start it, type /hooks, look at hardwon's and"
    " trust them. Or have them trusted as they are shown above: hardwon install codex --trust"
)
PROBE_PAYLOAD = {
    "session_id": "hardwon-doctor",
    "turn_id": "hardwon-doctor",
    "transcript_path": None,
    "cwd": "/",
    "hook_event_name": "PreToolUse",
    "model": "",
    "permission_mode": "default",
    "tool_name": "Bash",
    "tool_input": {"command": "true"},
    "tool_use_id": "call_doctor",
}
# In Codex's tokens of four bytes: a brief may have 9,000 characters, each of them four bytes long.
_EXTRA_FIELDS = {"SessionStart": {"additionalContextLimit": 9_000}}
_SERVERS_TABLE = "mcp_servers"
_STARTUP_SECONDS = 30  # seconds; on a machine that has much else to do its own 10 are over soon


def get_settings_path(*, project: str = "") -> str:
    if project:
        raise UserError("Codex has no hooks for one project but in a file that is committed", "hardwon install codex")
    return os.path.join(_get_config_folder(), "hooks.json")


def _get_config_folder() -> str:
    """Codex resolves the folder it is told to use, and names a hook it trusts by that."""
    codex_home = os.environ.get("CODEX_HOME")
    return os.path.realpath(codex_home) if codex_home else os.path.expanduser("~/.codex")


def add_hooks(text: str, build_command: Callable[[str], str]) -> tuple[str, CreatedPaths]:
    """The settings with our hooks in them, and which containers had to be made for them."""
    entries = {
        event: {"type": "command", "command": build_command(event), "timeout": seconds, **_EXTRA_FIELDS.get(event, {})}
        for event, seconds in EVENT_TIMEOUTS.items()
    }
    return add_hook_entries(text, entries)


def get_mcp_path() -> str:
    return os.path.join(_get_config_folder(), "config.toml")


def add_mcp_server(text: str, command: Sequence[str]) -> tuple[str, CreatedPaths]:
    entry: dict[str, toml_edit.TomlValue] = {
        "command": command[0],
        "args": command[1:],
        "startup_timeout_sec": _STARTUP_SECONDS,
    }
    return toml_edit.append_table(text, [_SERVERS_TABLE, SERVER_NAME], entry), []


def remove_mcp_server(text: str, created_paths: CreatedPaths) -> str:
    return toml_edit.remove_table(text, [_SERVERS_TABLE, SERVER_NAME])


def find_mcp_command(text: str) -> list[str]:
    """The command that starts our server, by these settings; empty if they have none."""
    return read_server_command(toml_edit.get_value(text, [_SERVERS_TABLE, SERVER_NAME]))
