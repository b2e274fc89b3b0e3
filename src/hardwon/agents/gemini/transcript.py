"""Gemini CLI: `~/.gemini/tmp/<project>/chats/session-*`, JSON lines today, one JSON document until early 2026.

In lines a message is written again under the same id when more of it is known: first the words, then the tool calls
with their results. So a step is told when it is first whole (words when there are any, a call when it appears, its
result when it has ended) and told again only if its words changed, under the same id. What has been told is kept
for the last messages alone, since a message grows while it is the last one; of older ones only that they are past, so
that a resumed session which writes all of them again tells nothing twice. `$rewindTo` takes nothing back: it happened.

A document is recognised by its first line, a lone brace, and read when its last brace has come; it is rewritten as a
whole, so whoever reads starts anew. The folder is in neither form; it is taken from the context the program opens with.
"""

from __future__ import annotations

import os
import re
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from hardwon.agents import token_usage
from hardwon.agents.fields import collect_strings, get_object, get_text
from hardwon.agents.gemini.tools import (
    build_call_id,
    extract_answer,
    extract_call_fields,
    extract_prompt,
    join_text_parts,
    normalize_call,
    parse_outcome,
    resolve_call_cwd,
)
from hardwon.agents.transcript_json import (
    JsonObject,
    LineFinder,
    build_line_finder,
    extract_typed_words,
    forget_oldest,
    get_objects,
    hash_text,
    is_hardwon_denial,
    parse_line,
    parse_opening_objects,
    shorten_id,
    truncate_path,
)
from hardwon.agents.transcript_steps import Step, StepKind

NAME = "gemini"

_MESSAGE_KINDS = frozenset({"user", "gemini", "info", "warning", "error"})
_END_STATUSES = frozenset({"success", "error", "cancelled", "completed"})
_MCP_DISPLAY_NAME = re.compile(r"(.+) \((.+) MCP Server\)")
_CONTEXT_OPENING = re.compile(r"\s*<session_context>")
_WORKSPACE = re.compile(r"Workspace Directories:[^\w\n]*\n[^\S\n]*- (.+)")
_MAX_NAME_LENGTH = 200  # characters of a tool's name for people, which is searched for a server's
_DENIED_BY_HOOK = "Tool execution blocked: "
_PROGRAM_PROMPT = "System: Please continue."  # sent by the program when the model stopped half-way
_MAX_RECENT = 16  # messages that may still grow
_MAX_PAST = 1000  # messages that are known to be told
_MAX_MARKS = 100  # things told of a message
_MAX_HELD_LENGTH = 64 * 1024  # characters of an unfinished document that are stored


class Reader:
    """Owns what one chat has said so far."""

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        state = state or {}
        self.malformed: int = state.get("malformed", 0)
        self.session: str = state.get("session", "")
        self.agent: str = state.get("agent", "")
        self.cwd: str = state.get("cwd", "")
        self.told = {message_id: dict.fromkeys(marks) for message_id, marks in state.get("told", {}).items()}
        self.past = dict.fromkeys(state.get("past", ()))
        self.usage = token_usage.create_counter(state.get("usage"))
        self.held: list[str] = list(state.get("held", ()))  # a document whose end has not come

    def dump_state(self) -> dict[str, Any]:
        marks = {message_id: list(marks) for message_id, marks in self.told.items()}
        usage = token_usage.create_counter(self.usage)
        return {
            **vars(self),
            "told": marks,
            "past": list(self.past),
            "held": _limit_held_lines(self.held),
            "usage": usage,
        }

    def read_line(self, number: int, line: bytes) -> Iterator[Step]:
        if self.held or (number == 1 and line.removeprefix(BOM_UTF8).strip() == b"{"):
            self.held.append(line.decode("utf-8-sig", "replace").rstrip("\r\n"))
            if line.rstrip() != b"}":
                return
            line = "\n".join(self.held).encode("utf-8", "replace")
            self.held.clear()
        wire, malformed = parse_line(line)
        self.malformed += malformed
        is_document = isinstance(wire.get("messages"), list)
        yield from self._read_record(wire, build_line_finder(line) if is_document else lambda _: number)

    def _read_record(self, wire: JsonObject, find_line: LineFinder) -> Iterator[Step]:
        patch = wire.get("$set")
        wire = patch if isinstance(patch, dict) else wire
        self.session = shorten_id(get_text(wire, "sessionId")) or self.session
        if wire.get("kind") == "subagent":
            self.agent = self.session
        for message in get_objects(wire, "messages") if "messages" in wire else [wire]:
            message_id = shorten_id(get_text(message, "id"))
            if message.get("type") in ("user", "gemini") and message_id and hash_text(message_id) not in self.past:
                yield from self._read_message(message_id, message, find_line)

    def _read_message(self, message_id: str, message: JsonObject, find_line: LineFinder) -> Iterator[Step]:
        marks, is_person = self._get_message_marks(message_id), message.get("type") == "user"
        raw_text = join_text_parts(message.get("content"))
        if is_person and _CONTEXT_OPENING.match(raw_text):
            workspace = _WORKSPACE.search(raw_text)
            self.cwd = truncate_path(workspace.group(1).strip()) if workspace else self.cwd
            return
        usage = message.get("tokens")
        if isinstance(usage, dict):
            token_usage.count_usage(self.usage, message_id, token_usage.parse_gemini_usage(usage))
        text = extract_typed_words(extract_prompt(raw_text)) if is_person else extract_answer(raw_text)
        mark = hash_text(text)
        if text and mark not in marks and not (is_person and (self.agent or text == _PROGRAM_PROMPT)):
            marks[mark] = None
            at = get_text(message, "timestamp")
            yield self._build_step("person" if is_person else "agent", find_line(raw_text), message_id, at, text=text)
        call_counts: Counter[str] = Counter()
        for index, call in enumerate(get_objects(message, "toolCalls")):
            call_fields = _read_call_fields(message_id, call)
            call_counts[call_fields["call"]] += 1
            call_fields["call"] += (
                f":{call_counts[call_fields['call']]}" if call_counts[call_fields["call"]] > 1 else ""
            )
            yield from self._read_call(
                f"{message_id}:{shorten_id(get_text(call, 'id')) or index}", call, call_fields, marks, find_line
            )
        forget_oldest(marks, _MAX_MARKS)

    def _get_message_marks(self, message_id: str) -> dict[str, None]:
        """What has been told of a message, which becomes the latest; the oldest is then past."""
        marks = self.told[message_id] = self.told.pop(message_id, {})
        if len(self.told) > _MAX_RECENT:
            self.past[hash_text(next(iter(self.told)))] = None
        forget_oldest(self.told, _MAX_RECENT)
        forget_oldest(self.past, _MAX_PAST)
        return marks

    def _read_call(
        self, key: str, call: JsonObject, call_fields: dict[str, str], marks: dict[str, None], find_line: LineFinder
    ) -> Iterator[Step]:
        at, call_key = get_text(call, "timestamp"), key.partition(":")[2]
        if f"call:{call_key}" not in marks:
            marks[f"call:{call_key}"] = None
            yield self._build_step("call", find_line(get_text(call, "id")), f"call:{key}", at, **call_fields)
        if get_text(call, "status") in _END_STATUSES and f"result:{call_key}" not in marks:
            marks[f"result:{call_key}"] = None
            outcome = _read_outcome(call)
            yield self._build_step(
                "result", find_line(_get_raw_text(call)), f"result:{key}", at, call=call_fields["call"], **outcome
            )

    def _build_step(self, kind: StepKind, line: int, step_id: str, at: str, *, place: str = "", **fields: Any) -> Step:
        cwd = truncate_path(resolve_call_cwd(place, self.cwd))
        return Step(kind, line, step_id, at, self.session, self.agent, cwd, **fields)


def find_transcript_folders(environment: Mapping[str, str], home: str) -> list[str]:
    return [os.path.join(environment.get("GEMINI_CLI_HOME") or home, ".gemini", "tmp")]


def is_transcript_path(path: str) -> bool:
    name = os.path.basename(path)
    return name.startswith("session-") and name.endswith((".json", ".jsonl"))


def is_transcript_head(head: bytes) -> bool:
    return any(
        {"sessionId", "projectHash"} <= wire.keys()
        or "$set" in wire
        or ({"id", "timestamp", "content"} <= wire.keys() and get_text(wire, "type") in _MESSAGE_KINDS)
        for wire in parse_opening_objects(head)
    )


def _limit_held_lines(lines: list[str]) -> list[str]:
    """As much of an unfinished document as may be stored: all or its first line, by which the rest is malformed."""
    return lines[:] if sum(map(len, lines)) <= _MAX_HELD_LENGTH else lines[:1]


def _read_call_fields(message: str, call: JsonObject) -> dict[str, str]:
    """What a call would do, in the words all hosts share, and its id."""
    match = _MCP_DISPLAY_NAME.fullmatch(get_text(call, "displayName")[:_MAX_NAME_LENGTH])
    mcp_tool, server = match.groups() if match else ("", "")
    tool, tool_input = normalize_call(get_text(call, "name"), get_object(call, "args"), server, mcp_tool)
    command, path, content = call_fields = extract_call_fields(tool, tool_input)
    call_folder = get_text(tool_input, "dir_path")
    return {
        "call": build_call_id(message, tool, call_fields),
        "place": call_folder,
        "tool": tool,
        "command": command,
        "path": path,
        "content": content,
    }


def _read_outcome(call: JsonObject) -> dict[str, Any]:
    """The fields of a step that say how a call ended: its text, and whether it failed or was stopped, and by whom."""
    raw_text, is_error = (
        _get_raw_text(call),
        call.get("status") == "error" or bool(_split_responses(call.get("result"))[1]),
    )
    if is_error and is_hardwon_denial(raw_text):
        return {"text": "", "denied": True}
    text, failed = parse_outcome(get_text(call, "name"), raw_text)
    if is_error and raw_text.startswith(_DENIED_BY_HOOK):
        return {"text": text, "denied": True}
    if call.get("status") == "cancelled" or raw_text.startswith("[Operation Cancelled]"):
        return {"text": text, "refused": " "}
    return {"text": text, "failed": failed or is_error}


def _get_raw_text(call: JsonObject) -> str:
    outputs, errors = _split_responses(call.get("result"))
    return "\n".join(errors or outputs) or get_text(call, "resultDisplay")


def _split_responses(result: object) -> tuple[list[str], list[str]]:
    outputs, errors = [], []
    for part in result if isinstance(result, list) else [result]:
        if isinstance(part, str):
            outputs.append(part)
        elif isinstance(part, dict):
            wrapped = part.get("functionResponse")
            inner = get_object(wrapped, "response") if isinstance(wrapped, dict) else part
            errors += collect_strings(inner.get("error"))
            outputs += collect_strings(inner.get("output")) or collect_strings(inner.get("text"))
    return outputs, errors
