"""Embed texts as vectors with a static model in the package: a table of word pieces, looked up and added.

Nothing is downloaded and no network is run, so a text costs about 0.1 ms and the same text gives the same vector
everywhere. `scripts/distil_model.py` makes the table. NumPy is imported only when a model is loaded.
"""

from __future__ import annotations

import hashlib
import json
import os
import unicodedata
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import regex

from hardwon.search.matches import STEM_ENDINGS, stem_word

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

MODEL_VERSION = "minilm-l6-192-1"

_MODEL_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "model")
_MAX_CHARACTERS = 20_000  # the rest of a text is ignored
_MAX_PIECES = 1_024  # unpacked at once: under 1 MB, which stays in the CPU cache
_MAX_WORD_LENGTH = 100  # as in the upstream tokenizer: longer text is not a word
_MAX_CACHED_WORDS = 50_000

# Splits like the upstream tokenizer: each ideograph is a word, and so is the text between spaces and punctuation.
# Punctuation and symbols say little about the meaning of a text and have no row in the table.
_IDEOGRAPH = (
    r"\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002a6df\U0002a700-\U0002b73f\U0002b740-\U0002b81f"
    r"\U0002b820-\U0002ceaf\U0002f800-\U0002fa1f"
)
_WORD_PATTERN = regex.compile(rf"[{_IDEOGRAPH}]|[^\s\p{{P}}\p{{S}}\p{{Z}}\p{{Cc}}{_IDEOGRAPH}]+")
_INVISIBLE_PATTERN = regex.compile(r"[\p{Cc}\p{Cf}\p{Co}\p{Cs}\ufffd--\t\n\r]", regex.V1)
_PREFIX = regex.compile(r"^(?:un|re|non|pre|sub|mis|multi|over|under|auto|inter)(?=\w{4})")
_CASE_BOUNDARY = regex.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z]{2})(?=[A-Z][a-z])", regex.V1)


class ModelUnavailable(ValueError):
    """The model is missing or damaged; search uses words only."""


class Model:
    """The memory-mapped table of word pieces, and a cache of the words looked up so far."""

    def __init__(self, table: NDArray[numpy.int8], scales: NDArray[numpy.float32], vocabulary: Sequence[str]) -> None:
        self.dimensions = int(table.shape[1])
        self._table = table
        self._scales = scales
        self._row_by_piece = {piece: row for row, piece in enumerate(vocabulary)}
        self._max_piece_length = max(map(len, vocabulary))
        self._rows_by_word: dict[str, tuple[int, ...]] = {}

    def embed(self, texts: Sequence[str]) -> NDArray[numpy.float32]:
        """Return one unit vector per text; zeros for a text without a known word."""
        import numpy

        vectors = numpy.zeros((len(texts), self.dimensions), numpy.float32)
        for positions, starts, rows in self._iter_portions(texts):
            unpacked = self._table[rows] * self._scales[rows, None]
            sums = numpy.add.reduceat(unpacked, starts, axis=0)
            lengths = numpy.sqrt((sums * sums).sum(axis=1, keepdims=True))
            vectors[positions] = numpy.divide(sums, lengths, out=numpy.zeros_like(sums), where=lengths > 0)
        return vectors

    def has_word(self, word: str) -> bool:
        """Return whether the table has a word as a whole, perhaps with another ending or prefix.

        Of the words of a question it lacks names: `deno`, `goreleaser`.
        """
        stem = stem_word(word)
        if word in self._row_by_piece or any(stem + ending in self._row_by_piece for ending in STEM_ENDINGS):
            return True
        unprefixed = _PREFIX.sub("", word)
        return stem in self._row_by_piece or (unprefixed != word and self.has_word(unprefixed))

    def find_rows(self, text: str) -> list[int]:
        """Return the rows of the table for a text's words and pieces of words, in order."""
        rows: list[int] = []
        for word in _split_words(text[:_MAX_CHARACTERS]):
            word_rows = self._rows_by_word.get(word)
            if word_rows is None:
                if len(self._rows_by_word) >= _MAX_CACHED_WORDS:
                    self._rows_by_word.clear()
                word_rows = self._rows_by_word[word] = tuple(self._look_up_word(word))
            rows += word_rows
        return rows

    def _iter_portions(self, texts: Sequence[str]) -> Iterator[tuple[list[int], list[int], list[int]]]:
        """Yield batches small enough to unpack at once: positions of texts, where each begins, and their rows."""
        positions: list[int] = []
        starts: list[int] = []
        rows: list[int] = []
        for position, text in enumerate(texts):
            text_rows = self.find_rows(text)
            if not text_rows:
                continue
            if rows and len(rows) + len(text_rows) > _MAX_PIECES:
                yield positions, starts, rows
                positions, starts, rows = [], [], []
            positions.append(position)
            starts.append(len(rows))
            rows += text_rows
        if rows:
            yield positions, starts, rows

    def _look_up_word(self, word: str) -> Iterator[int]:
        """Yield the row of a word if the table has it, else those of the words in a name, else of their pieces."""
        plain = _fold_word(word)
        if plain in self._row_by_piece:
            yield self._row_by_piece[plain]
            return
        for part in _CASE_BOUNDARY.split(word):
            yield from self._split_pieces(_fold_word(part))

    def _split_pieces(self, word: str) -> list[int]:
        """Split a word into its longest pieces from the left; nothing if a part is not in the table, as upstream."""
        rows: list[int] = []
        start = 0
        while start < len(word) <= _MAX_WORD_LENGTH:
            prefix = "##" if start else ""
            for end in range(min(len(word), start + self._max_piece_length), start, -1):
                row = self._row_by_piece.get(prefix + word[start:end])
                if row is not None:
                    break
            else:
                return []
            rows.append(row)
            start = end
        return rows


def load_model(folder: str | None = None) -> Model:
    """Load the shipped model, or the one in a folder; raise ModelUnavailable if it is missing or damaged."""
    import numpy

    folder = folder or _MODEL_FOLDER
    try:
        metadata = _read_metadata(folder)
        for name, digest in metadata["sha256"].items():
            _verify_file(os.path.join(folder, name), digest)
        table = numpy.load(os.path.join(folder, "table.npy"), mmap_mode="r")
        scales = numpy.load(os.path.join(folder, "scales.npy"))
        with open(os.path.join(folder, "vocabulary.txt"), encoding="utf-8") as file:
            vocabulary = file.read().split("\n")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelUnavailable(f"the model in {folder} cannot be read: {error}") from None
    return Model(table, scales.astype(numpy.float32), vocabulary)


def _read_metadata(folder: str) -> dict[str, Any]:
    with open(os.path.join(folder, "model.json"), encoding="utf-8") as file:
        metadata: dict[str, Any] = json.load(file)
    if metadata["version"] != MODEL_VERSION:
        raise ValueError(f"it is {metadata['version']}, wanted is {MODEL_VERSION}")
    if missing := {"table.npy", "scales.npy", "vocabulary.txt"} - metadata["sha256"].keys():
        raise ValueError(f"model.json has no sum of {', '.join(sorted(missing))}")
    return metadata


def _verify_file(path: str, digest: str) -> None:
    with open(path, "rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != digest:
            raise ValueError(f"{os.path.basename(path)} is not the file that was shipped")


def _split_words(text: str) -> list[str]:
    if not text.isascii():
        text = _INVISIBLE_PATTERN.sub("", text)
    words: list[str] = _WORD_PATTERN.findall(text)
    return words


def _fold_word(word: str) -> str:
    """Return the word in lower case, without accents."""
    word = word.lower()
    if word.isascii():
        return word
    return "".join(char for char in unicodedata.normalize("NFD", word) if unicodedata.category(char) != "Mn")
