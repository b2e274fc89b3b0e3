"""Clean a text before it is stored: strip private parts, then redact secrets, so that neither hides the other."""

from __future__ import annotations

from hardwon.privacy.private_tags import TAG_NAMES, map_strings, strip_private
from hardwon.privacy.randomness import MIN_RANDOM_LENGTH, find_unbroken_runs, is_random
from hardwon.privacy.redaction import MIN_RUN_LENGTH, find_secret_spans, redact_text
from hardwon.text.case_folding import fold_case

TYPE_CHECKING = False  # importing it from `typing` would slow down the hook
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any


def clean_text(text: str) -> str:
    return redact_text(strip_private(text)) if text else text


def clean_texts(texts: Sequence[str]) -> list[str]:
    """Clean each text, but scan all of them joined first, because most texts hold nothing to clean."""
    joined = "\n".join(texts)
    folded_text, unbroken_runs = fold_case(joined), {*find_unbroken_runs(joined, MIN_RUN_LENGTH)}
    tags = [tag_name for tag_name in TAG_NAMES if tag_name in folded_text]
    random_runs = [run for run in unbroken_runs if len(run) >= MIN_RANDOM_LENGTH and is_random(run)]
    spans = find_secret_spans(joined, folded_text, unbroken_runs)
    if not spans and not tags and not random_runs:
        return list(texts)
    from bisect import bisect_right  # imported here to keep the hook's start fast

    starts, start = [], 0
    for text in texts:
        starts.append(start)
        start += len(text) + 1
    hit_numbers = set[int]()
    for first, last in spans:  # a secret without an end may span several of the joined texts
        hit_numbers.update(range(bisect_right(starts, first) - 1, bisect_right(starts, last)))
    return [
        clean_text(text)
        if number in hit_numbers
        or (random_runs and _has_any(text, random_runs))
        or (tags and _has_any(fold_case(text), tags))
        else text
        for number, text in enumerate(texts)
    ]


def _has_any(text: str, parts: Sequence[str]) -> bool:
    return any(map(text.__contains__, parts))


def clean_state(state: Any) -> Any:
    """Clean the stored state of a transcript reader.

    Only strings of several words can hold a secret there; single words are ids.
    """
    texts = list(_find_sentences(state))
    changed = {text: clean for text, clean in zip(texts, clean_texts(texts), strict=True) if text is not clean}
    return map_strings(state, lambda text, _: changed.get(text, text)) if changed else state


def _find_sentences(state: Any) -> Iterator[str]:
    if isinstance(state, str):
        if " " in state or "\n" in state:
            yield state
    elif isinstance(state, dict | list | tuple):
        for value in state.values() if isinstance(state, dict) else state:
            yield from _find_sentences(value)
