"""Claude Code's transcripts: JSON lines in `projects/<folder>/<session>.jsonl`, sub-agents in files of their own.

Only four kinds of lines say anything: `user` (prompts, tool results), `assistant`, `system` (where it was compacted)
and the attachment of a prompt typed ahead. The rest is parsed and dropped: telling it by its first bytes was measured
to cost as much as it saves, and would not notice damage. `progress` holds copies of a sub-agent's messages.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from hashlib import blake2b
from typing import Any

import orjson

from hardwon.core.fence import CLOSE, OPEN
from hardwon.hosts.claude_code import _ALIASES, _content, _first, _text
from hardwon.hosts.history import Step

NAME = "claude-code"
WHOLE = False

Place = tuple[str, str, str, str]  # when, session, sub-agent, folder: a step's fields after its id

_CHAINS = 64  # how far back a line of an inline sub-agent looks for its parent

_REMINDER = ("<system-reminder>", "</system-reminder>")
_BESIDE = (
    _REMINDER,
    ("<ide_opened_file>", "</ide_opened_file>"),
    ("<ide_selection>", "</ide_selection>"),
    ("<ide_diagnostics>", "</ide_diagnostics>"),
)
# A line with one of these came from the program; a command's line also holds the prompt that the command stands for.
_PROGRAM = (
    "<command-",
    "<local-command-",
    "<bash-input>",
    "<bash-stdout>",
    "<bash-stderr>",
    "<task-notification>",
    "<teammate-message",
    "<user-memory-input>",
    "<user-prompt-submit-hook>",
    "Caveat: The messages below were generated",
    "[Request interrupted by user",
    "Stop hook feedback:",
    "This session is being continued from a previous conversation",
)

_EXITS = ("Exit code ", "<retrieval_status>", "<status>")
_REFUSED = (
    "The user doesn't want to proceed with this tool use",
    "The user doesn't want to take this action right now",
    "Permission for this tool use was denied. The tool use was rejected",
    "The agent proposed a plan that was rejected by the user",
    "[Request interrupted by user for tool use]",
)
_WORDS_FOLLOW = ("user said:", "the following reason for the rejection:")
_NOT_THEIRS = "Note: The user's next message may contain a correction or preference"

# Up to 2.0.x a person's reason is the whole error, with nothing to tell it from a program's but how people talk.
_BARE_VERSIONS = ("1.", "2.0.")
_BARE_LENGTH = 400
_TALK = frozenset(
    {"i", "i'm", "i'd", "i'll", "we", "we're", "we'll", "you", "you're", "your", "my", "our", "me", "us"}
    | {"please", "let's", "lets", "don't", "wait", "actually", "why"}
)
_PROGRAMS_TALK = ("Claude ", "File ", "Found ", "This ", "The user", "To ", "Working directory", "Permission")


class Reader:
    """Remembers the session and folder last named, and which inline sub-agent the latest lines belong to."""

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        self.malformed = 0
        known = dict(state or {})
        self._session = _text(known, "session")
        self._cwd = _text(known, "cwd")
        self._chains: dict[str, str] = dict(known.get("chains") or ())

    def state(self) -> dict[str, Any]:
        return {"session": self._session, "cwd": self._cwd, "chains": [list(link) for link in self._chains.items()]}

    def read(self, number: int, line: bytes) -> Iterator[Step]:
        try:
            wire = orjson.loads(line)
        except ValueError:
            wire = _mended(line)
            if wire is None:
                self.malformed += bool(line.strip())
        if not isinstance(wire, dict):
            return iter(())
        steps = _STEPS.get(str(wire.get("type")))
        return steps(number, _id(wire, line), self._place(wire), wire) if steps else iter(())

    def _place(self, wire: dict[str, Any]) -> Place:
        if wire.get("sessionId") != self._session:
            self._session = _text(wire, "sessionId") or self._session
        if wire.get("cwd") != self._cwd:
            self._cwd = _text(wire, "cwd") or self._cwd
        agent = _text(wire, "agentId") if "agentId" in wire else ""
        if not agent and wire.get("isSidechain"):
            agent = self._chain(_text(wire, "uuid"), _text(wire, "parentUuid"))
        return _text(wire, "timestamp"), self._session, agent, self._cwd

    def _chain(self, uuid: str, parent: str) -> str:
        """1.0.x wrote sub-agents into the session's file without naming them: the first line's uuid is the name."""
        root = self._chains.get(parent) or parent or uuid or "sidechain"
        self._chains[uuid] = root
        if len(self._chains) > _CHAINS:
            del self._chains[next(iter(self._chains))]
        return root


def folders(environment: Mapping[str, str], home: str) -> list[str]:
    return [os.path.join(environment.get("CLAUDE_CONFIG_DIR") or os.path.join(home, ".claude"), "projects")]


def is_transcript(path: str) -> bool:
    return path.endswith(".jsonl")


def _mended(line: bytes) -> Any:
    """What orjson refuses and others wrote: bytes that are not UTF-8, half a surrogate pair, a mark at the start."""
    try:
        value = json.loads(line.decode("utf-8-sig", "replace"))
        return orjson.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None


def _id(wire: dict[str, Any], line: bytes) -> str:
    """The line's uuid; a line without one is known by what it says."""
    if uuid := _text(wire, "uuid"):
        return uuid
    return blake2b(line.strip(), digest_size=12).hexdigest()


def _said(number: int, uuid: str, place: Place, wire: dict[str, Any]) -> Iterator[Step]:
    """An assistant's text and calls; stubs that stand for an error of the API are nobody's words."""
    message = wire.get("message")
    if not isinstance(message, dict) or message.get("model") == "<synthetic>" or wire.get("isApiErrorMessage"):
        return
    for index, block in enumerate(_blocks(message.get("content"))):
        kind = block.get("type")
        if kind == "text":
            if text := _outside(_text(block, "text"), OPEN, CLOSE).strip():
                yield Step("agent", number, f"{uuid}.{index}", *place, text=text)
        elif kind == "tool_use":
            yield _call(number, f"{uuid}.{index}", place, block)


def _call(number: int, uuid: str, place: Place, block: dict[str, Any]) -> Step:
    given = block.get("input")
    given = given if isinstance(given, dict) else {}
    tool = _text(block, "name")
    call, command = _text(block, "id"), _text(given, "command")
    if tool == "Bash":  # a third of all calls, and it has neither path nor content
        return Step("call", number, uuid, *place, call, tool, command)
    path = _first(given, "file_path", "notebook_path", "path", "glob")
    return Step("call", number, uuid, *place, call, _ALIASES.get(tool, tool), command, path, _content(tool, given))


def _received(number: int, uuid: str, place: Place, wire: dict[str, Any]) -> Iterator[Step]:
    """What came to the assistant under the name of the user: tool results, and at times a person's words."""
    message = wire.get("message")
    if not isinstance(message, dict) or wire.get("isCompactSummary"):
        return
    blocks = _blocks(message.get("content"))
    spoken = False
    for index, block in enumerate(blocks):
        if block.get("type") == "tool_result":
            yield _result(number, f"{uuid}.{index}", place, wire, block)
        else:
            spoken = True
    if spoken:
        yield from _prompts(number, uuid, place, wire, blocks)


def _typed_ahead(number: int, uuid: str, place: Place, wire: dict[str, Any]) -> Iterator[Step]:
    """A prompt typed while the assistant was at work: it is in no `user` line."""
    attachment = wire.get("attachment")
    if not isinstance(attachment, dict) or attachment.get("type") != "queued_command":
        return
    if _may_be_typed(attachment) and attachment.get("commandMode", "prompt") == "prompt":
        yield from _prompts(number, uuid, place, wire, _blocks(attachment.get("prompt")))


def _compacted(number: int, uuid: str, place: Place, wire: dict[str, Any]) -> Iterator[Step]:
    if wire.get("subtype") == "compact_boundary":
        yield Step("compacted", number, uuid, *place)


_STEPS: dict[str, Callable[[int, str, Place, dict[str, Any]], Iterator[Step]]] = {
    "assistant": _said,
    "user": _received,
    "attachment": _typed_ahead,
    "system": _compacted,
}


def _blocks(content: object) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    given = content if isinstance(content, list) else []
    return [block if isinstance(block, dict) else {} for block in given]


def _prompts(
    number: int, uuid: str, place: Place, wire: dict[str, Any], blocks: list[dict[str, Any]]
) -> Iterator[Step]:
    texts = [(index, _text(block, "text")) for index, block in enumerate(blocks) if block.get("type") == "text"]
    if not texts or not _may_be_typed(wire) or any(text.lstrip().startswith("<command-") for _, text in texts):
        return
    for index, text in texts:
        if typed := _typed(text):
            yield Step("person", number, f"{uuid}.{index}", *place, text=typed)


def _may_be_typed(wire: dict[str, Any]) -> bool:
    """Not a sub-agent's task, a skill's body, an accepted plan or anything else the program says as the user."""
    if wire.get("isMeta") or wire.get("isSidechain") or wire.get("planContent"):
        return False
    origin = wire.get("origin")
    return not isinstance(origin, dict) or origin.get("kind", "human") == "human"


def _typed(text: str) -> str:
    """The part of a prompt that a person wrote."""
    text = _outside(text, OPEN, CLOSE)
    for start, end in _BESIDE:
        text = _outside(text, start, end)
    text = text.strip()
    return "" if text.startswith(_PROGRAM) else text


def _result(number: int, uuid: str, place: Place, wire: dict[str, Any], block: dict[str, Any]) -> Step:
    call, detail = _text(block, "tool_use_id"), wire.get("toolUseResult")
    whole = _result_text(block, detail)
    text = _outside(whole, OPEN, CLOSE)
    if block.get("is_error") is not True:
        return Step("result", number, uuid, *place, call, text=text, failed=_exited_badly(text, detail))
    if text is not whole and _is_only_ours(text):
        return Step("result", number, uuid, *place, call)
    text = _outside(text, *_REMINDER)
    return Step("result", number, uuid, *place, call, text=text, failed=True, refused=_refusal(text.strip(), wire))


def _result_text(block: dict[str, Any], detail: object) -> str:
    content = block.get("content")
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(_text(part, "text") for part in content if isinstance(part, dict) and part.get("text"))
    if isinstance(detail, dict):
        return "\n".join(text for text in (_text(detail, "stdout"), _text(detail, "stderr")) if text)
    return detail if isinstance(detail, str) else ""


def _is_only_ours(rest: str) -> bool:
    """Whether nothing but the client's own introduction of a hook's denial stands around the fence."""
    rest = rest.strip()
    return not rest or ("\n" not in rest and " hook " in f" {rest.lower()} ")


def _exited_badly(text: str, detail: object) -> bool:
    """A command ended with an error that the tool, asked about it later, does not call an error of its own."""
    if isinstance(detail, dict) and isinstance(exited := detail.get("exitCode"), int):
        return exited != 0
    if not text.startswith(_EXITS):
        return False
    mark = "Exit code " if text.startswith("E") else "<exit_code>"
    code = text[:1000].partition(mark)[2][:8].partition("<")[0].split()
    return bool(code) and code[0].removeprefix("-").isdecimal() and int(code[0]) != 0


def _refusal(text: str, wire: dict[str, Any]) -> str:
    """A person's words when they said no, a blank if they gave none, nothing if it was not a person."""
    if text.startswith(_REFUSED):
        told = text.partition(_NOT_THEIRS)[0]
        for mark in _WORDS_FOLLOW:
            _, found, words = told.partition(mark)
            if found:
                return words.strip() or " "
        return " "
    if _text(wire, "toolUseResult") == "User rejected tool use":
        return " "
    return text if _text(wire, "version").startswith(_BARE_VERSIONS) and _talks(text) else ""


def _talks(text: str) -> bool:
    """Whether an error reads like a person: a short line, in the first or second person, no prefix."""
    if "\n" in text or len(text) > _BARE_LENGTH or not text[:1].isalpha() or text.startswith(_PROGRAMS_TALK):
        return False
    words = text.lower().replace("’", "'").split()
    return not any(word.endswith(":") for word in words[:4]) and not _TALK.isdisjoint(
        word.strip(",.!?") for word in words
    )


def _outside(text: str, start: str, end: str) -> str:
    """The text without what stands between the marks; an open end reaches to the end."""
    at = text.find(start)
    if at < 0:
        return text
    parts, past = [], 0
    while at >= 0:
        parts.append(text[past:at])
        close = text.find(end, at)
        if close < 0:
            return "".join(parts)
        past = close + len(end)
        at = text.find(start, past)
    return "".join([*parts, text[past:]])
