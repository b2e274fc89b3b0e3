"""Files that hold a text, or lines of them, read as bytes with nothing known of who wrote them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from hardwon import paths
from hardwon.agents.opencode import database
from hardwon.text import traces

_CHUNK = 8 * 1024 * 1024
_OVERLAP = 64 * 1024


def list_files_below(*places: str) -> Iterator[str]:
    """Every file at or below these places; links are not followed."""
    for place in places:
        if os.path.isfile(place) and not os.path.islink(place):
            yield place
        for folder, names, files in os.walk(place):
            names.sort()
            for file in sorted(files):
                path = os.path.join(folder, file)
                if os.path.isfile(path) and not os.path.islink(path):
                    yield path


def remove_unfinished_files(home: str) -> None:
    """Remove files and backups that a process which is gone left half written, whatever is in them."""
    for folder, names, files in os.walk(home):
        for name in [*names, *files]:
            path = os.path.join(folder, name)
            _, _, number = name.removesuffix(".new").rpartition(".")
            if not name.endswith(".new") or not number.isdecimal() or _is_alive(int(number[:10])):
                continue
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path, ignore_errors=True)
            else:
                with suppress(FileNotFoundError):
                    os.unlink(path)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # somebody else's
        return True
    return process != os.getpid()


def has_piece_in_file(path: str, pieces: Sequence[traces.SearchPiece]) -> bool:
    """Whether the file holds a piece, or its name does; one that cannot be read does not."""
    if traces.has_any_piece(os.path.basename(path), pieces):
        return True
    hint = traces.build_byte_hints(pieces)
    try:
        kept = b""
        for block in _blocks(path):
            kept += block
            if _may_hold(kept, hint) and any(
                traces.has_any_piece(text, pieces) for text in traces.decode_variants(kept)
            ):
                return True
            kept = kept[-_OVERLAP:]
    except OSError:
        return False
    return False


def _blocks(path: str) -> Iterator[bytes]:
    """What stands there, a few megabytes at a time."""
    if database.split_session_path(path):
        yield from (line.text for line in database.read_messages(path))
        return
    with open(path, "rb", opener=paths.open_plain_file) as file:
        while block := file.read(_CHUNK):
            yield block


def _may_hold(data: bytes, hint: Sequence[bytes]) -> bool:
    """A word of the text stands there in some way; in UTF-16 every letter has a zero beside it."""
    low = data.lower()
    return not hint or any(word in low for word in hint) or (b"\0" in low and _in_pairs(low, hint))


def _in_pairs(low: bytes, hint: Sequence[bytes]) -> bool:
    return any(b"\0".join(word[at : at + 1] for at in range(len(word))) in low for word in hint)


def find_matching_lines(path: str, pieces: Sequence[traces.SearchPiece]) -> list[int]:
    """The numbers of the lines that hold a piece; [0] if it stands across lines."""
    with open(path, encoding="utf-8", errors="replace", opener=paths.open_plain_file) as file:
        found = [number for number, line in enumerate(file, 1) if traces.has_any_piece(line, pieces)]
    return found or [0]


def remove_lines(path: str, is_gone: Callable[[str], bool], *, dry_run: bool) -> int:
    """Leave out the lines that are to go, or count them."""
    with open(path, encoding="utf-8", errors="replace", newline="", opener=paths.open_plain_file) as file:
        listed = file.readlines()
    kept = [line for line in listed if not is_gone(line)]
    if len(kept) < len(listed) and not dry_run:
        paths.write_private(path, "".join(kept).encode("utf-8", "replace"))
    return len(listed) - len(kept)
