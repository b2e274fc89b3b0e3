"""Define questions, answers, providers and the ways in which a call can fail.

Nothing here holds a key: providers get a function that reads it when it is needed.
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

MAX_ANSWER_CHARS = 1_000_000  # no usable answer is nearly this long
_MAX_REASON_CHARS = 300
_MAX_TOKEN_COUNT = 1_000_000_000  # a larger number is not a token count
TokenCount = Annotated[int, msgspec.Meta(ge=0, le=_MAX_TOKEN_COUNT)]
_RETRY_STATUSES = frozenset({408, 409, 425, 429})
_DENIED_STATUSES = frozenset({401, 402, 403, 404, 405, 407})


@frozen
class Question:
    """The text a model is asked, its purpose, and the longest answer; a model gets no tools."""

    system: str
    prompt: str
    purpose: str
    max_tokens: int = 4_000


@frozen
class Answer:
    """An answer; `tokens_in` includes cached tokens, `cost` is the provider's own figure."""

    text: str
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0
    model: str = ""
    cost: float | None = None


@frozen
class Provider:
    """A configured provider: its name in the settings, the model, and the function that asks it."""

    name: str
    model: str
    ask: Callable[[Question], Answer]


class MessagesUsage(msgspec.Struct):
    """Token counts of Anthropic's models, over HTTP and through `claude`."""

    input_tokens: TokenCount | None = None
    output_tokens: TokenCount | None = None
    cache_creation_input_tokens: TokenCount | None = None
    cache_read_input_tokens: TokenCount | None = None

    def build_answer(self, text: str, question: Question, model: str, cost: float | None = None) -> Answer:
        """Build the answer with its token counts; missing counts are overestimated."""
        fresh = overestimate_input(question) if self.input_tokens is None else self.input_tokens
        tokens_out = overestimate_tokens(text) if self.output_tokens is None else self.output_tokens
        cached = self.cache_read_input_tokens or 0
        return Answer(text, fresh + (self.cache_creation_input_tokens or 0) + cached, tokens_out, cached, model, cost)


class Failed(Exception):
    """A call without a usable answer; `usage` is what it used if known, `is_free` means that it cost nothing."""

    outcome = "broken"

    def __init__(self, reason: str, *, outcome: str = "", usage: Answer | None = None, is_free: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.outcome = outcome or self.outcome
        self.usage = usage
        self.is_free = is_free


class Busy(Failed):
    """A call that may work later, after `retry_after` seconds if the provider said so.

    `can_retry_now` says whether an immediate second attempt may help.
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
    """The model, or a filter in front of it, refused to answer."""

    outcome = "refused"


class Broken(Failed):
    """The answer is unusable: cut off, in the wrong format, or not true to what was sent."""


class Denied(Failed):
    """The provider rejects every call until a person changes a key, a model or an address."""

    outcome = "denied"


class Capped(Failed):
    """A cap was reached and nothing was sent; `is_first_today` if it is the first refusal of the day."""

    outcome = "capped"

    def __init__(self, cap: str, is_first_today: bool = False) -> None:
        super().__init__(f"caps.{cap} is reached", is_free=True)
        self.cap = cap
        self.is_first_today = is_first_today


def build_timeout_error(problem: str, patience: float) -> Busy:
    """Build a failure without an immediate retry, because whatever was slow probably still is."""
    return Busy(f"{problem} within {patience:g} s", outcome="timeout", can_retry_now=False)


def overestimate_tokens(text: str) -> int:
    """Estimate the number of tokens, rather too high than too low, so that caps hold."""
    return len(text.encode("utf-8", "replace")) * 2 // 5 + 1


def overestimate_input(question: Question) -> int:
    return overestimate_tokens(question.system) + overestimate_tokens(question.prompt)


def build_status_error(status: int, body: object, retry_after: str | None, now: float, key: str) -> Failed:
    """Convert an HTTP error status to a failure."""
    reason = f"HTTP {status}: {find_error_text(body, key)}".rstrip(": ")
    if status in _RETRY_STATUSES or status >= 500:
        return Busy(reason, parse_retry_after(retry_after, now), is_free=True)
    # Redirects are not followed, so a person has to change the address.
    if status in _DENIED_STATUSES or status < 400:
        return Denied(reason, is_free=True)
    return Broken(reason, outcome="rejected", is_free=True)


def find_error_text(body: object, key: str) -> str:
    """Return the provider's error message, shortened to one line and without the key."""
    value = body
    while isinstance(value, Mapping) and (inner := value.get("error") or value.get("message")) is not None:
        value = inner
    return clean_error_text(value, key) if isinstance(value, str) else ""


def clean_error_text(text: str, key: str) -> str:
    """Redact and shorten an error for the ledger, in this order: half a key would not be recognised."""
    redacted = text.replace(key, "[redacted:key]") if key else text
    return trim_text(" ".join(redact_text(redacted[:20_000]).split()), _MAX_REASON_CHARS)


def parse_retry_after(header: str | None, now: float) -> float | None:
    """Return the seconds that a Retry-After header asks for, given as a number or a date."""
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
