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
_OURS = {theirs: ours for ours, theirs in NATIVE_EVENT_NAMES.items()}
_HEARD = ("SessionStart", "UserPromptSubmit", "PostToolUse")  # elsewhere it passes over what is for the model
_BRACKETS = "(&lt; and &gt; stand for angle brackets here.)"
_NO_WORDS = "[no response text]"
_TAIL = 256 * 1024  # bytes of a transcript in which the message that makes a call is looked for
_MESSAGE, _HEAD = b'{"id":"', 200  # how a line with a message begins, and where its type stands


def parse_payload(kind: str, payload: bytes) -> Event | None:
    wire = load_payload(payload)
    kind = _OURS.get(get_text(wire, "hook_event_name"), kind)
    if kind not in EVENT_TIMEOUTS:
        return None
    said = extract_answer(get_text(wire, "prompt_response"))
    event = {
        "session": get_text(wire, "session_id"),
        "cwd": get_cwd(wire),
        "source": get_text(wire, "source"),
        "prompt": extract_prompt(get_text(wire, "prompt")) if kind == "UserPromptSubmit" else "",
        "transcript": get_text(wire, "transcript_path"),
        "message": get_text(wire, "reason") if said == _NO_WORDS else said or get_text(wire, "reason"),
    }
    if kind == "UserPromptSubmit" and ("#lesson" in event["prompt"].lower() or "hardwon" in event["prompt"]):
        from hardwon.agents.gemini.commands import is_typed_by_person

        event["source"] = "" if is_typed_by_person(event) else "command"
    tool = _call(kind, wire, event) if kind in ("PreToolUse", "PostToolUse") else {"kind": kind}
    return Event(**{"host": NAME, **event, **tool})


def _call(kind: str, wire: dict[str, Any], event: dict[str, str]) -> dict[str, Any]:
    name, sent, served = get_text(wire, "tool_name"), get_object(wire, "tool_input"), get_object(wire, "mcp_context")
    tool, given = normalize_call(name, sent, get_text(served, "server_name"), get_text(served, "tool_name"))
    command, path, content = said = extract_call_fields(tool, given)
    agent, transcript = "", event["transcript"]
    if tool != "Task":
        agent, transcript = _at_work(transcript, event["session"])
    found = {
        "kind": kind,
        "cwd": resolve_call_cwd(get_text(given, "dir_path"), event["cwd"]),
        "agent": agent,
        "tool": tool,
        "tool_use_id": build_call_id(_message(transcript), tool, said),
        "command": command,
        "path": path,
        "content": content,
        "input": given,
    }
    return found if kind == "PreToolUse" else {**found, **_ended(name, get_object(wire, "tool_response"))}


def _ended(name: str, response: dict[str, Any]) -> dict[str, Any]:
    """How a call ended. A command that failed is no error to this agent: its exit code stands in the text."""
    wrong = get_object(response, "error")
    raw = (
        get_text(wrong, "message")
        or join_text_parts(response.get("llmContent"))
        or join_text_parts(response.get("returnDisplay"))
    )
    text, failed = parse_outcome(name, raw)
    interrupted = name == SHELL_TOOL and text.startswith(CANCELLED_MESSAGE)
    failed = failed or interrupted or bool(wrong)
    kind = "PostToolUseFailure" if failed else "PostToolUse"
    return {"kind": kind, "response": text, "failed": failed, "interrupted": interrupted}


def _at_work(transcript: str, session: str) -> tuple[str, str]:
    """Who makes a call, and their transcript: of the session's and its sub-agents' the one that was written last,
    since a hook is told the session's alone."""
    below = os.path.join(os.path.dirname(transcript), session, "")
    try:
        names = [name for name in os.listdir(below) if name.endswith(".jsonl")] if transcript and session else []
    except (OSError, ValueError):
        names = []
    latest = max([transcript, *(below + name for name in names)], key=_written)
    return "" if latest == transcript else os.path.basename(latest).removesuffix(".jsonl"), latest


def _written(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except (OSError, ValueError):
        return 0


def _message(transcript: str) -> str:
    """The model's message that makes the calls: it is written before they are made, and again with what they gave, so
    one that has calls already makes no more."""
    lines = reversed(read_tail_lines(transcript, _TAIL))
    latest = next((line for line in lines if line.startswith(_MESSAGE)), b"")
    if b'"type":"gemini"' not in latest[:_HEAD] or b'"toolCalls":' in latest:
        return ""
    return latest[len(_MESSAGE) : _HEAD].partition(b'"')[0].decode("utf-8", "replace")


def render_reply(event: Event, reply: HookReply) -> bytes:
    answer: dict[str, object] = {}
    kind = "PostToolUse" if event.kind == "PostToolUseFailure" else event.kind
    if reply.deny:
        answer = {"decision": "deny", "reason": reply.deny}
    elif reply.context and kind in _HEARD:
        answer["hookSpecificOutput"] = {
            "hookEventName": NATIVE_EVENT_NAMES[kind],
            "additionalContext": _legible(reply.context),
        }
    if reply.notice:
        answer["systemMessage"] = reply.notice
    return dumps(answer).encode("ascii")


def _legible(context: str) -> str:
    """It escapes angle brackets in what is for the model. Where a command has one, the model is told so."""
    inner = context.replace(FENCE_OPEN, "").replace(FENCE_CLOSE, "")
    return context.replace(FENCE_OPEN, f"{FENCE_OPEN}\n{_BRACKETS}", 1) if "<" in inner or ">" in inner else context
