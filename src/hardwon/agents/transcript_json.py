"""Looking into JSON that other programs wrote: any type may stand anywhere, and a line may be damaged or cut.

Nothing here raises but `loads`, and that only ValueError. What a reader remembers goes through `kept` and
`forget_oldest`, so that no transcript makes a reader's state large.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import Any

import orjson

from hardwon.privacy.prompt_text import extract_agent_prompt, is_only_for_hardwon
from hardwon.text.fence import FENCE_CLOSE, FENCE_OPEN, remove_between

JsonObject = dict[str, Any]
LineFinder = Callable[[str], int]  # the line on which a text stands

_MAX_ID_LENGTH = 128
_MAX_PATH_LENGTH = 4096
_MAX_MISSES = 100  # searches to a document's end, after which it is written in another way than we search
_DENIAL = re.compile(rf"\A\s*(?:\w[\w ]*:\s*)*{FENCE_OPEN}|{FENCE_OPEN}\s*(?:Held once|Blocked) by hardwon")
_OBJECT_START = re.compile(r"^\{", re.MULTILINE)
_OBJECT_KEY = re.compile(r'\s*[,{]\s*"((?:[^"\\]|\\.)*)"\s*:\s*')
_DECODER = json.JSONDecoder()


def parse_json_leniently(line: bytes) -> Any:
    """JSON, also with what orjson refuses and programs write: no UTF-8, half a surrogate pair, a mark at the start."""
    try:
        return orjson.loads(line)
    except ValueError:
        pass
    try:
        cleaned = json.dumps(json.loads(line.decode("utf-8-sig", "replace")), ensure_ascii=False)
        return orjson.loads(cleaned.encode("utf-8", "replace"))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def parse_line(line: bytes) -> tuple[JsonObject, int]:
    """The object in a line, an empty one if there is none, and 1 if the line is malformed."""
    try:
        wire = parse_json_leniently(line)
    except ValueError:
        return {}, int(bool(line.strip()))
    return (wire, 0) if isinstance(wire, dict) else ({}, 0)


def get_objects(wire: JsonObject, key: str) -> list[JsonObject]:
    value = wire.get(key)
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def hash_text(text: str) -> str:
    return blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()


def shorten_id(identifier: str) -> str:
    """An id as it is remembered: one of an absurd length by its digest."""
    return identifier if len(identifier) <= _MAX_ID_LENGTH else hash_text(identifier)


def truncate_path(path: str) -> str:
    return path[:_MAX_PATH_LENGTH]


def forget_oldest(entries: dict[str, Any], limit: int) -> None:
    while len(entries) > limit:
        del entries[next(iter(entries))]


def strip_fenced(text: str) -> str:
    return remove_between(text, FENCE_OPEN, FENCE_CLOSE)


def extract_typed_words(prompt: str) -> str:
    """Return what a person typed of a prompt, to the agent or to hardwon: readers of steps tell the two apart."""
    return prompt if is_only_for_hardwon(prompt) else extract_agent_prompt(prompt)


def is_hardwon_denial(text: str) -> bool:
    """A denial of ours: it comes back as an error, and is none."""
    return FENCE_OPEN in text and _DENIAL.search(text) is not None


def build_line_finder(document: bytes, start: int = 0) -> LineFinder:
    """Finds on which line of a document a text stands, asked in the document's order."""
    offset, line, misses = start, 1 + document.count(b"\n", 0, start), 0

    def find_line(text: str) -> int:
        nonlocal offset, line, misses
        if text and misses < _MAX_MISSES:
            match_offset = document.find(orjson.dumps(text[:60])[1:-1], offset)
            misses += match_offset < 0
            line += document.count(b"\n", offset, max(match_offset, offset))
            offset = max(match_offset, offset)
        return line

    return find_line


def parse_opening_objects(head: bytes) -> Iterator[JsonObject]:
    """The objects that begin a line in the first bytes of a file, as far as they are there."""
    text = head.decode("utf-8-sig", "replace").lstrip()
    return (_parse_opening(text, match.start()) for match in _OBJECT_START.finditer(text))


def _parse_opening(text: str, offset: int) -> JsonObject:
    """The fields of the object that begins here; the one in which the text is cut is None."""
    wire: JsonObject = {}
    while key := _OBJECT_KEY.match(text, offset):
        wire[key[1]] = None
        try:
            wire[key[1]], offset = _DECODER.raw_decode(text, key.end())
        except (ValueError, RecursionError):
            break
    return wire
