"""Grok CLI: Claude Code's events and replies, with tools of its own and every field under two names.

It runs the hooks in Claude Code's settings as well, with its own payload; that entry recognises the sender and stays
silent, so a call is answered once. What it is told at the start or with a prompt never reaches the model.
"""

from __future__ import annotations

from hardwon.agents.fields import Wire, collect_strings, get_object, get_text
from hardwon.agents.hook_contract import HookContract, render_nested_denial
from hardwon.types import Event

_EVENTS = ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "SessionEnd")
# An edit that failed has its message under one of these; what succeeded is under another name.
_ERROR_FIELDS = ("NoMatchesFound", "MultipleMatchesFound", "Error", "FileNotFound")


def read_result(event: Event, wire: Wire) -> tuple[str, bool]:
    return parse_result(get_object(wire, "tool_response"))


def parse_result(result: Wire) -> tuple[str, bool]:
    """Return a tool's output, and whether it failed."""
    if "output_for_prompt" in result:  # a command's
        text = get_text(result, "output_for_prompt")
        head, _, output = text.partition("\n")
        if head.startswith("exit: "):
            text = output
        failed = result.get("exit_code") not in (0, None) or result.get("timed_out") is True
        return text, failed
    for field in _ERROR_FIELDS:
        if field in result:
            error = result[field]
            return get_text(error, "message") or "\n".join(collect_strings(error)), True
    file_text = get_text(get_object(result, "FileContent"), "raw_output")
    if file_text:
        return file_text, False
    _, *values = result.values() or [None]  # the first names the kind of result
    return "\n".join(collect_strings(values)), False


def _render_denial(kind: str, reason: str) -> dict[str, object]:
    """Return a denial with the fix in front: Grok CLI (1.0.41) cuts a reason after about 256 characters."""
    fence, *lines = reason.split("\n")
    lines.sort(key=lambda line: not line.startswith("**Fix**"))  # stable: the others stay in their order
    return render_nested_denial(kind, "\n".join([fence, *lines]))


CONTRACT = HookContract(
    name="grok",
    events={event: event for event in _EVENTS},
    tool_names={
        "run_terminal_command": "Bash",
        "read_file": "Read",
        "search_replace": "Edit",
        "write": "Write",
        "grep": "Grep",
        "list_dir": "LS",
        "spawn_subagent": "Task",
    },
    argument_names={"target_file": "file_path", "target_directory": "path"},
    fields={"last_assistant_message": ("lastAssistantMessage",)},
    ignored={"Stop": ("reason", "shutdown")},  # sent once more after the session's end
    context_events=("PreToolUse", "PostToolUse"),
    read_result=read_result,
    render_denial=_render_denial,
)
EVENT_TIMEOUTS = CONTRACT.timeouts
parse_payload = CONTRACT.parse_payload
render_reply = CONTRACT.render_reply

SETTINGS = {
    "title": "Grok CLI",
    "program": "grok",
    "minimum_version": (1, 0, 41),
    "folder": "~/.grok",
    "file_name": "hooks/hardwon.json",
    "shell_tool": "run_terminal_command",
    "probe_fields": {"hookEventName": "pre_tool_use", "tool_use_id": "call_doctor"},
}
