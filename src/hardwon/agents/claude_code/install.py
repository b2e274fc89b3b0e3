"""Claude Code: hooks in settings.json, MCP servers in the file beside its folder, and the other tools found there."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from hardwon.agents.claude_code import EVENT_TIMEOUTS
from hardwon.agents.fields import get_number, get_object, get_text
from hardwon.agents.hook_settings import HookSettings
from hardwon.agents.settings_files import (
    get_value,
    has_own_plugin,
    is_hardwon_hook,
    list_hook_commands,
    read_text_file,
)
from hardwon.errors import UserError
from hardwon.text.light_json import loads

_FOLDER_VARIABLE = "CLAUDE_CONFIG_DIR"
# Other memory tools and guards for agents, with the text that identifies them in a hook's command or a plugin's name.
_MEMORY_TOOL_PATTERNS = {
    "claude-mem": r"claude-?mem\b",
    "mem0": r"\bmem0\b|\bopenmemory\b",
    "lessons-learned": r"\blessons[-_]learned\b",
    "hookify": r"\bhookify\b",
    "mcp-memory-service": r"\bmcp-memory-service\b|\.claude/hooks/core/(?:session|memory)",
    "memsearch": r"\bmemsearch\b",
    "automem": r"\b(?:mcp-)?automem\b",
    "engram": r"\bengram\b",
    "openviking": r"\bopenviking\b",
    "supermemory": r"\bsupermemory\b",
    "basic-memory": r"\bbasic[-_]memory\b",
}


def find_plugin() -> str:
    """Return the settings file that enables hardwon's plugin; empty if none does."""
    path = SETTINGS.get_settings_path()
    try:
        plugins = get_value(read_text_file(path), ["enabledPlugins"])
    except (UserError, ValueError):
        return ""
    return path if has_own_plugin(plugins) else ""


def _find_mcp_path() -> str:
    """Return the file beside its folder, or in the folder that a variable names."""
    folder = os.environ.get(_FOLDER_VARIABLE) or os.path.expanduser("~")
    return os.path.join(folder, ".claude.json")


SETTINGS = HookSettings(
    title="Claude Code",
    program="claude",
    minimum_version=(2, 1, 0),
    timeouts=EVENT_TIMEOUTS,
    folder="~/.claude",
    folder_variable=_FOLDER_VARIABLE,
    project_file_name=".claude/settings.local.json",
    server_fields={"type": "stdio", "env": {}},
    probe_fields={"permission_mode": "default", "tool_use_id": "toolu_doctor"},
    mcp_path_finder=_find_mcp_path,
    plugin_finder=find_plugin,
)


def find_memory_tools(settings: object) -> dict[str, str]:
    """Return the other memory tools in these settings, and whether each is a hook or a plugin."""
    sources = [(command, "hook") for _, command in list_hook_commands(settings) if not is_hardwon_hook(command)]
    plugins = get_object(settings, "enabledPlugins")
    sources += [(plugin, "plugin") for plugin, is_enabled in plugins.items() if is_enabled]
    tools: dict[str, str] = {}
    for text, kind in sources:
        for name, pattern in _MEMORY_TOOL_PATTERNS.items():
            if re.search(pattern, text, re.IGNORECASE):
                tools.setdefault(name, kind)
    return tools


def is_auto_memory_on(settings: Sequence[object], environment: Mapping[str, str]) -> bool:
    """Return whether auto-memory is on: its variable decides, else the first settings that have the switch."""
    # The variable's name says disable, so a value such as 0 means that it is on.
    if override := environment.get("CLAUDE_CODE_DISABLE_AUTO_MEMORY", "").strip().lower():
        return override in ("0", "false", "no", "off")
    for values in settings:
        if isinstance(values, dict) and isinstance(values.get("autoMemoryEnabled"), bool):
            return bool(values["autoMemoryEnabled"])
    return True  # Claude Code's own default


def read_hook_durations(lines: Iterable[bytes]) -> Iterator[tuple[str, float]]:
    """Yield the event and the milliseconds of each run of our hooks that a transcript records."""
    for line in lines:
        # Cheaper than parsing: few lines of a transcript are about hooks.
        if b'"hook_' not in line:
            continue
        try:
            attachment = get_object(loads(line.decode("utf-8", "replace")), "attachment")
        except ValueError:
            continue
        duration = get_number(attachment, "durationMs")
        is_run = get_text(attachment, "type") in ("hook_success", "hook_non_blocking_error")
        if is_run and duration is not None and is_hardwon_hook(get_text(attachment, "command")):
            yield get_text(attachment, "hookEvent"), duration
