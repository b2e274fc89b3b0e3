"""opencode: what `opencode export SESSION` prints, one JSON document per session.

opencode itself keeps its sessions in `opencode.db`, whose newest rows are in the write-ahead log beside it: a file
that cannot be read by copying its bytes. So exports are read, named `ses_….json` or `…export….json`, where they were
saved below its data folder or wherever a scan is pointed; and the database's tables as one document of rows, as dumped
for a report. Nothing else there is opened: `auth.json` holds keys, `storage/` the pieces of older versions.
A document is handed over whole, as line 1.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from hardwon.hosts.claude_code import _first, _strings, _text
from hardwon.hosts.history import Kind, Step
from hardwon.hosts.history.codex import is_ours, loads, unfenced
from hardwon.hosts.history.gemini import Where, lines_of

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
_EXPORT = re.compile(r"(?:ses_\w+|.*export.*)\.json")

Row = dict[str, Any]


class Reader:
    """Owns what one export says."""

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        self.malformed: int = (state or {}).get("malformed", 0)

    def state(self) -> dict[str, Any]:
        return {"malformed": self.malformed}

    def read(self, number: int, line: bytes) -> Iterator[Step]:
        if not line.strip():
            return
        try:
            wire = loads(line)
        except (ValueError, RecursionError):
            self.malformed += 1
            return
        if isinstance(wire, dict):
            where = lines_of(line, 0 if "messages" in wire else max(0, line.find(b'"part"')))
            for session in _sessions(wire):
                yield from _session(session, lambda text: number - 1 + where(text))


def folders(environment: Mapping[str, str], home: str) -> list[str]:
    data = environment.get("XDG_DATA_HOME") or os.path.join(home, ".local", "share")
    return [os.path.join(data, "opencode")]


def is_transcript(path: str) -> bool:
    inside = os.path.dirname(path).split(os.sep)
    return _EXPORT.fullmatch(os.path.basename(path)) is not None and "storage" not in inside


def _sessions(wire: Row) -> Iterator[Row]:
    """The exports in a document: itself, or one for each session of a database's rows."""
    if "messages" in wire:
        yield wire
        return
    parts: dict[str, list[Row]] = {}
    for row in _rows(wire, "part"):
        parts.setdefault(_text(row, "message_id"), []).append({**_data(row), "id": row.get("id")})
    messages: dict[str, list[Row]] = {}
    for row in _rows(wire, "message"):
        message = {"info": {**_data(row), "id": row.get("id")}, "parts": parts.get(_text(row, "id"), [])}
        messages.setdefault(_text(row, "session_id"), []).append(message)
    for row in _rows(wire, "session"):
        info = {"id": row.get("id"), "directory": row.get("directory"), "parentID": row.get("parent_id")}
        yield {"info": info, "messages": messages.get(_text(row, "id"), [])}


def _session(wire: Row, where: Where) -> Iterator[Step]:
    info = _map(wire, "info")
    own, parent, cwd = _text(info, "id"), _text(info, "parentID"), _text(info, "directory")
    agent = own if parent else ""
    for message in _rows(wire, "messages"):
        about = _map(message, "info")
        cwd = _text(_map(about, "path"), "cwd") or cwd
        person = about.get("role") == "user"
        summary = about.get("summary") is True
        for part in _rows(message, "parts"):
            kind, id = part.get("type"), _text(part, "id")
            at = _when(_map(_map(part, "state"), "time").get("start") or _map(about, "time").get("created"))
            shared: dict[str, Any] = {"at": at, "session": parent or own, "agent": agent, "cwd": cwd}
            words = unfenced(_text(part, "text")).strip()
            if kind == "compaction":
                yield Step("compacted", where(id), id, **shared)
            elif kind == "text" and words and not (part.get("synthetic") or part.get("ignored") or summary):
                if not (person and agent):
                    said: Kind = "person" if person else "agent"
                    yield Step(said, where(_text(part, "text")), id, **shared, text=words)
            elif kind == "tool":
                yield from _tool(part, id, where, shared)


def _tool(part: Row, id: str, where: Where, shared: dict[str, Any]) -> Iterator[Step]:
    state = _map(part, "state")
    name, given = _text(part, "tool"), _map(state, "input")
    tool = _TOOLS.get(name) or (name if "_" not in name else "mcp__{}__{}".format(*name.split("_", 1)))
    content = _first(given, "newString", "content", "pattern", "query", "url", "prompt")
    yield Step(
        "call",
        where(_text(part, "callID")),
        f"call:{id}",
        **shared,
        call=id,
        tool=tool,
        command=_text(given, "command"),
        path=_first(given, "filePath", "path"),
        content="\n".join(_strings(given)) if tool.startswith("mcp__") else content,
    )
    status, error, output = state.get("status"), _text(state, "error"), _text(state, "output")
    if status not in ("completed", "error"):
        return
    refused = _refusal(error)
    code = _map(state, "metadata").get("exit")
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


def _data(row: Row) -> Row:
    try:
        inner = loads(_text(row, "data").encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return {}
    return inner if isinstance(inner, dict) else {}


def _rows(wire: Row, key: str) -> list[Row]:
    value = wire.get(key)
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def _map(wire: Row, key: str) -> Row:
    value = wire.get(key)
    return value if isinstance(value, dict) else {}
