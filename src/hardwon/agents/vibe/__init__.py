"""Mistral Vibe: hooks for calls and the end of a turn alone, and top-level decisions.

It drops Claude Code's form of a denial and runs the call. A note before a call is ignored, so it comes with the result.
"""

from __future__ import annotations

from hardwon.agents.fields import Wire, get_first_text, get_object, get_text
from hardwon.agents.hook_contract import HookContract
from hardwon.types import Event

EVENT_NAMES = {"PreToolUse": "pre_tool", "PostToolUse": "post_tool", "Stop": "post_agent"}


def _read_result(event: Event, wire: Wire) -> tuple[str, bool]:
    """Return what the call of an event gave back, and whether it failed."""
    output = get_object(wire, "tool_output")
    failed = get_text(wire, "tool_status") == "failure" or output.get("returncode") not in (0, None)
    if "returncode" in output:  # a command's
        return get_text(output, "stdout") + get_text(output, "stderr"), failed
    return get_first_text(wire, "tool_error", "tool_output_text"), failed


CONTRACT = HookContract(
    name="vibe",
    events=EVENT_NAMES,
    tool_names={
        "file_system.bash": "Bash",
        "file_system.read_file": "Read",
        "file_system.search_replace": "Edit",
        "file_system.write_file": "Write",
        "file_system.grep": "Grep",
    },
    fields={"tool_use_id": ("tool_call_id",)},
    denied_events=("PreToolUse",),
    context_events=("PostToolUse",),
    has_transcript=False,
    read_result=_read_result,
    render_denial=lambda _, reason: {"decision": "deny", "reason": reason},
    render_context=lambda _, context: {"hook_specific_output": {"additional_context": context}},
)
EVENT_TIMEOUTS = CONTRACT.timeouts
parse_payload = CONTRACT.parse_payload
render_reply = CONTRACT.render_reply
