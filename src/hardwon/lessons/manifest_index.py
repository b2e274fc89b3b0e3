"""The compiled manifest that both the worker and the cold hook read.

A call must not pay for lessons it has nothing to do with. So the file has a small head that leads from four-byte
pieces of the literals in the patterns to lesson numbers, by tables that are searched where they lie, and a body from
which only the lessons asked about are read. Numbers are in the order of asking: blocks first, then by priority, so that
a guard is tried even when time runs out behind it.
"""

from __future__ import annotations

import marshal
import os
import sys
from bisect import bisect_left
from itertools import accumulate

from hardwon.text.case_folding import fold_case
from hardwon.types import Glob, ManifestEntry, Pattern

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    # For each of an entry's patterns, of which one must match, the sets of literals that it demands: of every set one.
    RequiredLiterals = Sequence[Sequence[Iterable[str]]]

INDEX_FORMAT = b"hardwon-index-2\n"
_START = len(INDEX_FORMAT) + 8
_LONG, _SHORT = 4, 2
_WIDEST_SHORT = 0xFFFF
_FEW = 300


class ManifestIndex:
    """An opened index file; ValueError if it is not one."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_RDONLY)
        opening = os.pread(self._file, _START, 0)
        if not opening.startswith(INDEX_FORMAT):
            raise ValueError("not an index of this version")
        size = int.from_bytes(opening[len(INDEX_FORMAT) :], "big")
        try:
            head = marshal.loads(os.pread(self._file, size, _START))
            self.settings: Mapping[str, Any] = head["settings"]
            self.source_stats: Sequence[Any] = head["sources"]
            self.start_numbers: Sequence[int] = head["starts"]
            self.waiting_count: int = head.get("waiting", 0)  # changes to lessons.json that nobody has approved
            self._always: Mapping[str, Sequence[int]] = head["always"]
            self._pieces, self._ends, self._numbers = (_table(head[name]) for name in ("pieces", "ends", "numbers"))
            self._offsets = _table(head["offsets"])
        except (EOFError, KeyError, TypeError, OSError, OverflowError, MemoryError, IndexError) as broken:
            raise ValueError(f"a broken index: {broken}") from None
        self._body = _START + size
        if os.fstat(self._file).st_size != self._body + self._offsets[-1]:
            raise ValueError("an index that was cut off")
        self._has_short = len(self._pieces) > 0 and self._pieces[0] <= _WIDEST_SHORT
        self._entries: dict[int, ManifestEntry] = {}

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            os.close(self._file)

    def __bool__(self) -> bool:
        """One without lessons is an index all the same: its settings count."""
        return True

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def read_entry(self, number: int) -> ManifestEntry:
        found = self._entries.get(number)
        if found is None:
            start, end = self._offsets[number], self._offsets[number + 1]
            packed = marshal.loads(os.pread(self._file, end - start, self._body + start))
            found = self._entries[number] = _unpack(number, packed)
        return found

    def find_possible_matches(self, tool: str, texts: Iterable[str]) -> list[int]:
        """The numbers of all lessons that could match, in the order of asking."""
        found = set(self._always.get(tool, ()))
        for text in texts:
            for place in self._places_in(fold_case(text).encode("utf-8", "surrogatepass")):
                found.update(self._numbers[self._ends[place] : self._ends[place + 1]])
        return sorted(found)

    def _places_in(self, text: bytes) -> list[int]:
        """Where in our table the pieces stand that occur in the text: a few are looked for one by one in the text,
        many are found by taking the text to pieces."""
        if len(self._pieces) < _FEW:
            return [place for place, piece in enumerate(self._pieces) if _spelled(piece) in text]
        pieces = _pieces_of(text, (_LONG, _SHORT) if self._has_short else (_LONG,))
        if len(pieces) > len(self._pieces):
            return [place for place, piece in enumerate(self._pieces) if piece in pieces]
        places = ((bisect_left(self._pieces, piece), piece) for piece in pieces)
        return [place for place, piece in places if place < len(self._pieces) and self._pieces[place] == piece]


def build(
    entries: Sequence[ManifestEntry],
    demands: Sequence[RequiredLiterals | None],
    *,
    settings: Mapping[str, Any],
    source_stats: Sequence[Any],
    waiting_count: int = 0,
) -> bytes:
    """The bytes of an index; `demands` say what a call must hold for the entry to match, None: nothing certain."""
    body = [marshal.dumps(_pack(entry)) for entry in entries]
    pieces, always = _lead(entries, demands)
    ordered = sorted(pieces)
    head = marshal.dumps(
        {
            "settings": dict(settings),
            "sources": list(source_stats),
            "waiting": waiting_count,
            "starts": [entry.number for entry in entries if entry.delivery == "start"],
            "always": always,
            "pieces": _bytes(ordered),
            "ends": _bytes(accumulate((len(pieces[piece]) for piece in ordered), initial=0)),
            "numbers": _bytes(number for piece in ordered for number in pieces[piece]),
            "offsets": _bytes(accumulate(map(len, body), initial=0)),
        }
    )
    return b"".join([INDEX_FORMAT, len(head).to_bytes(8, "big"), head, *body])


def _bytes(numbers: Iterable[int]) -> bytes:
    return b"".join(number.to_bytes(8, sys.byteorder) for number in numbers)


def _table(content: bytes) -> memoryview[int]:
    return memoryview(content).cast("Q")


def _lead(
    entries: Sequence[ManifestEntry], demands: Sequence[RequiredLiterals | None]
) -> tuple[dict[int, list[int]], dict[str, list[int]]]:
    crowd: dict[int, int] = {}
    for needed in demands:
        for piece in {piece for ways in needed or () for words in ways for piece in _pieces_of_all(words)}:
            crowd[piece] = crowd.get(piece, 0) + 1
    pieces: dict[int, list[int]] = {}
    always: dict[str, list[int]] = {}
    for entry, needed in zip(entries, demands, strict=True):
        if entry.delivery == "start":
            continue
        if needed is None:
            for tool in entry.tools:
                always.setdefault(tool, []).append(entry.number)
            continue
        for piece in {piece for ways in needed for piece in _leading(ways, crowd)}:
            pieces.setdefault(piece, []).append(entry.number)
    return pieces, always


def _leading(ways: Sequence[Iterable[str]], crowd: Mapping[int, int]) -> list[int]:
    """The pieces that lead to a pattern: those that fewest lessons share, so that `git` does not lead to all."""

    def rarest(literal: str) -> int:
        pieces = _pieces_of(literal.encode())
        return min(pieces, key=lambda piece: (crowd[piece], piece <= _WIDEST_SHORT, piece))

    choices = [[rarest(literal) for literal in words] for words in ways]
    return min(choices, key=lambda pieces: (max(crowd[piece] for piece in pieces), len(pieces)))


def _pieces_of_all(literals: Iterable[str]) -> set[int]:
    return {piece for literal in literals for piece in _pieces_of(literal.encode())}


def _spelled(piece: int) -> bytes:
    return piece.to_bytes(_SHORT if piece <= _WIDEST_SHORT else _LONG, sys.byteorder)


def _pieces_of(text: bytes, widths: Sequence[int] = (_LONG, _SHORT)) -> set[int]:
    """Every run of four bytes as a number, and of two, for literals as short as `rm`.

    Casting a memory view does in C what slicing would do a letter at a time: 5 MB in 0.3 s instead of 3 s.
    """
    data = memoryview(text)
    found: set[int] = set()
    for width in widths:
        for shift in range(min(width, len(data))):
            whole = (len(data) - shift) // width * width
            found.update(data[shift : shift + whole].cast("I" if width == _LONG else "H"))
    return found


_PATTERNS = ("commands", "path_regexes", "contents", "unless")


def _pack(entry: ManifestEntry) -> dict[str, Any]:
    packed = dict(entry.__dict__)
    del packed["number"]
    for name in _PATTERNS:
        packed[name] = tuple((pattern.source, pattern.flags) for pattern in packed[name])
    packed["globs"] = tuple(tuple(glob.__dict__.values()) for glob in entry.globs)
    return packed


def _unpack(number: int, packed: dict[str, Any]) -> ManifestEntry:
    for name in _PATTERNS:
        packed[name] = tuple(Pattern(*pair) for pair in packed[name])
    packed["globs"] = tuple(Glob(*values) for values in packed["globs"])
    return ManifestEntry(number=number, **packed)
