"""Claude Code: payloads on stdin, decisions in `hookSpecificOutput`."""

from __future__ import annotations

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
from hardwon.text.light_json import dumps
from hardwon.types import Event, replace

TYPE_CHECKING = False  # importing it from `typing` would slow down the hook
if TYPE_CHECKING:
    from hardwon.types import HookReply

NAME = "claude-code"

EVENT_TIMEOUTS = STANDARD_TIMEOUTS
TOOL_ALIASES = {"Agent": "Task"}


def parse_payload(kind: str, payload: bytes) -> Event | None:
    wire = load_payload(payload)
    kind = get_text(wire, "hook_event_name") or kind
    if (
        kind not in EVENT_TIMEOUTS
        or (kind == "SubagentStop" and wire.get("agent_type") == "")
        or is_foreign(wire, (NAME,))
    ):
        return None  # a sub-agent without a type is a compaction: its last words summarise the whole conversation
    tool_input = get_object(wire, "tool_input")
    tool = get_text(wire, "tool_name")
    command, path, content = get_call_fields(tool, tool_input)
    return replace(
        build_event(NAME, kind, wire),
        tool=TOOL_ALIASES.get(tool, tool),
        tool_use_id=get_text(wire, "tool_use_id"),
        command=command,
        path=path,
        content=content,
        prompt_name=get_text(wire, "prompt_id"),
        input=tool_input if tool else None,
        response=wire.get("error") if kind == "PostToolUseFailure" else wire.get("tool_response"),
        failed=kind == "PostToolUseFailure",
        interrupted=wire.get("is_interrupt") is True,
        duration=get_number(wire, "duration_ms"),
    )


def render_reply(event: Event, reply: HookReply) -> bytes:
    if event.kind == "PreCompact":
        # Claude Code (2.1.197 to 2.1.325) takes whatever this hook prints, JSON too, as instructions for the summary,
        # and shows it to the person. A blank line counts as nothing.
        return reply.context.encode("utf-8", "replace") or b"\n"
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
