"""opencode: a plugin file of our own, and MCP servers in opencode.json. Kilo, which comes from it, has the same.

The plugin is the same for everybody but for the commands in it, which stand there as JSON.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from hardwon.agents.hook_settings import HookSettings
from hardwon.agents.opencode import EVENT_TIMEOUTS
from hardwon.agents.settings_files import (
    SERVER_NAME,
    CreatedPaths,
    SettingsError,
    get_value,
    insert_value,
    is_hardwon_hook,
    remove_value,
)
from hardwon.errors import UserError
from hardwon.text.handoff_request import HANDOFF_REQUEST

_PLUGIN_PATH = os.path.join("plugin", "hardwon.js")
OTHER_VERSION = "another version"  # in place of the events, for a plugin that hardwon would write differently now
_TEMPLATE_PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "opencode.js")
_HOOKS_PREFIX, _EMPTY_HOOKS = "const HOOKS = ", "{}"
_SERVER_PATH = ("mcp", SERVER_NAME)


@dataclass(frozen=True)
class PluginHooks:
    """Hooks as a plugin of ours."""

    program: str

    def add_hooks(self, text: str, commands: Mapping[str, str]) -> str:
        """Return the plugin; a file of that name which somebody else wrote is not touched."""
        if text.strip():
            message = f"a {_PLUGIN_PATH} is there that hardwon did not write"
            raise UserError(message, f"move it, then: hardwon install {self.program}")
        return _render_plugin({event: [command, EVENT_TIMEOUTS[event]] for event, command in commands.items()})

    def remove_hooks(self, text: str) -> str:
        return "" if self.find_hooks(text) else text

    def find_hooks(self, text: str) -> dict[str, list[str]]:
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


def _render_plugin(hooks: dict[str, list[object]]) -> str:
    """Return the text of the plugin with these hooks in it."""
    with open(_TEMPLATE_PATH, encoding="utf-8") as file:
        template = file.read()
    text = template.replace(_HOOKS_PREFIX + _EMPTY_HOOKS, _HOOKS_PREFIX + json.dumps(hooks, indent=2), 1)
    return text.replace('const HANDOFF = ""', f"const HANDOFF = {json.dumps(HANDOFF_REQUEST)}", 1)


@dataclass(frozen=True)
class PluginServers:
    """MCP servers in the object `mcp`. The agent also reads a file that ends with `.jsonc`, and merges the two."""

    title: str
    program: str
    schema_url: str  # which the agent adds to a file that has none

    def add_server(self, text: str, command: Sequence[str]) -> tuple[str, CreatedPaths]:
        """Return the settings with our server, and the containers created for it.

        An empty text becomes a whole file.
        """
        entry = {"type": "local", "command": [*command], "enabled": True}
        if text.strip():
            return insert_value(remove_value(text, _SERVER_PATH), _SERVER_PATH, entry)
        # The agent adds the schema to a file that has none, which would then no longer be ours alone.
        config = {"$schema": self.schema_url, "mcp": {SERVER_NAME: entry}}
        return json.dumps(config, indent=2) + "\n", [[], ["mcp"]]

    def remove_server(self, text: str, created_paths: CreatedPaths) -> str:
        """Return the file without our server; empty if hardwon created it and nothing else is in it."""
        self._require_json(text)
        new_text = remove_value(text, _SERVER_PATH, created_paths)
        root_path: list[str] = []
        is_ours = root_path in created_paths  # hardwon created the whole file
        if is_ours and get_value(new_text) == {"$schema": self.schema_url}:
            return ""
        return new_text

    def find_command(self, text: str) -> list[str]:
        """Return the command of our server; empty if the file does not have it."""
        self._require_json(text)
        command = get_value(text, [*_SERVER_PATH, "command"])
        return [*map(str, command)] if isinstance(command, list) else []

    def _require_json(self, text: str) -> None:
        """Raise UserError if a settings file is not JSON, which may have comments.

        hardwon could not change its own entry in such a file and leave the rest as it is.
        """
        try:
            get_value(text)
        except SettingsError as error:
            name = f"{self.program}.json"
            path = os.path.join(find_folder(self.program), name)
            fix = f"rename it {name}c, which {self.title} reads as well, and hardwon writes its own {name}"
            raise UserError(f"{path} {error}", fix) from None


def find_folder(program: str) -> str:
    """Return where the agent always looks; a variable of its own may name one more folder."""
    config_folder = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return os.path.join(config_folder, program)


def build_settings(title: str, program: str, minimum_version: tuple[int, ...], schema_url: str) -> HookSettings:
    """Return the settings of an agent that runs opencode's plugins and names its files after its program."""
    return HookSettings(
        title=title,
        program=program,
        minimum_version=minimum_version,
        timeouts=EVENT_TIMEOUTS,
        folder=f"~/.config/{program}",
        folder_finder=partial(find_folder, program),
        file_name=_PLUGIN_PATH,
        project_file_name=os.path.join(f".{program}", _PLUGIN_PATH),
        server_file_name=f"{program}.json",
        empty_settings="",
        hook_format=PluginHooks(program),
        server_format=PluginServers(title, program, schema_url),
        probe_fields={
            "sessionID": "hardwon-doctor",
            "directory": "/",
            "tool": "bash",
            "callID": "call_doctor",
            "args": {"command": "true", "description": "hardwon doctor"},
        },
    )


SETTINGS = build_settings("opencode", "opencode", (1, 18, 33), "https://opencode.ai/config.json")
