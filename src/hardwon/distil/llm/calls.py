"""Ask a model within the caps: redact the question, book the call, send it, record the outcome, and report the costs.

Every attempt is booked before it is sent, so that no retry gets past a cap. An unusable answer still costs money, so
the ledger records it with the reason.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import date, timedelta
from functools import lru_cache
from importlib.resources import files
from time import sleep
from typing import Any, TypeVar

from hardwon import clock
from hardwon.distil.llm.exchange import Answer, Busy, Capped, Failed, Provider, Question, overestimate_tokens
from hardwon.privacy.cleaning import clean_text
from hardwon.store import runs
from hardwon.store.db import Connection
from hardwon.types import frozen, replace

_MAX_RETRIES = 2
MAX_WAIT_SECONDS = 5.0  # after a longer wait it is better to run another job first
FIRST_WAIT_SECONDS = 0.5
FINE, _ABORTED = "fine", "aborted"

T = TypeVar("T")
_DATE_SUFFIX = re.compile(r"[-@](?:\d{8}|\d{4}-\d\d-\d\d|latest)\Z")
# What is spent, and the setting that caps it for a day.
_CAP_SETTINGS = {
    "runs": "runsPerDay",
    "tokens": "tokensPerDay",
    "dollars": "dollarsPerDay",
    "reflections": "reflectionsPerDay",
}
_SUM_FIELDS = ("runs", "tokens_in", "tokens_out", "tokens_cached", "cost", "seconds")


def get_caps(values: Mapping[str, Any]) -> dict[str, float]:
    """Return the daily caps from the settings."""
    return {name: values[f"caps.{name}"] for name in _CAP_SETTINGS.values()}


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
    for attempt in range(_MAX_RETRIES + 1):
        on_attempt()
        try:
            return _attempt_call(
                connection, provider, cleaned_question, read_answer, caps, project, session, read_clock
            )
        except Busy as busy:
            wait = FIRST_WAIT_SECONDS * 2**attempt if busy.retry_after is None else busy.retry_after
            if attempt == _MAX_RETRIES or wait > MAX_WAIT_SECONDS or not busy.can_retry_now:
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
    run_id = booking.id
    started_at = read_clock()
    answer = None

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
        settle_run(answer or max_usage, _ABORTED)
        raise
    settle_run(answer, FINE)
    return result


def _compute_cost(provider: Provider, usage: Answer) -> float:
    """Return the cost in dollars as the provider states it, or from the price table."""
    if usage.cost is not None:
        return usage.cost
    return compute_cost(provider.model, usage.tokens_in, usage.tokens_out, usage.tokens_cached)


@frozen
class Price:
    """Dollars per million tokens, and the reasoning effort to ask for if the model takes one."""

    input_dollars: float
    cached_dollars: float
    output_dollars: float
    effort: str = ""


def find_price(model: str) -> Price:
    """Return the price of a model, ignoring a date suffix and a vendor prefix."""
    table = _load_table()
    name = _DATE_SUFFIX.sub("", model.rpartition("/")[2])
    row = table["models"].get(model) or table["models"].get(name) or table["unknown"]
    return Price(row["in"], row["cached"], row["out"], row.get("effort", ""))


def compute_cost(model: str, tokens_in: int, tokens_out: int, tokens_cached: int = 0) -> float:
    """Return dollars; `tokens_in` includes the cached ones."""
    price = find_price(model)
    uncached = max(tokens_in - tokens_cached, 0)
    return (
        uncached * price.input_dollars + tokens_cached * price.cached_dollars + tokens_out * price.output_dollars
    ) / 1_000_000


@lru_cache(maxsize=1)
def _load_table() -> dict[str, Any]:
    table: dict[str, Any] = json.loads(files("hardwon.distil.llm").joinpath("prices.json").read_text("utf-8"))
    return table


def build_cost_report(connection: Connection, values: Mapping[str, Any], days: int, now: float) -> dict[str, Any]:
    """Return the totals of the last days, the refused calls, and today's use of the caps."""
    day = runs.find_budget_day(connection, now)
    since = (date.fromisoformat(day) - timedelta(days=days - 1)).isoformat()
    groups = {group: runs.sum_by_group(connection, group=group, since=since, now=now) for group in runs.GROUPS}
    spending = runs.read_spending(connection, day).__dict__
    return {
        "day": day,
        "days": days,
        "today": {name: {"used": spending[name], "cap": values[f"caps.{cap}"]} for name, cap in _CAP_SETTINGS.items()},
        "refusals": runs.count_refusals(connection, since=since),
        "total": {name: sum(row[name] for row in groups["day"]) for name in _SUM_FIELDS},
        "by": groups,
    }
