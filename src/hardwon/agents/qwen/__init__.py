"""Qwen Code: events and replies as in Claude Code, tools and results as in Gemini CLI, from which it comes.

It sends the prompt event before every request to the model; only the one with `submitted_prompt` is a person's. A note
before a call is ignored, so it comes with the result. Of a call's two ids the transcript has `tool_call_id`.
"""

from __future__ import annotations

from hardwon.agents.fields import Wire, get_object, get_text
from hardwon.agents.gemini import ARGUMENT_NAMES, TOOL_NAMES, join_text_parts, parse_outcome
from hardwon.agents.hook_contract import CALL_EVENTS, HookContract
from hardwon.types import Event

# Events of sub-agents and compactions exist as well, but were never seen.
_EVENTS = ("SessionStart", "UserPromptSubmit", *CALL_EVENTS, "Stop", "SessionEnd")


def read_result(event: Event, wire: Wire) -> tuple[str, bool]:
    """Return what the call of an event gave back, and whether it failed."""
    result = get_object(wire, "tool_response")
    text = get_text(wire, "error") or join_text_parts(result.get("llmContent"))
    text, failed = parse_result(get_text(wire, "tool_name"), text)
    return text, failed or event.kind == "PostToolUseFailure"


def parse_result(name: str, text: str) -> tuple[str, bool]:
    """Return a tool's output without the frame around a command's, and whether that says that it failed."""
    text, failed = parse_outcome(name, text)
    text = text.removesuffix("Exit Code: 0").rstrip()
    if text == "(empty)":
        text = ""
    return text, failed


CONTRACT = HookContract(
    name="qwen",
    events={event: event for event in _EVENTS},
    tool_names=TOOL_NAMES,
    argument_names=ARGUMENT_NAMES,
    fields={"prompt": ("submitted_prompt",), "tool_use_id": ("tool_call_id",)},
    ignored={"UserPromptSubmit": ("submitted_prompt", None)},
    context_events=("SessionStart", "UserPromptSubmit", "PostToolUse", "PostToolUseFailure"),
    read_result=read_result,
)
EVENT_TIMEOUTS = CONTRACT.timeouts
parse_payload = CONTRACT.parse_payload
render_reply = CONTRACT.render_reply

# A timeout of 1000 or more would be read as milliseconds; ours are far below.
SETTINGS = {
    "title": "Qwen Code",
    "program": "qwen",
    "minimum_version": (0, 24, 4),
    "folder": "~/.qwen",
    "server_file_name": "settings.json",
    "shell_tool": "run_shell_command",
    "probe_fields": {
        "timestamp": "2026-01-01T00:00:00.000Z",
        "tool_use_id": "toolu_doctor",
        "tool_call_id": "call_doctor",
    },
}
