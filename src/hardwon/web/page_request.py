"""What a page is asked and what it answers: values, so that a page is a function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from hardwon.errors import UserError
from hardwon.store.db import Connection
from hardwon.types import frozen
from hardwon.web.browser_sessions import BrowserSession


@frozen
class PageRequest:
    """A request for a page, by somebody who was let in."""

    home: str
    connection: Connection
    browser_session: BrowserSession
    now: float
    path_params: Mapping[str, str]
    query: Mapping[str, str]
    form: Mapping[str, str]


@frozen
class PageContent:
    """A template and what it shows."""

    template: str
    values: Mapping[str, Any]
    status: int = 200


@frozen
class Redirect:
    """It is done; what to say on the page to go on to."""

    location: str
    message: str = ""


PageHandler = Callable[[PageRequest], PageContent | Redirect]
NOT_FOUND = PageContent(
    "message.html", {"title": "Not here", "say": "There is no such page, or it is gone.", "fix": ""}, 404
)


def build_error_page(wrong: UserError) -> PageContent:
    """What was not done, why, and what would mend it."""
    return PageContent("message.html", {"title": "Not done", "say": wrong.say, "fix": wrong.fix}, 400)


def parse_number(values: Mapping[str, str], name: str) -> int | None:
    """A whole number that was given; what is none counts as not given."""
    given = values.get(name, "")
    return int(given) if given.isascii() and given.isdigit() and len(given) < 16 else None


def parse_day_range(given: Mapping[str, str]) -> tuple[float | None, float | None]:
    """When the day `since` begins and the day `until` ends; what is no day counts as not given."""
    return _midnight(given["since"], 0), _midnight(given["until"], 1)


def _midnight(day: str, later: int) -> float | None:
    try:
        return (datetime.strptime(day, "%Y-%m-%d") + timedelta(days=later)).timestamp() if day else None
    except (ValueError, OverflowError, OSError):
        return None


def parse_timestamp(text: str) -> float | None:
    """A time as we write it into links."""
    whole, _, part = text.partition(".")
    fits = len(text) < 24 and text.isascii() and whole.isdigit() and (not part or part.isdigit())
    return float(text) if fits else None
