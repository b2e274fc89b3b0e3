"""The page Insights: errors and the lessons that cover them, whether lessons help, and sessions by project.

Other pages use its plots, its repeated errors and its count of failures that a lesson did not prevent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from hardwon.agents.tool_results import get_stored_result_text
from hardwon.efficacy.delivery_changes import format_ignored_denials
from hardwon.efficacy.outcomes import Trigger, build_entry_trigger, build_trigger, parse_candidate
from hardwon.lessons import manifest, review_queue
from hardwon.shell.failures import classify_failure, find_failure_line
from hardwon.store import efficacy, views
from hardwon.store.db import Connection, Row
from hardwon.types import SHELL_TOOL
from hardwon.web.page_request import PageContent, PageRequest, count_days_since, find_range_start
from hardwon.web.render import describe_input

_DAY_SPANS = ("7", "30", "90", "all")
_DEFAULT_DAYS = (30, 90)  # the first that has a session; all time if none has, as with imported history
_MAX_PLOT_DAYS = 366
_MAX_ERRORS, _MAX_PROJECTS = 15, 12
_MAX_JUDGED_DELIVERIES = 300  # the latest; each needs the later failures of its session
_MAX_FAILURES = 5_000  # after the judged deliveries; matching more would take seconds
# The agent's own tools, and the code under work: a lesson about them prevents nothing.
_NO_LESSON_KINDS = ("anchor", "precondition", "cancelled", "code")


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
    """Plot the last days, also those without a value; `parts` are how much of each day's value is set apart."""
    today = date.fromtimestamp(now)
    bars = []
    for days_ago in reversed(range(days)):
        day = (today - timedelta(days=days_ago)).isoformat()
        part = parts.get(day, 0) if parts else 0
        bars.append(Bar(day, values.get(day, 0), part))
    highest_value = max(bar.value for bar in bars)
    total = sum(bar.value for bar in bars)
    return Plot(bars, highest_value, total)


def show_insights(request: PageRequest) -> PageContent:
    """Show errors, deliveries and sessions over the days that the person chose, or over a span that has sessions."""
    span = request.choose("days", ("", *_DAY_SPANS)) or _choose_span(request)
    if span == "all":
        since = 0.0
        days = min(_MAX_PLOT_DAYS, count_days_since(views.find_first_event_time(request.connection), request.now))
    else:
        days = int(span)
        since = find_range_start(request.now, days)
    by_project = views.count_sessions_by_project(request.connection, since, limit=_MAX_PROJECTS)
    values = {
        "title": "Insights",
        "span": span,
        "spans": {"7": "7 days", "30": "30 days", "90": "90 days", "all": "All time"},
        "errors": plot_by_day(views.count_failures_by_day(request.connection, since), request.now, days),
        "repeated": list_repeated_errors(request, since, limit=_MAX_ERRORS),
        **_summarise_deliveries(request, since, days),
        "ignored_denials": format_ignored_denials(efficacy.list_ignored_denials(request.connection, since=since)),
        "projects": by_project,
        "most_sessions": max([count for _, count in by_project], default=0),
    }
    return PageContent("insights.html", values)


def _choose_span(request: PageRequest) -> str:
    """Return the shortest span in which there was a session; "all" if none had one."""
    for days in _DEFAULT_DAYS:
        if views.count_activity(request.connection, find_range_start(request.now, days))["sessions"]:
            return str(days)
    return "all"


def _summarise_deliveries(request: PageRequest, since: float, days: int) -> dict[str, Any]:
    """Count deliveries by day and by lesson, and after how many of the latest the same error came again."""
    lessons_by_id = {lesson.id: lesson for lesson in manifest.gather_lessons(request.home).lessons}
    latest = views.list_lesson_deliveries(request.connection, since=since, limit=_MAX_JUDGED_DELIVERIES)
    lesson_ids = {delivery["lesson"] for delivery in latest} & lessons_by_id.keys()
    triggers = {lesson_id: build_trigger(lessons_by_id[lesson_id]) for lesson_id in lesson_ids}
    repeats = count_repeats(request.connection, triggers, latest)
    repeats_by_day = Counter[str]()
    rows = dict[str, Row]()
    for delivery in latest:
        row = rows.setdefault(delivery["lesson"], {**delivery, "times": 0, "again": 0})
        row["times"] += 1
        has_repeated = repeats[delivery["id"]] > 0
        if has_repeated:
            row["again"] += 1
            day = date.fromtimestamp(delivery["at"]).isoformat()
            repeats_by_day[day] += 1
    delivery_counts = views.count_deliveries_by_day(request.connection, since)
    return {
        "deliveries": plot_by_day(delivery_counts, request.now, days, repeats_by_day),
        "by_lesson": sorted(rows.values(), key=lambda row: (-row["times"], row["slug"]))[:_MAX_ERRORS],
        "judged": len(latest),
        "again": repeats_by_day.total(),
    }


def count_repeats(
    connection: Connection, triggers: Mapping[str, Trigger | None], deliveries: Sequence[Row]
) -> Counter[int]:
    """Count by delivery the later calls of the same session that failed and that the lesson fires on."""
    delivery_ids = [delivery["id"] for delivery in deliveries]
    repeat_counts = Counter[int]()
    for call in views.list_failures_after(connection, delivery_ids, limit=_MAX_FAILURES):
        fires = triggers.get(call["lesson"])
        if fires and fires(call["host"], call["cwd"], call["tool"], call["input"]):
            repeat_counts[call["delivery"]] += 1
    return repeat_counts


@dataclass(frozen=True, slots=True)
class RepeatedError:
    """An error that came more than once, the latest call that met it, and what is known about it."""

    times: int
    sessions: int
    at: float
    call: Row
    message: str
    lesson_slug: str = ""
    candidate_number: int | None = None
    may_become_lesson: bool = True

    @property
    def is_about_habit(self) -> bool:
        """Return whether a lesson could prevent it, or does so already."""
        return self.may_become_lesson or bool(self.lesson_slug) or self.candidate_number is not None


def list_repeated_errors(request: PageRequest, since: float, *, limit: int) -> list[RepeatedError]:
    """Return the errors that came most often, each with the lesson or the proposal that fires on its latest call."""
    index = manifest.open_current_index(request.home, request.now)
    lesson_triggers = [(entry.slug, build_entry_trigger(entry)) for entry in index.read_all_entries()]
    candidate_triggers = []
    for candidate in review_queue.list_waiting(request.home, request.connection):
        proposed = parse_candidate(candidate)
        if proposed and (trigger := build_trigger(proposed)):
            candidate_triggers.append((candidate.number, trigger))
    repeated_errors = []
    for row in views.list_repeated_errors(request.connection, since, limit=limit):
        call = row["call"]
        call_values = (call["host"], call["cwd"], call["tool"], call["input"])
        message, may_become_lesson = describe_failure(call)
        repeated_errors.append(
            RepeatedError(
                times=row["times"],
                sessions=row["sessions"],
                at=row["at"],
                call=call,
                message=message or row["signature"],
                lesson_slug=next((slug for slug, fires in lesson_triggers if fires(*call_values)), ""),
                candidate_number=next((number for number, fires in candidate_triggers if fires(*call_values)), None),
                may_become_lesson=may_become_lesson,
            )
        )
    return repeated_errors


def describe_failure(call: Row) -> tuple[str, bool]:
    """Return the line of a failed call's result that names the failure, and whether a lesson could prevent it."""
    text = get_stored_result_text(call["response"])
    is_shell = call["tool"] == SHELL_TOOL
    message = find_failure_line(text, is_shell=is_shell)
    command = describe_input(call["input"]) if is_shell else ""
    return message, classify_failure(text, message, command) not in _NO_LESSON_KINDS
