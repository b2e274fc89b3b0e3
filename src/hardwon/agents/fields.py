"""Read fields of JSON from other programs, where any value may have any type, without expensive imports."""

from __future__ import annotations

import os
from posixpath import join, normpath

from hardwon.text.light_json import loads
from hardwon.types import Event

TYPE_CHECKING = False  # importing it from `typing` would slow down the hook
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Wire = dict[str, Any]  # an object as it came from another program
else:
    Wire = dict  # annotations are not evaluated, so a name to import is enough

# The hooks of an agent that has all of our events, each with its timeout in seconds, after which the agent continues
# without an answer.
STANDARD_TIMEOUTS = {
    "SessionStart": 10,
    "UserPromptSubmit": 1,
    "PreToolUse": 1,
    "PostToolUse": 2,
    "PostToolUseFailure": 2,
    "SubagentStart": 1,
    "SubagentStop": 2,
    "PreCompact": 2,
    "Stop": 2,
    "SessionEnd": 3,
}
# Far more milliseconds than any call takes: a larger number is damage.
_MAX_NUMBER = 1e15
_MAX_NAME_LENGTH = 64
PARAMETERS_MARK = "parameters:"
# Without a limit a payload could exhaust the stack.
_MAX_DEPTH = 20


def load_payload(payload: bytes) -> Wire:
    """Return a hook's payload; ValueError if it is not one."""
    wire = loads(payload.decode("utf-8", "replace"))
    if not isinstance(wire, dict):
        raise ValueError(f"a payload is an object, not {type(wire).__name__}")
    return wire


def build_event(agent: str, kind: str, wire: Wire) -> Event:
    """Return the event of a payload that has Claude Code's field names, without what it says of a call."""
    source = get_text(wire, "source")
    return Event(
        host=agent,
        kind=kind,
        session=get_text(wire, "session_id"),
        cwd=get_path_text(wire, "cwd"),
        subagent_id=get_text(wire, "agent_id"),
        source="startup" if source == "new" else source,  # Grok's and Copilot CLI's word for it
        prompt=get_text(wire, "prompt"),
        prompt_name=get_text(wire, "prompt_id"),
        transcript=get_text(wire, "transcript_path"),
        message=get_first_text(wire, "last_assistant_message", "reason", "trigger", "agent_type"),
    )


# The next functions return a field if it has the type that was asked for, else an empty value of that type: what
# another program sent may be anything.


def get_text(wire: object, key: str) -> str:
    value = wire.get(key) if isinstance(wire, dict) else None
    return value if isinstance(value, str) else ""


def get_first_text(wire: object, *keys: str) -> str:
    """Return the first of these fields that has a text; empty if none has."""
    if isinstance(wire, dict):
        for key in keys:
            value = wire.get(key)
            if value and isinstance(value, str):
                return value
    return ""


def get_object(wire: object, key: str) -> Wire:
    value = wire.get(key) if isinstance(wire, dict) else None
    return value if isinstance(value, dict) else {}


def get_list(wire: object, key: str) -> list[Any]:
    value = wire.get(key) if isinstance(wire, dict) else None
    return value if isinstance(value, list) else []


def get_number(wire: Wire, key: str) -> float | None:
    """Return a number; None if the field has none."""
    value = wire.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not -_MAX_NUMBER <= value <= _MAX_NUMBER:  # NaN is in no range
        return None
    return float(value)


def get_path_text(wire: object, key: str) -> str:
    """Return a path without characters that no file name can have."""
    return get_text(wire, key).replace("\0", "").encode("utf-8", "replace").decode()


def resolve_call_cwd(folder: str, cwd: str) -> str:
    """Return where a call happens: a shell call may name a folder of its own."""
    if not folder or not cwd:
        return cwd
    return normpath(join(cwd, folder))


def get_tool_path(tool_input: Wire) -> str:
    """Return the file or folder that a call is about."""
    return get_first_text(tool_input, "file_path", "notebook_path", "path", "glob")


def get_tool_content(tool: str, tool_input: Wire) -> str:
    """Return the text that a call would write, search or ask, on which content patterns are tried."""
    if tool == "MultiEdit":
        return "\n".join(get_text(change, "new_string") for change in get_list(tool_input, "edits"))
    if tool.startswith("mcp__"):
        return "\n".join([*collect_strings(tool_input), *_list_parameter_names(tool_input)])
    if tool == "Skill":
        return get_first_text(tool_input, "skill", "command")
    # Which sub-agent is asked matters as much as what it is asked, so a lesson can match either.
    if tool == "Task" and (subagent_type := get_text(tool_input, "subagent_type")):
        return f"{subagent_type}\n{get_text(tool_input, 'prompt')}"
    return get_first_text(tool_input, "new_string", "content", "new_source", "pattern", "query", "url", "prompt")


def _list_parameter_names(tool_input: Wire) -> list[str]:
    """Return a line with the names of a call's parameters, since a call may fail for a name and not for its value."""
    names = [name for name in tool_input if name.isidentifier() and len(name) <= _MAX_NAME_LENGTH]
    if not names:
        return []
    return [f"{PARAMETERS_MARK} {' '.join(names)}"]


def rename_edits(edits: list[Any], normalize_call: Callable[[str, Wire], tuple[str, Wire]]) -> list[Any]:
    """Return the edits of a call that makes several, each with the argument names of one that makes a single edit."""
    renamed_edits = []
    for edit in edits:
        if isinstance(edit, dict):
            _, renamed_edit = normalize_call("edit", edit)
            renamed_edits.append(renamed_edit)
        else:
            renamed_edits.append(edit)
    return renamed_edits


def get_call_fields(tool: str, tool_input: Wire) -> tuple[str, str, str]:
    """Return the command, the path and the content of a call by Claude Code's names."""
    if tool == "Bash":  # a third of all calls, and it has neither path nor content
        return get_text(tool_input, "command"), "", ""
    return get_text(tool_input, "command"), get_tool_path(tool_input), get_tool_content(tool, tool_input)


def collect_strings(value: object, depth: int = 0) -> list[str]:
    """Return all texts in a JSON value, without the keys of its objects and without levels nested too deep."""
    if isinstance(value, str):
        return [value]
    if depth > _MAX_DEPTH or not isinstance(value, dict | list):
        return []
    items = value.values() if isinstance(value, dict) else value
    texts: list[str] = []
    for item in items:
        texts += collect_strings(item, depth + 1)
    return texts


def read_tail_lines(path: str, max_bytes: int) -> list[bytes]:
    """Return the lines at a file's end; none if it cannot be read. Does not block on a pipe."""
    try:
        # Opening a pipe without a writer would block the agent until the hook's timeout.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except (OSError, ValueError):
        return []
    try:
        size = os.lseek(descriptor, 0, os.SEEK_END)
        return os.pread(descriptor, max_bytes, max(size - max_bytes, 0)).split(b"\n")
    except OSError:
        return []
    finally:
        os.close(descriptor)
