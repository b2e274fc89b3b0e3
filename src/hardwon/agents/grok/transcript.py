"""Grok CLI: `~/.grok/sessions/<folder>/<session>/updates.jsonl`, the updates of the Agent Client Protocol.

The folder of a session stands only in its path and in the output of a command, so it is taken from there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import partial

from hardwon.agents.fields import get_object, get_text
from hardwon.agents.grok import CONTRACT, parse_result
from hardwon.agents.transcript_steps import (
    JsonObject,
    ObjectReader,
    Step,
    add_outcome,
    extract_typed_words,
    format_milliseconds,
    get_objects,
    shorten_id,
    strip_fenced,
    truncate_path,
)

_DENIED_BY_HOOK = "Hook denied"


def read_object(reader: ObjectReader, number: int, wire: JsonObject, line: bytes) -> Iterator[Step]:
    """Yield the steps of one line."""
    params = get_object(wire, "params")
    update = get_object(params, "update")
    meta = get_object(params, "_meta")
    kind = get_text(update, "sessionUpdate")
    step_id = shorten_id(get_text(meta, "eventId"))
    output = get_object(update, "rawOutput")
    reader.cwd = truncate_path(get_text(output, "current_dir")) or reader.cwd
    at = format_milliseconds(meta.get("agentTimestampMs"))
    session = shorten_id(get_text(params, "sessionId"))
    step = Step("agent", number, step_id, at=at, session=session, cwd=reader.cwd)
    call_id = get_text(update, "toolCallId")
    if kind == "user_message_chunk":
        if text := extract_typed_words(strip_fenced(get_text(get_object(update, "content"), "text"))):
            yield step._replace(kind="person", text=text)
    elif kind == "agent_message_chunk":
        if text := strip_fenced(get_text(get_object(update, "content"), "text")).strip():
            yield step._replace(text=text)
    elif kind == "tool_call":
        name = get_text(get_object(get_object(update, "_meta"), "x.ai/tool"), "name") or get_text(update, "title")
        tool, tool_input = CONTRACT.normalize_call(name, get_object(update, "rawInput"))
        yield reader.begin_call(step, call_id, tool, tool_input)
    elif kind == "tool_call_update" and get_text(update, "status") in ("completed", "failed"):
        yield _read_outcome(reader.end_call(step, call_id), update, output)


Reader = partial(ObjectReader, read_object)


def _read_outcome(result: Step, update: JsonObject, output: JsonObject) -> Step:
    """Return a result with its text and how its call ended."""
    texts = [get_text(get_object(row, "content"), "text") for row in get_objects(update, "content")]
    text, failed = parse_result(output) if output else ("\n".join(texts), False)
    failed = failed or get_text(update, "status") == "failed"
    return add_outcome(result, text, failed=failed, denied=text.startswith(_DENIED_BY_HOOK))


def find_transcript_folders(environment: Mapping[str, str], home: str) -> list[str]:
    return [os.path.join(home, ".grok", "sessions")]


def is_transcript_path(path: str) -> bool:
    return os.path.basename(path) == "updates.jsonl"


def is_opening_object(wire: JsonObject) -> bool:
    return "session/update" in get_text(wire, "method")
