"""Qwen Code: `~/.qwen/projects/<folder>/chats/<session>.jsonl`, Claude Code's lines with the parts of Gemini CLI."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import partial

from hardwon.agents.fields import collect_strings, get_object, get_text
from hardwon.agents.qwen import CONTRACT, parse_result
from hardwon.agents.transcript_steps import (
    REFUSED_WITHOUT_WORDS,
    JsonObject,
    ObjectReader,
    Step,
    TokenUsage,
    count_usage,
    extract_typed_words,
    get_count,
    get_objects,
    is_hardwon_denial,
    shorten_id,
    strip_fenced,
    truncate_path,
)


def read_object(reader: ObjectReader, number: int, wire: JsonObject, line: bytes) -> Iterator[Step]:
    """Yield the steps of one line."""
    kind = get_text(wire, "type")
    if kind not in ("user", "assistant", "tool_result"):
        return
    line_id = shorten_id(get_text(wire, "uuid"))
    if usage := get_object(wire, "usageMetadata"):
        tokens_in = get_count(usage, "promptTokenCount")
        tokens_out = get_count(usage, "candidatesTokenCount") + get_count(usage, "thoughtsTokenCount")
        tokens_cached = get_count(usage, "cachedContentTokenCount")
        count_usage(reader.usage, line_id, TokenUsage(tokens_in, tokens_out, tokens_cached))
    session = shorten_id(get_text(wire, "sessionId"))
    cwd = truncate_path(get_text(wire, "cwd"))
    step = Step("agent", number, line_id, at=get_text(wire, "timestamp"), session=session, cwd=cwd)
    parts = get_objects(get_object(wire, "message"), "parts")
    # A thought is not what the agent said.
    text = "\n".join(get_text(part, "text") for part in parts if "text" in part and not part.get("thought"))
    text = strip_fenced(text)
    if kind == "user":
        typed_text = extract_typed_words(text)
        if typed_text and get_text(wire, "provenance") == "real_user":  # others are written by the program
            yield step._replace(kind="person", text=typed_text)
        return
    if kind == "assistant" and text.strip():
        yield step._replace(text=text.strip())
    for index, part in enumerate(parts):
        part_step = step._replace(id=f"{line_id}:{index}")
        if call := get_object(part, "functionCall"):
            tool_call = CONTRACT.normalize_call(get_text(call, "name"), get_object(call, "args"))
            yield reader.begin_call(part_step, get_text(call, "id"), *tool_call)
        elif response := get_object(part, "functionResponse"):
            status = get_text(get_object(wire, "toolCallResult"), "status")
            yield _add_outcome(reader.end_call(part_step, get_text(response, "id")), response, status)


Reader = partial(ObjectReader, read_object)


def _add_outcome(result: Step, response: JsonObject, status: str) -> Step:
    """Return a result with its text and how its call ended."""
    name = get_text(response, "name")
    values = get_object(response, "response")
    raw_text = "\n".join(collect_strings(values.get("error")) or collect_strings(values.get("output")))
    if is_hardwon_denial(raw_text):
        return result._replace(denied=True)
    text, failed = parse_result(name, raw_text)
    if status == "cancelled":
        return result._replace(text=text, refused=REFUSED_WITHOUT_WORDS)
    return result._replace(text=strip_fenced(text), failed=failed or status == "error" or "error" in values)


def find_transcript_folders(environment: Mapping[str, str], home: str) -> list[str]:
    return [os.path.join(home, ".qwen", "projects")]


def is_transcript_path(path: str) -> bool:
    return path.endswith(".jsonl")


def is_opening_object(wire: JsonObject) -> bool:
    return {"uuid", "sessionId", "provenance"} <= wire.keys()
