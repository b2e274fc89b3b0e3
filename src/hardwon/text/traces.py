"""Find a text that is to be purged, however it is spelled where it was stored.

Case, spaces, punctuation and JSON escapes are ignored, since a text is also stored in slugs, signatures and JSON inside
strings. A few characters at its ends, or a quarter of a long text, may be missing, since long text is cut. Ids and
paths are never cut, so they must match exactly; a longer one that begins or ends with them is a different one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from hardwon.text.characters import fold_case

MIN_SEARCH_LENGTH = 4  # letters and digits; a shorter text cannot be searched
_MIN_LINE_LENGTH = 16  # shorter lines of a text are not searched by themselves
_MIN_TRIMMED_LENGTH, _LONG_TEXT_LENGTH = 12, 24
_ESCAPE = re.compile(r"\\+(?:u([0-9a-fA-F]{4})|[nrtbf])")
_PUNCTUATION = re.compile(r"[\W_]+")


class ExactPiece(NamedTuple):
    """An id or a path, and the regex that matches it unless it is part of a longer one."""

    id: str
    pattern: re.Pattern[str]


SearchPiece = str | ExactPiece


def normalize_for_search(text: str) -> str:
    """Return the text in lower case, with one space for each run of punctuation and spaces."""
    return _PUNCTUATION.sub(" ", fold_case(_unescape_text(text)))


def _unescape_text(text: str) -> str:
    """Return the text with JSON escapes replaced: codes by their characters, other escapes by a space."""
    if "\\" not in text:
        return text
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)) if match[1] else " ", text)


def split_into_pieces(text: str) -> tuple[str, ...]:
    """Return the pieces to search for a text; () if it is too short to search.

    A stored text that contains one of the pieces has most of the original, or one of its longer lines: those are
    pieces by themselves, because tools store texts line by line.
    """
    normalized = normalize_for_search(text).strip()
    if sum(map(str.isalnum, normalized)) < MIN_SEARCH_LENGTH:
        return ()
    pieces = _cut_ends(normalized)
    lines = [normalize_for_search(line).strip() for line in text.splitlines()]
    if len(lines) > 1:
        pieces += [line for line in lines if len(line) >= _MIN_LINE_LENGTH]
    return tuple(dict.fromkeys(piece for piece in pieces if piece))


def _cut_ends(text: str) -> list[str]:
    """Return what of a text must be found: without either quarter of a long one, without two characters at each end."""
    if len(text) >= _LONG_TEXT_LENGTH:
        quarter = len(text) // 4
        return [text[quarter:].strip(), text[:-quarter].strip()]
    if len(text) >= _MIN_TRIMMED_LENGTH:
        return [text[2:-2].strip()]
    return [text]


def build_exact_pieces(exact_text: str) -> tuple[ExactPiece, ...]:
    """Return the pieces to search for an id or a path.

    A path also matches paths below it, and is also searched as Claude Code spells it in its transcript folders.
    """
    if not exact_text.startswith("/"):
        return (_build_exact_piece(exact_text, r"(?![\w-])"),)
    return tuple(
        _build_exact_piece(spelling, r"(?![\w-]|\.\w)")
        for spelling in (exact_text, re.sub(r"[^a-zA-Z0-9]", "-", exact_text))
    )


def _build_exact_piece(exact_text: str, lookahead: str) -> ExactPiece:
    """Return the piece of an id or a path; `lookahead` says what may not follow it, as part of a longer one."""
    return ExactPiece(exact_text, re.compile(rf"(?<![\w.-]){re.escape(exact_text)}{lookahead}"))


def has_any_piece(text: str, pieces: Sequence[SearchPiece]) -> bool:
    """Return whether a text contains one of the pieces, which are all texts or all exact."""
    exact_pieces = [piece for piece in pieces if isinstance(piece, ExactPiece)]
    if exact_pieces:
        unescaped_text = _unescape_text(text)
        return any(piece.pattern.search(unescaped_text) for piece in exact_pieces)
    normalized_text = normalize_for_search(text)
    return any(piece in normalized_text for piece in pieces if isinstance(piece, str))


def build_byte_hints(pieces: Sequence[SearchPiece]) -> tuple[bytes, ...]:
    """Return bytes of which every file with a piece contains at least one, so that most files can be skipped.

    Empty if a piece has no ASCII word of three letters; then every file must be searched.
    """
    hints = []
    for piece in pieces:
        piece_text = piece if isinstance(piece, str) else piece.id
        words = filter(str.isascii, normalize_for_search(piece_text).split())
        longest = max(words, key=len, default="")
        if len(longest) < 3:
            return ()
        hints.append(longest.encode())
    return tuple(hints)
