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
from hardwon.store.sessions import STATUSES, count_active_minutes
from hardwon.store.views import TimelinePosition
from hardwon.web.page_request import NOT_FOUND, PageContent, PageRequest, parse_day_range, parse_number, parse_timestamp

PAGE_SIZE, STEPS_PER_PAGE = 50, 200
MAX_TRANSCRIPT_BYTES = 200_000_000  # bytes of a transcript that is looked through for a line
CONTEXT_LINES, MAX_LINE_BYTES = (
    3,
    40_000,
)  # lines of it on each side, and bytes of each: twice what is shown, so no secret is cut


def show_session_list(request: PageRequest) -> PageContent:
    filters = {name: request.query.get(name, "") for name in ("project", "host", "status", "since", "until")}
    since, until = parse_day_range(filters)
    rows = views.list_session_page(
        request.connection,
        project=parse_number(filters, "project"),
        agent=filters["host"],
        status=filters["status"],
        since=since,
        until=until,
        before_key=_parse_page_key(request.query.get("before", "")),
        limit=PAGE_SIZE + 1,
    )
    page_rows, last = rows[:PAGE_SIZE], rows[PAGE_SIZE - 1] if len(rows) > PAGE_SIZE else None
    values = {
        "title": "Sessions",
        "sessions": page_rows,
        "given": filters,
        "filtered": any(filters.values()),
        "first": "before" not in request.query,
        "older": {**filters, "before": f"{last['last_at']!r}-{last['id']}"} if last else None,
        "projects": views.list_projects(request.connection),
        "hosts": views.list_agents(request.connection),
        "statuses": STATUSES,
    }
    return PageContent("sessions.html", values)


def _parse_page_key(text: str) -> tuple[float, int] | None:
    time_text, _, id_text = text.partition("-")
    last_at, session_number = parse_timestamp(time_text), parse_number({"id": id_text}, "id")
    return (last_at, session_number) if last_at is not None and session_number is not None else None


def show_session(request: PageRequest) -> PageContent:
    """One session, so many steps at a time."""
    session = _find_session(request)
    if session is None:
        return NOT_FOUND
    steps = views.list_timeline_steps(
        request.connection, session, position=_parse_position(request.query.get("after", "")), limit=STEPS_PER_PAGE + 1
    )
    last = steps[STEPS_PER_PAGE - 1] if len(steps) > STEPS_PER_PAGE else None
    values = {
        "title": f"Session {session['id']}",
        "session": session,
        "steps": steps[:STEPS_PER_PAGE],
        "further": f"{last['at']!r}-{last['rank']}-{last['id']}" if last else "",
        "is_first": "after" not in request.query,
        "summary": observations.find_summary(request.connection, session["id"]),
        "cost": views.sum_cost(request.connection, session["id"]),
        "minutes": round(count_active_minutes(views.list_timestamps(request.connection, session["id"]))),
    }
    return PageContent("session.html", values)


def _find_session(request: PageRequest) -> dict[str, Any] | None:
    number = parse_number(request.path_params, "number")
    return None if number is None else views.find_session(request.connection, number)


def _parse_position(text: str) -> TimelinePosition:
    parts = text.split("-")
    at, rest = parse_timestamp(parts[0]), [parse_number({"n": part}, "n") for part in parts[1:]]
    numbers = [number for number in rest if number is not None]
    return TimelinePosition(at, *numbers) if at is not None and len(numbers) == len(rest) == 2 else TimelinePosition()


def show_event(request: PageRequest) -> PageContent:
    """One event, whole, with the line it stands on in the transcript if that is still there."""
    session, event_id = _find_session(request), parse_number(request.path_params, "id")
    event = views.find_event(request.connection, session["id"], event_id) if session and event_id is not None else None
    if session is None or event is None:
        return NOT_FOUND
    values = {
        "title": f"{event['tool'] or event['kind']} in session {session['id']}",
        "session": session,
        "event": {
            **event,
            "input": _format_json(event["input"]),
            "response": get_stored_result_text(event["response"]),
        },
        "line": _find_line_number(session["transcript"], event["tool_use_id"]),
    }
    return PageContent("event.html", values)


def _format_json(text: str) -> str:
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False) if text else ""
    except (ValueError, RecursionError):
        return text


def _find_line_number(path: str, tool_use_id: str) -> int | None:
    """The line of a transcript that first names a call."""
    id_bytes = tool_use_id.encode("utf-8", "replace")
    if not path or not id_bytes:
        return None
    try:
        with open(_open_transcript(path), "rb", opener=open_plain_file) as file:
            return next((line for line, text in enumerate(file, 1) if id_bytes in text), None)
    except (OSError, ValueError):
        return None


def _open_transcript(path: str) -> int:
    """A transcript, open. The path came from outside: OSError unless it leads to a plain file of a likely size."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    file_stat = os.fstat(descriptor)
    if not stat.S_ISREG(file_stat.st_mode) or file_stat.st_size > MAX_TRANSCRIPT_BYTES:
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a transcript", path)
    return descriptor


def show_transcript(request: PageRequest) -> PageContent:
    """Some lines of a session's transcript, around one, stripped and redacted as what is stored is."""
    session, line = _find_session(request), parse_number(request.path_params, "line")
    if session is None or not line:
        return NOT_FOUND
    first = max(line - CONTEXT_LINES, 1)
    try:
        with open(_open_transcript(session["transcript"]), "rb", opener=open_plain_file) as file:
            raw_lines = [raw_line[:MAX_LINE_BYTES] for raw_line in islice(file, first - 1, line + CONTEXT_LINES + 1)]
    except (OSError, ValueError):
        return NOT_FOUND
    if first + len(raw_lines) <= line:
        return NOT_FOUND
    shown_lines = [
        clean_text(_format_json(raw_line.decode("utf-8", "replace").strip()))
        for raw_line in raw_lines[: line + CONTEXT_LINES + 1 - first]
    ]
    values = {
        "title": f"Line {line} of the transcript of session {session['id']}",
        "session": session,
        "line": line,
        "lines": list(enumerate(shown_lines, first)),
        "before": max(first - CONTEXT_LINES - 1, 1) if first > 1 else None,
        "further": line + 2 * CONTEXT_LINES + 1 if len(raw_lines) > len(shown_lines) else None,
    }
    return PageContent("transcript.html", values)
