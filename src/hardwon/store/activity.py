"""How long somebody was at work, by when things happened: a session may stay open for days."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

PAUSE_SECONDS = 300.0  # a longer gap between two events was a pause, and counts nothing


def count_active_minutes(times: Iterable[float]) -> float:
    """Return the minutes between events, without the pauses; times are seconds, in any order."""
    gaps = (later - earlier for earlier, later in pairwise(sorted(times)))
    return sum(gap for gap in gaps if gap <= PAUSE_SECONDS) / 60
