"""Gemini CLI: `~/.gemini/tmp/<project>/chats/session-*`, JSON lines today, one JSON document until early 2026.

In lines a message is written again under the same id when more of it is known: first the words, then the tool calls
with their results. So a step is yielded when it is first complete (words when there are any, a call when it appears,
its result when it has ended) and again only if its words changed, under the same id. What was yielded is remembered for
the last messages, since only those grow; of older ones only that they are past, so that a resumed session which writes
all of them again yields nothing twice. `$rewindTo` takes nothing back: it happened.

A document is rewritten as a whole, and handed over as one line. Neither form has the folder; it is in the context the
program opens with.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from hardwon.agents.fields import (
    collect_strings,
    get_call_fields,
    get_object,
    get_path_text,
    get_text,
    resolve_call_cwd,
)
from hardwon.agents.gemini import (
    build_call_id,
    extract_answer,
    extract_prompt,
    join_text_parts,
    normalize_call,
    parse_outcome,
)
from hardwon.agents.transcript_steps import (
    REFUSED_WITHOUT_WORDS,
    JsonObject,
    LineFinder,
    Step,
    StepKind,
    TokenUsage,
    build_line_finder,
    count_usage,
    create_counter,
    extract_typed_words,
    forget_oldest,
    get_count,
    get_objects,
    hash_text,
    is_hardwon_denial,
    parse_line,
    restore_state,
    shorten_id,
    truncate_path,
)

_MESSAGE_KINDS = frozenset({"user", "gemini", "info", "warning", "error"})
_END_STATUSES = frozenset({"success", "error", "cancelled", "completed"})
_MCP_DISPLAY_NAME = re.compile(r"(.+) \((.+) MCP Server\)")
_CONTEXT_OPENING = re.compile(r"\s*<session_context>")
_WORKSPACE = re.compile(r"Workspace Directories:[^\w\n]*\n[^\S\n]*- (.+)")
_MAX_NAME_LENGTH = 200  # of a tool's display name, which is searched for a server's
_DENIED_BY_HOOK = "Tool execution blocked: "
_PROGRAM_PROMPT = "System: Please continue."  # sent by the program when the model stopped half-way
_MAX_RECENT = 16  # messages that may still grow
_MAX_FINISHED = 1000  # messages that are known to be complete
_MAX_MARKS = 100  # steps remembered for one message


class Reader:
    """Reads one chat line by line, and keeps the state between lines."""

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        self.malformed = 0
        self.session = ""
        self.subagent_id = ""
        self.cwd = ""
        self.recent: dict[str, dict[str, None]] = {}  # the steps yielded of each message that may still grow
        self.finished: dict[str, None] = {}  # the messages that do not grow any more
        self.usage = create_counter()
        restore_state(self, state)

    def read_line(self, number: int, line: bytes) -> Iterator[Step]:
        """Yield the steps of one line: a message, several, or a whole document."""
        wire, malformed = parse_line(line)
        self.malformed += malformed
        wire = get_object(wire, "$set") or wire
        if "messages" in wire:
            messages = get_objects(wire, "messages")
            find_line = build_line_finder(line)
        else:
            messages = [wire]

            def find_line(text: str) -> int:
                return number

        self.session = shorten_id(get_text(wire, "sessionId")) or self.session
        if wire.get("kind") == "subagent":
            self.subagent_id = self.session
        for message in messages:
            message_id = shorten_id(get_text(message, "id"))
            if not message_id or message.get("type") not in ("user", "gemini"):
                continue  # what the program tells the person, or no message
            if hash_text(message_id) not in self.finished:
                yield from self._read_message(message_id, message, find_line)

    def _read_message(self, message_id: str, message: JsonObject, find_line: LineFinder) -> Iterator[Step]:
        """Yield the steps of a message that were not yielded before."""
        marks = self._get_message_marks(message_id)
        is_person = message.get("type") == "user"
        raw_text = join_text_parts(message.get("content"))
        if is_person and _CONTEXT_OPENING.match(raw_text):
            if workspace := _WORKSPACE.search(raw_text):
                self.cwd = truncate_path(workspace[1].strip())
            return
        if tokens := get_object(message, "tokens"):
            tokens_out = get_count(tokens, "output") + get_count(tokens, "thoughts")
            usage = TokenUsage(get_count(tokens, "input"), tokens_out, get_count(tokens, "cached"))
            count_usage(self.usage, message_id, usage)
        kind: StepKind
        if is_person:
            kind = "person"
            text = extract_typed_words(extract_prompt(raw_text))
        else:
            kind = "agent"
            text = extract_answer(raw_text)
        # What a sub-agent is asked was written by the agent, and _PROGRAM_PROMPT by the program.
        is_nobodys = is_person and (self.subagent_id or text == _PROGRAM_PROMPT)
        if text and not is_nobodys and _add_mark(marks, hash_text(text)):
            at = get_text(message, "timestamp")
            yield Step(kind, find_line(raw_text), message_id, at, self.session, self.subagent_id, self.cwd, text=text)
        yield from self._read_calls(message_id, message, marks, find_line)
        forget_oldest(marks, _MAX_MARKS)

    def _read_calls(
        self, message_id: str, message: JsonObject, marks: dict[str, None], find_line: LineFinder
    ) -> Iterator[Step]:
        """Yield the calls of a message and their results; `marks` are the steps that were yielded before."""
        call_counts: Counter[str] = Counter()
        for index, call in enumerate(get_objects(message, "toolCalls")):
            step = self._build_call_step(message_id, call)
            call_counts[step.call] += 1
            if call_counts[step.call] > 1:
                step = step._replace(call=f"{step.call}:{call_counts[step.call]}")
            key = shorten_id(get_text(call, "id")) or str(index)
            if _add_mark(marks, f"call:{key}"):
                yield step._replace(line=find_line(get_text(call, "id")), id=f"call:{message_id}:{key}")
            if get_text(call, "status") in _END_STATUSES and _add_mark(marks, f"result:{key}"):
                result = Step(
                    "result",
                    line=0,  # `_add_outcome` finds it
                    id=f"result:{message_id}:{key}",
                    at=step.at,
                    session=step.session,
                    subagent_id=step.subagent_id,
                    cwd=step.cwd,
                    call=step.call,
                )
                yield _add_outcome(result, call, find_line)

    def _get_message_marks(self, message_id: str) -> dict[str, None]:
        """Return the steps yielded of a message, which becomes the latest; the oldest is then past."""
        marks = self.recent.pop(message_id, {})
        self.recent[message_id] = marks
        if len(self.recent) > _MAX_RECENT:
            self.finished[hash_text(next(iter(self.recent)))] = None
        forget_oldest(self.recent, _MAX_RECENT)
        forget_oldest(self.finished, _MAX_FINISHED)
        return marks

    def _build_call_step(self, message_id: str, call: JsonObject) -> Step:
        """Return the step of a call, still without its line and its id."""
        mcp_tool, server = "", ""
        if match := _MCP_DISPLAY_NAME.fullmatch(get_text(call, "displayName")[:_MAX_NAME_LENGTH]):
            mcp_tool, server = match.groups()
        tool, tool_input = normalize_call(get_text(call, "name"), get_object(call, "args"), server, mcp_tool)
        call_fields = get_call_fields(tool, tool_input)
        call_id = build_call_id(message_id, tool, call_fields)
        cwd = truncate_path(resolve_call_cwd(get_path_text(tool_input, "dir_path"), self.cwd))
        at = get_text(call, "timestamp")
        command, path, content = call_fields
        return Step(
            "call",
            line=0,
            id="",
            at=at,
            session=self.session,
            subagent_id=self.subagent_id,
            cwd=cwd,
            call=call_id,
            tool=tool,
            command=command,
            path=path,
            content=content,
        )


def find_transcript_folders(environment: Mapping[str, str], home: str) -> list[str]:
    return [os.path.join(environment.get("GEMINI_CLI_HOME") or home, ".gemini", "tmp")]


def is_transcript_path(path: str) -> bool:
    name = os.path.basename(path)
    return name.startswith("session-") and name.endswith((".json", ".jsonl"))


def is_opening_object(wire: JsonObject) -> bool:
    is_message = {"id", "timestamp", "content"} <= wire.keys() and get_text(wire, "type") in _MESSAGE_KINDS
    return is_message or "$set" in wire or {"sessionId", "projectHash"} <= wire.keys()


def _add_mark(marks: dict[str, None], mark: str) -> bool:
    """Return whether the mark is new."""
    is_new = mark not in marks
    marks[mark] = None
    return is_new


def _add_outcome(result: Step, call: JsonObject, find_line: LineFinder) -> Step:
    """Return the result of a call with its text, and whether it failed or was stopped, and by whom."""
    outputs, errors = _split_responses(call.get("result"))
    raw_text = "\n".join(errors or outputs) or get_text(call, "resultDisplay")
    result = result._replace(line=find_line(raw_text))
    is_error = call.get("status") == "error" or bool(errors)
    if is_error and is_hardwon_denial(raw_text):
        return result._replace(denied=True)
    text, failed = parse_outcome(get_text(call, "name"), raw_text)
    if is_error and raw_text.startswith(_DENIED_BY_HOOK):
        return result._replace(text=text, denied=True)
    if call.get("status") == "cancelled" or raw_text.startswith("[Operation Cancelled]"):
        return result._replace(text=text, refused=REFUSED_WITHOUT_WORDS)
    return result._replace(text=text, failed=failed or is_error)


def _split_responses(result: object) -> tuple[list[str], list[str]]:
    """Return the outputs and the errors of a call's result."""
    outputs: list[str] = []
    errors: list[str] = []
    parts = result if isinstance(result, list) else [result]
    for part in parts:
        if isinstance(part, str):
            outputs.append(part)
        elif isinstance(part, dict):
            response = get_object(get_object(part, "functionResponse"), "response") or part
            errors += collect_strings(response.get("error"))
            outputs += collect_strings(response.get("output")) or collect_strings(response.get("text"))
    return outputs, errors
