"""Qwen Code: `~/.qwen/projects/<folder>/chats/<session>.jsonl`, Claude Code's lines with the parts of Gemini CLI."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from hardwon.agents.fields import collect_strings, get_call_fields, get_object, get_text
from hardwon.agents.qwen.payload import CONTRACT, parse_result
from hardwon.agents.transcript_steps import (
    JsonObject,
    Step,
    TokenUsage,
    count_usage,
    create_counter,
    extract_typed_words,
    get_count,
    get_objects,
    is_hardwon_denial,
    parse_line,
    parse_opening_objects,
    restore_state,
    shorten_id,
    strip_fenced,
    truncate_path,
)


class Reader:
    """Reads one chat line by line; every line has all that its steps need."""

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        self.malformed = 0
        self.usage = create_counter()
        restore_state(self, state)

    def read_line(self, number: int, line: bytes) -> Iterator[Step]:
        wire, malformed = parse_line(line)
        self.malformed += malformed
        kind = get_text(wire, "type")
        if kind not in ("user", "assistant", "tool_result"):
            return
        line_id = shorten_id(get_text(wire, "uuid"))
        if usage := get_object(wire, "usageMetadata"):
            tokens_out = get_count(usage, "candidatesTokenCount") + get_count(usage, "thoughtsTokenCount")
            tokens_in, tokens_cached = (get_count(usage, f"{name}TokenCount") for name in ("prompt", "cachedContent"))
            count_usage(self.usage, line_id, TokenUsage(tokens_in, tokens_out, tokens_cached))
        session, cwd = shorten_id(get_text(wire, "sessionId")), truncate_path(get_text(wire, "cwd"))
        step = Step("agent", number, line_id, get_text(wire, "timestamp"), session, "", cwd)
        parts = get_objects(get_object(wire, "message"), "parts")
        # A thought is not what the agent said.
        text = "\n".join(get_text(part, "text") for part in parts if "text" in part and not part.get("thought"))
        if kind == "user":
            typed_text = extract_typed_words(strip_fenced(text))
            if typed_text and get_text(wire, "provenance") == "real_user":
                yield step._replace(kind="person", text=typed_text)
            return
        if kind == "assistant" and strip_fenced(text).strip():
            yield step._replace(text=strip_fenced(text).strip())
        for index, part in enumerate(parts):
            if call := get_object(part, "functionCall"):
                yield _build_call(step._replace(id=f"{line_id}:{index}"), call)
            elif response := get_object(part, "functionResponse"):
                status = get_text(get_object(wire, "toolCallResult"), "status")
                yield _build_result(step._replace(id=f"{line_id}:{index}"), response, status)


def _build_call(step: Step, call: JsonObject) -> Step:
    tool, tool_input = CONTRACT.normalize_call(get_text(call, "name"), get_object(call, "args"))
    command, path, content = get_call_fields(tool, tool_input)
    call_id = shorten_id(get_text(call, "id"))
    return step._replace(kind="call", call=call_id, tool=tool, command=command, path=path, content=content)


def _build_result(step: Step, response: JsonObject, status: str) -> Step:
    name, values = get_text(response, "name"), get_object(response, "response")
    tool = CONTRACT.normalize_call(name, {})[0]
    result = step._replace(kind="result", call=shorten_id(get_text(response, "id")), tool=tool)
    raw_text = "\n".join(collect_strings(values.get("error")) or collect_strings(values.get("output")))
    if is_hardwon_denial(raw_text):
        return result._replace(denied=True)
    text, failed = parse_result(name, raw_text)
    if status == "cancelled":
        return result._replace(text=text, refused=" ")
    return result._replace(text=strip_fenced(text), failed=failed or status == "error" or "error" in values)


def find_transcript_folders(environment: Mapping[str, str], home: str) -> list[str]:
    return [os.path.join(home, ".qwen", "projects")]


def is_transcript_path(path: str) -> bool:
    return path.endswith(".jsonl")


def is_transcript_head(head: bytes) -> bool:
    return any({"uuid", "sessionId", "provenance"} <= wire.keys() for wire in parse_opening_objects(head))
