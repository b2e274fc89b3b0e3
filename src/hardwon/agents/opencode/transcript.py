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
from hardwon.agents.fields import get_object, get_text
from hardwon.agents.opencode.tools import (
    extract_call_fields,
    normalize_call,
    parse_refusal,
    resolve_call_cwd,
    unquote_prompt,
)
from hardwon.agents.transcript_json import (
    JsonObject,
    LineFinder,
    build_line_finder,
    extract_typed_words,
    get_objects,
    is_hardwon_denial,
    parse_line,
    parse_opening_objects,
    strip_fenced,
)
from hardwon.agents.transcript_steps import Step

NAME = "opencode"

_EXPORT_NAME = re.compile(r"(?:ses_\w+|.*(?:export|dump).*)\.json")
_TABLE_NAMES = frozenset(
    {"account", "credential", "data_migration", "event", "event_sequence", "message", "migration", "part"}
    | {"permission", "project", "session", "todo", "workspace"}
)


class Reader:
    """Owns what one export says."""

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        self.malformed: int = (state or {}).get("malformed", 0)
        self.usage = token_usage.create_counter((state or {}).get("usage"))

    def dump_state(self) -> dict[str, Any]:
        return {"malformed": self.malformed, "usage": token_usage.create_counter(self.usage)}

    def read_line(self, number: int, line: bytes) -> Iterator[Step]:
        wire, malformed = parse_line(line)
        self.malformed += malformed
        find_line = build_line_finder(line, 0 if "messages" in wire else max(0, line.find(b'"part"')))
        for session in _split_sessions(wire):
            yield from _read_session(session, lambda text: number - 1 + find_line(text))
            for message in get_objects(session, "messages"):
                info = get_object(message, "info")
                if usage := get_object(info, "tokens"):
                    token_usage.count_usage(self.usage, get_text(info, "id"), token_usage.parse_opencode_usage(usage))


def find_transcript_folders(environment: Mapping[str, str], home: str) -> list[str]:
    data = environment.get("XDG_DATA_HOME") or os.path.join(home, ".local", "share")
    return [os.path.join(data, "opencode")]


def is_transcript_path(path: str) -> bool:
    folders = os.path.dirname(path).split(os.sep)
    return _EXPORT_NAME.fullmatch(os.path.basename(path)) is not None and "storage" not in folders


def is_transcript_head(head: bytes) -> bool:
    is_export = any("info" in wire or len(_TABLE_NAMES & wire.keys()) > 1 for wire in parse_opening_objects(head))
    return is_export and b'"ses_' in head


def _split_sessions(wire: JsonObject) -> Iterator[JsonObject]:
    """The exports in a document: itself, or one for each session of a database's rows."""
    if "messages" in wire:
        yield wire
        return
    parts: dict[str, list[JsonObject]] = {}
    for row in get_objects(wire, "part"):
        parts.setdefault(get_text(row, "message_id"), []).append({**_parse_row_data(row), "id": row.get("id")})
    messages: dict[str, list[JsonObject]] = {}
    for row in get_objects(wire, "message"):
        message = {"info": {**_parse_row_data(row), "id": row.get("id")}, "parts": parts.get(get_text(row, "id"), [])}
        messages.setdefault(get_text(row, "session_id"), []).append(message)
    for row in get_objects(wire, "session"):
        info = {"id": row.get("id"), "directory": row.get("directory"), "parentID": row.get("parent_id")}
        yield {"info": info, "messages": messages.get(get_text(row, "id"), [])}


def _read_session(wire: JsonObject, find_line: LineFinder) -> Iterator[Step]:
    info = get_object(wire, "info")
    session_id, parent, cwd = get_text(info, "id"), get_text(info, "parentID"), get_text(info, "directory")
    agent = session_id if parent else ""
    for message in get_objects(wire, "messages"):
        message_info, parts = get_object(message, "info"), get_objects(message, "parts")
        cwd = get_text(get_object(message_info, "path"), "cwd") or cwd
        is_person, message_id = message_info.get("role") == "user", get_text(message_info, "id")
        spoken_parts = [] if message_info.get("summary") is True else [part for part in parts if _is_spoken(part)]
        for index, part in enumerate(parts):
            kind, part_id = part.get("type"), get_text(part, "id") or f"{message_id}.{index}"
            at = _format_timestamp(
                get_object(get_object(part, "state"), "time").get("start")
                or get_object(message_info, "time").get("created")
            )
            shared_fields: JsonObject = {"at": at, "session": parent or session_id, "agent": agent, "cwd": cwd}
            if kind == "compaction":
                yield Step("compacted", find_line(part_id), part_id, **shared_fields)
            elif kind == "tool":
                yield from _read_tool_part(part, part_id, find_line, shared_fields)
            elif not is_person and part in spoken_parts:
                yield Step(
                    "agent", find_line(get_text(part, "text")), part_id, **shared_fields, text=_extract_text(part)
                )
            elif part in spoken_parts[:1] and not agent:  # a prompt is one, whatever it was put together from
                line = find_line(get_text(part, "text"))
                if text := extract_typed_words(unquote_prompt("\n".join(map(_extract_text, spoken_parts)))):
                    yield Step("person", line, part_id, **shared_fields, call=message_id, text=text)


def _is_spoken(part: JsonObject) -> bool:
    added = part.get("synthetic") or part.get("ignored")
    return part.get("type") == "text" and not added and bool(_extract_text(part))


def _extract_text(part: JsonObject) -> str:
    return strip_fenced(get_text(part, "text")).strip()


def _read_tool_part(part: JsonObject, part_id: str, find_line: LineFinder, shared_fields: JsonObject) -> Iterator[Step]:
    state, call = get_object(part, "state"), get_text(part, "callID") or part_id
    tool, tool_input = normalize_call(get_text(part, "tool"), get_object(state, "input"))
    command, path, content = extract_call_fields(tool, tool_input)
    shared_fields = {
        **shared_fields,
        "call": call,
        "cwd": resolve_call_cwd(tool_input, shared_fields["cwd"]) if tool == "Bash" else shared_fields["cwd"],
    }
    call_fields: JsonObject = {"tool": tool, "command": command, "path": path, "content": content}
    yield Step("call", find_line(get_text(part, "callID")), f"call:{part_id}", **shared_fields, **call_fields)
    status, error, output = state.get("status"), get_text(state, "error"), get_text(state, "output")
    if status not in ("completed", "error"):
        return
    refused = parse_refusal(error)
    exit_code = get_object(state, "metadata").get("exit")
    denied = is_hardwon_denial(error)
    failed = (status == "error" or (isinstance(exit_code, int) and exit_code != 0)) and not refused and not denied
    text = strip_fenced(error or output).strip("\n")
    line = find_line(error or output)
    outcome: JsonObject = {"text": text, "failed": failed, "refused": refused, "denied": denied}
    yield Step("result", line, f"result:{part_id}", **shared_fields, **outcome)


def _format_timestamp(milliseconds: object) -> str:
    if not isinstance(milliseconds, int) or not 0 < milliseconds < 1 << 47:
        return ""
    at = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _parse_row_data(row: JsonObject) -> JsonObject:
    return parse_line(get_text(row, "data").encode("utf-8", "replace"))[0]
