"""Patches in the form of Codex's apply_patch, which opencode and Cline have too; one may change several files at once.

A patch counts as one call, with its first file and all added lines; `parse_patch` splits it by file for the checks of
file lessons. A shell line that is only a patch counts as the patch.
"""

from __future__ import annotations

from os.path import join

from hardwon.types import frozen, replace

TYPE_CHECKING = False  # importing it from `typing` would slow down the hook
if TYPE_CHECKING:
    from hardwon.types import Event

PATCH_PROGRAMS = ("apply_patch", "applypatch")
_MAX_PATCH_FILES = 1_000  # in one patch; more would take longer to judge than a hook has
_PATCH_BEGIN = "*** Begin Patch"
_MAX_MOVES = 100  # `cd` commands before a patch
_MOVE_PREFIX = "*** Move to: "
_FILE_HEADERS = {"*** Add File: ": "Write", "*** Update File: ": "Edit", "*** Delete File: ": "Edit"}


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


def is_patch(line: str) -> bool:
    """Return whether a shell line does nothing but apply a patch, maybe after `cd`."""
    return _find_patch_folder(line) is not None


def _find_patch_folder(line: str) -> str | None:
    """Return the folder in which a shell line patches, as in `cd DIR && apply_patch …`; None if it is no patch."""
    head, begin, _ = line.partition(_PATCH_BEGIN)
    if not begin:
        return None
    # Models write `cd sub && apply_patch <<EOF`, or nothing at all before the patch.
    *moves, patch_command = head.strip().split("&&", _MAX_MOVES)
    if patch_command.strip() and not patch_command.strip().startswith(PATCH_PROGRAMS):
        return None
    folder = ""
    for move in moves:
        program, _, target = move.strip().partition(" ")
        if program != "cd":
            return None  # the line does more than patch
        folder = join(folder, target.strip().strip("\"'").replace("\\", ""))
    return folder


def parse_patch_call(patch: str) -> ToolCall:
    """Return a patch as one call: its first file, and all added lines; without a path if it changes no file."""
    added = join_marked_lines("+", patch.split("\n"))
    changes = parse_patch(patch)
    if not changes:
        return ToolCall("Edit", content=added)
    return ToolCall(changes[0].tool, path=changes[0].path, content=added)


def parse_patch(patch: str) -> list[FileChange]:
    """Split a patch by file; a moved file is edited under its old name and written under the new one."""
    folder = _find_patch_folder(patch) or ""
    files: list[tuple[str, list[str], list[str]]] = []  # each file's tool, its path and the one it moves to, its lines
    for line in patch.split("\n"):
        stripped = line.strip()  # Codex is not strict about white space either
        if header := _find_file_header(stripped):
            if len(files) == _MAX_PATCH_FILES:
                break
            path = join(folder, stripped.removeprefix(header))
            files.append((_FILE_HEADERS[header], [path], []))
        elif files:
            _, paths, lines = files[-1]
            if stripped.startswith(_MOVE_PREFIX):
                paths.append(join(folder, stripped.removeprefix(_MOVE_PREFIX)))
            else:
                lines.append(line)
    changes: list[FileChange] = []
    for tool, (path, *moved_paths), lines in files:
        added = join_marked_lines("+", lines)
        removed = join_marked_lines("-", lines)
        changes.append(FileChange(tool, path, added, removed))
        changes += [FileChange("Write", moved_path, added) for moved_path in moved_paths]
    return changes


def _find_file_header(line: str) -> str:
    """Return the words with which a line begins the changes of a file; empty if it does not."""
    for header in _FILE_HEADERS:
        if line.startswith(header):
            return header
    return ""


def build_patch_parts(event: Event, patch: str) -> tuple[Event, ...]:
    """Return the event of a patch as the calls that would change one file each; none without a patch."""
    parts = []
    for change in parse_patch(patch):
        edit_input = build_edit_input(change.tool, change.path, change.added, change.removed)
        part = replace(event, tool=change.tool, command="", path=change.path, content=change.added, input=edit_input)
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
