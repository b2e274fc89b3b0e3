"""Codex's tools: a shell, and a patch that may change several files at once.

A patch counts as one call, with its first file and all added lines; `parse_patch` splits it by file for the checks of
file lessons. A shell line that is only a patch counts as the patch.
"""

from __future__ import annotations

from os.path import join

from hardwon.agents.fields import collect_strings, get_first_text, get_object
from hardwon.text.light_json import loads
from hardwon.types import frozen, replace

TYPE_CHECKING = False  # importing it from `typing` would slow down the hook
if TYPE_CHECKING:
    from typing import Any

    from hardwon.types import Event

TOOL_NAMES = {
    "exec_command": "Bash",
    "shell": "Bash",
    "shell_command": "Bash",
    "local_shell": "Bash",
    "container.exec": "Bash",
    "write_stdin": "BashOutput",
    "apply_patch": "Edit",
    "view_image": "Read",
    "read_file": "Read",
    "list_dir": "LS",
    "grep_files": "Grep",
    "update_plan": "TodoWrite",
    "spawn_agent": "Task",
}
MAX_PATCH_FILES = 1_000  # in one patch; more would take longer to judge than a hook has
_SHELLS = frozenset({"bash", "zsh", "sh", "dash", "fish", "pwsh", "powershell", "powershell.exe", "cmd.exe"})
_TEAM_PREFIX = "multi_agent_v"  # hooks have the tool's namespace glued to its name
_PATCH_BEGIN = "*** Begin Patch"
_PATCH_PROGRAMS = ("apply_patch", "applypatch")
_MAX_MOVES = 100  # `cd` commands before a patch
_MOVE_PREFIX = "*** Move to: "
_FILE_HEADERS = {"*** Add File: ": "Write", "*** Update File: ": "Edit", "*** Delete File: ": "Edit"}
# Above a result Codex puts a head that has one of two spellings of the wall time and ends with this marker.
_OUTPUT_MARKER, _DURATION_MARKER = "\nOutput:\n", "all time"
_EXIT_PREFIXES = ("Process exited with code ", "Exit code: ")


@frozen
class ToolCall:
    """A call by the tool and field names that all agents share."""

    tool: str
    command: str = ""
    path: str = ""
    content: str = ""


@frozen
class FileChange:
    """The change of one file in a patch. A deletion is an edit that adds nothing."""

    tool: str
    path: str
    added: str = ""
    removed: str = ""


def parse_call(name: str, tool_input: dict[str, Any], namespace: str = "") -> ToolCall:
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
    """Return the line a shell was given: X of `["bash", "-lc", "X"]`."""
    if not isinstance(command, list):
        return command if isinstance(command, str) else ""
    words = [word for word in command if isinstance(word, str)]
    program = words[0].replace("\\", "/").rpartition("/")[2] if words else ""
    # `bash -lc LINE`; with other programs the words themselves are the command.
    if (len(words) > 2 and program in _SHELLS) or program in _PATCH_PROGRAMS:
        return words[-1]
    import shlex  # it brings in `re`, and hooks hand over a line

    return shlex.join(words)


def is_patch(line: str) -> bool:
    return _find_patch_folder(line) is not None


def _find_patch_folder(line: str) -> str | None:
    """Return the folder in which a shell line patches, as in `cd DIR && apply_patch …`; None if it is no patch."""
    head, begin, _ = line.partition(_PATCH_BEGIN)
    # Models write `cd sub && apply_patch <<EOF`.
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
    return ToolCall(first.tool, path=first.path, content=join_marked_lines("+", patch.split("\n")))


def parse_patch(patch: str) -> list[FileChange]:
    """Split a patch by file; a moved file is edited under its old name and written under the new one."""
    folder = _find_patch_folder(patch) or ""
    files: list[tuple[str, list[str], list[str]]] = []  # each file's tool, its path and the one it moves to, its lines
    for line in patch.split("\n"):
        stripped = line.strip()  # Codex is not strict about white space either
        header = next((header for header in _FILE_HEADERS if stripped.startswith(header)), "")
        if header and len(files) == MAX_PATCH_FILES:
            break
        if header:
            files.append((_FILE_HEADERS[header], [join(folder, stripped.removeprefix(header))], []))
        elif files and stripped.startswith(_MOVE_PREFIX):
            files[-1][1].append(join(folder, stripped.removeprefix(_MOVE_PREFIX)))
        elif files:
            files[-1][2].append(line)
    changes: list[FileChange] = []
    for tool, (path, *moved_paths), lines in files:
        added, removed = join_marked_lines("+", lines), join_marked_lines("-", lines)
        changes.append(FileChange(tool, path, added, removed))
        changes += [FileChange("Write", moved_path, added) for moved_path in moved_paths]
    return changes


def build_patch_parts(event: Event, patch: str) -> tuple[Event, ...]:
    """Return the event of a patch as the calls that would change one file each."""
    parts = []
    for change in parse_patch(patch):
        part = replace(
            event,
            tool=change.tool,
            command="",
            path=change.path,
            content=change.added,
            input=build_edit_input(change.tool, change.path, change.added, change.removed),
        )
        parts.append(part)
    return tuple(parts)


def build_edit_input(tool: str, path: str, added: str, removed: str) -> dict[str, str]:
    """Return the input that a call of Claude Code's Write or Edit would have."""
    if tool == "Write":
        return {"file_path": path, "content": added}
    return {"file_path": path, "old_string": removed, "new_string": added}


def join_marked_lines(marker: str, lines: list[str]) -> str:
    """Return the lines of a patch or a diff that begin with this marker, without it."""
    return "\n".join(line[1:].removesuffix("\r") for line in lines if line.startswith(marker))


def unwrap_result(result: str) -> tuple[str, int | None]:
    """Return a tool's output without the head above it, and its exit code if known."""
    text, code = parse_json_result(result)
    head, body = split_head(text)
    return body, parse_exit_code(head) if head else code


def split_head(text: str) -> tuple[str, str]:
    """Return the head that Codex puts above a result, empty if there is none, and the text below it."""
    head, marker, body = text.partition(_OUTPUT_MARKER)
    return (head, body) if marker and _DURATION_MARKER in head else ("", text)


def parse_exit_code(head: str) -> int | None:
    """Return the exit code that the head of a result has on a line of its own."""
    for line in head.split("\n"):
        for prefix in _EXIT_PREFIXES:
            number = line.removeprefix(prefix)
            if number != line and number.removeprefix("-").isdecimal() and len(number) < 12:
                return int(number)
    return None


def parse_json_result(result: str) -> tuple[str, int | None]:
    """Return the output and the exit code of a result that is JSON, else the result as it is."""
    if not result.startswith("{") or '"exit_code"' not in result:
        return result, None
    try:
        inner = loads(result)
    except (ValueError, RecursionError):
        return result, None
    code = inner.get("exit_code", get_object(inner, "metadata").get("exit_code"))
    is_valid = isinstance(code, int) and isinstance(inner.get("output"), str)
    return (inner["output"], code) if is_valid else (result, None)
