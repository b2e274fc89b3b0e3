"""Looking into what a hook was handed: any type may stand anywhere, and nothing here costs an import."""

from __future__ import annotations

import os

from hardwon.text.light_json import loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


_MAX_NUMBER = 1e15  # of a number; NaN is not within it either


def load_payload(payload: bytes) -> dict[str, Any]:
    """A hook's payload; ValueError if it is not one."""
    wire = loads(payload.decode("utf-8", "replace"))
    if not isinstance(wire, dict):
        raise ValueError(f"a payload is an object, not {type(wire).__name__}")
    return wire


def get_cwd(wire: dict[str, Any]) -> str:
    """Where it happened; what the file system cannot name is left out of it."""
    return get_text(wire, "cwd").replace("\0", "").encode("utf-8", "replace").decode()


def read_tail_lines(path: str, max_bytes: int) -> list[bytes]:
    """The lines at a file's end; none if it cannot be read from there, and a pipe is not waited for."""
    try:
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


def get_number(wire: dict[str, Any], key: str) -> float | None:
    value = wire.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if -_MAX_NUMBER <= value <= _MAX_NUMBER else None


def get_object(wire: dict[str, Any], key: str) -> dict[str, Any]:
    value = wire.get(key)
    return value if isinstance(value, dict) else {}


def get_text(wire: dict[str, Any], key: str) -> str:
    value = wire.get(key)
    return value if isinstance(value, str) else ""


def get_first_text(wire: dict[str, Any], *keys: str) -> str:
    for key in keys:
        value = wire.get(key)
        if value and isinstance(value, str):
            return value
    return ""


def get_tool_path(tool_input: dict[str, Any]) -> str:
    """The file or folder that a call is about."""
    return get_first_text(tool_input, "file_path", "notebook_path", "path", "glob")


def get_tool_content(tool: str, tool_input: dict[str, Any]) -> str:
    """What the call would write, look for or ask: the text a content pattern is tried on."""
    if tool == "MultiEdit":
        edits = tool_input.get("edits")
        changes = edits if isinstance(edits, list) else []
        return "\n".join(get_text(change, "new_string") for change in changes if isinstance(change, dict))
    if tool.startswith("mcp__"):
        return "\n".join(collect_strings(tool_input))
    if tool == "Skill":
        return get_first_text(tool_input, "skill", "command")
    if tool == "Task" and (subagent := get_text(tool_input, "subagent_type")):
        return f"{subagent}\n{get_text(tool_input, 'prompt')}"
    return get_first_text(tool_input, "new_string", "content", "new_source", "pattern", "query", "url", "prompt")


def collect_strings(value: object, depth: int = 0) -> list[str]:
    if isinstance(value, str):
        return [value]
    if depth > 20 or not isinstance(value, dict | list):
        return []
    inner = value.values() if isinstance(value, dict) else value
    return [text for item in inner for text in collect_strings(item, depth + 1)]
