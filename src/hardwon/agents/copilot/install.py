"""GitHub Copilot: a hook file of our own, which Copilot CLI and VS Code both read, and MCP servers in mcp-config.json.

Copilot CLI denies every call if a hook exits with another code than 0, so the command ends with `|| :`: without
hardwon it prints nothing and every call runs. VS Code ignores matchers, so there are none, and shows what a hook writes
to stderr as a warning.
"""

from __future__ import annotations

from hardwon.agents.copilot.payload import EVENT_TIMEOUTS
from hardwon.agents.hook_settings import HookSettings, JsonServers

SETTINGS = HookSettings(
    title="GitHub Copilot",
    program="copilot",
    minimum_version=(1, 0, 102),
    timeouts=EVENT_TIMEOUTS,
    folder="~/.copilot",
    folder_variable="COPILOT_HOME",
    file_name="hooks/hardwon.json",
    server_file_name="mcp-config.json",
    has_nested_hooks=False,
    is_stderr_shown=True,
    servers=JsonServers({"type": "local", "tools": ["*"]}),
    empty_settings='{\n  "version": 1\n}\n',
    probe_fields={"timestamp": "2026-01-01T00:00:00.000Z"},
)
