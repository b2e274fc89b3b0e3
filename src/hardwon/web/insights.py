"""Insights: what goes wrong, whether a lesson covers it, whether lessons help, what models cost, when work happens."""

from __future__ import annotations

from collections import Counter
from datetime import date
from typing import Any

from hardwon import settings
from hardwon.lessons import manifest
from hardwon.store import runs, views
from hardwon.web import plots, trigger_check
from hardwon.web.page_request import PageContent, PageRequest, parse_number

DAY_SPANS = (7, 30, 90)
MAX_ERRORS, MAX_PROJECTS = 15, 12
MAX_JUDGED_DELIVERIES = 300  # deliveries, the latest, that are followed up


def show_insights(request: PageRequest) -> PageContent:
    days = parse_number(request.query, "days") or DAY_SPANS[1]
    days = days if days in DAY_SPANS else DAY_SPANS[1]
    since = plots.find_range_start(request.now, days)
    by_hour = views.count_sessions_by_hour(request.connection, since)
    by_project = views.count_sessions_by_project(request.connection, since, limit=MAX_PROJECTS)
    values = {
        "title": "Insights",
        "days": days,
        "spans": DAY_SPANS,
        "errors": plots.plot_by_day(views.count_failures_by_day(request.connection, since), request.now, days),
        "repeated": _list_repeated_errors(request, since),
        **_summarise_deliveries(request, since, days),
        **_summarise_spending(request, since, days),
        "hours": plots.build_plot([(f"{hour:02}", by_hour.get(hour, 0), 0) for hour in range(24)]),
        "projects": by_project,
        "most_sessions": max([count for _, count in by_project], default=0),
    }
    return PageContent("insights.html", values)


def _list_repeated_errors(request: PageRequest, since: float) -> list[dict[str, Any]]:
    """The most repeated errors, each with the lesson that speaks up about the call that met it last."""
    index = manifest.open_current_index(request.home, request.now)
    repeated_errors = views.list_repeated_errors(request.connection, since, limit=MAX_ERRORS)
    return [{**row, "lesson": trigger_check.find_firing_lesson(index, row["call"])} for row in repeated_errors]


def _summarise_deliveries(request: PageRequest, since: float, days: int) -> dict[str, Any]:
    """Deliveries by day, and of the latest of them those after which the same went wrong again."""
    lessons_by_id = {lesson.id: lesson for lesson in manifest.gather_lessons(request.home)[0]}
    latest = views.list_lesson_deliveries(request.connection, since=since, limit=MAX_JUDGED_DELIVERIES)
    lesson_ids = {delivery["lesson"] for delivery in latest} & lessons_by_id.keys()
    triggers = {lesson_id: trigger_check.build_trigger(lessons_by_id[lesson_id]) for lesson_id in lesson_ids}
    repeats = trigger_check.count_repeats(request.connection, triggers, latest)
    by_day, by_lesson = Counter[str](), dict[str, dict[str, Any]]()
    for delivery in latest:
        has_repeated = repeats[delivery["id"]] > 0
        by_day[date.fromtimestamp(delivery["at"]).isoformat()] += has_repeated
        row = by_lesson.setdefault(
            delivery["lesson"], {"slug": delivery["slug"], "summary": delivery["summary"], "times": 0, "again": 0}
        )
        row["times"] += 1
        row["again"] += has_repeated
    delivery_counts = views.count_deliveries_by_day(request.connection, since)
    return {
        "deliveries": plots.plot_by_day(delivery_counts, request.now, days, part=by_day),
        "by_lesson": sorted(by_lesson.values(), key=lambda row: (-row["times"], row["slug"]))[:MAX_ERRORS],
        "judged": len(latest),
        "again": sum(by_day.values()),
    }


def _summarise_spending(request: PageRequest, since: float, days: int) -> dict[str, Any]:
    """What models cost by day, against the caps."""
    caps = settings.resolve_settings(settings.read_config(request.home))
    first_day = runs.to_local_day(since)
    rows = {
        row["name"]: row for row in runs.sum_by_group(request.connection, group="day", since=first_day, now=request.now)
    }
    tokens = {day: row["tokens_in"] + row["tokens_out"] for day, row in rows.items()}
    costs = {day: row["cost"] for day, row in rows.items()}
    return {
        "tokens": plots.plot_by_day(tokens, request.now, days, limit=caps["caps.tokensPerDay"]),
        "costs": plots.plot_by_day(costs, request.now, days, limit=caps["caps.dollarsPerDay"]),
        "spent_days": list(rows.values()),
        "refusals": runs.count_refusals(request.connection, since=first_day),
        "caps": {name: caps[f"caps.{name}"] for name in ("runsPerDay", "tokensPerDay", "dollarsPerDay")},
    }
