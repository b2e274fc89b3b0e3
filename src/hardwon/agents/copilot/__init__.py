"""GitHub Copilot CLI and the agent of VS Code: one hook file serves both, and each reads another form of reply.

Registered under Claude Code's event names, both send snake_case fields. The CLI has Claude Code's tool names with its
own arguments and reads top-level fields; VS Code has its own tool names and reads `hookSpecificOutput`. Each ignores
the other's form (seen on Copilot CLI 1.0.102 and VS Code 1.139.1), so a reply has both.

The CLI gives a call no id, but its transcript does. It is written some time before or after the hook runs: if the call
is not there yet, the hook reports no result, and the transcript, which is read at the end of the turn, has it.
"""

from __future__ import annotations

import os

from hardwon.agents.fields import (
    STANDARD_TIMEOUTS,
    Wire,
    get_first_text,
    get_list,
    get_object,
    get_text,
    load_payload,
    rename_edits,
)
from hardwon.agents.hook_contract import HookContract, find_open_call
from hardwon.text.light_json import dumps
from hardwon.types import Event, HookReply

NAME = "copilot"

# PreCompact is left out, because neither Copilot CLI nor VS Code was seen to send it.
EVENT_TIMEOUTS = {event: seconds for event, seconds in STANDARD_TIMEOUTS.items() if event != "PreCompact"}
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


def parse_payload(kind: str, payload: bytes) -> Event | None:
    """Return the event of a payload; None if it is of no interest."""
    wire = load_payload(payload)
    kind = get_text(wire, "hook_event_name") or kind
    # Fields in camelCase come from hooks that somebody else registered; a sub-agent's start has no other spelling.
    if "hook_event_name" not in wire and kind != "SubagentStart":
        return None
    session = get_first_text(wire, "session_id", "sessionId")
    if get_text(wire, "agent_id"):
        # What a sub-agent is asked is a program's text, and its end is reported by an event of its own.
        if kind in ("UserPromptSubmit", "Stop", "SessionStart", "SessionEnd"):
            return None
        session = get_text(wire, "parent_agent_id") or session
    tool, tool_input = normalize_call(get_text(wire, "tool_name"), get_object(wire, "tool_input"))
    claude_code_fields = {
        "session_id": session,
        "transcript_path": get_first_text(wire, "transcript_path", "transcriptPath") or find_transcript(session),
        "tool_name": tool,
        "tool_input": tool_input,
        "tool_use_id": get_text(wire, "tool_use_id").partition(_VSCODE_ID_SUFFIX)[0],
    }
    return CONTRACT.parse_wire(kind, {**wire, **claude_code_fields})


def _read_result(event: Event, wire: Wire) -> tuple[str, bool]:
    """Return a call's output and whether it failed."""
    if event.kind == "PostToolUseFailure":
        return get_text(wire, "error"), True
    result = get_object(wire, "tool_result")
    text = get_text(result, "text_result_for_llm") or get_text(wire, "tool_response")
    is_reported = get_text(result, "result_type") not in ("", "success")
    is_shown = event.tool == "Bash" and has_failed(text)
    return text, is_reported or is_shown


def find_transcript(session: str) -> str:
    """Return where Copilot CLI writes a session, of which most of its hooks are not told; empty if it is not there."""
    folder = os.environ.get("COPILOT_HOME") or os.path.expanduser("~/.copilot")
    # The id becomes part of a path.
    if not session or "/" in session or "\0" in session:
        return ""
    path = os.path.join(folder, "session-state", session, "events.jsonl")
    return path if os.path.exists(path) else ""


def _read_call(wire: Wire) -> list[tuple[str, tuple[str, Wire] | None]]:
    """Return the call that a line of the transcript begins or ends, see `find_open_call`."""
    kind = get_text(wire, "type")
    data = get_object(wire, "data")
    call_id = get_text(data, "toolCallId")
    if kind == "tool.execution_complete":
        return [(call_id, None)]
    if kind == "tool.execution_start":
        return [(call_id, normalize_call(get_text(data, "toolName"), get_object(data, "arguments")))]
    return []


def normalize_call(name: str, tool_input: Wire) -> tuple[str, Wire]:
    """Return a call by Claude Code's names."""
    tool = TOOL_NAMES.get(name, name)
    if name.startswith("mcp_") and not name.startswith("mcp__"):  # VS Code joins server and tool with one underscore
        server, _, server_tool = name.removeprefix("mcp_").partition("_")
        tool = f"mcp__{server}__{server_tool}"
    names = dict(_ARGUMENT_NAMES)
    if tool in _FILE_TOOLS:
        names["path"] = "file_path"
    if tool in ("Grep", "Glob"):
        names["query"] = "pattern"
    renamed = {names.get(key, key): value for key, value in tool_input.items()}
    if edits := get_list(renamed, "edits"):
        renamed["edits"] = rename_edits(edits, normalize_call)
        # VS Code names the file in each edit alone.
        renamed.setdefault("file_path", get_first_text(renamed["edits"][0], "file_path"))
    return tool, renamed


def has_failed(text: str) -> bool:
    """Return whether the last line of a command's output names an exit code other than 0."""
    _, _, last_line = text.rstrip().rpartition("\n")
    for ending in _SHELL_ENDINGS:
        _, separator, code = last_line.rpartition(ending)
        if separator:
            return code.rstrip(">") != "0"
    return False


def _render_both(kind: str, fields: dict[str, object]) -> dict[str, object]:
    return {**fields, "hookSpecificOutput": {"hookEventName": kind, **fields}}


CONTRACT = HookContract(
    name=NAME,
    events={event: event for event in EVENT_TIMEOUTS},
    # What the other events are answered was never seen to reach the model.
    context_events=("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse"),
    read_result=_read_result,
    find_call_id=lambda event: event.tool_use_id or find_open_call(event, _read_call),
    render_denial=lambda kind, reason: _render_both(
        kind, {"permissionDecision": "deny", "permissionDecisionReason": reason}
    ),
    render_context=lambda kind, context: _render_both(kind, {"additionalContext": context}),
)


def render_reply(event: Event, reply: HookReply) -> bytes:
    """Return a reply as Copilot reads it; VS Code reads the denial of a prompt in another form than the terminal."""
    is_vscode = _VSCODE_FOLDER in event.transcript
    if reply.deny and event.kind == "UserPromptSubmit" and is_vscode:
        answer = {"decision": "block", "reason": reply.deny, "continue": False, "stopReason": reply.deny}
        return dumps(answer).encode("ascii")
    return CONTRACT.render_reply(event, reply)


# Copilot CLI denies every call if a hook exits with another code than 0, so the command ends with `|| :`: without
# hardwon it prints nothing and every call runs. VS Code ignores matchers, so there are none, and shows what a hook
# writes to stderr as a warning.
SETTINGS = {
    "title": "GitHub Copilot",
    "program": "copilot",
    "minimum_version": (1, 0, 102),
    "folder": "~/.copilot",
    "folder_variable": "COPILOT_HOME",
    "file_name": "hooks/hardwon.json",
    "server_file_name": "mcp-config.json",
    "has_nested_hooks": False,
    "is_stderr_shown": True,
    "server_fields": {"type": "local", "tools": ["*"]},
    "empty_settings": '{\n  "version": 1\n}\n',
    "probe_fields": {"timestamp": "2026-01-01T00:00:00.000Z"},
}
