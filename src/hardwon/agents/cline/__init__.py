"""Cline: events and fields of its own, several commands in one call, and no denial that a run survives.

`cancel` ends the whole run, so a call that is held or blocked gets arguments that every tool of Cline's refuses; the
reason comes beside the refusal. What Cline is told at the start never reaches the model, and it reports no prompts.
"""

from __future__ import annotations

import os

from hardwon.agents.fields import Wire, collect_strings, get_object, get_text, load_payload
from hardwon.agents.hook_contract import CALL_EVENTS, HookContract
from hardwon.agents.patches import build_patch_parts, parse_patch_call
from hardwon.types import Event, replace

TYPE_CHECKING = False  # importing it from `typing` would slow down the hook
if TYPE_CHECKING:
    from collections.abc import Mapping

TOOL_NAMES = {
    "run_commands": "Bash",
    "read_files": "Read",
    "editor": "Edit",
    "search_codebase": "Grep",
    "fetch_web_content": "WebFetch",
    "spawn_agent": "Task",
}
_ARGUMENT_NAMES = {"path": "file_path", "old_text": "old_string", "new_text": "new_string"}
# Arguments that are lists in Cline, and one text in Claude Code.
_LIST_ARGUMENTS = {"commands": "command", "files": "file_path", "queries": "pattern", "requests": "url"}
_STOPPED = "stoppedByHardwon"  # the one argument of a call that was held or blocked


def parse_payload(kind: str, payload: bytes) -> Event | None:
    """Return the event of a payload; None if it is of no interest."""
    wire = load_payload(payload)
    call = get_object(wire, "tool_call") or get_object(wire, "tool_result")
    if _STOPPED in get_object(call, "input"):
        return None  # stored when it was stopped
    tool, tool_input = normalize_call(get_text(call, "name"), call.get("input"))
    wire = {**wire, "tool_name": tool, "tool_input": tool_input, "tool_use_id": get_text(call, "id")}
    if not get_text(wire, "parent_agent_id"):
        wire["agent_id"] = ""  # the session's own agent has an id as well
    event = CONTRACT.parse_wire(kind, wire)
    # A sub-agent's start and end are not the session's.
    if event is None or (event.subagent_id and event.kind not in CALL_EVENTS):
        return None
    event = replace(event, transcript=find_transcript(event.session))
    parts = build_patch_parts(event, get_text(tool_input, "patch"))
    return replace(event, parts=parts) if len(parts) > 1 else event


def normalize_call(name: str, tool_input: object) -> tuple[str, Wire]:
    """Return a call by Claude Code's names; several commands are the lines of one."""
    if name == "run_commands" and not isinstance(tool_input, dict):
        tool_input = {"commands": tool_input}
    if not isinstance(tool_input, dict):
        return TOOL_NAMES.get(name, name), {}
    if name == "apply_patch":
        patch = get_text(tool_input, "input")
        change = parse_patch_call(patch)
        return change.tool, {"file_path": change.path, "new_string": change.content, "patch": patch}
    arguments: Wire = tool_input
    renamed = {_ARGUMENT_NAMES.get(key, key): value for key, value in arguments.items()}
    for list_name, text_name in _LIST_ARGUMENTS.items():
        if list_name in renamed:
            texts = collect_strings(renamed.pop(list_name))
            if text_name != "command":
                del texts[1:]  # a call of Claude Code's is about one file or address
            renamed[text_name] = "\n".join(texts)
    # The editor writes a whole file unless it is told what to replace or where to insert.
    if name == "editor" and "old_string" not in renamed and "insert_line" not in renamed:
        return "Write", {**renamed, "content": get_text(renamed, "new_string")}
    return TOOL_NAMES.get(name, name), renamed


def read_output(output: object) -> tuple[str, bool]:
    """Return what the parts of a call printed, and whether one of them failed."""
    texts = []
    failed = False
    parts = output if isinstance(output, list) else [output]
    for part in parts:
        if text := get_text(part, "result") or get_text(part, "error"):
            texts.append(text)
        if isinstance(part, dict) and ("error" in part or part.get("success") is False):
            failed = True
    return "\n".join(texts), failed


def find_sessions_folder(environment: Mapping[str, str], home: str) -> str:
    """Return where Cline keeps its sessions; each level has a variable that moves it."""
    folder = environment.get("CLINE_DIR") or os.path.join(home, ".cline")
    data = environment.get("CLINE_DATA_DIR") or os.path.join(folder, "data")
    return environment.get("CLINE_SESSION_DATA_DIR") or os.path.join(data, "sessions")


def find_transcript(session: str) -> str:
    """Return where Cline writes a session, which its hooks do not say; empty if it is not there."""
    # The id becomes part of a path.
    if not session or "/" in session or "\0" in session:
        return ""
    folder = find_sessions_folder(os.environ, os.path.expanduser("~"))
    path = os.path.join(folder, session, f"{session}.messages.json")
    return path if os.path.exists(path) else ""


CONTRACT = HookContract(
    name="cline",
    events={
        "SessionStart": "agent_start",
        "PreToolUse": "tool_call",
        "PostToolUse": "tool_result",
        "Stop": "agent_end",
        "SessionEnd": "session_shutdown",
    },
    fields={
        "hook_event_name": ("hookName",),
        "session_id": ("sessionContext.rootSessionId", "taskId"),
        "cwd": ("workspaceInfo.rootPath", "workspaceRoots.0"),
        "duration_ms": ("tool_result.durationMs",),
        "last_assistant_message": ("turn.outputText",),
    },
    context_events=("PreToolUse", "PostToolUse"),
    # `success` beside the output is true even for a command that failed.
    read_result=lambda _, wire: read_output(get_object(wire, "tool_result").get("output")),
    render_denial=lambda _, reason: {"overrideInput": {_STOPPED: True}, "contextModification": reason},
    render_context=lambda _, context: {"contextModification": context},
)
EVENT_TIMEOUTS = CONTRACT.timeouts
render_reply = CONTRACT.render_reply
