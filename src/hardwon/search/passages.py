"""Find the passage of a record that answers a query best, to show it as the excerpt.

The words of a question often stand where a text names its topic, and the answer a few lines further. So of the passages
with the most words that one is taken whose meaning is nearest to the question.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hardwon.search.words import MAX_SCANNED_CHARS, find_starts, lower_in_place
from hardwon.types import frozen

if TYPE_CHECKING:
    from hardwon.search.vectors import Model

_LINE = re.compile(r"[^\n]+")
_SENTENCE_END = re.compile(r"[.!?:;] +(?=\W*[A-Z0-9])")
_MAX_UNSPLIT_CHARS = 120  # of a line: longer ones are split into sentences
# Embedding a passage takes 0.05 ms. With 16 and with all of them hardly more excerpts had the answer.
_MAX_COMPARED = 8


@frozen
class Topic:
    """What passages are compared with: the words of a query, the names they stand in, and perhaps its vector."""

    words: tuple[str, ...]
    whole_names: Mapping[str, str]
    model: Model | None = None
    vector: Any = None


def find_passage(text: str, topic: Topic, max_chars: int) -> int:
    """Return where the passage begins that answers best; 0 if the text has no word of the query."""
    text = text[:MAX_SCANNED_CHARS]
    lowered = lower_in_place(text)
    occurrences = sorted(
        (start, word)
        for word in topic.words
        for start in find_starts(text, lowered, word, topic.whole_names.get(word, ""))
    )
    positions = [start for start, _ in occurrences]
    units = list(_iter_units(text))
    counted: list[tuple[int, int, int]] = []  # how many words a passage lacks, and its bounds
    for begin, first_end, end in _iter_passages(units, max_chars):
        first_position = bisect_left(positions, begin)
        words = {word for _, word in occurrences[first_position : bisect_left(positions, end)]}
        if words and positions[first_position] < first_end:
            counted.append((len(topic.words) - len(words), begin, end))
    if not counted:
        return 0
    candidates = sorted(counted)[:_MAX_COMPARED]
    nearness = _compare_meaning([text[begin:end] for _, begin, end in candidates], topic)
    best_value, best_begin = -1.0, 0
    for (lacking, begin, _), similarity in zip(candidates, nearness, strict=True):
        value = 1 - lacking / len(topic.words) + similarity
        if value > best_value:
            best_value, best_begin = value, begin
    return best_begin


def _compare_meaning(passages: Sequence[str], topic: Topic) -> list[float]:
    """Return how near each passage is to the query in meaning; 0 without a model."""
    if topic.model is None or topic.vector is None:
        return [0.0] * len(passages)
    similarities: list[float] = (topic.model.embed(passages) @ topic.vector).tolist()
    return [max(similarity, 0.0) for similarity in similarities]


def _iter_units(text: str) -> Iterator[tuple[int, int]]:
    """Yield the bounds of the lines of a text, and of the sentences of its long lines."""
    for line in _LINE.finditer(text):
        begin, end = line.span()
        if end - begin > _MAX_UNSPLIT_CHARS:
            for match in _SENTENCE_END.finditer(text, begin, end):
                yield begin, match.end()
                begin = match.end()
        if begin < end:
            yield begin, end


def _iter_passages(units: Sequence[tuple[int, int]], max_chars: int) -> Iterator[tuple[int, int, int]]:
    """Yield for every unit its bounds, and the end of as many units after it as an excerpt has room for."""
    last = 0
    for first, (begin, end) in enumerate(units):
        last = max(last, first)
        while last + 1 < len(units) and units[last + 1][1] - begin <= max_chars:
            last += 1
        yield begin, end, units[last][1]
