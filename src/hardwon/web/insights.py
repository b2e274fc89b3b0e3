"""The page Insights: errors and the lessons that cover them, whether lessons help, and sessions by project.

The page of a lesson uses its plots and its count of repeated failures too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from hardwon.efficacy.announcements import format_ignored_denials
from hardwon.efficacy.outcomes import Trigger, build_entry_trigger, build_trigger
from hardwon.lessons import manifest
from hardwon.store import efficacy, views
from hardwon.store.db import Connection
from hardwon.web.page_request import PageContent, PageRequest

DAY_SPANS = ("30", "7", "90")  # the first is the default
MAX_ERRORS, MAX_PROJECTS = 15, 12
MAX_JUDGED_DELIVERIES = 300  # the latest; each needs the later failures of its session
MAX_FAILURES = 5_000  # after the judged deliveries; matching more would take seconds


@dataclass(frozen=True, slots=True)
class Bar:
    """One day of a plot, and the part of its value that is shown in another colour."""

    name: str
    value: int
    part: int


@dataclass(frozen=True, slots=True)
class Plot:
    """Bars for a template to draw, with a table of the same numbers."""

    bars: list[Bar]
    peak: int
    total: int


def plot_by_day(values: Mapping[str, int], now: float, days: int, parts: Mapping[str, int] | None = None) -> Plot:
    """Plot the last days, also those without a value."""
    bars = []
    for days_ago in reversed(range(days)):
        name = (date.fromtimestamp(now) - timedelta(days=days_ago)).isoformat()
        bars.append(Bar(name, values.get(name, 0), (parts or {}).get(name, 0)))
    return Plot(bars, max(bar.value for bar in bars), sum(bar.value for bar in bars))


def find_range_start(now: float, days: int) -> float:
    """Return when the first of the last days began, in local time."""
    first = date.fromtimestamp(now) - timedelta(days=days - 1)
    return datetime(first.year, first.month, first.day).timestamp()


def show_insights(request: PageRequest) -> PageContent:
    days = int(request.choose("days", DAY_SPANS))
    since = find_range_start(request.now, days)
    by_project = views.count_sessions_by_project(request.connection, since, limit=MAX_PROJECTS)
    values = {
        "title": "Insights",
        "days": days,
        "spans": sorted(map(int, DAY_SPANS)),
        "errors": plot_by_day(views.count_failures_by_day(request.connection, since), request.now, days),
        "repeated": _list_repeated_errors(request, since),
        **_summarise_deliveries(request, since, days),
        "ignored_denials": format_ignored_denials(efficacy.list_ignored_denials(request.connection, since=since)),
        "projects": by_project,
        "most_sessions": max([count for _, count in by_project], default=0),
    }
    return PageContent("insights.html", values)


def _list_repeated_errors(request: PageRequest, since: float) -> list[dict[str, Any]]:
    """Return the most repeated errors, each with the lesson that fires on the call that met it last."""
    index = manifest.open_current_index(request.home, request.now)
    entries = [index.read_entry(number) for number in range(len(index))]
    repeated_errors = views.list_repeated_errors(request.connection, since, limit=MAX_ERRORS)
    for row in repeated_errors:
        row["lesson"] = next((entry for entry in entries if _fires_on(build_entry_trigger(entry), row["call"])), None)
    return repeated_errors


def _summarise_deliveries(request: PageRequest, since: float, days: int) -> dict[str, Any]:
    """Count deliveries by day and by lesson, and after how many of the latest the same error came again."""
    lessons_by_id = {lesson.id: lesson for lesson in manifest.gather_lessons(request.home)[0]}
    latest = views.list_lesson_deliveries(request.connection, since=since, limit=MAX_JUDGED_DELIVERIES)
    lesson_ids = {delivery["lesson"] for delivery in latest} & lessons_by_id.keys()
    triggers = {lesson_id: build_trigger(lessons_by_id[lesson_id]) for lesson_id in lesson_ids}
    repeats = count_repeats(request.connection, triggers, latest)
    repeats_by_day = Counter[str]()
    rows = dict[str, dict[str, Any]]()
    for delivery in latest:
        has_repeated = repeats[delivery["id"]] > 0
        repeats_by_day[date.fromtimestamp(delivery["at"]).isoformat()] += has_repeated
        row = rows.setdefault(delivery["lesson"], {**delivery, "times": 0, "again": 0})
        row["times"] += 1
        row["again"] += has_repeated
    delivery_counts = views.count_deliveries_by_day(request.connection, since)
    return {
        "deliveries": plot_by_day(delivery_counts, request.now, days, repeats_by_day),
        "by_lesson": sorted(rows.values(), key=lambda row: (-row["times"], row["slug"]))[:MAX_ERRORS],
        "judged": len(latest),
        "again": repeats_by_day.total(),
    }


def count_repeats(
    connection: Connection, triggers: Mapping[str, Trigger | None], deliveries: Sequence[Mapping[str, Any]]
) -> Counter[int]:
    """Count by delivery the later calls of the same session that failed and that the lesson fires on."""
    delivery_ids = [delivery["id"] for delivery in deliveries]
    repeat_counts = Counter[int]()
    for call in views.list_failures_after(connection, delivery_ids, limit=MAX_FAILURES):
        fires = triggers.get(call["lesson"])
        if fires and _fires_on(fires, call):
            repeat_counts[call["delivery"]] += 1
    return repeat_counts


def _fires_on(fires: Trigger, call: Mapping[str, Any]) -> bool:
    return fires(call["host"], call["cwd"], call["tool"], call["input"])
