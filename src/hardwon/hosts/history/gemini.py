"""Gemini CLI: `~/.gemini/tmp/<project>/chats/session-*`, JSON lines today, one JSON document until early 2026.

In lines a message is written again under the same id when more of it is known: first the words, then the tool calls
with their results. So a step is told when it is first whole (words when there are any, a call when it appears, its
result when it has ended) and told again only if its words changed, under the same id. What has been told is kept
for the last messages alone, since a message grows while it is the last one; a resumed session may repeat older ones,
equal in id. `$rewindTo` takes nothing back: it happened.

A document is recognised by its first line, a lone brace, and read when its last brace has come; it is rewritten as a
whole, so whoever reads starts anew. The folder is in neither form; it is taken from the context the program opens with.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from hashlib import blake2b
from typing import Any

import orjson

from hardwon.hosts.claude_code import _first, _strings, _text
from hardwon.hosts.history import Kind, Step
from hardwon.hosts.history.codex import is_ours, loads, unfenced

NAME = "gemini"
WHOLE = False

Where = Callable[[str], int]  # the line on which a text stands

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
_ENDED = frozenset({"success", "error", "cancelled", "completed"})
_SERVED = re.compile(r"(.+) \((.+) MCP Server\)")
_HOOKED = re.compile(r"<hook_context>.*?(?:</hook_context>|\Z)", re.DOTALL)
_OPENING = re.compile(r"\s*<session_context>")
_WORKSPACE = re.compile(r"Workspace Directories:\W*\n\s*- (.+)")
_EXIT = re.compile(r"^Exit Code: (-?\d+)", re.MULTILINE)
_FRAME = re.compile(
    r"\ACommand: (?s:.*?)\nDirectory: .*\n|</?untrusted_context>\n?|^Error: \(none\)\n?"
    r"|^(?:Signal|Background PIDs|Process Group PGID): .*\n?|^\[System\] Tool input parameters were modified.*",
    re.MULTILINE,
)
_PROGRAM = "System: Please continue."  # sent by the program when the model stopped half-way
_RECENT = 16  # messages


class Reader:
    """Owns what one chat has said so far."""

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        state = state or {}
        self.malformed: int = state.get("malformed", 0)
        self.session: str = state.get("session", "")
        self.agent: str = state.get("agent", "")
        self.cwd: str = state.get("cwd", "")
        self.told: dict[str, list[str]] = {id: list(told) for id, told in state.get("told", {}).items()}
        self.held: str = state.get("held", "")  # a document whose end has not come

    def state(self) -> dict[str, Any]:
        return {**vars(self), "told": {id: list(told) for id, told in self.told.items()}}

    def read(self, number: int, line: bytes) -> Iterator[Step]:
        if self.held or (number == 1 and line.strip() == b"{"):
            self.held += line.decode("utf-8", "replace").rstrip("\r\n") + "\n"
            if line.rstrip() != b"}":
                return
            line, self.held = self.held.encode("utf-8", "replace"), ""
        if not line.strip():
            return
        try:
            wire = loads(line)
        except (ValueError, RecursionError):
            self.malformed += 1
            return
        if isinstance(wire, dict):
            document = isinstance(wire.get("messages"), list)
            yield from self._line(wire, lines_of(line) if document else lambda _: number)

    def _line(self, wire: dict[str, Any], where: Where) -> Iterator[Step]:
        patch = wire.get("$set")
        wire = patch if isinstance(patch, dict) else wire
        self.session = _text(wire, "sessionId") or self.session
        if wire.get("kind") == "subagent":
            self.agent = self.session
        messages = wire.get("messages")
        for message in messages if isinstance(messages, list) else [wire]:
            if isinstance(message, dict) and _text(message, "id"):
                yield from self._message(message, where)

    def _message(self, message: dict[str, Any], where: Where) -> Iterator[Step]:
        id, kind = _text(message, "id"), message.get("type")
        if kind not in ("user", "gemini"):
            return
        told = self.told[id] = self.told.pop(id, [])
        while len(self.told) > _RECENT:
            del self.told[next(iter(self.told))]
        raw = _words(message.get("content"))
        if kind == "user" and _OPENING.match(raw):
            workspace = _WORKSPACE.search(raw)
            self.cwd = workspace.group(1).strip() if workspace else self.cwd
            return
        words = unfenced(_HOOKED.sub("", raw)).strip()
        mark = blake2b(words.encode("utf-8", "replace"), digest_size=8).hexdigest()
        if words and mark not in told and not (kind == "user" and (self.agent or words == _PROGRAM)):
            told.append(mark)
            line = where(raw)
            yield self._step("person" if kind == "user" else "agent", line, id, _text(message, "timestamp"), text=words)
        calls = message.get("toolCalls")
        for call in calls if isinstance(calls, list) else []:
            if isinstance(call, dict):
                yield from self._call(id, call, told, where)

    def _call(self, message: str, call: dict[str, Any], told: list[str], where: Where) -> Iterator[Step]:
        own, at = _text(call, "id"), _text(call, "timestamp")
        key = f"{message}:{own}"
        if f"call:{own}" not in told:
            told.append(f"call:{own}")
            yield self._step("call", where(own), f"call:{key}", at, call=key, **_asked(call))
        if _text(call, "status") in _ENDED and f"result:{own}" not in told:
            told.append(f"result:{own}")
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


def lines_of(document: bytes, start: int = 0) -> Where:
    """Finds on which line of a document a text stands, asked in the document's order."""
    place, line = start, 1 + document.count(b"\n", 0, start)

    def where(text: str) -> int:
        nonlocal place, line
        found = document.find(orjson.dumps(text[:60])[1:-1], place) if text else -1
        if found >= 0:
            line += document.count(b"\n", place, found)
            place = found
        return line

    return where


def _words(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(_text(part, "text") for part in parts if isinstance(part, dict) and "text" in part)


def _asked(call: dict[str, Any]) -> dict[str, str]:
    """What a call would do, in the words all hosts share."""
    name, given = _text(call, "name"), call.get("args")
    given = given if isinstance(given, dict) else {}
    served = _SERVED.fullmatch(_text(call, "displayName"))
    if served or name.startswith("mcp_"):
        server, _, tool = name.removeprefix("mcp_").partition("_")
        tool, server = served.groups() if served else (tool, server)
        return {"tool": f"mcp__{server}__{tool}", "content": "\n".join(_strings(given))}
    return {
        "tool": _TOOLS.get(name, name),
        "command": _text(given, "command"),
        "path": _first(given, "file_path", "absolute_path", "dir_path", "path"),
        "content": _first(given, "new_string", "content", "pattern", "query", "url", "prompt"),
    }


def _outcome(call: dict[str, Any]) -> tuple[str, bool, str]:
    """A result's text, whether it failed, and whether a person stopped it."""
    outputs, errors = _responses(call.get("result"))
    text = "\n".join(errors or outputs) or _text(call, "resultDisplay")
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
            inner = wrapped.get("response") if isinstance(wrapped, dict) else part
            inner = inner if isinstance(inner, dict) else {}
            errors += _strings(inner.get("error"))
            outputs += _strings(inner.get("output")) or _strings(inner.get("text"))
    return outputs, errors


def _plain(text: str) -> str:
    return unfenced(_FRAME.sub("", _HOOKED.sub("", text))).strip().removeprefix("Output: ")
