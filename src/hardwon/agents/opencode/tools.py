"""opencode's tools, for what its plugin tells and for what it wrote down.

A tool of an MCP server has the server's name and an underscore before its own; so have a few that are opencode's.
"""

from __future__ import annotations

from posixpath import join, normpath

from hardwon.agents.codex.tools import changes, patch_call
from hardwon.agents.fields import content_of, path_of, text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from hardwon.agents.codex.tools import Change

    Given = dict[str, Any]

TOOLS = {
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
_OWN = ("list_mcp_resources", "list_mcp_resource_templates", "read_mcp_resource", "plan_enter", "plan_exit")
_ARGUMENTS = {
    "filePath": "file_path",
    "oldString": "old_string",
    "newString": "new_string",
    "replaceAll": "replace_all",
    "include": "glob",
}
_PATCH = "patchText"
_FEEDBACK = "with the following feedback:"
REFUSED = "The user rejected permission to use this specific tool call"
ABORTED = ("Tool execution aborted", "Cancelled")


def called(name: str, given: Given) -> tuple[str, Given]:
    """A call by Claude Code's names. A patch counts as one, under its first file."""
    if name not in TOOLS and name not in _OWN and "_" in name:
        return "mcp__{}__{}".format(*name.split("_", 1)), given
    renamed = {_ARGUMENTS.get(key, key): value for key, value in given.items()}
    edits = renamed.get("edits")
    if isinstance(edits, list):
        renamed["edits"] = [called("edit", edit)[1] if isinstance(edit, dict) else edit for edit in edits]
    if text_of(given, _PATCH):
        return patch_call(given[_PATCH]).tool, renamed
    return TOOLS.get(name, name), renamed


def about(tool: str, given: Given) -> tuple[str, str, str]:
    """The command, the path and the content of a call by Claude Code's names."""
    if patch := text_of(given, _PATCH):
        call = patch_call(patch)
        return "", call.path, call.content
    return text_of(given, "command"), path_of(given), content_of(tool, given)


def changed(given: Given) -> list[Change]:
    """What a patch does, file by file; nothing if the call is none."""
    patch = text_of(given, _PATCH)
    return changes(patch) if patch else []


def folder(given: Given, cwd: str) -> str:
    """Where a call happens: a shell's may name a folder of its own."""
    place = text_of(given, "workdir").replace("\0", "").encode("utf-8", "replace").decode()
    return normpath(join(cwd, place)) if place and cwd else cwd


def asked(text: str) -> str:
    """What a person wrote: `opencode run` puts quotes around what it was given as one argument."""
    inner = text.strip()[1:-1]
    if text.strip() != f'"{inner}"' or " " not in inner or '"' in inner.replace('\\"', ""):
        return text
    return inner.replace('\\"', '"')


def refusal(error: str) -> str:
    """What the person said who refused a call or broke it off, a blank if nothing; empty if nobody did."""
    if error.startswith(ABORTED):
        return " "
    if not error.startswith(REFUSED):
        return ""
    return error.partition(_FEEDBACK)[2].strip() or " "
