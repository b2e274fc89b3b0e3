"""Codex: payloads like Claude Code's, and answers that it parses strictly.

With an unknown field, or an extra one next to a denial, Codex drops the whole answer and the call runs. Its hooks do
not say whether a command failed. The rollout does, since 0.166 before the hook runs. If the rollout has the call but
not yet its end, the hook reports nothing; at the end of the turn the rollout is read and has both.
"""

from __future__ import annotations

from hardwon.agents.fields import (
    Wire,
    build_event,
    get_first_text,
    get_object,
    get_text,
    get_tool_content,
    load_payload,
    read_tail_lines,
)
from hardwon.agents.hook_contract import HookContract, is_foreign
from hardwon.agents.patches import (
    PATCH_PROGRAMS,
    ToolCall,
    build_edit_input,
    build_patch_parts,
    is_patch,
    parse_patch,
    parse_patch_call,
)
from hardwon.text.light_json import dumps, loads
from hardwon.types import Event, replace

NAME = "codex"
TOOL_NAMES = {
    "exec_command": "Bash",
    "shell": "Bash",
    "shell_command": "Bash",
    "local_shell": "Bash",
    "container.exec": "Bash",
    "write_stdin": "BashOutput",
    "apply_patch": "Edit",
    "view_image": "Read",
    "read_file": "Read",
    "list_dir": "LS",
    "grep_files": "Grep",
    "update_plan": "TodoWrite",
    "spawn_agent": "Task",
}

# Codex runs hooks in a login shell, so the person's shell profile counts towards the timeout. Codex limits SessionEnd
# to three seconds.
EVENT_TIMEOUTS = {
    "SessionStart": 10,
    "UserPromptSubmit": 5,
    "PreToolUse": 5,
    "PostToolUse": 5,
    "SubagentStart": 5,
    "SubagentStop": 5,
    "PreCompact": 5,
    "Stop": 5,
    "SessionEnd": 3,
}
# Codex would drop the whole answer for a field that the event does not take.
render_reply = HookContract(
    name=NAME,
    events={event: event for event in EVENT_TIMEOUTS},
    context_events=("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "SubagentStart"),
).render_reply
_SHELLS = frozenset({"bash", "zsh", "sh", "dash", "fish", "pwsh", "powershell", "powershell.exe", "cmd.exe"})
_TEAM_PREFIX = "multi_agent_v"  # hooks have the tool's namespace glued to its name
# Above a result Codex puts a head that has one of two spellings of the wall time and ends with this marker.
_OUTPUT_MARKER, _DURATION_MARKER = "\nOutput:\n", "all time"
_EXIT_PREFIXES = ("Process exited with code ", "Exit code: ")
_TAIL_BYTES = 256 * 1024  # of a rollout, in which a call that just ended is looked for


def parse_payload(kind: str, payload: bytes) -> Event | None:
    """Return the event of a payload; None if it is of no interest."""
    wire = load_payload(payload)
    kind = get_text(wire, "hook_event_name") or kind
    subagent_id = get_text(wire, "agent_id")
    if kind not in EVENT_TIMEOUTS or is_foreign(wire, NAME):
        return None
    if subagent_id and kind == "UserPromptSubmit":
        return None  # a subagent's prompt is written by a program, and stored prompts count as a person's words
    rollout = get_text(wire, "transcript_path")
    event = build_event(NAME, kind, wire)
    if subagent_id and kind != "SubagentStop":
        # Only the last event of a sub-agent names the session's rollout; the others name its own.
        event = replace(event, transcript="")
    if not get_text(wire, "tool_name"):
        return event
    event = _add_call_fields(event, wire)
    if kind == "PostToolUse":
        return _add_outcome(event, wire.get("tool_response"), rollout)
    return event


def _add_call_fields(event: Event, wire: Wire) -> Event:
    """Return the event with its call; a patch is given as the edits that it makes."""
    name = get_text(wire, "tool_name")
    tool_input = get_object(wire, "tool_input")
    event = replace(event, tool_use_id=get_text(wire, "tool_use_id"))
    if TOOL_NAMES.get(name, name) == "Bash":
        line = _extract_shell_line(tool_input.get("cmd", tool_input.get("command")))
        event = replace(event, tool="Bash", command=line, input={**tool_input, "command": line})
        # A shell line with a patch may do more than that, so it is judged as both.
        if not is_patch(line):
            return event
        return replace(event, parts=(event, *build_patch_parts(event, line)))
    call = parse_call(name, tool_input)
    event = replace(event, tool=call.tool, path=call.path, content=call.content, input=tool_input)
    if call.tool == "Read":
        return replace(event, input={"file_path": call.path})
    if call.tool == "Task":
        return replace(event, input={"prompt": call.content})
    if name != "apply_patch":
        return event
    patch = get_first_text(tool_input, "command", "input")
    removed = "\n".join(change.removed for change in parse_patch(patch) if change.removed)
    edit_input = build_edit_input(call.tool, call.path, call.content, removed)
    return replace(event, input=edit_input, parts=build_patch_parts(event, patch))


def _add_outcome(event: Event, response: object, rollout: str) -> Event | None:
    """Return the event with how its call ended; None if only the rollout will tell, at the end of the turn."""
    code: int | None = None
    if event.tool == "Bash":
        item = _find_completed_item(rollout, event.tool_use_id)
        # At the end of the turn only the session's own rollout is read, so a sub-agent's call is reported now.
        if item == {} and not event.subagent_id:
            return None
        code = _get_exit_code(item or {})
    elif isinstance(response, str):
        response, code = _unwrap_result(response)
    elif isinstance(response, dict):
        # An MCP server's result has no exit code, only this flag.
        code = int(response.get("isError") is True)
    if not code:
        return replace(event, response=response)
    response = response or f"Process exited with code {code}"
    return replace(event, kind="PostToolUseFailure", failed=True, response=response)


def _get_exit_code(item: Wire) -> int:
    """Return the exit code of a finished call; 1 for one that failed without a code, 0 for any other."""
    code = item.get("exit_code")
    return code if isinstance(code, int) else int(item.get("status") == "failed")


def _find_completed_item(rollout: str, call_id: str) -> Wire | None:
    """Return a finished call from the rollout's tail; {} if only its start is there, None if neither is."""
    if not call_id:
        return None
    quoted_id = dumps(call_id).encode()
    call_lines = [line for line in read_tail_lines(rollout, _TAIL_BYTES) if quoted_id in line]
    for line in reversed(call_lines):
        if b'"item_completed"' not in line:
            continue  # cheaper than parsing it
        try:
            item = get_object(get_object(loads(line.decode("utf-8", "replace")), "payload"), "item")
        except ValueError:
            continue
        if item.get("id") == call_id:
            return item
    return {} if call_lines else None


def parse_call(name: str, tool_input: Wire, namespace: str = "") -> ToolCall:
    """Return a call by the names that all agents share; `namespace` is the MCP server's where it is apart."""
    if namespace.startswith("mcp__") and not name.startswith("mcp__"):
        name = f"{namespace}__{name.lstrip('_')}"
    if name.startswith("mcp__"):
        return ToolCall(name, content=get_tool_content(name, tool_input))
    if name.startswith(_TEAM_PREFIX):
        name = name.removeprefix(_TEAM_PREFIX).lstrip("0123456789")
    tool = TOOL_NAMES.get(name, name)
    if tool == "Bash":
        return parse_shell_call(tool_input.get("cmd", tool_input.get("command")))
    if tool == "Edit":
        return parse_patch_call(get_first_text(tool_input, "input", "command"))
    if tool == "BashOutput":
        process_id = tool_input.get("session_id")
        # Kept as the path, which names what a call is about; the transcript finds the command by it.
        return ToolCall(tool, path=str(process_id) if isinstance(process_id, int | str) else "")
    content = get_first_text(tool_input, "content", "pattern", "query", "url", "prompt", "message")
    return ToolCall(tool, path=get_first_text(tool_input, "file_path", "path", "dir_path"), content=content)


def parse_shell_call(command: object) -> ToolCall:
    """Return what a shell was given to run: a command, or a patch."""
    line = _extract_shell_line(command)
    if is_patch(line):
        return parse_patch_call(line)
    return ToolCall("Bash", command=line)


def _extract_shell_line(command: object) -> str:
    """Return the line a shell was given: X of `["bash", "-lc", "X"]`; empty if it is no command."""
    if isinstance(command, str):
        return command
    words = [word for word in command if isinstance(word, str)] if isinstance(command, list) else []
    if not words:
        return ""
    _, _, program = words[0].replace("\\", "/").rpartition("/")
    # `bash -lc LINE`; with other programs the words themselves are the command.
    if (len(words) > 2 and program in _SHELLS) or program in PATCH_PROGRAMS:
        return words[-1]
    import shlex  # imports `re`, and hooks hand over a line

    return shlex.join(words)


def _unwrap_result(result: str) -> tuple[str, int | None]:
    """Return a tool's output without the head above it, and its exit code if known."""
    text, code = parse_json_result(result)
    head, body = split_head(text)
    return body, parse_exit_code(head) if head else code


def split_head(text: str) -> tuple[str, str]:
    """Return the head that Codex puts above a result, empty if there is none, and the text below it."""
    head, marker, body = text.partition(_OUTPUT_MARKER)
    if marker and _DURATION_MARKER in head:
        return head, body
    return "", text


def parse_exit_code(head: str) -> int | None:
    """Return the exit code that the head of a result has on a line of its own."""
    for line in head.split("\n"):
        for prefix in _EXIT_PREFIXES:
            number = line.removeprefix(prefix)
            if number != line and number.removeprefix("-").isdecimal() and len(number) < 12:
                return int(number)
    return None


def parse_json_result(result: str) -> tuple[str, int | None]:
    """Return the output and the exit code of a result that is JSON, else the result as it is."""
    if not result.startswith("{") or '"exit_code"' not in result:
        return result, None
    try:
        inner = loads(result)
    except ValueError:
        return result, None
    code = inner.get("exit_code", get_object(inner, "metadata").get("exit_code"))
    output = inner.get("output")
    if not isinstance(code, int) or not isinstance(output, str):
        return result, None  # a program's own JSON
    return output, code
