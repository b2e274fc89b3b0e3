"""Grok CLI: `~/.grok/sessions/<folder>/<session>/updates.jsonl`, the updates of the Agent Client Protocol.

The folder of a session stands only in its path and in the output of a command, so it is taken from there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from hardwon.agents.fields import get_object, get_text
from hardwon.agents.grok.payload import CONTRACT, parse_result
from hardwon.agents.transcript_steps import (
    JsonObject,
    Step,
    begin_call,
    create_counter,
    end_call,
    extract_typed_words,
    format_milliseconds,
    get_objects,
    is_hardwon_denial,
    parse_line,
    parse_opening_objects,
    restore_state,
    shorten_id,
    strip_fenced,
    truncate_path,
)

_DENIED_BY_HOOK = "Hook denied"


class Reader:
    """Reads one session line by line; a call comes whole, its result some lines later."""

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        self.malformed = 0
        self.cwd = ""
        self.tools: dict[str, str] = {}  # the tool of each call that has not ended
        self.usage = create_counter()
        restore_state(self, state)

    def read_line(self, number: int, line: bytes) -> Iterator[Step]:
        wire, malformed = parse_line(line)
        self.malformed += malformed
        params = get_object(wire, "params")
        update, meta = get_object(params, "update"), get_object(params, "_meta")
        kind = get_text(update, "sessionUpdate")
        step_id = shorten_id(get_text(meta, "eventId"))
        output = get_object(update, "rawOutput")
        self.cwd = truncate_path(get_text(output, "current_dir")) or self.cwd
        at = format_milliseconds(meta.get("agentTimestampMs"))
        step = Step("agent", number, step_id, at, shorten_id(get_text(params, "sessionId")), "", self.cwd)
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
            yield begin_call(self.tools, step, call_id, tool, tool_input)
        elif kind == "tool_call_update" and get_text(update, "status") in ("completed", "failed"):
            yield _add_outcome(end_call(self.tools, step, call_id), update, output)


def _add_outcome(result: Step, update: JsonObject, output: JsonObject) -> Step:
    texts = [get_text(get_object(row, "content"), "text") for row in get_objects(update, "content")]
    text, failed = parse_result(output) if output else ("\n".join(texts), False)
    if is_hardwon_denial(text):
        return result._replace(denied=True)
    if text.startswith(_DENIED_BY_HOOK):
        return result._replace(text=text, denied=True)
    return result._replace(text=strip_fenced(text), failed=failed or get_text(update, "status") == "failed")


def find_transcript_folders(environment: Mapping[str, str], home: str) -> list[str]:
    return [os.path.join(home, ".grok", "sessions")]


def is_transcript_path(path: str) -> bool:
    return os.path.basename(path) == "updates.jsonl"


def is_transcript_head(head: bytes) -> bool:
    return any("session/update" in get_text(wire, "method") for wire in parse_opening_objects(head))
