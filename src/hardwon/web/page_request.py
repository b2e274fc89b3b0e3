"""The values that a page of the viewer is asked with and answers with, and the parsing that pages share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from hashlib import sha256
from typing import Any

from hardwon.actions import approvals
from hardwon.actions.approvals import Decider
from hardwon.errors import UserError
from hardwon.store.approvals import VIEWER
from hardwon.store.db import Connection
from hardwon.web.access_control import BrowserSession

LATE_PART = "<!-- late part -->"  # as it stands in a template; in a text it would be escaped


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A request of a signed-in browser."""

    home: str
    connection: Connection
    browser_session: BrowserSession
    now: float
    path_params: Mapping[str, str]
    query: Mapping[str, str]
    form: Mapping[str, str]

    def open_decider(self) -> Decider:
        return approvals.open_decider(self.home, self.connection, VIEWER)

    def get_number(self) -> int:
        """Return the number in the path; PageNotFound if it is not one."""
        number = parse_number(self.path_params, "number")
        if number is None:
            raise PageNotFound
        return number

    def get_filters(self, *names: str) -> dict[str, str]:
        return {name: self.query.get(name, "") for name in names}

    def choose(self, name: str, choices: Sequence[str]) -> str:
        """Return the value of a query parameter, the first choice if it is none of them."""
        value = self.query.get(name, "")
        return value if value in choices else choices[0]

    def require_seen(self, fingerprint: str, noun: str) -> None:
        """Refuse a decision about something that is not as the person saw it."""
        if self.form.get("seen") != fingerprint:
            raise UserError(f"this {noun} changed since you opened it", "reload the page and decide again")


@dataclass(frozen=True, slots=True)
class PageContent:
    """A template and the values that it shows.

    `read_late_part` returns the part that takes long to read: the rest of the page is sent before it, so that a browser
    paints at once. It stands where the template has LATE_PART.
    """

    template: str
    values: Mapping[str, Any]
    status: int = 200
    read_late_part: Callable[[], PageContent] | None = None


@dataclass(frozen=True, slots=True)
class Redirect:
    """The page to go to after a form was accepted, and the message to show there once."""

    location: str
    message: str = ""


class PageNotFound(Exception):
    """There is no such page, or what it showed is gone."""


class Confirmation:
    """Owns the answer to an action's question: the form's checkbox. `is_asked` tells whether to show that checkbox."""

    def __init__(self, form: Mapping[str, str]) -> None:
        self.is_asked = False
        self._is_confirmed = form.get("confirm") == "yes"

    def __call__(self, question: str) -> bool:
        self.is_asked = True
        return self._is_confirmed


PageHandler = Callable[[PageRequest], PageContent | Redirect]


def fingerprint_values(*values: object) -> str:
    """Return a hash of what a page shows, by which its form tells what the person saw."""
    return sha256(repr(values).encode("utf-8", "replace")).hexdigest()


def parse_number(values: Mapping[str, str], name: str) -> int | None:
    """Return a whole number, None if it is missing or not one."""
    text = values.get(name, "")
    # `isdigit` alone accepts digits of other scripts, and SQLite's integers have fewer than 20 digits.
    is_number = text.isascii() and text.isdigit() and len(text) < 16
    return int(text) if is_number else None


def parse_day_range(filters: Mapping[str, str]) -> tuple[float | None, float | None]:
    """Return when the day `since` begins and the day `until` ends, None for what is not a day."""
    return _parse_midnight(filters["since"]), _parse_midnight(filters["until"], days_later=1)


def _parse_midnight(day: str, days_later: int = 0) -> float | None:
    try:
        return (datetime.strptime(day, "%Y-%m-%d") + timedelta(days=days_later)).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def parse_position(text: str, count: int) -> list[float] | None:
    """Return the numbers of a position in a list, such as `1763.25-7`; None unless there are exactly so many."""
    parts = text.split("-")
    if len(parts) != count or len(text) > 60:
        return None
    try:
        numbers = [float(part) for part in parts]
    except ValueError:
        return None
    # The comparison excludes NaN, infinities and what does not fit into a row id.
    if not all(0 <= number < 1e15 for number in numbers):
        return None
    return numbers


def find_range_start(now: float, days: int) -> float:
    """Return when the first of the last days began, in local time."""
    first = date.fromtimestamp(now) - timedelta(days=days - 1)
    return datetime(first.year, first.month, first.day).timestamp()


def count_days_since(at: float | None, now: float) -> int:
    """Return how many days there are from a time to today, both included; 1 for a time that is unknown or later."""
    if at is None:
        return 1
    return max(1, (date.fromtimestamp(now) - date.fromtimestamp(at)).days + 1)
