"""Factory droid: `~/.factory/sessions/<folder>/<session>.jsonl`, messages with Anthropic's content blocks."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from hardwon.agents.droid.payload import CONTRACT, strip_exit_line
from hardwon.agents.fields import get_object, get_text
from hardwon.agents.hook_contract import read_blocks
from hardwon.agents.transcript_steps import (
    Step,
    begin_call,
    create_counter,
    end_call,
    extract_typed_words,
    is_hardwon_denial,
    parse_line,
    parse_opening_objects,
    restore_state,
    shorten_id,
    strip_fenced,
    truncate_path,
)

_REMINDER = "<system-reminder>"


class Reader:
    """Reads one session line by line; its first line has the id and the folder."""

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        self.malformed = 0
        self.session = ""
        self.cwd = ""
        self.tools: dict[str, str] = {}  # the tool of each call that has not ended
        self.usage = create_counter()
        restore_state(self, state)

    def read_line(self, number: int, line: bytes) -> Iterator[Step]:
        wire, malformed = parse_line(line)
        self.malformed += malformed
        if get_text(wire, "type") == "session_start":
            self.session = shorten_id(get_text(wire, "id"))
            self.cwd = truncate_path(get_text(wire, "cwd"))
        message = get_object(wire, "message")
        # What droid says to the model alone, and hooks that it shows to the person alone.
        if get_text(wire, "type") != "message" or "visibility" in message:
            return
        line_id = shorten_id(get_text(wire, "id"))
        step = Step("agent", number, line_id, get_text(wire, "timestamp"), self.session, "", self.cwd)
        is_person = message.get("role") == "user"
        for index, block in enumerate(read_blocks(message)):
            block_step = step._replace(id=f"{line_id}.{index}")
            kind, text = get_text(block, "type"), strip_fenced(get_text(block, "text")).strip()
            if kind == "tool_use":
                call = CONTRACT.normalize_call(get_text(block, "name"), get_object(block, "input"))
                yield begin_call(self.tools, block_step, get_text(block, "id"), *call)
            elif kind == "tool_result":
                yield self._read_result(block_step, block)
            elif kind == "text" and text and not is_person:
                yield block_step._replace(text=text)
            elif kind == "text" and not text.startswith(_REMINDER) and (typed_text := extract_typed_words(text)):
                yield block_step._replace(kind="person", text=typed_text)

    def _read_result(self, step: Step, block: Mapping[str, Any]) -> Step:
        result = end_call(self.tools, step, get_text(block, "tool_use_id"))
        text = get_text(block, "content")
        if is_hardwon_denial(text):
            return result._replace(denied=True)
        return result._replace(text=strip_exit_line(strip_fenced(text)), failed=block.get("is_error") is True)


def find_transcript_folders(environment: Mapping[str, str], home: str) -> list[str]:
    return [os.path.join(home, ".factory", "sessions")]


def is_transcript_path(path: str) -> bool:
    return path.endswith(".jsonl")


def is_transcript_head(head: bytes) -> bool:
    return any(wire.get("type") == "session_start" and "cwd" in wire for wire in parse_opening_objects(head))
