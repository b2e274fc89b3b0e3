"""Embed texts as vectors with a static model in the package, and find the nearest vectors.

Nothing is downloaded and no network is run, so a text costs about 0.1 ms and the same text gives the same vector
everywhere. `scripts/distil_model.py` makes the table. NumPy is imported only when a model is loaded.

First the differing bits are counted for every document of the scope. The nearest of these are weighted by the query's
value in each dimension, and the caller compares only the best exactly. Loaded codes stay in memory; the number of
deleted vectors of a project and the last number given to a vector show whether they are still current.
"""

from __future__ import annotations

import hashlib
import json
import os
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any

import regex

from hardwon.search.words import STEM_ENDINGS, stem_word
from hardwon.store import documents
from hardwon.store.db import Connection
from hardwon.store.documents import Scope

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray


# 192 dimensions of 8 bits: recall at 10 is 0.645, with the model it was made from 0.673.
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
_OVERSAMPLING_FACTOR = 8  # finds 84 % of the true ten nearest; without it, 65 %
_OUT_OF_SCOPE = 1_000  # more than the bits of a code


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
        """Return whether the table has a word as a whole, perhaps with another ending or without its prefix.

        Common words are in the table; most names, such as `deno` or `goreleaser`, are there only in pieces.
        """
        if word in self._row_by_piece:
            return True
        stem = stem_word(word)
        if any(stem + ending in self._row_by_piece for ending in ("", *STEM_ENDINGS)):
            return True
        unprefixed = _PREFIX.sub("", word)
        return unprefixed != word and self.has_word(unprefixed)

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
    """Return what `model.json` says; ValueError if it is for another version or lacks the checksum of a file."""
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


@dataclass(frozen=True, slots=True)
class _ProjectVectors:
    """A project's vectors: their version, numbers, documents, and codes with 64 dimensions per row."""

    # Deletions, which a trigger counts, and the last number: counting the rows took 5 of the 19 ms of a search.
    version: tuple[int, int]
    numbers: numpy.ndarray
    documents: numpy.ndarray
    codes: numpy.ndarray


_lock = Lock()
_loaded_vectors: dict[tuple[str, str], dict[int, _ProjectVectors]] = {}


def find_nearest(
    connection: Connection,
    home: str,
    model: str,
    projects: list[int],
    vector: numpy.ndarray,
    limit: int,
    *,
    scope: Scope = documents.FULL_SCOPE,
) -> list[int]:
    """Return the documents of these projects and this scope whose vectors are likely the nearest."""
    import numpy

    query_code = pack_bits(vector[None, :])[0]
    candidates, scores = [], []
    for project in projects:
        loaded = _load_vectors(connection, home, model, project)
        if not len(loaded.documents):
            continue
        distances = numpy.zeros(len(loaded.documents), numpy.uint16)
        for code_row, query_bits in zip(loaded.codes, query_code, strict=True):
            numpy.add(distances, numpy.bitwise_count(code_row ^ query_bits), out=distances)
        if not documents.is_whole_project(project, scope):
            distances[~_is_in_scope(loaded.documents, scope)] = _OUT_OF_SCOPE
        cumulative_counts = numpy.cumsum(numpy.bincount(distances))
        # Pick those up to the distance that enough documents have.
        best = numpy.flatnonzero(distances <= numpy.searchsorted(cumulative_counts, _OVERSAMPLING_FACTOR * limit))[
            -2 * _OVERSAMPLING_FACTOR * limit :
        ]
        best = best[distances[best] < _OUT_OF_SCOPE]
        signs = numpy.unpackbits(loaded.codes[:, best].T.copy().view(numpy.uint8), axis=1)[:, : len(vector)]
        candidates.append(loaded.documents[best])
        scores.append(signs @ vector)
    if not candidates:
        return []
    order = numpy.argsort(-numpy.concatenate(scores), kind="stable")[:limit]
    return [int(document) for document in numpy.concatenate(candidates)[order]]


def _is_in_scope(document_ids: numpy.ndarray, scope: Scope) -> numpy.ndarray:
    """Return for each document whether its id lies in one of the ranges of the scope."""
    import numpy

    inside = numpy.zeros(len(document_ids), bool)
    for low, high in scope:
        inside |= (document_ids >= low) & (document_ids <= high)
    return inside


def pack_bits(vectors: numpy.ndarray) -> numpy.ndarray:
    """Pack one bit per dimension, 64 to a number."""
    import numpy

    bits = numpy.packbits(vectors > 0, axis=1)
    return numpy.pad(bits, ((0, 0), (0, -bits.shape[1] % 8))).view(numpy.uint64)


def _load_vectors(connection: Connection, home: str, model: str, project: int) -> _ProjectVectors:
    """Return a project's vectors as they are now."""
    with _lock:
        vectors_by_project = _loaded_vectors.setdefault((home, model), {})
        version = documents.read_vectors_version(connection, project)
        loaded = vectors_by_project.get(project)
        if loaded is None or loaded.version != version:
            loaded = vectors_by_project[project] = _update_vectors(connection, model, project, version, loaded)
        return loaded


def _update_vectors(
    connection: Connection, model: str, project: int, version: tuple[int, int], previous: _ProjectVectors | None
) -> _ProjectVectors:
    """Return the loaded vectors plus new ones and without deleted ones."""
    import numpy

    removed_count, last_id = version
    # In a restored database the numbers may start lower again.
    after_id = previous.version[1] if previous and previous.version[1] <= last_id else 0
    numbers: list[numpy.ndarray] = []
    document_ids: list[numpy.ndarray] = []
    codes: list[numpy.ndarray] = []
    if previous and after_id:
        numbers.append(previous.numbers)
        document_ids.append(previous.documents)
        if len(previous.numbers):  # codes without rows have no dimensions that could be joined
            codes.append(previous.codes)
    for rows in documents.iter_codes(connection, project, model, after_id=after_id, last_id=last_id):
        numbers.append(numpy.array([number for number, _, _ in rows], numpy.int64))
        document_ids.append(numpy.array([document for _, document, _ in rows], numpy.int64))
        flat = numpy.frombuffer(b"".join(code for _, _, code in rows), numpy.uint64)
        codes.append(flat.reshape(len(rows), -1).T)
    if not codes:
        no_numbers = numpy.empty(0, numpy.int64)
        return _ProjectVectors(version, no_numbers, no_numbers, numpy.empty((0, 0), numpy.uint64))
    merged = _ProjectVectors(
        version, numpy.concatenate(numbers), numpy.concatenate(document_ids), numpy.concatenate(codes, axis=1)
    )
    if previous is None or not after_id or previous.version[0] == removed_count:
        return merged
    live_numbers = numpy.array(documents.list_vector_numbers(connection, project), numpy.int64)
    is_live = numpy.isin(merged.numbers, live_numbers)
    return _ProjectVectors(version, merged.numbers[is_live], merged.documents[is_live], merged.codes[:, is_live])
