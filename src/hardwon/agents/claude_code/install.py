"""Claude Code: hooks in settings.json, MCP servers in the file beside its folder, and the other tools found there."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from hardwon.agents.claude_code.payload import EVENT_TIMEOUTS
from hardwon.agents.fields import get_number, get_object, get_text
from hardwon.agents.settings_files import (
    SERVER_NAME,
    SERVERS_KEY,
    add_hook_entries,
    add_server_entry,
    find_hooks,
    find_mcp_command,
    get_value,
    has_own_plugin,
    is_hardwon_hook,
    list_hook_commands,
    read_text_file,
    remove_hooks,
    remove_mcp_server,
    runs_hooks,
)
from hardwon.errors import UserError
from hardwon.text.light_json import loads

if TYPE_CHECKING:
    from hardwon.agents import CreatedPaths

__all__ = ["find_hooks", "find_mcp_command", "remove_hooks", "remove_mcp_server", "runs_hooks"]

TITLE = "Claude Code"
PROGRAM = "claude"
MINIMUM_VERSION = (2, 1, 0)
EMPTY_SETTINGS = "{}\n"
NEXT_STEP = ""
PROBE_PAYLOAD = {
    "session_id": "hardwon-doctor",
    "transcript_path": "",
    "cwd": "/",
    "permission_mode": "default",
    "hook_event_name": "PreToolUse",
    "tool_name": "Bash",
    "tool_input": {"command": "true", "description": "hardwon doctor"},
    "tool_use_id": "toolu_doctor",
}
# Other memory tools and guards for agents, with the text that identifies them in a hook's command or a plugin's name.
MEMORY_TOOL_PATTERNS = {
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


def get_settings_path(*, project: str = "") -> str:
    """Return the path of the person's settings or, with a project, of its settings file that is never committed."""
    if project:
        return os.path.join(project, ".claude", "settings.local.json")
    folder = os.environ.get("CLAUDE_CONFIG_DIR") or os.path.expanduser("~/.claude")
    return os.path.join(folder, "settings.json")


def add_hooks(text: str, build_command: Callable[[str], str]) -> tuple[str, CreatedPaths]:
    entries = {
        event: {"type": "command", "command": build_command(event), "timeout": seconds}
        for event, seconds in EVENT_TIMEOUTS.items()
    }
    return add_hook_entries(text, entries)


def find_plugin() -> str:
    path = get_settings_path()
    try:
        plugins = get_value(read_text_file(path), ["enabledPlugins"])
    except (UserError, ValueError):
        return ""
    return path if has_own_plugin(plugins) else ""


def check_trust(text: str) -> None:
    """Claude Code runs every hook in its settings."""


def get_mcp_path() -> str:
    folder = os.environ.get("CLAUDE_CONFIG_DIR") or os.path.expanduser("~")
    return os.path.join(folder, ".claude.json")


def add_mcp_server(text: str, command: Sequence[str]) -> tuple[str, CreatedPaths]:
    entry = {"type": "stdio", "command": command[0], "args": [*command[1:]], "env": {}}
    return add_server_entry(text, [SERVERS_KEY, SERVER_NAME], entry)


def find_memory_tools(settings: object) -> dict[str, str]:
    """Return the other memory tools in these settings, and whether each is a hook or a plugin."""
    sources = [(command, "hook") for _, command in list_hook_commands(settings) if not is_hardwon_hook(command)]
    plugins = get_object(settings, "enabledPlugins")
    sources += [(plugin, "plugin") for plugin, is_enabled in plugins.items() if is_enabled]
    tools: dict[str, str] = {}
    for text, kind in sources:
        for name, pattern in MEMORY_TOOL_PATTERNS.items():
            if re.search(pattern, text, re.IGNORECASE):
                tools.setdefault(name, kind)
    return tools


def is_auto_memory_on(settings: Sequence[object], environment: Mapping[str, str]) -> bool:
    """Return whether auto-memory is on: its variable decides, else the first settings that have the switch."""
    # The variable's name says disable, so a value such as 0 means that it is on.
    if override := environment.get("CLAUDE_CODE_DISABLE_AUTO_MEMORY", "").strip().lower():
        return override in ("0", "false", "no", "off")
    values = (setting.get("autoMemoryEnabled") for setting in settings if isinstance(setting, dict))
    return next((value for value in values if isinstance(value, bool)), True)


def read_hook_durations(lines: Iterable[bytes]) -> Iterator[tuple[str, float]]:
    """Yield the event and the milliseconds of each run of our hooks that a transcript records."""
    for line in lines:
        # Cheaper than parsing: few lines of a transcript are about hooks.
        if b'"hook_' not in line:
            continue
        try:
            attachment = get_object(loads(line.decode("utf-8", "replace")), "attachment")
        except (ValueError, RecursionError):
            continue
        duration = get_number(attachment, "durationMs")
        is_run = get_text(attachment, "type") in ("hook_success", "hook_non_blocking_error")
        if is_run and duration is not None and is_hardwon_hook(get_text(attachment, "command")):
            yield get_text(attachment, "hookEvent"), duration
