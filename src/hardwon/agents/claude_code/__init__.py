"""Claude Code: payloads on stdin, decisions in `hookSpecificOutput`."""

from __future__ import annotations

from hardwon.agents.fields import STANDARD_TIMEOUTS
from hardwon.agents.hook_contract import HookContract
from hardwon.types import Event, HookReply


def render_blocked_prompt(reason: str) -> dict[str, object]:
    """Return the reply that keeps a prompt from the model and shows the answer, which is `reason`.

    Claude Code puts a blocked prompt back into its input line, so it need not repeat it above the answer as well.
    """
    output = {"hookEventName": "UserPromptSubmit", "suppressOriginalPrompt": True}
    return {"decision": "block", "reason": reason, "hookSpecificOutput": output}


TOOL_ALIASES = {"Agent": "Task"}
CONTRACT = HookContract(
    name="claude-code",
    events={event: event for event in STANDARD_TIMEOUTS},
    tool_names=TOOL_ALIASES,
    # A sub-agent without a type is a compaction: its last words summarise the whole conversation.
    ignored={"SubagentStop": ("agent_type", "")},
    render_blocked_prompt=render_blocked_prompt,
)
EVENT_TIMEOUTS = CONTRACT.timeouts
parse_payload = CONTRACT.parse_payload


def render_reply(event: Event, reply: HookReply) -> bytes:
    """Return what the hook prints; before a compaction that is plain text, with all others JSON."""
    if event.kind == "PreCompact":
        # Claude Code (2.1.197 to 2.1.325) takes whatever this hook prints, JSON too, as instructions for the summary,
        # and shows it to the person. A blank line counts as nothing.
        return reply.context.encode("utf-8", "replace") or b"\n"
    return CONTRACT.render_reply(event, reply)
