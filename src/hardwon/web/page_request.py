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


def build_error_page(error: UserError) -> PageContent:
    """What was not done, why, and what would mend it."""
    return PageContent("message.html", {"title": "Not done", "say": error.say, "fix": error.fix}, 400)


def parse_number(values: Mapping[str, str], name: str) -> int | None:
    """A whole number that was given; what is none counts as not given."""
    text = values.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None


def parse_day_range(filters: Mapping[str, str]) -> tuple[float | None, float | None]:
    """When the day `since` begins and the day `until` ends; what is no day counts as not given."""
    return _parse_midnight(filters["since"], 0), _parse_midnight(filters["until"], 1)


def _parse_midnight(day: str, days_later: int) -> float | None:
    try:
        return (datetime.strptime(day, "%Y-%m-%d") + timedelta(days=days_later)).timestamp() if day else None
    except (ValueError, OverflowError, OSError):
        return None


def parse_timestamp(text: str) -> float | None:
    """A time as we write it into links."""
    seconds, _, fraction = text.partition(".")
    is_valid = len(text) < 24 and text.isascii() and seconds.isdigit() and (not fraction or fraction.isdigit())
    return float(text) if is_valid else None
