"""Codex: payloads like Claude Code's, and answers that it parses strictly.

With an unknown field, or an extra one next to a denial, Codex drops the whole answer and the call runs. Its hooks do
not say whether a command failed. The rollout does, since 0.166 before the hook runs. If the rollout has the call but
not yet its end, the hook reports nothing; at the end of the turn the rollout is read and has both.
"""

from __future__ import annotations

from hardwon.agents.codex.tools import (
    TOOL_NAMES,
    build_edit_input,
    build_patch_parts,
    extract_shell_line,
    is_patch,
    parse_call,
    parse_patch,
    unwrap_result,
)
from hardwon.agents.envelopes import is_foreign
from hardwon.agents.fields import build_event, get_first_text, get_object, get_text, load_payload, read_tail_lines
from hardwon.agents.hook_contract import HookContract
from hardwon.text.light_json import dumps, loads
from hardwon.types import Event, replace

TYPE_CHECKING = False  # importing it from `typing` would slow down the hook
if TYPE_CHECKING:
    from typing import Any

NAME = "codex"

# Codex runs hooks in a login shell, so the person's shell profile counts towards the timeout. Codex limits SessionEnd
# to three seconds.
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
# Codex would drop the whole answer for a field that the event does not take.
render_reply = HookContract(
    name=NAME,
    events={event: event for event in EVENT_TIMEOUTS},
    context_events=("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "SubagentStart"),
).render_reply
_TAIL_BYTES = 256 * 1024  # of a rollout, in which a call that just ended is looked for


def parse_payload(kind: str, payload: bytes) -> Event | None:
    wire = load_payload(payload)
    kind, agent = get_text(wire, "hook_event_name") or kind, get_text(wire, "agent_id")
    if kind not in EVENT_TIMEOUTS or (agent and kind == "UserPromptSubmit") or is_foreign(wire, (NAME,)):
        return None  # a subagent's prompt is written by a program, and stored prompts count as a person's words
    rollout = get_text(wire, "transcript_path")
    event = build_event(NAME, kind, wire)
    if agent and kind != "SubagentStop":
        # Only the last event of a sub-agent names the session's rollout; the others name its own.
        event = replace(event, transcript="")
    if not get_text(wire, "tool_name"):
        return event
    event = _add_call_fields(event, wire)
    return _add_outcome(event, wire.get("tool_response"), rollout) if kind == "PostToolUse" else event


def _add_call_fields(event: Event, wire: dict[str, Any]) -> Event:
    name, tool_input = get_text(wire, "tool_name"), get_object(wire, "tool_input")
    event = replace(event, tool_use_id=get_text(wire, "tool_use_id"))
    if TOOL_NAMES.get(name, name) == "Bash":
        line = extract_shell_line(tool_input.get("cmd", tool_input.get("command")))
        event = replace(event, tool="Bash", command=line, input={**tool_input, "command": line})
        # A shell line with a patch may do more than that, so it is judged as both.
        if not is_patch(line):
            return event
        return replace(event, parts=(event, *build_patch_parts(event, line)))
    call = parse_call(name, tool_input)
    event = replace(event, tool=call.tool, path=call.path, content=call.content, input=tool_input)
    if call.tool == "Read":
        return replace(event, input={"file_path": call.path})
    if call.tool == "Task":
        return replace(event, input={"prompt": call.content})
    if name != "apply_patch":
        return event
    patch = get_first_text(tool_input, "command", "input")
    removed = "\n".join(change.removed for change in parse_patch(patch) if change.removed)
    edit_input = build_edit_input(call.tool, call.path, call.content, removed)
    return replace(event, input=edit_input, parts=build_patch_parts(event, patch))


def _add_outcome(event: Event, response: object, rollout: str) -> Event | None:
    """Return the event with how its call ended; None if only the rollout will tell, at the end of the turn."""
    code: int | None = None
    if event.tool == "Bash":
        item = _find_completed_item(rollout, event.tool_use_id)
        # At the end of the turn only the session's own rollout is read, so a sub-agent's call is reported now.
        if item == {} and not event.agent:
            return None
        code = _get_exit_code(item or {})
    elif isinstance(response, str):
        response, code = unwrap_result(response)
    elif isinstance(response, dict):
        # An MCP server's result has no exit code, only this flag.
        code = int(response.get("isError") is True)
    if not code:
        return replace(event, response=response)
    response = response or f"Process exited with code {code}"
    return replace(event, kind="PostToolUseFailure", failed=True, response=response)


def _get_exit_code(item: dict[str, Any]) -> int:
    code = item.get("exit_code")
    return code if isinstance(code, int) else int(item.get("status") == "failed")


def _find_completed_item(rollout: str, call_id: str) -> dict[str, Any] | None:
    """Return a finished call from the rollout's tail; {} if only its start is there, None if neither is."""
    quoted_id = dumps(call_id).encode()
    call_lines = [line for line in read_tail_lines(rollout, _TAIL_BYTES) if call_id and quoted_id in line]
    for line in reversed(call_lines):
        if b'"item_completed"' not in line:
            continue
        try:
            item = get_object(get_object(loads(line.decode("utf-8", "replace")), "payload"), "item")
        except (ValueError, RecursionError):
            continue
        if item.get("id") == call_id:
            return item
    return {} if call_lines else None
