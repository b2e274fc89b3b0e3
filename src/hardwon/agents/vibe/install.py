"""Mistral Vibe: hooks in hooks.toml, as an array of tables with a unique name each."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hardwon.agents.codex.install import get_toml_value
from hardwon.agents.fields import get_text
from hardwon.agents.settings_files import SERVER_NAME, is_hardwon_hook
from hardwon.agents.vibe.payload import EVENT_NAMES, EVENT_TIMEOUTS
from hardwon.errors import UserError

if TYPE_CHECKING:
    from hardwon.agents import CreatedPaths

# As `add_hooks` writes it; anything else in the file is the person's.
_OWN_TABLE = re.compile(rf'\n?\[\[hooks\]\]\nname = "{SERVER_NAME}-\w+"\ntype = .*\ncommand = .*\ntimeout = .*\n')


@dataclass(frozen=True)
class VibeSettings:
    title: str = "Mistral Vibe"
    program: str = "vibe"
    minimum_version: tuple[int, ...] = (3, 0, 2)
    empty_settings: str = ""
    next_step: str = ""

    @property
    def probe_payload(self) -> dict[str, Any]:
        call = {"tool_name": "file_system.bash", "tool_call_id": "call_doctor", "tool_input": {"command": "true"}}
        session = {"session_id": "hardwon-doctor", "parent_session_id": None, "transcript_path": "", "cwd": "/"}
        return {**session, "hook_event_name": EVENT_NAMES["PreToolUse"], **call}

    def get_settings_path(self, *, project: str = "") -> str:
        if project:
            message = f"{self.title} has no hooks for one project but in a file that is committed"
            raise UserError(message, "leave out --project; HARDWON_OFF=1 keeps hardwon out of one session")
        return os.path.expanduser("~/.vibe/hooks.toml")

    def add_hooks(self, text: str, build_command: Callable[[str], str]) -> tuple[str, CreatedPaths]:
        for event, seconds in EVENT_TIMEOUTS.items():
            name = EVENT_NAMES[event]
            # A basic string, in which a backslash and a quote are escaped.
            command = build_command(event).replace("\\", "\\\\").replace('"', '\\"')
            separator = "\n" if text and not text.endswith("\n\n") else ""
            text += (
                f'{separator}[[hooks]]\nname = "{SERVER_NAME}-{name}"\ntype = "{name}"\ncommand = "{command}"\n'
                f"timeout = {seconds}.0\n"
            )
        return text, []

    def remove_hooks(self, text: str, created_paths: CreatedPaths) -> str:
        return _OWN_TABLE.sub("", text)

    def find_hooks(self, text: str) -> dict[str, list[str]]:
        """Return our commands, by the agent's name of the event."""
        commands_by_event: dict[str, list[str]] = {}
        for hook in get_toml_value(text, ["hooks"]) or ():
            if is_hardwon_hook(command := get_text(hook, "command")):
                commands_by_event.setdefault(get_text(hook, "type"), []).append(command)
        return commands_by_event

    def runs_hooks(self, path: str, text: str) -> bool:
        return bool(self.find_hooks(text))

    def find_plugin(self) -> str:
        return ""

    def check_trust(self, text: str) -> None:
        """Return nothing: it runs every hook in the person's own file."""

    def get_mcp_path(self) -> str:
        raise UserError(f"hardwon cannot register its MCP server with {self.title}", "leave out --mcp")

    def add_mcp_server(self, text: str, command: Sequence[str]) -> tuple[str, CreatedPaths]:
        return text, []

    def remove_mcp_server(self, text: str, created_paths: CreatedPaths) -> str:
        return text

    def find_mcp_command(self, text: str) -> list[str]:
        return []


SETTINGS = VibeSettings()
