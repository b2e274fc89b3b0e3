"""Clean a text before it is stored: strip private parts, then redact secrets, so that neither hides the other."""

from __future__ import annotations

from hardwon.privacy.private_tags import TAG_NAMES, map_strings, strip_private
from hardwon.privacy.randomness import MIN_RANDOM_LENGTH, find_unbroken_runs, is_random
from hardwon.privacy.redaction import MIN_RUN_LENGTH, find_secret_spans, redact_text
from hardwon.text.characters import fold_case

TYPE_CHECKING = False  # importing it from `typing` would slow down the hook
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any


def clean_text(text: str) -> str:
    """Return a text without its private parts, and with its secrets redacted."""
    return redact_text(strip_private(text)) if text else text


def clean_texts(texts: Sequence[str]) -> list[str]:
    """Clean each text, but scan many of them joined first, because most texts hold nothing to clean.

    Those beyond ASCII are joined apart from the others: folding their case takes ten times as long.
    """
    ascii_texts = dict[str, None]()
    other_texts = dict[str, None]()
    for text in texts:
        group = ascii_texts if text.isascii() else other_texts
        group[text] = None
    cleaned: dict[str, str] = {}
    for unique_texts in (list(ascii_texts), list(other_texts)):
        cleaned.update(zip(unique_texts, _clean_joined(unique_texts), strict=True))
    return [cleaned[text] for text in texts]


def _clean_joined(texts: Sequence[str]) -> Sequence[str]:
    """Search the joined texts, then clean only those in which something was found."""
    if not texts:
        return texts
    joined = "\n".join(texts)
    folded_text = fold_case(joined)
    unbroken_runs = {*find_unbroken_runs(joined, MIN_RUN_LENGTH)}
    tags = [tag_name for tag_name in TAG_NAMES if tag_name in folded_text]
    random_runs = [run for run in unbroken_runs if len(run) >= MIN_RANDOM_LENGTH and is_random(run)]
    spans = find_secret_spans(joined, folded_text, unbroken_runs)
    if not spans and not tags and not random_runs:
        return texts
    from bisect import bisect_right  # imported here to keep the hook's start fast

    starts = []  # where each text begins in the joined one
    start = 0
    for text in texts:
        starts.append(start)
        start += len(text) + 1
    hit_numbers = set[int]()
    for first, last in spans:  # a secret without an end may span several of the joined texts
        hit_numbers.update(range(bisect_right(starts, first) - 1, bisect_right(starts, last)))
    cleaned = []
    for number, text in enumerate(texts):
        has_random = any(run in text for run in random_runs)
        has_tag = bool(tags) and any(tag in fold_case(text) for tag in tags)
        has_hit = has_random or has_tag or number in hit_numbers
        cleaned.append(clean_text(text) if has_hit else text)
    return cleaned


def clean_state(state: Any) -> Any:
    """Clean the stored state of a transcript reader.

    Only strings of several words can hold a secret there; single words are ids.
    """
    texts = list(_find_sentences(state))
    cleaned_texts = clean_texts(texts)
    if cleaned_texts == texts:
        return state
    cleaned = dict(zip(texts, cleaned_texts, strict=True))
    return map_strings(state, lambda text, _: cleaned.get(text, text))


def _find_sentences(state: Any) -> Iterator[str]:
    """Yield the strings of several words in a JSON value, at any depth."""
    if isinstance(state, str):
        if " " in state or "\n" in state:
            yield state
    elif isinstance(state, dict):
        for value in state.values():
            yield from _find_sentences(value)
    elif isinstance(state, list | tuple):
        for value in state:
            yield from _find_sentences(value)
