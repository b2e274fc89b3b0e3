"""deepagents-code: a hooks.json in Claude Code's form."""

from __future__ import annotations

from hardwon.agents.deepagents.payload import EVENT_TIMEOUTS
from hardwon.agents.hook_settings import HookSettings

SETTINGS = HookSettings(
    title="deepagents-code",
    program="dcode",
    minimum_version=(0, 1, 88),
    timeouts=EVENT_TIMEOUTS,
    folder="~/.deepagents",
    file_name="hooks.json",
    probe_fields={"tool_use_id": "call_doctor"},
)
