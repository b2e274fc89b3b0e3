"""Rank the records that match a query, in two steps.

The word index and the vectors select candidates without reading any text. A word weighs more the fewer documents of the
scope have it. A frequent word selects no candidates, because reading all of its documents would cost more than it is
worth; if a query has only frequent words, the latest documents with them are the candidates.

Then the texts of the best candidates are read and matched word by word, and their vectors are compared. Last words get
a share of the score of their prompt, prompts of those beside them, and every record of the best other one of its
session, because an answer often contains none of the words of the question.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING, Any

from hardwon.search import records, vectors
from hardwon.search.words import NO_MATCH, TextMatch, extract_words, find_whole_names, match_text, split_query
from hardwon.store import documents
from hardwon.store.db import Connection
from hardwon.store.documents import CALL_WEIGHT, DOCUMENT_KINDS, EVERYWHERE, MESSAGE_WEIGHT, Scope
from hardwon.types import AGENT_MESSAGE, replace

if TYPE_CHECKING:
    import numpy

_MAX_COUNT = 2_000  # a word in more documents is frequent and selects no candidates
_MAX_TOTAL = 4_000  # documents counted: counting 10,000 took 8 % of a search, and the order stays the same
_MAX_ROWS = 6_000  # read for all words together, the rarest word first
_MIN_DEPTH = 60  # candidates by words at least, and as many by meaning
_MIN_READ = 30  # texts at least; reading them takes most of the time of a search
_LENGTH_SHARE = 0.2  # how strongly long texts are discounted when candidates are selected
_USUAL_LENGTH = 32.0  # words
_WORD_WEIGHT = 1.0  # of every word, however frequent, as evidence that a text answers
# Of a vector's squared similarity; a text with all words of the query has about 1. Vectors order what matches well, but
# they are weak evidence that anything matches: for any query some vector is near.
_MEANING_WEIGHT, _MEANING_EVIDENCE = 1.25, 0.5
# Of the scores of the prompts before, after, second before and second after.
_NEIGHBOUR_SHARES = (0.35, 0.35, 0.2, 0.2)
_SESSION_SHARE = 0.15  # of the best other score in the session


@dataclass(frozen=True, slots=True)
class RankedRecord:
    """A record with its document and its score."""

    document: dict[str, Any]
    record: dict[str, Any]
    score: float
    match: TextMatch = NO_MATCH
    meaning: float = 0.0
    neighbour: int = 0  # the document that added most, if it added more than the words of the text
    strength: float = 0.0  # how certainly it matches, without the weight of its kind
    asked: int = 0  # the document of the prompt that last words answer


@dataclass(frozen=True, slots=True)
class _WordMatches:
    """Documents that words selected, sorted by id, with their weights; and the weight of every word of the query."""

    ids: numpy.ndarray
    weights: numpy.ndarray
    word_weights: dict[str, float]

    def get_weights(self, ids: Sequence[int]) -> dict[int, float]:
        """Return the weights of these documents by id; 0 for those that no word selected."""
        import numpy

        if not len(self.ids) or not ids:
            return dict.fromkeys(ids, 0.0)
        wanted = numpy.array(ids, numpy.int64)
        positions = numpy.minimum(numpy.searchsorted(self.ids, wanted), len(self.ids) - 1)
        weights = numpy.where(self.ids[positions] == wanted, self.weights[positions], 0.0)
        return dict(zip(ids, weights.tolist(), strict=True))

    def list_best(self, count: int) -> list[int]:
        """Return the documents with the most weight; among equals the latest."""
        import numpy

        order = numpy.lexsort((-self.ids, -self.weights))[:count]
        return [int(document_id) for document_id in self.ids[order]]


@dataclass(frozen=True, slots=True)
class _Similarities:
    """How near the vectors of candidates are to the query's; `usual_square` is the median of their squares."""

    by_document: dict[int, float]
    usual_square: float

    def get(self, document_id: int) -> float:
        """Return the similarity of a document; 0 if it has no vector."""
        return self.by_document.get(document_id, 0.0)

    def get_square(self, document_id: int) -> float:
        """Return how much a document's vector counts; without one as much as that of the usual candidate.

        Calls have no vector. Counted as nothing, a call with all words of the query ranked behind answers with none.
        """
        if document_id in self.by_document:
            return _square_similarity(self.by_document[document_id])
        return self.usual_square


def _square_similarity(similarity: float) -> float:
    return max(similarity, 0.0) ** 2


def rank_records(
    connection: Connection,
    home: str,
    query: str,
    *,
    projects: Sequence[int],
    scope: Scope,
    filters: Sequence[Sequence[str]],
    model: vectors.Model | None,
    limit: int,
) -> list[RankedRecord]:
    """Return the best records in no order; `filters` are groups of filter words, and each group must match."""
    depth = max(_MIN_DEPTH, 2 * limit)
    scope = documents.drop_empty_ranges(connection, scope)
    matches = _match_words(connection, extract_words(query, is_query=True), scope, filters)
    candidates = matches.list_best(depth)
    vector = model.embed([query])[0] if model is not None else None
    if vector is not None and vector.any():
        numbers = list(dict.fromkeys([*projects, EVERYWHERE]))
        nearest = vectors.find_nearest(connection, home, vectors.MODEL_VERSION, numbers, vector, depth, scope=scope)
        candidates = list(dict.fromkeys([*candidates, *nearest]))
    neighbours = documents.find_neighbours(connection, candidates)
    scores = matches.get_weights(list({*candidates, *_list_neighbours(neighbours)}))
    candidates = _apply_filters(connection, list(scores), filters)
    similarities = _compare_vectors(connection, candidates, vector)
    expected_scores: dict[int, float] = {}
    for document_id, (shared_score, _) in _share_scores(scores, neighbours).items():
        expected_scores[document_id] = shared_score + _MEANING_WEIGHT * similarities.get_square(document_id)
    # Reading and matching texts is slow, so only the most promising candidates are read.
    candidates.sort(key=lambda document_id: (-expected_scores[document_id], -document_id))
    found_documents = documents.read_documents(connection, candidates[: max(_MIN_READ, 3 * limit)])
    loaded = load_records(connection, home, found_documents)
    weights = {word: matches.word_weights.get(word, 0.0) for word in split_query(query)}
    whole_names = find_whole_names(query)
    text_matches = {
        document_id: match_text(record["text"], " ".join(record["files"]), weights, whole_names)
        for document_id, record in loaded.items()
    }
    scores |= {document_id: text_match.score for document_id, text_match in text_matches.items()}
    final_scores = _share_scores(scores, neighbours)
    ranked = []
    for document_id, record in loaded.items():
        score, giver = final_scores[document_id]
        document = found_documents[document_id]
        weight = DOCUMENT_KINDS[document["kind"]].weight
        if documents.unpack_is_call(document_id):
            weight = CALL_WEIGHT
        elif record["type"] == AGENT_MESSAGE:
            weight = MESSAGE_WEIGHT
        meaning = similarities.get(document_id)
        text_match = text_matches[document_id]
        evidence = score - text_match.score + _weigh_evidence(text_match, weights)
        ranked.append(
            RankedRecord(
                document,
                record,
                weight * (score + _MEANING_WEIGHT * similarities.get_square(document_id)),
                text_match,
                meaning,
                giver,
                strength=evidence + _MEANING_EVIDENCE * _square_similarity(meaning),
                asked=find_asked(document, neighbours),
            )
        )
    return ranked


def add_session_shares(ranked: Sequence[RankedRecord]) -> list[RankedRecord]:
    """Return the records with a share of the score of the best other record of their session added to their own."""
    by_session: dict[int, list[RankedRecord]] = {}
    for item in ranked:
        by_session.setdefault(item.document["session"], []).append(item)
    results: list[RankedRecord] = []
    for session, items in by_session.items():
        if not session or len(items) == 1:  # lessons, memories and handoffs have no session
            results += items
            continue
        second_best, best = sorted(item.score for item in items)[-2:]
        for item in items:
            best_other = second_best if item.score == best else best
            results.append(replace(item, score=item.score + _SESSION_SHARE * best_other))
    return results


def find_asked(document: dict[str, Any], neighbours: dict[int, tuple[int | None, ...]]) -> int:
    """Return the document of the prompt that last words answer; 0 if there is none."""
    if document["kind"] != documents.EVENT:
        return 0
    prompt_ids = neighbours.get(document["id"])
    return (prompt_ids[0] or 0) if prompt_ids else 0


def load_records(
    connection: Connection, home: str, found_documents: dict[int, dict[str, Any]]
) -> dict[int, dict[str, Any]]:
    """Return the records of these documents that still exist."""
    record_ids = {
        document_id: records.format_id(document["kind"], document["row"], document["name"])
        for document_id, document in found_documents.items()
    }
    found_records = records.fetch_records(connection, home, list(record_ids.values()), with_details=False)
    fetched = {record["id"]: record for record in found_records}
    return {
        document_id: fetched[record_id]
        for document_id, record_id in record_ids.items()
        if "error" not in fetched[record_id]
    }


def _apply_filters(connection: Connection, ids: Sequence[int], filters: Sequence[Sequence[str]]) -> list[int]:
    """Return the documents that have a word of each group of filter words."""
    if not filters:
        return list(ids)
    words_by_id = documents.read_words(connection, ids)
    return [
        document_id
        for document_id in ids
        if all(not words_by_id.get(document_id, set()).isdisjoint(group) for group in filters)
    ]


def _match_words(
    connection: Connection,
    words: list[str],
    scope: Scope,
    filters: Sequence[Sequence[str]],
) -> _WordMatches:
    """Return the documents with words of the query, weighted by how rare the words are and by how short the text is.

    Rare words select first, until there are enough documents. If all words are frequent, the latest documents with all
    of them are taken.
    """
    import numpy

    total = max(documents.count_documents(connection, scope, _MAX_TOTAL), 1)
    found_rows = {}
    for word in words:
        match = documents.build_match_query([word], *filters)
        found_rows[word] = documents.find_matches(connection, match, scope, _MAX_COUNT + 1)
    weights = {word: _compute_weight(len(rows) or 1, total) for word, rows in found_rows.items()}
    rows_by_word: dict[str, list[int]] = {}
    remaining_rows = _MAX_ROWS
    for word in sorted(words, key=lambda word: len(found_rows[word])):
        count = len(found_rows[word])
        if 0 < count <= _MAX_COUNT and (count <= remaining_rows or not rows_by_word):
            rows_by_word[word] = found_rows[word]
            remaining_rows -= count
    if not rows_by_word and (frequent := [word for word in words if found_rows[word]]):
        rows_by_word = _match_frequent_words(connection, frequent, scope, filters)
    if not rows_by_word:
        return _WordMatches(numpy.empty(0, numpy.int64), numpy.empty(0), weights)
    rows = numpy.concatenate([numpy.array(ids, numpy.int64) for ids in rows_by_word.values()])
    row_weights = numpy.concatenate([numpy.full(len(ids), weights[word]) for word, ids in rows_by_word.items()])
    sizes = 12.0 * numpy.exp2(documents.unpack_size_class(rows))  # the middle of the class
    row_weights /= 1 - _LENGTH_SHARE + _LENGTH_SHARE * numpy.sqrt(sizes / _USUAL_LENGTH)
    row_weights *= numpy.where(documents.unpack_is_call(rows), CALL_WEIGHT, 1.0)
    ids, positions = numpy.unique(rows, return_inverse=True)
    total_weight = sum(weights.values()) or 1.0
    return _WordMatches(ids, numpy.bincount(positions, row_weights) / total_weight, weights)


def _match_frequent_words(
    connection: Connection, words: Sequence[str], scope: Scope, filters: Sequence[Sequence[str]]
) -> dict[str, list[int]]:
    """Return the latest documents with all of the words; if there are few, also the latest of each word."""
    match = documents.build_match_query(*([word] for word in words), *filters)
    common_rows = documents.find_matches(connection, match, scope, _MAX_COUNT)
    if len(common_rows) >= _MIN_DEPTH:
        return dict.fromkeys(words, common_rows)
    rows_by_word = {}
    for word in words:
        match = documents.build_match_query([word], *filters)
        rows = documents.find_matches(connection, match, scope, _MAX_COUNT)
        rows_by_word[word] = list({*common_rows, *rows})
    return rows_by_word


def _compute_weight(count: int, total: int) -> float:
    """Return the weight of a word that `count` of `total` documents have, as BM25 does: rare words weigh more."""
    return log(1 + (max(total - count, 0) + 0.5) / (count + 0.5))


def _compare_vectors(connection: Connection, ids: Sequence[int], vector: Any) -> _Similarities:
    """Compare documents with the query's vector; those that have no vector yet are missing in the result."""
    import numpy

    stored_vectors = []
    if vector is not None and vector.any():
        stored_vectors = documents.read_vectors(connection, ids, vectors.MODEL_VERSION)
    if not stored_vectors:
        return _Similarities({}, usual_square=0.0)
    flat = numpy.frombuffer(b"".join(row for _, row in stored_vectors), numpy.int8)
    rows = flat.reshape(len(stored_vectors), -1).astype(numpy.float32)
    similarities = rows @ vector / numpy.maximum(numpy.linalg.norm(rows, axis=1), 1e-9)
    by_document = dict(zip((document_id for document_id, _ in stored_vectors), similarities.tolist(), strict=True))
    usual_square = float(numpy.median(numpy.maximum(similarities, 0.0) ** 2))
    return _Similarities(by_document, usual_square)


def _weigh_evidence(match: TextMatch, weights: Mapping[str, float]) -> float:
    """Return how certainly a text answers by its words.

    A word that stands often in a text raises its rank, but is no evidence of the query's other words. And one rare word
    that is missing says less than all that are there: it may be only how the person put it.
    """
    if not match.coverage:
        return 0.0
    even_total = sum(weights.values()) + _WORD_WEIGHT * len(weights)
    even_coverage = sum(weights[word] + _WORD_WEIGHT for word in match.words) / even_total
    return min(match.score, match.coverage) * even_coverage / match.coverage


def _list_neighbours(neighbours: dict[int, tuple[int | None, ...]]) -> list[int]:
    return [neighbour for row in neighbours.values() for neighbour in row if neighbour is not None]


def _share_scores(
    scores: dict[int, float], neighbours: dict[int, tuple[int | None, ...]]
) -> dict[int, tuple[float, int]]:
    """Return each score plus a share of its neighbours', and the neighbour that added more than its own score, or 0."""
    contributions: dict[int, list[tuple[float, int]]] = {document_id: [] for document_id in scores}
    for document_id, neighbour_ids in neighbours.items():
        if document_id not in scores:
            continue
        is_prompt = len(neighbour_ids) > 1  # last words have one neighbour, the prompt that they answer
        for neighbour_id, share in zip(neighbour_ids, _NEIGHBOUR_SHARES, strict=False):
            if neighbour_id not in scores:
                continue
            contributions[document_id].append((share * scores[neighbour_id], neighbour_id))
            was_selected = neighbour_id in neighbours
            # A prompt that was not selected gets a share of the prompt beside it, but not of its answer.
            if is_prompt and not was_selected:
                contributions[neighbour_id].append((share * scores[document_id], document_id))
    combined = {}
    for document_id, received in contributions.items():
        largest, giver = max(received, default=(0.0, 0))
        total = scores[document_id] + sum(value for value, _ in received)
        combined[document_id] = (total, giver if largest > scores[document_id] else 0)
    return combined
