"""Gemini CLI: its own names for events and tools, decisions at the top level, and no id of a call.

A note would be ignored before a call and is read after it, so that is when it is given. Any exit code but 0 and 1
denies the call, which is why the command never has another.
"""

from __future__ import annotations

import os

from hardwon.agents.fields import get_cwd, get_object, get_text, load_payload, read_tail_lines
from hardwon.agents.gemini.tools import (
    CANCELLED_MESSAGE,
    SHELL_TOOL,
    build_call_id,
    extract_answer,
    extract_call_fields,
    extract_prompt,
    join_text_parts,
    normalize_call,
    parse_outcome,
    resolve_call_cwd,
)
from hardwon.text.fence import FENCE_CLOSE, FENCE_OPEN
from hardwon.text.light_json import dumps
from hardwon.types import Event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from hardwon.types import HookReply

NAME = "gemini"

# PreCompress is not among them: it comes before every call of the model, whether anything is compressed or not.
EVENT_TIMEOUTS = {
    "SessionStart": 10,
    "UserPromptSubmit": 1,
    "PreToolUse": 1,
    "PostToolUse": 2,
    "Stop": 2,
    "SessionEnd": 3,
}
NATIVE_EVENT_NAMES = {
    "SessionStart": "SessionStart",
    "UserPromptSubmit": "BeforeAgent",
    "PreToolUse": "BeforeTool",
    "PostToolUse": "AfterTool",
    "Stop": "AfterAgent",
    "SessionEnd": "SessionEnd",
}
_EVENT_NAMES = {native_name: event_name for event_name, native_name in NATIVE_EVENT_NAMES.items()}
_CONTEXT_EVENTS = ("SessionStart", "UserPromptSubmit", "PostToolUse")  # elsewhere it passes over what is for the model
_BRACKETS_NOTE = "(&lt; and &gt; stand for angle brackets here.)"
_NO_RESPONSE_TEXT = "[no response text]"
_TAIL_BYTES = 256 * 1024  # bytes of a transcript in which the message that makes a call is looked for
_MESSAGE_PREFIX, _HEAD_BYTES = b'{"id":"', 200  # how a line with a message begins, and where its type stands


def parse_payload(kind: str, payload: bytes) -> Event | None:
    wire = load_payload(payload)
    kind = _EVENT_NAMES.get(get_text(wire, "hook_event_name"), kind)
    if kind not in EVENT_TIMEOUTS:
        return None
    answer = extract_answer(get_text(wire, "prompt_response"))
    event = {
        "session": get_text(wire, "session_id"),
        "cwd": get_cwd(wire),
        "source": get_text(wire, "source"),
        "prompt": extract_prompt(get_text(wire, "prompt")) if kind == "UserPromptSubmit" else "",
        "transcript": get_text(wire, "transcript_path"),
        "message": get_text(wire, "reason") if answer == _NO_RESPONSE_TEXT else answer or get_text(wire, "reason"),
    }
    if kind == "UserPromptSubmit" and ("#lesson" in event["prompt"].lower() or "hardwon" in event["prompt"]):
        from hardwon.agents.gemini.commands import is_typed_by_person

        event["source"] = "" if is_typed_by_person(event) else "command"
    call_fields = _read_call(kind, wire, event) if kind in ("PreToolUse", "PostToolUse") else {"kind": kind}
    return Event(**{"host": NAME, **event, **call_fields})


def _read_call(kind: str, wire: dict[str, Any], event: dict[str, str]) -> dict[str, Any]:
    name, native_input, mcp_context = (
        get_text(wire, "tool_name"),
        get_object(wire, "tool_input"),
        get_object(wire, "mcp_context"),
    )
    tool, tool_input = normalize_call(
        name, native_input, get_text(mcp_context, "server_name"), get_text(mcp_context, "tool_name")
    )
    command, path, content = call_fields = extract_call_fields(tool, tool_input)
    agent, transcript = "", event["transcript"]
    if tool != "Task":
        agent, transcript = _find_caller(transcript, event["session"])
    fields = {
        "kind": kind,
        "cwd": resolve_call_cwd(get_text(tool_input, "dir_path"), event["cwd"]),
        "agent": agent,
        "tool": tool,
        "tool_use_id": build_call_id(_find_message_id(transcript), tool, call_fields),
        "command": command,
        "path": path,
        "content": content,
        "input": tool_input,
    }
    return fields if kind == "PreToolUse" else {**fields, **_read_outcome(name, get_object(wire, "tool_response"))}


def _read_outcome(name: str, response: dict[str, Any]) -> dict[str, Any]:
    """How a call ended. A command that failed is no error to this agent: its exit code stands in the text."""
    error = get_object(response, "error")
    raw_text = (
        get_text(error, "message")
        or join_text_parts(response.get("llmContent"))
        or join_text_parts(response.get("returnDisplay"))
    )
    text, failed = parse_outcome(name, raw_text)
    interrupted = name == SHELL_TOOL and text.startswith(CANCELLED_MESSAGE)
    failed = failed or interrupted or bool(error)
    kind = "PostToolUseFailure" if failed else "PostToolUse"
    return {"kind": kind, "response": text, "failed": failed, "interrupted": interrupted}


def _find_caller(transcript: str, session: str) -> tuple[str, str]:
    """Who makes a call, and their transcript: of the session's and its sub-agents' the one that was written last,
    since a hook is told the session's alone."""
    subagent_folder = os.path.join(os.path.dirname(transcript), session, "")
    try:
        names = (
            [name for name in os.listdir(subagent_folder) if name.endswith(".jsonl")] if transcript and session else []
        )
    except (OSError, ValueError):
        names = []
    latest = max([transcript, *(subagent_folder + name for name in names)], key=_get_modified_time)
    return "" if latest == transcript else os.path.basename(latest).removesuffix(".jsonl"), latest


def _get_modified_time(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except (OSError, ValueError):
        return 0


def _find_message_id(transcript: str) -> str:
    """The model's message that makes the calls: it is written before they are made, and again with what they gave, so
    one that has calls already makes no more."""
    lines = reversed(read_tail_lines(transcript, _TAIL_BYTES))
    latest = next((line for line in lines if line.startswith(_MESSAGE_PREFIX)), b"")
    if b'"type":"gemini"' not in latest[:_HEAD_BYTES] or b'"toolCalls":' in latest:
        return ""
    return latest[len(_MESSAGE_PREFIX) : _HEAD_BYTES].partition(b'"')[0].decode("utf-8", "replace")


def render_reply(event: Event, reply: HookReply) -> bytes:
    answer: dict[str, object] = {}
    kind = "PostToolUse" if event.kind == "PostToolUseFailure" else event.kind
    if reply.deny:
        answer = {"decision": "deny", "reason": reply.deny}
    elif reply.context and kind in _CONTEXT_EVENTS:
        answer["hookSpecificOutput"] = {
            "hookEventName": NATIVE_EVENT_NAMES[kind],
            "additionalContext": _explain_brackets(reply.context),
        }
    if reply.notice:
        answer["systemMessage"] = reply.notice
    return dumps(answer).encode("ascii")


def _explain_brackets(context: str) -> str:
    """It escapes angle brackets in what is for the model. Where a command has one, the model is told so."""
    inner = context.replace(FENCE_OPEN, "").replace(FENCE_CLOSE, "")
    return (
        context.replace(FENCE_OPEN, f"{FENCE_OPEN}\n{_BRACKETS_NOTE}", 1) if "<" in inner or ">" in inner else context
    )
