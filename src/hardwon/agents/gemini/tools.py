"""Gemini CLI's tools and the frames it puts around words, for what its hooks tell and for what it wrote down.

Its hooks have no id of a call. What both accounts know is the model's message that made the call, and the call itself,
so together these are its id; of equal calls in one message only the transcript knows that there were several.
"""

from __future__ import annotations

from binascii import crc32
from posixpath import join, normpath

from hardwon.agents.fields import content_of, path_of, text_of
from hardwon.text.fence import CLOSE, OPEN, outside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Given = dict[str, Any]

SHELL = "run_shell_command"
NAMES = {
    SHELL: "Bash",
    "read_background_output": "BashOutput",
    "read_file": "Read",
    "read_many_files": "Read",
    "write_file": "Write",
    "replace": "Edit",
    "edit": "Edit",
    "glob": "Glob",
    "grep_search": "Grep",
    "search_file_content": "Grep",
    "list_directory": "LS",
    "web_fetch": "WebFetch",
    "google_web_search": "WebSearch",
    "write_todos": "TodoWrite",
    "invoke_agent": "Task",
    "activate_skill": "Skill",
}
_ARGUMENTS = {
    "absolute_path": "file_path",
    "dir_path": "path",
    "include_pattern": "glob",
    "allow_multiple": "replace_all",
    "start_line": "offset",
    "agent_name": "subagent_type",
}
_OF_ONE_TOOL = {SHELL: {"dir_path": "dir_path"}, "activate_skill": {"name": "skill"}}
_MCP = "mcp_"

_HOOKED = ("<hook_context>", "</hook_context>")
_BRACKETS = str.maketrans({"<": "&lt;", ">": "&gt;"})
_ESCAPED = (OPEN.translate(_BRACKETS), CLOSE.translate(_BRACKETS))
# Behind a person's words: an agent they chose, the files they named. Nothing of theirs comes after these.
_ADDED = ("\n--- Content from referenced files ---", "\n<system_note>\nThe user has explicitly selected")
_UNTRUSTED = ("<untrusted_context>", "</untrusted_context>")
_REWRITTEN = "[System] Tool input parameters"
_CODE, _SIGNAL, _NO_ERROR = "Exit Code: ", "Signal: ", "Error: (none)"
_TAIL = (_SIGNAL, "Background PIDs: ", "Process Group PGID: ")
_NONE = ("", "0", "(none)")
_OUT_OF_TIME = "Command was automatically cancelled"
CANCELLED = "Command was cancelled by user"


def called(name: str, given: Given, server: str = "", tool: str = "") -> tuple[str, Given]:
    """A call by Claude Code's names; `server` and `tool` are those of MCP, which its own name only runs together."""
    if server or name.startswith(_MCP):
        first, _, rest = name.removeprefix(_MCP).partition("_")
        return f"mcp__{server or first}__{tool or rest}", given
    own = {**_ARGUMENTS, **_OF_ONE_TOOL.get(name, {})}
    renamed = {own.get(key, key): value for key, value in given.items()}
    todos = renamed.get("todos")
    if isinstance(todos, list):
        renamed["todos"] = [_todo(item) for item in todos]
    return NAMES.get(name, name), renamed


def _todo(item: object) -> object:
    return {"content": text_of(item, "description"), **item} if isinstance(item, dict) else item


def about(tool: str, given: Given) -> tuple[str, str, str]:
    """The command, the path and the content of a call by Claude Code's names."""
    return text_of(given, "command"), path_of(given), content_of(tool, given)


def folder(place: str, cwd: str) -> str:
    """Where a call happens: a shell's may name a folder of its own, its `dir_path`."""
    place = place.replace("\0", "").encode("utf-8", "replace").decode()
    return normpath(join(cwd, place)) if place and cwd else cwd


def id_of(message: str, tool: str, said: tuple[str, str, str]) -> str:
    """A call's id; empty if its message is not known."""
    return f"{message}:{crc32(chr(0).join((tool, *said)).encode('utf-8', 'replace')):08x}" if message else ""


def asked(text: str) -> str:
    """What the person wrote, of all that is sent as the prompt."""
    text = unhooked(text)
    for mark in _ADDED:
        text = text.partition(mark)[0]
    return text.strip()


def answered(text: str) -> str:
    """What the model wrote. The pattern of a lesson was shown to it with brackets escaped, so it may write them so."""
    text = unhooked(text).strip()
    return text.replace("&lt;", "<").replace("&gt;", ">") if "#lesson" in text else text


def unhooked(text: str) -> str:
    """The text without what hooks added to it, ours among them."""
    return outside(outside(outside(text, *_HOOKED), *_ESCAPED), OPEN, CLOSE)


def outcome(name: str, text: str) -> tuple[str, bool]:
    """What a tool gave, without the frame around it, and whether that says that it failed."""
    text = unhooked(text)
    for mark in _UNTRUSTED:
        text = text.replace(mark, "")
    lines = text.strip().split("\n")
    if lines[-1].startswith(_REWRITTEN):
        lines = "\n".join(lines[:-1]).rstrip().split("\n")
    return _of_shell(lines) if name == SHELL else ("\n".join(lines), False)


def _of_shell(lines: list[str]) -> tuple[str, bool]:
    """A shell's frame ends with its exit code and its signal; what the command wrote may look the same, but before."""
    ending: list[str] = []
    while lines and lines[-1].startswith(_TAIL):
        last = lines.pop()
        if last.startswith(_SIGNAL) and last.removeprefix(_SIGNAL) not in _NONE:
            ending = [last]
    if lines and lines[-1].startswith(_CODE):
        ending.insert(0, lines.pop())
    if lines and lines[-1] == _NO_ERROR:
        lines.pop()
    text = "\n".join([*lines, *ending])
    if text.startswith("Command: ") and "\nDirectory: " in text:  # as it was until 2026
        text = text.partition("\nDirectory: ")[2].partition("\n")[2]
    failed = any(line.partition(": ")[2] not in _NONE for line in ending) or text.startswith(_OUT_OF_TIME)
    return text.strip().removeprefix("Output: "), failed


def words(content: object) -> str:
    """The text of what is one text, one part, or several."""
    parts = content if isinstance(content, list) else [content]
    texts = (text_of(part, "text") if isinstance(part, dict) else part for part in parts)
    return "\n".join(text for text in texts if isinstance(text, str) and text)
