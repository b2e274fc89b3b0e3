"""Sessions that a person marked as sensitive, by a tag or a word in a prompt."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def has_sensitive_word(texts: Iterable[str], sensitive_words: Sequence[str]) -> bool:
    """Return whether one of the texts holds one of the words, in any case, as a word of its own."""
    alternatives = "|".join(re.escape(word.strip()) for word in sensitive_words if word.strip())
    if not alternatives:
        return False
    # A tag begins with a sign that is no part of a word, so \b would not do.
    pattern = re.compile(rf"(?<![\w#])(?:{alternatives})(?!\w)", re.I)
    return any(pattern.search(text) for text in texts)
