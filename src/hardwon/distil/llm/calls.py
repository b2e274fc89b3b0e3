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
from hardwon.distil.llm.exchange import Answer, Busy, Capped, Failed, Provider, Question, tokens
from hardwon.privacy.cleaning import clean
from hardwon.store import runs
from hardwon.store.db import Connection
from hardwon.types import replace

MOST_RETRIES = 2
PATIENCE = 5.0  # seconds; who has to wait longer gives the turn to another job
FIRST_WAIT = 0.5
CAPS = ("runsPerDay", "tokensPerDay", "dollarsPerDay", "reflectionsPerDay")
FINE, ABORTED = "fine", "aborted"

T = TypeVar("T")


def caps_of(values: Mapping[str, Any]) -> dict[str, float]:
    """What a day may cost, by the settings."""
    return {name: values[f"caps.{name}"] for name in CAPS}


def ask(
    connection: Connection,
    provider: Provider,
    question: Question,
    read: Callable[[Answer], T],
    *,
    caps: Mapping[str, float],
    project: str = "",
    session: int | None = None,
    now: Callable[[], float] = clock.now,
    pause: Callable[[float], None] = sleep,
    before: Callable[[], object] = lambda: None,
) -> T:
    """What `read` makes of the answer; Capped if a cap is reached, Busy if it is worth trying later.

    `before` is called ahead of each attempt: whoever holds a lease renews it there.
    """
    asked = replace(question, prompt=clean(question.prompt))
    for attempt in range(MOST_RETRIES + 1):
        before()
        try:
            return _once(connection, provider, asked, read, caps, project, session, now)
        except Busy as busy:
            wait = FIRST_WAIT * 2**attempt if busy.retry_after is None else busy.retry_after
            if attempt == MOST_RETRIES or wait > PATIENCE or not busy.at_once:
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
    into = tokens(asked.system) + tokens(asked.prompt)
    most = Answer("", into, asked.most_tokens)
    booked = runs.book(
        connection,
        purpose=asked.purpose,
        provider=provider.name,
        model=provider.model,
        project=project,
        session=session,
        estimate_in=into,
        estimate_out=asked.most_tokens,
        estimate_cost=_cost(provider, most),
        caps=caps,
        now=now(),
    )
    if booked.id is None:
        raise Capped(booked.refused, booked.refused_first_time)
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
        settle(answer or failed.spent or (Answer("") if failed.free else most), failed.outcome, failed.why)
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
    return prices.cost(provider.model, spent.tokens_in, spent.tokens_out, spent.tokens_cached)
