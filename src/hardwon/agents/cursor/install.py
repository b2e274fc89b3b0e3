"""Cursor: a hooks.json whose entries have a command alone.

Its sources disagree whether a timeout is in seconds or milliseconds, so none is written.
"""

from __future__ import annotations

from hardwon.agents.cursor.payload import EVENT_NAMES, EVENT_TIMEOUTS
from hardwon.agents.hook_settings import HookSettings

SETTINGS = HookSettings(
    title="Cursor",
    program="cursor",
    minimum_version=(1, 7),
    timeouts=EVENT_TIMEOUTS,
    folder="~/.cursor",
    file_name="hooks.json",
    server_file_name="mcp.json",
    event_names=EVENT_NAMES,
    has_nested_hooks=False,
    has_timeouts=False,
    empty_settings='{\n  "version": 1\n}\n',
    shell_tool="Shell",
    probe_fields={"conversation_id": "hardwon-doctor", "cursor_version": "1.7"},
)
