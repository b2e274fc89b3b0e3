"""Steps and token counts, into which every agent's transcript is read, and the functions that all readers share.

A transcript grows while it is read, so a reader takes a line at a time and can be stopped after any of them: what it
must remember is in its state, which is stored beside the read position and stays small whatever the transcript holds.
Unknown lines and keys are skipped; a line that is not JSON is counted as malformed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, Literal, NamedTuple, Protocol

import orjson

from hardwon.agents import TRANSCRIPT_AGENTS, get_package
from hardwon.agents.fields import get_call_fields, get_list
from hardwon.privacy.prompt_text import extract_agent_prompt, is_only_for_hardwon
from hardwon.text.fence import FENCE_CLOSE, FENCE_OPEN, remove_between

StepKind = Literal["person", "agent", "call", "result", "compacted"]
JsonObject = dict[str, Any]
LineFinder = Callable[[str], int]  # the line on which a text stands
UsageCounter = dict[str, Any]  # as it is stored with a reader's state

# Agents' own ids are far shorter, and a reader's state must stay small.
_MAX_ID_LENGTH = 128
_MAX_PATH_LENGTH = 4096
_MAX_MISSES = 100  # failed searches, after which the document must escape its strings differently from our search
_MAX_RECOUNTED = 8  # messages whose usage may be reported again
REFUSED_WITHOUT_WORDS = " "
_MAX_OPEN_CALLS = 200  # calls whose result is awaited
_DENIAL = re.compile(rf"\A\s*(?:\w[\w ]*:\s*)*{FENCE_OPEN}|{FENCE_OPEN}\s*(?:Held once|Blocked) by hardwon")
_OBJECT_START = re.compile(r"^\{", re.MULTILINE)
_OBJECT_KEY = re.compile(r'\s*[,{]\s*"((?:[^"\\]|\\.)*)"\s*:\s*')
_DECODER = json.JSONDecoder()


class Step(NamedTuple):
    """One thing that happened in a session: somebody's words, a tool call, its result."""

    kind: StepKind
    line: int  # counted from 1
    id: str = ""  # the agent's own, equal in copies of the session, so that nothing is counted twice
    at: str = ""
    session: str = ""
    subagent_id: str = ""  # empty for the main agent
    cwd: str = ""
    call: str = ""  # joins a call and its result; for a prompt the agent's id of it
    tool: str = ""  # by Claude Code's name for it
    command: str = ""
    path: str = ""
    content: str = ""
    text: str = ""  # the words, or the result's
    failed: bool = False
    refused: str = ""  # for a result: a person said no in these words, or REFUSED_WITHOUT_WORDS
    denied: bool = False  # for a result: a hook forbade the call, so it did not run and neither passed nor failed
    branch: str = ""  # checked out at that time, if the agent records it


class TokenUsage(NamedTuple):
    """Tokens in, cache reads and writes included; tokens out; and how many of those in were read from a cache."""

    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0


class Reader(Protocol):
    """Reads one transcript line by line, and keeps the state between lines in its attributes, which are stored."""

    malformed: int
    usage: UsageCounter

    def read_line(self, number: int, line: bytes) -> Iterable[Step]: ...


class ObjectReader:
    """A reader for agents whose lines are objects and whose steps need no other state than this."""

    __slots__ = ("__dict__", "_read_object")  # the function is not among the attributes that `vars` lists

    def __init__(self, read_object: ReadObject, state: Mapping[str, Any] | None = None) -> None:
        self._read_object = read_object
        self.malformed = 0
        self.session = ""
        self.cwd = ""
        self.tools: dict[str, str] = {}  # the tool of each call that has not ended; its result does not name it
        self.usage = create_counter()
        restore_state(self, state)

    def read_line(self, number: int, line: bytes) -> Iterable[Step]:
        wire, malformed = parse_line(line)
        self.malformed += malformed
        return self._read_object(self, number, wire, line)

    def begin_call(self, step: Step, call: str, tool: str, tool_input: JsonObject) -> Step:
        """Return the step of a call by Claude Code's names, and remember its tool."""
        call_id = shorten_id(call)
        self.tools[call_id] = shorten_id(tool)
        forget_oldest(self.tools, _MAX_OPEN_CALLS)
        command, path, content = get_call_fields(tool, tool_input)
        return step._replace(kind="call", call=call_id, tool=tool, command=command, path=path, content=content)

    def end_call(self, step: Step, call: str) -> Step:
        """Return the step of a call's result, still without its outcome."""
        call_id = shorten_id(call)
        return step._replace(kind="result", call=call_id, tool=self.tools.pop(call_id, ""))


# Where Codex's reader remembers commands whose results are still to come.
_COMMAND_STATE_KEYS = ("open", "running", "scripts")


def dump_reader_state(reader: Reader, *, has_hidden_steps: bool) -> dict[str, Any]:
    """Return what a reader must remember between two reads.

    It also remembers the commands of steps that are hidden because they are private, excluded or deleted. Those must
    not be stored, so after such a step no command is.
    """
    hidden_keys = _COMMAND_STATE_KEYS if has_hidden_steps else ()
    return {name: value for name, value in vars(reader).items() if name not in hidden_keys}


# Yields the steps of a line, which is given by its number, parsed, and as it stands.
ReadObject = Callable[[ObjectReader, int, JsonObject, bytes], Iterable[Step]]


class TranscriptModule(Protocol):
    """An agent's `transcript` module."""

    Reader: Callable[..., Reader]  # of the state that was stored, if any

    def find_transcript_folders(self, environment: Mapping[str, str], home: str) -> list[str]: ...
    def is_transcript_path(self, path: str) -> bool: ...  # by its name
    def is_opening_object(self, wire: JsonObject) -> bool: ...  # by an object in its first bytes, which may be cut


def load_transcript_module(agent: str) -> TranscriptModule:
    """Return the module that reads an agent's transcripts; KeyError if hardwon does not know the agent."""
    module: TranscriptModule = __import__(f"{get_package(agent)}.transcript", fromlist=["Reader"])
    return module


def identify_agent(path: str, head: bytes) -> str:
    """Return the agent that wrote this transcript, by the file's name and its first bytes; empty if none did."""
    opening_objects = parse_opening_objects(head)
    for agent in TRANSCRIPT_AGENTS:
        module = load_transcript_module(agent)
        if module.is_transcript_path(path) and any(map(module.is_opening_object, opening_objects)):
            return agent
    return ""


def restore_state(reader: Reader, state: Mapping[str, Any] | None) -> None:
    """Set the attributes of a reader to what was stored of them."""
    state = state or {}
    if "agent" in state:  # stored by 0.1.0
        state = {**state, "subagent_id": state["agent"]}
    for name in vars(reader):
        if name in state:
            setattr(reader, name, state[name])


def parse_timestamp(at: str) -> float:
    """Return a transcript's time in seconds; 0 if it is not a time."""
    try:
        return datetime.fromisoformat(at).timestamp()
    except (ValueError, OverflowError):
        return 0.0


def format_milliseconds(milliseconds: object) -> str:
    """Return a time in milliseconds as transcripts write it; empty if it is not one."""
    # The bound is the year 6429; `fromtimestamp` fails far beyond it.
    if not isinstance(milliseconds, int) or not 0 < milliseconds < 1 << 47:
        return ""
    at = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_line(line: bytes) -> tuple[JsonObject, int]:
    """Return the object in a line, an empty one if there is none, and 1 if the line is malformed."""
    try:
        # orjson is several times as fast as `json`, but refuses what a few transcripts contain.
        wire = orjson.loads(line)
    except ValueError:
        try:
            wire = _parse_json_leniently(line)
        except ValueError:
            is_malformed = bool(line.strip())  # an empty line is not
            return {}, int(is_malformed)
    return (wire, 0) if isinstance(wire, dict) else ({}, 0)


def _parse_json_leniently(line: bytes) -> Any:
    """Parse what orjson refuses and programs write: invalid UTF-8, half a surrogate pair, a byte order mark."""
    try:
        cleaned = json.dumps(json.loads(line.decode("utf-8-sig", "replace")), ensure_ascii=False)
        return orjson.loads(cleaned.encode("utf-8", "replace"))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def get_objects(wire: object, key: str) -> list[JsonObject]:
    """Return the objects in a list; none if the field is no list."""
    return [row for row in get_list(wire, key) if isinstance(row, dict)]


def get_count(wire: Mapping[str, Any], key: str) -> int:
    """Return a number of tokens; 0 if it is not a number or out of range."""
    value = wire.get(key)
    # A bool is an int to `isinstance`, and no session has a trillion tokens.
    return value if type(value) is int and 0 <= value < 1 << 40 else 0


def hash_text(text: str) -> str:
    return blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()


def shorten_id(identifier: str) -> str:
    """Return an id as it is remembered: a very long one by its hash."""
    return identifier if len(identifier) <= _MAX_ID_LENGTH else hash_text(identifier)


def truncate_path(path: str) -> str:
    return path[:_MAX_PATH_LENGTH]


def forget_oldest(entries: dict[str, Any], limit: int) -> None:
    """Remove the entries that were added first until no more than these are left."""
    while len(entries) > limit:
        del entries[next(iter(entries))]


def strip_fenced(text: str) -> str:
    """Return a text without what hardwon had added to it."""
    return remove_between(text, FENCE_OPEN, FENCE_CLOSE)


def extract_typed_words(prompt: str) -> str:
    """Return the part of a prompt that a person typed, to the agent or to hardwon; callers tell the two apart."""
    if is_only_for_hardwon(prompt):
        return prompt
    return extract_agent_prompt(prompt)


def add_outcome(result: Step, text: str, *, failed: bool, denied: bool = False) -> Step:
    """Return a result with its text and how its call ended; one that a hook denied did not run, so it did not fail."""
    if is_hardwon_denial(text):
        return result._replace(denied=True)
    if denied:
        return result._replace(text=text, denied=True)
    return result._replace(text=strip_fenced(text), failed=failed)


def is_hardwon_denial(text: str) -> bool:
    """Return whether an error is a denial of ours, which comes back as the call's result."""
    return FENCE_OPEN in text and _DENIAL.search(text) is not None


def build_line_finder(document: bytes) -> LineFinder:
    """Return a function that finds on which line of a document a text stands, asked in the document's order."""
    offset = 0
    line = 1
    misses = 0

    def find_line(text: str) -> int:
        """Return the line of a text that follows the text found last; the line of the latter if there is none."""
        nonlocal offset, line, misses
        if not text or misses >= _MAX_MISSES:
            return line
        # 60 characters are enough to find a text, because texts are asked for in the document's order.
        escaped_start = orjson.dumps(text[:60])[1:-1]
        match_offset = document.find(escaped_start, offset)
        if match_offset < 0:
            misses += 1
        else:
            line += document.count(b"\n", offset, match_offset)
            offset = match_offset
        return line

    return find_line


def parse_opening_objects(head: bytes) -> list[JsonObject]:
    """Return the JSON objects at the starts of lines in a file's first bytes.

    The last one may be cut off: it has the keys so far, the unfinished one as None.
    """
    text = head.decode("utf-8-sig", "replace").lstrip()
    opening_objects = []
    for start in _OBJECT_START.finditer(text):
        wire: JsonObject = {}
        offset = start.start()
        while key_match := _OBJECT_KEY.match(text, offset):
            key = key_match[1]
            wire[key] = None
            try:
                wire[key], offset = _DECODER.raw_decode(text, key_match.end())
            except (ValueError, RecursionError):
                break  # the object is cut off here
        opening_objects.append(wire)
    return opening_objects


def create_counter() -> UsageCounter:
    """Return a counter to which nothing was added; `seen` says whether a transcript reports tokens at all."""
    return {"in": 0, "out": 0, "cached": 0, "latest": {}, "seen": False}


def count_usage(counter: UsageCounter, message: str, usage: TokenUsage) -> None:
    """Count what a message took, in place of what was counted for it before.

    Agents report a message's usage several times: with each of its blocks, or again when more of it is known. An empty
    counter counts nothing.
    """
    if not counter:
        return  # a caller that needs no tokens empties it
    latest = counter["latest"]
    message_id = shorten_id(message)
    previous_in, previous_out, previous_cached = latest.pop(message_id, (0, 0, 0))
    counter["in"] += usage.tokens_in - previous_in
    counter["out"] += usage.tokens_out - previous_out
    counter["cached"] += usage.tokens_cached - previous_cached
    if message_id:
        latest[message_id] = list(usage)
        forget_oldest(latest, _MAX_RECOUNTED)
    counter["seen"] = True


def get_total_usage(counter: Mapping[str, Any]) -> TokenUsage | None:
    """Return all that was counted; None if the transcript reports no tokens."""
    if not counter.get("seen"):
        return None
    return TokenUsage(counter["in"], counter["out"], counter["cached"])
