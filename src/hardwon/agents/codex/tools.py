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
_TEAM = "multi_agent_v"  # hooks have the tool's namespace glued to its name
_BEGIN = "*** Begin Patch"
_MOST_MOVES = 100  # of the shell before a patch
MAX_PATCH_FILES = 1_000  # in one patch; more would take longer to judge than a hook has
_PROGRAMS = ("apply_patch", "applypatch")
_MOVED = "*** Move to: "
_HEADS = {"*** Add File: ": "Write", "*** Update File: ": "Edit", "*** Delete File: ": "Edit"}
OUTPUT_MARKER, DURATION_MARKER = (
    "\nOutput:\n",
    "all time",
)  # what stands above a result ends so, and has one of two spellings of this
_EXITS = ("Process exited with code ", "Exit code: ")


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
    if name.startswith(_TEAM):
        name = name.removeprefix(_TEAM).lstrip("0123456789")
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
    if (len(words) > 2 and program in _SHELLS) or program in _PROGRAMS:
        return words[-1]
    import shlex  # it brings in `re`, and hooks hand over a line

    return shlex.join(words)


def is_patch(line: str) -> bool:
    return _patched_in(line) is not None


def _patched_in(line: str) -> str | None:
    """The folder in which a line for the shell patches, as in `cd DIR && apply_patch …`; None if it is no patch."""
    head, begin, _ = line.partition(_BEGIN)
    *moves, last = head.strip().split("&&", _MOST_MOVES)
    if not begin or not (last.strip() or _PROGRAMS[0]).startswith(_PROGRAMS):
        return None
    folder = ""
    for move in moves:
        program, _, place = move.strip().partition(" ")
        if program != "cd":
            return None
        folder = join(folder, place.strip().strip("\"'").replace("\\", ""))
    return folder


def parse_patch_call(patch: str) -> ToolCall:
    found = parse_patch(patch)
    first = found[0] if found else FileChange("Edit", "")
    return ToolCall(first.tool, path=first.path, content=extract_added_lines(patch))


def extract_added_lines(patch: str) -> str:
    """All lines that a patch or a diff adds."""
    return _begun("+", _lines(patch))


def parse_patch(patch: str) -> list[FileChange]:
    """What a patch does, file by file; a file that moves is edited under its old name and written under its new one."""
    found: list[FileChange] = []
    folder = _patched_in(patch) or ""
    files: list[
        tuple[str, list[str], list[str]]
    ] = []  # the heading, the file's name and what it is moved to, its lines
    for line in _lines(patch):
        bare = line.strip()  # Codex is not strict about it either
        head = next((head for head in _HEADS if bare.startswith(head)), "")
        if head and len(files) == MAX_PATCH_FILES:
            break
        if head:
            files.append((head, [join(folder, bare.removeprefix(head))], []))
        elif files and bare.startswith(_MOVED):
            files[-1][1].append(join(folder, bare.removeprefix(_MOVED)))
        elif files:
            files[-1][2].append(line)
    for head, (path, *moved), lines in files:
        new, old = _begun("+", lines), _begun("-", lines)
        found += [FileChange(_HEADS[head], path, new, old), *(FileChange("Write", other, new) for other in moved)]
    return found


def _lines(patch: str) -> list[str]:
    return [line.removesuffix("\r") for line in patch.split("\n")]


def _begun(mark: str, lines: list[str]) -> str:
    return "\n".join(line[1:] for line in lines if line.startswith(mark))


def parse_exit_code(head: str) -> int | None:
    """The exit code that the head of a result says on a line of its own."""
    for line in head.split("\n"):
        for says in _EXITS:
            number = line.removeprefix(says)
            if number != line and number.removeprefix("-").isdecimal() and len(number) < 12:
                return int(number)
    return None


def unwrap_result(result: str) -> tuple[str, int | None]:
    """What a tool said, without what is put around it, and its exit code if that tells one."""
    text, code = parse_json_result(result)
    head, mark, body = text.partition(OUTPUT_MARKER)
    return (body, parse_exit_code(head)) if mark and DURATION_MARKER in head else (text, code)


def parse_json_result(result: str) -> tuple[str, int | None]:
    """A result that is JSON with an exit code inside: its output and that code."""
    if not result.startswith("{") or '"exit_code"' not in result:
        return result, None
    try:
        inner = loads(result)
    except (ValueError, RecursionError):
        return result, None
    code = inner.get("exit_code", get_object(inner, "metadata").get("exit_code"))
    known = isinstance(code, int) and isinstance(inner.get("output"), str)
    return (inner["output"], code) if known else (result, None)
