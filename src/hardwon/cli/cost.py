"""cost"""

from __future__ import annotations

import json
from datetime import date, timedelta
from typing import Any

import click

from hardwon import clock, paths, settings
from hardwon.cli.output import to_printable_line
from hardwon.store import db, runs

_NAME, _WIDTHS = 28, (7, 12, 12, 11, 10)
_CAPS = {"runs": "runsPerDay", "tokens": "tokensPerDay", "dollars": "dollarsPerDay", "reflections": "reflectionsPerDay"}
_SUMS = ("runs", "tokens_in", "tokens_out", "tokens_cached", "cost", "seconds")


@click.command()
@click.option("--days", default=30, show_default=True, type=click.IntRange(1, 3650), help="how far back")
@click.option("--json", "as_json", is_flag=True, help="print JSON")
def cost(days: int, as_json: bool) -> None:
    """What models were asked, by day, purpose, project and model, and how much of each cap is used today.

    Dollars are estimated. Tokens in include those a provider had cached.
    """
    home = paths.get_home()
    told = _told(db.connect(home), settings.resolve_settings(settings.read_config(home)), days)
    if as_json:
        click.echo(json.dumps(told, indent=2))
    elif told["total"]["runs"] or told["refusals"]:
        _say(told)
    else:
        click.echo(f"nothing was spent in {_span(days)}: no model was asked")


def _told(connection: db.Connection, values: dict[str, Any], days: int) -> dict[str, Any]:
    now = clock.now()
    day = runs.find_budget_day(connection, now)
    since = (date.fromisoformat(day) - timedelta(days=days - 1)).isoformat()
    by = {group: runs.sum_by_group(connection, by=group, since=since, now=now) for group in runs.GROUPS}
    spent = runs.read_spending(connection, day).__dict__
    return {
        "day": day,
        "days": days,
        "today": {name: {"used": spent[name], "cap": values[f"caps.{cap}"]} for name, cap in _CAPS.items()},
        "refusals": runs.count_refusals(connection, since=since),
        "total": {name: sum(one[name] for one in by["day"]) for name in _SUMS},
        "by": by,
    }


def _say(told: dict[str, Any]) -> None:
    for name, one in told["today"].items():
        lead = "today" if name == "runs" else ""
        click.echo(f"{lead:<10}{_number(name, one['used'])} of {_number(name, one['cap'])} {name}")
    for one in told["refusals"]:
        when = "today" if one["day"] == told["day"] else one["day"]
        times = "once" if one["times"] == 1 else f"{one['times']} times"
        click.echo(f"refused   {times} {when}, above caps.{one['cap']}: plain code did it")
    if told["total"]["runs"]:
        click.echo()
        _line(_span(told["days"]), "runs", "tokens in", "tokens out", "cached", "dollars")
        for group in runs.GROUPS:
            click.echo(f"by {group}")
            for one in told["by"][group]:
                _row(one["name"] or "-", one)
        _row("together", told["total"], indent="")


def _row(name: str, one: dict[str, Any], *, indent: str = "  ") -> None:
    """One group's sums; of a project the end of its path tells most."""
    label = to_printable_line(name)
    room = _NAME - len(indent) - 1
    label = label if len(label) <= room else f"…{label[-room + 1 :]}"
    counts = [f"{one[name]:,}" for name in ("runs", "tokens_in", "tokens_out", "tokens_cached")]
    _line(indent + label, *counts, f"{one['cost']:,.4f}")


def _line(name: str, *columns: str) -> None:
    cells = (f"{text:>{width}}" for text, width in zip(columns, _WIDTHS, strict=True))
    click.echo(f"{name:<{_NAME}}{''.join(cells)}")


def _number(name: str, value: float) -> str:
    return f"{round(value, 4):,}" if name == "dollars" else f"{value:,.0f}"


def _span(days: int) -> str:
    return "the last day" if days == 1 else f"the last {days} days"
