"""Factory droid: hooks in its settings.json, in Claude Code's form.

A failing hook's stderr is put in front of the tool's result, so it is discarded.
"""

from __future__ import annotations

from hardwon.agents.droid.payload import EVENT_TIMEOUTS
from hardwon.agents.hook_settings import HookSettings

SETTINGS = HookSettings(
    title="Factory droid",
    program="droid",
    minimum_version=(0, 225, 2),
    timeouts=EVENT_TIMEOUTS,
    folder="~/.factory",
    is_stderr_shown=True,
    shell_tool="Execute",
    probe_fields={"permission_mode": "off"},
)
