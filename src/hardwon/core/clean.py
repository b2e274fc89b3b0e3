"""What may be kept of a text: private parts stripped first, then secrets replaced, so that neither hides the other."""

from __future__ import annotations

from hardwon.core.fold import fold
from hardwon.core.private import KINDS, strip
from hardwon.core.redact import hints, redact

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def clean(text: str) -> str:
    return redact(strip(text)) if text else text


def clean_all(texts: Sequence[str]) -> list[str]:
    """Each text cleaned. One look at all of them together tells which are worth a look by themselves."""
    joined = "\n".join(texts)
    low = fold(joined)
    suspects = [*hints(joined), *(kind for kind in KINDS if kind in low)]
    if not suspects:
        return list(texts)
    return [clean(text) if any(map(fold(text).__contains__, suspects)) else text for text in texts]
