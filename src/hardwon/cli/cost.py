"""cost"""

from __future__ import annotations

import json
from datetime import date, timedelta
from typing import Any

import click

from hardwon import clock, paths, settings
from hardwon.cli.output import to_printable_line
from hardwon.store import db, runs

_NAME_WIDTH, _COLUMN_WIDTHS = 28, (7, 12, 12, 11, 10)
_CAP_SETTINGS = {
    "runs": "runsPerDay",
    "tokens": "tokensPerDay",
    "dollars": "dollarsPerDay",
    "reflections": "reflectionsPerDay",
}
_SUM_FIELDS = ("runs", "tokens_in", "tokens_out", "tokens_cached", "cost", "seconds")


@click.command()
@click.option("--days", default=30, show_default=True, type=click.IntRange(1, 3650), help="how far back")
@click.option("--json", "as_json", is_flag=True, help="print JSON")
def cost(days: int, as_json: bool) -> None:
    """What models were asked, by day, purpose, project and model, and how much of each cap is used today.

    Dollars are estimated. Tokens in include those a provider had cached.
    """
    home = paths.get_home()
    report = _build_report(db.connect(home), settings.resolve_settings(settings.read_config(home)), days)
    if as_json:
        click.echo(json.dumps(report, indent=2))
    elif report["total"]["runs"] or report["refusals"]:
        _print_report(report)
    else:
        click.echo(f"nothing was spent in {_format_span(days)}: no model was asked")


def _build_report(connection: db.Connection, values: dict[str, Any], days: int) -> dict[str, Any]:
    now = clock.now()
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


def _print_report(report: dict[str, Any]) -> None:
    for name, row in report["today"].items():
        lead = "today" if name == "runs" else ""
        click.echo(f"{lead:<10}{_format_number(name, row['used'])} of {_format_number(name, row['cap'])} {name}")
    for row in report["refusals"]:
        when = "today" if row["day"] == report["day"] else row["day"]
        times = "once" if row["times"] == 1 else f"{row['times']} times"
        click.echo(f"refused   {times} {when}, above caps.{row['cap']}: plain code did it")
    if report["total"]["runs"]:
        click.echo()
        _print_line(_format_span(report["days"]), "runs", "tokens in", "tokens out", "cached", "dollars")
        for group in runs.GROUPS:
            click.echo(f"by {group}")
            for row in report["by"][group]:
                _print_sums(row["name"] or "-", row)
        _print_sums("together", report["total"], indent="")


def _print_sums(name: str, sums: dict[str, Any], *, indent: str = "  ") -> None:
    """One group's sums; of a project the end of its path tells most."""
    label = to_printable_line(name)
    max_chars = _NAME_WIDTH - len(indent) - 1
    label = label if len(label) <= max_chars else f"…{label[-max_chars + 1 :]}"
    counts = [f"{sums[name]:,}" for name in ("runs", "tokens_in", "tokens_out", "tokens_cached")]
    _print_line(indent + label, *counts, f"{sums['cost']:,.4f}")


def _print_line(name: str, *columns: str) -> None:
    cells = (f"{text:>{width}}" for text, width in zip(columns, _COLUMN_WIDTHS, strict=True))
    click.echo(f"{name:<{_NAME_WIDTH}}{''.join(cells)}")


def _format_number(name: str, value: float) -> str:
    return f"{round(value, 4):,}" if name == "dollars" else f"{value:,.0f}"


def _format_span(days: int) -> str:
    return "the last day" if days == 1 else f"the last {days} days"
