"""opencode: a plugin file of our own, and MCP servers in opencode.json.

The plugin is the same for everybody but for the commands in it, which stand there as JSON.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from hardwon.agents import SettingsError
from hardwon.agents.opencode.payload import EVENT_TIMEOUTS
from hardwon.agents.settings_files import SERVER_NAME, add_server_entry, get_value, is_hardwon_hook, remove_value
from hardwon.errors import UserError
from hardwon.text.handoff_request import HANDOFF_REQUEST

if TYPE_CHECKING:
    from hardwon.agents import CreatedPaths

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
OTHER_VERSION = "another version"  # in place of the events, for a plugin that hardwon would write differently now
_TEMPLATE_PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "opencode.js")
_HOOKS_PREFIX, _EMPTY_HOOKS = "const HOOKS = ", "{}"
_SCHEMA_URL = "https://opencode.ai/config.json"


def get_settings_path(*, project: str = "") -> str:
    folder = os.path.join(project, ".opencode") if project else _get_config_folder()
    return os.path.join(folder, PLUGIN_PATH)


def _get_config_folder() -> str:
    """Return where opencode always looks; OPENCODE_CONFIG_DIR names one more folder."""
    return os.path.join(os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config"), "opencode")


def add_hooks(text: str, build_command: Callable[[str], str]) -> tuple[str, CreatedPaths]:
    """Return the plugin; a file of that name which somebody else wrote is not touched."""
    if text.strip():
        raise UserError(
            f"a {PLUGIN_PATH} is there that hardwon did not write", "move it, then: hardwon install opencode"
        )
    return _render_plugin({event: [build_command(event), seconds] for event, seconds in EVENT_TIMEOUTS.items()}), []


def _render_plugin(hooks: dict[str, list[object]]) -> str:
    with open(_TEMPLATE_PATH, encoding="utf-8") as file:
        text = file.read().replace(_HOOKS_PREFIX + _EMPTY_HOOKS, _HOOKS_PREFIX + json.dumps(hooks, indent=2), 1)
    return text.replace('const HANDOFF = ""', f"const HANDOFF = {json.dumps(HANDOFF_REQUEST)}", 1)


def remove_hooks(text: str, created_paths: CreatedPaths) -> str:
    return "" if find_hooks(text) else text


def find_hooks(text: str) -> dict[str, list[str]]:
    """Return our commands in the plugin by event; all under OTHER_VERSION if the rest of the file differs."""
    _, prefix, rest = text.partition(_HOOKS_PREFIX)
    try:
        hooks = json.JSONDecoder().raw_decode(rest)[0] if prefix else {}
        commands = {event: str(command) for event, (command, _) in hooks.items()}
    except (ValueError, TypeError, AttributeError, RecursionError):
        return {}
    if not commands or not all(map(is_hardwon_hook, commands.values())):
        return {}
    # Comparing whole files also finds a plugin that somebody edited.
    if _render_plugin(hooks) != text:
        return {OTHER_VERSION: [*commands.values()]}
    return {event: [command] for event, command in commands.items()}


def runs_hooks(path: str, text: str) -> bool:
    return bool(find_hooks(text))


def find_plugin() -> str:
    return ""  # the plugin is the file that `find_hooks` reads


def check_trust(text: str) -> None:
    """opencode runs every plugin in its folder."""


def get_mcp_path() -> str:
    """Return opencode.json; opencode also reads opencode.jsonc beside it, and merges the two."""
    return os.path.join(_get_config_folder(), "opencode.json")


def add_mcp_server(text: str, command: Sequence[str]) -> tuple[str, CreatedPaths]:
    entry = {"type": "local", "command": [*command], "enabled": True}
    if text.strip():
        return add_server_entry(text, ["mcp", SERVER_NAME], entry)
    # opencode adds the schema to a file that has none, which would then no longer be ours alone.
    config = {"$schema": _SCHEMA_URL, "mcp": {SERVER_NAME: entry}}
    return json.dumps(config, indent=2) + "\n", [[], ["mcp"]]


def remove_mcp_server(text: str, created_paths: CreatedPaths) -> str:
    _require_json(text)
    new_text = remove_value(text, ["mcp", SERVER_NAME], created_paths)
    is_ours = [] in created_paths and get_value(new_text) == {"$schema": _SCHEMA_URL}
    return "" if is_ours else new_text


def find_mcp_command(text: str) -> list[str]:
    _require_json(text)
    command = get_value(text, ["mcp", SERVER_NAME, "command"])
    return [*map(str, command)] if isinstance(command, list) else []


def _require_json(text: str) -> None:
    """Refuse what is not JSON, comments aside: hardwon could not leave the rest of such a file as it is."""
    try:
        get_value(text)
    except SettingsError as error:
        fix = "rename it opencode.jsonc, which opencode reads as well, and hardwon writes its own opencode.json"
        raise UserError(f"{get_mcp_path()} {error}", fix) from None
