"""Ask a model: redact the question, book the call against the caps, send it, and record the outcome.

Every attempt is booked before it is sent, so that no retry gets past a cap. An unusable answer still costs money, so
the ledger records it with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import sleep
from typing import Any, TypeVar

from hardwon import clock
from hardwon.distil.llm import prices
from hardwon.distil.llm.exchange import Answer, Busy, Capped, Failed, Provider, Question, overestimate_tokens
from hardwon.privacy.cleaning import clean_text
from hardwon.store import runs
from hardwon.store.db import Connection
from hardwon.types import replace

MAX_RETRIES = 2
MAX_WAIT_SECONDS = 5.0  # after a longer wait it is better to run another job first
FIRST_WAIT_SECONDS = 0.5
CAP_NAMES = ("runsPerDay", "tokensPerDay", "dollarsPerDay", "reflectionsPerDay")
FINE, ABORTED = "fine", "aborted"

T = TypeVar("T")


def get_caps(values: Mapping[str, Any]) -> dict[str, float]:
    """Return the daily caps from the settings."""
    return {name: values[f"caps.{name}"] for name in CAP_NAMES}


def ask_model(
    connection: Connection,
    provider: Provider,
    question: Question,
    read_answer: Callable[[Answer], T],
    *,
    caps: Mapping[str, float],
    project: str = "",
    session: int | None = None,
    read_clock: Callable[[], float] = clock.now,
    pause: Callable[[float], None] = sleep,
    on_attempt: Callable[[], object] = lambda: None,
) -> T:
    """Ask and return what `read_answer` makes of the answer; Capped at a cap, Busy if a later try may work.

    `on_attempt` is called before each attempt; the job runner renews its lease there.
    """
    cleaned_question = replace(question, prompt=clean_text(question.prompt))
    for attempt in range(MAX_RETRIES + 1):
        on_attempt()
        try:
            return _attempt_call(
                connection, provider, cleaned_question, read_answer, caps, project, session, read_clock
            )
        except Busy as busy:
            wait = FIRST_WAIT_SECONDS * 2**attempt if busy.retry_after is None else busy.retry_after
            if attempt == MAX_RETRIES or wait > MAX_WAIT_SECONDS or not busy.can_retry_now:
                raise
            pause(wait)
    raise AssertionError("the last attempt returns or raises")


def _attempt_call(
    connection: Connection,
    provider: Provider,
    question: Question,
    read_answer: Callable[[Answer], T],
    caps: Mapping[str, float],
    project: str,
    session: int | None,
    read_clock: Callable[[], float],
) -> T:
    input_tokens = overestimate_tokens(question.system) + overestimate_tokens(question.prompt)
    # Book the most that the call can use; the real figures replace it afterwards.
    max_usage = Answer("", input_tokens, question.max_tokens)
    booking = runs.book(
        connection,
        purpose=question.purpose,
        provider=provider.name,
        model=provider.model,
        project=project,
        session=session,
        estimate_in=input_tokens,
        estimate_out=question.max_tokens,
        estimate_cost=_compute_cost(provider, max_usage),
        caps=caps,
        now=read_clock(),
    )
    if booking.id is None:
        raise Capped(booking.refusing_cap, booking.is_first_refusal)
    run_id, started_at, answer = booking.id, read_clock(), None

    def settle_run(usage: Answer, outcome: str, reason: str = "") -> None:
        runs.settle(
            connection,
            run_id,
            tokens_in=usage.tokens_in,
            tokens_out=usage.tokens_out,
            tokens_cached=usage.tokens_cached,
            cost=_compute_cost(provider, usage),
            duration=max(read_clock() - started_at, 0.0),
            outcome=outcome,
            why=reason,
        )

    try:
        answer = provider.ask(question)
        result = read_answer(answer)
    except Failed as error:
        settle_run(answer or error.usage or (Answer("") if error.is_free else max_usage), error.outcome, error.reason)
        raise
    except BaseException:
        # An interrupted call may have been charged, so it counts in full.
        settle_run(answer or max_usage, ABORTED)
        raise
    settle_run(answer, FINE)
    return result


def _compute_cost(provider: Provider, usage: Answer) -> float:
    """Return the cost in dollars as the provider states it, or from the price table."""
    if usage.cost is not None:
        return usage.cost
    return prices.compute_cost(provider.model, usage.tokens_in, usage.tokens_out, usage.tokens_cached)
