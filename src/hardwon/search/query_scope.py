"""The project and the dates of a query, and an up-to-date store for it.

Dates are in local time. A month or a weekday without a year is the latest one that has begun.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from time import monotonic
from typing import Any

from hardwon import projects
from hardwon.errors import UserError
from hardwon.search import indexing
from hardwon.store import db, documents
from hardwon.store.db import Connection
from hardwon.types import frozen

ALL_PROJECTS = "*"
_REFRESH_SECONDS = 2.0  # spent on updating the index before a query
_DAYS_PER_UNIT = {"d": 1, "w": 7}
_MONTH_TEXT, _WEEKDAY_TEXT = "jan feb mar apr may jun jul aug sep oct nov dec", "mon tue wed thu fri sat sun"
_MONTHS = {name: number for number, name in enumerate(_MONTH_TEXT.split(), 1)}
_WEEKDAYS = {name: number for number, name in enumerate(_WEEKDAY_TEXT.split())}
# March and May are words as well, and so are short forms, such as `dec`: these count with a capital letter only.
_MONTH = (
    r"(?P<month>Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sep(?:t(?:ember)?)?"
    r"|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?|january|february|april|june|july|august|september|october|november"
    r"|december)"
)
_WEEKDAY = r"(?P<weekday>(?:[Mm]on|[Tt]ues|[Ww]ednes|[Tt]hurs|[Ff]ri|[Ss]atur|[Ss]un)day)"
# Each row with an example. `_PERIOD` tries them in this order.
_PERIODS = (
    r"(?P<iso>\d{4}-\d\d-\d\d)",  # on 2026-05-11
    rf"(?P<week>week of )?(?:(?P<day>\d{{1,2}})(?:st|nd|rd|th)? {_MONTH}|{_MONTH.replace('month', 'month2')} "
    r"(?P<day2>\d{1,2})(?:st|nd|rd|th)?\b(?! ?:))(?:,? (?P<year>20\d\d))?",  # the week of 11 May, May 11, 2026
    rf"{_MONTH.replace('month', 'month3')}(?: (?P<year2>20\d\d))?",  # in October 2025
    r"(?P<year3>20\d\d)",  # in 2025
    rf"{_WEEKDAY}",  # last Monday
    r"(?P<relative>today|yesterday|(?:this|last) (?:week|month|year))",
    r"(?P<count>\d{1,3}) (?P<unit>day|week|month)s? ago",  # 3 weeks ago
    r"(?:the )?(?:last|past) (?P<span>\d{1,3}) (?P<span_unit>day|week|month)s?",  # the last 3 days
)
_PERIOD = re.compile(
    r"(?P<lead>\b(?:(?:since|before|until|after|in|on|during|from|of|last|this) )?(?:the )?)(?<![\w/.-])"
    rf"(?:{'|'.join(_PERIODS)})(?![\w/-]|\.\w)"
)
SpoolDrainer = Callable[[str, Connection], object]


@contextmanager
def open_store(home: str, drain: SpoolDrainer) -> Iterator[Connection]:
    """Open the home's database, import the spool, and bring the index up to date as far as time allows.

    Each query has its own connection, because queries run in parallel and the database may have been restored.
    """
    with db.open(home) as connection:
        drain(home, connection)
        deadline = monotonic() + _REFRESH_SECONDS
        indexing.refresh_index(connection, home, model=None, should_continue=lambda: monotonic() < deadline)
        yield connection


def resolve_project(
    connection: Connection, project: str, folder: str, fix: str = f'project="{ALL_PROJECTS}" asks for every one'
) -> str:
    """Return the path or name of the requested project, by default that of the folder; empty for all."""
    if project == ALL_PROJECTS:
        return ""
    if "\0" in project:
        raise UserError("a project's name or path has no NUL character", fix)
    if not project:
        return projects.find_project_path(os.path.realpath(folder))
    is_path = os.sep in project or project in (".", "..")
    if is_path:
        resolved_project = projects.find_project_path(os.path.abspath(os.path.join(folder, project)))
    else:
        resolved_project = project
    if not documents.find_project_numbers(connection, resolved_project):
        raise UserError(f"nothing is known of a project {project[:200]!r}", fix)
    return resolved_project


def is_in_project(project: str, record: Mapping[str, Any]) -> bool:
    """Return whether a record belongs to the project or applies everywhere."""
    record_project = str(record["project"])
    return (
        not project
        or project in (record_project, os.path.basename(record_project))
        or (not record_project and not record["session"])
    )


_NO_BOUND = 0.0


@frozen
class Period:
    """A stretch of time, from `since` until before `until`; 0 is no limit. `words` are those that name it."""

    since: float
    until: float
    words: str = ""

    def describe(self) -> str:
        """Return the days of the period and the words that name it: `from 2026-03-02 until 2026-03-08 (last week)`."""
        first = f"{datetime.fromtimestamp(self.since):%Y-%m-%d}" if self.since else ""
        last = f"{datetime.fromtimestamp(self.until - 1):%Y-%m-%d}" if self.until else ""
        if first == last:
            days = f"on {first}"
        elif first and last:
            days = f"from {first} until {last}"
        else:
            days = f"from {first}" if first else f"until {last}"
        return f"{days} ({self.words})"


def parse_time(text: str, now: float) -> float:
    """Return a date, so many days or weeks ago, or the beginning of a period such as last week; 0 for none."""
    if not text:
        return 0.0
    if text[:-1].isascii() and text[:-1].isdigit() and text[-1:] in _DAYS_PER_UNIT:
        return now - int(text[:-1][:6]) * _DAYS_PER_UNIT[text[-1]] * 86_400.0
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        pass
    match = _PERIOD.fullmatch(text.strip())
    period = _build_period(match, now) if match else None
    if period is None:
        raise UserError(
            f"{text[:40]!r} is not a date", "write 2026-11-01, yesterday, last week, or 7d or 2w for so long ago"
        )
    return period.since or period.until


def extract_period(query: str, now: float) -> tuple[str, Period | None]:
    """Return the query without the words that name a time, and that time: "in October", "yesterday", "since Monday".

    A month, a year, a weekday or a date counts only after a word such as "in" or "on": it may be a name otherwise.
    """
    for match in _PERIOD.finditer(query):
        needs_lead = any(match[name] for name in ("iso", "month3", "year3", "weekday"))
        if needs_lead and match["lead"].strip() in ("", "the"):
            continue
        period = _build_period(match, now)
        remaining = " ".join(f"{query[: match.start()]} {query[match.end() :]}".split())
        if period:
            return remaining, Period(period.since, period.until, match[0].strip())
    return query, None


def _build_period(match: re.Match[str], now: float) -> Period | None:
    """Return the time that a match of _PERIOD names; None for a day that does not exist."""
    try:
        first, last = _find_days(match, date.fromtimestamp(now))
        day_after = last + timedelta(days=1)
        since = datetime.combine(first, datetime.min.time()).timestamp()
        until = datetime.combine(day_after, datetime.min.time()).timestamp()
    except (ValueError, OverflowError):  # also a day before the first or after the last that a timestamp can say
        return None
    lead, *_ = match["lead"].split() or [""]
    if lead in ("since", "after", "from"):
        return Period(since, until=_NO_BOUND)
    if lead in ("before", "until"):
        return Period(_NO_BOUND, until=since)
    return Period(since, until)


def _find_days(match: re.Match[str], today: date) -> tuple[date, date]:
    """Return the first and the last day that a match of _PERIOD names."""
    one_day = timedelta(1)
    monday = today - timedelta(today.weekday())
    if match["iso"]:
        day = date.fromisoformat(match["iso"])
        return day, day
    if day_number := match["day"] or match["day2"]:
        month = _MONTHS[(match["month"] or match["month2"])[:3].lower()]
        day = date(int(match["year"] or today.year), month, int(day_number))
        if day > today and not match["year"]:
            day = day.replace(year=today.year - 1)
        if match["week"]:
            day -= timedelta(day.weekday())
            return day, day + timedelta(6)
        return day, day
    if match["month3"]:
        month = _MONTHS[match["month3"][:3].lower()]
        year = int(match["year2"] or (today.year if month <= today.month else today.year - 1))
        return _find_month(year, month)
    if match["year3"]:
        return date(int(match["year3"]), 1, 1), date(int(match["year3"]), 12, 31)
    if match["weekday"]:
        day = today - one_day
        while day.weekday() != _WEEKDAYS[match["weekday"][:3].lower()]:
            day -= one_day
        return day, day
    if match["span"]:
        days = int(match["span"]) * {"day": 1, "week": 7, "month": 30}[match["span_unit"]]
        return today - timedelta(days), today
    count, unit = (int(match["count"]), match["unit"]) if match["count"] else _RELATIVE[match["relative"]]
    if unit == "day":
        return today - timedelta(count), today - timedelta(count)
    if unit == "week":
        first = monday - timedelta(7 * count)
        return first, first + timedelta(6)
    if unit == "year":
        return date(today.year - count, 1, 1), date(today.year - count, 12, 31)
    months = 12 * today.year + today.month - 1 - count
    return _find_month(months // 12, months % 12 + 1)


_RELATIVE = {
    "today": (0, "day"),
    "yesterday": (1, "day"),
    **{f"this {unit}": (0, unit) for unit in ("week", "month", "year")},
    **{f"last {unit}": (1, unit) for unit in ("week", "month", "year")},
}


def _find_month(year: int, month: int) -> tuple[date, date]:
    first = date(year, month, 1)
    return first, (first + timedelta(31)).replace(day=1) - timedelta(1)
