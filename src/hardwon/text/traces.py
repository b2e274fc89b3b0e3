"""Whether a text stands somewhere, however it is spelled there.

Capitals, blanks, signs and the escapes of JSON do not count, since a text is stored in slugs, signatures and strings
inside strings. Neither do a few characters at its ends or a quarter of a long one, since long text is cut.
An id or a path nobody cuts, and a longer one that begins or ends with it is another.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from hardwon.text.case_folding import fold_case

MIN_SEARCH_LENGTH = 4  # letters and digits in a text that can be looked for
_MIN_LINE_LENGTH = 16  # of a text of several lines each is looked for that has so many characters
_MIN_TRIMMED_LENGTH, _LONG_TEXT_LENGTH = 12, 24
_ESCAPE = re.compile(r"\\+(?:u([0-9a-fA-F]{4})|[nrtbf])")
_PUNCTUATION = re.compile(r"[\W_]+")


class ExactPiece(NamedTuple):
    """An id or a path as it is spelled, and the expression that finds it where it stands alone."""

    id: str
    pattern: re.Pattern[str]


SearchPiece = str | ExactPiece


def normalize_for_search(text: str) -> str:
    """The text as it is compared: words in lower case with one blank between them."""
    return _PUNCTUATION.sub(" ", fold_case(_unescape_text(text)))


def _unescape_text(text: str) -> str:
    if "\\" not in text:
        return text
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)) if match[1] else " ", text)


def split_into_pieces(text: str) -> tuple[str, ...]:
    """What is looked for, so that whatever holds one of these holds the text or most of it; nothing if it is too short.

    Of several lines each of some length is looked for by itself: tools store texts line by line.
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
    if len(text) >= _LONG_TEXT_LENGTH:
        quarter = len(text) // 4
        return [text[quarter:].strip(), text[:-quarter].strip()]
    return [text[2:-2].strip() if len(text) >= _MIN_TRIMMED_LENGTH else text]


def build_exact_pieces(exact_text: str) -> tuple[ExactPiece, ...]:
    """What is looked for where an id or a path is meant. Of a path also what is below it, and how Claude Code names
    the folder of its transcripts."""
    if not exact_text.startswith("/"):
        return (_build_exact_piece(exact_text, r"(?![\w-])"),)
    return tuple(
        _build_exact_piece(spelling, r"(?![\w-]|\.\w)")
        for spelling in (exact_text, re.sub(r"[^a-zA-Z0-9]", "-", exact_text))
    )


def _build_exact_piece(exact_text: str, lookahead: str) -> ExactPiece:
    return ExactPiece(exact_text, re.compile(rf"(?<![\w.-]){re.escape(exact_text)}{lookahead}"))


def has_any_piece(text: str, pieces: Sequence[SearchPiece]) -> bool:
    searched_text = (
        normalize_for_search(text) if any(isinstance(piece, str) for piece in pieces) else _unescape_text(text)
    )
    return any(
        piece in searched_text if isinstance(piece, str) else bool(piece.pattern.search(searched_text))
        for piece in pieces
    )


def build_byte_hints(pieces: Sequence[SearchPiece]) -> tuple[bytes, ...]:
    """Bytes of which some are in every file that holds the text, so that most files need not be looked through.

    None if a piece has no word of ASCII: then every file has to be.
    """
    hints = []
    for piece in pieces:
        words = [
            word
            for word in normalize_for_search(piece if isinstance(piece, str) else piece.id).split()
            if word.isascii()
        ]
        longest = max(words, key=len, default="")
        if len(longest) < 3:
            return ()
        hints.append(longest.encode())
    return tuple(hints)


def decode_variants(data: bytes) -> Iterable[str]:
    """What bytes may mean."""
    yield data.decode("utf-8", "replace")
    if b"\0" in data:
        for start in (0, 1):
            for encoding in ("utf-16-le", "utf-16-be"):
                yield data[start:].decode(encoding, "replace")
