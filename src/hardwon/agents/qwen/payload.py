"""Qwen Code: events and replies as in Claude Code, tools and results as in Gemini CLI, from which it comes.

It sends the prompt event before every request to the model; only the one with `submitted_prompt` is a person's. A note
before a call is ignored, so it comes with the result. Of a call's two ids the transcript has `tool_call_id`.
"""

from __future__ import annotations

from hardwon.agents.claude_code.payload import render_answer
from hardwon.agents.envelopes import is_foreign
from hardwon.agents.fields import (
    STANDARD_TIMEOUTS,
    build_event,
    get_call_fields,
    get_number,
    get_object,
    get_text,
    load_payload,
)
from hardwon.agents.gemini.payload import join_text_parts, normalize_call, parse_outcome
from hardwon.types import Event, replace

TYPE_CHECKING = False  # importing it from `typing` would slow down the hook
if TYPE_CHECKING:
    from typing import Any

    from hardwon.types import HookReply

NAME = "qwen"

# Those of sub-agents and compactions exist as well, but were never seen.
_EVENTS = (
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "Stop",
    "SessionEnd",
)
EVENT_TIMEOUTS = {event: STANDARD_TIMEOUTS[event] for event in _EVENTS}
_CONTEXT_EVENTS = ("SessionStart", "UserPromptSubmit", "PostToolUse", "PostToolUseFailure")
_DENIED_EVENTS = ("PreToolUse", "UserPromptSubmit")


def parse_payload(kind: str, payload: bytes) -> Event | None:
    wire = load_payload(payload)
    kind = get_text(wire, "hook_event_name") or kind
    if kind not in EVENT_TIMEOUTS or is_foreign(wire, (NAME,)):
        return None
    if kind == "UserPromptSubmit" and not get_text(wire, "submitted_prompt"):
        return None
    event = build_event(NAME, kind, wire)
    if kind == "UserPromptSubmit":
        return replace(event, prompt=get_text(wire, "submitted_prompt"))
    name = get_text(wire, "tool_name")
    return _add_call_fields(event, name, wire) if name else event


def _add_call_fields(event: Event, name: str, wire: dict[str, Any]) -> Event:
    tool, tool_input = normalize_call(name, get_object(wire, "tool_input"))
    command, path, content = get_call_fields(tool, tool_input)
    event = replace(
        event,
        tool=tool,
        tool_use_id=get_text(wire, "tool_call_id") or get_text(wire, "tool_use_id"),
        command=command,
        path=path,
        content=content,
        input=tool_input,
        interrupted=wire.get("is_interrupt") is True,
        duration=get_number(wire, "duration_ms"),
    )
    if event.kind == "PreToolUse":
        return event
    result = get_object(wire, "tool_response")
    text, failed = parse_result(name, get_text(wire, "error") or join_text_parts(result.get("llmContent")))
    failed = failed or event.kind == "PostToolUseFailure"
    return replace(event, kind="PostToolUseFailure" if failed else "PostToolUse", response=text, failed=failed)


def parse_result(name: str, text: str) -> tuple[str, bool]:
    """Return a tool's output without the frame around a command's, and whether that says that it failed."""
    text, failed = parse_outcome(name, text)
    text = text.removesuffix("Exit Code: 0").rstrip()
    return "" if text == "(empty)" else text, failed


def render_reply(event: Event, reply: HookReply) -> bytes:
    if event.kind not in _CONTEXT_EVENTS:
        reply = replace(reply, context="")
    if event.kind not in _DENIED_EVENTS:
        reply = replace(reply, deny="")
    return render_answer(event.kind, reply)
