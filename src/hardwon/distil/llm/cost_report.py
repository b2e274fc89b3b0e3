"""Report what models cost by day, purpose, project and model, and how much of each cap is used today."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from typing import Any

from hardwon.store import runs
from hardwon.store.db import Connection

CAP_SETTINGS = {
    "runs": "runsPerDay",
    "tokens": "tokensPerDay",
    "dollars": "dollarsPerDay",
    "reflections": "reflectionsPerDay",
}
SUM_FIELDS = ("runs", "tokens_in", "tokens_out", "tokens_cached", "cost", "seconds")


def build_cost_report(connection: Connection, values: Mapping[str, Any], days: int, now: float) -> dict[str, Any]:
    """Return the totals of the last days, the refused calls, and today's use of the caps."""
    day = runs.find_budget_day(connection, now)
    since = (date.fromisoformat(day) - timedelta(days=days - 1)).isoformat()
    groups = {group: runs.sum_by_group(connection, group=group, since=since, now=now) for group in runs.GROUPS}
    spending = runs.read_spending(connection, day).__dict__
    return {
        "day": day,
        "days": days,
        "today": {name: {"used": spending[name], "cap": values[f"caps.{cap}"]} for name, cap in CAP_SETTINGS.items()},
        "refusals": runs.count_refusals(connection, since=since),
        "total": {name: sum(row[name] for row in groups["day"]) for name in SUM_FIELDS},
        "by": groups,
    }
