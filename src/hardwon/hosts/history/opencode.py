"""opencode: what `opencode export SESSION` prints, one JSON document per session.

opencode itself keeps its sessions in `opencode.db`, whose newest rows are in the write-ahead log beside it: a file
that cannot be read by copying its bytes. So exports are read, named `ses_….json` or `…export….json`, where they were
saved below its data folder or wherever a scan is pointed; and the database's tables as one document of rows, dumped for
a report as `…dump….json`. Nothing else there is opened: `auth.json` holds keys, `storage/` the pieces of older
versions. A document is handed over whole, as line 1.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from hardwon.hosts.fields import first_of, strings_in, text_of
from hardwon.hosts.history import Kind, Step
from hardwon.hosts.history.wire import Where, Wire, is_ours, lines_of, map_of, openings, parsed, rows_of, unfenced

NAME = "opencode"
WHOLE = True

_TOOLS = {
    "bash": "Bash",
    "read": "Read",
    "write": "Write",
    "edit": "Edit",
    "multiedit": "MultiEdit",
    "patch": "Edit",
    "apply_patch": "Edit",
    "glob": "Glob",
    "grep": "Grep",
    "list": "LS",
    "task": "Task",
    "todowrite": "TodoWrite",
    "todoread": "TodoRead",
    "webfetch": "WebFetch",
    "websearch": "WebSearch",
    "skill": "Skill",
}
_REFUSED = re.compile(r"The user rejected permission to use this specific tool call")
_FEEDBACK = re.compile(r"with the following feedback:\s*(.+)", re.DOTALL)
_BROKEN_OFF = "Tool execution aborted"
_EXPORT = re.compile(r"(?:ses_\w+|.*(?:export|dump).*)\.json")
_TABLES = frozenset(
    {"account", "credential", "data_migration", "event", "event_sequence", "message", "migration", "part"}
    | {"permission", "project", "session", "todo", "workspace"}
)


class Reader:
    """Owns what one export says."""

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        self.malformed: int = (state or {}).get("malformed", 0)

    def state(self) -> dict[str, Any]:
        return {"malformed": self.malformed}

    def read(self, number: int, line: bytes) -> Iterator[Step]:
        wire, bad = parsed(line)
        self.malformed += bad
        where = lines_of(line, 0 if "messages" in wire else max(0, line.find(b'"part"')))
        for session in _sessions(wire):
            yield from _session(session, lambda text: number - 1 + where(text))


def folders(environment: Mapping[str, str], home: str) -> list[str]:
    data = environment.get("XDG_DATA_HOME") or os.path.join(home, ".local", "share")
    return [os.path.join(data, "opencode")]


def is_transcript(path: str) -> bool:
    inside = os.path.dirname(path).split(os.sep)
    return _EXPORT.fullmatch(os.path.basename(path)) is not None and "storage" not in inside


def opens(head: bytes) -> bool:
    exports = any("info" in wire or len(_TABLES & wire.keys()) > 1 for wire in openings(head))
    return exports and b'"ses_' in head


def _sessions(wire: Wire) -> Iterator[Wire]:
    """The exports in a document: itself, or one for each session of a database's rows."""
    if "messages" in wire:
        yield wire
        return
    parts: dict[str, list[Wire]] = {}
    for row in rows_of(wire, "part"):
        parts.setdefault(text_of(row, "message_id"), []).append({**_data(row), "id": row.get("id")})
    messages: dict[str, list[Wire]] = {}
    for row in rows_of(wire, "message"):
        message = {"info": {**_data(row), "id": row.get("id")}, "parts": parts.get(text_of(row, "id"), [])}
        messages.setdefault(text_of(row, "session_id"), []).append(message)
    for row in rows_of(wire, "session"):
        info = {"id": row.get("id"), "directory": row.get("directory"), "parentID": row.get("parent_id")}
        yield {"info": info, "messages": messages.get(text_of(row, "id"), [])}


def _session(wire: Wire, where: Where) -> Iterator[Step]:
    info = map_of(wire, "info")
    own, parent, cwd = text_of(info, "id"), text_of(info, "parentID"), text_of(info, "directory")
    agent = own if parent else ""
    for message in rows_of(wire, "messages"):
        about = map_of(message, "info")
        cwd = text_of(map_of(about, "path"), "cwd") or cwd
        person = about.get("role") == "user"
        summary = about.get("summary") is True
        for index, part in enumerate(rows_of(message, "parts")):
            kind, id = part.get("type"), text_of(part, "id") or f"{text_of(about, 'id')}.{index}"
            at = _when(map_of(map_of(part, "state"), "time").get("start") or map_of(about, "time").get("created"))
            shared: Wire = {"at": at, "session": parent or own, "agent": agent, "cwd": cwd}
            words = unfenced(text_of(part, "text")).strip()
            if kind == "compaction":
                yield Step("compacted", where(id), id, **shared)
            elif kind == "text" and words and not (part.get("synthetic") or part.get("ignored") or summary):
                if not (person and agent):
                    said: Kind = "person" if person else "agent"
                    yield Step(said, where(text_of(part, "text")), id, **shared, text=words)
            elif kind == "tool":
                yield from _tool(part, id, where, shared)


def _tool(part: Wire, id: str, where: Where, shared: Wire) -> Iterator[Step]:
    state = map_of(part, "state")
    name, given = text_of(part, "tool"), map_of(state, "input")
    tool = _TOOLS.get(name) or (name if "_" not in name else "mcp__{}__{}".format(*name.split("_", 1)))
    content = first_of(given, "newString", "content", "pattern", "query", "url", "prompt")
    yield Step(
        "call",
        where(text_of(part, "callID")),
        f"call:{id}",
        **shared,
        call=id,
        tool=tool,
        command=text_of(given, "command"),
        path=first_of(given, "filePath", "path"),
        content="\n".join(strings_in(given)) if tool.startswith("mcp__") else content,
    )
    status, error, output = state.get("status"), text_of(state, "error"), text_of(state, "output")
    if status not in ("completed", "error"):
        return
    refused = _refusal(error)
    code = map_of(state, "metadata").get("exit")
    failed = (status == "error" or (isinstance(code, int) and code != 0)) and not refused and not is_ours(error)
    text = unfenced(error or output).strip("\n")
    line = where(error or output)
    yield Step("result", line, f"result:{id}", **shared, call=id, text=text, failed=failed, refused=refused)


def _refusal(error: str) -> str:
    if error.startswith(_BROKEN_OFF):
        return " "
    if not _REFUSED.match(error):
        return ""
    feedback = _FEEDBACK.search(error)
    return feedback.group(1).strip() if feedback else " "


def _when(milliseconds: object) -> str:
    if not isinstance(milliseconds, int) or not 0 < milliseconds < 1 << 47:
        return ""
    at = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _data(row: Wire) -> Wire:
    return parsed(text_of(row, "data").encode("utf-8", "replace"))[0]
