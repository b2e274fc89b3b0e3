"""Claude Code: payloads on stdin, decisions in `hookSpecificOutput`."""

from __future__ import annotations

from hardwon.agents.fields import content_of, first_of, folder_of, map_of, number_of, path_of, payload_of, text_of
from hardwon.text.light_json import dumps
from hardwon.types import Event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hardwon.types import Reply

NAME = "claude-code"

# The hooks we register, with each one's budget in seconds: past it the agent goes on without us.
EVENTS = {
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

ALIASES = {"Agent": "Task"}


def read(kind: str, payload: bytes) -> Event | None:
    wire = payload_of(payload)
    kind = text_of(wire, "hook_event_name") or kind
    if kind not in EVENTS or (kind == "SubagentStop" and wire.get("agent_type") == "") or _is_anothers(wire):
        return None  # without a type it is a compaction, whose last words are the whole conversation in short
    given = map_of(wire, "tool_input")
    tool = text_of(wire, "tool_name")
    return Event(
        host=NAME,
        kind=kind,
        session=text_of(wire, "session_id"),
        cwd=folder_of(wire),
        agent=text_of(wire, "agent_id"),
        source=text_of(wire, "source"),
        prompt=text_of(wire, "prompt"),
        tool=ALIASES.get(tool, tool),
        tool_use_id=text_of(wire, "tool_use_id"),
        command=text_of(given, "command"),
        path=path_of(given),
        content=content_of(tool, given),
        transcript=text_of(wire, "transcript_path"),
        prompt_name=text_of(wire, "prompt_id"),
        input=given if tool else None,
        response=wire.get("error") if kind == "PostToolUseFailure" else wire.get("tool_response"),
        failed=kind == "PostToolUseFailure",
        interrupted=wire.get("is_interrupt") is True,
        duration=number_of(wire, "duration_ms"),
        message=first_of(wire, "last_assistant_message", "reason", "trigger", "agent_type"),
    )


def _is_anothers(wire: dict[str, object]) -> bool:
    """Whether another agent runs the hooks it found in these settings: it has its own, and reads other answers."""
    folder, _, name = text_of(wire, "transcript_path").rpartition("/")
    return name.startswith("rollout-") or (name.startswith("session-") and folder.endswith("/chats"))


def write(event: Event, reply: Reply) -> bytes:
    answer: dict[str, object] = {}
    if reply.deny and event.kind == "UserPromptSubmit":
        answer = {"decision": "block", "reason": reply.deny}  # shown to the person; the model never sees the prompt
    elif reply.deny:
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
