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

_KINDS = frozenset({"user", "gemini", "info", "warning", "error"})
_ENDED = frozenset({"success", "error", "cancelled", "completed"})
_SERVED = re.compile(r"(.+) \((.+) MCP Server\)")
_OPENING = re.compile(r"\s*<session_context>")
_WORKSPACE = re.compile(r"Workspace Directories:[^\w\n]*\n[^\S\n]*- (.+)")
_NAME = 200  # characters of a tool's name for people, which is searched for a server's
_DENIED_BY_HOOK = "Tool execution blocked: "
_PROGRAM = "System: Please continue."  # sent by the program when the model stopped half-way
_RECENT = 16  # messages that may still grow
_PAST = 1000  # messages that are known to be told
_MARKS = 100  # things told of a message
_HELD = 64 * 1024  # characters of an unfinished document that are stored


class Reader:
    """Owns what one chat has said so far."""

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        state = state or {}
        self.malformed: int = state.get("malformed", 0)
        self.session: str = state.get("session", "")
        self.agent: str = state.get("agent", "")
        self.cwd: str = state.get("cwd", "")
        self.told = {id: dict.fromkeys(told) for id, told in state.get("told", {}).items()}
        self.past = dict.fromkeys(state.get("past", ()))
        self.usage = token_usage.create_counter(state.get("usage"))
        self.held: list[str] = list(state.get("held", ()))  # a document whose end has not come

    def dump_state(self) -> dict[str, Any]:
        told = {id: list(told) for id, told in self.told.items()}
        counted = token_usage.create_counter(self.usage)
        return {**vars(self), "told": told, "past": list(self.past), "held": _storable(self.held), "usage": counted}

    def read_line(self, number: int, line: bytes) -> Iterator[Step]:
        if self.held or (number == 1 and line.removeprefix(BOM_UTF8).strip() == b"{"):
            self.held.append(line.decode("utf-8-sig", "replace").rstrip("\r\n"))
            if line.rstrip() != b"}":
                return
            line = "\n".join(self.held).encode("utf-8", "replace")
            self.held.clear()
        wire, bad = parse_line(line)
        self.malformed += bad
        document = isinstance(wire.get("messages"), list)
        yield from self._line(wire, build_line_finder(line) if document else lambda _: number)

    def _line(self, wire: JsonObject, where: LineFinder) -> Iterator[Step]:
        patch = wire.get("$set")
        wire = patch if isinstance(patch, dict) else wire
        self.session = shorten_id(get_text(wire, "sessionId")) or self.session
        if wire.get("kind") == "subagent":
            self.agent = self.session
        for message in get_objects(wire, "messages") if "messages" in wire else [wire]:
            id = shorten_id(get_text(message, "id"))
            if message.get("type") in ("user", "gemini") and id and hash_text(id) not in self.past:
                yield from self._message(id, message, where)

    def _message(self, id: str, message: JsonObject, where: LineFinder) -> Iterator[Step]:
        told, person = self._told(id), message.get("type") == "user"
        raw = join_text_parts(message.get("content"))
        if person and _OPENING.match(raw):
            workspace = _WORKSPACE.search(raw)
            self.cwd = truncate_path(workspace.group(1).strip()) if workspace else self.cwd
            return
        used = message.get("tokens")
        if isinstance(used, dict):
            token_usage.count_usage(self.usage, id, token_usage.parse_gemini_usage(used))
        said = extract_typed_words(extract_prompt(raw)) if person else extract_answer(raw)
        mark = hash_text(said)
        if said and mark not in told and not (person and (self.agent or said == _PROGRAM)):
            told[mark] = None
            at = get_text(message, "timestamp")
            yield self._step("person" if person else "agent", where(raw), id, at, text=said)
        equal: Counter[str] = Counter()
        for index, call in enumerate(get_objects(message, "toolCalls")):
            does = _does(id, call)
            equal[does["call"]] += 1
            does["call"] += f":{equal[does['call']]}" if equal[does["call"]] > 1 else ""
            yield from self._call(f"{id}:{shorten_id(get_text(call, 'id')) or index}", call, does, told, where)
        forget_oldest(told, _MARKS)

    def _told(self, id: str) -> dict[str, None]:
        """What has been told of a message, which becomes the latest; the oldest is then past."""
        told = self.told[id] = self.told.pop(id, {})
        if len(self.told) > _RECENT:
            self.past[hash_text(next(iter(self.told)))] = None
        forget_oldest(self.told, _RECENT)
        forget_oldest(self.past, _PAST)
        return told

    def _call(
        self, key: str, call: JsonObject, does: dict[str, str], told: dict[str, None], where: LineFinder
    ) -> Iterator[Step]:
        at, own = get_text(call, "timestamp"), key.partition(":")[2]
        if f"call:{own}" not in told:
            told[f"call:{own}"] = None
            yield self._step("call", where(get_text(call, "id")), f"call:{key}", at, **does)
        if get_text(call, "status") in _ENDED and f"result:{own}" not in told:
            told[f"result:{own}"] = None
            ended = _outcome(call)
            yield self._step("result", where(_raw(call)), f"result:{key}", at, call=does["call"], **ended)

    def _step(self, kind: StepKind, line: int, id: str, at: str, *, place: str = "", **more: Any) -> Step:
        cwd = truncate_path(resolve_call_cwd(place, self.cwd))
        return Step(kind, line, id, at, self.session, self.agent, cwd, **more)


def find_transcript_folders(environment: Mapping[str, str], home: str) -> list[str]:
    return [os.path.join(environment.get("GEMINI_CLI_HOME") or home, ".gemini", "tmp")]


def is_transcript_path(path: str) -> bool:
    name = os.path.basename(path)
    return name.startswith("session-") and name.endswith((".json", ".jsonl"))


def is_transcript_head(head: bytes) -> bool:
    return any(
        {"sessionId", "projectHash"} <= wire.keys()
        or "$set" in wire
        or ({"id", "timestamp", "content"} <= wire.keys() and get_text(wire, "type") in _KINDS)
        for wire in parse_opening_objects(head)
    )


def _storable(held: list[str]) -> list[str]:
    """As much of an unfinished document as may be stored: all or its first line, by which the rest is malformed."""
    return held[:] if sum(map(len, held)) <= _HELD else held[:1]


def _does(message: str, call: JsonObject) -> dict[str, str]:
    """What a call would do, in the words all hosts share, and its id."""
    served = _SERVED.fullmatch(get_text(call, "displayName")[:_NAME])
    own, server = served.groups() if served else ("", "")
    tool, given = normalize_call(get_text(call, "name"), get_object(call, "args"), server, own)
    command, path, content = said = extract_call_fields(tool, given)
    place = get_text(given, "dir_path")
    return {
        "call": build_call_id(message, tool, said),
        "place": place,
        "tool": tool,
        "command": command,
        "path": path,
        "content": content,
    }


def _outcome(call: JsonObject) -> dict[str, Any]:
    """The fields of a step that say how a call ended: its text, and whether it failed or was stopped, and by whom."""
    raw, wrong = _raw(call), call.get("status") == "error" or bool(_responses(call.get("result"))[1])
    if wrong and is_hardwon_denial(raw):
        return {"text": "", "denied": True}
    text, failed = parse_outcome(get_text(call, "name"), raw)
    if wrong and raw.startswith(_DENIED_BY_HOOK):
        return {"text": text, "denied": True}
    if call.get("status") == "cancelled" or raw.startswith("[Operation Cancelled]"):
        return {"text": text, "refused": " "}
    return {"text": text, "failed": failed or wrong}


def _raw(call: JsonObject) -> str:
    outputs, errors = _responses(call.get("result"))
    return "\n".join(errors or outputs) or get_text(call, "resultDisplay")


def _responses(result: object) -> tuple[list[str], list[str]]:
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
