"""What is asked of a model, what it answers, and every way in which that comes to nothing.

Nothing here holds a key: providers are given a function that reads it when it is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import Any

from hardwon.privacy.redaction import redact
from hardwon.privacy.truncation import trim
from hardwon.types import word

LONGEST_ANSWER = 1_000_000  # characters; no answer we can use is near it
LONGEST_WHY = 300
MOST_COUNTED = 1_000_000_000  # tokens; more is no count
_AGAIN = frozenset({408, 409, 425, 429})
_TURNED_AWAY = frozenset({401, 402, 403, 404, 405, 407})


@word
class Question:
    """What a model is asked, for which purpose, and how long the answer may get; it is given no tools."""

    system: str
    prompt: str
    purpose: str
    most_tokens: int = 4_000


@word
class Answer:
    """What came back; `tokens_in` counts those read from a cache too, `cost` is what the provider says it was."""

    text: str
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0
    model: str = ""
    cost: float | None = None


@word
class Provider:
    """Somebody who answers: the name in the settings, the model, and the call."""

    name: str
    model: str
    ask: Callable[[Question], Answer]


class Failed(Exception):
    """A call that gave nothing; `spent` is what it used, if that is known, `free` says that it cost nothing."""

    outcome = "broken"

    def __init__(self, why: str, *, outcome: str = "", spent: Answer | None = None, free: bool = False) -> None:
        super().__init__(why)
        self.why = why
        self.outcome = outcome or self.outcome
        self.spent = spent
        self.free = free


class Busy(Failed):
    """It may work later: after so many seconds, if the provider said when; `at_once` says a second attempt may help."""

    outcome = "busy"

    def __init__(
        self, why: str, retry_after: float | None = None, *, outcome: str = "", free: bool = False, at_once: bool = True
    ) -> None:
        super().__init__(why, outcome=outcome, free=free)
        self.retry_after = retry_after
        self.at_once = at_once


class Refused(Failed):
    """The model, or a filter around it, does not answer this."""

    outcome = "refused"


class Broken(Failed):
    """The answer is no use: cut off, not as asked for, or not true to what was sent."""


class Denied(Failed):
    """The provider turns everything away until a person changes something: a key, a model, an address."""

    outcome = "denied"


class Capped(Failed):
    """Nothing was sent: the cap of this name is reached; `first` says that nobody was told today."""

    outcome = "capped"

    def __init__(self, cap: str, first: bool = False) -> None:
        super().__init__(f"caps.{cap} is reached", free=True)
        self.cap = cap
        self.first = first


def timed_out(what: str, patience: float) -> Busy:
    """Whatever was slow is slow still, so it is not asked again at once."""
    return Busy(f"{what} within {patience:g} s", outcome="timeout", at_once=False)


def tokens(text: str) -> int:
    """About how many tokens a text has, rather too many than too few."""
    return len(text.encode("utf-8", "replace")) * 2 // 5 + 1


def counted(value: object, otherwise: int) -> int:
    """A provider's count of tokens, or ours where it gives none that can be one."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and 0 <= value <= MOST_COUNTED else otherwise  # type: ignore[operator,return-value]


def turned_away(status: int, body: object, wait: str | None, now: float, key: str) -> Failed:
    """What an HTTP status other than success means for us."""
    why = f"HTTP {status}: {said_by(body, key)}".rstrip(": ")
    if status in _AGAIN or status >= 500:
        return Busy(why, seconds(wait, now), free=True)
    if status in _TURNED_AWAY or status < 400:
        return Denied(why, free=True)
    return Broken(why, outcome="rejected", free=True)


def said_by(body: object, key: str) -> str:
    """A provider's own words about an error, fit to be shown: short, in one line, and without the key."""
    found = body
    while isinstance(found, Mapping) and (inner := found.get("error") or found.get("message")) is not None:
        found = inner
    return shown(found, key) if isinstance(found, str) else ""


def shown(text: str, key: str) -> str:
    """Text from outside as it may stand in the ledger: redacted before it is cut, for half a key is no key."""
    without = text.replace(key, "[redacted:key]") if key else text
    return trim(" ".join(redact(without[:20_000]).split()), LONGEST_WHY)


def seconds(wait: str | None, now: float) -> float | None:
    """A Retry-After header, in seconds or as a date, as seconds from now."""
    if not wait:
        return None
    try:
        after = float(wait)
    except ValueError:
        try:
            after = parsedate_to_datetime(wait).timestamp() - now
        except (ValueError, OverflowError):
            return None
    return min(max(after, 0.0), 86_400.0) if isfinite(after) else None


def mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
