"""Sessions: a list with filters, one session as a timeline, one event whole, and where it stands in the transcript."""

from __future__ import annotations

import errno
import json
import os
import stat
from itertools import islice
from typing import Any

from hardwon.agents.tool_results import text_of_stored_result
from hardwon.paths import plain_file
from hardwon.privacy.cleaning import clean
from hardwon.store import observations, views
from hardwon.store.activity import active_minutes
from hardwon.store.sessions import STATUSES
from hardwon.store.views import Place
from hardwon.web.page_request import GONE, Ask, Shown, days, decimal, number

PAGE, STEPS = 50, 200
LARGEST = 200_000_000  # bytes of a transcript that is looked through for a line
AROUND, READ = 3, 40_000  # lines of it on each side, and bytes of each: twice what is shown, so no secret is cut


def page(ask: Ask) -> Shown:
    given = {name: ask.query.get(name, "") for name in ("project", "host", "status", "since", "until")}
    since, until = days(given)
    found = views.sessions(
        ask.connection,
        project=number(given, "project"),
        host=given["host"],
        status=given["status"],
        since=since,
        until=until,
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
        "minutes": round(active_minutes(views.times_of(ask.connection, session["id"]))),
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
        "event": {**found, "input": _spelled(found["input"]), "response": text_of_stored_result(found["response"])},
        "line": _line_in(session["transcript"], found["tool_use_id"]),
    }
    return Shown("event.html", values)


def _spelled(text: str) -> str:
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False) if text else ""
    except (ValueError, RecursionError):
        return text


def _line_in(path: str, id: str) -> int | None:
    """The line of a transcript that first names a call."""
    wanted = id.encode("utf-8", "replace")
    if not path or not wanted:
        return None
    try:
        with open(_transcript(path), "rb", opener=plain_file) as file:
            return next((line for line, text in enumerate(file, 1) if wanted in text), None)
    except (OSError, ValueError):
        return None


def _transcript(path: str) -> int:
    """A transcript, open. The path came from outside: OSError unless it leads to a plain file of a likely size."""
    opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    found = os.fstat(opened)
    if not stat.S_ISREG(found.st_mode) or found.st_size > LARGEST:
        os.close(opened)
        raise OSError(errno.EINVAL, "not a transcript", path)
    return opened


def transcript(ask: Ask) -> Shown:
    """Some lines of a session's transcript, around one, stripped and redacted as what is stored is."""
    session, line = _session(ask), number(ask.path, "line")
    if session is None or not line:
        return GONE
    first = max(line - AROUND, 1)
    try:
        with open(_transcript(session["transcript"]), "rb", opener=plain_file) as file:
            read = [one[:READ] for one in islice(file, first - 1, line + AROUND + 1)]
    except (OSError, ValueError):
        return GONE
    if first + len(read) <= line:
        return GONE
    shown = [clean(_spelled(one.decode("utf-8", "replace").strip())) for one in read[: line + AROUND + 1 - first]]
    values = {
        "title": f"Line {line} of the transcript of session {session['id']}",
        "session": session,
        "line": line,
        "lines": list(enumerate(shown, first)),
        "before": max(first - AROUND - 1, 1) if first > 1 else None,
        "further": line + 2 * AROUND + 1 if len(read) > len(shown) else None,
    }
    return Shown("transcript.html", values)
