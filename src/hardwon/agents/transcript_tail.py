"""Reading what was added to a transcript since the last time.

A file is the same as before if its inode is, it has not become shorter, and the bytes at its head and before the mark
are what they were; else it was rewritten or rotated and is read from the beginning, which is safe because every step
has an id. A line without an end may still be in the writing: it is taken only once it is whole JSON.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from hashlib import blake2b
from typing import BinaryIO

import orjson

from hardwon.types import ReadPosition, replace

PORTION_BYTES = 4 * 1024 * 1024
MAX_LINE_BYTES = 64 * 1024 * 1024
MAX_DOCUMENT_BYTES = 256 * 1024 * 1024
_PRINTED = 1024

NumberedLines = list[tuple[int, bytes]]


def is_unchanged(stat: os.stat_result, position: ReadPosition) -> bool:
    """Whether nothing tells that the file was touched since the mark."""
    return (stat.st_ino, stat.st_size, stat.st_mtime_ns) == (position.inode, position.size, position.modified)


def resume_position(file: BinaryIO, position: ReadPosition | None) -> ReadPosition:
    """The mark if it holds for this file, else one at its beginning."""
    stat = os.fstat(file.fileno())
    if (
        position
        and position.inode == stat.st_ino
        and position.offset <= stat.st_size
        and position.print == _print(file, position.offset)
    ):
        return position
    return ReadPosition(inode=stat.st_ino)


def read_portions(
    file: BinaryIO, position: ReadPosition, *, is_single_document: bool
) -> Iterator[tuple[NumberedLines, ReadPosition]]:
    """The lines behind the mark, a few megabytes at a time, each time with the mark behind them.

    Only the last mark has the file's size, so that a file that was read in part counts as changed. A document that is
    `is_single_document` is one line, however many it has.
    """
    stat = os.fstat(file.fileno())
    if is_single_document:
        file.seek(0)
        document = file.read(MAX_DOCUMENT_BYTES) if stat.st_size <= MAX_DOCUMENT_BYTES else b"too large"
        yield [(1, document)], _ended(stat, _moved(file, position, stat.st_size, 1))
        return
    file.seek(position.offset)
    kept = b""
    while block := file.read(PORTION_BYTES):
        kept += block
        cut = kept.rfind(b"\n") + 1
        if cut:
            lines, position = _numbered(kept[:cut], file, replace(position, size=-1))
            kept = kept[cut:]
            if not kept and position.offset >= stat.st_size:
                yield lines, _ended(stat, position)
                return
            yield lines, position
        elif len(kept) > MAX_LINE_BYTES:
            if not _skip_line(file):
                break
            position = _moved(file, replace(position, size=-1, unended=False), file.tell(), position.line + 1)
            yield [(position.line, kept[:_PRINTED])], position
            kept = b""
    if kept.strip() and len(kept) <= MAX_LINE_BYTES and _is_json(kept):
        number = position.line + (not position.unended)
        position = _moved(file, replace(position, unended=True), position.offset + len(kept), number)
        yield [(number, kept)], _ended(stat, position)
    else:
        yield [], _ended(stat, position)


def _ended(stat: os.stat_result, mark: ReadPosition) -> ReadPosition:
    return replace(mark, size=stat.st_size, modified=stat.st_mtime_ns)


def _skip_line(file: BinaryIO) -> bool:
    """Go behind the end of the line that nobody reads; False if it has none yet."""
    while block := file.read(PORTION_BYTES):
        place = block.find(b"\n") + 1
        if place:
            file.seek(place - len(block), os.SEEK_CUR)
            return True
    return False


def _numbered(text: bytes, file: BinaryIO, mark: ReadPosition) -> tuple[NumberedLines, ReadPosition]:
    """The lines of a text that ends with one, counted on from the mark."""
    offset, line = mark.offset + len(text), mark.line
    if mark.unended:
        rest, _, others = text.partition(b"\n")
        if rest.strip():
            line -= 1  # it goes on in the line that was read before
        else:
            text = others
    lines = list(enumerate(text.split(b"\n")[:-1], line + 1))
    return lines, _moved(file, replace(mark, unended=False), offset, line + len(lines))


def _moved(file: BinaryIO, mark: ReadPosition, offset: int, line: int) -> ReadPosition:
    return replace(mark, offset=offset, line=line, print=_print(file, offset))


def _print(file: BinaryIO, offset: int) -> str:
    """The first bytes of a file and those before the offset, as a hash."""
    number = file.fileno()
    head = os.pread(number, min(_PRINTED, offset), 0)
    start = max(offset - _PRINTED, 0)
    return blake2b(head + os.pread(number, offset - start, start), digest_size=16).hexdigest()


def _is_json(line: bytes) -> bool:
    try:
        orjson.loads(line)
    except ValueError:
        return False
    return True
