"""A statement of a draft: a sentence with the lines of the transcript behind it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hardwon.store.reflections import Evidence
from hardwon.text.excerpts import shorten_line
from hardwon.text.similarity import compute_jaccard, tokenize
from hardwon.types import frozen

MAX_TOPIC_CHARS, MAX_LINE_CHARS = 160, 220
_SAME_THRESHOLD = 0.6
# An earlier statement with this share of its words makes a statement redundant.
_MIN_CONTAINED_WORDS, _CONTAINED_SHARE = 4, 0.9
# Matches a statement that only introduces a quotation, such as: Left out, says the agent: “The cache is missing.”
_QUOTED_STATEMENT = re.compile(r"[^“”]*: “([^“”]+)”")


@frozen
class Statement:
    """A sentence with its evidence in the transcript."""

    text: str
    evidence: tuple[Evidence, ...] = ()
    is_next_step: bool = False  # somebody said to do this next


def quote_text(text: str, max_chars: int) -> str:
    """Return the text in typographic quotation marks, without inner ones; empty stays empty."""
    line = shorten_line(text, max_chars).replace("“", '"').replace("”", '"')
    return f"“{line}”" if line else ""


def drop_near_duplicates(statements: Sequence[Statement]) -> list[Statement]:
    """Drop statements that repeat an earlier one in nearly the same words, also inside quotes."""
    unique_statements = list[Statement]()
    known_word_sets = list[frozenset[str]]()
    for statement in statements:
        quoted = _QUOTED_STATEMENT.fullmatch(statement.text)
        words = tokenize(quoted[1] if quoted else statement.text)
        if not any(_is_repeated(words, other) for other in known_word_sets):
            unique_statements.append(statement)
            known_word_sets.append(words)
    return unique_statements


def continues_cut_text(text: str, cut_text: str) -> bool:
    """Return whether a text says what follows in another one that was cut: its last words begin this one."""
    if not cut_text.endswith("…"):
        return False
    last_words = re.split(r"[.!?]\s+", cut_text.rstrip(" …"))[-1].strip()
    return len(last_words.split()) >= _MIN_CONTAINED_WORDS and text.startswith(last_words)


def _is_repeated(words: frozenset[str], other: frozenset[str]) -> bool:
    is_contained = len(words) >= _MIN_CONTAINED_WORDS and len(words & other) >= _CONTAINED_SHARE * len(words)
    return is_contained or compute_jaccard(words, other) >= _SAME_THRESHOLD
