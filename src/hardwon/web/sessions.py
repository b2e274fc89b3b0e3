"""Sessions: a list with filters, one session as a timeline, one event whole, and where it stands in the transcript."""

from __future__ import annotations

import errno
import json
import os
import stat
from itertools import islice
from typing import Any

from hardwon.agents.tool_results import get_stored_result_text
from hardwon.paths import open_plain_file
from hardwon.privacy.cleaning import clean_text
from hardwon.store import observations, views
from hardwon.store.activity import count_active_minutes
from hardwon.store.sessions import STATUSES
from hardwon.store.views import TimelinePosition
from hardwon.web.page_request import NOT_FOUND, PageContent, PageRequest, parse_day_range, parse_number, parse_timestamp

PAGE_SIZE, STEPS_PER_PAGE = 50, 200
MAX_TRANSCRIPT_BYTES = 200_000_000  # bytes of a transcript that is looked through for a line
CONTEXT_LINES, MAX_LINE_BYTES = (
    3,
    40_000,
)  # lines of it on each side, and bytes of each: twice what is shown, so no secret is cut


def show_session_list(ask: PageRequest) -> PageContent:
    given = {name: ask.query.get(name, "") for name in ("project", "host", "status", "since", "until")}
    since, until = parse_day_range(given)
    found = views.list_session_page(
        ask.connection,
        project=parse_number(given, "project"),
        agent=given["host"],
        status=given["status"],
        since=since,
        until=until,
        before_key=_behind(ask.query.get("before", "")),
        limit=PAGE_SIZE + 1,
    )
    shown, last = found[:PAGE_SIZE], found[PAGE_SIZE - 1] if len(found) > PAGE_SIZE else None
    values = {
        "title": "Sessions",
        "sessions": shown,
        "given": given,
        "filtered": any(given.values()),
        "first": "before" not in ask.query,
        "older": {**given, "before": f"{last['last_at']!r}-{last['id']}"} if last else None,
        "projects": views.list_projects(ask.connection),
        "hosts": views.list_agents(ask.connection),
        "statuses": STATUSES,
    }
    return PageContent("sessions.html", values)


def _behind(text: str) -> tuple[float, int] | None:
    at, _, id = text.partition("-")
    found, known = parse_timestamp(at), parse_number({"id": id}, "id")
    return (found, known) if found is not None and known is not None else None


def show_session(ask: PageRequest) -> PageContent:
    """One session, so many steps at a time."""
    session = _session(ask)
    if session is None:
        return NOT_FOUND
    steps = views.list_timeline_steps(
        ask.connection, session, position=_after(ask.query.get("after", "")), limit=STEPS_PER_PAGE + 1
    )
    last = steps[STEPS_PER_PAGE - 1] if len(steps) > STEPS_PER_PAGE else None
    values = {
        "title": f"Session {session['id']}",
        "session": session,
        "steps": steps[:STEPS_PER_PAGE],
        "further": f"{last['at']!r}-{last['rank']}-{last['id']}" if last else "",
        "is_first": "after" not in ask.query,
        "summary": observations.find_summary(ask.connection, session["id"]),
        "cost": views.sum_cost(ask.connection, session["id"]),
        "minutes": round(count_active_minutes(views.list_timestamps(ask.connection, session["id"]))),
    }
    return PageContent("session.html", values)


def _session(ask: PageRequest) -> dict[str, Any] | None:
    known = parse_number(ask.path_params, "number")
    return None if known is None else views.find_session(ask.connection, known)


def _after(text: str) -> TimelinePosition:
    parts = text.split("-")
    at, rest = parse_timestamp(parts[0]), [parse_number({"n": part}, "n") for part in parts[1:]]
    known = [one for one in rest if one is not None]
    return TimelinePosition(at, *known) if at is not None and len(known) == len(rest) == 2 else TimelinePosition()


def show_event(ask: PageRequest) -> PageContent:
    """One event, whole, with the line it stands on in the transcript if that is still there."""
    session, id = _session(ask), parse_number(ask.path_params, "id")
    found = views.find_event(ask.connection, session["id"], id) if session and id is not None else None
    if session is None or found is None:
        return NOT_FOUND
    values = {
        "title": f"{found['tool'] or found['kind']} in session {session['id']}",
        "session": session,
        "event": {**found, "input": _spelled(found["input"]), "response": get_stored_result_text(found["response"])},
        "line": _line_in(session["transcript"], found["tool_use_id"]),
    }
    return PageContent("event.html", values)


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
        with open(_transcript(path), "rb", opener=open_plain_file) as file:
            return next((line for line, text in enumerate(file, 1) if wanted in text), None)
    except (OSError, ValueError):
        return None


def _transcript(path: str) -> int:
    """A transcript, open. The path came from outside: OSError unless it leads to a plain file of a likely size."""
    opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    found = os.fstat(opened)
    if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_TRANSCRIPT_BYTES:
        os.close(opened)
        raise OSError(errno.EINVAL, "not a transcript", path)
    return opened


def show_transcript(ask: PageRequest) -> PageContent:
    """Some lines of a session's transcript, around one, stripped and redacted as what is stored is."""
    session, line = _session(ask), parse_number(ask.path_params, "line")
    if session is None or not line:
        return NOT_FOUND
    first = max(line - CONTEXT_LINES, 1)
    try:
        with open(_transcript(session["transcript"]), "rb", opener=open_plain_file) as file:
            read = [one[:MAX_LINE_BYTES] for one in islice(file, first - 1, line + CONTEXT_LINES + 1)]
    except (OSError, ValueError):
        return NOT_FOUND
    if first + len(read) <= line:
        return NOT_FOUND
    shown = [
        clean_text(_spelled(one.decode("utf-8", "replace").strip())) for one in read[: line + CONTEXT_LINES + 1 - first]
    ]
    values = {
        "title": f"Line {line} of the transcript of session {session['id']}",
        "session": session,
        "line": line,
        "lines": list(enumerate(shown, first)),
        "before": max(first - CONTEXT_LINES - 1, 1) if first > 1 else None,
        "further": line + 2 * CONTEXT_LINES + 1 if len(read) > len(shown) else None,
    }
    return PageContent("transcript.html", values)
