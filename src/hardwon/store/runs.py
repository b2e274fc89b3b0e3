"""Runs: the ledger of model calls, and the caps on what a day may cost.

A call is booked with what it will cost at most, in the transaction that looks at the caps, before anything is sent; so
however many processes ask at once, none gets past a cap. What it did cost takes the estimate's place when it has ended.
Of a process that was killed the estimate stays, since the call may have been made.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from typing import Any

from hardwon.store.db import Connection, to_storable, transaction
from hardwon.types import Run, frozen

BEGUN, LOST = "begun", "lost"
LOST_SECONDS = 3600.0  # after which a run that nobody settled is called lost
REFLECT = "reflect"  # the purpose that has a cap of its own
GROUPS = ("day", "purpose", "project", "model", "outcome")
_INSTANT = 1e-6
_MAX_WHY_CHARS = 500
_ROUNDING_DOLLARS = 1e-9  # dollars that adding up may be wrong by
_COLUMNS = ", ".join(Run.__annotations__)


@frozen
class Booking:
    """A run that may be made, by its id; or the cap that refuses it, and whether that is to be said."""

    id: int | None
    refusing_cap: str = ""
    is_first_refusal: bool = False


@frozen
class DailySpending:
    """What counts against the caps of a day."""

    runs: int
    tokens: int
    dollars: float
    reflections: int


def find_budget_day(connection: Connection, now: float) -> str:
    """The day that counts: the calendar's here, or the day after if runs were booked on that already.

    A clock or a time zone that goes back across midnight must not bring a fresh allowance. More than a day ahead was a
    clock that was wrong, and must not keep anybody waiting for months.
    """
    today = date.fromtimestamp(now)
    booked_day = connection.execute(
        "select max(day) from runs where day between ? and ?",
        (today.isoformat(), (today + timedelta(days=1)).isoformat()),
    ).fetchone()[0]
    return str(booked_day or today.isoformat())


def to_local_day(at: float) -> str:
    """The calendar's day here at a time."""
    return date.fromtimestamp(at).isoformat()


def book(
    connection: Connection,
    *,
    purpose: str,
    provider: str,
    model: str,
    project: str,
    session: int | None,
    estimate_in: int,
    estimate_out: int,
    estimate_cost: float,
    caps: Mapping[str, float],
    now: float,
) -> Booking:
    """Count a run before it is made, or say which cap it would pass."""
    with transaction(connection):
        day = find_budget_day(connection, now)
        spending = read_spending(connection, day)
        totals = {
            "runsPerDay": spending.runs + 1,
            "tokensPerDay": spending.tokens + estimate_in + estimate_out,
            "dollarsPerDay": spending.dollars + estimate_cost - _ROUNDING_DOLLARS,
            "reflectionsPerDay": spending.reflections + 1 if purpose == REFLECT else 0,
        }
        refusing_cap = next((name for name, value in totals.items() if value > caps[name]), "")
        if refusing_cap:
            return Booking(None, refusing_cap, _record_refusal(connection, day, refusing_cap, now))
        # The time tells one run from another wherever they are taken, so no two have the same.
        latest = connection.execute("select max(at) from runs where day = ? and at < ?", (day, now + 1)).fetchone()[0]
        at = now if latest is None or latest < now else latest + _INSTANT
        values = (at, day, purpose, provider, model, project, session, estimate_in, estimate_out, estimate_cost, BEGUN)
        run_id = connection.execute(
            "insert into runs (at, day, purpose, provider, model, project, session, tokens_in, tokens_out,"
            " tokens_cached, cost, duration, outcome, why) values (?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, 0, ?, '')",
            tuple(map(to_storable, values)),
        ).lastrowid
    return Booking(run_id)


def _record_refusal(connection: Connection, day: str, cap: str, now: float) -> bool:
    times: int = connection.execute(
        "insert into refusals (day, cap, at, times) values (?, ?, ?, 1)"
        " on conflict (day, cap) do update set times = times + 1 returning times",
        (day, cap, now),
    ).fetchone()[0]
    return times == 1


def settle(
    connection: Connection,
    run_id: int,
    *,
    tokens_in: int,
    tokens_out: int,
    tokens_cached: int,
    cost: float,
    duration: float,
    outcome: str,
    why: str = "",
) -> bool:
    """What a booked run came to, in place of the estimate; False if it was settled before or is gone."""
    return bool(
        connection.execute(
            "update runs set tokens_in = ?, tokens_out = ?, tokens_cached = ?, cost = ?, duration = ?, outcome = ?,"
            " why = ? where id = ? and outcome = ?",
            (
                tokens_in,
                tokens_out,
                tokens_cached,
                cost,
                duration,
                outcome,
                to_storable(why[:_MAX_WHY_CHARS]),
                run_id,
                BEGUN,
            ),
        ).rowcount
    )


def read_spending(connection: Connection, day: str) -> DailySpending:
    """What was spent on a day, what is booked and not settled included."""
    row = connection.execute(
        "select count(*), coalesce(sum(tokens_in + tokens_out), 0), coalesce(sum(cost), 0.0),"
        " coalesce(sum(purpose = ?), 0) from runs where day = ?",
        (REFLECT, day),
    ).fetchone()
    return DailySpending(*row)


def sum_by_group(connection: Connection, *, group: str, since: str, now: float) -> list[dict[str, Any]]:
    """What runs came to since a day (2026-11-16): by day in order, by anything else what cost most first."""
    if group not in GROUPS:
        raise ValueError(f"{group} is none of {', '.join(GROUPS)}")
    name = f"iif(outcome = '{BEGUN}' and at < ?1, '{LOST}', outcome)" if group == "outcome" else group
    rows = connection.execute(
        f"select {name} as name, count(*) as runs, sum(tokens_in) as tokens_in, sum(tokens_out) as tokens_out,"
        " sum(tokens_cached) as tokens_cached, sum(cost) as cost, sum(duration) as seconds from runs where day >= ?2"
        f" group by 1 order by {'1' if group == 'day' else 'cost desc, runs desc, 1'}",
        (now - LOST_SECONDS, since),
    )
    return [dict(row) for row in rows]


def count_refusals(connection: Connection, *, since: str) -> list[dict[str, Any]]:
    """How often each cap refused a run, by day."""
    rows = connection.execute("select day, cap, times from refusals where day >= ? order by day, cap", (since,))
    return [dict(row) for row in rows]


def list_latest_runs(connection: Connection, *, limit: int, now: float) -> list[Run]:
    """The last runs, newest first; one that was never settled is lost after a while."""
    rows = connection.execute(f"select {_COLUMNS} from runs order by at desc limit ?", (limit,))
    runs = [Run(*row) for row in rows]
    return [_mark_lost(run, now) for run in runs]


def _mark_lost(run: Run, now: float) -> Run:
    is_lost = run.outcome == BEGUN and run.at < now - LOST_SECONDS
    return Run(**{**run.__dict__, "outcome": LOST}) if is_lost else run
