"""Mistral Vibe: hooks in hooks.toml, as an array of tables with a unique name each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from hardwon.agents.codex.install import get_toml_value
from hardwon.agents.fields import get_text
from hardwon.agents.hook_settings import HookSettings
from hardwon.agents.settings_files import SERVER_NAME, is_hardwon_hook
from hardwon.agents.vibe import EVENT_NAMES, EVENT_TIMEOUTS

# As `add_hooks` writes it; anything else in the file is the person's.
_OWN_TABLE = re.compile(rf'\n?\[\[hooks\]\]\nname = "{SERVER_NAME}-\w+"\ntype = .*\ncommand = .*\ntimeout = .*\n')


@dataclass(frozen=True)
class TomlHooks:
    """Hooks as tables of a TOML file."""

    def add_hooks(self, text: str, commands: Mapping[str, str]) -> str:
        """Return the file with a table of ours for each event, at its end."""
        for event, command in commands.items():
            name = EVENT_NAMES[event]
            # A basic string, in which a backslash and a quote are escaped.
            value = command.replace("\\", "\\\\").replace('"', '\\"')
            separator = "\n" if text and not text.endswith("\n\n") else ""
            text += (
                f'{separator}[[hooks]]\nname = "{SERVER_NAME}-{name}"\ntype = "{name}"\ncommand = "{value}"\n'
                f"timeout = {EVENT_TIMEOUTS[event]}.0\n"
            )
        return text

    def remove_hooks(self, text: str) -> str:
        return _OWN_TABLE.sub("", text)

    def find_hooks(self, text: str) -> dict[str, list[str]]:
        """Return our commands in these settings, by the agent's name of the event."""
        commands_by_event: dict[str, list[str]] = {}
        for hook in get_toml_value(text, ["hooks"]) or ():
            command = get_text(hook, "command")
            if is_hardwon_hook(command):
                commands_by_event.setdefault(get_text(hook, "type"), []).append(command)
        return commands_by_event


SETTINGS = HookSettings(
    title="Mistral Vibe",
    program="vibe",
    minimum_version=(3, 0, 2),
    timeouts=EVENT_TIMEOUTS,
    folder="~/.vibe",
    file_name="hooks.toml",
    event_names=EVENT_NAMES,
    empty_settings="",
    shell_tool="file_system.bash",
    hook_format=TomlHooks(),
    probe_fields={"parent_session_id": None, "tool_call_id": "call_doctor"},
)
