"""opencode: a plugin file of our own, and MCP servers in opencode.json.

The plugin is the same for everybody but for the commands in it, which stand there as JSON.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from hardwon.agents import json_edit
from hardwon.agents.hook_entries import SERVER, add_server
from hardwon.agents.opencode.payload import EVENTS
from hardwon.errors import UserError

if TYPE_CHECKING:
    from hardwon.agents import Made, Ours

TITLE = "opencode"
PROGRAM = "opencode"
LEAST = (1, 18, 33)
EMPTY = ""
THEN = ""
PROBE = {
    "sessionID": "hardwon-doctor",
    "directory": "/",
    "tool": "bash",
    "callID": "call_doctor",
    "args": {"command": "true", "description": "hardwon doctor"},
}
PLUGIN = os.path.join("plugin", "hardwon.js")
ANOTHER = "another version"  # what stands for an event of a plugin that is ours, but not as we would write it now
_TEMPLATE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "opencode.js")
_HOOKS, _NONE = "const HOOKS = ", "{}"
_SCHEMA = "https://opencode.ai/config.json"


def settings_file(*, project: str = "") -> str:
    return os.path.join(project, ".opencode", PLUGIN) if project else os.path.join(_folder(), PLUGIN)


def _folder() -> str:
    """Where opencode always looks; a folder in OPENCODE_CONFIG_DIR is one more."""
    return os.path.join(os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config"), "opencode")


def install(text: str, command: Callable[[str], str]) -> tuple[str, Made]:
    """The plugin; a file of that name which somebody else wrote is theirs."""
    if text.strip():
        raise UserError(f"a {PLUGIN} is there that hardwon did not write", "move it, then: hardwon install opencode")
    return _plugin({event: [command(event), seconds] for event, seconds in EVENTS.items()}), []


def _plugin(hooks: dict[str, list[object]]) -> str:
    with open(_TEMPLATE, encoding="utf-8") as file:
        return file.read().replace(_HOOKS + _NONE, _HOOKS + json.dumps(hooks, indent=2), 1)


def uninstall(text: str, made: Made, ours: Ours) -> str:
    return "" if installed(text, ours) else text


def installed(text: str, ours: Ours) -> dict[str, list[str]]:
    """Our commands in the plugin by our names of the events; all under one name if the rest is not as it should be."""
    hooks = _hooks(text)
    commands = {event: str(hook[0]) for event, hook in hooks.items() if isinstance(hook, list) and hook}
    if not commands or not all(map(ours, commands.values())):
        return {}
    if _plugin(hooks) != text:
        return {ANOTHER: [*commands.values()]}
    return {event: [command] for event, command in commands.items()}


def _hooks(text: str) -> dict[str, list[object]]:
    at = text.find(_HOOKS)
    try:
        found = json.JSONDecoder().raw_decode(text, at + len(_HOOKS))[0] if at >= 0 else {}
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def mcp_file() -> str:
    """opencode reads opencode.jsonc beside it, too, and puts the two together."""
    return os.path.join(_folder(), "opencode.json")


def add_mcp(text: str, words: Sequence[str]) -> tuple[str, Made]:
    entry = {"type": "local", "command": [*words], "enabled": True}
    if text.strip():
        return add_server(text, ["mcp", SERVER], entry, comments=True)
    # opencode would write the schema into a file that has none, which then were no longer ours alone
    whole = {"$schema": _SCHEMA, "mcp": {SERVER: entry}}
    return json.dumps(whole, indent=2) + "\n", [[], ["mcp"]]


def remove_mcp(text: str, made: Made) -> str:
    _check(text)
    after = json_edit.take(text, ["mcp", SERVER], made=made, comments=True)
    return "" if [] in made and json_edit.get(after, [], comments=True) == {"$schema": _SCHEMA} else after


def mcp(text: str) -> list[str]:
    """The command that starts our server, by these settings; empty if they have none."""
    _check(text)
    command = json_edit.get(text, ["mcp", SERVER, "command"], comments=True)
    return [*map(str, command)] if isinstance(command, list) else []


def _check(text: str) -> None:
    """Whether it is JSON, comments aside: all else that opencode puts up with we could not leave to the letter."""
    try:
        json_edit.get(text, [], comments=True)
    except json_edit.NotJson as wrong:
        fix = "rename it opencode.jsonc, which opencode reads as well, and hardwon writes its own opencode.json"
        raise UserError(f"{mcp_file()} {wrong}", fix) from None
