"""opencode's tools, for what its plugin tells and for what it wrote down.

A tool of an MCP server has the server's name and an underscore before its own; so have a few that are opencode's.
"""

from __future__ import annotations

from posixpath import join, normpath

from hardwon.agents.codex.tools import parse_patch, parse_patch_call
from hardwon.agents.fields import get_text, get_tool_content, get_tool_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from hardwon.agents.codex.tools import FileChange

    ToolInput = dict[str, Any]

TOOL_NAMES = {
    "bash": "Bash",
    "shell": "Bash",
    "read": "Read",
    "write": "Write",
    "edit": "Edit",
    "multiedit": "MultiEdit",
    "patch": "Edit",
    "apply_patch": "Edit",
    "glob": "Glob",
    "grep": "Grep",
    "list": "LS",
    "task": "Task",
    "todowrite": "TodoWrite",
    "todoread": "TodoRead",
    "webfetch": "WebFetch",
    "websearch": "WebSearch",
    "skill": "Skill",
}
_BUILTIN_TOOLS = ("list_mcp_resources", "list_mcp_resource_templates", "read_mcp_resource", "plan_enter", "plan_exit")
_ARGUMENT_NAMES = {
    "filePath": "file_path",
    "oldString": "old_string",
    "newString": "new_string",
    "replaceAll": "replace_all",
    "include": "glob",
}
_PATCH_KEY = "patchText"
_FEEDBACK_MARKER = "with the following feedback:"
REFUSED_MESSAGE = "The user rejected permission to use this specific tool call"
ABORTED_MESSAGES = ("Tool execution aborted", "Cancelled")


def normalize_call(name: str, tool_input: ToolInput) -> tuple[str, ToolInput]:
    """A call by Claude Code's names. A patch counts as one, under its first file."""
    if name not in TOOL_NAMES and name not in _BUILTIN_TOOLS and "_" in name:
        return "mcp__{}__{}".format(*name.split("_", 1)), tool_input
    renamed = {_ARGUMENT_NAMES.get(key, key): value for key, value in tool_input.items()}
    edits = renamed.get("edits")
    if isinstance(edits, list):
        renamed["edits"] = [normalize_call("edit", edit)[1] if isinstance(edit, dict) else edit for edit in edits]
    if get_text(tool_input, _PATCH_KEY):
        return parse_patch_call(tool_input[_PATCH_KEY]).tool, renamed
    return TOOL_NAMES.get(name, name), renamed


def extract_call_fields(tool: str, tool_input: ToolInput) -> tuple[str, str, str]:
    """The command, the path and the content of a call by Claude Code's names."""
    if patch := get_text(tool_input, _PATCH_KEY):
        call = parse_patch_call(patch)
        return "", call.path, call.content
    return get_text(tool_input, "command"), get_tool_path(tool_input), get_tool_content(tool, tool_input)


def parse_file_changes(tool_input: ToolInput) -> list[FileChange]:
    """What a patch does, file by file; nothing if the call is none."""
    patch = get_text(tool_input, _PATCH_KEY)
    return parse_patch(patch) if patch else []


def resolve_call_cwd(tool_input: ToolInput, cwd: str) -> str:
    """Where a call happens: a shell's may name a folder of its own."""
    folder = get_text(tool_input, "workdir").replace("\0", "").encode("utf-8", "replace").decode()
    return normpath(join(cwd, folder)) if folder and cwd else cwd


def unquote_prompt(text: str) -> str:
    """What a person wrote: `opencode run` puts quotes around what it was given as one argument."""
    inner = text.strip()[1:-1]
    if text.strip() != f'"{inner}"' or " " not in inner or '"' in inner.replace('\\"', ""):
        return text
    return inner.replace('\\"', '"')


def parse_refusal(error: str) -> str:
    """What the person said who refused a call or broke it off, a blank if nothing; empty if nobody did."""
    if error.startswith(ABORTED_MESSAGES):
        return " "
    if not error.startswith(REFUSED_MESSAGE):
        return ""
    return error.partition(_FEEDBACK_MARKER)[2].strip() or " "
