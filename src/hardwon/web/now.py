"""Now: what came last, and what comes while one looks."""

from __future__ import annotations

from hardwon.lessons import review_queue
from hardwon.store import jobs, views
from hardwon.store.views import NewsCursor
from hardwon.web.page_request import PageContent, PageRequest

MAX_ROWS = 60
MAX_JOBS = 12


def show_now(ask: PageRequest) -> PageContent:
    """The last of everything; with `after`, only what came behind those marks, as a part of the page."""
    after = _marks(ask.query.get("after", ""))
    rows, marks = views.read_news(ask.connection, cursor=after or NewsCursor(), limit=MAX_ROWS)
    values = {
        "title": "Now",
        "rows": rows,
        "marks": ".".join(str(value) for value in marks.__dict__.values()),
        "waiting": jobs.count_by_state(ask.connection),
        "jobs": jobs.list_jobs(ask.connection)[:MAX_JOBS],
        "deciding": {} if after else _count_waiting(ask),
        "now": ask.now,
    }
    return PageContent("_now.html" if after else "now.html", values)


def _count_waiting(ask: PageRequest) -> dict[str, int]:
    candidates = len(review_queue.list_waiting(ask.home, ask.connection))
    return {**views.count_undecided(ask.connection), "candidates": candidates}


def _marks(text: str) -> NewsCursor | None:
    parts = text.split(".")
    is_one = len(parts) == len(NewsCursor.__annotations__) and all(
        one.isascii() and one.isdigit() and len(one) < 18 for one in parts
    )
    return NewsCursor(*map(int, parts)) if is_one else None
