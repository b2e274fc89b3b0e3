"""deepagents-code: Claude Code's events, tools, arguments and replies.

Its transcript has neither the calls nor their times, and its hooks report everything, so only hooks are read.
"""

from __future__ import annotations

from hardwon.agents.fields import Wire, get_text
from hardwon.agents.hook_contract import CALL_EVENTS, HookContract
from hardwon.types import Event

_EVENTS = ("SessionStart", "UserPromptSubmit", *CALL_EVENTS, "Stop", "SessionEnd")


def _read_result(event: Event, wire: Wire) -> tuple[str, bool]:
    """Return what the call of an event gave back, and whether it failed.

    The line that ends a command's output is left out.
    """
    if event.kind == "PostToolUseFailure":
        return get_text(wire, "error"), True
    text = get_text(wire.get("tool_response"), "content")
    output, _, _ = text.partition("\n[Command succeeded with exit code ")
    return output.rstrip("\n"), False


CONTRACT = HookContract(
    name="deepagents",
    events={event: event for event in _EVENTS},
    context_events=("SessionStart", "UserPromptSubmit", "PreToolUse"),
    has_transcript=False,
    read_result=_read_result,
)
EVENT_TIMEOUTS = CONTRACT.timeouts
parse_payload = CONTRACT.parse_payload
render_reply = CONTRACT.render_reply

SETTINGS = {
    "title": "deepagents-code",
    "program": "dcode",
    "minimum_version": (0, 1, 88),
    "folder": "~/.deepagents",
    "file_name": "hooks.json",
    "probe_fields": {"tool_use_id": "call_doctor"},
}
