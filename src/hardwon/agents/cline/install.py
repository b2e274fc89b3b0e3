"""Cline: a script for each event, named after it, in its folder of hooks.

Cline runs every file there whose name is that of an event, with `.sh` or without, so ours stand beside a person's own.
It follows no links and gives a hook 120 seconds; ours stops by itself long before that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hardwon.agents.cline import EVENT_TIMEOUTS
from hardwon.agents.hook_settings import HookSettings
from hardwon.agents.settings_files import is_hardwon_hook
from hardwon.errors import UserError

EVENT_NAMES = {"SessionStart": "TaskStart", "Stop": "TaskComplete", "SessionEnd": "SessionShutdown"}
_FIRST_LINE = "#!/bin/sh"


@dataclass(frozen=True)
class ScriptHooks:
    """A hook as a script that has its command alone."""

    def add_hooks(self, text: str, commands: Mapping[str, str]) -> str:
        """Return the script with these commands; UserError if the file is somebody else's."""
        if text.strip():
            name = EVENT_NAMES.get(event := next(iter(commands)), event)
            fix = f"rename it {name}, which Cline runs as well, then: hardwon install cline"
            raise UserError(f"a hook {name}.sh is there that hardwon did not write", fix)
        return "\n".join([_FIRST_LINE, *commands.values(), ""])

    def remove_hooks(self, text: str) -> str:
        return "" if self.find_hooks(text) else text

    def find_hooks(self, text: str) -> dict[str, list[str]]:
        """Return our command by Cline's name of its event; nothing if the script is not all ours."""
        first_line, *lines = text.splitlines() or [""]
        if first_line != _FIRST_LINE or not lines or not all(map(is_hardwon_hook, lines)):
            return {}
        commands: dict[str, list[str]] = {}
        for line in lines:
            for event in EVENT_TIMEOUTS:
                if f" cline {event} " in line:
                    commands[EVENT_NAMES.get(event, event)] = [line]
        return commands


SETTINGS = HookSettings(
    title="Cline",
    program="cline",
    minimum_version=(3, 0, 65),
    timeouts=EVENT_TIMEOUTS,
    folder="~/.cline",
    folder_variable="CLINE_DIR",
    file_name="hooks/PreToolUse.sh",
    event_files={event: f"hooks/{EVENT_NAMES.get(event, event)}.sh" for event in EVENT_TIMEOUTS},
    is_stderr_shown=True,
    hook_format=ScriptHooks(),
    empty_settings="",
    probe_fields={
        "taskId": "hardwon-doctor",
        "hookName": "tool_call",
        "tool_call": {"id": "call_doctor", "name": "run_commands", "input": {"commands": ["true"]}},
    },
)
