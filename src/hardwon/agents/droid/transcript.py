"""Factory droid: `~/.factory/sessions/<folder>/<session>.jsonl`, messages with Anthropic's content blocks."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import partial

from hardwon.agents.droid import CONTRACT, strip_exit_line
from hardwon.agents.fields import get_object, get_text
from hardwon.agents.hook_contract import read_blocks
from hardwon.agents.transcript_steps import (
    JsonObject,
    ObjectReader,
    Step,
    add_outcome,
    extract_typed_words,
    shorten_id,
    strip_fenced,
    truncate_path,
)

_REMINDER = "<system-reminder>"


def read_object(reader: ObjectReader, number: int, wire: JsonObject, line: bytes) -> Iterator[Step]:
    """Yield the steps of one line."""
    if get_text(wire, "type") == "session_start":
        reader.session = shorten_id(get_text(wire, "id"))
        reader.cwd = truncate_path(get_text(wire, "cwd"))
    message = get_object(wire, "message")
    # What droid says to the model alone, and hooks that it shows to the person alone.
    if get_text(wire, "type") != "message" or "visibility" in message:
        return
    line_id = shorten_id(get_text(wire, "id"))
    step = Step("agent", number, line_id, at=get_text(wire, "timestamp"), session=reader.session, cwd=reader.cwd)
    is_person = message.get("role") == "user"
    for index, block in enumerate(read_blocks(message)):
        block_step = step._replace(id=f"{line_id}.{index}")
        kind = get_text(block, "type")
        text = strip_fenced(get_text(block, "text")).strip()
        if kind == "tool_use":
            call = CONTRACT.normalize_call(get_text(block, "name"), get_object(block, "input"))
            yield reader.begin_call(block_step, get_text(block, "id"), *call)
        elif kind == "tool_result":
            result = reader.end_call(block_step, get_text(block, "tool_use_id"))
            output = get_text(block, "content")
            yield add_outcome(result, strip_exit_line(output), failed=block.get("is_error") is True)
        elif kind == "text" and text and not is_person:
            yield block_step._replace(text=text)
        elif kind == "text" and not text.startswith(_REMINDER):
            typed_text = extract_typed_words(text)
            if typed_text:
                yield block_step._replace(kind="person", text=typed_text)


Reader = partial(ObjectReader, read_object)


def find_transcript_folders(environment: Mapping[str, str], home: str) -> list[str]:
    return [os.path.join(home, ".factory", "sessions")]


def is_transcript_path(path: str) -> bool:
    return path.endswith(".jsonl")


def is_opening_object(wire: JsonObject) -> bool:
    return wire.get("type") == "session_start" and "cwd" in wire
