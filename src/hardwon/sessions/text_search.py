"""Search for a text in files and their lines, read as bytes, whoever wrote them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from hardwon import paths
from hardwon.agents.opencode import database
from hardwon.text import traces

_BLOCK_BYTES = 8 * 1024 * 1024
_OVERLAP_BYTES = 64 * 1024


def list_files_below(*roots: str) -> Iterator[str]:
    """Yield every file at or below these paths; links are not followed."""
    for root in roots:
        if os.path.isfile(root) and not os.path.islink(root):
            yield root
        for folder, folder_names, file_names in os.walk(root):
            folder_names.sort()
            for file_name in sorted(file_names):
                path = os.path.join(folder, file_name)
                if os.path.isfile(path) and not os.path.islink(path):
                    yield path


def remove_unfinished_files(home: str) -> None:
    """Remove incomplete files and backups of processes that have ended, whatever is in them."""
    for folder, folder_names, file_names in os.walk(home):
        for name in [*folder_names, *file_names]:
            path = os.path.join(folder, name)
            _, _, number = name.removesuffix(".new").rpartition(".")
            if not name.endswith(".new") or not number.isdecimal() or _is_alive(int(number[:10])):
                continue
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path, ignore_errors=True)
            else:
                with suppress(FileNotFoundError):
                    os.unlink(path)


def _is_alive(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # somebody else's
        return True
    return process_id != os.getpid()


def has_piece_in_file(path: str, pieces: Sequence[traces.SearchPiece]) -> bool:
    """Return whether the file or its name holds a piece; one that cannot be read does not."""
    if traces.has_any_piece(os.path.basename(path), pieces):
        return True
    byte_hints = traces.build_byte_hints(pieces)
    try:
        window = b""
        for block in _read_blocks(path):
            window += block
            if _has_any_hint(window, byte_hints) and any(
                traces.has_any_piece(text, pieces) for text in traces.decode_variants(window)
            ):
                return True
            window = window[-_OVERLAP_BYTES:]
    except OSError:
        return False
    return False


def _read_blocks(path: str) -> Iterator[bytes]:
    """Yield the content, a few megabytes at a time."""
    if database.split_session_path(path):
        yield from (line.text for line in database.read_messages(path))
        return
    with open(path, "rb", opener=paths.open_plain_file) as file:
        while block := file.read(_BLOCK_BYTES):
            yield block


def _has_any_hint(data: bytes, hints: Sequence[bytes]) -> bool:
    """Return whether a word of the text is there; in UTF-16 every letter has a zero beside it."""
    lowered = data.lower()
    return (
        not hints or any(word in lowered for word in hints) or (b"\0" in lowered and _has_hint_in_utf16(lowered, hints))
    )


def _has_hint_in_utf16(lowered: bytes, hints: Sequence[bytes]) -> bool:
    return any(b"\0".join(word[i : i + 1] for i in range(len(word))) in lowered for word in hints)


def find_matching_lines(path: str, pieces: Sequence[traces.SearchPiece]) -> list[int]:
    """Return the numbers of the lines that hold a piece; [0] if it spans lines."""
    with open(path, encoding="utf-8", errors="replace", opener=paths.open_plain_file) as file:
        line_numbers = [number for number, line in enumerate(file, 1) if traces.has_any_piece(line, pieces)]
    return line_numbers or [0]


def remove_lines(path: str, should_remove: Callable[[str], bool], *, dry_run: bool) -> int:
    """Remove the matching lines, or with `dry_run` only count them."""
    with open(path, encoding="utf-8", errors="replace", newline="", opener=paths.open_plain_file) as file:
        lines = file.readlines()
    remaining_lines = [line for line in lines if not should_remove(line)]
    if len(remaining_lines) < len(lines) and not dry_run:
        paths.write_private(path, "".join(remaining_lines).encode("utf-8", "replace"))
    return len(lines) - len(remaining_lines)
