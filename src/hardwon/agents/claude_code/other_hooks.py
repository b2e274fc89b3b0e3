"""What else remembers for Claude Code, and how long it says our hooks took: both stand in files of its own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from hardwon.text.light_json import loads

# Programs that remember for agents or hold their calls, by what a hook's command or a plugin's name has of them.
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
_DISABLE_VARIABLE = "CLAUDE_CODE_DISABLE_AUTO_MEMORY"
_RUN_TYPES = ("hook_success", "hook_non_blocking_error")


def find_memory_tools(settings: object, is_hardwon_hook: Callable[[str], bool]) -> dict[str, str]:
    """The programs these settings let remember too, and whether each does so by a hook or as a plugin."""
    sources = [(command, "hook") for command in _list_commands(settings) if not is_hardwon_hook(command)]
    sources += [
        (plugin, "plugin") for plugin, is_enabled in _get_member(settings, "enabledPlugins").items() if is_enabled
    ]
    tools: dict[str, str] = {}
    for text, kind in sources:
        for name, pattern in MEMORY_TOOL_PATTERNS.items():
            if re.search(pattern, text, re.IGNORECASE):
                tools.setdefault(name, kind)
    return tools


def is_auto_memory_on(settings: Sequence[object], environment: Mapping[str, str]) -> bool:
    """Whether the agent's auto-memory is on: its environment decides, else the first settings that speak of it."""
    if override := environment.get(_DISABLE_VARIABLE, "").strip().lower():
        return override in ("0", "false", "no", "off")
    values = (setting.get("autoMemoryEnabled") for setting in settings if isinstance(setting, dict))
    return next((value for value in values if isinstance(value, bool)), True)


def read_hook_durations(lines: Iterable[bytes], is_hardwon_hook: Callable[[str], bool]) -> Iterator[tuple[str, float]]:
    """The event and the milliseconds of each hook of ours that a transcript tells of."""
    for line in lines:
        if b'"hook_' not in line:
            continue
        try:
            attachment = _get_member(loads(line.decode("utf-8", "replace")), "attachment")
        except ValueError:
            continue
        duration = attachment.get("durationMs")
        if (
            attachment.get("type") in _RUN_TYPES
            and isinstance(duration, int | float)
            and 0 <= duration < 1e9
            and is_hardwon_hook(str(attachment.get("command")))
        ):
            yield str(attachment.get("hookEvent")), float(duration)


def _list_commands(settings: object) -> Iterator[str]:
    for entries in _get_member(settings, "hooks").values():
        for entry in entries if isinstance(entries, list) else ():
            hooks = entry.get("hooks") if isinstance(entry, dict) else None
            for hook in hooks if isinstance(hooks, list) else ():
                yield str(hook.get("command") or hook.get("url")) if isinstance(hook, dict) else ""


def _get_member(value: object, key: str) -> dict[str, Any]:
    member = value.get(key) if isinstance(value, dict) else None
    return member if isinstance(member, dict) else {}
