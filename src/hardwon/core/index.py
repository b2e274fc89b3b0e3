"""The compiled manifest that both the worker and the cold hook read.

A call must not pay for lessons it has nothing to do with. So the file has a small head, read whole, that leads from
four-byte pieces of the literals in the patterns to lesson numbers, and a body from which only the lessons asked
about are decoded. Numbers are in the order of asking: blocks first, then by priority, so that a guard is tried even
when time runs out behind it.
"""

from __future__ import annotations

import marshal
import sys
from itertools import accumulate

from hardwon.core.fold import fold
from hardwon.words import Entry, Pattern

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

FORMAT = b"hardwon-index-1\n"
_LONG, _SHORT = 4, 2
_WIDEST_SHORT = 0xFFFF
_FEW = 300


class Index:
    """An opened index file: owns its bytes, and what was decoded from them."""

    def __init__(self, content: bytes) -> None:
        if not content.startswith(FORMAT):
            raise ValueError("not an index of this version")
        start = len(FORMAT) + 8
        size = int.from_bytes(content[len(FORMAT) : start], "big")
        head = marshal.loads(content[start : start + size])
        self.settings: Mapping[str, Any] = head["settings"]
        self.sources: Sequence[Any] = head["sources"]
        self.starts: Sequence[int] = head["starts"]
        self._pieces: Mapping[int, Sequence[int]] = head["pieces"]
        self._has_short: bool = head["has_short"]
        self._always: Mapping[str, Sequence[int]] = head["always"]
        self._offsets = memoryview(head["offsets"]).cast("Q")
        self._body = memoryview(content)[start + size :]
        self._entries: dict[int, Entry] = {}

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def entry(self, number: int) -> Entry:
        found = self._entries.get(number)
        if found is None:
            packed = self._body[self._offsets[number] : self._offsets[number + 1]]
            found = self._entries[number] = _unpack(number, marshal.loads(packed))
        return found

    def candidates(self, tool: str, texts: Iterable[str]) -> list[int]:
        """The numbers of all lessons that could match, in the order of asking."""
        found = set(self._always.get(tool, ()))
        for text in texts:
            for piece in self._pieces_in(fold(text).encode("utf-8", "surrogatepass")):
                found.update(self._pieces[piece])
        return sorted(found)

    def _pieces_in(self, data: bytes) -> Iterable[int]:
        """Which of our pieces occur: few are looked for one by one, many by taking the text to pieces."""
        if len(self._pieces) < _FEW:
            return [piece for piece in self._pieces if _spelled(piece) in data]
        widths = (_LONG, _SHORT) if self._has_short else (_LONG,)
        return _pieces_of(data, widths) & self._pieces.keys()


def build(
    entries: Sequence[Entry],
    literals: Sequence[Iterable[str] | None],
    *,
    settings: Mapping[str, Any],
    sources: Sequence[Any],
) -> bytes:
    """The bytes of an index; `literals` are those of which one must occur for the entry to match, None: unknown."""
    body = [marshal.dumps(_pack(entry)) for entry in entries]
    ends = accumulate((len(packed) for packed in body), initial=0)
    pieces, always = _lead(entries, literals)
    head = marshal.dumps(
        {
            "settings": dict(settings),
            "sources": list(sources),
            "starts": [entry.number for entry in entries if entry.delivery == "start"],
            "pieces": pieces,
            "has_short": any(piece <= _WIDEST_SHORT for piece in pieces),
            "always": always,
            "offsets": b"".join(end.to_bytes(8, sys.byteorder) for end in ends),
        }
    )
    return b"".join([FORMAT, len(head).to_bytes(8, "big"), head, *body])


def _lead(
    entries: Sequence[Entry], literals: Sequence[Iterable[str] | None]
) -> tuple[dict[int, list[int]], dict[str, list[int]]]:
    crowd: dict[int, int] = {}
    for words in literals:
        for piece in {piece for literal in words or () for piece in _pieces_of(literal.encode())}:
            crowd[piece] = crowd.get(piece, 0) + 1
    pieces: dict[int, list[int]] = {}
    always: dict[str, list[int]] = {}
    for entry, words in zip(entries, literals, strict=True):
        if entry.delivery == "start":
            continue
        if words is None:
            for tool in entry.tools:
                always.setdefault(tool, []).append(entry.number)
            continue
        # The piece that fewest lessons share leads to this one, so that `git` does not lead to all of them.
        for literal in words:
            rarest = min(_pieces_of(literal.encode()), key=lambda piece: (crowd[piece], piece <= _WIDEST_SHORT, piece))
            pieces.setdefault(rarest, []).append(entry.number)
    return pieces, always


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


_PATTERNS = ("commands", "paths", "absolute_paths", "contents", "unless")


def _pack(entry: Entry) -> dict[str, Any]:
    packed = dict(entry.__dict__)
    del packed["number"]
    for name in _PATTERNS:
        packed[name] = tuple((pattern.source, pattern.flags) for pattern in packed[name])
    return packed


def _unpack(number: int, packed: dict[str, Any]) -> Entry:
    for name in _PATTERNS:
        packed[name] = tuple(Pattern(*pair) for pair in packed[name])
    return Entry(number=number, **packed)
