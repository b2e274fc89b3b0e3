"""What may be kept of a text: private parts stripped first, then secrets replaced, so that neither hides the other."""

from __future__ import annotations

from hardwon.core.fold import fold
from hardwon.core.private import KINDS, strip
from hardwon.core.randomness import is_random, runs
from hardwon.core.redact import redact, rows_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from hardwon.core.redact import Secret


def clean(text: str) -> str:
    return redact(strip(text)) if text else text


def clean_all(texts: Sequence[str]) -> list[str]:
    """Each text cleaned. One look at all of them together tells what each is to be looked through for."""
    joined = "\n".join(texts)
    low = fold(joined)
    rows = rows_in(joined)
    exact = [literal for row in rows if "folded" not in row.how for literal in row.literals if literal in joined]
    exact += filter(is_random, {*runs(joined)})
    folded = [literal for row in rows if "folded" in row.how for literal in row.literals if literal in low]
    folded += [kind for kind in KINDS if kind in low]
    if not exact and not folded:
        return list(texts)
    return [_clean(text, rows) if _has(text, exact) or _has(fold(text), folded) else text for text in texts]


def _has(text: str, parts: Sequence[str]) -> bool:
    return any(map(text.__contains__, parts))


def _clean(text: str, rows: Sequence[Secret]) -> str:
    """As `clean`, where only these rows can have a literal in the text."""
    stripped = strip(text)
    return redact(stripped, rows) if stripped == text else redact(stripped)


def clean_state(state: Any) -> Any:
    """What readers remember, fit to be kept: ids are one word, and what may hold a secret has several."""
    if isinstance(state, str):
        return clean(state) if " " in state or "\n" in state else state
    if isinstance(state, dict):
        return {key: clean_state(value) for key, value in state.items()}
    return [clean_state(value) for value in state] if isinstance(state, list | tuple) else state
