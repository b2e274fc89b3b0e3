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


def show_insights(ask: PageRequest) -> PageContent:
    days = parse_number(ask.query, "days") or DAY_SPANS[1]
    days = days if days in DAY_SPANS else DAY_SPANS[1]
    since = plots.find_range_start(ask.now, days)
    by_hour = views.count_sessions_by_hour(ask.connection, since)
    by_project = views.count_sessions_by_project(ask.connection, since, limit=MAX_PROJECTS)
    values = {
        "title": "Insights",
        "days": days,
        "spans": DAY_SPANS,
        "errors": plots.plot_by_day(views.count_failures_by_day(ask.connection, since), ask.now, days),
        "repeated": _repeated(ask, since),
        **_deliveries(ask, since, days),
        **_spent(ask, since, days),
        "hours": plots.build_plot([(f"{hour:02}", by_hour.get(hour, 0), 0) for hour in range(24)]),
        "projects": by_project,
        "most_sessions": max([times for _, times in by_project], default=0),
    }
    return PageContent("insights.html", values)


def _repeated(ask: PageRequest, since: float) -> list[dict[str, Any]]:
    """The most repeated errors, each with the lesson that speaks up about the call that met it last."""
    index = manifest.open_current_index(ask.home, ask.now)
    found = views.list_repeated_errors(ask.connection, since, limit=MAX_ERRORS)
    return [{**one, "lesson": trigger_check.find_firing_lesson(index, one["call"])} for one in found]


def _deliveries(ask: PageRequest, since: float, days: int) -> dict[str, Any]:
    """Deliveries by day, and of the latest of them those after which the same went wrong again."""
    known = {lesson.id: lesson for lesson in manifest.gather_lessons(ask.home)[0]}
    latest = views.list_lesson_deliveries(ask.connection, since=since, limit=MAX_JUDGED_DELIVERIES)
    named = {one["lesson"] for one in latest} & known.keys()
    triggers = {id: trigger_check.build_trigger(known[id]) for id in named}
    repeats = trigger_check.count_repeats(ask.connection, triggers, latest)
    by_day, by_lesson = Counter[str](), dict[str, dict[str, Any]]()
    for one in latest:
        again = repeats[one["id"]] > 0
        by_day[date.fromtimestamp(one["at"]).isoformat()] += again
        row = by_lesson.setdefault(
            one["lesson"], {"slug": one["slug"], "summary": one["summary"], "times": 0, "again": 0}
        )
        row["times"] += 1
        row["again"] += again
    all_days = views.count_deliveries_by_day(ask.connection, since)
    return {
        "deliveries": plots.plot_by_day(all_days, ask.now, days, part=by_day),
        "by_lesson": sorted(by_lesson.values(), key=lambda row: (-row["times"], row["slug"]))[:MAX_ERRORS],
        "judged": len(latest),
        "again": sum(by_day.values()),
    }


def _spent(ask: PageRequest, since: float, days: int) -> dict[str, Any]:
    """What models cost by day, against the caps."""
    caps = settings.resolve_settings(settings.read_config(ask.home))
    first = runs.to_local_day(since)
    rows = {row["name"]: row for row in runs.sum_by_group(ask.connection, by="day", since=first, now=ask.now)}
    tokens = {day: row["tokens_in"] + row["tokens_out"] for day, row in rows.items()}
    costs = {day: row["cost"] for day, row in rows.items()}
    return {
        "tokens": plots.plot_by_day(tokens, ask.now, days, limit=caps["caps.tokensPerDay"]),
        "costs": plots.plot_by_day(costs, ask.now, days, limit=caps["caps.dollarsPerDay"]),
        "spent_days": list(rows.values()),
        "refusals": runs.count_refusals(ask.connection, since=first),
        "caps": {name: caps[f"caps.{name}"] for name in ("runsPerDay", "tokensPerDay", "dollarsPerDay")},
    }
