"""What may be kept of a text: private parts stripped first, then secrets replaced, so that neither hides the other."""

from __future__ import annotations

from hardwon.core.fold import fold
from hardwon.core.private import KINDS, mapped, strip
from hardwon.core.randomness import RUN, is_random, runs
from hardwon.core.redact import ROWS, SHORTEST, redact

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from hardwon.core.redact import Secret


def clean(text: str) -> str:
    return redact(strip(text)) if text else text


def clean_all(texts: Sequence[str]) -> list[str]:
    """Each text cleaned. One look at all of them together tells what each is to be looked through for."""
    rows, exact, folded = _hints("\n".join(texts))
    if not exact and not folded:
        return list(texts)
    return [_clean(text, rows) if _has(text, exact) or _has(fold(text), folded) else text for text in texts]


def _hints(joined: str) -> tuple[list[Secret], list[str], list[str]]:
    """The rows that may find something, and what a text to be cleaned has to hold: as it stands, or folded."""
    low, stretches = fold(joined), {*runs(joined, SHORTEST)}
    unbroken = "\n".join(stretches)
    rows: list[Secret] = []
    exact, folded = list[str](), [kind for kind in KINDS if kind in low]
    for row in ROWS:
        where = low if "folded" in row.how else unbroken if "unbroken" in row.how else joined
        if there := [literal for literal in row.literals if literal in where]:
            rows.append(row)
            (folded if "folded" in row.how else exact).extend(there)
    return rows, [*exact, *(one for one in stretches if len(one) >= RUN and is_random(one))], folded


def _has(text: str, parts: Sequence[str]) -> bool:
    return any(map(text.__contains__, parts))


def _clean(text: str, rows: Sequence[Secret]) -> str:
    """As `clean`, where only these rows can have a literal in the text."""
    stripped = strip(text)
    return redact(stripped, rows) if stripped == text else redact(stripped)


def clean_state(state: Any) -> Any:
    """What readers remember, fit to be kept: ids are one word, and what may hold a secret has several."""
    texts = list(_sentences(state))
    changed = {text: after for text, after in zip(texts, clean_all(texts), strict=True) if text is not after}
    return mapped(state, lambda text, _: changed.get(text, text)) if changed else state


def _sentences(state: Any) -> Iterator[str]:
    if isinstance(state, str):
        if " " in state or "\n" in state:
            yield state
    elif isinstance(state, dict | list | tuple):
        for value in state.values() if isinstance(state, dict) else state:
            yield from _sentences(value)
