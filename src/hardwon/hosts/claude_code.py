"""Claude Code: hooks in settings.json, payloads on stdin, decisions in `hookSpecificOutput`."""

from __future__ import annotations

import os

from hardwon.core.jsons import dumps, loads
from hardwon.words import Event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from hardwon.words import Reply

NAME = "claude-code"
TITLE = "Claude Code"
PROGRAM = "claude"

# The hooks we register, with each one's budget in seconds: past it the agent goes on without us.
EVENTS = {
    "SessionStart": 10, "UserPromptSubmit": 1, "PreToolUse": 1, "PostToolUse": 2, "PostToolUseFailure": 2,
    "SubagentStart": 1, "SubagentStop": 2, "PreCompact": 2, "Stop": 2, "SessionEnd": 3,
}  # fmt: skip

ALIASES = {"Agent": "Task"}


def read(kind: str, payload: bytes) -> Event | None:
    wire = loads(payload.decode("utf-8", "replace"))
    if not isinstance(wire, dict):
        raise ValueError(f"a payload is an object, not {type(wire).__name__}")
    kind = text_of(wire, "hook_event_name") or kind
    if kind not in EVENTS or (kind == "SubagentStop" and wire.get("agent_type") == ""):
        return None  # without a type it is a compaction, whose last words are the whole conversation in short
    given = wire.get("tool_input")
    given = given if isinstance(given, dict) else {}
    tool = text_of(wire, "tool_name")
    return Event(
        host=NAME,
        kind=kind,
        session=text_of(wire, "session_id"),
        cwd=_folder(wire),
        agent=text_of(wire, "agent_id"),
        source=text_of(wire, "source"),
        prompt=text_of(wire, "prompt"),
        tool=ALIASES.get(tool, tool),
        tool_use_id=text_of(wire, "tool_use_id"),
        command=text_of(given, "command"),
        path=first_of(given, "file_path", "notebook_path", "path", "glob"),
        content=content_of(tool, given),
        transcript=text_of(wire, "transcript_path"),
        prompt_name=text_of(wire, "prompt_id"),
        input=given if tool else None,
        response=wire.get("error") if kind == "PostToolUseFailure" else wire.get("tool_response"),
        failed=kind == "PostToolUseFailure",
        interrupted=wire.get("is_interrupt") is True,
        duration=_number(wire.get("duration_ms")),
        message=first_of(wire, "last_assistant_message", "reason", "trigger", "agent_type"),
    )


def _folder(wire: dict[str, Any]) -> str:
    """Where it happened; what the file system cannot name is left out of it."""
    return text_of(wire, "cwd").replace("\0", "").encode("utf-8", "replace").decode()


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def content_of(tool: str, given: dict[str, Any]) -> str:
    """What the call would write, look for or ask: the text a content pattern is tried on."""
    if tool == "MultiEdit":
        edits = given.get("edits")
        changes = edits if isinstance(edits, list) else []
        return "\n".join(text_of(change, "new_string") for change in changes if isinstance(change, dict))
    if tool.startswith("mcp__"):
        return "\n".join(strings_in(given))
    return first_of(given, "new_string", "content", "new_source", "pattern", "query", "url", "prompt")


def strings_in(value: object, depth: int = 0) -> list[str]:
    if isinstance(value, str):
        return [value]
    if depth > 20 or not isinstance(value, dict | list):
        return []
    inner = value.values() if isinstance(value, dict) else value
    return [text for one in inner for text in strings_in(one, depth + 1)]


def text_of(wire: dict[str, Any], key: str) -> str:
    value = wire.get(key)
    return value if isinstance(value, str) else ""


def first_of(wire: dict[str, Any], *keys: str) -> str:
    for key in keys:
        value = wire.get(key)
        if value and isinstance(value, str):
            return value
    return ""


def write(event: Event, reply: Reply) -> bytes:
    answer: dict[str, object] = {}
    if reply.deny:
        answer["hookSpecificOutput"] = {
            "hookEventName": event.kind,
            "permissionDecision": "deny",
            "permissionDecisionReason": reply.deny,
        }
    elif reply.context:
        answer["hookSpecificOutput"] = {"hookEventName": event.kind, "additionalContext": reply.context}
    if reply.notice:
        answer["systemMessage"] = reply.notice
    return dumps(answer).encode("ascii")


def settings_file(*, project: str = "") -> str:
    """The person's settings, or with a project the one file there that is never committed."""
    if project:
        return os.path.join(project, ".claude", "settings.local.json")
    folder = os.environ.get("CLAUDE_CONFIG_DIR") or os.path.expanduser("~/.claude")
    return os.path.join(folder, "settings.json")


def install(text: str, command: Callable[[str], str]) -> tuple[str, list[list[str]]]:
    """The settings with our hooks in them, and which containers had to be made for them."""
    from hardwon.core import jsontext

    made: list[list[str]] = []
    for event, seconds in EVENTS.items():
        entry = {"hooks": [{"type": "command", "command": command(event), "timeout": seconds}]}
        text, new = jsontext.append(text, ["hooks", event], entry)
        made.extend(map(list, new))
    return text, made


def uninstall(text: str, made: list[list[str]], ours: Callable[[str], bool]) -> str:
    """The settings without our hooks, whichever version of us put them there."""
    from hardwon.core import jsontext

    for event in installed(text, ours):
        text = jsontext.remove(text, ["hooks", event], lambda entry: _is_ours(entry, ours), made=made)
    return text


def installed(text: str, ours: Callable[[str], bool]) -> dict[str, list[str]]:
    """Our commands in these settings, by event."""
    from hardwon.core import jsontext

    hooks = jsontext.get(text, ["hooks"]) if text.strip() else None
    found: dict[str, list[str]] = {}
    for event, entries in hooks.items() if isinstance(hooks, dict) else ():
        for entry in entries if isinstance(entries, list) else ():
            found.setdefault(event, []).extend(command for command in _commands(entry) if ours(command))
    return {event: commands for event, commands in found.items() if commands}


def _is_ours(entry: object, ours: Callable[[str], bool]) -> bool:
    commands = _commands(entry)
    return bool(commands) and all(map(ours, commands))


def _commands(entry: object) -> list[str]:
    hooks = entry.get("hooks") if isinstance(entry, dict) else None
    given = hooks if isinstance(hooks, list) else []
    return [text_of(hook, "command") for hook in given if isinstance(hook, dict)]
