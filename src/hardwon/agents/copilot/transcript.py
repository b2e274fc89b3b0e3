"""GitHub Copilot: `~/.copilot/session-state/<id>/events.jsonl` of the CLI, and VS Code's transcripts of the same form.

VS Code writes neither what a call returned nor how a command ended, and says `success` of a command that failed, so
only its failures are taken from there; its hooks report the rest.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from hardwon.agents.copilot.payload import has_failed, normalize_call
from hardwon.agents.fields import get_first_text, get_object, get_text
from hardwon.agents.transcript_steps import (
    JsonObject,
    Step,
    TokenUsage,
    begin_call,
    count_usage,
    create_counter,
    end_call,
    extract_typed_words,
    get_count,
    is_hardwon_denial,
    parse_line,
    parse_opening_objects,
    restore_state,
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


class Reader:
    """Reads one transcript line by line, and keeps the state between lines."""

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        self.malformed = 0
        self.session = ""
        self.cwd = ""
        self.tools: dict[str, str] = {}  # the tool of each call that has not ended
        self.usage = create_counter()
        restore_state(self, state)

    def read_line(self, number: int, line: bytes) -> Iterator[Step]:
        wire, malformed = parse_line(line)
        self.malformed += malformed
        kind, data = get_text(wire, "type"), get_object(wire, "data")
        if kind == "session.start":
            self.session = shorten_id(get_text(data, "sessionId"))
            self.cwd = truncate_path(get_text(get_object(data, "context"), "cwd"))
        elif kind == "session.usage_record":
            usage = get_object(data, "usage")
            tokens = TokenUsage(*(get_count(usage, key) for key in ("inputTokens", "outputTokens", "cacheReadTokens")))
            count_usage(self.usage, get_first_text(usage, "apiCallId") or get_text(wire, "id"), tokens)
        elif kind in ("user.message", "assistant.message", "tool.execution_start", "tool.execution_complete"):
            agent, step_id = shorten_id(get_text(wire, "agentId")), shorten_id(get_text(wire, "id"))
            step = Step("agent", number, step_id, get_text(wire, "timestamp"), self.session, agent, self.cwd)
            yield from self._read_step(step, kind, data)

    def _read_step(self, step: Step, kind: str, data: JsonObject) -> Iterator[Step]:
        call_id = get_text(data, "toolCallId")
        if kind == "user.message":
            text = extract_typed_words(get_text(data, "content"))
            # A sub-agent's prompt is written by the agent that started it.
            if text and not step.agent:
                yield step._replace(kind="person", text=text)
        elif kind == "assistant.message":
            if text := strip_fenced(get_text(data, "content")).strip():
                yield step._replace(text=text)
        elif kind == "tool.execution_start":
            tool, tool_input = normalize_call(get_text(data, "toolName"), get_object(data, "arguments"))
            yield begin_call(self.tools, step, call_id, tool, tool_input)
        else:
            result = end_call(self.tools, step, call_id)
            if data.get("success") is False or "result" in data:
                yield _add_outcome(result, data)


def _add_outcome(result: Step, data: JsonObject) -> Step:
    error = get_object(data, "error")
    text = get_text(get_object(data, "result"), "content") or get_text(error, "message")
    if is_hardwon_denial(text):
        return result._replace(denied=True)
    # "denied" is what Copilot's own rules forbid, or what it could ask nobody about.
    if text.startswith(_DENIED_BY_HOOK) or get_text(error, "code") == "denied":
        return result._replace(text=text, denied=True)
    if get_text(error, "code") == "rejected":
        return result._replace(text=text, refused=" ")
    exit_code = get_object(data, "shellExecution").get("exitCode")
    failed = data.get("success") is False or (isinstance(exit_code, int) and exit_code != 0)
    if result.tool == "Bash" and exit_code is None:
        failed = failed or has_failed(text)
    return result._replace(text=strip_fenced(text), failed=failed)


def find_transcript_folders(environment: Mapping[str, str], home: str) -> list[str]:
    copilot_folder = environment.get("COPILOT_HOME") or os.path.join(home, ".copilot")
    editor_folders = [os.path.join(home, folder) for folder in _EDITOR_FOLDERS]
    return [os.path.join(copilot_folder, "session-state"), *editor_folders]


def is_transcript_path(path: str) -> bool:
    return path.endswith(".jsonl")


def is_transcript_head(head: bytes) -> bool:
    return any(wire.get("type") == "session.start" and "data" in wire for wire in parse_opening_objects(head))
