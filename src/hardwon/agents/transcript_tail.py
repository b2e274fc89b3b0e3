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
_FINGERPRINT_BYTES = 1024

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
        and position.print == _compute_fingerprint(file, position.offset)
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
        yield [(1, document)], _finish_position(stat, _move_position(file, position, stat.st_size, 1))
        return
    file.seek(position.offset)
    pending = b""
    while block := file.read(PORTION_BYTES):
        pending += block
        line_end = pending.rfind(b"\n") + 1
        if line_end:
            lines, position = _number_lines(pending[:line_end], file, replace(position, size=-1))
            pending = pending[line_end:]
            if not pending and position.offset >= stat.st_size:
                yield lines, _finish_position(stat, position)
                return
            yield lines, position
        elif len(pending) > MAX_LINE_BYTES:
            if not _skip_line(file):
                break
            position = _move_position(file, replace(position, size=-1, unended=False), file.tell(), position.line + 1)
            yield [(position.line, pending[:_FINGERPRINT_BYTES])], position
            pending = b""
    if pending.strip() and len(pending) <= MAX_LINE_BYTES and _is_json(pending):
        number = position.line + (not position.unended)
        position = _move_position(file, replace(position, unended=True), position.offset + len(pending), number)
        yield [(number, pending)], _finish_position(stat, position)
    else:
        yield [], _finish_position(stat, position)


def _finish_position(stat: os.stat_result, position: ReadPosition) -> ReadPosition:
    return replace(position, size=stat.st_size, modified=stat.st_mtime_ns)


def _skip_line(file: BinaryIO) -> bool:
    """Go behind the end of the line that nobody reads; False if it has none yet."""
    while block := file.read(PORTION_BYTES):
        line_end = block.find(b"\n") + 1
        if line_end:
            file.seek(line_end - len(block), os.SEEK_CUR)
            return True
    return False


def _number_lines(text: bytes, file: BinaryIO, position: ReadPosition) -> tuple[NumberedLines, ReadPosition]:
    """The lines of a text that ends with one, counted on from the mark."""
    offset, line = position.offset + len(text), position.line
    if position.unended:
        rest, _, others = text.partition(b"\n")
        if rest.strip():
            line -= 1  # it goes on in the line that was read before
        else:
            text = others
    lines = list(enumerate(text.split(b"\n")[:-1], line + 1))
    return lines, _move_position(file, replace(position, unended=False), offset, line + len(lines))


def _move_position(file: BinaryIO, position: ReadPosition, offset: int, line: int) -> ReadPosition:
    return replace(position, offset=offset, line=line, print=_compute_fingerprint(file, offset))


def _compute_fingerprint(file: BinaryIO, offset: int) -> str:
    """The first bytes of a file and those before the offset, as a hash."""
    descriptor = file.fileno()
    head = os.pread(descriptor, min(_FINGERPRINT_BYTES, offset), 0)
    start = max(offset - _FINGERPRINT_BYTES, 0)
    return blake2b(head + os.pread(descriptor, offset - start, start), digest_size=16).hexdigest()


def _is_json(line: bytes) -> bool:
    try:
        orjson.loads(line)
    except ValueError:
        return False
    return True
