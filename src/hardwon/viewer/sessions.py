"""Sessions: a list with filters, one session as a timeline, one event whole."""

from __future__ import annotations

import json
import os
import stat
from datetime import datetime, timedelta
from typing import Any

from hardwon.store import observations, views
from hardwon.store.sessions import STATUSES
from hardwon.store.views import Place
from hardwon.viewer.ask import GONE, Ask, Shown, decimal, number

PAGE, STEPS = 50, 200
LARGEST = 200_000_000  # bytes of a transcript that is looked through for a line


def page(ask: Ask) -> Shown:
    given = {name: ask.query.get(name, "") for name in ("project", "host", "status", "since", "until")}
    since, until = _day(given["since"]), _day(given["until"])
    found = views.sessions(
        ask.connection,
        project=number(given, "project"),
        host=given["host"],
        status=given["status"],
        since=since.timestamp() if since else None,
        until=(until + timedelta(days=1)).timestamp() if until else None,
        before=_behind(ask.query.get("before", "")),
        limit=PAGE + 1,
    )
    shown, last = found[:PAGE], found[PAGE - 1] if len(found) > PAGE else None
    values = {
        "title": "Sessions",
        "sessions": shown,
        "given": given,
        "filtered": any(given.values()),
        "first": "before" not in ask.query,
        "older": {**given, "before": f"{last['last_at']!r}-{last['id']}"} if last else None,
        "projects": views.projects(ask.connection),
        "hosts": views.hosts(ask.connection),
        "statuses": STATUSES,
    }
    return Shown("sessions.html", values)


def _day(text: str) -> datetime | None:
    try:
        return datetime.strptime(text, "%Y-%m-%d") if text else None
    except ValueError:
        return None


def _behind(text: str) -> tuple[float, int] | None:
    at, _, id = text.partition("-")
    found, known = decimal(at), number({"id": id}, "id")
    return (found, known) if found is not None and known is not None else None


def one(ask: Ask) -> Shown:
    """One session, so many steps at a time."""
    session = _session(ask)
    if session is None:
        return GONE
    steps = views.timeline(ask.connection, session, after=_after(ask.query.get("after", "")), limit=STEPS + 1)
    last = steps[STEPS - 1] if len(steps) > STEPS else None
    values = {
        "title": f"Session {session['id']}",
        "session": session,
        "steps": steps[:STEPS],
        "further": f"{last['at']!r}-{last['rank']}-{last['id']}" if last else "",
        "is_first": "after" not in ask.query,
        "summary": observations.summary_of(ask.connection, session["id"]),
        "cost": views.cost_of(ask.connection, session["id"]),
    }
    return Shown("session.html", values)


def _session(ask: Ask) -> dict[str, Any] | None:
    known = number(ask.path, "number")
    return None if known is None else views.session(ask.connection, known)


def _after(text: str) -> Place:
    parts = text.split("-")
    at, rest = decimal(parts[0]), [number({"n": part}, "n") for part in parts[1:]]
    known = [one for one in rest if one is not None]
    return Place(at, *known) if at is not None and len(known) == len(rest) == 2 else Place()


def event(ask: Ask) -> Shown:
    """One event, whole, with the line it stands on in the transcript if that is still there."""
    session, id = _session(ask), number(ask.path, "id")
    found = views.event(ask.connection, session["id"], id) if session and id is not None else None
    if session is None or found is None:
        return GONE
    values = {
        "title": f"{found['tool'] or found['kind']} in session {session['id']}",
        "session": session,
        "event": {**found, "input": _spelled(found["input"])},
        "line": _line_in(session["transcript"], found["tool_use_id"]),
    }
    return Shown("event.html", values)


def _spelled(text: str) -> str:
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False) if text else ""
    except (ValueError, RecursionError):
        return text


def _line_in(path: str, id: str) -> int | None:
    """The line of a transcript that first names a call. The path came from outside: only a plain file is read."""
    wanted = id.encode("utf-8", "replace")
    if not path or not wanted:
        return None
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_size > LARGEST:
                return None
            return next((line for line, text in enumerate(file, 1) if wanted in text), None)
    except (OSError, ValueError):
        return None
