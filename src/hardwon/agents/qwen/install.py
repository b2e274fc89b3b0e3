"""Qwen Code: hooks and MCP servers in one settings.json, in Claude Code's form.

A timeout of 1000 or more would be read as milliseconds; ours are far below.
"""

from __future__ import annotations

from hardwon.agents.hook_settings import HookSettings
from hardwon.agents.qwen.payload import EVENT_TIMEOUTS

SETTINGS = HookSettings(
    title="Qwen Code",
    program="qwen",
    minimum_version=(0, 24, 4),
    timeouts=EVENT_TIMEOUTS,
    folder="~/.qwen",
    server_file_name="settings.json",
    shell_tool="run_shell_command",
    probe_fields={
        "timestamp": "2026-01-01T00:00:00.000Z",
        "tool_use_id": "toolu_doctor",
        "tool_call_id": "call_doctor",
    },
)
