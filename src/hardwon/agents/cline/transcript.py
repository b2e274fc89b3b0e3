"""Cline: `~/.cline/data/sessions/<id>/<id>.messages.json`, one document with Anthropic's content blocks.

It is rewritten as a whole. The folder stands only in the system prompt, which comes last.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial

import orjson

from hardwon.agents.cline import find_sessions_folder, normalize_call, read_output
from hardwon.agents.fields import get_object, get_text
from hardwon.agents.hook_contract import read_blocks
from hardwon.agents.transcript_steps import (
    JsonObject,
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
    shorten_id,
    strip_fenced,
    truncate_path,
)

_FOLDER = re.compile(r"Working Directory: (\S[^\n]*)")
_TYPED = re.compile(r"\A<user_input\b[^>]*>(.*)</user_input>\s*\Z", re.DOTALL)
_HOOK_CONTEXT = re.compile(r'\A<hook_context source="PreToolUse"[^>\n]* tool_call_id="([^"\n]*)"')


def read_object(reader: ObjectReader, number: int, wire: JsonObject, line: bytes) -> Iterator[Step]:
    """Yield the steps of a session's document, and count its tokens."""
    messages = get_objects(wire, "messages")
    folder = _FOLDER.search(get_text(wire, "system_prompt")[:100_000])
    cwd = truncate_path(folder[1].strip()) if folder else ""
    session = shorten_id(get_text(wire, "sessionId"))
    stopped_calls = _find_stopped_calls(messages)
    find_line = build_line_finder(line)
    for message in messages:
        message_id = shorten_id(get_text(message, "id"))
        if metrics := get_object(message, "metrics"):
            tokens_in = get_count(metrics, "inputTokens")
            tokens_out = get_count(metrics, "outputTokens")
            usage = TokenUsage(tokens_in, tokens_out, get_count(metrics, "cacheReadTokens"))
            count_usage(reader.usage, message_id, usage)
        line_number = number - 1 + find_line(get_text(message, "id"))
        at = format_milliseconds(message.get("ts"))
        step = Step("agent", line_number, message_id, at=at, session=session, cwd=cwd)
        yield from _read_message(reader, step, message, stopped_calls)


def _read_message(reader: ObjectReader, step: Step, message: JsonObject, stopped_calls: set[str]) -> Iterator[Step]:
    """Yield the steps of one message, a block each."""
    is_person = message.get("role") == "user"
    for index, block in enumerate(read_blocks(message)):
        kind = get_text(block, "type")
        text = get_text(block, "text")
        call_id = get_text(block, "id") or get_text(block, "tool_use_id")
        block_step = step._replace(id=f"{step.id}.{index}")
        if kind == "tool_use":
            tool, tool_input = normalize_call(get_text(block, "name"), block.get("input"))
            yield reader.begin_call(block_step, call_id, tool, tool_input)
        elif kind == "tool_result":
            result = reader.end_call(block_step, call_id)
            output, failed = _read_content(block.get("content"))
            if call_id in stopped_calls:
                yield result._replace(denied=True)
            else:
                yield result._replace(text=strip_fenced(output), failed=failed)
        elif kind == "text" and not is_person:
            if spoken_text := strip_fenced(text).strip():
                yield block_step._replace(text=spoken_text)
        elif kind == "text":
            typed = _TYPED.match(text)
            typed_text = extract_typed_words(typed[1]) if typed else ""
            if typed_text:
                yield block_step._replace(kind="person", text=typed_text)


Reader = partial(ObjectReader, read_object)


def _find_stopped_calls(messages: list[JsonObject]) -> set[str]:
    """Return the calls that hardwon stopped, by what it said about them after their results."""
    stopped_calls = set()
    for message in messages:
        for block in read_blocks(message):
            text = get_text(block, "text")
            if (context := _HOOK_CONTEXT.match(text)) and is_hardwon_denial(text):
                stopped_calls.add(context[1].replace("__", "_"))  # Cline doubles each underscore
    return stopped_calls


def _read_content(content: object) -> tuple[str, bool]:
    """Return a result's text and whether it failed; some tools write their result as JSON in a string."""
    if isinstance(content, str):
        try:
            content = orjson.loads(content)
        except ValueError:
            return str(content), False
    return read_output(content)


def find_transcript_folders(environment: Mapping[str, str], home: str) -> list[str]:
    return [find_sessions_folder(environment, home)]


def is_transcript_path(path: str) -> bool:
    return path.endswith(".messages.json")


def is_opening_object(wire: JsonObject) -> bool:
    return {"sessionId", "origin", "messages"} <= wire.keys()
