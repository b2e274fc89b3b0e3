"""Run patterns in the worker, under a time limit.

A pattern that timed out on a text is not tried again on texts of that length or longer; on shorter ones it still
guards.
"""

from __future__ import annotations

import logging
import re
import warnings

import regex

from hardwon.lessons.matching import get_pattern_timeout
from hardwon.types import Pattern

log = logging.getLogger(__name__)


class PatternCache:
    """Compile and cache the patterns of one manifest."""

    def __init__(self) -> None:
        self._compiled: dict[Pattern, regex.Pattern[str] | None] = {}
        self._timeout_lengths: dict[Pattern, int] = {}

    def search(self, pattern: Pattern, text: str) -> bool:
        if pattern not in self._compiled:
            self._compiled[pattern] = _compile_pattern(pattern)
        compiled = self._compiled[pattern]
        if compiled is None or len(text) >= self._timeout_lengths.get(pattern, len(text) + 1):
            return False
        try:
            return compiled.search(text, timeout=get_pattern_timeout(text)) is not None
        except TimeoutError:
            log.warning("pattern %r took too long on %d characters", pattern, len(text))
            self._timeout_lengths[pattern] = len(text)
            return False


def convert_flags(flags: int) -> int:
    """Convert flags of `re` to `regex`, where the bit of `re.ASCII` means VERSION1."""
    ascii_only = regex.ASCII if flags & re.ASCII else 0
    return flags & ~re.ASCII | ascii_only | regex.VERSION0


def _compile_pattern(pattern: Pattern) -> regex.Pattern[str] | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return regex.compile(pattern.source, convert_flags(pattern.flags), cache_pattern=False)
        except (regex.error, ValueError) as error:
            log.warning("pattern %r is left out: %s", pattern, error)
            return None
