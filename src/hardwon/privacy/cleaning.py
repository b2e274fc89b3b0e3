"""What may be kept of a text: private parts stripped first, then secrets replaced, so that neither hides the other."""

from __future__ import annotations

from hardwon.privacy.private_tags import TAG_NAMES, map_strings, strip_private
from hardwon.privacy.randomness import MIN_RANDOM_LENGTH, find_unbroken_runs, is_random
from hardwon.privacy.redaction import MIN_RUN_LENGTH, find_secret_spans, redact_text
from hardwon.text.case_folding import fold_case

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any


def clean_text(text: str) -> str:
    return redact_text(strip_private(text)) if text else text


def clean_texts(texts: Sequence[str]) -> list[str]:
    """Each text cleaned. One look at all of them together tells in which there is something to clean."""
    joined = "\n".join(texts)
    low, stretches = fold_case(joined), {*find_unbroken_runs(joined, MIN_RUN_LENGTH)}
    tags = [kind for kind in TAG_NAMES if kind in low]
    random = [stretch for stretch in stretches if len(stretch) >= MIN_RANDOM_LENGTH and is_random(stretch)]
    spans = find_secret_spans(joined, low, stretches)
    if not spans and not tags and not random:
        return list(texts)
    from bisect import bisect_right  # the hook's path has no use for it

    starts, start = [], 0
    for text in texts:
        starts.append(start)
        start += len(text) + 1
    hit = set[int]()
    for first, last in spans:  # one that opens in a text and does not end may reach into others
        hit.update(range(bisect_right(starts, first) - 1, bisect_right(starts, last)))
    return [
        clean_text(text)
        if number in hit or (random and _has(text, random)) or (tags and _has(fold_case(text), tags))
        else text
        for number, text in enumerate(texts)
    ]


def _has(text: str, parts: Sequence[str]) -> bool:
    return any(map(text.__contains__, parts))


def clean_state(state: Any) -> Any:
    """What readers remember, fit to be kept: ids are one word, and what may hold a secret has several."""
    texts = list(_sentences(state))
    changed = {text: after for text, after in zip(texts, clean_texts(texts), strict=True) if text is not after}
    return map_strings(state, lambda text, _: changed.get(text, text)) if changed else state


def _sentences(state: Any) -> Iterator[str]:
    if isinstance(state, str):
        if " " in state or "\n" in state:
            yield state
    elif isinstance(state, dict | list | tuple):
        for value in state.values() if isinstance(state, dict) else state:
            yield from _sentences(value)
