"""Claude Code: JSON lines in `projects/<folder>/<session>.jsonl`, sub-agents in files of their own.

Only four kinds of lines matter: `user` (prompts, tool results), `assistant`, `system` (where it was compacted) and the
attachment of a prompt typed ahead. `progress` holds copies of a sub-agent's messages.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import msgspec

from hardwon.agents.claude_code import TOOL_ALIASES
from hardwon.agents.fields import get_call_fields, get_text
from hardwon.agents.transcript_steps import (
    REFUSED_WITHOUT_WORDS,
    JsonObject,
    Step,
    TokenUsage,
    count_usage,
    create_counter,
    extract_typed_words,
    get_count,
    parse_line,
    restore_state,
    shorten_id,
    strip_fenced,
    truncate_path,
)
from hardwon.text.fence import remove_between

StepContext = tuple[str, str, str, str]  # when, session, sub-agent, folder: a step's fields after its id
Outcome = tuple[str, bool, str, bool]  # text, failed, refused, denied: a step's last fields

# Every line of a known kind has the fields of one of these; a truncated line has the first of them.
_OPENING_KEYS = (
    {"parentUuid", "isSidechain"},
    {"type", "sessionId"},
    {"type", "leafUuid"},
    {"type", "messageId", "snapshot"},
)
_PROGRESS = b',"type":"progress","data":{'
_MAX_HEAD_BYTES = 1_000  # the folder may be long
# Added by the program to a person's words and to results.
_REMINDER_TAGS = ("<system-reminder>", "</system-reminder>")
_EXIT_PREFIXES = ("Exit code ", "<retrieval_status>", "<status>")
_EXIT_CODE = re.compile(r"(?:Exit code |<exit_code>)\s*(-?\d{1,8})\b")
_REFUSAL_PREFIXES = (
    "The user doesn't want to proceed with this tool use",
    "The user doesn't want to take this action right now",
    "Permission for this tool use was denied. The tool use was rejected",
    "The agent proposed a plan that was rejected by the user",
    "[Request interrupted by user for tool use]",
)
_REASON_MARKERS = ("user said:", "the following reason for the rejection:")
_REASON_END = "Note: The user's next message may contain a correction or preference"
# From Claude Code 2.1.2xx on; before, the result is the bare reason, and only hardwon's fence tells it from an error.
_DENIED_BY_HOOK = re.compile(r"PreToolUse:[\w.-]{1,100} (?:hook error|hook blocked)\b")
_NO_CALL_FIELDS = ("", "", "", "")  # a result does not repeat the tool, the command, the path and the content


# Lines hold no references to themselves, so `gc=False` spares the garbage collector from tracking them.
# A value of any other type than the one expected is ignored; it does not spoil the line.
_NotObject = str | int | float | bool | list[Any] | None


class _Block(msgspec.Struct, gc=False):
    """A part of a message; that of the assistant's thinking, with its long signature, has none of these fields."""

    type: Any = None
    text: Any = None
    name: Any = None
    id: Any = None
    input: Any = None
    tool_use_id: Any = None
    content: Any = None
    is_error: Any = None


class _Usage(msgspec.Struct, gc=False):
    input_tokens: Any = None
    output_tokens: Any = None
    cache_read_input_tokens: Any = None
    cache_creation_input_tokens: Any = None


_Blocks = list[_Block | _NotObject]
_Content = _Blocks | str | int | float | bool | dict[str, Any] | None


class _Message(msgspec.Struct, gc=False):
    id: Any = None
    model: Any = None
    content: _Content = None
    usage: _Usage | _NotObject = None


class _Attachment(msgspec.Struct, gc=False):
    type: Any = None
    commandMode: Any = "prompt"
    prompt: _Content = None
    isMeta: Any = None
    isSidechain: Any = None
    planContent: Any = None
    sourceToolUseID: Any = None
    origin: Any = None


class _ResultDetail(msgspec.Struct, gc=False):
    """The program's own record of a result, which repeats most of it."""

    exitCode: Any = None
    stdout: Any = None
    stderr: Any = None


class _Line(msgspec.Struct, gc=False):
    """The fields that are used: the others, half of a transcript, are skipped without creating objects for them."""

    type: Any = None
    subtype: Any = None
    sessionId: Any = None
    cwd: Any = None
    gitBranch: Any = None
    uuid: Any = None
    agentId: Any = None
    promptId: Any = None
    timestamp: Any = None
    isApiErrorMessage: Any = None
    isCompactSummary: Any = None
    message: _Message | _NotObject = None
    attachment: _Attachment | _NotObject = None
    toolUseResult: _ResultDetail | _NotObject = None
    isMeta: Any = None
    isSidechain: Any = None
    planContent: Any = None
    sourceToolUseID: Any = None
    origin: Any = None


_decode_line = msgspec.json.Decoder(_Line).decode


class Reader:
    """Reads lines, and remembers the last session and folder."""

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        self.malformed = 0
        self.session = ""
        self.cwd = ""
        self.usage = create_counter()
        restore_state(self, state)

    def read_line(self, number: int, line: bytes) -> Sequence[Step]:
        """Return the steps of one line; most lines of other kinds have none."""
        if _is_progress(line):
            return ()
        try:
            wire = _decode_line(line)
        except (ValueError, RecursionError):
            wire = self._decode_leniently(line)
        if wire.type not in ("assistant", "user", "attachment", "system"):
            return ()
        if wire.sessionId != self.session:
            self.session = shorten_id(_as_text(wire.sessionId)) or self.session
        if wire.cwd != self.cwd:
            self.cwd = truncate_path(_as_text(wire.cwd)) or self.cwd
        # A line without a uuid is known by what it says.
        line_id = _as_text(wire.uuid) or blake2b(line.strip(), digest_size=12).hexdigest()
        # 1.0.x wrote sub-agents into the session's file without naming them.
        subagent_id = _as_text(wire.agentId) or ("sidechain" if wire.isSidechain else "")
        context = (_as_text(wire.timestamp), self.session, subagent_id, self.cwd)
        if wire.type == "attachment":
            return _read_queued_prompt(number, line_id, context, wire)
        if wire.type == "system":
            if wire.subtype != "compact_boundary":
                return ()
            return [Step("compacted", number, line_id, *context)]
        if not isinstance(wire.message, _Message):
            return ()
        if wire.type == "user":
            return _read_user_line(number, line_id, context, wire, wire.message)
        if self.usage:
            self._count_tokens(wire.message)
        return _read_assistant_line(number, line_id, context, wire, wire.message)

    def _decode_leniently(self, line: bytes) -> _Line:
        """Decode a line that msgspec refuses; an empty one if it is not JSON either, counted as malformed."""
        fields, malformed = parse_line(line)
        self.malformed += malformed
        try:
            return msgspec.convert(fields, _Line)
        except ValueError:  # such as a number out of range
            return _Line()

    def _count_tokens(self, message: _Message) -> None:
        """Count the tokens of an assistant's message; Claude Code repeats the count on the line of each block."""
        if not isinstance(message.usage, _Usage) or message.usage == _Usage():
            return  # the message does not say
        tokens = msgspec.structs.asdict(message.usage)
        tokens_cached = get_count(tokens, "cache_read_input_tokens")
        tokens_in = get_count(tokens, "input_tokens")
        tokens_in += tokens_cached
        tokens_in += get_count(tokens, "cache_creation_input_tokens")
        usage = TokenUsage(tokens_in, get_count(tokens, "output_tokens"), tokens_cached)
        count_usage(self.usage, _as_text(message.id), usage)


def _is_progress(line: bytes) -> bool:
    """Return whether a line reports progress: up to 2.1.81 a quarter of a transcript, told without decoding it.

    Its type comes after the fields that every line begins with; a line with a message may quote anything in it.
    """
    position = line.find(_PROGRESS, 0, _MAX_HEAD_BYTES)
    return position > 0 and line.find(b'"message"', 0, position) < 0


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else ""


def find_transcript_folders(environment: Mapping[str, str], home: str) -> list[str]:
    """Return the folder that has a folder of transcripts for each project."""
    claude_folder = environment.get("CLAUDE_CONFIG_DIR") or os.path.join(home, ".claude")
    return [os.path.join(claude_folder, "projects")]


def is_transcript_path(path: str) -> bool:
    return path.endswith(".jsonl")


def is_opening_object(wire: JsonObject) -> bool:
    # Qwen Code writes lines of the same form, each with its provenance.
    return "provenance" not in wire and any(keys <= wire.keys() for keys in _OPENING_KEYS)


def _read_assistant_line(number: int, line_id: str, context: StepContext, wire: _Line, message: _Message) -> list[Step]:
    """Return the tool calls and the words of an `assistant` line."""
    if message.model == "<synthetic>" or wire.isApiErrorMessage:
        return []  # an API error, not the assistant's words
    branch = _read_branch(wire)
    steps: list[Step] = []
    for index, block in enumerate(_list_blocks(message.content)):
        if not isinstance(block, _Block):
            continue  # a bare text or number
        if block.type == "tool_use":
            name = _as_text(block.name)
            tool = TOOL_ALIASES.get(name, name)
            tool_input = block.input if isinstance(block.input, dict) else {}
            command, path, content = get_call_fields(name, tool_input)
            step_id = f"{line_id}.{index}"
            call = _as_text(block.id)
            steps.append(Step("call", number, step_id, *context, call, tool, command, path, content, branch=branch))
        elif block.type == "text" and (text := strip_fenced(_as_text(block.text)).strip()):
            steps.append(Step("agent", number, f"{line_id}.{index}", *context, text=text, branch=branch))
    return steps


def _read_user_line(number: int, line_id: str, context: StepContext, wire: _Line, message: _Message) -> list[Step]:
    """Return the content of a `user` line: tool results, and sometimes a person's words."""
    # The summary of a compacted conversation is written by the model in a person's place.
    if wire.isCompactSummary:
        return []
    blocks = _list_blocks(message.content)
    branch = _read_branch(wire)
    steps: list[Step] = []
    for index, block in enumerate(blocks):
        if isinstance(block, _Block) and block.type == "tool_result":
            call = _as_text(block.tool_use_id)
            outcome = _read_outcome(block, wire.toolUseResult)
            step_id = f"{line_id}.{index}"
            step = Step("result", number, step_id, *context, call, *_NO_CALL_FIELDS, *outcome, branch)
            steps.append(step)
    if wire.planContent:
        # The agent wrote it in an earlier context, which was cleared when a person accepted the plan.
        if plan := strip_fenced(_as_text(wire.planContent)).strip():
            steps.append(Step("agent", number, f"{line_id}.plan", *context, text=plan))
    elif len(steps) < len(blocks):  # most lines hold one result and nothing else
        steps += _read_prompt(number, line_id, context, wire, blocks)
    return steps


def _read_queued_prompt(number: int, line_id: str, context: StepContext, wire: _Line) -> list[Step]:
    """Return a prompt typed while the assistant was at work, which is in no `user` line."""
    attachment = wire.attachment
    if not isinstance(attachment, _Attachment) or attachment.type != "queued_command":
        return []
    # Queued notifications of background tasks have another mode.
    if attachment.commandMode != "prompt" or not _can_be_typed(attachment):
        return []
    return list(_read_prompt(number, line_id, context, wire, _list_blocks(attachment.prompt)))


def _read_branch(wire: _Line) -> str:
    return truncate_path(_as_text(wire.gitBranch))


def _list_blocks(content: _Content) -> _Blocks:
    """Return the blocks of a content, which for typed prompts is a plain text."""
    if isinstance(content, str):
        return [_Block(type="text", text=content)]
    return content if isinstance(content, list) else []


def _read_prompt(number: int, line_id: str, context: StepContext, wire: _Line, blocks: _Blocks) -> Iterator[Step]:
    """Yield what a person typed in these blocks; nothing if the program wrote them."""
    texts: dict[int, str] = {}  # by their blocks' places, which are part of the steps' ids
    for index, block in enumerate(blocks):
        if isinstance(block, _Block) and block.type == "text":
            texts[index] = _as_text(block.text)
    if not texts or not _can_be_typed(wire):
        return
    has_command = any(text.lstrip().startswith("<command-") for text in texts.values())
    for index, text in texts.items():
        # Beside a slash command the other blocks are what the program makes of it.
        typed_text = _extract_command(text) if has_command else text
        without_reminders = remove_between(strip_fenced(typed_text), *_REMINDER_TAGS).strip()
        if words := extract_typed_words(without_reminders):
            prompt_id = _as_text(wire.promptId)
            yield Step(
                "person", number, f"{line_id}.{index}", *context, prompt_id, text=words, branch=_read_branch(wire)
            )


def _extract_command(text: str) -> str:
    """Return a slash command and the words behind it, as they were typed.

    A command that the program handles by itself begins with its name: it asks the assistant nothing.
    """
    if not text.lstrip().startswith("<command-message>"):
        return ""
    _, _, name_onward = text.partition("<command-name>")
    name = name_onward.partition("</command-name>")[0].strip()
    _, _, arguments_onward = text.partition("<command-args>")
    arguments = arguments_onward.partition("</command-args>")[0]
    if not name:
        return ""
    return f"/{name.lstrip('/')} {arguments}".strip()


def _can_be_typed(wire: _Line | _Attachment) -> bool:
    """Return False for a sub-agent's task, a skill's body, an accepted plan and what else the program says as user."""
    if wire.isMeta or wire.isSidechain or wire.planContent or wire.sourceToolUseID:
        return False
    origin = wire.origin
    return not isinstance(origin, dict) or bool(origin.get("kind", "human") == "human")


def _read_outcome(block: _Block, detail: _ResultDetail | _NotObject) -> Outcome:
    """Return a result's text, whether the call failed, a person's words of refusal, and whether a hook denied it.

    A plain tuple: a scan reads one for each result, and a named one takes half as long again.
    """
    full_text = block.content if isinstance(block.content, str) else _join_result_texts(block, detail)
    text = strip_fenced(full_text)
    if block.is_error is not True:
        return text, _has_failed_exit(text, detail), "", False
    is_fenced = text != full_text
    if is_fenced and _is_hardwon_only(text):
        return "", False, "", True  # hardwon's denial, whose words are no result
    text = remove_between(text, *_REMINDER_TAGS)
    if _DENIED_BY_HOOK.match(text):
        return text, False, "", True
    return text, True, _extract_refusal(text.strip(), detail), False


def _join_result_texts(block: _Block, detail: _ResultDetail | _NotObject) -> str:
    """Return the text of a result that is not a plain text itself, from its blocks or the program's record."""
    if isinstance(block.content, list):
        texts = [get_text(part, "text") for part in block.content]
    elif isinstance(detail, _ResultDetail):
        texts = [_as_text(detail.stdout), _as_text(detail.stderr)]
    else:
        texts = [_as_text(detail)]
    return "\n".join(filter(None, texts))


def _is_hardwon_only(rest: str) -> bool:
    """Return whether a result has only the fence, with Claude Code's introduction of a hook's denial around it."""
    introduction = rest.strip()
    if not introduction:
        return True
    has_one_line = "\n" not in introduction
    return has_one_line and " hook " in f" {introduction.lower()} "


def _has_failed_exit(text: str, detail: _ResultDetail | _NotObject) -> bool:
    """Return whether a background command failed; a later query of its output is not marked as an error."""
    if isinstance(detail, _ResultDetail) and isinstance(detail.exitCode, int):
        return detail.exitCode != 0
    if not text.startswith(_EXIT_PREFIXES):
        return False  # a program may print such words further down
    match = _EXIT_CODE.search(text, 0, 1000)
    return match is not None and int(match[1]) != 0


def _extract_refusal(text: str, detail: object) -> str:
    """Return a person's words when they said no, or REFUSED_WITHOUT_WORDS; empty if no person refused the call."""
    if not text.startswith(_REFUSAL_PREFIXES):
        return REFUSED_WITHOUT_WORDS if detail == "User rejected tool use" else ""
    message = text.partition(_REASON_END)[0]
    for marker in _REASON_MARKERS:
        _, separator, words = message.partition(marker)
        if separator:
            return words.strip() or REFUSED_WITHOUT_WORDS
    return REFUSED_WITHOUT_WORDS
