"""Build and read the index file of compiled lessons that the worker and the fallback use.

A call should not pay for unrelated lessons. So the file has a small head with tables, searched in place, that map
four-byte pieces of the patterns' literals to lesson numbers, and a body from which only the lessons in question are
read. Lessons are numbered in the order they are tried: blocks first, then by priority, so that guards are tried even if
time runs out for the others.

The file is the format's name, the size of the head in eight bytes, the head, and the lessons one after the other. In
the head, `numbers[ends[i]:ends[i + 1]]` are the lessons of `pieces[i]`, and lesson i is the bytes from `offsets[i]` to
`offsets[i + 1]` of the body.
"""

from __future__ import annotations

import marshal
import os
import sys
from bisect import bisect_left
from itertools import accumulate, chain

from hardwon import paths
from hardwon.text.characters import fold_case
from hardwon.types import Glob, ManifestEntry, Pattern

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    # One item per alternative pattern: the sets of literals of which a match contains at least one each.
    RequiredLiterals = Sequence[Sequence[Iterable[str]]]

_INDEX_FORMAT = b"hardwon-index-3\n"  # change the number to make every process rebuild the index
_HEAD_OFFSET = len(_INDEX_FORMAT) + 8
# Bytes of a piece. With pieces of four, a cold hook costs the same with 100 lessons and with 10,000.
_LONG_WIDTH, _SHORT_WIDTH = 4, 2
_MAX_SHORT_PIECE = 0xFFFF
_FEW_PIECES = 300  # up to this many, searching each piece is faster than splitting the text


class ManifestIndex:
    """An open index file; ValueError if it is invalid."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_RDONLY)
        header = os.pread(self._file, _HEAD_OFFSET, 0)
        if not header.startswith(_INDEX_FORMAT):
            raise ValueError("not an index of this version")
        size = int.from_bytes(header[len(_INDEX_FORMAT) :], "big")
        try:
            head = marshal.loads(os.pread(self._file, size, _HEAD_OFFSET))
            self.settings: Mapping[str, Any] = head["settings"]
            self.source_stats: Sequence[Any] = head["sources"]
            self.start_numbers: Sequence[int] = head["starts"]
            self.waiting_count: int = head.get("waiting", 0)  # unapproved changes to lessons.json
            self.secret: str = head.get("secret", "")  # draws the sessions in which measured lessons stay silent
            self._always_tried: Mapping[str, Sequence[int]] = head["always"]
            self._pieces = _unpack_numbers(head["pieces"])
            self._ends = _unpack_numbers(head["ends"])
            self._numbers = _unpack_numbers(head["numbers"])
            self._offsets = _unpack_numbers(head["offsets"])
        except (EOFError, KeyError, TypeError, OSError, OverflowError, MemoryError, IndexError) as error:
            raise ValueError(f"a broken index: {error}") from None
        self._body_offset = _HEAD_OFFSET + size
        # A full disk leaves a truncated file, whose lessons would be read as garbage.
        if os.fstat(self._file).st_size != self._body_offset + self._offsets[-1]:
            raise ValueError("an index that was cut off")
        self._has_short = len(self._pieces) > 0 and self._pieces[0] <= _MAX_SHORT_PIECE
        self._entries: dict[int, ManifestEntry] = {}  # those read so far

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            os.close(self._file)

    def __bool__(self) -> bool:
        """Return True even without lessons, because the settings in the index still count."""
        return True

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def read_entry(self, number: int) -> ManifestEntry:
        """Return the lesson with this number; a hook reads only the few lessons that could match."""
        entry = self._entries.get(number)
        if entry is None:
            start = self._offsets[number]
            end = self._offsets[number + 1]
            packed = marshal.loads(os.pread(self._file, end - start, self._body_offset + start))
            entry = self._entries[number] = _unpack_entry(number, packed)
        return entry

    def read_all_entries(self) -> Iterator[ManifestEntry]:
        """Yield every lesson, in the order they are tried."""
        return map(self.read_entry, range(len(self)))

    def find_possible_matches(self, tool: str, texts: Iterable[str]) -> list[int]:
        """Return the numbers of all lessons that could match, in the order they are tried."""
        numbers = set(self._always_tried.get(tool, ()))  # lessons that can match without a literal
        for text in texts:
            folded_bytes = fold_case(text).encode("utf-8", "surrogatepass")
            for piece_index in self._find_piece_indexes(folded_bytes):
                # The lessons of a piece are stored between the end of the piece before and its own.
                start = self._ends[piece_index]
                end = self._ends[piece_index + 1]
                numbers.update(self._numbers[start:end])
        return sorted(numbers)

    def _find_piece_indexes(self, text: bytes) -> list[int]:
        """Return the indexes, in the table of all lessons' pieces, of those that occur in the text.

        A few pieces are searched one by one; for many the text is split into pieces, and the larger of the two sets of
        pieces is looked up for each of the smaller.
        """
        if len(self._pieces) < _FEW_PIECES:
            return [piece_index for piece_index, piece in enumerate(self._pieces) if _encode_piece(piece) in text]
        widths = (_LONG_WIDTH, _SHORT_WIDTH) if self._has_short else (_LONG_WIDTH,)
        text_pieces = _split_into_pieces(text, widths)
        if len(text_pieces) > len(self._pieces):
            return [piece_index for piece_index, piece in enumerate(self._pieces) if piece in text_pieces]
        piece_indexes = []
        for piece in text_pieces:
            piece_index = bisect_left(self._pieces, piece)  # our pieces are sorted
            if piece_index < len(self._pieces) and self._pieces[piece_index] == piece:
                piece_indexes.append(piece_index)
        return piece_indexes


def open_index(home: str) -> ManifestIndex:
    """Open the compiled manifest; FileNotFoundError if it is missing, ValueError if it is invalid."""
    return ManifestIndex(os.path.join(home, paths.LESSON_INDEX))


def build(
    entries: Sequence[ManifestEntry],
    literals_by_entry: Sequence[RequiredLiterals | None],
    *,
    settings: Mapping[str, Any],
    source_stats: Sequence[Any],
    waiting_count: int = 0,
    secret: str = "",
) -> bytes:
    """Build the bytes of an index.

    `literals_by_entry` has the literals required to match each entry, None if it can match without any.
    """
    bodies = [marshal.dumps(_pack_entry(entry)) for entry in entries]
    lessons_by_piece, always_tried = _build_piece_tables(entries, literals_by_entry)
    sorted_pieces = sorted(lessons_by_piece)
    lesson_lists = [lessons_by_piece[piece] for piece in sorted_pieces]
    head = marshal.dumps(
        {
            "settings": dict(settings),
            "sources": list(source_stats),
            "waiting": waiting_count,
            "secret": secret,
            "starts": [entry.number for entry in entries if entry.delivery == "start"],
            "always": always_tried,
            "pieces": _pack_numbers(sorted_pieces),
            "ends": _pack_numbers(accumulate(map(len, lesson_lists), initial=0)),
            "numbers": _pack_numbers(chain.from_iterable(lesson_lists)),
            "offsets": _pack_numbers(accumulate(map(len, bodies), initial=0)),
        }
    )
    return b"".join([_INDEX_FORMAT, len(head).to_bytes(8, "big"), head, *bodies])


def _pack_numbers(numbers: Iterable[int]) -> bytes:
    """Return a table in which each number has eight bytes, so that a memory view can search it in place."""
    return b"".join(number.to_bytes(8, sys.byteorder) for number in numbers)


def _unpack_numbers(content: bytes) -> memoryview[int]:
    return memoryview(content).cast("Q")


def _build_piece_tables(
    entries: Sequence[ManifestEntry], literals_by_entry: Sequence[RequiredLiterals | None]
) -> tuple[dict[int, list[int]], dict[str, list[int]]]:
    """Return the numbers of the lessons that each piece leads to, and by tool of those that are always tried."""
    piece_counts: dict[int, int] = {}  # how many lessons have each piece
    for alternatives in literals_by_entry:
        lesson_pieces: set[int] = set()
        for literal_sets in alternatives or ():
            for literals in literal_sets:
                for literal in literals:
                    lesson_pieces |= _split_into_pieces(literal.encode())
        for piece in lesson_pieces:
            piece_counts[piece] = piece_counts.get(piece, 0) + 1
    lessons_by_piece: dict[int, list[int]] = {}
    always_tried: dict[str, list[int]] = {}
    for entry, alternatives in zip(entries, literals_by_entry, strict=True):
        if entry.delivery == "start":
            continue  # it is told at session starts and matches no call
        if alternatives is None:
            for tool in entry.tools:
                always_tried.setdefault(tool, []).append(entry.number)
            continue
        leading_pieces: set[int] = set()
        for literal_sets in alternatives:
            leading_pieces.update(_choose_leading_pieces(literal_sets, piece_counts))
        for piece in leading_pieces:
            lessons_by_piece.setdefault(piece, []).append(entry.number)
    return lessons_by_piece, always_tried


def _choose_leading_pieces(literal_sets: Sequence[Iterable[str]], piece_counts: Mapping[int, int]) -> list[int]:
    """Return the pieces that lead to a pattern: those that fewest lessons share, so that `git` does not lead to all."""

    def find_rarest_piece(literal: str) -> int:
        pieces = _split_into_pieces(literal.encode())
        # Among equally rare ones a long piece is better than a short one; the last part makes the choice repeatable.
        return min(pieces, key=lambda piece: (piece_counts[piece], piece <= _MAX_SHORT_PIECE, piece))

    def rate_choice(pieces: list[int]) -> tuple[int, int]:
        most_lessons = max(piece_counts[piece] for piece in pieces)
        return most_lessons, len(pieces)

    # A match contains one literal of each set, so the pieces of a single set find it.
    choices = []
    for literals in literal_sets:
        choices.append([find_rarest_piece(literal) for literal in literals])
    return min(choices, key=rate_choice)


def _encode_piece(piece: int) -> bytes:
    return piece.to_bytes(_SHORT_WIDTH if piece <= _MAX_SHORT_PIECE else _LONG_WIDTH, sys.byteorder)


def _split_into_pieces(text: bytes, widths: Sequence[int] = (_LONG_WIDTH, _SHORT_WIDTH)) -> set[int]:
    """Return every run of four bytes as a number, and of two for literals as short as `rm`.

    Casting a memory view reads all runs that start at 0, 4, 8, ... in C, so four casts read all runs. 5 MB take 0.3 s,
    where slicing takes 3 s.
    """
    data = memoryview(text)
    pieces: set[int] = set()
    for width in widths:
        for shift in range(min(width, len(data))):
            length = (len(data) - shift) // width * width  # a cast needs whole numbers
            pieces.update(data[shift : shift + length].cast("I" if width == _LONG_WIDTH else "H"))
    return pieces


_PATTERN_FIELDS = ("commands", "path_regexes", "contents", "unless")


def _pack_entry(entry: ManifestEntry) -> dict[str, Any]:
    """Return an entry as the plain types that marshal writes; its number is its place in the file."""
    packed = dict(entry.__dict__)
    del packed["number"]
    for name in _PATTERN_FIELDS:
        packed[name] = tuple((pattern.source, pattern.flags) for pattern in packed[name])
    packed["globs"] = tuple(tuple(glob.__dict__.values()) for glob in entry.globs)
    return packed


def _unpack_entry(number: int, packed: dict[str, Any]) -> ManifestEntry:
    """Return the lesson with this number; `packed` has patterns and globs as plain tuples, as `marshal` stores them."""
    for name in _PATTERN_FIELDS:
        packed[name] = tuple(Pattern(*pair) for pair in packed[name])
    packed["globs"] = tuple(Glob(*values) for values in packed["globs"])
    return ManifestEntry(number=number, **packed)
