"""The home page: what agents did lately, what was held, what keeps failing, and the live stream of events."""

from __future__ import annotations

from typing import Any, NamedTuple

from hardwon.lessons.delivery_outcomes import find_delivery_outcome
from hardwon.store import jobs, views
from hardwon.store.db import Row
from hardwon.store.views import NewsCursor
from hardwon.web.inbox import list_inbox
from hardwon.web.insights import list_repeated_errors
from hardwon.web.page_request import PageContent, PageRequest, find_range_start, parse_position

_NEWS_ROWS = 30
_MAX_JOBS = 12
_MAX_SESSIONS, _MAX_HELD, _MAX_ERRORS, _MAX_INBOX = 6, 4, 4, 5
_MAX_READ_ERRORS = 20  # among them those that a lesson could prevent
_MAX_JUDGED_DELIVERIES = 200  # the latest; each held call needs a query for what followed
# The first period with a session in it is shown: a page about today says nothing on a Monday morning.
_PERIODS = (("Today", 1), ("Last 7 days", 7), ("Last 30 days", 30))


def show_home(request: PageRequest) -> PageContent:
    """Show the overview and the latest of everything; with `after`, only the rows after that cursor."""
    # The cursor is written with dots: four row ids, such as `17.0.3.9`.
    position = parse_position(request.query.get("after", "").replace(".", "-"), 4)
    cursor = NewsCursor(*map(int, position)) if position else NewsCursor()
    rows, next_cursor = views.read_news(request.connection, cursor=cursor, limit=_NEWS_ROWS)
    values: dict[str, Any] = {
        "title": "Home",
        "rows": rows,
        "marks": ".".join(str(last_id) for last_id in next_cursor.__dict__.values()),
        "waiting": jobs.count_by_state(request.connection),
        "jobs": jobs.list_jobs(request.connection)[:_MAX_JOBS],
        "now": request.now,
    }
    if position:
        return PageContent("_live_update.html", values)
    period = _choose_period(request)
    held_rows, held_count = _list_held_calls(request, period.since)
    repeated_errors = list_repeated_errors(request, period.since, limit=_MAX_READ_ERRORS)
    errors = [error for error in repeated_errors if error.may_become_lesson]
    inbox_items = list_inbox(request)
    values |= {
        "period": period.name,
        "counts": period.counts,
        "held": held_rows,
        "held_count": held_count,
        "errors": errors[:_MAX_ERRORS],
        "sessions": views.list_session_page(request.connection, limit=_MAX_SESSIONS),
        "inbox": inbox_items[:_MAX_INBOX],
        "inbox_count": len(inbox_items),
    }
    return PageContent("home.html", values)


class _Period(NamedTuple):
    name: str
    since: float
    counts: dict[str, int]


def _choose_period(request: PageRequest) -> _Period:
    """Return the shortest period in which something happened, with the counts of what did."""
    for name, days in _PERIODS:
        since = find_range_start(request.now, days)
        counts = views.count_activity(request.connection, since)
        if counts["sessions"]:
            return _Period(name, since, counts)
    return _Period("All time", since=0.0, counts=views.count_activity(request.connection, since=0.0))


def _list_held_calls(request: PageRequest, since: float) -> tuple[list[Row], int]:
    """Return the latest held calls, each with the call made instead, and how many there were."""
    latest = views.list_lesson_deliveries(request.connection, since=since, limit=_MAX_JUDGED_DELIVERIES)
    held_deliveries = [delivery for delivery in latest if delivery["delivery"] in ("hold", "block")]
    for delivery in held_deliveries[:_MAX_HELD]:
        delivery["outcome"] = find_delivery_outcome(request.connection, delivery)
    return held_deliveries[:_MAX_HELD], len(held_deliveries)
