"""GitHub Copilot: `~/.copilot/session-state/<id>/events.jsonl` of the CLI, and VS Code's transcripts of the same form.

VS Code writes neither what a call returned nor how a command ended, and says `success` of a command that failed, so
only its failures are taken from there; its hooks report the rest.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import partial

from hardwon.agents.copilot import has_failed, normalize_call
from hardwon.agents.fields import get_object, get_text
from hardwon.agents.transcript_steps import (
    REFUSED_WITHOUT_WORDS,
    JsonObject,
    ObjectReader,
    Step,
    TokenUsage,
    add_outcome,
    count_usage,
    extract_typed_words,
    get_count,
    shorten_id,
    strip_fenced,
    truncate_path,
)

_DENIED_BY_HOOK = "Denied by preToolUse hook"
# Where VS Code and its relatives keep what belongs to a workspace, below the home.
_EDITOR_FOLDERS = (
    ".config/Code/User/workspaceStorage",
    ".config/Code - Insiders/User/workspaceStorage",
    "Library/Application Support/Code/User/workspaceStorage",
    ".vscode-server/data/User/workspaceStorage",
    ".local/share/code-server/User/workspaceStorage",
)


def read_object(reader: ObjectReader, number: int, wire: JsonObject, line: bytes) -> Iterator[Step]:
    """Yield the steps of one line, given as the object in it; other agents' readers also need the line itself."""
    kind = get_text(wire, "type")
    data = get_object(wire, "data")
    if kind == "session.start":
        reader.session = shorten_id(get_text(data, "sessionId"))
        reader.cwd = truncate_path(get_text(get_object(data, "context"), "cwd"))
    elif kind == "session.usage_record":
        usage = get_object(data, "usage")
        tokens_in = get_count(usage, "inputTokens")
        tokens_out = get_count(usage, "outputTokens")
        tokens = TokenUsage(tokens_in, tokens_out, get_count(usage, "cacheReadTokens"))
        count_usage(reader.usage, get_text(usage, "apiCallId") or get_text(wire, "id"), tokens)
    elif kind in ("user.message", "assistant.message", "tool.execution_start", "tool.execution_complete"):
        subagent_id = shorten_id(get_text(wire, "agentId"))
        step_id = shorten_id(get_text(wire, "id"))
        step = Step("agent", number, step_id, get_text(wire, "timestamp"), reader.session, subagent_id, reader.cwd)
        yield from _read_step(reader, step, kind, data)


def _read_step(reader: ObjectReader, step: Step, kind: str, data: JsonObject) -> Iterator[Step]:
    """Yield the steps of a message or of a call's beginning or end."""
    call_id = get_text(data, "toolCallId")
    if kind == "user.message":
        text = extract_typed_words(get_text(data, "content"))
        # A sub-agent's prompt is written by the agent that started it.
        if text and not step.subagent_id:
            yield step._replace(kind="person", text=text)
    elif kind == "assistant.message":
        if text := strip_fenced(get_text(data, "content")).strip():
            yield step._replace(text=text)
    elif kind == "tool.execution_start":
        tool, tool_input = normalize_call(get_text(data, "toolName"), get_object(data, "arguments"))
        yield reader.begin_call(step, call_id, tool, tool_input)
    else:
        result = reader.end_call(step, call_id)
        if data.get("success") is False or "result" in data:
            yield _read_outcome(result, data)


Reader = partial(ObjectReader, read_object)


def _read_outcome(result: Step, data: JsonObject) -> Step:
    """Return a result with its text and how the call ended."""
    error = get_object(data, "error")
    text = get_text(get_object(data, "result"), "content") or get_text(error, "message")
    code = get_text(error, "code")
    if code == "rejected":  # by a person, where "denied" is by Copilot's own rules, or because it could ask nobody
        return result._replace(text=text, refused=REFUSED_WITHOUT_WORDS)
    exit_code = get_object(data, "shellExecution").get("exitCode")
    failed = data.get("success") is False
    if isinstance(exit_code, int) and exit_code != 0:
        failed = True
    if result.tool == "Bash" and exit_code is None:  # then only the text can tell
        failed = failed or has_failed(text)
    denied = text.startswith(_DENIED_BY_HOOK) or code == "denied"
    return add_outcome(result, text, failed=failed, denied=denied)


def find_transcript_folders(environment: Mapping[str, str], home: str) -> list[str]:
    """Return the folders of Copilot's sessions, in the terminal and in each edition of VS Code."""
    copilot_folder = environment.get("COPILOT_HOME") or os.path.join(home, ".copilot")
    editor_folders = [os.path.join(home, folder) for folder in _EDITOR_FOLDERS]
    return [os.path.join(copilot_folder, "session-state"), *editor_folders]


def is_transcript_path(path: str) -> bool:
    return path.endswith(".jsonl")


def is_opening_object(wire: JsonObject) -> bool:
    return wire.get("type") == "session.start" and "data" in wire
