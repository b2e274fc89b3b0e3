"""Plots as numbers: where each bar stands, for a template to draw. Each has its table, so nothing is only seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta

from hardwon.types import frozen

WIDTH, HEIGHT, GAP = 1000.0, 100.0, 0.2


@frozen
class Bar:
    """One bar: its name, its value and the part of it that stands out, and where both lie."""

    name: str
    value: float
    part: float
    x: float
    width: float
    y: float
    height: float
    part_y: float
    part_height: float


@frozen
class Plot:
    """Bars, the highest value, and at what height a limit lies if it is within sight."""

    bars: tuple[Bar, ...]
    most: float
    total: float
    limit: float | None = None
    limit_y: float | None = None


def build_plot(rows: Sequence[tuple[str, float, float]], limit: float | None = None) -> Plot:
    """A plot of names with a value and the part of it that stands out."""
    highest = max([value for _, value, _ in rows], default=0)
    scale = max(highest, min(limit, highest * 1.25) if limit else 0) or 1
    step = WIDTH / max(len(rows), 1)
    bars = []
    for index, (name, value, part) in enumerate(rows):
        height, part_height = HEIGHT * value / scale, HEIGHT * part / scale
        x, width = step * (index + GAP / 2), step * (1 - GAP)
        bars.append(Bar(name, value, part, x, width, HEIGHT - height, height, HEIGHT - part_height, part_height))
    is_limit_visible = limit is not None and limit <= scale
    limit_y = HEIGHT - HEIGHT * limit / scale if is_limit_visible and limit is not None else None
    return Plot(tuple(bars), highest, sum(value for _, value, _ in rows), limit, limit_y)


def plot_by_day(
    values: Mapping[str, float],
    now: float,
    days: int,
    *,
    part: Mapping[str, float] | None = None,
    limit: float | None = None,
) -> Plot:
    """The last days, those without anything too."""
    return build_plot([(day, values.get(day, 0), (part or {}).get(day, 0)) for day in list_days(now, days)], limit)


def list_days(now: float, days: int) -> list[str]:
    last = date.fromtimestamp(now)
    return [(last - timedelta(days=days_ago)).isoformat() for days_ago in range(days - 1, -1, -1)]


def find_range_start(now: float, days: int) -> float:
    """When the first of the last days began, here."""
    first = date.fromtimestamp(now) - timedelta(days=days - 1)
    return datetime(first.year, first.month, first.day).timestamp()
