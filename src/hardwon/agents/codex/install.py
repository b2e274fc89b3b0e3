"""Codex: hooks in hooks.json, MCP servers in config.toml, and there, too, which hooks a person has trusted."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from hardwon.agents import toml_edit
from hardwon.agents.codex.payload import EVENTS
from hardwon.agents.hook_entries import SERVER, add_hooks, words_of
from hardwon.agents.hook_entries import installed as installed
from hardwon.agents.hook_entries import uninstall as uninstall
from hardwon.errors import UserError

if TYPE_CHECKING:
    from hardwon.agents import Made

TITLE = "Codex"
PROGRAM = "codex"
LEAST = (0, 130, 0)
EMPTY = "{}\n"
THEN = (
    "Codex runs no hook that you have not trusted, and does not say so: start it, type /hooks, look at hardwon's and"
    " trust them. Or have them trusted as they are shown above: hardwon install codex --trust"
)
PROBE = {
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
_WHOLE = {"SessionStart": {"additionalContextLimit": 9_000}}
_SERVERS = "mcp_servers"
_STARTS = 30  # seconds; on a machine that has much else to do its own 10 are over soon


def settings_file(*, project: str = "") -> str:
    if project:
        raise UserError("Codex has no hooks for one project but in a file that is committed", "hardwon install codex")
    return os.path.join(_folder(), "hooks.json")


def _folder() -> str:
    """Codex resolves the folder it is told to use, and names a hook it trusts by that."""
    told = os.environ.get("CODEX_HOME")
    return os.path.realpath(told) if told else os.path.expanduser("~/.codex")


def install(text: str, command: Callable[[str], str]) -> tuple[str, Made]:
    """The settings with our hooks in them, and which containers had to be made for them."""
    entries = {
        event: {"type": "command", "command": command(event), "timeout": seconds, **_WHOLE.get(event, {})}
        for event, seconds in EVENTS.items()
    }
    return add_hooks(text, entries)


def mcp_file() -> str:
    return os.path.join(_folder(), "config.toml")


def add_mcp(text: str, words: Sequence[str]) -> tuple[str, Made]:
    entry: dict[str, toml_edit.Value] = {"command": words[0], "args": words[1:], "startup_timeout_sec": _STARTS}
    return toml_edit.append(text, [_SERVERS, SERVER], entry), []


def remove_mcp(text: str, made: Made) -> str:
    return toml_edit.remove(text, [_SERVERS, SERVER])


def mcp(text: str) -> list[str]:
    """The command that starts our server, by these settings; empty if they have none."""
    return words_of(toml_edit.get(text, [_SERVERS, SERVER]))
