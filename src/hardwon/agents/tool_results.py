"""The text of a tool's result, whatever shape an agent reports it in.

Agents hand a result over as a string, as a list of content blocks, or as an object with a field for each part. It is
stored, indexed and shown as the text that a person would have seen: no braces, no escaped line ends, no images.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from hardwon.agents.fields import get_text

_MAX_DEPTH = 20
_MAX_PATCH_LINES = 2_000
# Fields that hold the whole text of a result; the first that an object has is taken.
_TEXT_FIELDS = ("llmContent", "content", "result", "output", "text", "message", "error", "returnDisplay")
_STREAMS = ("stdout", "stderr")
_EXIT_CODE_FIELDS = ("exitCode", "exit_code", "code")
# Left out where an object is told field by field: they repeat the call, or are no text.
_SKIPPED_FIELDS = frozenset(
    ("prompt", "originalFile", "oldString", "newString", "base64", "usage", "isImage", "noOutputExpected", "oldTodos")
)
# What the hooks of Claude Code and Gemini CLI sent was stored as JSON up to 0.1.0. An object with one of these sets of
# fields was such a result; any other JSON is what a program printed.
_STORED_RESULT_FIELDS = (
    {"stdout", "stderr"},
    {"stdout", "interrupted"},
    {"filePath", "structuredPatch"},
    {"filePath", "type"},
    {"type", "file"},
    {"content", "agentId"},
    {"filenames", "numFiles"},
    {"llmContent", "returnDisplay"},
    {"task"},
)


def get_result_text(result: Any) -> str:
    """Return a tool's result as text: the output, then what else it says that the output does not."""
    if isinstance(result, str):
        return result
    if isinstance(result, list):
        return "\n".join(part for part in (_render_block(block) for block in result) if part)
    if isinstance(result, dict):
        return _render_object(result)
    return "" if result is None else str(result)


def get_stored_result_text(stored: str) -> str:
    """Return the text of a result as it is stored: text by now, in older rows the JSON that a hook sent."""
    if not stored.startswith(("{", '[{"type"', '"')):
        return stored
    try:
        result = json.loads(stored)
    except (ValueError, RecursionError):
        return stored
    if isinstance(result, str):
        return result
    if isinstance(result, list):
        return get_result_text(result) or stored
    is_result = any(fields <= result.keys() for fields in _STORED_RESULT_FIELDS)
    return get_result_text(result) if is_result else stored


def get_result_exit_code(result: Any) -> int:
    """Return the exit code that a result names, 0 if it names none."""
    if not isinstance(result, dict):
        return 0
    for field in _EXIT_CODE_FIELDS:
        code = result.get(field)
        # `code` alone may be an HTTP status, as WebFetch has it.
        is_exit_code = not isinstance(code, bool)
        if isinstance(code, int) and is_exit_code and (field != "code" or "stdout" in result or "stderr" in result):
            return code
    return 0


def _render_object(result: dict[str, Any]) -> str:
    if any(isinstance(result.get(stream), str) for stream in _STREAMS):
        return _render_streams(result)
    if "filePath" in result or isinstance(result.get("structuredPatch"), list):
        return _render_edit(result)
    file = result.get("file")
    if isinstance(file, dict):
        path = get_text(file, "filePath")
        return get_text(file, "content") or f"[{result.get('type', 'file')}] {path}".rstrip()
    names = result.get("filenames")
    listed_files = [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
    text = next((text for field in _TEXT_FIELDS if (text := _read_text_field(result.get(field)))), "")
    if listed_files and not text:
        text = "\n".join(listed_files)
    if not text:
        text = "\n".join(_render_fields(result))
    # A sub-agent is found by its id, which the agent's own transcript has in the text.
    agent = get_text(result, "agentId")
    return f"{text}\nagentId: {agent}".strip() if agent and agent not in text else text


def _render_streams(result: dict[str, Any]) -> str:
    text = "\n".join(text for stream in _STREAMS if (text := get_text(result, stream)))
    code = get_result_exit_code(result)
    return f"Exit code {code}\n{text}".rstrip("\n") if code and not text.startswith("Exit code") else text


def _render_edit(result: dict[str, Any]) -> str:
    """What changed in a file, as a unified diff: its path, and the hunks with the lines where they begin."""
    path = get_text(result, "filePath")
    is_new = result.get("type") == "create"
    lines = [f"File created successfully at: {path}" if is_new else f"The file {path} has been updated."]
    hunks = result.get("structuredPatch")
    for hunk in hunks if isinstance(hunks, list) else ():
        if not isinstance(hunk, dict):
            continue
        if isinstance(hunk.get("newStart"), int):
            old_start, old_lines = hunk.get("oldStart", hunk["newStart"]), hunk.get("oldLines", 0)
            lines.append(f"@@ -{old_start},{old_lines} +{hunk['newStart']},{hunk.get('newLines', 0)} @@")
        hunk_lines = hunk.get("lines")
        lines += [line for line in hunk_lines if isinstance(line, str)] if isinstance(hunk_lines, list) else []
    return "\n".join(lines[:_MAX_PATCH_LINES])


def _read_text_field(value: Any) -> str:
    """Return the text of a field that holds a text or content blocks; empty for an object, which is told by field."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return get_result_text(value)
    return get_text(value, "message") or get_text(value, "text") if isinstance(value, dict) else ""


def _render_block(block: Any, depth: int = 0) -> str:
    """Return the text of one block of a content: of an image only that it was one."""
    if isinstance(block, str):
        return block
    if isinstance(block, list):
        inner = (_render_block(item, depth + 1) for item in block) if depth < _MAX_DEPTH else ()
        return "\n".join(part for part in inner if part)
    if not isinstance(block, dict):
        return "" if block is None else str(block)
    kind = get_text(block, "type")
    if text := get_text(block, "text"):
        return text
    if kind in ("image", "audio", "document") or "data" in block or "source" in block:
        return f"[{kind or 'data'}]"
    resource = block.get("resource")
    if isinstance(resource, dict):
        return get_text(resource, "text") or get_text(resource, "uri")
    nested = block.get("content")
    if isinstance(nested, list) and depth < _MAX_DEPTH:
        return _render_block(nested, depth + 1)
    return "\n".join(_render_fields(block))


def _render_fields(value: Any, name: str = "", depth: int = 0) -> Iterator[str]:
    """Yield a line `name: value` for each plain value in an object, by its name with those above it."""
    if depth > _MAX_DEPTH or value is None or value == "":
        return
    if isinstance(value, dict):
        for field, inner in value.items():
            if field not in _SKIPPED_FIELDS:
                yield from _render_fields(inner, f"{name}.{field}" if name else str(field), depth + 1)
    elif isinstance(value, list):
        for inner in value:
            yield from _render_fields(inner, name, depth + 1)
    else:
        rendered = json.dumps(value) if isinstance(value, bool) else str(value)
        yield f"{name}: {rendered}" if name else rendered
