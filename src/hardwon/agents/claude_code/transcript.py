"""Claude Code's transcripts: JSON lines in `projects/<folder>/<session>.jsonl`, sub-agents in files of their own.

Only four kinds of lines say anything: `user` (prompts, tool results), `assistant`, `system` (where it was compacted)
and the attachment of a prompt typed ahead. The rest is parsed and dropped: telling it by its first bytes was measured
to cost as much as it saves, and would not notice damage. `progress` holds copies of a sub-agent's messages.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import orjson

from hardwon.agents import token_usage
from hardwon.agents.claude_code.payload import TOOL_ALIASES
from hardwon.agents.fields import get_first_text, get_object, get_text, get_tool_content
from hardwon.agents.transcript_json import (
    JsonObject,
    extract_typed_words,
    forget_oldest,
    parse_line,
    parse_opening_objects,
    shorten_id,
    strip_fenced,
    truncate_path,
)
from hardwon.agents.transcript_steps import Step
from hardwon.text.fence import remove_between

NAME = "claude-code"

StepContext = tuple[str, str, str, str]  # when, session, sub-agent, folder: a step's fields after its id

# Every line has the fields of one of these, as far as the kinds are known; a cut line has the first of its own.
_OPENING_KEYS = (
    {"parentUuid", "isSidechain"},
    {"type", "sessionId"},
    {"type", "leafUuid"},
    {"type", "messageId", "snapshot"},
)
_MAX_CHAINS = 64  # how far back a line of an inline sub-agent looks for its parent

_REMINDER_TAGS = ("<system-reminder>", "</system-reminder>")

_EXIT_PREFIXES = ("Exit code ", "<retrieval_status>", "<status>")
_REFUSAL_PREFIXES = (
    "The user doesn't want to proceed with this tool use",
    "The user doesn't want to take this action right now",
    "Permission for this tool use was denied. The tool use was rejected",
    "The agent proposed a plan that was rejected by the user",
    "[Request interrupted by user for tool use]",
)
# 2.1.2xx and later; before that the bare reason is the result, which only our own fence tells from an error.
_DENIED_BY_HOOK = re.compile(r"PreToolUse:[\w.-]{1,100} (?:hook error|hook blocked)\b")
_REASON_MARKERS = ("user said:", "the following reason for the rejection:")
_REASON_END = "Note: The user's next message may contain a correction or preference"

# Up to 2.0.x a person's reason is the whole error, with nothing to tell it from a program's but how people talk.
_BARE_REASON_VERSIONS = ("1.", "2.0.")
_MAX_BARE_REASON = 400
_PERSONAL_WORDS = frozenset(
    {"i", "i'm", "i'd", "i'll", "we", "we're", "we'll", "you", "you're", "your", "my", "our", "me", "us"}
    | {"please", "let's", "lets", "don't", "wait", "actually", "why"}
)
_PROGRAM_PREFIXES = ("Claude ", "File ", "Found ", "This ", "The user", "To ", "Working directory", "Permission")


class Reader:
    """Remembers the session and folder last named, and which inline sub-agent the latest lines belong to."""

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        stored = dict(state or {})
        self.malformed: int = stored.get("malformed", 0)
        self._session = get_text(stored, "session")
        self._cwd = get_text(stored, "cwd")
        self._chains: dict[str, str] = dict(stored.get("chains") or ())
        self.usage = token_usage.create_counter(stored.get("usage"))

    def dump_state(self) -> dict[str, Any]:
        chains = [list(link) for link in self._chains.items()]
        return {
            "malformed": self.malformed,
            "session": self._session,
            "cwd": self._cwd,
            "chains": chains,
            "usage": token_usage.create_counter(self.usage),
        }

    def read_line(self, number: int, line: bytes) -> Sequence[Step]:
        try:
            wire = orjson.loads(line)
        except ValueError:
            wire, malformed = parse_line(line)
            self.malformed += malformed
        kind = wire.get("type") if isinstance(wire, dict) else None
        if kind == "assistant":
            self._count_tokens(wire)
        build_steps = _STEP_BUILDERS.get(kind) if isinstance(kind, str) else None
        return build_steps(number, _get_line_id(wire, line), self._read_context(wire), wire) if build_steps else ()

    def _count_tokens(self, wire: JsonObject) -> None:
        message = get_object(wire, "message")
        usage = message.get("usage")
        if isinstance(usage, dict):
            token_usage.count_usage(self.usage, get_text(message, "id"), token_usage.parse_claude_code_usage(usage))

    def _read_context(self, wire: JsonObject) -> StepContext:
        get = wire.get
        if get("sessionId") != self._session:
            self._session = shorten_id(get_text(wire, "sessionId")) or self._session
        if get("cwd") != self._cwd:
            self._cwd = truncate_path(get_text(wire, "cwd")) or self._cwd
        agent = get_text(wire, "agentId") if "agentId" in wire else ""
        if not agent and get("isSidechain"):
            agent = self._find_chain_root(shorten_id(get_text(wire, "uuid")), shorten_id(get_text(wire, "parentUuid")))
        return get_text(wire, "timestamp"), self._session, agent, self._cwd

    def _find_chain_root(self, uuid: str, parent: str) -> str:
        """1.0.x wrote sub-agents into the session's file without naming them: the first line's uuid is the name."""
        root = self._chains.get(parent) or parent or uuid or "sidechain"
        if uuid:
            self._chains[uuid] = root
            forget_oldest(self._chains, _MAX_CHAINS)
        return root


def find_transcript_folders(environment: Mapping[str, str], home: str) -> list[str]:
    return [os.path.join(environment.get("CLAUDE_CONFIG_DIR") or os.path.join(home, ".claude"), "projects")]


def is_transcript_path(path: str) -> bool:
    return path.endswith(".jsonl")


def is_transcript_head(head: bytes) -> bool:
    return any(keys <= wire.keys() for wire in parse_opening_objects(head) for keys in _OPENING_KEYS)


def _get_line_id(wire: JsonObject, line: bytes) -> str:
    """The line's uuid; a line without one is known by what it says."""
    return get_text(wire, "uuid") or blake2b(line.strip(), digest_size=12).hexdigest()


def _build_assistant_steps(number: int, uuid: str, context: StepContext, wire: JsonObject) -> list[Step]:
    """An assistant's text and calls; stubs that stand for an error of the API are nobody's words."""
    message, steps = get_object(wire, "message"), []
    if message.get("model") == "<synthetic>" or wire.get("isApiErrorMessage"):
        return []
    for index, block in enumerate(_list_blocks(message.get("content"))):
        kind = block.get("type") if isinstance(block, dict) else None
        if kind == "tool_use":
            steps.append(_build_call_step(number, f"{uuid}.{index}", context, block))
        elif kind == "text" and (text := strip_fenced(get_text(block, "text")).strip()):
            steps.append(Step("agent", number, f"{uuid}.{index}", *context, text=text))
    return steps


def _build_call_step(number: int, uuid: str, context: StepContext, block: JsonObject) -> Step:
    tool_input, tool = get_object(block, "input"), get_text(block, "name")
    call, command = get_text(block, "id"), get_text(tool_input, "command")
    if tool == "Bash":  # a third of all calls, and it has neither path nor content
        return Step("call", number, uuid, *context, call, tool, command)
    path = get_first_text(tool_input, "file_path", "notebook_path", "path", "glob")
    return Step(
        "call",
        number,
        uuid,
        *context,
        call,
        TOOL_ALIASES.get(tool, tool),
        command,
        path,
        get_tool_content(tool, tool_input),
    )


def _build_user_steps(number: int, uuid: str, context: StepContext, wire: JsonObject) -> list[Step]:
    """What came to the assistant under the name of the user: tool results, and at times a person's words."""
    if wire.get("isCompactSummary"):
        return []
    blocks = _list_blocks(get_object(wire, "message").get("content"))
    steps = []
    for index, block in enumerate(blocks):
        if isinstance(block, dict) and block.get("type") == "tool_result":
            steps.append(_build_result_step(number, f"{uuid}.{index}", context, wire, block))
    return steps if len(steps) == len(blocks) else steps + _build_prompt_steps(number, uuid, context, wire, blocks)


def _build_queued_steps(number: int, uuid: str, context: StepContext, wire: JsonObject) -> list[Step]:
    """A prompt typed while the assistant was at work: it is in no `user` line."""
    attachment = get_object(wire, "attachment")
    if attachment.get("type") != "queued_command" or attachment.get("commandMode", "prompt") != "prompt":
        return []
    return (
        _build_prompt_steps(number, uuid, context, wire, _list_blocks(attachment.get("prompt")))
        if _can_be_typed(attachment)
        else []
    )


def _build_compaction_steps(number: int, uuid: str, context: StepContext, wire: JsonObject) -> list[Step]:
    return [Step("compacted", number, uuid, *context)] if wire.get("subtype") == "compact_boundary" else []


_STEP_BUILDERS: dict[str, Callable[[int, str, StepContext, JsonObject], list[Step]]] = {
    "assistant": _build_assistant_steps,
    "user": _build_user_steps,
    "attachment": _build_queued_steps,
    "system": _build_compaction_steps,
}


def _list_blocks(content: object) -> list[Any]:
    if isinstance(content, list):
        return content
    return [{"type": "text", "text": content}] if isinstance(content, str) else []


def _build_prompt_steps(
    number: int, uuid: str, context: StepContext, wire: JsonObject, blocks: list[Any]
) -> list[Step]:
    texts = [
        (index, get_text(block, "text"))
        for index, block in enumerate(blocks)
        if isinstance(block, dict) and block.get("type") == "text"
    ]
    if not texts or not _can_be_typed(wire):
        return []
    if any(text.lstrip().startswith("<command-") for _, text in texts):
        texts = [(index, _extract_command(text)) for index, text in texts]
    typed_texts = [(index, _extract_typed_text(text)) for index, text in texts]
    prompt_id = get_text(wire, "promptId")
    return [
        Step("person", number, f"{uuid}.{index}", *context, call=prompt_id, text=text)
        for index, text in typed_texts
        if text
    ]


def _extract_command(text: str) -> str:
    """A command and the words behind it, as they were typed. What the program does by itself has its name in front: it
    asks the assistant nothing, or what it asks comes again."""
    if not text.lstrip().startswith("<command-message>"):
        return ""
    name, args = (
        text.partition(f"<command-{part}>")[2].partition(f"</command-{part}>")[0] for part in ("name", "args")
    )
    return f"/{name.strip().lstrip('/')} {args}".strip() if name.strip() else ""


def _can_be_typed(wire: JsonObject) -> bool:
    """Not a sub-agent's task, a skill's body, an accepted plan or anything else the program says as the user."""
    if wire.get("isMeta") or wire.get("isSidechain") or wire.get("planContent") or wire.get("sourceToolUseID"):
        return False
    origin = wire.get("origin")
    return not isinstance(origin, dict) or origin.get("kind", "human") == "human"


def _extract_typed_text(text: str) -> str:
    """The part of a prompt that a person wrote."""
    return extract_typed_words(remove_between(strip_fenced(text), *_REMINDER_TAGS).strip())


def _build_result_step(number: int, uuid: str, context: StepContext, wire: JsonObject, block: JsonObject) -> Step:
    call, detail = get_text(block, "tool_use_id"), wire.get("toolUseResult")
    full_text = _read_result_text(block, detail)
    text = strip_fenced(full_text)
    if block.get("is_error") is not True:
        return Step("result", number, uuid, *context, call, text=text, failed=_has_failed_exit(text, detail))
    if text is not full_text and _is_hardwon_only(text):
        return Step("result", number, uuid, *context, call, denied=True)
    text = remove_between(text, *_REMINDER_TAGS)
    if _DENIED_BY_HOOK.match(text):
        return Step("result", number, uuid, *context, call, text=text, denied=True)
    return Step(
        "result", number, uuid, *context, call, text=text, failed=True, refused=_extract_refusal(text.strip(), wire)
    )


def _read_result_text(block: JsonObject, detail: object) -> str:
    content = block.get("content")
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(get_text(part, "text") for part in content if isinstance(part, dict) and part.get("text"))
    if isinstance(detail, dict):
        return "\n".join(text for text in (get_text(detail, "stdout"), get_text(detail, "stderr")) if text)
    return detail if isinstance(detail, str) else ""


def _is_hardwon_only(rest: str) -> bool:
    """Whether nothing but the client's own introduction of a hook's denial stands around the fence."""
    rest = rest.strip()
    return not rest or ("\n" not in rest and " hook " in f" {rest.lower()} ")


def _has_failed_exit(text: str, detail: object) -> bool:
    """A command ended with an error that the tool, asked about it later, does not call an error of its own."""
    if isinstance(detail, dict) and isinstance(exit_code := detail.get("exitCode"), int):
        return exit_code != 0
    if not text.startswith(_EXIT_PREFIXES):
        return False
    marker = "Exit code " if text.startswith("E") else "<exit_code>"
    code_words = text[:1000].partition(marker)[2][:8].partition("<")[0].split()
    return bool(code_words) and code_words[0].removeprefix("-").isdecimal() and int(code_words[0]) != 0


def _extract_refusal(text: str, wire: JsonObject) -> str:
    """A person's words when they said no, a blank if they gave none, nothing if it was not a person."""
    if text.startswith(_REFUSAL_PREFIXES):
        message = text.partition(_REASON_END)[0]
        for marker in _REASON_MARKERS:
            _, separator, words = message.partition(marker)
            if separator:
                return words.strip() or " "
        return " "
    if get_text(wire, "toolUseResult") == "User rejected tool use":
        return " "
    return text if get_text(wire, "version").startswith(_BARE_REASON_VERSIONS) and _is_personal_text(text) else ""


def _is_personal_text(text: str) -> bool:
    """Whether an error reads like a person: a short line, in the first or second person, no prefix."""
    if "\n" in text or len(text) > _MAX_BARE_REASON or not text[:1].isalpha() or text.startswith(_PROGRAM_PREFIXES):
        return False
    words = text.lower().replace("’", "'").split()
    return not any(word.endswith(":") for word in words[:4]) and not _PERSONAL_WORDS.isdisjoint(
        word.strip(",.!?") for word in words
    )
