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

_INJECTED = re.compile(
    r"\s*(?:</?(?:environment_context|user_instructions|permissions|recommended_plugins|subagent_notification"
    r"|turn_aborted|user_action|user_shell_command|hook_prompt|skills?|skills_instructions|apps_instructions"
    r"|plugins_instructions|collaboration_mode|model_switch|multi_agent_\w+|personality_spec|goal_context"
    r"|INSTRUCTIONS|image)\b|# AGENTS\.md|Another language model started to solve this problem)"
)
_REQUEST = "## My request for Codex:"
_RUNNING = re.compile(r"^Process running with session ID (\d{1,20})$", re.MULTILINE)
_FAILED = re.compile(
    r"(?:apply_patch verification failed|execution error|write_stdin failed|exec_command failed|unsupported call"
    r"|unsupported custom tool call|failed to |unable to |tool call error|Command blocked by|err(?:or)?:)",
    re.IGNORECASE,
)
_DENIED_BY_HOOK = "Command blocked by PreToolUse hook: "
_HELD = f"{_DENIED_BY_HOOK}{FENCE_OPEN}"
_REFUSED = re.compile(r"(?:(?:exec command|patch) )?(?:rejected|aborted|cancelled) by (?:the )?user")
_COMMAND = re.compile(r"""["']?\bcmd["']?\s*:\s*("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`(?:\\.|[^`\\])*`)""", re.DOTALL)
_PATCH = re.compile(r"""(["'`])\*\*\* Begin Patch(?:\\.|(?!\1)[^\\])*\1""", re.DOTALL)
_NESTED = re.compile(r"\btools\.(\w+)\s*\(")
_ITEMS = frozenset({"UserMessage", "AgentMessage", "CommandExecution", "FileChange", "McpToolCall"})
_REMEMBERED = 500  # characters of a command or path whose result is still to come
_PROCESSES = 8
_WAITING = 32  # calls without a result
_KINDS = frozenset({"session_meta", "turn_context", "response_item", "event_msg", "compacted"})


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
        wire, bad = parse_line(line)
        self.malformed += bad
        kind, payload = get_text(wire, "type"), wire.get("payload")
        if payload is None:  # before the envelope, in 2025, a line was the item itself
            kind, payload = "response_item", wire
        if isinstance(payload, dict):
            place = (number, get_text(wire, "timestamp"))
            if kind == "response_item" and not get_object(wire, "metadata").get("compaction_output"):
                yield from self._item(place, payload)
            elif kind == "event_msg":
                yield from self._event(place, payload)
            elif kind == "compacted":
                yield self._step("compacted", place, f"compacted:{hash_text(get_text(payload, 'message'))}")
            elif kind == "session_meta":
                self._open_session(payload)
            elif kind == "turn_context":
                self._open_turn(payload)

    def _step(self, kind: StepKind, place: LinePosition, key: str, **more: Any) -> Step:
        turn = self.turn or f"{self.copied or self.session}:{self.prompts}"
        agent = "" if self.copied else self.agent
        more = {"cwd": self.cwd, **more}
        return Step(kind, place[0], f"{turn}:{key}", place[1], self.copied or self.session, agent, **more)

    def _open_session(self, meta: JsonObject) -> None:
        own, source = shorten_id(get_text(meta, "id")), get_object(meta, "source")
        if not self.own:
            self.own, self.agent = own, own if "subagent" in source else ""
            spawned = get_object(get_object(source, "subagent"), "thread_spawn")
            parent = get_text(spawned, "parent_thread_id") or (get_text(meta, "parent_thread_id") if self.agent else "")
            self.session = shorten_id(get_text(meta, "session_id") or parent or own)
        elif own != self.own and not self.turn:
            self.copied = shorten_id(get_text(meta, "session_id")) or own
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

    def _item(self, place: LinePosition, item: JsonObject) -> Iterator[Step]:
        kind = get_text(item, "type")
        if kind == "message":
            yield from self._message(place, item)
        elif kind in ("function_call", "custom_tool_call", "local_shell_call", "web_search_call"):
            yield from self._call(place, item, _call(kind, item))
        elif kind in ("function_call_output", "custom_tool_call_output"):
            yield from self._result(place, shorten_id(get_text(item, "call_id")), item.get("output"))

    def _message(self, place: LinePosition, item: JsonObject) -> Iterator[Step]:
        role, texts = item.get("role"), [strip_fenced(text) for text in _texts(item.get("content"))]
        if role == "assistant" and (said := "\n".join(texts).strip()):
            yield self._step("agent", place, f"agent:{hash_text(said)}", text=said)
        elif role == "user":
            said = "\n".join(text for text in texts if not _INJECTED.match(text)).strip()
            said = said.partition(_REQUEST)[2].strip() if _REQUEST in said else said
            said = extract_typed_words(said)
            self.prompts += bool(said)
            if said and (self.copied or not self.agent):
                yield self._step("person", place, f"person:{hash_text(said)}", text=said)

    def _call(self, place: LinePosition, item: JsonObject, call: ToolCall) -> Iterator[Step]:
        key = shorten_id(get_text(item, "call_id") or get_text(item, "id"))
        if not key:
            key, self.unnamed = f"{hash_text(repr(call))}.{self.unnamed}", self.unnamed + 1
        if call.tool == "BashOutput":
            call = replace(call, command=self.running.get(call.path, ""), path="")
        if item.get("name") == "exec" and item.get("type") == "custom_tool_call" and self.items:
            self.scripts[key] = [place[0], shorten_id(call.tool), call.command[:_REMEMBERED], call.path[:_REMEMBERED]]
            forget_oldest(self.scripts, _WAITING)
            return
        if item.get("type") != "web_search_call":
            self.open[key] = call.command[:_REMEMBERED]
            forget_oldest(self.open, _WAITING)
        yield self._step("call", place, f"call:{key}", call=key, **vars(call))

    def _result(self, place: LinePosition, key: str, output: object) -> Iterator[Step]:
        outcome, command = _outcome(output), self.open.pop(key, "")
        script = self.scripts.pop(key, None)
        if script is not None:
            if not (script and outcome.script_failed):
                return  # what it ran has been told, command by command
            line, tool, command, path = script
            yield self._step("call", (line, place[1]), f"call:{key}", call=key, tool=tool, command=command, path=path)
        if outcome.process_id and command:
            self.running[outcome.process_id] = command
            forget_oldest(self.running, _PROCESSES)
        yield self._ended(place, key, outcome)

    def _ended(self, place: LinePosition, key: str, outcome: CallOutcome, **more: Any) -> Step:
        told = {
            "text": outcome.text,
            "failed": outcome.failed,
            "refused": outcome.refusal,
            "denied": outcome.denied,
        }
        return self._step("result", place, f"result:{key}", call=key, **told, **more)

    def _event(self, place: LinePosition, event: JsonObject) -> Iterator[Step]:
        kind = get_text(event, "type")
        if kind == "task_started":
            self._open_turn(event)
        elif kind == "token_count":
            self._count_tokens(get_object(event, "info"))
        elif kind == "item_completed":
            item = get_object(event, "item")
            self.items = self.items or get_text(item, "type") in _ITEMS
            key, cwd = (
                shorten_id(get_text(item, "id")),
                unquote(get_text(item, "cwd").removeprefix("file://")) or self.cwd,
            )
            if key.startswith("exec-") and (ran := _ran(item)):
                yield self._step("call", place, f"call:{key}", call=key, **vars(ran[0]), cwd=cwd)
                yield self._ended(place, key, ran[1], cwd=cwd)
                self.scripts = {one: [] for one in self.scripts} if ran[1].failed else self.scripts
        elif kind == "turn_aborted" and event.get("reason") == "interrupted":
            yield from (self._ended(place, key, CallOutcome("", refusal=" ")) for key in self.open)
            self.scripts.update((key, []) for key in self.open)
            forget_oldest(self.scripts, 2 * _WAITING)
            self.open.clear()

    def _count_tokens(self, info: JsonObject) -> None:
        used, totals = get_object(info, "last_token_usage"), repr(sorted(get_object(info, "total_token_usage").items()))
        if used and totals[:_REMEMBERED] != self.counted and not self.copied:
            token_usage.count_usage(self.usage, "", token_usage.parse_codex_usage(used))
        self.counted = totals[:_REMEMBERED]


def find_transcript_folders(environment: Mapping[str, str], home: str) -> list[str]:
    root = environment.get("CODEX_HOME") or os.path.join(home, ".codex")
    return [os.path.join(root, "sessions"), os.path.join(root, "archived_sessions")]


def is_transcript_path(path: str) -> bool:
    """Any name will do for a rollout that somebody kept elsewhere; what it holds decides."""
    return path.endswith(".jsonl") and os.path.basename(path) != "history.jsonl"


def is_transcript_head(head: bytes) -> bool:
    return any(
        ("payload" in wire and get_text(wire, "type") in _KINDS) or {"id", "timestamp", "instructions"} <= wire.keys()
        for wire in parse_opening_objects(head)
    )


def _call(kind: str, item: JsonObject) -> ToolCall:
    if kind == "local_shell_call":
        return parse_shell_call(get_object(item, "action").get("command"))
    if kind == "web_search_call":
        return ToolCall("WebSearch", content=get_first_text(get_object(item, "action"), "query", "url", "pattern"))
    name, given = get_text(item, "name"), item.get("arguments", item.get("input"))
    if kind == "custom_tool_call" and isinstance(given, str):
        known = {"exec": _script, "apply_patch": parse_patch_call}.get(name)
        return known(given) if known else ToolCall(name, content=given)
    try:
        given = orjson.loads(given) if isinstance(given, str) else given
    except orjson.JSONDecodeError:
        given = {}
    return parse_call(name, given if isinstance(given, dict) else {}, get_text(item, "namespace"))


def _script(source: str) -> ToolCall:
    """What a script of code mode asks for, as far as its text tells."""
    commands = [_literal(found) for found in _COMMAND.findall(source)]
    if commands:
        return ToolCall("Bash", command="\n".join(commands))
    if patch := _PATCH.search(source):
        return parse_patch_call(_literal(patch.group()))
    nested = _NESTED.search(source)
    name = nested.group(1) if nested else "exec"
    return ToolCall(TOOL_NAMES.get(name, name), content=source)


def _literal(quoted: str) -> str:
    """A string of JavaScript; what JSON does not know is read as near as may be."""
    try:
        return str(orjson.loads(quoted))
    except orjson.JSONDecodeError:
        return re.sub(r"\\(.)", lambda found: {"n": "\n", "t": "\t"}.get(found[1], found[1]), quoted[1:-1], flags=re.S)


def _ran(item: JsonObject) -> tuple[ToolCall, CallOutcome] | None:
    """A call made from inside a script, and how it ended."""
    kind, status = item.get("type"), item.get("status")
    refused = " " if status == "declined" else ""
    if kind == "CommandExecution":
        code = item.get("exit_code")
        code = code if isinstance(code, int) else 0
        text = get_text(item, "aggregated_output") or (f"Exit code {code}" if code else "")
        return parse_shell_call(item.get("command")), _settled(text, code != 0 or status == "failed", refused)
    if kind == "FileChange":
        changes = {path: change for path, change in get_object(item, "changes").items() if isinstance(change, dict)}
        path, first = next(iter(changes.items()), ("", {}))
        lines = [
            get_text(one, "content") or extract_added_lines(get_text(one, "unified_diff")) for one in changes.values()
        ]
        call = ToolCall("Write" if first.get("type") == "add" else "Edit", path=path, content="\n".join(lines))
        return call, _settled(get_text(item, "stderr") or get_text(item, "stdout"), status == "failed", refused)
    if kind == "McpToolCall":
        result = get_object(item, "result")
        tool = f"mcp__{get_text(item, 'server')}__{get_text(item, 'tool')}"
        call = ToolCall(tool, content="\n".join(collect_strings(item.get("arguments"))))
        text = "\n".join(collect_strings(item.get("error") or _texts(result.get("content"))))
        return call, _settled(text, status == "failed" or result.get("isError") is True, refused)
    return None


def _settled(text: str, failed: bool, refused: str = "", process: str = "", broken: bool = False) -> CallOutcome:
    if text.startswith(_HELD):
        return CallOutcome("", denied=True)  # the call did not run, so there is no result beside our words
    denied = failed and not refused and is_hardwon_denial(text)
    failed = failed and not refused and not denied
    return CallOutcome(strip_fenced(text).strip("\n"), failed, refused, process, failed and broken, denied)


def _outcome(output: object) -> CallOutcome:
    well = True
    if isinstance(output, dict):
        well = output.get("success") is not False
        output = output.get("content", output.get("output", ""))
    read = [parse_json_result(part) for part in _texts(output)]
    text = "\n".join(part for part, _ in read)
    code = next((code for _, code in read if code), None)
    head, mark, body = text.partition(OUTPUT_MARKER)
    if not mark or DURATION_MARKER not in head:
        head, body = "", text
    if not head and body.startswith(_DENIED_BY_HOOK) and not body.startswith(_HELD):
        return CallOutcome(strip_fenced(body).strip("\n"), denied=True)
    says = parse_exit_code(head or text.partition("\n")[0])
    code = code if says is None else says
    broken = head.startswith("Script failed")
    failed = not well or bool(code) or broken or (not head and bool(_FAILED.match(body)))
    refused = _REFUSED.match(body) or (failed and not code and _REFUSED.search(body))
    process = _RUNNING.search(head)
    said = body.strip("\n") or (f"Process exited with code {code}" if says else "")
    return _settled(said, failed, " " if refused else "", process.group(1) if process else "", broken)


def _texts(value: object) -> list[str]:
    """The parts of a content, which is a string or a list."""
    if isinstance(value, str):
        return [value]
    return [get_text(one, "text") for one in value if isinstance(one, dict)] if isinstance(value, list) else []
