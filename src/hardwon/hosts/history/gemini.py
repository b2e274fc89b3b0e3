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
from collections.abc import Iterator, Mapping
from typing import Any

from hardwon.core.fence import outside
from hardwon.hosts.fields import first_of, strings_in, text_of
from hardwon.hosts.history import Kind, Step
from hardwon.hosts.history.wire import (
    Where,
    Wire,
    digest,
    forget_oldest,
    is_ours,
    kept,
    kept_path,
    lines_of,
    map_of,
    openings,
    parsed,
    rows_of,
    unfenced,
)

NAME = "gemini"
WHOLE = False

_TOOLS = {
    "run_shell_command": "Bash",
    "read_background_output": "BashOutput",
    "read_file": "Read",
    "read_many_files": "Read",
    "write_file": "Write",
    "replace": "Edit",
    "edit": "Edit",
    "glob": "Glob",
    "grep_search": "Grep",
    "search_file_content": "Grep",
    "list_directory": "LS",
    "web_fetch": "WebFetch",
    "google_web_search": "WebSearch",
    "write_todos": "TodoWrite",
    "invoke_agent": "Task",
    "activate_skill": "Skill",
}
_KINDS = frozenset({"user", "gemini", "info", "warning", "error"})
_ENDED = frozenset({"success", "error", "cancelled", "completed"})
_SERVED = re.compile(r"(.+) \((.+) MCP Server\)")
_HOOKED = ("<hook_context>", "</hook_context>")
_OPENING = re.compile(r"\s*<session_context>")
_WORKSPACE = re.compile(r"Workspace Directories:[^\w\n]*\n[^\S\n]*- (.+)")
_EXIT = re.compile(r"^Exit Code: (-?\d+)", re.MULTILINE)
_FRAME = re.compile(
    r"\ACommand: (?s:.*?)\nDirectory: .*\n|</?untrusted_context>\n?|^Error: \(none\)\n?"
    r"|^(?:Signal|Background PIDs|Process Group PGID): .*\n?|^\[System\] Tool input parameters were modified.*",
    re.MULTILINE,
)
_NAME = 200  # characters of a tool's name for people, which is searched for a server's
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
        self.held: list[str] = list(state.get("held", ()))  # a document whose end has not come

    def state(self) -> dict[str, Any]:
        told = {id: list(told) for id, told in self.told.items()}
        return {**vars(self), "told": told, "past": list(self.past), "held": _storable(self.held)}

    def read(self, number: int, line: bytes) -> Iterator[Step]:
        if self.held or (number == 1 and line.removeprefix(BOM_UTF8).strip() == b"{"):
            self.held.append(line.decode("utf-8-sig", "replace").rstrip("\r\n"))
            if line.rstrip() != b"}":
                return
            line = "\n".join(self.held).encode("utf-8", "replace")
            self.held.clear()
        wire, bad = parsed(line)
        self.malformed += bad
        document = isinstance(wire.get("messages"), list)
        yield from self._line(wire, lines_of(line) if document else lambda _: number)

    def _line(self, wire: Wire, where: Where) -> Iterator[Step]:
        patch = wire.get("$set")
        wire = patch if isinstance(patch, dict) else wire
        self.session = kept(text_of(wire, "sessionId")) or self.session
        if wire.get("kind") == "subagent":
            self.agent = self.session
        for message in rows_of(wire, "messages") if "messages" in wire else [wire]:
            id = kept(text_of(message, "id"))
            if message.get("type") in ("user", "gemini") and id and digest(id) not in self.past:
                yield from self._message(id, message, where)

    def _message(self, id: str, message: Wire, where: Where) -> Iterator[Step]:
        told, person = self._told(id), message.get("type") == "user"
        raw = _words(message.get("content"))
        if person and _OPENING.match(raw):
            workspace = _WORKSPACE.search(raw)
            self.cwd = kept_path(workspace.group(1).strip()) if workspace else self.cwd
            return
        words = unfenced(outside(raw, *_HOOKED)).strip()
        mark = digest(words)
        if words and mark not in told and not (person and (self.agent or words == _PROGRAM)):
            told[mark] = None
            at = text_of(message, "timestamp")
            yield self._step("person" if person else "agent", where(raw), id, at, text=words)
        for index, call in enumerate(rows_of(message, "toolCalls")):
            yield from self._call(id, kept(text_of(call, "id")) or str(index), call, told, where)
        forget_oldest(told, _MARKS)

    def _told(self, id: str) -> dict[str, None]:
        """What has been told of a message, which becomes the latest; the oldest is then past."""
        told = self.told[id] = self.told.pop(id, {})
        if len(self.told) > _RECENT:
            self.past[digest(next(iter(self.told)))] = None
        forget_oldest(self.told, _RECENT)
        forget_oldest(self.past, _PAST)
        return told

    def _call(self, message: str, own: str, call: Wire, told: dict[str, None], where: Where) -> Iterator[Step]:
        at, key = text_of(call, "timestamp"), f"{message}:{own}"
        if f"call:{own}" not in told:
            told[f"call:{own}"] = None
            yield self._step("call", where(text_of(call, "id")), f"call:{key}", at, call=key, **_asked(call))
        if text_of(call, "status") in _ENDED and f"result:{own}" not in told:
            told[f"result:{own}"] = None
            text, failed, refused = _outcome(call)
            ended = {"text": _plain(text), "failed": failed, "refused": refused}
            yield self._step("result", where(text), f"result:{key}", at, call=key, **ended)

    def _step(self, kind: Kind, line: int, id: str, at: str, **more: Any) -> Step:
        return Step(kind, line, id, at, self.session, self.agent, self.cwd, **more)


def folders(environment: Mapping[str, str], home: str) -> list[str]:
    return [os.path.join(home, ".gemini", "tmp")]


def is_transcript(path: str) -> bool:
    name = os.path.basename(path)
    return name.startswith("session-") and name.endswith((".json", ".jsonl"))


def opens(head: bytes) -> bool:
    return any(
        {"sessionId", "projectHash"} <= wire.keys()
        or "$set" in wire
        or ({"id", "timestamp", "content"} <= wire.keys() and text_of(wire, "type") in _KINDS)
        for wire in openings(head)
    )


def _storable(held: list[str]) -> list[str]:
    """As much of an unfinished document as may be stored: all or its first line, by which the rest is malformed."""
    return held[:] if sum(map(len, held)) <= _HELD else held[:1]


def _words(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(text_of(part, "text") for part in parts if isinstance(part, dict) and "text" in part)


def _asked(call: Wire) -> dict[str, str]:
    """What a call would do, in the words all hosts share."""
    name, given = text_of(call, "name"), map_of(call, "args")
    served = _SERVED.fullmatch(text_of(call, "displayName")[:_NAME])
    if served or name.startswith("mcp_"):
        server, _, tool = name.removeprefix("mcp_").partition("_")
        tool, server = served.groups() if served else (tool, server)
        return {"tool": f"mcp__{server}__{tool}", "content": "\n".join(strings_in(given))}
    return {
        "tool": _TOOLS.get(name, name),
        "command": text_of(given, "command"),
        "path": first_of(given, "file_path", "absolute_path", "dir_path", "path"),
        "content": first_of(given, "new_string", "content", "pattern", "query", "url", "prompt"),
    }


def _outcome(call: Wire) -> tuple[str, bool, str]:
    """A result's text, whether it failed, and whether a person stopped it."""
    outputs, errors = _responses(call.get("result"))
    text = "\n".join(errors or outputs) or text_of(call, "resultDisplay")
    status = call.get("status")
    if status == "cancelled" or text.startswith("[Operation Cancelled]"):
        return text, False, " "
    code = _EXIT.search(text) if call.get("name") == "run_shell_command" else None
    failed = status == "error" or bool(errors) or (code is not None and code.group(1) != "0")
    return text, failed and not is_ours(text), ""


def _responses(result: object) -> tuple[list[str], list[str]]:
    outputs, errors = [], []
    for part in result if isinstance(result, list) else [result]:
        if isinstance(part, str):
            outputs.append(part)
        elif isinstance(part, dict):
            wrapped = part.get("functionResponse")
            inner = map_of(wrapped, "response") if isinstance(wrapped, dict) else part
            errors += strings_in(inner.get("error"))
            outputs += strings_in(inner.get("output")) or strings_in(inner.get("text"))
    return outputs, errors


def _plain(text: str) -> str:
    return unfenced(_FRAME.sub("", outside(text, *_HOOKED))).strip().removeprefix("Output: ")
