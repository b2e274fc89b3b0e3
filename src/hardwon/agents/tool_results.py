"""Extract the text of a tool's result, and the line that describes its input, from the shapes that agents report.

Agents hand a result over as a string, as a list of content blocks, or as an object with a field for each part. It is
stored, indexed and shown as the text that a person would have seen: no braces, no escaped line ends, no images.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from hardwon.agents.fields import get_first_text, get_list, get_object, get_text

_MAX_DEPTH = 20
# More lines than a stored text has room for.
_MAX_PATCH_LINES = 2_000
# Fields that hold the whole text of a result; the first that an object has is taken.
_TEXT_FIELDS = ("llmContent", "content", "result", "output", "text", "message", "error", "returnDisplay", "resource")
# Left out when an object is rendered field by field: they repeat the call or are not text.
_SKIPPED_FIELDS = frozenset(
    ("prompt", "originalFile", "oldString", "newString", "base64", "usage", "isImage", "noOutputExpected", "oldTodos")
)
# Up to 0.1.0, results from the hooks of Claude Code and Gemini CLI were stored as JSON. An object with one of these
# sets of fields is such a result; any other JSON is a program's output.
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
_DESCRIBING_KEYS = (
    "command",
    "file_path",
    "notebook_path",
    "pattern",  # before the folder that is searched
    "path",
    "url",
    "query",
    "description",
    "prompt",
    "content",  # the last: imported calls without a command or a path have only this
)


def get_result_text(result: Any, depth: int = 0) -> str:
    """Return a tool's result as text: the output, then what else it says that the output does not."""
    if isinstance(result, str):
        return result
    if result is None or depth > _MAX_DEPTH:
        return ""
    if isinstance(result, list):
        texts = [get_result_text(block, depth + 1) for block in result]
        return "\n".join(filter(None, texts))
    if not isinstance(result, dict):
        return str(result)
    if "stdout" in result or "stderr" in result:
        return _render_streams(result)
    if "filePath" in result or "structuredPatch" in result:
        return _render_edit(result)
    # Claude Code's Read: the file's text, or for an image only its name.
    if file := get_object(result, "file"):
        kind = result.get("type", "file")
        return get_text(file, "content") or f"[{kind}] {get_text(file, 'filePath')}".rstrip()
    text = _find_text(result, depth) or "\n".join(_render_fields(result))
    # A sub-agent is found by its id, which the agent's own transcript has in the text.
    agent = get_text(result, "agentId")
    if agent and agent not in text:
        return f"{text}\nagentId: {agent}".strip()
    return text


def get_stored_result_text(stored: str) -> str:
    """Return the text of a stored result: text by now, in older rows the JSON that a hook sent."""
    # Most stored results are plain text, so few of them are parsed.
    if not stored.startswith(("{", '[{"type"', '"')):
        return stored
    try:
        result = json.loads(stored)
    except (ValueError, RecursionError):
        return stored
    if isinstance(result, dict) and not any(fields <= result.keys() for fields in _STORED_RESULT_FIELDS):
        return stored
    text = get_result_text(result)
    # A list without any text is a program's output, not content blocks.
    if isinstance(result, list):
        return text or stored
    return text


def get_result_exit_code(result: Any) -> int:
    """Return the exit code that a result names, 0 if it names none."""
    if not isinstance(result, dict):
        return 0
    codes = [result.get("exitCode"), result.get("exit_code")]
    if "stdout" in result or "stderr" in result:
        codes.append(result.get("code"))  # elsewhere it may be an HTTP status, as in WebFetch
    for code in codes:
        if type(code) is int:  # a bool is none
            return code
    return 0


def _find_text(result: dict[str, Any], depth: int) -> str:
    """Return the text of the first field that has one, or what stands for an image; empty if there is neither."""
    for field in _TEXT_FIELDS:
        value = result.get(field)
        # An object is rendered field by field, unless it is an error or a resource.
        text = get_first_text(value, "message", "text", "uri")
        if isinstance(value, str | list):
            text = get_result_text(value, depth + 1)
        if text:
            return text
    kind = get_text(result, "type")
    if kind in ("image", "audio", "document") or "data" in result or "source" in result:
        return f"[{kind or 'data'}]"
    return "\n".join(name for name in get_list(result, "filenames") if isinstance(name, str))


def _render_streams(result: dict[str, Any]) -> str:
    """Return what a command printed, below its exit code if it failed."""
    outputs = (get_text(result, "stdout"), get_text(result, "stderr"))
    text = "\n".join(output for output in outputs if output)
    code = get_result_exit_code(result)
    if code and not text.startswith("Exit code"):
        return f"Exit code {code}\n{text}".rstrip("\n")
    return text


def _render_edit(result: dict[str, Any]) -> str:
    """Return what changed in a file as a unified diff: its path, and the hunks with the lines where they begin."""
    path = get_text(result, "filePath")
    # The words of Claude Code's own transcript.
    lines = [f"The file {path} has been updated."]
    if result.get("type") == "create":
        lines = [f"File created successfully at: {path}"]
    for hunk in get_list(result, "structuredPatch"):
        if isinstance(hunk, dict) and "newStart" in hunk:
            new_start = hunk["newStart"]
            old_range = f"{hunk.get('oldStart', new_start)},{hunk.get('oldLines', 0)}"
            lines.append(f"@@ -{old_range} +{new_start},{hunk.get('newLines', 0)} @@")
        lines += [line for line in get_list(hunk, "lines") if isinstance(line, str)]
    return "\n".join(lines[:_MAX_PATCH_LINES])


def _render_fields(value: Any, name: str = "", depth: int = 0) -> Iterator[str]:
    """Yield a line `name: value` for each plain value in an object, by its name with those above it."""
    if depth > _MAX_DEPTH or value is None or value == "":
        return  # a line without a value would say nothing
    if isinstance(value, dict):
        for field, inner in value.items():
            if field not in _SKIPPED_FIELDS:
                full_name = f"{name}.{field}" if name else str(field)
                yield from _render_fields(inner, full_name, depth + 1)
    elif isinstance(value, list):
        for inner in value:
            yield from _render_fields(inner, name, depth + 1)
    else:
        rendered = json.dumps(value) if isinstance(value, bool) else str(value)  # `true`, as the agent wrote it
        yield f"{name}: {rendered}" if name else rendered


def find_describing_text(tool_input: object) -> str:
    """Return the command, path or pattern of a call, all of its input if it has neither; empty without input."""
    if not tool_input:
        return ""
    if not isinstance(tool_input, dict):
        return str(tool_input)
    return get_first_text(tool_input, *_DESCRIBING_KEYS) or json.dumps(tool_input, ensure_ascii=False)
