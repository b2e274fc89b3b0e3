"""Grok CLI: a hook file of our own in its folder, in Claude Code's form."""

from __future__ import annotations

from hardwon.agents.grok.payload import EVENT_TIMEOUTS
from hardwon.agents.hook_settings import HookSettings

SETTINGS = HookSettings(
    title="Grok CLI",
    program="grok",
    minimum_version=(1, 0, 41),
    timeouts=EVENT_TIMEOUTS,
    folder="~/.grok",
    file_name="hooks/hardwon.json",
    shell_tool="run_terminal_command",
    probe_fields={"hookEventName": "pre_tool_use", "tool_use_id": "call_doctor"},
)
