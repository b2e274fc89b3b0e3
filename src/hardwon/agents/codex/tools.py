"""Codex's tools: a shell, and a patch that may change several files at once.

A patch counts as one call, under its first file and with all lines it adds; `changes` takes it apart for those who
guard files. A line for the shell that is nothing but a patch is told as the patch.
"""

from __future__ import annotations

from os.path import join

from hardwon.agents.fields import first_of, map_of, strings_in
from hardwon.text.light_json import loads
from hardwon.types import word

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

TOOLS = {
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
MOST_FILES = 1_000  # in one patch; more would take longer to judge than a hook has
_PROGRAMS = ("apply_patch", "applypatch")
_MOVED = "*** Move to: "
_HEADS = {"*** Add File: ": "Write", "*** Update File: ": "Edit", "*** Delete File: ": "Edit"}
OUTPUT, TIMED = "\nOutput:\n", "all time"  # what stands above a result ends so, and has one of two spellings of this
_EXITS = ("Process exited with code ", "Exit code: ")


@word
class Doing:
    """What a call would do, in the words all hosts share."""

    tool: str
    command: str = ""
    path: str = ""
    content: str = ""


@word
class Change:
    """What a patch does to one file. One that is deleted is an edit that adds nothing."""

    tool: str
    path: str
    added: str = ""
    removed: str = ""


def call_of(name: str, given: dict[str, Any], space: str = "") -> Doing:
    """A call by the tool's name, its namespace, and what it is given."""
    if space.startswith("mcp__") or name.startswith("mcp__"):
        tool = name if name.startswith("mcp__") else f"{space}__{name.lstrip('_')}"
        return Doing(tool, content="\n".join(strings_in(given)))
    if name.startswith(_TEAM):
        name = name.removeprefix(_TEAM).lstrip("0123456789")
    tool = TOOLS.get(name, name)
    if tool == "Bash":
        return shell_call(given.get("cmd", given.get("command")))
    if tool == "Edit":
        return patch_call(first_of(given, "input", "command"))
    if tool == "BashOutput":
        process = given.get("session_id")
        return Doing(tool, path=str(process) if isinstance(process, int | str) else "")
    content = first_of(given, "content", "pattern", "query", "url", "prompt", "message")
    return Doing(tool, path=first_of(given, "file_path", "path", "dir_path"), content=content)


def shell_call(command: object) -> Doing:
    line = shell_line(command)
    return patch_call(line) if is_patch(line) else Doing("Bash", command=line)


def shell_line(command: object) -> str:
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


def patch_call(patch: str) -> Doing:
    found = changes(patch)
    first = found[0] if found else Change("Edit", "")
    return Doing(first.tool, path=first.path, content=added(patch))


def added(patch: str) -> str:
    """All lines that a patch or a diff adds."""
    return _begun("+", _lines(patch))


def changes(patch: str) -> list[Change]:
    """What a patch does, file by file; a file that moves is edited under its old name and written under its new one."""
    found: list[Change] = []
    folder = _patched_in(patch) or ""
    files: list[
        tuple[str, list[str], list[str]]
    ] = []  # the heading, the file's name and what it is moved to, its lines
    for line in _lines(patch):
        bare = line.strip()  # Codex is not strict about it either
        head = next((head for head in _HEADS if bare.startswith(head)), "")
        if head and len(files) == MOST_FILES:
            break
        if head:
            files.append((head, [join(folder, bare.removeprefix(head))], []))
        elif files and bare.startswith(_MOVED):
            files[-1][1].append(join(folder, bare.removeprefix(_MOVED)))
        elif files:
            files[-1][2].append(line)
    for head, (path, *moved), lines in files:
        new, old = _begun("+", lines), _begun("-", lines)
        found += [Change(_HEADS[head], path, new, old), *(Change("Write", other, new) for other in moved)]
    return found


def _lines(patch: str) -> list[str]:
    return [line.removesuffix("\r") for line in patch.split("\n")]


def _begun(mark: str, lines: list[str]) -> str:
    return "\n".join(line[1:] for line in lines if line.startswith(mark))


def stated(head: str) -> int | None:
    """The exit code that the head of a result says on a line of its own."""
    for line in head.split("\n"):
        for says in _EXITS:
            number = line.removeprefix(says)
            if number != line and number.removeprefix("-").isdecimal() and len(number) < 12:
                return int(number)
    return None


def unwrapped(result: str) -> tuple[str, int | None]:
    """What a tool said, without what is put around it, and its exit code if that tells one."""
    text, code = from_json(result)
    head, mark, body = text.partition(OUTPUT)
    return (body, stated(head)) if mark and TIMED in head else (text, code)


def from_json(result: str) -> tuple[str, int | None]:
    """A result that is JSON with an exit code inside: its output and that code."""
    if not result.startswith("{") or '"exit_code"' not in result:
        return result, None
    try:
        inner = loads(result)
    except (ValueError, RecursionError):
        return result, None
    code = inner.get("exit_code", map_of(inner, "metadata").get("exit_code"))
    known = isinstance(code, int) and isinstance(inner.get("output"), str)
    return (inner["output"], code) if known else (result, None)
