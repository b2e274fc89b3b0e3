"""What is asked of a model, what it answers, and every way in which that comes to nothing.

Nothing here holds a key: providers are given a function that reads it when it is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import Annotated

import msgspec

from hardwon.privacy.redaction import redact_text
from hardwon.privacy.truncation import trim_text
from hardwon.types import frozen

MAX_ANSWER_CHARS = 1_000_000  # characters; no answer we can use is near it
MAX_REASON_CHARS = 300
MAX_TOKEN_COUNT = 1_000_000_000  # tokens; more is no count
TokenCount = Annotated[int, msgspec.Meta(ge=0, le=MAX_TOKEN_COUNT)]
_RETRY_STATUSES = frozenset({408, 409, 425, 429})
_DENIED_STATUSES = frozenset({401, 402, 403, 404, 405, 407})


@frozen
class Question:
    """What a model is asked, for which purpose, and how long the answer may get; it is given no tools."""

    system: str
    prompt: str
    purpose: str
    max_tokens: int = 4_000


@frozen
class Answer:
    """What came back; `tokens_in` counts those read from a cache too, `cost` is what the provider says it was."""

    text: str
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0
    model: str = ""
    cost: float | None = None


@frozen
class Provider:
    """Somebody who answers: the name in the settings, the model, and the call."""

    name: str
    model: str
    ask: Callable[[Question], Answer]


class MessagesUsage(msgspec.Struct):
    """What Anthropic's models say they used, over HTTP and through `claude`."""

    input_tokens: TokenCount | None = None
    output_tokens: TokenCount | None = None
    cache_creation_input_tokens: TokenCount | None = None
    cache_read_input_tokens: TokenCount | None = None

    def build_answer(self, text: str, question: Question, model: str, cost: float | None = None) -> Answer:
        """Return the answer with its counts; where none is given, ours is rather too high."""
        fresh = overestimate_input(question) if self.input_tokens is None else self.input_tokens
        tokens_out = overestimate_tokens(text) if self.output_tokens is None else self.output_tokens
        cached = self.cache_read_input_tokens or 0
        return Answer(text, fresh + (self.cache_creation_input_tokens or 0) + cached, tokens_out, cached, model, cost)


class Failed(Exception):
    """A call that gave nothing; `usage` is what it used, if that is known, `free` says that it cost nothing."""

    outcome = "broken"

    def __init__(self, reason: str, *, outcome: str = "", usage: Answer | None = None, is_free: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.outcome = outcome or self.outcome
        self.usage = usage
        self.is_free = is_free


class Busy(Failed):
    """It may work later: after so many seconds, if the provider said when.

    `can_retry_now` says a second attempt may help.
    """

    outcome = "busy"

    def __init__(
        self,
        reason: str,
        retry_after: float | None = None,
        *,
        outcome: str = "",
        is_free: bool = False,
        can_retry_now: bool = True,
    ) -> None:
        super().__init__(reason, outcome=outcome, is_free=is_free)
        self.retry_after = retry_after
        self.can_retry_now = can_retry_now


class Refused(Failed):
    """The model, or a filter around it, does not answer this."""

    outcome = "refused"


class Broken(Failed):
    """The answer is no use: cut off, not as asked for, or not true to what was sent."""


class Denied(Failed):
    """The provider turns everything away until a person changes something: a key, a model, an address."""

    outcome = "denied"


class Capped(Failed):
    """Nothing was sent: the cap of this name is reached; `is_first_today` says that nobody was told today."""

    outcome = "capped"

    def __init__(self, cap: str, is_first_today: bool = False) -> None:
        super().__init__(f"caps.{cap} is reached", is_free=True)
        self.cap = cap
        self.is_first_today = is_first_today


def build_timeout_error(problem: str, patience: float) -> Busy:
    """Return a failure that is not tried again at once: whatever was slow is slow still."""
    return Busy(f"{problem} within {patience:g} s", outcome="timeout", can_retry_now=False)


def overestimate_tokens(text: str) -> int:
    """Return about how many tokens a text has, rather too many than too few."""
    return len(text.encode("utf-8", "replace")) * 2 // 5 + 1


def overestimate_input(question: Question) -> int:
    return overestimate_tokens(question.system) + overestimate_tokens(question.prompt)


def build_status_error(status: int, body: object, retry_after: str | None, now: float, key: str) -> Failed:
    """Return what an HTTP status other than success means for us."""
    reason = f"HTTP {status}: {find_error_text(body, key)}".rstrip(": ")
    if status in _RETRY_STATUSES or status >= 500:
        return Busy(reason, parse_retry_after(retry_after, now), is_free=True)
    if status in _DENIED_STATUSES or status < 400:
        return Denied(reason, is_free=True)
    return Broken(reason, outcome="rejected", is_free=True)


def find_error_text(body: object, key: str) -> str:
    """Return a provider's own words about an error, fit to be shown: short, in one line, and without the key."""
    value = body
    while isinstance(value, Mapping) and (inner := value.get("error") or value.get("message")) is not None:
        value = inner
    return clean_error_text(value, key) if isinstance(value, str) else ""


def clean_error_text(text: str, key: str) -> str:
    """Return text as it may stand in the ledger: redacted before it is cut, since half a key is not recognised."""
    redacted = text.replace(key, "[redacted:key]") if key else text
    return trim_text(" ".join(redact_text(redacted[:20_000]).split()), MAX_REASON_CHARS)


def parse_retry_after(header: str | None, now: float) -> float | None:
    """Return the seconds that a Retry-After header, a number or a date, asks for."""
    if not header:
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(header).timestamp() - now
        except (ValueError, OverflowError):
            return None
    return min(max(seconds, 0.0), 86_400.0) if isfinite(seconds) else None
