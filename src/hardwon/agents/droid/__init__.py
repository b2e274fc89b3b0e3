"""Factory droid: Claude Code's events and replies, with tools of its own and no id of a call.

A call that fails or does not run is reported by no hook, and `droid exec` reports no prompts: both come from the
transcript, which also has the ids. A hook that exits with 3 ends the run, so ours never does.
"""

from __future__ import annotations

from hardwon.agents.fields import Wire, get_object, get_text
from hardwon.agents.hook_contract import HookContract, find_open_call, read_blocks
from hardwon.types import Event

_EVENTS = ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "SessionEnd")


def _read_calls(wire: Wire) -> list[tuple[str, tuple[str, Wire] | None]]:
    """Return the calls that a line of the transcript begins or ends, see `find_open_call`."""
    calls: list[tuple[str, tuple[str, Wire] | None]] = []
    for block in read_blocks(get_object(wire, "message")):
        if block.get("type") == "tool_use":
            call = CONTRACT.normalize_call(get_text(block, "name"), get_object(block, "input"))
            calls.append((get_text(block, "id"), call))
        elif block.get("type") == "tool_result":
            calls.append((get_text(block, "tool_use_id"), None))
    return calls


def _read_result(event: Event, wire: Wire) -> tuple[str, bool]:
    return strip_exit_line(get_text(wire, "tool_response")), False


def strip_exit_line(text: str) -> str:
    """Return a command's output without the line that droid adds below it."""
    body, separator, _ = text.rpartition("\n[Process exited with code ")
    return body.strip("\n") if separator else text


CONTRACT = HookContract(
    name="droid",
    events={event: event for event in _EVENTS},
    tool_names={"Execute": "Bash", "Create": "Write", "FetchUrl": "WebFetch"},
    argument_names={"old_str": "old_string", "new_str": "new_string", "change_all": "replace_all"},
    context_events=("SessionStart", "UserPromptSubmit", "PostToolUse"),
    read_result=_read_result,
    find_call_id=lambda event: find_open_call(event, _read_calls),
)
EVENT_TIMEOUTS = CONTRACT.timeouts
parse_payload = CONTRACT.parse_payload
render_reply = CONTRACT.render_reply

# A failing hook's stderr is put in front of the tool's result, so it is discarded.
SETTINGS = {
    "title": "Factory droid",
    "program": "droid",
    "minimum_version": (0, 225, 2),
    "folder": "~/.factory",
    "is_stderr_shown": True,
    "shell_tool": "Execute",
    "probe_fields": {"permission_mode": "off"},
}
