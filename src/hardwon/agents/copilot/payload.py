"""GitHub Copilot CLI and the agent of VS Code: one hook file serves both, and each reads another form of reply.

Registered under Claude Code's event names, both send snake_case fields. The CLI has Claude Code's tool names with its
own arguments and reads top-level fields; VS Code has its own tool names and reads `hookSpecificOutput`. Each ignores
the other's form (seen on Copilot CLI 1.0.102 and VS Code 1.139.1), so a reply has both.

The CLI gives a call no id, but its transcript does. It is written some time before or after the hook runs: if the call
is not there yet, the hook reports no result, and the transcript, which is read at the end of the turn, has it.
"""

from __future__ import annotations

import os

from hardwon.agents.envelopes import is_foreign
from hardwon.agents.fields import (
    STANDARD_TIMEOUTS,
    get_call_fields,
    get_first_text,
    get_list,
    get_object,
    get_path_text,
    get_text,
    load_payload,
    read_tail_lines,
)
from hardwon.text.light_json import dumps, loads
from hardwon.types import Event, replace

TYPE_CHECKING = False  # importing it from `typing` would slow down the hook
if TYPE_CHECKING:
    from typing import Any

    from hardwon.types import HookReply

NAME = "copilot"

# Without PreCompact: neither program was seen to send it.
EVENT_TIMEOUTS = {event: seconds for event, seconds in STANDARD_TIMEOUTS.items() if event != "PreCompact"}
# What the other events are answered was never seen to reach the model.
_CONTEXT_EVENTS = ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse")
# The CLI's own names stand in its transcript, the hooks have Claude Code's; the rest are VS Code's.
TOOL_NAMES = {
    "bash": "Bash",
    "view": "Read",
    "edit": "Edit",
    "create": "Write",
    "grep": "Grep",
    "glob": "Glob",
    "task": "Task",
    "Agent": "Task",
    "run_in_terminal": "Bash",
    "read_file": "Read",
    "create_file": "Write",
    "replace_string_in_file": "Edit",
    "multi_replace_string_in_file": "MultiEdit",
    "grep_search": "Grep",
    "file_search": "Glob",
    "list_dir": "LS",
    "fetch_webpage": "WebFetch",
    "runSubagent": "Task",
}
_ARGUMENT_NAMES = {
    "filePath": "file_path",
    "old_str": "old_string",
    "oldString": "old_string",
    "new_str": "new_string",
    "newString": "new_string",
    "file_text": "content",
    "agent_type": "subagent_type",
    "agentName": "subagent_type",
    "replacements": "edits",
}
_FILE_TOOLS = ("Read", "Edit", "Write", "MultiEdit")
_VSCODE_FOLDER = "/GitHub.copilot-chat/"
_VSCODE_ID_SUFFIX = "__vscode-"  # VS Code adds it and a number to the model's id of a call
_SHELL_ENDINGS = ("completed with exit code ", "Command exited with code ")
_TAIL_BYTES = 256 * 1024  # of a transcript, in which a call that is about to run is looked for


def parse_payload(kind: str, payload: bytes) -> Event | None:
    wire = load_payload(payload)
    kind = get_text(wire, "hook_event_name") or kind
    # Fields in camelCase come from hooks that somebody else registered; a sub-agent's start has no other spelling.
    is_unnamed = "hook_event_name" not in wire and kind != "SubagentStart"
    if kind not in EVENT_TIMEOUTS or is_unnamed or is_foreign(wire, (NAME,)):
        return None
    session, agent = get_first_text(wire, "session_id", "sessionId"), get_text(wire, "agent_id")
    if agent:
        # What a sub-agent is asked is a program's text, and its end is reported by an event of its own.
        if kind in ("UserPromptSubmit", "Stop", "SessionStart", "SessionEnd"):
            return None
        session = get_text(wire, "parent_agent_id") or session
    transcript = get_first_text(wire, "transcript_path", "transcriptPath") or find_transcript(session)
    source = get_text(wire, "source")
    event = Event(
        host=NAME,
        kind=kind,
        session=session,
        cwd=get_path_text(wire, "cwd"),
        agent=agent,
        source="startup" if source == "new" else source,
        prompt=get_text(wire, "prompt"),
        transcript=transcript,
        message=get_first_text(wire, "last_assistant_message", "reason", "agent_type"),
    )
    name = get_text(wire, "tool_name")
    if not name:
        return event
    event = _add_call_fields(event, name, wire)
    # Without an id the same call would be stored again from the transcript.
    is_reported_later = kind != "PreToolUse" and not event.tool_use_id and bool(event.transcript)
    return None if is_reported_later else event


def _add_call_fields(event: Event, name: str, wire: dict[str, Any]) -> Event:
    tool, tool_input = normalize_call(name, get_object(wire, "tool_input"))
    command, path, content = get_call_fields(tool, tool_input)
    call_id = get_text(wire, "tool_use_id").partition(_VSCODE_ID_SUFFIX)[0]
    event = replace(
        event,
        tool=tool,
        tool_use_id=call_id or _find_call_id(event.transcript, tool, tool_input),
        command=command,
        path=path,
        content=content,
        input=tool_input,
    )
    if event.kind == "PreToolUse":
        return event
    if event.kind == "PostToolUseFailure":
        return replace(event, response=get_text(wire, "error"), failed=True)
    result = get_object(wire, "tool_result")
    text = get_text(result, "text_result_for_llm") or get_text(wire, "tool_response")
    failed = get_text(result, "result_type") not in ("", "success") or (tool == "Bash" and has_failed(text))
    return replace(event, kind="PostToolUseFailure" if failed else event.kind, response=text, failed=failed)


def find_transcript(session: str) -> str:
    """Return where Copilot CLI writes a session, of which most of its hooks are not told; empty if it is not there."""
    folder = os.environ.get("COPILOT_HOME") or os.path.expanduser("~/.copilot")
    # The id becomes part of a path.
    if not session or "/" in session or "\0" in session:
        return ""
    path = os.path.join(folder, "session-state", session, "events.jsonl")
    return path if os.path.exists(path) else ""


def _find_call_id(transcript: str, tool: str, tool_input: dict[str, Any]) -> str:
    """Return the id of the latest call with this input that has not ended; empty if it is not written yet.

    Equal calls of one message cannot be told apart.
    """
    ended_ids = set()
    for line in reversed(read_tail_lines(transcript, _TAIL_BYTES) if transcript else []):
        if b'"tool.execution_' not in line:
            continue
        try:
            wire = loads(line.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            continue  # the first line of the tail is cut
        call = get_object(wire, "data")
        call_id = get_text(call, "toolCallId")
        if get_text(wire, "type") == "tool.execution_complete":
            ended_ids.add(call_id)
            continue
        is_same = normalize_call(get_text(call, "toolName"), get_object(call, "arguments")) == (tool, tool_input)
        if is_same and call_id not in ended_ids:
            return call_id
    return ""


def normalize_call(name: str, tool_input: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return a call by Claude Code's names."""
    tool = TOOL_NAMES.get(name, name)
    if name.startswith("mcp_") and not name.startswith("mcp__"):  # VS Code joins server and tool with one underscore
        tool = "mcp__{}__{}".format(*name.removeprefix("mcp_").partition("_")[::2])
    names = dict(_ARGUMENT_NAMES)
    if tool in _FILE_TOOLS:
        names["path"] = "file_path"
    if tool in ("Grep", "Glob"):
        names["query"] = "pattern"
    renamed = {names.get(key, key): value for key, value in tool_input.items()}
    if edits := get_list(renamed, "edits"):
        renamed["edits"] = [normalize_call("edit", edit)[1] if isinstance(edit, dict) else edit for edit in edits]
        renamed.setdefault("file_path", get_first_text(renamed["edits"][0], "file_path"))
    return tool, renamed


def has_failed(text: str) -> bool:
    """Return whether the last line of a command's output names an exit code other than 0."""
    last_line = text.rstrip().rpartition("\n")[2]
    for ending in _SHELL_ENDINGS:
        _, separator, code = last_line.rpartition(ending)
        if separator:
            return code.rstrip(">") != "0"
    return False


def render_reply(event: Event, reply: HookReply) -> bytes:
    kind = event.kind
    answer: dict[str, object] = {}
    nested: dict[str, object] = {}
    if reply.deny and kind == "UserPromptSubmit":
        answer = {"decision": "block", "reason": reply.deny}
        if _VSCODE_FOLDER in event.transcript:
            answer |= {"continue": False, "stopReason": reply.deny}
    elif reply.deny and kind == "PreToolUse":
        nested = {"permissionDecision": "deny", "permissionDecisionReason": reply.deny}
    elif reply.context and kind in _CONTEXT_EVENTS:
        nested = {"additionalContext": reply.context}
    if nested:
        answer = {**nested, "hookSpecificOutput": {"hookEventName": kind, **nested}}
    if reply.notice:
        answer["systemMessage"] = reply.notice
    return dumps(answer).encode("ascii")
