"""opencode: a plugin file of our own, and MCP servers in opencode.json.

The plugin is the same for everybody but for the commands in it, which stand there as JSON.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from hardwon.agents import json_edit
from hardwon.agents.hook_entries import SERVER_NAME, add_server_entry
from hardwon.agents.opencode.payload import EVENT_TIMEOUTS
from hardwon.errors import UserError

if TYPE_CHECKING:
    from hardwon.agents import CommandPredicate, CreatedPaths

TITLE = "opencode"
PROGRAM = "opencode"
MINIMUM_VERSION = (1, 18, 33)
EMPTY_SETTINGS = ""
NEXT_STEP = ""
PROBE_PAYLOAD = {
    "sessionID": "hardwon-doctor",
    "directory": "/",
    "tool": "bash",
    "callID": "call_doctor",
    "args": {"command": "true", "description": "hardwon doctor"},
}
PLUGIN_PATH = os.path.join("plugin", "hardwon.js")
OTHER_VERSION = "another version"  # what stands for an event of a plugin that is ours, but not as we would write it now
_TEMPLATE_PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "opencode.js")
_HOOKS_PREFIX, _EMPTY_HOOKS = "const HOOKS = ", "{}"
_SCHEMA_URL = "https://opencode.ai/config.json"


def get_settings_path(*, project: str = "") -> str:
    return (
        os.path.join(project, ".opencode", PLUGIN_PATH) if project else os.path.join(_get_config_folder(), PLUGIN_PATH)
    )


def _get_config_folder() -> str:
    """Where opencode always looks; a folder in OPENCODE_CONFIG_DIR is one more."""
    return os.path.join(os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config"), "opencode")


def add_hooks(text: str, build_command: Callable[[str], str]) -> tuple[str, CreatedPaths]:
    """The plugin; a file of that name which somebody else wrote is theirs."""
    if text.strip():
        raise UserError(
            f"a {PLUGIN_PATH} is there that hardwon did not write", "move it, then: hardwon install opencode"
        )
    return _render_plugin({event: [build_command(event), seconds] for event, seconds in EVENT_TIMEOUTS.items()}), []


def _render_plugin(hooks: dict[str, list[object]]) -> str:
    with open(_TEMPLATE_PATH, encoding="utf-8") as file:
        return file.read().replace(_HOOKS_PREFIX + _EMPTY_HOOKS, _HOOKS_PREFIX + json.dumps(hooks, indent=2), 1)


def remove_hooks(text: str, created_paths: CreatedPaths, is_hardwon_hook: CommandPredicate) -> str:
    return "" if find_hooks(text, is_hardwon_hook) else text


def find_hooks(text: str, is_hardwon_hook: CommandPredicate) -> dict[str, list[str]]:
    """Our commands in the plugin by our names of the events; all under one name if the rest is not as it should be."""
    hooks = _parse_hooks(text)
    commands = {event: str(hook[0]) for event, hook in hooks.items() if isinstance(hook, list) and hook}
    if not commands or not all(map(is_hardwon_hook, commands.values())):
        return {}
    if _render_plugin(hooks) != text:
        return {OTHER_VERSION: [*commands.values()]}
    return {event: [command] for event, command in commands.items()}


def _parse_hooks(text: str) -> dict[str, list[object]]:
    offset = text.find(_HOOKS_PREFIX)
    try:
        hooks = json.JSONDecoder().raw_decode(text, offset + len(_HOOKS_PREFIX))[0] if offset >= 0 else {}
    except (ValueError, RecursionError):
        return {}
    return hooks if isinstance(hooks, dict) else {}


def get_mcp_path() -> str:
    """opencode reads opencode.jsonc beside it, too, and puts the two together."""
    return os.path.join(_get_config_folder(), "opencode.json")


def add_mcp_server(text: str, command: Sequence[str]) -> tuple[str, CreatedPaths]:
    entry = {"type": "local", "command": [*command], "enabled": True}
    if text.strip():
        return add_server_entry(text, ["mcp", SERVER_NAME], entry, allow_comments=True)
    # opencode would write the schema into a file that has none, which then were no longer ours alone
    config = {"$schema": _SCHEMA_URL, "mcp": {SERVER_NAME: entry}}
    return json.dumps(config, indent=2) + "\n", [[], ["mcp"]]


def remove_mcp_server(text: str, created_paths: CreatedPaths) -> str:
    _require_json(text)
    new_text = json_edit.remove_value(text, ["mcp", SERVER_NAME], created_paths=created_paths, allow_comments=True)
    return (
        ""
        if [] in created_paths and json_edit.get_value(new_text, [], allow_comments=True) == {"$schema": _SCHEMA_URL}
        else new_text
    )


def find_mcp_command(text: str) -> list[str]:
    """The command that starts our server, by these settings; empty if they have none."""
    _require_json(text)
    command = json_edit.get_value(text, ["mcp", SERVER_NAME, "command"], allow_comments=True)
    return [*map(str, command)] if isinstance(command, list) else []


def _require_json(text: str) -> None:
    """Whether it is JSON, comments aside: all else that opencode puts up with we could not leave to the letter."""
    try:
        json_edit.get_value(text, [], allow_comments=True)
    except json_edit.InvalidJsonError as error:
        fix = "rename it opencode.jsonc, which opencode reads as well, and hardwon writes its own opencode.json"
        raise UserError(f"{get_mcp_path()} {error}", fix) from None
