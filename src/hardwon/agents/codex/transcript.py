"""Codex: rollouts, one line per thing that happened, under `$CODEX_HOME/sessions` and `archived_sessions`.

A rollout says most things twice, as what the model was given (`response_item`) and as what the screen showed
(`event_msg`). The first is read, because every version writes it and the screen's half has had three shapes; the
second only where it alone knows: which commands a script of code mode ran, and that a turn was broken off.

A fork or a sub-agent's rollout opens with its own `session_meta` and then the parent's, followed by a copy of the
parent's lines under new timestamps. Turn ids are kept in the copy and sort by time, so the copy ends at the first
turn younger than the rollout's own id; until then steps are the parent's, with the ids they have there. What a
sub-agent is told afterwards was written by a program, so it is nobody's words.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote

import orjson

from hardwon.agents import token_usage
from hardwon.agents.codex.tools import (
    DURATION_MARKER,
    OUTPUT_MARKER,
    TOOL_NAMES,
    ToolCall,
    extract_added_lines,
    parse_call,
    parse_exit_code,
    parse_json_result,
    parse_patch_call,
    parse_shell_call,
)
from hardwon.agents.fields import collect_strings, get_first_text, get_object, get_text
from hardwon.agents.transcript_json import (
    JsonObject,
    extract_typed_words,
    forget_oldest,
    hash_text,
    is_hardwon_denial,
    parse_line,
    parse_opening_objects,
    shorten_id,
    strip_fenced,
    truncate_path,
)
from hardwon.agents.transcript_steps import Step, StepKind
from hardwon.text.fence import FENCE_OPEN
from hardwon.types import replace

NAME = "codex"

LinePosition = tuple[int, str]  # a line's number, and when it was written

_INJECTED_TEXT = re.compile(
    r"\s*(?:</?(?:environment_context|user_instructions|permissions|recommended_plugins|subagent_notification"
    r"|turn_aborted|user_action|user_shell_command|hook_prompt|skills?|skills_instructions|apps_instructions"
    r"|plugins_instructions|collaboration_mode|model_switch|multi_agent_\w+|personality_spec|goal_context"
    r"|INSTRUCTIONS|image)\b|# AGENTS\.md|Another language model started to solve this problem)"
)
_REQUEST_HEADING = "## My request for Codex:"
_RUNNING_PROCESS = re.compile(r"^Process running with session ID (\d{1,20})$", re.MULTILINE)
_FAILURE_TEXT = re.compile(
    r"(?:apply_patch verification failed|execution error|write_stdin failed|exec_command failed|unsupported call"
    r"|unsupported custom tool call|failed to |unable to |tool call error|Command blocked by|err(?:or)?:)",
    re.IGNORECASE,
)
_DENIED_BY_HOOK = "Command blocked by PreToolUse hook: "
_HARDWON_DENIAL = f"{_DENIED_BY_HOOK}{FENCE_OPEN}"
_REFUSAL_TEXT = re.compile(r"(?:(?:exec command|patch) )?(?:rejected|aborted|cancelled) by (?:the )?user")
_SCRIPT_COMMAND = re.compile(
    r"""["']?\bcmd["']?\s*:\s*("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`(?:\\.|[^`\\])*`)""", re.DOTALL
)
_SCRIPT_PATCH = re.compile(r"""(["'`])\*\*\* Begin Patch(?:\\.|(?!\1)[^\\])*\1""", re.DOTALL)
_SCRIPT_TOOL = re.compile(r"\btools\.(\w+)\s*\(")
_ITEM_TYPES = frozenset({"UserMessage", "AgentMessage", "CommandExecution", "FileChange", "McpToolCall"})
_MAX_REMEMBERED = 500  # characters of a command or path whose result is still to come
_MAX_PROCESSES = 8
_MAX_WAITING = 32  # calls without a result
_LINE_KINDS = frozenset({"session_meta", "turn_context", "response_item", "event_msg", "compacted"})


class CallOutcome(NamedTuple):
    """What a result says."""

    text: str
    failed: bool = False
    refusal: str = ""
    process_id: str = ""  # the number of one that goes on
    script_failed: bool = False  # a script failed, not only something it ran
    denied: bool = False  # a hook forbade the call


class Reader:
    """Owns what one rollout has said so far."""

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        state = state or {}
        self.malformed: int = state.get("malformed", 0)
        self.own: str = state.get("own", "")  # the rollout's thread
        self.session: str = state.get("session", "")
        self.agent: str = state.get("agent", "")
        self.copied: str = state.get("copied", "")  # the parent's session while its lines are repeated here
        self.cwd: str = state.get("cwd", "")
        self.turn: str = state.get("turn", "")
        self.prompts: int = state.get("prompts", 0)  # stands for the turn where turns have no id
        self.items: bool = state.get("items", False)  # this version reports what a script ran
        self.usage = token_usage.create_counter(state.get("usage"))
        self.counted: str = state.get("counted", "")  # the totals of the last count, which is told more than once
        self.unnamed: int = state.get("unnamed", 0)  # calls of this turn that have no id
        self.open: dict[str, str] = dict(state.get("open", {}))  # calls without a result: the command
        self.running: dict[str, str] = dict(state.get("running", {}))  # processes that go on: the command
        self.scripts: dict[str, list[Any]] = dict(state.get("scripts", {}))  # the same: line and call, none if told

    def dump_state(self) -> dict[str, Any]:
        state = {key: value.copy() if isinstance(value, dict) else value for key, value in vars(self).items()}
        return {**state, "usage": token_usage.create_counter(self.usage)}

    def read_line(self, number: int, line: bytes) -> Iterator[Step]:
        wire, malformed = parse_line(line)
        self.malformed += malformed
        kind, payload = get_text(wire, "type"), wire.get("payload")
        if payload is None:  # before the envelope, in 2025, a line was the item itself
            kind, payload = "response_item", wire
        if isinstance(payload, dict):
            position = (number, get_text(wire, "timestamp"))
            if kind == "response_item" and not get_object(wire, "metadata").get("compaction_output"):
                yield from self._read_item(position, payload)
            elif kind == "event_msg":
                yield from self._read_event(position, payload)
            elif kind == "compacted":
                yield self._build_step("compacted", position, f"compacted:{hash_text(get_text(payload, 'message'))}")
            elif kind == "session_meta":
                self._open_session(payload)
            elif kind == "turn_context":
                self._open_turn(payload)

    def _build_step(self, kind: StepKind, position: LinePosition, key: str, **fields: Any) -> Step:
        turn = self.turn or f"{self.copied or self.session}:{self.prompts}"
        agent = "" if self.copied else self.agent
        fields = {"cwd": self.cwd, **fields}
        return Step(kind, position[0], f"{turn}:{key}", position[1], self.copied or self.session, agent, **fields)

    def _open_session(self, meta: JsonObject) -> None:
        thread_id, source = shorten_id(get_text(meta, "id")), get_object(meta, "source")
        if not self.own:
            self.own, self.agent = thread_id, thread_id if "subagent" in source else ""
            spawn = get_object(get_object(source, "subagent"), "thread_spawn")
            parent = get_text(spawn, "parent_thread_id") or (get_text(meta, "parent_thread_id") if self.agent else "")
            self.session = shorten_id(get_text(meta, "session_id") or parent or thread_id)
        elif thread_id != self.own and not self.turn:
            self.copied = shorten_id(get_text(meta, "session_id")) or thread_id
        self.cwd = truncate_path(get_text(meta, "cwd")) or self.cwd

    def _open_turn(self, payload: JsonObject) -> None:
        turn = shorten_id(get_text(payload, "turn_id"))
        self.cwd = truncate_path(get_text(payload, "cwd")) or self.cwd
        if turn and turn != self.turn:
            self.turn, self.unnamed = turn, 0
            self.open.clear()
            self.scripts.clear()
            if turn > self.own:
                self.copied = ""

    def _read_item(self, position: LinePosition, item: JsonObject) -> Iterator[Step]:
        kind = get_text(item, "type")
        if kind == "message":
            yield from self._read_message(position, item)
        elif kind in ("function_call", "custom_tool_call", "local_shell_call", "web_search_call"):
            yield from self._read_call(position, item, _parse_item_call(kind, item))
        elif kind in ("function_call_output", "custom_tool_call_output"):
            yield from self._read_result(position, shorten_id(get_text(item, "call_id")), item.get("output"))

    def _read_message(self, position: LinePosition, item: JsonObject) -> Iterator[Step]:
        role, texts = item.get("role"), [strip_fenced(text) for text in _list_texts(item.get("content"))]
        if role == "assistant" and (message_text := "\n".join(texts).strip()):
            yield self._build_step("agent", position, f"agent:{hash_text(message_text)}", text=message_text)
        elif role == "user":
            message_text = "\n".join(text for text in texts if not _INJECTED_TEXT.match(text)).strip()
            message_text = (
                message_text.partition(_REQUEST_HEADING)[2].strip()
                if _REQUEST_HEADING in message_text
                else message_text
            )
            message_text = extract_typed_words(message_text)
            self.prompts += bool(message_text)
            if message_text and (self.copied or not self.agent):
                yield self._build_step("person", position, f"person:{hash_text(message_text)}", text=message_text)

    def _read_call(self, position: LinePosition, item: JsonObject, call: ToolCall) -> Iterator[Step]:
        key = shorten_id(get_text(item, "call_id") or get_text(item, "id"))
        if not key:
            key, self.unnamed = f"{hash_text(repr(call))}.{self.unnamed}", self.unnamed + 1
        if call.tool == "BashOutput":
            call = replace(call, command=self.running.get(call.path, ""), path="")
        if item.get("name") == "exec" and item.get("type") == "custom_tool_call" and self.items:
            self.scripts[key] = [
                position[0],
                shorten_id(call.tool),
                call.command[:_MAX_REMEMBERED],
                call.path[:_MAX_REMEMBERED],
            ]
            forget_oldest(self.scripts, _MAX_WAITING)
            return
        if item.get("type") != "web_search_call":
            self.open[key] = call.command[:_MAX_REMEMBERED]
            forget_oldest(self.open, _MAX_WAITING)
        yield self._build_step("call", position, f"call:{key}", call=key, **vars(call))

    def _read_result(self, position: LinePosition, key: str, output: object) -> Iterator[Step]:
        outcome, command = _parse_outcome(output), self.open.pop(key, "")
        script = self.scripts.pop(key, None)
        if script is not None:
            if not (script and outcome.script_failed):
                return  # what it ran has been told, command by command
            line, tool, command, path = script
            yield self._build_step(
                "call", (line, position[1]), f"call:{key}", call=key, tool=tool, command=command, path=path
            )
        if outcome.process_id and command:
            self.running[outcome.process_id] = command
            forget_oldest(self.running, _MAX_PROCESSES)
        yield self._build_result(position, key, outcome)

    def _build_result(self, position: LinePosition, key: str, outcome: CallOutcome, **fields: Any) -> Step:
        outcome_fields = {
            "text": outcome.text,
            "failed": outcome.failed,
            "refused": outcome.refusal,
            "denied": outcome.denied,
        }
        return self._build_step("result", position, f"result:{key}", call=key, **outcome_fields, **fields)

    def _read_event(self, position: LinePosition, event: JsonObject) -> Iterator[Step]:
        kind = get_text(event, "type")
        if kind == "task_started":
            self._open_turn(event)
        elif kind == "token_count":
            self._count_tokens(get_object(event, "info"))
        elif kind == "item_completed":
            item = get_object(event, "item")
            self.items = self.items or get_text(item, "type") in _ITEM_TYPES
            key, cwd = (
                shorten_id(get_text(item, "id")),
                unquote(get_text(item, "cwd").removeprefix("file://")) or self.cwd,
            )
            if key.startswith("exec-") and (executed := _parse_script_item(item)):
                yield self._build_step("call", position, f"call:{key}", call=key, **vars(executed[0]), cwd=cwd)
                yield self._build_result(position, key, executed[1], cwd=cwd)
                self.scripts = {script_key: [] for script_key in self.scripts} if executed[1].failed else self.scripts
        elif kind == "turn_aborted" and event.get("reason") == "interrupted":
            yield from (self._build_result(position, key, CallOutcome("", refusal=" ")) for key in self.open)
            self.scripts.update((key, []) for key in self.open)
            forget_oldest(self.scripts, 2 * _MAX_WAITING)
            self.open.clear()

    def _count_tokens(self, info: JsonObject) -> None:
        usage, totals = (
            get_object(info, "last_token_usage"),
            repr(sorted(get_object(info, "total_token_usage").items())),
        )
        if usage and totals[:_MAX_REMEMBERED] != self.counted and not self.copied:
            token_usage.count_usage(self.usage, "", token_usage.parse_codex_usage(usage))
        self.counted = totals[:_MAX_REMEMBERED]


def find_transcript_folders(environment: Mapping[str, str], home: str) -> list[str]:
    root = environment.get("CODEX_HOME") or os.path.join(home, ".codex")
    return [os.path.join(root, "sessions"), os.path.join(root, "archived_sessions")]


def is_transcript_path(path: str) -> bool:
    """Any name will do for a rollout that somebody kept elsewhere; what it holds decides."""
    return path.endswith(".jsonl") and os.path.basename(path) != "history.jsonl"


def is_transcript_head(head: bytes) -> bool:
    return any(
        ("payload" in wire and get_text(wire, "type") in _LINE_KINDS)
        or {"id", "timestamp", "instructions"} <= wire.keys()
        for wire in parse_opening_objects(head)
    )


def _parse_item_call(kind: str, item: JsonObject) -> ToolCall:
    if kind == "local_shell_call":
        return parse_shell_call(get_object(item, "action").get("command"))
    if kind == "web_search_call":
        return ToolCall("WebSearch", content=get_first_text(get_object(item, "action"), "query", "url", "pattern"))
    name, arguments = get_text(item, "name"), item.get("arguments", item.get("input"))
    if kind == "custom_tool_call" and isinstance(arguments, str):
        parser = {"exec": _parse_script, "apply_patch": parse_patch_call}.get(name)
        return parser(arguments) if parser else ToolCall(name, content=arguments)
    try:
        arguments = orjson.loads(arguments) if isinstance(arguments, str) else arguments
    except orjson.JSONDecodeError:
        arguments = {}
    return parse_call(name, arguments if isinstance(arguments, dict) else {}, get_text(item, "namespace"))


def _parse_script(source: str) -> ToolCall:
    """What a script of code mode asks for, as far as its text tells."""
    commands = [_decode_literal(literal) for literal in _SCRIPT_COMMAND.findall(source)]
    if commands:
        return ToolCall("Bash", command="\n".join(commands))
    if patch := _SCRIPT_PATCH.search(source):
        return parse_patch_call(_decode_literal(patch.group()))
    nested = _SCRIPT_TOOL.search(source)
    name = nested.group(1) if nested else "exec"
    return ToolCall(TOOL_NAMES.get(name, name), content=source)


def _decode_literal(quoted: str) -> str:
    """A string of JavaScript; what JSON does not know is read as near as may be."""
    try:
        return str(orjson.loads(quoted))
    except orjson.JSONDecodeError:
        return re.sub(r"\\(.)", lambda match: {"n": "\n", "t": "\t"}.get(match[1], match[1]), quoted[1:-1], flags=re.S)


def _parse_script_item(item: JsonObject) -> tuple[ToolCall, CallOutcome] | None:
    """A call made from inside a script, and how it ended."""
    kind, status = item.get("type"), item.get("status")
    refused = " " if status == "declined" else ""
    if kind == "CommandExecution":
        code = item.get("exit_code")
        code = code if isinstance(code, int) else 0
        text = get_text(item, "aggregated_output") or (f"Exit code {code}" if code else "")
        return parse_shell_call(item.get("command")), _build_outcome(text, code != 0 or status == "failed", refused)
    if kind == "FileChange":
        changes = {path: change for path, change in get_object(item, "changes").items() if isinstance(change, dict)}
        path, first = next(iter(changes.items()), ("", {}))
        lines = [
            get_text(file_change, "content") or extract_added_lines(get_text(file_change, "unified_diff"))
            for file_change in changes.values()
        ]
        call = ToolCall("Write" if first.get("type") == "add" else "Edit", path=path, content="\n".join(lines))
        return call, _build_outcome(get_text(item, "stderr") or get_text(item, "stdout"), status == "failed", refused)
    if kind == "McpToolCall":
        result = get_object(item, "result")
        tool = f"mcp__{get_text(item, 'server')}__{get_text(item, 'tool')}"
        call = ToolCall(tool, content="\n".join(collect_strings(item.get("arguments"))))
        text = "\n".join(collect_strings(item.get("error") or _list_texts(result.get("content"))))
        return call, _build_outcome(text, status == "failed" or result.get("isError") is True, refused)
    return None


def _build_outcome(
    text: str, failed: bool, refused: str = "", process_id: str = "", script_failed: bool = False
) -> CallOutcome:
    if text.startswith(_HARDWON_DENIAL):
        return CallOutcome("", denied=True)  # the call did not run, so there is no result beside our words
    denied = failed and not refused and is_hardwon_denial(text)
    failed = failed and not refused and not denied
    return CallOutcome(strip_fenced(text).strip("\n"), failed, refused, process_id, failed and script_failed, denied)


def _parse_outcome(output: object) -> CallOutcome:
    is_success = True
    if isinstance(output, dict):
        is_success = output.get("success") is not False
        output = output.get("content", output.get("output", ""))
    results = [parse_json_result(part) for part in _list_texts(output)]
    text = "\n".join(part for part, _ in results)
    code = next((code for _, code in results if code), None)
    head, marker, body = text.partition(OUTPUT_MARKER)
    if not marker or DURATION_MARKER not in head:
        head, body = "", text
    if not head and body.startswith(_DENIED_BY_HOOK) and not body.startswith(_HARDWON_DENIAL):
        return CallOutcome(strip_fenced(body).strip("\n"), denied=True)
    exit_code = parse_exit_code(head or text.partition("\n")[0])
    code = code if exit_code is None else exit_code
    script_failed = head.startswith("Script failed")
    failed = not is_success or bool(code) or script_failed or (not head and bool(_FAILURE_TEXT.match(body)))
    refused = _REFUSAL_TEXT.match(body) or (failed and not code and _REFUSAL_TEXT.search(body))
    process = _RUNNING_PROCESS.search(head)
    result_text = body.strip("\n") or (f"Process exited with code {code}" if exit_code else "")
    return _build_outcome(
        result_text, failed, " " if refused else "", process.group(1) if process else "", script_failed
    )


def _list_texts(value: object) -> list[str]:
    """The parts of a content, which is a string or a list."""
    if isinstance(value, str):
        return [value]
    return [get_text(part, "text") for part in value if isinstance(part, dict)] if isinstance(value, list) else []
