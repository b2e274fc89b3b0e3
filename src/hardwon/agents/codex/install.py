"""Codex: hooks in hooks.json; MCP servers, and which hooks a person has trusted, in config.toml."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from hardwon.agents.codex.hook_trust import (
    append_table,
    find_distrusted_hooks,
    get_toml_value,
    has_hooks_disabled,
    list_hooks,
    remove_table,
)
from hardwon.agents.codex.payload import EVENT_TIMEOUTS
from hardwon.agents.settings_files import (
    SERVER_NAME,
    add_hook_entries,
    find_hooks,
    is_hardwon_hook,
    read_server_command,
    remove_hooks,
)
from hardwon.errors import UserError
from hardwon.paths import open_plain_file

if TYPE_CHECKING:
    from hardwon.agents import CreatedPaths

__all__ = ["find_hooks", "remove_hooks"]

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
_SERVER_PATH = ["mcp_servers", SERVER_NAME]
_STARTUP_SECONDS = 30  # Codex's own 10 seconds are too few on a busy machine


def get_settings_path(*, project: str = "") -> str:
    if project:
        raise UserError("Codex has no hooks for one project but in a file that is committed", "hardwon install codex")
    return os.path.join(_get_config_folder(), "hooks.json")


def _get_config_folder() -> str:
    """Return Codex's folder as it resolves it itself: it names a trusted hook by that path."""
    codex_home = os.environ.get("CODEX_HOME")
    return os.path.realpath(codex_home) if codex_home else os.path.expanduser("~/.codex")


def add_hooks(text: str, build_command: Callable[[str], str]) -> tuple[str, CreatedPaths]:
    entries = {
        event: {"type": "command", "command": build_command(event), "timeout": seconds, **_EXTRA_FIELDS.get(event, {})}
        for event, seconds in EVENT_TIMEOUTS.items()
    }
    return add_hook_entries(text, entries)


def runs_hooks(path: str, text: str) -> bool:
    """Return whether Codex runs our hooks in this file, which it names by the path it opened: maybe a link."""
    default_path = get_settings_path()
    opened_path = default_path if os.path.realpath(default_path) == path else path
    hooks = list_hooks(opened_path, text, is_hardwon_hook)
    config_path = os.path.join(os.path.dirname(opened_path), "config.toml")
    with open(config_path, encoding="utf-8", opener=open_plain_file) as file:
        config = file.read()
    return bool(hooks) and not find_distrusted_hooks(config, hooks) and not has_hooks_disabled(config)


def get_mcp_path() -> str:
    return os.path.join(_get_config_folder(), "config.toml")


def add_mcp_server(text: str, command: Sequence[str]) -> tuple[str, CreatedPaths]:
    entry = {"command": command[0], "args": [*command[1:]], "startup_timeout_sec": _STARTUP_SECONDS}
    return append_table(text, _SERVER_PATH, entry), []


def remove_mcp_server(text: str, created_paths: CreatedPaths) -> str:
    return remove_table(text, _SERVER_PATH)


def find_mcp_command(text: str) -> list[str]:
    return read_server_command(get_toml_value(text, _SERVER_PATH))
