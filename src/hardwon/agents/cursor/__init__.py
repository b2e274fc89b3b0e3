"""Cursor: its own names of events, and replies at the top level. By its documentation; it was not driven."""

from __future__ import annotations

from hardwon.agents.fields import Wire, get_first_text
from hardwon.agents.hook_contract import HookContract
from hardwon.types import Event

EVENT_NAMES = {
    "SessionStart": "sessionStart",
    "UserPromptSubmit": "beforeSubmitPrompt",
    "PreToolUse": "preToolUse",
    "PostToolUse": "postToolUse",
    "PostToolUseFailure": "postToolUseFailure",
    "Stop": "stop",
    "SessionEnd": "sessionEnd",
}


def _read_result(event: Event, wire: Wire) -> tuple[object, bool]:
    if event.kind == "PostToolUseFailure":
        return get_first_text(wire, "error_message", "error"), True
    return wire.get("tool_output", wire.get("tool_response")), False


CONTRACT = HookContract(
    name="cursor",
    events=EVENT_NAMES,
    tool_names={"Shell": "Bash"},
    argument_names={"path": "file_path"},
    fields={"session_id": ("conversation_id",), "cwd": ("cwd", "workspace_roots.0")},
    context_events=("SessionStart", "PostToolUse"),
    has_transcript=False,
    read_result=_read_result,
    render_denial=lambda _, reason: {"permission": "deny", "agent_message": reason, "user_message": reason},
    render_context=lambda _, context: {"additional_context": context},
    render_blocked_prompt=lambda reason: {"continue": False, "user_message": reason},
)
EVENT_TIMEOUTS = CONTRACT.timeouts
parse_payload = CONTRACT.parse_payload
render_reply = CONTRACT.render_reply

# Its sources disagree whether a timeout is in seconds or milliseconds, so none is written.
SETTINGS = {
    "title": "Cursor",
    "program": "cursor",
    "minimum_version": (1, 7),
    "folder": "~/.cursor",
    "file_name": "hooks.json",
    "server_file_name": "mcp.json",
    "event_names": EVENT_NAMES,
    "has_nested_hooks": False,
    "has_timeouts": False,
    "empty_settings": '{\n  "version": 1\n}\n',
    "shell_tool": "Shell",
    "probe_fields": {"conversation_id": "hardwon-doctor", "cursor_version": "1.7"},
}
