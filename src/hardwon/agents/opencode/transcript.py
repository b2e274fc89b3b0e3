"""opencode: what `opencode export SESSION` prints, one JSON document per session, or rows of its database.

opencode keeps its sessions in `opencode.db`, of which each message is handed over as a line: a document of its rows.
A document of all rows, dumped for a report as `…dump….json`, is read in the same way. Exports are read that are named
`ses_….json` or `…export….json`, where they were saved below its data folder or wherever a scan is pointed. Nothing else
there is opened: `auth.json` holds keys, `storage/` the pieces of older versions.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from hardwon.agents import token_usage
from hardwon.agents.fields import map_of, text_of
from hardwon.agents.opencode.tools import about, asked, called, folder, refusal
from hardwon.agents.transcript_json import (
    Where,
    Wire,
    is_ours,
    lines_of,
    openings,
    parsed,
    rows_of,
    typed_words,
    unfenced,
)
from hardwon.agents.transcript_steps import Step

NAME = "opencode"

_EXPORT = re.compile(r"(?:ses_\w+|.*(?:export|dump).*)\.json")
_TABLES = frozenset(
    {"account", "credential", "data_migration", "event", "event_sequence", "message", "migration", "part"}
    | {"permission", "project", "session", "todo", "workspace"}
)


class Reader:
    """Owns what one export says."""

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        self.malformed: int = (state or {}).get("malformed", 0)
        self.usage = token_usage.new_counter((state or {}).get("usage"))

    def state(self) -> dict[str, Any]:
        return {"malformed": self.malformed, "usage": token_usage.new_counter(self.usage)}

    def read(self, number: int, line: bytes) -> Iterator[Step]:
        wire, bad = parsed(line)
        self.malformed += bad
        where = lines_of(line, 0 if "messages" in wire else max(0, line.find(b'"part"')))
        for session in _sessions(wire):
            yield from _session(session, lambda text: number - 1 + where(text))
            for message in rows_of(session, "messages"):
                info = map_of(message, "info")
                if used := map_of(info, "tokens"):
                    token_usage.count(self.usage, text_of(info, "id"), token_usage.opencode_usage(used))


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
        told, parts = map_of(message, "info"), rows_of(message, "parts")
        cwd = text_of(map_of(told, "path"), "cwd") or cwd
        person, name = told.get("role") == "user", text_of(told, "id")
        spoken = [] if told.get("summary") is True else [part for part in parts if _is_spoken(part)]
        for index, part in enumerate(parts):
            kind, id = part.get("type"), text_of(part, "id") or f"{name}.{index}"
            at = _when(map_of(map_of(part, "state"), "time").get("start") or map_of(told, "time").get("created"))
            shared: Wire = {"at": at, "session": parent or own, "agent": agent, "cwd": cwd}
            if kind == "compaction":
                yield Step("compacted", where(id), id, **shared)
            elif kind == "tool":
                yield from _tool(part, id, where, shared)
            elif not person and part in spoken:
                yield Step("agent", where(text_of(part, "text")), id, **shared, text=_words(part))
            elif part in spoken[:1] and not agent:  # a prompt is one, whatever it was put together from
                line = where(text_of(part, "text"))
                if text := typed_words(asked("\n".join(map(_words, spoken)))):
                    yield Step("person", line, id, **shared, call=name, text=text)


def _is_spoken(part: Wire) -> bool:
    added = part.get("synthetic") or part.get("ignored")
    return part.get("type") == "text" and not added and bool(_words(part))


def _words(part: Wire) -> str:
    return unfenced(text_of(part, "text")).strip()


def _tool(part: Wire, id: str, where: Where, shared: Wire) -> Iterator[Step]:
    state, call = map_of(part, "state"), text_of(part, "callID") or id
    tool, given = called(text_of(part, "tool"), map_of(state, "input"))
    command, path, content = about(tool, given)
    shared = {**shared, "call": call, "cwd": folder(given, shared["cwd"]) if tool == "Bash" else shared["cwd"]}
    told: Wire = {"tool": tool, "command": command, "path": path, "content": content}
    yield Step("call", where(text_of(part, "callID")), f"call:{id}", **shared, **told)
    status, error, output = state.get("status"), text_of(state, "error"), text_of(state, "output")
    if status not in ("completed", "error"):
        return
    refused = refusal(error)
    code = map_of(state, "metadata").get("exit")
    denied = is_ours(error)
    failed = (status == "error" or (isinstance(code, int) and code != 0)) and not refused and not denied
    text = unfenced(error or output).strip("\n")
    line = where(error or output)
    ended: Wire = {"text": text, "failed": failed, "refused": refused, "denied": denied}
    yield Step("result", line, f"result:{id}", **shared, **ended)


def _when(milliseconds: object) -> str:
    if not isinstance(milliseconds, int) or not 0 < milliseconds < 1 << 47:
        return ""
    at = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _data(row: Wire) -> Wire:
    return parsed(text_of(row, "data").encode("utf-8", "replace"))[0]
