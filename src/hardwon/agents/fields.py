"""Looking into what a hook was handed: any type may stand anywhere, and nothing here costs an import."""

from __future__ import annotations

import os

from hardwon.text.light_json import loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


_LARGEST = 1e15  # of a number; NaN is not within it either


def payload_of(payload: bytes) -> dict[str, Any]:
    """A hook's payload; ValueError if it is not one."""
    wire = loads(payload.decode("utf-8", "replace"))
    if not isinstance(wire, dict):
        raise ValueError(f"a payload is an object, not {type(wire).__name__}")
    return wire


def folder_of(wire: dict[str, Any]) -> str:
    """Where it happened; what the file system cannot name is left out of it."""
    return text_of(wire, "cwd").replace("\0", "").encode("utf-8", "replace").decode()


def tail_of(path: str, most: int) -> list[bytes]:
    """The lines at a file's end; none if it cannot be read from there, and a pipe is not waited for."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except (OSError, ValueError):
        return []
    try:
        size = os.lseek(file, 0, os.SEEK_END)
        return os.pread(file, most, max(size - most, 0)).split(b"\n")
    except OSError:
        return []
    finally:
        os.close(file)


def number_of(wire: dict[str, Any], key: str) -> float | None:
    value = wire.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if -_LARGEST <= value <= _LARGEST else None


def map_of(wire: dict[str, Any], key: str) -> dict[str, Any]:
    value = wire.get(key)
    return value if isinstance(value, dict) else {}


def text_of(wire: dict[str, Any], key: str) -> str:
    value = wire.get(key)
    return value if isinstance(value, str) else ""


def first_of(wire: dict[str, Any], *keys: str) -> str:
    for key in keys:
        value = wire.get(key)
        if value and isinstance(value, str):
            return value
    return ""


def path_of(given: dict[str, Any]) -> str:
    """The file or folder that a call is about."""
    return first_of(given, "file_path", "notebook_path", "path", "glob")


def content_of(tool: str, given: dict[str, Any]) -> str:
    """What the call would write, look for or ask: the text a content pattern is tried on."""
    if tool == "MultiEdit":
        edits = given.get("edits")
        changes = edits if isinstance(edits, list) else []
        return "\n".join(text_of(change, "new_string") for change in changes if isinstance(change, dict))
    if tool.startswith("mcp__"):
        return "\n".join(strings_in(given))
    return first_of(given, "new_string", "content", "new_source", "pattern", "query", "url", "prompt")


def strings_in(value: object, depth: int = 0) -> list[str]:
    if isinstance(value, str):
        return [value]
    if depth > 20 or not isinstance(value, dict | list):
        return []
    inner = value.values() if isinstance(value, dict) else value
    return [text for one in inner for text in strings_in(one, depth + 1)]
