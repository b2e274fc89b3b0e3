"""Claude Code: payloads on stdin, decisions in `hookSpecificOutput`."""

from __future__ import annotations

from hardwon.agents.fields import (
    get_call_fields,
    get_first_text,
    get_number,
    get_object,
    get_path_text,
    get_text,
    load_payload,
)
from hardwon.text.light_json import dumps
from hardwon.types import Event

TYPE_CHECKING = False  # importing it from `typing` would slow down the hook
if TYPE_CHECKING:
    from hardwon.types import HookReply

NAME = "claude-code"

# The hooks that hardwon registers, each with its timeout in seconds, after which the agent continues without it.
EVENT_TIMEOUTS = {
    "SessionStart": 10,
    "UserPromptSubmit": 1,
    "PreToolUse": 1,
    "PostToolUse": 2,
    "PostToolUseFailure": 2,
    "SubagentStart": 1,
    "SubagentStop": 2,
    "PreCompact": 2,
    "Stop": 2,
    "SessionEnd": 3,
}

TOOL_ALIASES = {"Agent": "Task"}


def parse_payload(kind: str, payload: bytes) -> Event | None:
    wire = load_payload(payload)
    kind = get_text(wire, "hook_event_name") or kind
    if kind not in EVENT_TIMEOUTS or (kind == "SubagentStop" and wire.get("agent_type") == "") or _is_other_agent(wire):
        return None  # a sub-agent without a type is a compaction: its last words summarise the whole conversation
    tool_input = get_object(wire, "tool_input")
    tool = get_text(wire, "tool_name")
    command, path, content = get_call_fields(tool, tool_input)
    return Event(
        host=NAME,
        kind=kind,
        session=get_text(wire, "session_id"),
        cwd=get_path_text(wire, "cwd"),
        agent=get_text(wire, "agent_id"),
        source=get_text(wire, "source"),
        prompt=get_text(wire, "prompt"),
        tool=TOOL_ALIASES.get(tool, tool),
        tool_use_id=get_text(wire, "tool_use_id"),
        command=command,
        path=path,
        content=content,
        transcript=get_text(wire, "transcript_path"),
        prompt_name=get_text(wire, "prompt_id"),
        input=tool_input if tool else None,
        response=wire.get("error") if kind == "PostToolUseFailure" else wire.get("tool_response"),
        failed=kind == "PostToolUseFailure",
        interrupted=wire.get("is_interrupt") is True,
        duration=get_number(wire, "duration_ms"),
        message=get_first_text(wire, "last_assistant_message", "reason", "trigger", "agent_type"),
    )


def _is_other_agent(wire: dict[str, object]) -> bool:
    """Return whether another agent runs the hooks in Claude Code's settings; it has its own hooks and answer format."""
    folder, _, name = get_text(wire, "transcript_path").rpartition("/")
    return name.startswith("rollout-") or (name.startswith("session-") and folder.endswith("/chats"))


def render_reply(event: Event, reply: HookReply) -> bytes:
    return render_answer(event.kind, reply)


def render_answer(kind: str, reply: HookReply) -> bytes:
    """Return the answer to a hook of this kind, in the form that Claude Code and Codex read."""
    answer: dict[str, object] = {}
    if reply.deny and kind == "UserPromptSubmit":
        answer = {"decision": "block", "reason": reply.deny}  # shown to the person; the model never sees the prompt
    elif reply.deny:
        answer["hookSpecificOutput"] = {
            "hookEventName": kind,
            "permissionDecision": "deny",
            "permissionDecisionReason": reply.deny,
        }
    elif reply.context:
        answer["hookSpecificOutput"] = {"hookEventName": kind, "additionalContext": reply.context}
    if reply.notice:
        answer["systemMessage"] = reply.notice
    return dumps(answer).encode("ascii")
