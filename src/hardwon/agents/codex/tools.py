"""Codex's tools: a shell, and a patch that may change several files at once.

A patch counts as one call, under its first file and with all lines it adds; `changes` takes it apart for those who
guard files. A line for the shell that is nothing but a patch is told as the patch.
"""

from __future__ import annotations

from os.path import join

from hardwon.agents.fields import collect_strings, get_first_text, get_object
from hardwon.text.light_json import loads
from hardwon.types import frozen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

TOOL_NAMES = {
    "write_stdin": "BashOutput",
    "apply_patch": "Edit",
    "view_image": "Read",
    "read_file": "Read",
    "list_dir": "LS",
    "grep_files": "Grep",
    "update_plan": "TodoWrite",
    "spawn_agent": "Task",
} | dict.fromkeys(("exec_command", "shell", "shell_command", "local_shell", "container.exec"), "Bash")
_SHELLS = frozenset({"bash", "zsh", "sh", "dash", "fish", "pwsh", "powershell", "powershell.exe", "cmd.exe"})
_TEAM_PREFIX = "multi_agent_v"  # hooks have the tool's namespace glued to its name
_PATCH_BEGIN = "*** Begin Patch"
_MAX_MOVES = 100  # of the shell before a patch
MAX_PATCH_FILES = 1_000  # in one patch; more would take longer to judge than a hook has
_PATCH_PROGRAMS = ("apply_patch", "applypatch")
_MOVE_PREFIX = "*** Move to: "
_FILE_HEADERS = {"*** Add File: ": "Write", "*** Update File: ": "Edit", "*** Delete File: ": "Edit"}
OUTPUT_MARKER, DURATION_MARKER = (
    "\nOutput:\n",
    "all time",
)  # what stands above a result ends so, and has one of two spellings of this
_EXIT_PREFIXES = ("Process exited with code ", "Exit code: ")


@frozen
class ToolCall:
    """What a call would do, in the words all hosts share."""

    tool: str
    command: str = ""
    path: str = ""
    content: str = ""


@frozen
class FileChange:
    """What a patch does to one file. One that is deleted is an edit that adds nothing."""

    tool: str
    path: str
    added: str = ""
    removed: str = ""


def parse_call(name: str, tool_input: dict[str, Any], namespace: str = "") -> ToolCall:
    """A call by the tool's name, its namespace, and what it is given."""
    if namespace.startswith("mcp__") or name.startswith("mcp__"):
        tool = name if name.startswith("mcp__") else f"{namespace}__{name.lstrip('_')}"
        return ToolCall(tool, content="\n".join(collect_strings(tool_input)))
    if name.startswith(_TEAM_PREFIX):
        name = name.removeprefix(_TEAM_PREFIX).lstrip("0123456789")
    tool = TOOL_NAMES.get(name, name)
    if tool == "Bash":
        return parse_shell_call(tool_input.get("cmd", tool_input.get("command")))
    if tool == "Edit":
        return parse_patch_call(get_first_text(tool_input, "input", "command"))
    if tool == "BashOutput":
        process = tool_input.get("session_id")
        return ToolCall(tool, path=str(process) if isinstance(process, int | str) else "")
    content = get_first_text(tool_input, "content", "pattern", "query", "url", "prompt", "message")
    return ToolCall(tool, path=get_first_text(tool_input, "file_path", "path", "dir_path"), content=content)


def parse_shell_call(command: object) -> ToolCall:
    line = extract_shell_line(command)
    return parse_patch_call(line) if is_patch(line) else ToolCall("Bash", command=line)


def extract_shell_line(command: object) -> str:
    """The line a shell was given: `["bash", "-lc", "X"]` is X."""
    if not isinstance(command, list):
        return command if isinstance(command, str) else ""
    words = [word for word in command if isinstance(word, str)]
    program = words[0].replace("\\", "/").rpartition("/")[2] if words else ""
    if (len(words) > 2 and program in _SHELLS) or program in _PATCH_PROGRAMS:
        return words[-1]
    import shlex  # it brings in `re`, and hooks hand over a line

    return shlex.join(words)


def is_patch(line: str) -> bool:
    return _find_patch_folder(line) is not None


def _find_patch_folder(line: str) -> str | None:
    """The folder in which a line for the shell patches, as in `cd DIR && apply_patch …`; None if it is no patch."""
    head, begin, _ = line.partition(_PATCH_BEGIN)
    *moves, last = head.strip().split("&&", _MAX_MOVES)
    if not begin or not (last.strip() or _PATCH_PROGRAMS[0]).startswith(_PATCH_PROGRAMS):
        return None
    folder = ""
    for move in moves:
        program, _, target = move.strip().partition(" ")
        if program != "cd":
            return None
        folder = join(folder, target.strip().strip("\"'").replace("\\", ""))
    return folder


def parse_patch_call(patch: str) -> ToolCall:
    changes = parse_patch(patch)
    first = changes[0] if changes else FileChange("Edit", "")
    return ToolCall(first.tool, path=first.path, content=extract_added_lines(patch))


def extract_added_lines(patch: str) -> str:
    """All lines that a patch or a diff adds."""
    return _join_marked_lines("+", _split_lines(patch))


def parse_patch(patch: str) -> list[FileChange]:
    """What a patch does, file by file; a file that moves is edited under its old name and written under its new one."""
    changes: list[FileChange] = []
    folder = _find_patch_folder(patch) or ""
    files: list[
        tuple[str, list[str], list[str]]
    ] = []  # the heading, the file's name and what it is moved to, its lines
    for line in _split_lines(patch):
        stripped = line.strip()  # Codex is not strict about it either
        header = next((header for header in _FILE_HEADERS if stripped.startswith(header)), "")
        if header and len(files) == MAX_PATCH_FILES:
            break
        if header:
            files.append((header, [join(folder, stripped.removeprefix(header))], []))
        elif files and stripped.startswith(_MOVE_PREFIX):
            files[-1][1].append(join(folder, stripped.removeprefix(_MOVE_PREFIX)))
        elif files:
            files[-1][2].append(line)
    for header, (path, *moved_paths), lines in files:
        added, removed = _join_marked_lines("+", lines), _join_marked_lines("-", lines)
        changes += [
            FileChange(_FILE_HEADERS[header], path, added, removed),
            *(FileChange("Write", moved_path, added) for moved_path in moved_paths),
        ]
    return changes


def _split_lines(patch: str) -> list[str]:
    return [line.removesuffix("\r") for line in patch.split("\n")]


def _join_marked_lines(marker: str, lines: list[str]) -> str:
    return "\n".join(line[1:] for line in lines if line.startswith(marker))


def parse_exit_code(head: str) -> int | None:
    """The exit code that the head of a result says on a line of its own."""
    for line in head.split("\n"):
        for prefix in _EXIT_PREFIXES:
            number = line.removeprefix(prefix)
            if number != line and number.removeprefix("-").isdecimal() and len(number) < 12:
                return int(number)
    return None


def unwrap_result(result: str) -> tuple[str, int | None]:
    """What a tool said, without what is put around it, and its exit code if that tells one."""
    text, code = parse_json_result(result)
    head, marker, body = text.partition(OUTPUT_MARKER)
    return (body, parse_exit_code(head)) if marker and DURATION_MARKER in head else (text, code)


def parse_json_result(result: str) -> tuple[str, int | None]:
    """A result that is JSON with an exit code inside: its output and that code."""
    if not result.startswith("{") or '"exit_code"' not in result:
        return result, None
    try:
        inner = loads(result)
    except (ValueError, RecursionError):
        return result, None
    code = inner.get("exit_code", get_object(inner, "metadata").get("exit_code"))
    is_valid = isinstance(code, int) and isinstance(inner.get("output"), str)
    return (inner["output"], code) if is_valid else (result, None)
