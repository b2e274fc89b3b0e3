"""Sessions that a person marked as sensitive, by a tag or a word in a prompt."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def has_sensitive_word(texts: Iterable[str], sensitive_words: Sequence[str]) -> bool:
    """Return whether a text contains one of the words as a whole word, ignoring case."""
    alternatives = "|".join(re.escape(word.strip()) for word in sensitive_words if word.strip())
    if not alternatives:
        return False
    # A tag begins with a character such as `#` that is not part of a word, so \b does not work.
    pattern = re.compile(rf"(?<![\w#])(?:{alternatives})(?!\w)", re.I)
    return any(pattern.search(text) for text in texts)
