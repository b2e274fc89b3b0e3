"""opencode: a plugin hands over what its hooks are given, and does as the answer says.

What it hands over is the hook's own input with the folder, the parent of a sub-agent's session and what the tool gave
beside it. opencode shows the model nothing before a call, so a note comes with the result.
"""

from __future__ import annotations

from hardwon.agents.fields import first_of, map_of, payload_of, text_of
from hardwon.agents.opencode.tools import ABORTED, about, asked, called, changed, folder, refusal
from hardwon.text.fence import CLOSE, OPEN, fenced, outside
from hardwon.text.light_json import dumps
from hardwon.types import Event, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from hardwon.types import Reply

NAME = "opencode"

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
HANDLED = "The user's message was a command to hardwon, which has answered it. There is nothing for you to do."
_CALLS = ("PreToolUse", "PostToolUse", "PostToolUseFailure")


def read(kind: str, payload: bytes) -> Event | None:
    wire = payload_of(payload)
    wire = {**map_of(wire, "properties"), **wire}
    info = map_of(wire, "info")
    own, parent = text_of(wire, "sessionID"), first_of(wire, "parentID") or text_of(info, "parentID")
    if kind not in EVENTS:
        return None
    place = first_of(wire, "directory") or text_of(info, "directory")
    event = Event(
        host=NAME,
        kind=kind,
        session=parent or own,
        cwd=place.replace("\0", "").encode("utf-8", "replace").decode(),
        agent=own if parent else "",
        source=text_of(wire, "source"),
        prompt=asked(text_of(wire, "prompt")),
        prompt_name=text_of(wire, "messageID"),
        message=first_of(wire, "said", "reason", "agent"),
    )
    return _call(event, wire) if kind in _CALLS else event


def _call(event: Event, wire: dict[str, Any]) -> Event | None:
    """The event of a call; None if a person refused it, or we did."""
    tool, given = called(text_of(wire, "tool"), map_of(wire, "args"))
    error, code = text_of(wire, "error"), wire.get("exit")
    aborted = error.startswith(ABORTED)
    if OPEN in error or (refusal(error) and not aborted):
        return None
    failed = event.kind != "PreToolUse" and bool(error or wire.get("isError") is True or _is_bad(code))
    command, path, content = about(tool, given)
    call = replace(
        event,
        kind="PostToolUseFailure" if failed else event.kind,
        cwd=folder(given, event.cwd) if tool == "Bash" else event.cwd,
        tool=tool,
        tool_use_id=text_of(wire, "callID"),
        command=command,
        path=path,
        content=content,
        input=given,
        response=None if event.kind == "PreToolUse" else error or _given_back(wire),
        failed=failed,
        interrupted=aborted,
    )
    files = [replace(call, tool=one.tool, path=one.path, content=one.added) for one in changed(given)]
    return replace(call, parts=tuple(files) if len(files) > 1 else ())


def _is_bad(code: object) -> bool:
    return isinstance(code, int) and code != 0


def _given_back(wire: dict[str, Any]) -> str:
    """What a tool gave, of which an MCP server's is a list; without what was added to it for the model."""
    rows = wire.get("content")
    texts = [text_of(row, "text") for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    return outside(text_of(wire, "output") or "\n".join(filter(None, texts)), OPEN, CLOSE)


def write(event: Event, reply: Reply) -> bytes:
    """What the plugin acts on: `deny` is thrown, `context` put before the model, `notice` shown to the person.

    A prompt cannot be kept from the model: an error there is shown as "Unexpected server error". So the model is told.
    """
    if reply.deny and event.kind == "UserPromptSubmit":
        reply = replace(reply, deny="", context=fenced(HANDLED), notice=reply.deny)
    said = {"deny": reply.deny, "context": reply.context, "notice": reply.notice}
    return dumps({name: text for name, text in said.items() if text}).encode("ascii")
