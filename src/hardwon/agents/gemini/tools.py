"""Gemini CLI's tools and the frames it puts around words, for what its hooks tell and for what it wrote down.

Its hooks have no id of a call. What both accounts know is the model's message that made the call, and the call itself,
so together these are its id; of equal calls in one message only the transcript knows that there were several.
"""

from __future__ import annotations

from binascii import crc32
from posixpath import join, normpath

from hardwon.agents.fields import get_text, get_tool_content, get_tool_path
from hardwon.text.fence import FENCE_CLOSE, FENCE_OPEN, remove_between

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    ToolInput = dict[str, Any]

SHELL_TOOL = "run_shell_command"
TOOL_NAMES = {
    SHELL_TOOL: "Bash",
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
_ARGUMENT_NAMES = {
    "absolute_path": "file_path",
    "dir_path": "path",
    "include_pattern": "glob",
    "allow_multiple": "replace_all",
    "start_line": "offset",
    "agent_name": "subagent_type",
}
_TOOL_ARGUMENT_NAMES = {SHELL_TOOL: {"dir_path": "dir_path"}, "activate_skill": {"name": "skill"}}
_MCP_PREFIX = "mcp_"

_HOOK_CONTEXT_TAGS = ("<hook_context>", "</hook_context>")
_BRACKET_ESCAPES = str.maketrans({"<": "&lt;", ">": "&gt;"})
_ESCAPED_FENCE = (FENCE_OPEN.translate(_BRACKET_ESCAPES), FENCE_CLOSE.translate(_BRACKET_ESCAPES))
# Behind a person's words: an agent they chose, the files they named. Nothing of theirs comes after these.
_ADDED_MARKERS = ("\n--- Content from referenced files ---", "\n<system_note>\nThe user has explicitly selected")
_UNTRUSTED_TAGS = ("<untrusted_context>", "</untrusted_context>")
_REWRITTEN_NOTICE = "[System] Tool input parameters"
_EXIT_CODE_PREFIX, _SIGNAL_PREFIX, _NO_ERROR_LINE = "Exit Code: ", "Signal: ", "Error: (none)"
_TAIL_PREFIXES = (_SIGNAL_PREFIX, "Background PIDs: ", "Process Group PGID: ")
_NO_VALUES = ("", "0", "(none)")
_TIMEOUT_PREFIX = "Command was automatically cancelled"
CANCELLED_MESSAGE = "Command was cancelled by user"


def normalize_call(name: str, tool_input: ToolInput, server: str = "", tool: str = "") -> tuple[str, ToolInput]:
    """A call by Claude Code's names; `server` and `tool` are those of MCP, which its own name only runs together."""
    if server or name.startswith(_MCP_PREFIX):
        first, _, rest = name.removeprefix(_MCP_PREFIX).partition("_")
        return f"mcp__{server or first}__{tool or rest}", tool_input
    argument_names = {**_ARGUMENT_NAMES, **_TOOL_ARGUMENT_NAMES.get(name, {})}
    renamed = {argument_names.get(key, key): value for key, value in tool_input.items()}
    todos = renamed.get("todos")
    if isinstance(todos, list):
        renamed["todos"] = [_normalize_todo(item) for item in todos]
    return TOOL_NAMES.get(name, name), renamed


def _normalize_todo(item: object) -> object:
    return {"content": get_text(item, "description"), **item} if isinstance(item, dict) else item


def extract_call_fields(tool: str, tool_input: ToolInput) -> tuple[str, str, str]:
    """The command, the path and the content of a call by Claude Code's names."""
    return get_text(tool_input, "command"), get_tool_path(tool_input), get_tool_content(tool, tool_input)


def resolve_call_cwd(call_folder: str, cwd: str) -> str:
    """Where a call happens: a shell's may name a folder of its own, its `dir_path`."""
    call_folder = call_folder.replace("\0", "").encode("utf-8", "replace").decode()
    return normpath(join(cwd, call_folder)) if call_folder and cwd else cwd


def build_call_id(message: str, tool: str, call_fields: tuple[str, str, str]) -> str:
    """A call's id; empty if its message is not known."""
    return f"{message}:{crc32(chr(0).join((tool, *call_fields)).encode('utf-8', 'replace')):08x}" if message else ""


def extract_prompt(text: str) -> str:
    """What the person wrote, of all that is sent as the prompt."""
    text = strip_hook_context(text)
    for marker in _ADDED_MARKERS:
        text = text.partition(marker)[0]
    return text.strip()


def extract_answer(text: str) -> str:
    """What the model wrote. The pattern of a lesson was shown to it with brackets escaped, so it may write them so."""
    text = strip_hook_context(text).strip()
    return text.replace("&lt;", "<").replace("&gt;", ">") if "#lesson" in text else text


def strip_hook_context(text: str) -> str:
    """The text without what hooks added to it, ours among them."""
    return remove_between(
        remove_between(remove_between(text, *_HOOK_CONTEXT_TAGS), *_ESCAPED_FENCE), FENCE_OPEN, FENCE_CLOSE
    )


def parse_outcome(name: str, text: str) -> tuple[str, bool]:
    """What a tool gave, without the frame around it, and whether that says that it failed."""
    text = strip_hook_context(text)
    for tag in _UNTRUSTED_TAGS:
        text = text.replace(tag, "")
    lines = text.strip().split("\n")
    if lines[-1].startswith(_REWRITTEN_NOTICE):
        lines = "\n".join(lines[:-1]).rstrip().split("\n")
    return _parse_shell_outcome(lines) if name == SHELL_TOOL else ("\n".join(lines), False)


def _parse_shell_outcome(lines: list[str]) -> tuple[str, bool]:
    """A shell's frame ends with its exit code and its signal; what the command wrote may look the same, but before."""
    ending: list[str] = []
    while lines and lines[-1].startswith(_TAIL_PREFIXES):
        last = lines.pop()
        if last.startswith(_SIGNAL_PREFIX) and last.removeprefix(_SIGNAL_PREFIX) not in _NO_VALUES:
            ending = [last]
    if lines and lines[-1].startswith(_EXIT_CODE_PREFIX):
        ending.insert(0, lines.pop())
    if lines and lines[-1] == _NO_ERROR_LINE:
        lines.pop()
    text = "\n".join([*lines, *ending])
    if text.startswith("Command: ") and "\nDirectory: " in text:  # as it was until 2026
        text = text.partition("\nDirectory: ")[2].partition("\n")[2]
    failed = any(line.partition(": ")[2] not in _NO_VALUES for line in ending) or text.startswith(_TIMEOUT_PREFIX)
    return text.strip().removeprefix("Output: "), failed


def join_text_parts(content: object) -> str:
    """The text of what is one text, one part, or several."""
    parts = content if isinstance(content, list) else [content]
    texts = (get_text(part, "text") if isinstance(part, dict) else part for part in parts)
    return "\n".join(text for text in texts if isinstance(text, str) and text)
