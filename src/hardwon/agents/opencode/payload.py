"""opencode: a plugin hands over what its hooks are given, and does as the answer says.

What it hands over is the hook's own input with the folder, the parent of a sub-agent's session and what the tool gave
beside it. opencode shows the model nothing before a call, so a note comes with the result.
"""

from __future__ import annotations

from hardwon.agents.fields import get_first_text, get_object, get_text, load_payload
from hardwon.agents.opencode.tools import (
    ABORTED_MESSAGES,
    extract_call_fields,
    normalize_call,
    parse_file_changes,
    parse_refusal,
    resolve_call_cwd,
    unquote_prompt,
)
from hardwon.text.fence import FENCE_CLOSE, FENCE_OPEN, fence_text, remove_between
from hardwon.text.light_json import dumps
from hardwon.types import Event, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from hardwon.types import HookReply

NAME = "opencode"

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
HANDLED_MESSAGE = "The user's message was a command to hardwon, which has answered it. There is nothing for you to do."
_CALL_EVENTS = ("PreToolUse", "PostToolUse", "PostToolUseFailure")


def parse_payload(kind: str, payload: bytes) -> Event | None:
    wire = load_payload(payload)
    wire = {**get_object(wire, "properties"), **wire}
    info = get_object(wire, "info")
    session_id, parent = get_text(wire, "sessionID"), get_first_text(wire, "parentID") or get_text(info, "parentID")
    if kind not in EVENT_TIMEOUTS:
        return None
    folder = get_first_text(wire, "directory") or get_text(info, "directory")
    event = Event(
        host=NAME,
        kind=kind,
        session=parent or session_id,
        cwd=folder.replace("\0", "").encode("utf-8", "replace").decode(),
        agent=session_id if parent else "",
        source=get_text(wire, "source"),
        prompt=unquote_prompt(get_text(wire, "prompt")),
        prompt_name=get_text(wire, "messageID"),
        message=get_first_text(wire, "said", "reason", "agent"),
    )
    return _add_call_fields(event, wire) if kind in _CALL_EVENTS else event


def _add_call_fields(event: Event, wire: dict[str, Any]) -> Event | None:
    """The event of a call; None if a person refused it, or we did."""
    tool, tool_input = normalize_call(get_text(wire, "tool"), get_object(wire, "args"))
    error, exit_code = get_text(wire, "error"), wire.get("exit")
    is_aborted = error.startswith(ABORTED_MESSAGES)
    if FENCE_OPEN in error or (parse_refusal(error) and not is_aborted):
        return None
    failed = event.kind != "PreToolUse" and bool(error or wire.get("isError") is True or _is_failure_code(exit_code))
    command, path, content = extract_call_fields(tool, tool_input)
    call = replace(
        event,
        kind="PostToolUseFailure" if failed else event.kind,
        cwd=resolve_call_cwd(tool_input, event.cwd) if tool == "Bash" else event.cwd,
        tool=tool,
        tool_use_id=get_text(wire, "callID"),
        command=command,
        path=path,
        content=content,
        input=tool_input,
        response=None if event.kind == "PreToolUse" else error or _read_result_text(wire),
        failed=failed,
        interrupted=is_aborted,
    )
    parts = [
        replace(call, tool=change.tool, path=change.path, content=change.added)
        for change in parse_file_changes(tool_input)
    ]
    return replace(call, parts=tuple(parts) if len(parts) > 1 else ())


def _is_failure_code(code: object) -> bool:
    return isinstance(code, int) and code != 0


def _read_result_text(wire: dict[str, Any]) -> str:
    """What a tool gave, of which an MCP server's is a list; without what was added to it for the model."""
    rows = wire.get("content")
    texts = [get_text(row, "text") for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    return remove_between(get_text(wire, "output") or "\n".join(filter(None, texts)), FENCE_OPEN, FENCE_CLOSE)


def render_reply(event: Event, reply: HookReply) -> bytes:
    """What the plugin acts on: `deny` is thrown, `context` put before the model, `notice` shown to the person.

    A prompt cannot be kept from the model: an error there is shown as "Unexpected server error". So the model is told.
    """
    if reply.deny and event.kind == "UserPromptSubmit":
        reply = replace(reply, deny="", context=fence_text(HANDLED_MESSAGE), notice=reply.deny)
    fields = {"deny": reply.deny, "context": reply.context, "notice": reply.notice}
    return dumps({name: text for name, text in fields.items() if text}).encode("ascii")
