"""opencode: what `opencode export SESSION` prints, one JSON document per session.

opencode keeps its sessions in `opencode.db`; `database` hands over each message of one as such a document. Exports are
read that are named `ses_….json` or `…export….json`. Nothing else in the data folder is opened: `auth.json` holds keys.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from functools import partial

from hardwon.agents.fields import get_object, get_text
from hardwon.agents.opencode import (
    extract_call_fields,
    find_call_cwd,
    is_failure_code,
    normalize_call,
    parse_refusal,
    unquote_prompt,
)
from hardwon.agents.transcript_steps import (
    JsonObject,
    LineFinder,
    ObjectReader,
    Step,
    TokenUsage,
    build_line_finder,
    count_usage,
    extract_typed_words,
    format_milliseconds,
    get_count,
    get_objects,
    is_hardwon_denial,
    strip_fenced,
)

_EXPORT_NAME = re.compile(r"(?:ses_\w+|.*export.*)\.json")


def read_object(reader: ObjectReader, number: int, wire: JsonObject, line: bytes) -> Iterator[Step]:
    """Yield the steps of a session in one document, and count its tokens."""
    find_line = build_line_finder(line)  # counts from 1 within the document, which begins in line `number`
    yield from _read_session(wire, lambda text: number - 1 + find_line(text))
    for message in get_objects(wire, "messages"):
        _count_tokens(reader, get_object(message, "info"))


def _count_tokens(reader: ObjectReader, message_info: JsonObject) -> None:
    """Count what a message took; opencode has the cached tokens beside the others."""
    tokens = get_object(message_info, "tokens")
    cache = get_object(tokens, "cache")
    tokens_in = get_count(tokens, "input") + get_count(cache, "read") + get_count(cache, "write")
    tokens_out = get_count(tokens, "output") + get_count(tokens, "reasoning")
    if tokens:
        usage = TokenUsage(tokens_in, tokens_out, get_count(cache, "read"))
        count_usage(reader.usage, get_text(message_info, "id"), usage)


Reader = partial(ObjectReader, read_object)


def find_transcript_folders(environment: Mapping[str, str], home: str) -> list[str]:
    data = environment.get("XDG_DATA_HOME") or os.path.join(home, ".local", "share")
    return [os.path.join(data, "opencode")]


def is_transcript_path(path: str) -> bool:
    folders = os.path.dirname(path).split(os.sep)
    return _EXPORT_NAME.fullmatch(os.path.basename(path)) is not None and "storage" not in folders


def is_opening_object(wire: JsonObject) -> bool:
    """Return whether an object has what an export of a session begins with.

    Only the first bytes of a file are read for this. A long `info` does not fit into them and is None here; the caller
    has already checked the name of the file, which must do then.
    """
    if "info" not in wire:
        return False
    return wire["info"] is None or get_text(wire["info"], "id").startswith("ses_")


def _read_session(wire: JsonObject, find_line: LineFinder) -> Iterator[Step]:
    """Yield the steps of a session, in the order of its messages."""
    info = get_object(wire, "info")
    session_id = get_text(info, "id")
    parent = get_text(info, "parentID")
    cwd = get_text(info, "directory")
    subagent_id = session_id if parent else ""
    for message in get_objects(wire, "messages"):
        message_info = get_object(message, "info")
        parts = get_objects(message, "parts")
        cwd = get_text(get_object(message_info, "path"), "cwd") or cwd
        is_person = message_info.get("role") == "user"
        message_id = get_text(message_info, "id")
        # The summary of a compacted session is the model's message to itself.
        spoken_parts = [] if message_info.get("summary") is True else [part for part in parts if _is_spoken(part)]
        for index, part in enumerate(parts):
            part_id = get_text(part, "id") or f"{message_id}.{index}"
            started_ms = get_object(get_object(part, "state"), "time").get("start")
            at = format_milliseconds(started_ms or get_object(message_info, "time").get("created"))
            session = parent or session_id
            step = Step("compacted", line=0, id=part_id, at=at, session=session, subagent_id=subagent_id, cwd=cwd)
            if part.get("type") == "compaction":
                yield step._replace(line=find_line(part_id))
            elif part.get("type") == "tool":
                yield from _read_tool_part(part, step, find_line)
            elif not is_person and part in spoken_parts:
                line = find_line(get_text(part, "text"))
                yield step._replace(kind="agent", line=line, text=_extract_text(part))
            elif part in spoken_parts[:1] and not subagent_id:  # several parts are still one prompt
                line = find_line(get_text(part, "text"))
                if text := extract_typed_words(unquote_prompt("\n".join(map(_extract_text, spoken_parts)))):
                    yield step._replace(kind="person", line=line, call=message_id, text=text)


def _is_spoken(part: JsonObject) -> bool:
    """Return whether a part has words of the person or the model, not of the program."""
    is_added = part.get("synthetic") or part.get("ignored")
    return part.get("type") == "text" and not is_added and bool(_extract_text(part))


def _extract_text(part: JsonObject) -> str:
    return strip_fenced(get_text(part, "text")).strip()


def _read_tool_part(part: JsonObject, step: Step, find_line: LineFinder) -> Iterator[Step]:
    """Yield a call, and its result if it has ended."""
    state = get_object(part, "state")
    tool, tool_input = normalize_call(get_text(part, "tool"), get_object(state, "input"))
    command, path, content = extract_call_fields(tool, tool_input)
    step = step._replace(call=get_text(part, "callID") or step.id, cwd=find_call_cwd(tool, tool_input, step.cwd))
    yield step._replace(
        kind="call",
        line=find_line(get_text(part, "callID")),
        id=f"call:{step.id}",
        tool=tool,
        command=command,
        path=path,
        content=content,
    )
    status = state.get("status")
    error = get_text(state, "error")
    if status not in ("completed", "error"):
        return  # the call still runs, so it has no result
    text = error or get_text(state, "output")
    refused = parse_refusal(error)
    denied = is_hardwon_denial(error)
    has_error = status == "error" or is_failure_code(get_object(state, "metadata").get("exit"))
    yield step._replace(
        kind="result",
        line=find_line(text),
        id=f"result:{step.id}",
        text=strip_fenced(text).strip("\n"),
        failed=has_error and not refused and not denied,
        refused=refused,
        denied=denied,
    )
