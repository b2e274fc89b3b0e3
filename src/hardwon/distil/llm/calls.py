"""A question on its way to a model: cleaned once more, booked, sent, and settled by how it ended.

Every attempt is booked by itself before it is sent, so that no retry gets past a cap. An answer nobody can use was paid
for all the same, and the ledger says what was wrong with it.
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
MAX_WAIT_SECONDS = 5.0  # seconds; who has to wait longer gives the turn to another job
FIRST_WAIT_SECONDS = 0.5
CAP_NAMES = ("runsPerDay", "tokensPerDay", "dollarsPerDay", "reflectionsPerDay")
FINE, ABORTED = "fine", "aborted"

T = TypeVar("T")


def get_caps(values: Mapping[str, Any]) -> dict[str, float]:
    """What a day may cost, by the settings."""
    return {name: values[f"caps.{name}"] for name in CAP_NAMES}


def ask_model(
    connection: Connection,
    provider: Provider,
    question: Question,
    read: Callable[[Answer], T],
    *,
    caps: Mapping[str, float],
    project: str = "",
    session: int | None = None,
    read_clock: Callable[[], float] = clock.now,
    pause: Callable[[float], None] = sleep,
    on_attempt: Callable[[], object] = lambda: None,
) -> T:
    """What `read` makes of the answer; Capped if a cap is reached, Busy if it is worth trying later.

    `on_attempt` is called ahead of each attempt: whoever holds a lease renews it there.
    """
    asked = replace(question, prompt=clean_text(question.prompt))
    for attempt in range(MAX_RETRIES + 1):
        on_attempt()
        try:
            return _once(connection, provider, asked, read, caps, project, session, read_clock)
        except Busy as busy:
            wait = FIRST_WAIT_SECONDS * 2**attempt if busy.retry_after is None else busy.retry_after
            if attempt == MAX_RETRIES or wait > MAX_WAIT_SECONDS or not busy.can_retry_now:
                raise
            pause(wait)
    raise AssertionError("the last attempt returns or raises")


def _once(
    connection: Connection,
    provider: Provider,
    asked: Question,
    read: Callable[[Answer], T],
    caps: Mapping[str, float],
    project: str,
    session: int | None,
    now: Callable[[], float],
) -> T:
    into = overestimate_tokens(asked.system) + overestimate_tokens(asked.prompt)
    most = Answer("", into, asked.max_tokens)
    booked = runs.book(
        connection,
        purpose=asked.purpose,
        provider=provider.name,
        model=provider.model,
        project=project,
        session=session,
        estimate_in=into,
        estimate_out=asked.max_tokens,
        estimate_cost=_cost(provider, most),
        caps=caps,
        now=now(),
    )
    if booked.id is None:
        raise Capped(booked.refusing_cap, booked.is_first_refusal)
    id, started, answer = booked.id, now(), None

    def settle(spent: Answer, outcome: str, why: str = "") -> None:
        runs.settle(
            connection,
            id,
            tokens_in=spent.tokens_in,
            tokens_out=spent.tokens_out,
            tokens_cached=spent.tokens_cached,
            cost=_cost(provider, spent),
            duration=max(now() - started, 0.0),
            outcome=outcome,
            why=why,
        )

    try:
        answer = provider.ask(asked)
        made = read(answer)
    except Failed as failed:
        settle(answer or failed.usage or (Answer("") if failed.is_free else most), failed.outcome, failed.reason)
        raise
    except BaseException:
        settle(answer or most, ABORTED)
        raise
    settle(answer, FINE)
    return made


def _cost(provider: Provider, spent: Answer) -> float:
    """Dollars: what the provider says, or what the table says of the model."""
    if spent.cost is not None:
        return spent.cost
    return prices.compute_cost(provider.model, spent.tokens_in, spent.tokens_out, spent.tokens_cached)
