"""Texts as vectors, by a static model that lies in the package: a table of word pieces, looked up and added.

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

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

MODEL_VERSION = "minilm-l6-192-1"

_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "model")
_MOST_CHARACTERS = 20_000  # the rest of a text is not looked at
_MOST_PIECES = 1_024  # that are unpacked at once: under 1 MB, which stays in the cache
_LONGEST_WORD = 100  # as upstream: what is longer is no word
_MOST_CACHED = 50_000

# As upstream cuts: each ideograph is a word, and so is what lies between spaces and punctuation. Punctuation and
# symbols say little about the meaning of a text and have no row in the table.
_IDEOGRAPH = (
    r"\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002a6df\U0002a700-\U0002b73f\U0002b740-\U0002b81f"
    r"\U0002b820-\U0002ceaf\U0002f800-\U0002fa1f"
)
_WORD = regex.compile(rf"[{_IDEOGRAPH}]|[^\s\p{{P}}\p{{S}}\p{{Z}}\p{{Cc}}{_IDEOGRAPH}]+")
_UNSEEN = regex.compile(r"[\p{Cc}\p{Cf}\p{Co}\p{Cs}\ufffd--\t\n\r]", regex.V1)
_HUMP = regex.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z]{2})(?=[A-Z][a-z])", regex.V1)


class ModelUnavailable(ValueError):
    """Why there is no model; search goes on by words alone."""


class Model:
    """The table, mapped into memory for as long as the model is used, and the words already looked up."""

    def __init__(self, table: NDArray[numpy.int8], scales: NDArray[numpy.float32], vocabulary: Sequence[str]) -> None:
        self.dimensions = int(table.shape[1])
        self._table = table
        self._scales = scales
        self._rows = {piece: row for row, piece in enumerate(vocabulary)}
        self._longest = max(map(len, vocabulary))
        self._seen: dict[str, tuple[int, ...]] = {}

    def embed(self, texts: Sequence[str]) -> NDArray[numpy.float32]:
        """A row per text, of length one; zeros for a text without a known word."""
        import numpy

        vectors = numpy.zeros((len(texts), self.dimensions), numpy.float32)
        for places, starts, rows in self._portions(texts):
            unpacked = self._table[rows] * self._scales[rows, None]
            sums = numpy.add.reduceat(unpacked, starts, axis=0)
            lengths = numpy.sqrt((sums * sums).sum(axis=1, keepdims=True))
            vectors[places] = numpy.divide(sums, lengths, out=numpy.zeros_like(sums), where=lengths > 0)
        return vectors

    def find_rows(self, text: str) -> list[int]:
        """The rows of the table that a text's words and pieces of words lead to, in order."""
        found: list[int] = []
        for word in _words(text[:_MOST_CHARACTERS]):
            known = self._seen.get(word)
            if known is None:
                if len(self._seen) >= _MOST_CACHED:
                    self._seen.clear()
                known = self._seen[word] = tuple(self._looked_up(word))
            found += known
        return found

    def _portions(self, texts: Sequence[str]) -> Iterator[tuple[list[int], list[int], list[int]]]:
        """Which texts, where each begins, and their rows: as many texts at a time as may be unpacked at once."""
        places: list[int] = []
        starts: list[int] = []
        rows: list[int] = []
        for place, text in enumerate(texts):
            found = self.find_rows(text)
            if not found:
                continue
            if rows and len(rows) + len(found) > _MOST_PIECES:
                yield places, starts, rows
                places, starts, rows = [], [], []
            places.append(place)
            starts.append(len(rows))
            rows += found
        if rows:
            yield places, starts, rows

    def _looked_up(self, word: str) -> Iterator[int]:
        """A word as it is if the table has it, else the words a name is put together from, else their pieces."""
        plain = _plain(word)
        if plain in self._rows:
            yield self._rows[plain]
            return
        for part in _HUMP.split(word):
            yield from self._pieces(_plain(part))

    def _pieces(self, word: str) -> list[int]:
        """The longest pieces from left to right; nothing if some part of the word is no piece, as upstream."""
        found: list[int] = []
        start = 0
        while start < len(word) <= _LONGEST_WORD:
            mark = "##" if start else ""
            for end in range(min(len(word), start + self._longest), start, -1):
                row = self._rows.get(mark + word[start:end])
                if row is not None:
                    break
            else:
                return []
            found.append(row)
            start = end
        return found


def load_model(folder: str | None = None) -> Model:
    """The shipped model, or the one in a folder; Absent if it is missing or damaged."""
    import numpy

    folder = folder or _FOLDER
    try:
        about = _about(folder)
        for name, sum in about["sha256"].items():
            _check(os.path.join(folder, name), sum)
        table = numpy.load(os.path.join(folder, "table.npy"), mmap_mode="r")
        scales = numpy.load(os.path.join(folder, "scales.npy"))
        with open(os.path.join(folder, "vocabulary.txt"), encoding="utf-8") as file:
            vocabulary = file.read().split("\n")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as wrong:
        raise ModelUnavailable(f"the model in {folder} cannot be read: {wrong}") from None
    return Model(table, scales.astype(numpy.float32), vocabulary)


def _about(folder: str) -> dict[str, Any]:
    with open(os.path.join(folder, "model.json"), encoding="utf-8") as file:
        about: dict[str, Any] = json.load(file)
    if about["version"] != MODEL_VERSION:
        raise ValueError(f"it is {about['version']}, wanted is {MODEL_VERSION}")
    if missing := {"table.npy", "scales.npy", "vocabulary.txt"} - about["sha256"].keys():
        raise ValueError(f"model.json has no sum of {', '.join(sorted(missing))}")
    return about


def _check(path: str, sum: str) -> None:
    with open(path, "rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != sum:
            raise ValueError(f"{os.path.basename(path)} is not the file that was shipped")


def _words(text: str) -> list[str]:
    if not text.isascii():
        text = _UNSEEN.sub("", text)
    found: list[str] = _WORD.findall(text)
    return found


def _plain(word: str) -> str:
    """In small letters, without accents."""
    word = word.lower()
    if word.isascii():
        return word
    return "".join(each for each in unicodedata.normalize("NFD", word) if unicodedata.category(each) != "Mn")
