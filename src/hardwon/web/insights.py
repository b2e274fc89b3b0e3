"""Insights: what goes wrong, whether a lesson covers it, whether lessons help, what models cost, when work happens."""

from __future__ import annotations

from collections import Counter
from datetime import date
from typing import Any

from hardwon import settings
from hardwon.lessons import manifest
from hardwon.store import runs, views
from hardwon.web import plots, trigger_check
from hardwon.web.page_request import Ask, Shown, number

SPANS = (7, 30, 90)
MOST_ERRORS, MOST_PROJECTS = 15, 12
JUDGED = 300  # deliveries, the latest, that are followed up


def page(ask: Ask) -> Shown:
    days = number(ask.query, "days") or SPANS[1]
    days = days if days in SPANS else SPANS[1]
    since = plots.midnight(ask.now, days)
    by_hour = views.sessions_by_hour(ask.connection, since)
    by_project = views.sessions_by_project(ask.connection, since, limit=MOST_PROJECTS)
    values = {
        "title": "Insights",
        "days": days,
        "spans": SPANS,
        "errors": plots.by_day(views.failures_by_day(ask.connection, since), ask.now, days),
        "repeated": _repeated(ask, since),
        **_deliveries(ask, since, days),
        **_spent(ask, since, days),
        "hours": plots.bars([(f"{hour:02}", by_hour.get(hour, 0), 0) for hour in range(24)]),
        "projects": by_project,
        "most_sessions": max([times for _, times in by_project], default=0),
    }
    return Shown("insights.html", values)


def _repeated(ask: Ask, since: float) -> list[dict[str, Any]]:
    """The most repeated errors, each with the lesson that speaks up about the call that met it last."""
    index = manifest.ensure(ask.home, ask.now)
    found = views.repeated(ask.connection, since, limit=MOST_ERRORS)
    return [{**one, "lesson": trigger_check.first_to_fire(index, one["call"])} for one in found]


def _deliveries(ask: Ask, since: float, days: int) -> dict[str, Any]:
    """Deliveries by day, and of the latest of them those after which the same went wrong again."""
    known = {lesson.id: lesson for lesson in manifest.gather(ask.home)[0]}
    latest = views.deliveries(ask.connection, since=since, limit=JUDGED)
    named = {one["lesson"] for one in latest} & known.keys()
    triggers = {id: trigger_check.trigger_of(known[id]) for id in named}
    repeats = trigger_check.repeats(ask.connection, triggers, latest)
    by_day, by_lesson = Counter[str](), dict[str, dict[str, Any]]()
    for one in latest:
        again = repeats[one["id"]] > 0
        by_day[date.fromtimestamp(one["at"]).isoformat()] += again
        row = by_lesson.setdefault(
            one["lesson"], {"slug": one["slug"], "summary": one["summary"], "times": 0, "again": 0}
        )
        row["times"] += 1
        row["again"] += again
    all_days = views.deliveries_by_day(ask.connection, since)
    return {
        "deliveries": plots.by_day(all_days, ask.now, days, part=by_day),
        "by_lesson": sorted(by_lesson.values(), key=lambda row: (-row["times"], row["slug"]))[:MOST_ERRORS],
        "judged": len(latest),
        "again": sum(by_day.values()),
    }


def _spent(ask: Ask, since: float, days: int) -> dict[str, Any]:
    """What models cost by day, against the caps."""
    caps = settings.resolve(settings.read_config(ask.home))
    first = runs.day_at(since)
    rows = {row["name"]: row for row in runs.totals(ask.connection, by="day", since=first, now=ask.now)}
    tokens = {day: row["tokens_in"] + row["tokens_out"] for day, row in rows.items()}
    costs = {day: row["cost"] for day, row in rows.items()}
    return {
        "tokens": plots.by_day(tokens, ask.now, days, limit=caps["caps.tokensPerDay"]),
        "costs": plots.by_day(costs, ask.now, days, limit=caps["caps.dollarsPerDay"]),
        "spent_days": list(rows.values()),
        "refusals": runs.refusals(ask.connection, since=first),
        "caps": {name: caps[f"caps.{name}"] for name in ("runsPerDay", "tokensPerDay", "dollarsPerDay")},
    }
