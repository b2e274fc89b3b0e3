"""Rank the documents that match a query: by their words, their meaning, and their neighbours.

A word weighs more the fewer documents of the scope have it. A frequent word selects no candidates, because reading all
of its documents would cost more than it is worth; it only affects the order of candidates that other words selected. If
a query has only frequent words, the latest documents with them are the candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING, Any

from hardwon.search import embedding, vector_codes
from hardwon.store import documents
from hardwon.store.db import Connection
from hardwon.store.documents import EVERYWHERE, Scope
from hardwon.text.words import extract_words
from hardwon.types import frozen

if TYPE_CHECKING:
    import numpy

FREQUENT_SHARE = 0.02  # a word in a larger share of the documents selects no candidates
MIN_FREQUENT_COUNT, MAX_FREQUENT_COUNT = 2_000, 10_000
NO_LIMIT = 1_000_000
MAX_ROWS = 6_000  # read for all words together, the rarest word first
MIN_DEPTH = 60  # candidates by words at least, and as many by meaning
LENGTH_SHARE = 0.2  # how strongly long texts are discounted
USUAL_LENGTH = 32.0  # words
MEANING_WEIGHT = 1.0  # of a vector's squared similarity; all words of the query together weigh 1
# Of the scores of the documents before, after, second before and second after.
NEIGHBOUR_SHARES = (0.35, 0.35, 0.2, 0.2)
MIN_MEANING = 0.45  # similarity at which a vector alone makes a hit


@dataclass(frozen=True, slots=True)
class WordMatches:
    """The documents found by words, sorted, with their weights, and the weights of the frequent words."""

    ids: Any
    weights: Any
    by_word: dict[str, Any]
    words: tuple[str, ...]
    frequent_shares: dict[str, float]  # as shares of the weight of a document with every word


@frozen
class RankedDocument:
    """A document with its score: by words, by meaning, and from its neighbours."""

    document: dict[str, Any]
    score: float
    words: tuple[str, ...]
    meaning: float
    neighbour: int  # the neighbour that added most, if it added more than the document's own score
    is_named: bool = False  # the query is its id


def rank_documents(
    connection: Connection,
    home: str,
    question: str,
    *,
    projects: list[int],
    scope: Scope,
    filters: Sequence[Sequence[str]],
    allowed_ids: frozenset[int] | None,
    model: embedding.Model | None,
    depth: int,
    limit: int,
) -> list[RankedDocument]:
    """Return the best documents; `filters` are groups of filter words, and each group must match."""
    total = max(documents.count_documents(connection, documents.build_scope(projects)), 1)
    lexical = _match_words(connection, extract_words(question, is_query=True), scope, total, filters, allowed_ids)
    vector = model.embed([question])[0] if model is not None and question.strip() else None
    by_meaning: list[int] = []
    if vector is not None and vector.any():
        by_meaning = vector_codes.find_nearest(
            connection, home, embedding.MODEL_VERSION, list(dict.fromkeys([*projects, EVERYWHERE])), vector, depth
        )
    picked = list(dict.fromkeys([*_pick_best(lexical, depth), *by_meaning]))
    neighbours = documents.find_neighbours(connection, picked)
    scores = _add_neighbour_scores(_score_words(connection, lexical, picked, neighbours), neighbours)
    likely = sorted(scores, key=lambda document_id: (-scores[document_id][0], -document_id))[:depth]
    meanings = _score_meanings(connection, list(dict.fromkeys([*likely, *by_meaning])), vector)
    total_scores = {
        document_id: scores[document_id][0] + MEANING_WEIGHT * max(meanings.get(document_id, 0.0), 0.0) ** 2
        for document_id in {*likely, *by_meaning}
    }
    order = sorted(total_scores, key=lambda document_id: (-total_scores[document_id], -document_id))
    examined = order if filters or allowed_ids is not None else order[: 2 * limit]
    allowed = _read_allowed(connection, examined, filters, allowed_ids)
    best_ids = [document_id for document_id in order if document_id in allowed][:limit]
    return [
        RankedDocument(
            allowed[document_id],
            total_scores[document_id],
            words,
            meanings.get(document_id, 0.0),
            scores[document_id][1],
        )
        for document_id, words in zip(best_ids, _list_matched_words(lexical, best_ids), strict=True)
    ]


def _read_allowed(
    connection: Connection, ids: Sequence[int], filters: Sequence[Sequence[str]], allowed_ids: frozenset[int] | None
) -> dict[int, dict[str, Any]]:
    """Return those of the documents that still exist and pass the filters."""
    if allowed_ids is not None:
        ids = [document_id for document_id in ids if document_id in allowed_ids]
    if filters:
        words_by_id = documents.read_words(connection, ids)
        ids = [
            document_id
            for document_id, words in words_by_id.items()
            if all(not words.isdisjoint(group) for group in filters)
        ]
    return documents.read_documents(connection, ids)


def _match_words(
    connection: Connection,
    words: list[str],
    scope: Scope,
    total: int,
    filters: Sequence[Sequence[str]],
    allowed_ids: frozenset[int] | None,
) -> WordMatches:
    """Return the matches of the words in a scope of about so many documents."""
    import numpy

    max_count = min(max(int(total * FREQUENT_SHARE), MIN_FREQUENT_COUNT), MAX_FREQUENT_COUNT)
    counts = {
        word: documents.count_matches(connection, documents.build_match_query([word], *filters), scope, max_count + 1)
        for word in words
    }
    remaining_rows = MAX_ROWS
    rows_by_word: dict[str, numpy.ndarray] = {}
    for word in sorted(words, key=lambda word: counts[word]):
        if 0 < counts[word] <= max_count and (counts[word] <= remaining_rows or not rows_by_word):
            rows_by_word[word] = _to_array(
                documents.find_matches(connection, documents.build_match_query([word], *filters), scope, max_count)
            )
            remaining_rows -= counts[word]
    frequent = [word for word in words if counts[word] and word not in rows_by_word]
    rows_by_word = _restrict_matches(rows_by_word, allowed_ids)
    if frequent and not rows_by_word:
        max_rows = MIN_FREQUENT_COUNT if allowed_ids is None else NO_LIMIT
        rows_by_word = _restrict_matches(
            _match_frequent_words(connection, frequent, scope, filters, max_rows), allowed_ids
        )
    weights = {word: _compute_weight(counts[word] or 1, total) for word in words}
    total_weight = sum(weights.values()) or 1.0
    shares = {word: weights[word] / total_weight for word in frequent if word not in rows_by_word}
    if not rows_by_word:
        return WordMatches(_to_array([]), numpy.empty(0), {}, tuple(words), shares)
    rows = numpy.concatenate(list(rows_by_word.values()))
    row_weights = numpy.concatenate([numpy.full(len(ids), weights[word]) for word, ids in rows_by_word.items()])
    sizes = numpy.exp2(documents.unpack_size_class(rows) / 2)
    row_weights /= 1 - LENGTH_SHARE + LENGTH_SHARE * numpy.sqrt(sizes / USUAL_LENGTH)
    ids, positions = numpy.unique(rows, return_inverse=True)
    return WordMatches(ids, numpy.bincount(positions, row_weights) / total_weight, rows_by_word, tuple(words), shares)


def _restrict_matches(rows_by_word: dict[str, Any], allowed_ids: frozenset[int] | None) -> dict[str, Any]:
    """Return the matches among the allowed documents, without words that then match nothing."""
    import numpy

    if allowed_ids is None:
        return rows_by_word
    allowed = _to_array(list(allowed_ids))
    restricted = {word: rows[numpy.isin(rows, allowed)] for word, rows in rows_by_word.items()}
    return {word: rows for word, rows in restricted.items() if len(rows)}


def _match_frequent_words(
    connection: Connection,
    words: Sequence[str],
    scope: Scope,
    filters: Sequence[Sequence[str]],
    max_rows: int,
) -> dict[str, Any]:
    """Return the latest documents with all of the words; if there are few, also the latest of each word."""
    common_rows = documents.find_matches(
        connection, documents.build_match_query(*([word] for word in words), *filters), scope, max_rows
    )
    if len(common_rows) >= MIN_DEPTH:
        return dict.fromkeys(words, _to_array(common_rows))
    rows_by_word = {
        word: documents.find_matches(connection, documents.build_match_query([word], *filters), scope, max_rows)
        for word in words
    }
    return {word: _to_array(list({*common_rows, *rows})) for word, rows in rows_by_word.items()}


def _compute_weight(count: int, total: int) -> float:
    return log(1 + (max(total - count, 0) + 0.5) / (count + 0.5))


def _to_array(ids: Sequence[int]) -> Any:
    import numpy

    return numpy.array(ids, dtype=numpy.int64)


def _pick_best(lexical: WordMatches, depth: int) -> list[int]:
    """Return the documents with the most weight; among equals the latest."""
    import numpy

    if len(lexical.ids) > depth:
        threshold = numpy.partition(lexical.weights, len(lexical.weights) - depth)[len(lexical.weights) - depth]
        above = numpy.flatnonzero(lexical.weights > threshold)
        ties = numpy.flatnonzero(lexical.weights == threshold)[::-1][: depth - len(above)]
        return [int(document_id) for document_id in lexical.ids[numpy.concatenate([above, ties])]]
    return [int(document_id) for document_id in lexical.ids]


def _score_meanings(connection: Connection, ids: Sequence[int], vector: Any) -> dict[int, float]:
    """Return how near each document's vector is; nothing for those without one."""
    import numpy

    if vector is None or not vector.any():
        return {}
    stored_vectors = documents.read_vectors(connection, ids, embedding.MODEL_VERSION)
    if not stored_vectors:
        return {}
    rows = (
        numpy.frombuffer(b"".join(row for _, row in stored_vectors), numpy.int8)
        .reshape(len(stored_vectors), -1)
        .astype(numpy.float32)
    )
    lengths = numpy.maximum(numpy.linalg.norm(rows, axis=1), 1e-9)
    return dict(
        zip((document_id for document_id, _ in stored_vectors), (rows @ vector / lengths).tolist(), strict=True)
    )


def _score_words(
    connection: Connection, lexical: WordMatches, picked: Sequence[int], neighbours: dict[int, tuple[int | None, ...]]
) -> dict[int, float]:
    """Return the scores of documents and their neighbours by their words."""
    import numpy

    ids = list({*picked, *(neighbour for row in neighbours.values() for neighbour in row if neighbour is not None)})
    if not len(lexical.ids):
        return dict.fromkeys(ids, 0.0)
    positions = numpy.minimum(numpy.searchsorted(lexical.ids, ids), len(lexical.ids) - 1)
    weights = numpy.where(lexical.ids[positions] == _to_array(ids), lexical.weights[positions], 0.0)
    scores = dict(zip(ids, weights.tolist(), strict=True))
    if lexical.frequent_shares:
        words_by_id = documents.read_words(connection, [document_id for document_id in picked if scores[document_id]])
        for document_id, document_words in words_by_id.items():
            scores[document_id] += sum(
                share for word, share in lexical.frequent_shares.items() if _has_word(word, document_words)
            )
    return scores


def _has_word(word: str, document_words: set[str]) -> bool:
    """Return whether a text has a word, or one with the same beginning, since only the index knows stems."""
    prefix = word[: max(len(word) - 3, 4)]
    return word in document_words or any(document_word.startswith(prefix) for document_word in document_words)


def _add_neighbour_scores(
    scores: dict[int, float], neighbours: dict[int, tuple[int | None, ...]]
) -> dict[int, tuple[float, int]]:
    """Return each score plus a share of its neighbours', and the neighbour that added more than its own score."""
    contributions: dict[int, list[tuple[float, int]]] = {document_id: [] for document_id in scores}
    for document_id, neighbour_ids in neighbours.items():
        for neighbour_id, share in zip(neighbour_ids, NEIGHBOUR_SHARES, strict=True):
            if neighbour_id in scores and document_id in scores:
                contributions[document_id].append((share * scores[neighbour_id], neighbour_id))
                if neighbour_id not in neighbours:
                    contributions[neighbour_id].append((share * scores[document_id], document_id))
    combined = {}
    for document_id, received in contributions.items():
        largest, giver = max(received, default=(0.0, 0))
        combined[document_id] = (
            scores[document_id] + sum(value for value, _ in received),
            giver if largest > scores[document_id] else 0,
        )
    return combined


def _list_matched_words(lexical: WordMatches, ids: Sequence[int]) -> list[tuple[str, ...]]:
    """Return for each document the words of the question that it was found by."""
    import numpy

    presence = {word: numpy.isin(_to_array(ids), rows) for word, rows in lexical.by_word.items()}
    return [
        tuple(word for word in lexical.words if word in presence and presence[word][position])
        for position in range(len(ids))
    ]
