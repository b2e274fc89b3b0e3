"""Now: what came last, and what comes while one looks."""

from __future__ import annotations

from hardwon.lessons import review_queue
from hardwon.store import jobs, views
from hardwon.store.views import NewsCursor
from hardwon.web.page_request import PageContent, PageRequest

MAX_ROWS = 60
MAX_JOBS = 12


def show_now(request: PageRequest) -> PageContent:
    """The last of everything; with `cursor`, only what came behind those marks, as a part of the page."""
    cursor = _parse_cursor(request.query.get("after", ""))
    rows, next_cursor = views.read_news(request.connection, cursor=cursor or NewsCursor(), limit=MAX_ROWS)
    values = {
        "title": "Now",
        "rows": rows,
        "marks": ".".join(str(value) for value in next_cursor.__dict__.values()),
        "waiting": jobs.count_by_state(request.connection),
        "jobs": jobs.list_jobs(request.connection)[:MAX_JOBS],
        "deciding": {} if cursor else _count_waiting(request),
        "now": request.now,
    }
    return PageContent("_now.html" if cursor else "now.html", values)


def _count_waiting(request: PageRequest) -> dict[str, int]:
    candidates = len(review_queue.list_waiting(request.home, request.connection))
    return {**views.count_undecided(request.connection), "candidates": candidates}


def _parse_cursor(text: str) -> NewsCursor | None:
    parts = text.split(".")
    is_valid = len(parts) == len(NewsCursor.__annotations__) and all(
        part.isascii() and part.isdigit() and len(part) < 18 for part in parts
    )
    return NewsCursor(*map(int, parts)) if is_valid else None
