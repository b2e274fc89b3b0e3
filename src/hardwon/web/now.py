"""Now: what came last, and what comes while one looks."""

from __future__ import annotations

from hardwon.lessons import review_queue
from hardwon.store import jobs, views
from hardwon.store.views import Marks
from hardwon.web.page_request import Ask, Shown

LATEST = 60
MOST_JOBS = 12


def page(ask: Ask) -> Shown:
    """The last of everything; with `after`, only what came behind those marks, as a part of the page."""
    after = _marks(ask.query.get("after", ""))
    rows, marks = views.news(ask.connection, after=after or Marks(), limit=LATEST)
    values = {
        "title": "Now",
        "rows": rows,
        "marks": ".".join(str(value) for value in marks.__dict__.values()),
        "waiting": jobs.counts(ask.connection),
        "jobs": jobs.listed(ask.connection)[:MOST_JOBS],
        "deciding": {} if after else _count_waiting(ask),
        "now": ask.now,
    }
    return Shown("_now.html" if after else "now.html", values)


def _count_waiting(ask: Ask) -> dict[str, int]:
    candidates = len(review_queue.list_waiting(ask.home, ask.connection))
    return {**views.deciding(ask.connection), "candidates": candidates}


def _marks(text: str) -> Marks | None:
    parts = text.split(".")
    is_one = len(parts) == len(Marks.__annotations__) and all(
        one.isascii() and one.isdigit() and len(one) < 18 for one in parts
    )
    return Marks(*map(int, parts)) if is_one else None
