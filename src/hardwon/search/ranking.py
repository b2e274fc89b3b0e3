"""Which documents answer a question: by their words, by what they mean, by what stands beside them.

A word weighs the more the fewer documents of the scope have it. One that many have picks no candidates, because reading
them all would cost more than they tell; it counts in the order of those that other words picked. If a question has none
but such words, the latest documents that have them are the candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import TYPE_CHECKING, Any

from hardwon.search import embedding, vector_codes
from hardwon.store import search as index
from hardwon.store.db import Connection
from hardwon.store.documents import EVERYWHERE, SIZE_BITS
from hardwon.text.words import extract_words
from hardwon.types import frozen

if TYPE_CHECKING:
    import numpy

FREQUENT_SHARE = 0.02  # the share of documents with a word from which on it picks no candidates
MIN_FREQUENT_COUNT, MAX_FREQUENT_COUNT = 2_000, 10_000
NO_LIMIT = 1_000_000
MAX_ROWS = 6_000  # read for all words together, the rarest word first
MIN_DEPTH = 60  # candidates by words at least, and as many by meaning
LENGTH_SHARE = 0.2  # how much a long text counts less
USUAL_LENGTH = 32.0  # words
MEANING_WEIGHT = 1.0  # the weight of a vector's nearness squared, where 1 is that of all words of the question
NEIGHBOUR_SHARES = (
    0.35,
    0.35,
    0.2,
    0.2,
)  # the share of their words that those before and after give, and those once more on
MIN_MEANING = 0.45  # how near a vector must be to be a hit by itself


@frozen
class WordMatches:
    """What the words found: documents in order with their weights, by word, and the weights of words too frequent."""

    ids: Any
    weights: Any
    by_word: dict[str, Any]
    words: tuple[str, ...]
    frequent_shares: dict[str, float]  # as shares of what a document weighs that has every word


@frozen
class RankedDocument:
    """A document with its score: by words, by meaning, and what those beside it gave."""

    document: dict[str, Any]
    score: float
    words: tuple[str, ...]
    meaning: float
    neighbour: int  # the document beside it that gave most, if it gave more than it has itself
    is_named: bool = False  # the question is its id


def rank_documents(
    connection: Connection,
    home: str,
    question: str,
    *,
    projects: list[int],
    scope: index.Scope,
    filters: Sequence[Sequence[str]],
    allowed_ids: frozenset[int] | None,
    model: embedding.Model | None,
    depth: int,
    limit: int,
) -> list[RankedDocument]:
    """The documents that answer best; `filters` are marks of which each group must be met."""
    total = max(index.count_documents(connection, index.build_scope(projects)), 1)
    lexical = _by_words(connection, extract_words(question, is_query=True), scope, total, filters, allowed_ids)
    vector = model.embed([question])[0] if model is not None and question.strip() else None
    by_meaning: list[int] = []
    if vector is not None and vector.any():
        by_meaning = vector_codes.find_nearest(
            connection, home, embedding.MODEL_VERSION, list(dict.fromkeys([*projects, EVERYWHERE])), vector, depth
        )
    picked = list(dict.fromkeys([*_best(lexical, depth), *by_meaning]))
    beside = index.find_neighbours(connection, picked)
    scores = _with_neighbours(_own_scores(connection, lexical, picked, beside), beside)
    likely = sorted(scores, key=lambda id: (-scores[id][0], -id))[:depth]
    meaning = _meanings(connection, list(dict.fromkeys([*likely, *by_meaning])), vector)
    worth = {id: scores[id][0] + MEANING_WEIGHT * max(meaning.get(id, 0.0), 0.0) ** 2 for id in {*likely, *by_meaning}}
    order = sorted(worth, key=lambda id: (-worth[id], -id))
    documents = _fitting(
        connection, order if filters or allowed_ids is not None else order[: 2 * limit], filters, allowed_ids
    )
    best = [id for id in order if id in documents][:limit]
    return [
        RankedDocument(documents[id], worth[id], words, meaning.get(id, 0.0), scores[id][1])
        for id, words in zip(best, _words_in(lexical, best), strict=True)
    ]


def _fitting(
    connection: Connection, ids: Sequence[int], filters: Sequence[Sequence[str]], only: frozenset[int] | None
) -> dict[int, dict[str, Any]]:
    """Those of the documents that are there and pass the filters."""
    if only is not None:
        ids = [id for id in ids if id in only]
    if filters:
        held = index.read_words(connection, ids)
        ids = [id for id, has in held.items() if all(not has.isdisjoint(group) for group in filters)]
    return index.read_documents(connection, ids)


def _by_words(
    connection: Connection,
    words: list[str],
    scope: index.Scope,
    total: int,
    filters: Sequence[Sequence[str]],
    only: frozenset[int] | None,
) -> WordMatches:
    """What the words find in a scope of about so many documents."""
    import numpy

    often = min(max(int(total * FREQUENT_SHARE), MIN_FREQUENT_COUNT), MAX_FREQUENT_COUNT)
    counted = {
        one: index.count_matches(connection, index.build_match_query([one], *filters), scope, often + 1)
        for one in words
    }
    rest = MAX_ROWS
    parts: dict[str, numpy.ndarray] = {}
    for one in sorted(words, key=lambda one: counted[one]):
        if 0 < counted[one] <= often and (counted[one] <= rest or not parts):
            parts[one] = _array(index.find_matches(connection, index.build_match_query([one], *filters), scope, often))
            rest -= counted[one]
    frequent = [one for one in words if counted[one] and one not in parts]
    parts = _inside(parts, only)
    if frequent and not parts:
        most = MIN_FREQUENT_COUNT if only is None else NO_LIMIT
        parts = _inside(_frequent_alone(connection, frequent, scope, filters, most), only)
    weights = {one: _weight(counted[one] or 1, total) for one in words}
    whole = sum(weights.values()) or 1.0
    shares = {one: weights[one] / whole for one in frequent if one not in parts}
    if not parts:
        return WordMatches(_array([]), numpy.empty(0), {}, tuple(words), shares)
    rows = numpy.concatenate(list(parts.values()))
    given = numpy.concatenate([numpy.full(len(ids), weights[one]) for one, ids in parts.items()])
    sizes = numpy.exp2((rows & ((1 << SIZE_BITS) - 1)) / 2)
    given /= 1 - LENGTH_SHARE + LENGTH_SHARE * numpy.sqrt(sizes / USUAL_LENGTH)
    ids, places = numpy.unique(rows, return_inverse=True)
    return WordMatches(ids, numpy.bincount(places, given) / whole, parts, tuple(words), shares)


def _inside(parts: dict[str, Any], only: frozenset[int] | None) -> dict[str, Any]:
    """What the words found, without what is left out and without words that then found nothing."""
    import numpy

    if only is None:
        return parts
    inside = _array(list(only))
    found = {one: rows[numpy.isin(rows, inside)] for one, rows in parts.items()}
    return {one: rows for one, rows in found.items() if len(rows)}


def _frequent_alone(
    connection: Connection, words: Sequence[str], scope: index.Scope, filters: Sequence[Sequence[str]], most: int
) -> dict[str, Any]:
    """With none but frequent words: the latest that have all of them and, if these are few, the latest of each."""
    every = index.find_matches(connection, index.build_match_query(*([one] for one in words), *filters), scope, most)
    if len(every) >= MIN_DEPTH:
        return dict.fromkeys(words, _array(every))
    each = {one: index.find_matches(connection, index.build_match_query([one], *filters), scope, most) for one in words}
    return {one: _array(list({*every, *rows})) for one, rows in each.items()}


def _weight(count: int, total: int) -> float:
    return log(1 + (max(total - count, 0) + 0.5) / (count + 0.5))


def _array(ids: Sequence[int]) -> Any:
    import numpy

    return numpy.array(ids, dtype=numpy.int64)


def _best(lexical: WordMatches, depth: int) -> list[int]:
    """The documents with most weight; among equals the latest."""
    import numpy

    if len(lexical.ids) > depth:
        bar = numpy.partition(lexical.weights, len(lexical.weights) - depth)[len(lexical.weights) - depth]
        over = numpy.flatnonzero(lexical.weights > bar)
        level = numpy.flatnonzero(lexical.weights == bar)[::-1][: depth - len(over)]
        return [int(one) for one in lexical.ids[numpy.concatenate([over, level])]]
    return [int(one) for one in lexical.ids]


def _meanings(connection: Connection, ids: Sequence[int], vector: Any) -> dict[int, float]:
    """How near each document's vector is; nothing for those without one."""
    import numpy

    if vector is None or not vector.any():
        return {}
    held = index.read_vectors(connection, ids, embedding.MODEL_VERSION)
    if not held:
        return {}
    rows = numpy.frombuffer(b"".join(row for _, row in held), numpy.int8).reshape(len(held), -1).astype(numpy.float32)
    lengths = numpy.maximum(numpy.linalg.norm(rows, axis=1), 1e-9)
    return dict(zip((id for id, _ in held), (rows @ vector / lengths).tolist(), strict=True))


def _own_scores(
    connection: Connection, lexical: WordMatches, picked: Sequence[int], beside: dict[int, tuple[int | None, ...]]
) -> dict[int, float]:
    """What documents and those beside them are worth by their words."""
    import numpy

    ids = list({*picked, *(one for row in beside.values() for one in row if one is not None)})
    if not len(lexical.ids):
        return dict.fromkeys(ids, 0.0)
    places = numpy.minimum(numpy.searchsorted(lexical.ids, ids), len(lexical.ids) - 1)
    weights = numpy.where(lexical.ids[places] == _array(ids), lexical.weights[places], 0.0)
    own = dict(zip(ids, weights.tolist(), strict=True))
    if lexical.frequent_shares:
        held = index.read_words(connection, [id for id in picked if own[id]])
        for id, has in held.items():
            own[id] += sum(share for word, share in lexical.frequent_shares.items() if _is_in(word, has))
    return own


def _is_in(word: str, held: set[str]) -> bool:
    """Whether a text has a frequent word, or one that begins like it: its stem is known to the index alone."""
    begins = word[: max(len(word) - 3, 4)]
    return word in held or any(one.startswith(begins) for one in held)


def _with_neighbours(own: dict[int, float], beside: dict[int, tuple[int | None, ...]]) -> dict[int, tuple[float, int]]:
    """Each score with a share of those beside, and who gave most if that is more than its own."""
    given: dict[int, list[tuple[float, int]]] = {id: [] for id in own}
    for id, others in beside.items():
        for other, share in zip(others, NEIGHBOUR_SHARES, strict=True):
            if other in own and id in own:
                given[id].append((share * own[other], other))
                if other not in beside:
                    given[other].append((share * own[id], id))
    found = {}
    for id, each in given.items():
        most, giver = max(each, default=(0.0, 0))
        found[id] = own[id] + sum(value for value, _ in each), giver if most > own[id] else 0
    return found


def _words_in(lexical: WordMatches, ids: Sequence[int]) -> list[tuple[str, ...]]:
    """For each document the words of the question that it was found by."""
    import numpy

    has = {one: numpy.isin(_array(ids), rows) for one, rows in lexical.by_word.items()}
    return [tuple(one for one in lexical.words if one in has and has[one][at]) for at in range(len(ids))]
