"""The ledger of model calls, called runs, and the daily caps on their cost: tables `runs` and `refusals`.

A call is booked with its maximum cost before anything is sent, in the transaction that checks the caps. So parallel
processes never exceed a cap. The actual cost replaces the estimate when the call ends. If the process was killed, the
estimate stays, since the call may have been made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta

from hardwon.store.db import Connection, Row, fetch_dicts, fetch_value, insert_row, transaction
from hardwon.types import frozen

BEGUN, LOST = "begun", "lost"
LOST_SECONDS = 3600.0  # after which an unsettled run counts as lost
REFLECT = "reflect"  # the purpose that has a cap of its own
GROUPS = ("day", "purpose", "project", "model", "outcome")
_INSTANT = 1e-6
_MAX_WHY_CHARS = 500
_ROUNDING_DOLLARS = 1e-9  # the error of adding up floats


@dataclass(frozen=True, slots=True)
class Booking:
    """The id of a booked run; or the cap that refused it, and whether this is the first refusal of the day."""

    id: int | None
    refusing_cap: str = ""
    is_first_refusal: bool = False


@frozen
class DailySpending:
    """Usage that counts against the caps of a day."""

    runs: int
    tokens: int
    dollars: float
    reflections: int


def find_budget_day(connection: Connection, now: float) -> str:
    """Return the local day that a run counts for: today, or tomorrow if runs are already booked on it.

    A clock or time zone that moves back across midnight must not give a fresh allowance. Runs more than a day ahead
    come from a wrong clock, and must not block runs for months.
    """
    today = date.fromtimestamp(now)
    tomorrow = today + timedelta(days=1)
    query = "select max(day) from runs where day between ? and ?"
    latest_day = fetch_value(connection, query, today.isoformat(), tomorrow.isoformat())
    return str(latest_day or today.isoformat())


def to_local_day(at: float) -> str:
    """Return the calendar's day here at a time."""
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
    """Count a run before it is made, or return the cap that it would exceed."""
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
            is_first_refusal = _record_refusal(connection, day, refusing_cap, now)
            return Booking(id=None, refusing_cap=refusing_cap, is_first_refusal=is_first_refusal)
        # An export identifies runs by their times, so no two may have the same.
        latest = fetch_value(connection, "select max(at) from runs where day = ? and at < ?", day, now + 1)
        at = now if latest is None else max(now, latest + _INSTANT)
        row = {
            "at": at,
            "day": day,
            "purpose": purpose,
            "provider": provider,
            "model": model,
            "project": project,
            "session": session,
            "tokens_in": estimate_in,
            "tokens_out": estimate_out,
            "tokens_cached": 0,
            "cost": estimate_cost,
            "duration": 0.0,
            "outcome": BEGUN,
            "why": "",
        }
        return Booking(insert_row(connection, "runs", row).lastrowid)


def _record_refusal(connection: Connection, day: str, cap: str, now: float) -> bool:
    """Count a refusal; return whether it is the first of this cap and day."""
    query = """
        insert into refusals (day, cap, at, times) values (?, ?, ?, 1)
        on conflict (day, cap) do update set times = times + 1 returning times
        """
    return bool(fetch_value(connection, query, day, cap, now) == 1)


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
    """Replace the estimate of a booked run by what it came to; return False if it was settled before or is gone."""
    used = (tokens_in, tokens_out, tokens_cached, cost, duration, outcome, why[:_MAX_WHY_CHARS])
    changed = connection.execute(
        """
        update runs set tokens_in = ?, tokens_out = ?, tokens_cached = ?, cost = ?, duration = ?, outcome = ?, why = ?
        where id = ? and outcome = ?
        """,
        (*used, run_id, BEGUN),
    ).rowcount
    return changed > 0


def read_spending(connection: Connection, day: str) -> DailySpending:
    """Return the spending of a day, including runs that are booked and not settled."""
    row = connection.execute(
        """
        select count(*), coalesce(sum(tokens_in + tokens_out), 0), coalesce(sum(cost), 0.0),
            coalesce(sum(purpose = ?), 0)
        from runs where day = ?
        """,
        (REFLECT, day),
    ).fetchone()
    return DailySpending(*row)


def sum_by_group(connection: Connection, *, group: str, since: str, now: float) -> list[Row]:
    """Sum runs since a day (2026-11-16) by group: days in order, other groups by cost, highest first."""
    if group not in GROUPS:
        raise ValueError(f"{group} is none of {', '.join(GROUPS)}")
    name = group
    if group == "outcome":  # a run that was never settled is lost: its process was killed
        name = f"iif(outcome = '{BEGUN}' and at < ?1, '{LOST}', outcome)"
    order = "1" if group == "day" else "cost desc, runs desc, 1"
    query = f"""
        select {name} as name, count(*) as runs, sum(tokens_in) as tokens_in, sum(tokens_out) as tokens_out,
            sum(tokens_cached) as tokens_cached, sum(cost) as cost, sum(duration) as seconds
        from runs where day >= ?2 group by 1 order by {order}
        """
    return fetch_dicts(connection, query, now - LOST_SECONDS, since)


def count_refusals(connection: Connection, *, since: str) -> list[Row]:
    """Return how often each cap refused a run, by day."""
    return fetch_dicts(connection, "select day, cap, times from refusals where day >= ? order by day, cap", since)
