"""Codex: rollouts, one line per thing that happened, under `$CODEX_HOME/sessions` and `archived_sessions`.

A rollout says most things twice, as what the model was given (`response_item`) and as what the screen showed
(`event_msg`). The first is read, because every version writes it and the second has had three shapes; the second only
for what it alone has: which commands a script of code mode ran, and that a turn was interrupted.

A fork or a sub-agent's rollout opens with its own `session_meta` and then the parent's, followed by a copy of the
parent's lines under new timestamps, many with the same one. The copy has the parent's turn ids, which sort by time, so
it ends at the first turn younger than the rollout's own id; until then steps are the parent's, with the ids they have
there and times that follow from the turn's. What a sub-agent is told afterwards was written by a program, so it is
nobody's words.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote

import orjson

from hardwon.agents.codex import (
    TOOL_NAMES,
    parse_call,
    parse_exit_code,
    parse_json_result,
    parse_shell_call,
    split_head,
)
from hardwon.agents.fields import collect_strings, get_first_text, get_object, get_text, get_tool_content
from hardwon.agents.patches import ToolCall, join_marked_lines, parse_patch_call
from hardwon.agents.transcript_steps import (
    REFUSED_WITHOUT_WORDS,
    JsonObject,
    Step,
    TokenUsage,
    count_usage,
    create_counter,
    extract_typed_words,
    forget_oldest,
    format_milliseconds,
    get_count,
    hash_text,
    is_hardwon_denial,
    parse_line,
    restore_state,
    shorten_id,
    strip_fenced,
    truncate_path,
)
from hardwon.text.fence import FENCE_OPEN
from hardwon.types import replace

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
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED_CHARS = {"n": "\n", "t": "\t"}
_ITEM_TYPES = frozenset({"UserMessage", "AgentMessage", "CommandExecution", "FileChange", "McpToolCall"})
_LINE_KINDS = frozenset({"session_meta", "turn_context", "response_item", "event_msg", "compacted"})
_TURN_WITH_TIME = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-")
# No answer in 629 came sooner after the beginning of its turn, so a copied line is never later than its original.
_LINE_MILLISECONDS = 200
_MAX_REMEMBERED = 500  # characters of a command or path whose result is still to come
# A reader's state must stay small; a poll of an older process is shown without its command.
_MAX_PROCESSES = 8
_MAX_WAITING = 32  # calls without a result


class CallOutcome(NamedTuple):
    """A call's result."""

    text: str
    failed: bool = False
    refused: str = ""
    denied: bool = False  # a hook forbade the call
    process_id: str = ""  # of a command that is still running
    script_failed: bool = False  # a script failed, not only something it ran


class Reader:
    """Reads one rollout line by line, and keeps the state between lines."""

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        self.malformed = 0
        self.thread_id = ""  # the rollout's own
        self.session = ""
        self.subagent_id = ""
        self.copied = ""  # the parent's session while its lines are repeated here
        self.cwd = ""
        self.turn = ""
        self.turn_lines = 0  # of a copied turn, so far
        self.prompts = 0  # used as the turn's id if turns have none
        self.unnamed = 0  # calls of the turn without an id
        self.has_items = False  # whether this version of Codex reports what a script ran
        self.usage = create_counter()
        self.counted = ""  # the totals of the last token count, which may be repeated
        self.open: dict[str, str] = {}  # the commands of calls without a result
        self.running: dict[str, str] = {}  # the commands of processes that are still running
        # Scripts without a result: line, tool, command and path; empty once what they ran has been yielded.
        self.scripts: dict[str, list[Any]] = {}
        restore_state(self, state)

    def read_line(self, number: int, line: bytes) -> Iterator[Step]:
        """Yield the steps of one line."""
        wire, malformed = parse_line(line)
        self.malformed += malformed
        kind = get_text(wire, "type")
        payload = get_object(wire, "payload")
        if "payload" not in wire:  # in 2025 a line was the item itself
            kind = "response_item"
            payload = wire
        subagent_id = "" if self.copied else self.subagent_id
        at = get_text(wire, "timestamp")
        if self.copied:
            self.turn_lines += 1
            at = _find_copied_time(self.turn, self.turn_lines) or at
        session = self.copied or self.session
        # What the line holds decides which kind and id the step gets.
        step = Step("compacted", number, id="", at=at, session=session, subagent_id=subagent_id, cwd=self.cwd)
        if kind == "session_meta":
            self._open_session(payload)
        elif kind == "turn_context":
            self._open_turn(payload)
        elif kind == "compacted":
            yield step._replace(id=self._build_id(f"compacted:{hash_text(get_text(payload, 'message'))}"))
        elif kind == "event_msg":
            yield from self._read_event(step, payload)
        elif kind == "response_item" and not get_object(wire, "metadata").get("compaction_output"):
            yield from self._read_item(step, payload)

    def _build_id(self, key: str) -> str:
        """Return a step's id: the turn's, or its number in the session, and what it is in the turn."""
        turn = self.turn or f"{self.copied or self.session}:{self.prompts}"
        return f"{turn}:{key}"

    def _open_session(self, meta: JsonObject) -> None:
        """Read whose rollout this is from its first `session_meta`, and from a second one that a copy follows."""
        thread_id = shorten_id(get_text(meta, "id"))
        if not self.thread_id:
            self.thread_id = thread_id
            source = get_object(meta, "source")
            parent = get_text(get_object(get_object(source, "subagent"), "thread_spawn"), "parent_thread_id")
            if "subagent" in source:
                self.subagent_id = thread_id
                parent = parent or get_text(meta, "parent_thread_id")
            self.session = shorten_id(get_text(meta, "session_id") or parent or thread_id)
        # The second session_meta of a fork is the parent's, whose lines follow.
        elif thread_id != self.thread_id and not self.turn:
            self.copied = shorten_id(get_text(meta, "session_id")) or thread_id
        self.cwd = truncate_path(get_text(meta, "cwd")) or self.cwd

    def _open_turn(self, payload: JsonObject) -> None:
        """Begin a turn, if this line names another one; the first of the rollout's own turns ends a copy."""
        turn = shorten_id(get_text(payload, "turn_id"))
        self.cwd = truncate_path(get_text(payload, "cwd")) or self.cwd
        if turn and turn != self.turn:
            self.turn = turn
            self.unnamed = 0
            self.turn_lines = 0
            self.open.clear()
            self.scripts.clear()
            if turn > self.thread_id:
                self.copied = ""

    def _read_item(self, step: Step, item: JsonObject) -> Iterator[Step]:
        """Yield the steps of what the model was given or wrote."""
        kind = get_text(item, "type")
        if kind == "message":
            yield from self._read_message(step, item)
        elif kind in ("function_call", "custom_tool_call", "local_shell_call", "web_search_call"):
            yield from self._read_call(step, item, _parse_item_call(kind, item))
        elif kind in ("function_call_output", "custom_tool_call_output"):
            key = shorten_id(get_text(item, "call_id"))
            yield from self._read_result(step, key, _parse_outcome(item.get("output")))

    def _read_message(self, step: Step, item: JsonObject) -> Iterator[Step]:
        """Yield the agent's words, or a person's without what Codex adds to them."""
        role = item.get("role")
        texts = [strip_fenced(text) for text in _list_texts(item.get("content"))]
        if role == "assistant" and (text := "\n".join(texts).strip()):
            yield step._replace(kind="agent", id=self._build_id(f"agent:{hash_text(text)}"), text=text)
        elif role == "user":
            text = "\n".join(text for text in texts if not _INJECTED_TEXT.match(text))
            if _REQUEST_HEADING in text:  # an editor's plugin puts what is open there in front
                text = text.partition(_REQUEST_HEADING)[2]
            text = extract_typed_words(text.strip())
            if not text:
                return
            self.prompts += 1
            if not step.subagent_id:  # what a sub-agent is told was written by a program
                yield step._replace(kind="person", id=self._build_id(f"person:{hash_text(text)}"), text=text)

    def _read_call(self, step: Step, item: JsonObject, call: ToolCall) -> Iterator[Step]:
        """Yield a call.

        A script is not yielded yet if this version reports the commands that it runs (`has_items`): those are the calls
        then, and the script is one only if it fails itself.
        """
        key = shorten_id(get_first_text(item, "call_id", "id"))
        if not key:
            key = f"{hash_text(repr(call))}.{self.unnamed}"
            self.unnamed += 1
        # A poll of a running process, whose id is in `path`, is shown as the command that started it.
        if call.tool == "BashOutput":
            call = replace(call, command=self.running.get(call.path, ""), path="")
        command = call.command[:_MAX_REMEMBERED]
        is_script = item.get("type") == "custom_tool_call" and item.get("name") == "exec"
        if is_script and self.has_items:
            self.scripts[key] = [step.line, shorten_id(call.tool), command, call.path[:_MAX_REMEMBERED]]
            forget_oldest(self.scripts, _MAX_WAITING)
            return
        if item.get("type") != "web_search_call":  # a search of the web never gets a result
            self.open[key] = command
            forget_oldest(self.open, _MAX_WAITING)
        yield self._build_call(step, key, call)

    def _build_call(self, step: Step, key: str, call: ToolCall) -> Step:
        return step._replace(kind="call", id=self._build_id(f"call:{key}"), call=key, **vars(call))

    def _read_result(self, step: Step, key: str, outcome: CallOutcome) -> Iterator[Step]:
        """Yield the result of a call; that of a script, after its call, only if the script itself failed."""
        command = self.open.pop(key, "")
        script = self.scripts.pop(key, None)
        if script is not None:
            is_failure_told = not script  # emptied when a command that it ran failed, or when it was interrupted
            if is_failure_told or not outcome.script_failed:
                return  # the commands that it ran have been yielded
            line, tool, command, path = script
            yield self._build_call(step._replace(line=line), key, ToolCall(tool, command, path))
        if outcome.process_id and command:
            self.running[outcome.process_id] = command
            forget_oldest(self.running, _MAX_PROCESSES)
        yield self._build_result(step, key, outcome)

    def _build_result(self, step: Step, key: str, outcome: CallOutcome) -> Step:
        """Return the step of a call's result."""
        return step._replace(
            kind="result",
            id=self._build_id(f"result:{key}"),
            call=key,
            text=outcome.text,
            failed=outcome.failed,
            refused=outcome.refused,
            denied=outcome.denied,
        )

    def _read_event(self, step: Step, event: JsonObject) -> Iterator[Step]:
        """Yield what only the screen was shown: calls inside a script, and an interruption."""
        kind = get_text(event, "type")
        if kind == "task_started":
            self._open_turn(event)
        elif kind == "token_count":
            self._count_tokens(get_object(event, "info"))
        elif kind == "item_completed":
            item = get_object(event, "item")
            if get_text(item, "type") in _ITEM_TYPES:
                self.has_items = True
            key = shorten_id(get_text(item, "id"))
            executed = _parse_script_item(item) if key.startswith("exec-") else None
            if executed:
                call, outcome = executed
                cwd = unquote(get_text(item, "cwd").removeprefix("file://"))
                step = step._replace(cwd=cwd or step.cwd)
                yield self._build_call(step, key, call)
                yield self._build_result(step, key, outcome)
                if outcome.failed:
                    # Which script ran it is not said, so the failure of none is told again.
                    self.scripts = {script_key: [] for script_key in self.scripts}
        elif kind == "turn_aborted" and event.get("reason") == "interrupted":
            for key in self.open:
                yield self._build_result(step, key, CallOutcome(text="", refused=REFUSED_WITHOUT_WORDS))
                self.scripts[key] = []
            forget_oldest(self.scripts, 2 * _MAX_WAITING)
            self.open.clear()

    def _count_tokens(self, info: JsonObject) -> None:
        """Count the tokens of the latest request; the same report comes several times."""
        tokens = get_object(info, "last_token_usage")
        totals = repr(sorted(get_object(info, "total_token_usage").items()))[:_MAX_REMEMBERED]
        if tokens and totals != self.counted and not self.copied:
            # Codex counts what was cached among the input, and reasoning among the output.
            tokens_in = get_count(tokens, "input_tokens")
            tokens_out = get_count(tokens, "output_tokens")
            usage = TokenUsage(tokens_in, tokens_out, get_count(tokens, "cached_input_tokens"))
            count_usage(self.usage, message="", usage=usage)
        self.counted = totals


def _find_copied_time(turn: str, line: int) -> str:
    """Return about when a line of a copied turn was written; empty if the turn's id does not tell when it began.

    The id is a UUID of version 7, which begins with the time in milliseconds. With the time of the copying, which a
    whole session shares, nobody could tell which turn an answer ended.
    """
    if not _TURN_WITH_TIME.match(turn):
        return ""
    return format_milliseconds(int(turn[:8] + turn[9:13], 16) + line * _LINE_MILLISECONDS)


def find_transcript_folders(environment: Mapping[str, str], home: str) -> list[str]:
    """Return the folders of Codex's sessions, those that a person archived included."""
    root = environment.get("CODEX_HOME") or os.path.join(home, ".codex")
    return [os.path.join(root, "sessions"), os.path.join(root, "archived_sessions")]


def is_transcript_path(path: str) -> bool:
    """Return whether it may be a rollout, under any name: people keep them elsewhere."""
    return path.endswith(".jsonl") and os.path.basename(path) != "history.jsonl"


def is_opening_object(wire: JsonObject) -> bool:
    has_envelope = "payload" in wire and get_text(wire, "type") in _LINE_KINDS
    return has_envelope or {"id", "timestamp", "instructions"} <= wire.keys()


def _parse_item_call(kind: str, item: JsonObject) -> ToolCall:
    """Return the call of an item, whose arguments are an object, its JSON, or a script."""
    action = get_object(item, "action")
    if kind == "local_shell_call":
        return parse_shell_call(action.get("command"))
    if kind == "web_search_call":
        return ToolCall("WebSearch", content=get_first_text(action, "query", "url", "pattern"))
    name = get_text(item, "name")
    arguments = item.get("arguments", item.get("input"))
    if isinstance(arguments, str):
        if kind == "custom_tool_call":  # the arguments are a text of the tool's own, not JSON
            if name == "exec":
                return _parse_script(arguments)
            if name == "apply_patch":
                return parse_patch_call(arguments)
            return ToolCall(name, content=arguments)
        arguments, _ = parse_line(arguments.encode("utf-8", "replace"))
    tool_input = arguments if isinstance(arguments, dict) else {}
    return parse_call(name, tool_input, get_text(item, "namespace"))


def _parse_script(source: str) -> ToolCall:
    """Return the calls of a code-mode script, as far as its text shows them."""
    commands = [_decode_literal(literal) for literal in _SCRIPT_COMMAND.findall(source)]
    if commands:
        return ToolCall("Bash", command="\n".join(commands))
    if patch := _SCRIPT_PATCH.search(source):
        return parse_patch_call(_decode_literal(patch.group()))
    nested = _SCRIPT_TOOL.search(source)
    name = nested.group(1) if nested else "exec"
    return ToolCall(TOOL_NAMES.get(name, name), content=source)


def _decode_literal(quoted: str) -> str:
    """Return the text of a JavaScript string; an escape that JSON lacks is read as its last character."""
    try:
        return str(orjson.loads(quoted))
    except orjson.JSONDecodeError:
        return _ESCAPE.sub(lambda match: _ESCAPED_CHARS.get(match[1], match[1]), quoted[1:-1])


def _parse_script_item(item: JsonObject) -> tuple[ToolCall, CallOutcome] | None:
    """Return a call made from inside a script, and how it ended; None if the item is no call."""
    kind = item.get("type")
    status = item.get("status")
    failed = status == "failed"
    refused = REFUSED_WITHOUT_WORDS if status == "declined" else ""
    if kind == "CommandExecution":
        code = item.get("exit_code")
        text = get_text(item, "aggregated_output")
        if isinstance(code, int) and code != 0:
            failed = True
            text = text or f"Exit code {code}"
        return parse_shell_call(item.get("command")), _build_outcome(text, failed=failed, refused=refused)
    if kind == "FileChange":
        changes = get_object(item, "changes")
        path = next(iter(changes), "")
        added_texts = []
        for change in changes.values():
            diff_lines = get_text(change, "unified_diff").split("\n")
            added_texts.append(get_text(change, "content") or join_marked_lines("+", diff_lines))
        tool = "Write" if get_text(changes.get(path), "type") == "add" else "Edit"
        call = ToolCall(tool, path=path, content="\n".join(added_texts))
        text = get_first_text(item, "stderr", "stdout")
        return call, _build_outcome(text, failed=failed, refused=refused)
    if kind == "McpToolCall":
        result = get_object(item, "result")
        tool = f"mcp__{get_text(item, 'server')}__{get_text(item, 'tool')}"
        call = ToolCall(tool, content=get_tool_content(tool, get_object(item, "arguments")))
        text = "\n".join(collect_strings(item.get("error") or _list_texts(result.get("content"))))
        has_error = failed or result.get("isError") is True
        return call, _build_outcome(text, failed=has_error, refused=refused)
    return None


def _parse_outcome(output: object) -> CallOutcome:
    """Return how a call ended, from the output that the model was given."""
    is_success = True
    if isinstance(output, dict):
        is_success = output.get("success") is not False
        output = output.get("content", output.get("output", ""))
    text, json_code = _join_results(output)
    head, body = split_head(text)
    if not head and body.startswith(_DENIED_BY_HOOK):
        # The call did not run, so there is no result beside the reason; hardwon's own reason is no text of the session.
        is_hardwon = body.startswith(_HARDWON_DENIAL)
        return CallOutcome("" if is_hardwon else strip_fenced(body).strip("\n"), denied=True)
    first_line = text.partition("\n")[0]
    head_code = parse_exit_code(head or first_line)
    code = json_code if head_code is None else head_code
    script_failed = head.startswith("Script failed")
    # Without a head only the words of a result tell that it failed.
    says_failure = not head and _FAILURE_TEXT.match(body) is not None
    failed = not is_success or code != 0 or script_failed or says_failure
    result_text = body.strip("\n")
    if not result_text and head_code:
        result_text = f"Process exited with code {head_code}"
    refused = _find_refusal(body, has_exit_code=code != 0, failed=failed)
    outcome = _build_outcome(result_text, failed=failed, refused=refused)
    process = _RUNNING_PROCESS.search(head)
    return outcome._replace(process_id=process[1] if process else "", script_failed=outcome.failed and script_failed)


def _join_results(output: object) -> tuple[str, int]:
    """Return the text of an output's parts, and the exit code of the first one that is JSON and failed, else 0."""
    texts = []
    json_code = 0
    for part in _list_texts(output):
        part_text, part_code = parse_json_result(part)
        texts.append(part_text)
        json_code = json_code or part_code or 0
    return "\n".join(texts), json_code


def _find_refusal(body: str, *, has_exit_code: bool, failed: bool) -> str:
    """Return the step's `refused`: whether a result says that a person said no, whose words it never has."""
    # A command that ran may print such words as well, so they count only at the beginning then.
    did_not_run = failed and not has_exit_code
    refusal = _REFUSAL_TEXT.search(body) if did_not_run else _REFUSAL_TEXT.match(body)
    return REFUSED_WITHOUT_WORDS if refusal else ""


def _build_outcome(text: str, *, failed: bool, refused: str) -> CallOutcome:
    """Return an outcome; a call that a person or a hook stopped has not failed."""
    was_denied = failed and not refused and is_hardwon_denial(text)
    has_failed = failed and not refused and not was_denied
    return CallOutcome(strip_fenced(text).strip("\n"), failed=has_failed, refused=refused, denied=was_denied)


def _list_texts(content: object) -> list[str]:
    """Return the texts of a content, which is a string or a list of parts."""
    if isinstance(content, str):
        return [content]
    if not isinstance(content, list):
        return []
    return [get_text(part, "text") for part in content]
