"""Codex: payloads on stdin as Claude Code has them, answers read strictly: a field it does not know, or one too many
beside a denial, and the whole answer is dropped and the call runs.

Its hooks do not say whether a command failed. The rollout does, and since 0.166 before the hook runs. Where it has the
call and not yet its end, the hook tells nothing: at the end of the turn the rollout is read and tells both.
"""

from __future__ import annotations

from hardwon.agents.codex.tools import (
    TOOL_NAMES,
    ToolCall,
    extract_shell_line,
    is_patch,
    parse_call,
    parse_patch,
    unwrap_result,
)
from hardwon.agents.fields import get_cwd, get_first_text, get_object, get_text, load_payload, read_tail_lines
from hardwon.text.light_json import dumps, loads
from hardwon.types import Event, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from hardwon.types import HookReply

NAME = "codex"

# The hooks we register, with each one's budget in seconds. It runs them in a login shell, and what a person has that
# do counts as our time; an end of more than three seconds is cut to that.
EVENT_TIMEOUTS = {
    "SessionStart": 10,
    "UserPromptSubmit": 5,
    "PreToolUse": 5,
    "PostToolUse": 5,
    "SubagentStart": 5,
    "SubagentStop": 5,
    "PreCompact": 5,
    "Stop": 5,
    "SessionEnd": 3,
}
_FAILURE_EVENT = "PostToolUseFailure"
_CONTEXT_EVENTS = ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "SubagentStart")  # may add context
_TAIL_BYTES = 256 * 1024  # bytes at a rollout's end in which a call that just ended is looked for


def parse_payload(kind: str, payload: bytes) -> Event | None:
    wire = load_payload(payload)
    kind, agent = get_text(wire, "hook_event_name") or kind, get_text(wire, "agent_id")
    if kind not in EVENT_TIMEOUTS or (agent and kind == "UserPromptSubmit"):
        return None  # what a sub-agent is told was written by a program, and a prompt counts as a person's word
    rollout = get_text(wire, "transcript_path")
    event = Event(
        host=NAME,
        kind=kind,
        session=get_text(wire, "session_id"),
        cwd=get_cwd(wire),
        agent=agent,
        source=get_text(wire, "source"),
        prompt=get_text(wire, "prompt"),
        # a sub-agent's own rollout is not the session's, which it has in its last event only
        transcript="" if agent and kind != "SubagentStop" else rollout,
        message=get_first_text(wire, "last_assistant_message", "reason", "trigger", "agent_type"),
    )
    if not get_text(wire, "tool_name"):
        return event
    event = _add_call_fields(event, wire)
    return _add_outcome(event, wire.get("tool_response"), rollout) if kind == "PostToolUse" else event


def _add_call_fields(event: Event, wire: dict[str, Any]) -> Event:
    tool_input = get_object(wire, "tool_input")
    event = replace(event, tool_use_id=get_text(wire, "tool_use_id"))
    if TOOL_NAMES.get(wire["tool_name"], wire["tool_name"]) == "Bash":
        line = extract_shell_line(tool_input.get("cmd", tool_input.get("command")))
        event = replace(event, tool="Bash", command=line, input={**tool_input, "command": line})
        # a patch on a shell's line may have more beside it, so it is looked at as both
        return replace(event, parts=(event, *_build_parts(event, line))) if is_patch(line) else event
    call = parse_call(get_text(wire, "tool_name"), tool_input)
    event = replace(
        event, tool=call.tool, path=call.path, content=call.content, input=_build_tool_input(call, tool_input)
    )
    if wire["tool_name"] != "apply_patch":
        return event
    patch = get_first_text(tool_input, "command", "input")
    parts = _build_parts(event, patch)
    removed = "\n".join(change.removed for change in parse_patch(patch) if change.removed)
    return replace(event, input=_build_edit_input(call.tool, call.path, call.content, removed), parts=parts)


def _build_parts(event: Event, patch: str) -> tuple[Event, ...]:
    return tuple(
        replace(
            event,
            tool=change.tool,
            command="",
            path=change.path,
            content=change.added,
            input=_build_edit_input(change.tool, change.path, change.added, change.removed),
        )
        for change in parse_patch(patch)
    )


def _build_edit_input(tool: str, path: str, added: str, removed: str) -> dict[str, str]:
    if tool == "Write":
        return {"file_path": path, "content": added}
    return {"file_path": path, "old_string": removed, "new_string": added}


def _build_tool_input(call: ToolCall, tool_input: dict[str, Any]) -> dict[str, Any]:
    if call.tool == "Read":
        return {"file_path": call.path}
    return {"prompt": call.content} if call.tool == "Task" else tool_input


def _add_outcome(event: Event, response: object, rollout: str) -> Event | None:
    """The event with how its call ended; None if that is only known later, and then from the session's rollout."""
    code: int | None = None
    if event.tool == "Bash":
        item = _find_completed_item(rollout, event.tool_use_id)
        if item == {} and not event.agent:
            return None
        code = _get_exit_code(item or {})
    elif isinstance(response, str):
        response, code = unwrap_result(response)
    elif isinstance(response, dict):
        code = int(response.get("isError") is True)
    if not code:
        return replace(event, response=response)
    return replace(event, kind=_FAILURE_EVENT, failed=True, response=response or f"Process exited with code {code}")


def _get_exit_code(item: dict[str, Any]) -> int:
    code = item.get("exit_code")
    return code if isinstance(code, int) else int(item.get("status") == "failed")


def _find_completed_item(rollout: str, call_id: str) -> dict[str, Any] | None:
    """What the rollout's end has of a call that is over; empty if it has the call alone, None if it knows of none."""
    call_lines = [line for line in read_tail_lines(rollout, _TAIL_BYTES) if call_id and dumps(call_id).encode() in line]
    for line in reversed(call_lines):
        if b'"item_completed"' in line and (item := _parse_completed_item(line)).get("id") == call_id:
            return item
    return {} if call_lines else None


def _parse_completed_item(line: bytes) -> dict[str, Any]:
    try:
        wire = loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return {}
    return get_object(get_object(wire, "payload"), "item") if isinstance(wire, dict) else {}


def render_reply(event: Event, reply: HookReply) -> bytes:
    kind = "PostToolUse" if event.kind == _FAILURE_EVENT else event.kind
    answer: dict[str, object] = {}
    if reply.deny and kind == "UserPromptSubmit":
        answer = {"decision": "block", "reason": reply.deny}  # shown to the person; the model never sees the prompt
    elif reply.deny and kind == "PreToolUse":
        answer["hookSpecificOutput"] = {
            "hookEventName": kind,
            "permissionDecision": "deny",
            "permissionDecisionReason": reply.deny,
        }
    elif reply.context and kind in _CONTEXT_EVENTS:
        answer["hookSpecificOutput"] = {"hookEventName": kind, "additionalContext": reply.context}
    if reply.notice:
        answer["systemMessage"] = reply.notice
    return dumps(answer).encode("ascii")
