"""The pages of sessions: the list, one session as a timeline, and one event.

Hooks do not report what an agent says between its calls, so the page of a session reads that from its transcript. It is
not stored, because nothing else needs it.
"""

from __future__ import annotations

import errno
import json
import math
import os
from collections.abc import Iterator
from typing import Any

from hardwon import settings
from hardwon.agents import TRANSCRIPT_AGENTS, transcript_files
from hardwon.agents.tool_results import get_stored_result_text
from hardwon.agents.transcript_files import PrivateTurnTracker, build_step_exclusion, denied_or_deleted
from hardwon.agents.transcript_steps import Step, load_transcript_module, parse_timestamp
from hardwon.errors import UserError
from hardwon.paths import open_plain_file
from hardwon.privacy.cleaning import clean_text
from hardwon.store import observations, views
from hardwon.store.db import Connection, Row, parse_json_or_text
from hardwon.store.deletions import read_tombstones
from hardwon.store.sessions import STATUSES, count_active_minutes, describe_status
from hardwon.store.views import TimelinePosition
from hardwon.types import AGENT_MESSAGE, EDIT_TOOLS
from hardwon.web.file_changes import FileChange, describe_changes
from hardwon.web.insights import describe_failure
from hardwon.web.page_request import (
    PageContent,
    PageNotFound,
    PageRequest,
    parse_day_range,
    parse_number,
    parse_position,
)
from hardwon.web.render import describe_input

# A page goes on after the last row of the one before, so its cost does not grow with the number of sessions.
_SESSIONS_PER_PAGE = 50
_STEPS_PER_PAGE = 200
_EVENT_FILTERS = {"": "Everything", "messages": "Conversation", "failures": "Failures", "changes": "Changes"}
_MAX_TRANSCRIPT_BYTES = 200_000_000  # reading more for one page would take seconds
_MAX_READ_BYTES = 10_000_000  # which take about a quarter of a second to read


def show_session_list(request: PageRequest) -> PageContent:
    """Show the sessions that pass the filters, newest first, a page at a time.

    `before` in the address is the last session of the page before: the time of its last event, and its number.
    """
    filters = request.get_filters("project", "host", "status", "since", "until")
    since, until = parse_day_range(filters)
    position = parse_position(request.query.get("before", ""), 2)
    before_key = None
    if position:
        last_at, number = position
        before_key = (last_at, int(number))
    rows = views.list_session_page(
        request.connection,
        project=parse_number(filters, "project"),
        agent=filters["host"],
        status=filters["status"],
        since=since,
        until=until,
        before_key=before_key,
        limit=_SESSIONS_PER_PAGE + 1,  # one more tells whether there is another page
    )
    older = None
    if len(rows) > _SESSIONS_PER_PAGE:
        last = rows[_SESSIONS_PER_PAGE - 1]
        older = {**filters, "before": f"{last['last_at']!r}-{last['id']}"}
    values = {
        "title": "Sessions",
        "sessions": rows[:_SESSIONS_PER_PAGE],
        "filters": filters,
        "filtered": any(filters.values()),
        "first": "before" not in request.query,
        "older": older,
        "projects": views.list_projects(request.connection),
        "hosts": views.list_agents(request.connection),
        "statuses": STATUSES,
    }
    return PageContent("sessions.html", values)


def show_session(request: PageRequest) -> PageContent:
    """Show a session as a timeline, a page at a time; `after` is the position of the last step before this page."""
    session = _find_session(request)
    start = TimelinePosition()
    if position := parse_position(request.query.get("after", ""), 3):
        at, rank, row_id = position
        start = TimelinePosition(at, int(rank), int(row_id))
    event_filter = request.choose("show", tuple(_EVENT_FILTERS))
    steps = views.list_timeline_steps(
        request.connection, session, position=start, limit=_STEPS_PER_PAGE + 1, event_filter=event_filter
    )
    next_page = ""
    if len(steps) > _STEPS_PER_PAGE:
        last = steps[_STEPS_PER_PAGE - 1]
        next_page = f"{last['at']!r}-{last['rank']}-{last['id']}"
    steps = steps[:_STEPS_PER_PAGE]
    for step in steps:
        _describe_event(step)
    if event_filter in ("", "messages"):
        until = steps[-1]["at"] if next_page else math.inf
        steps = _add_agent_words(request, session, steps, start.at, until)
    for step in steps:
        if step.get("kind") == AGENT_MESSAGE:  # shown as the words that are read from a transcript
            step |= {"what": "words", "text": step["response"]}
    values = {
        "title": session["first_prompt"] or f"Session {session['id']}",
        "session": session,
        "status": describe_status(session["status"], session["last_at"]),
        "filters": _EVENT_FILTERS,
        "show": event_filter,
        "steps": steps,
        "next_page": next_page,
        "is_first": "after" not in request.query,
        "summary": observations.find_summary(request.connection, session["id"]),
        "cost": views.sum_cost(request.connection, session["id"]),
        "minutes": round(count_active_minutes(views.list_timestamps(request.connection, session["id"]))),
    }
    return PageContent("session.html", values)


def _describe_event(step: Row) -> None:
    """Add to a step what an edit changed, and why a call failed; both are empty for other steps."""
    step["changes"] = []
    step["error"] = ""
    if step["what"] == "event":
        step["changes"] = _describe_edit(step)
        if step["outcome"] == "failed":
            step["error"], _ = describe_failure(step)


def _add_agent_words(request: PageRequest, session: Row, steps: list[Row], since: float, until: float) -> list[Row]:
    """Return the steps with what the agent said between them, in the order of time.

    The last words of a turn are an event of their own, so the transcript's copy of them is left out.
    """
    last_words = {_build_text_key(step["response"]) for step in steps if step["what"] == "event"}
    all_steps = list(steps)
    for words_step in _read_agent_words(request.home, request.connection, session, since, until):
        if _build_text_key(words_step["text"]) not in last_words:
            all_steps.append(words_step)
    # At equal times words come first (False sorts before True): what was said at the time of a call was said before.
    return sorted(all_steps, key=lambda step: (step["at"], step["what"] != "words"))


def _build_text_key(text: str) -> str:
    """Return the first words of a text, by which two records of one message are alike: one of them may be cut."""
    return " ".join(text[:1000].split())[:300]


def _describe_edit(step: Row) -> list[dict[str, Any]]:
    """Return what an edit replaced as a difference; nothing if the step is none or its input was stored cut."""
    if step["tool"] not in EDIT_TOOLS:
        return []
    tool_input = parse_json_or_text(step["input"])
    if not isinstance(tool_input, dict):
        return []
    old_text = tool_input.get("old_string", "")
    new_text = tool_input.get("new_string", tool_input.get("content"))
    if not isinstance(old_text, str) or not isinstance(new_text, str):
        return []
    return describe_changes([FileChange(path="", old_text=old_text, new_text=new_text)])


def _find_session(request: PageRequest) -> Row:
    session = views.find_session(request.connection, request.get_number())
    if session is None:
        raise PageNotFound
    return session


def show_event(request: PageRequest) -> PageContent:
    """Show one event whole, with its line in the transcript if that still exists."""
    session = _find_session(request)
    event_id = parse_number(request.path_params, "id")
    event = views.find_event(request.connection, session["id"], event_id or 0)
    if event is None:
        raise PageNotFound
    event["input"] = _format_input(event["input"])
    event["response"] = get_stored_result_text(event["response"])
    values = {
        "title": f"{event['tool'] or event['kind']} in session {session['id']}",
        "session": session,
        "event": event,
        "line": _find_line_number(session["transcript"], event["tool_use_id"]),
    }
    return PageContent("event.html", values)


def _format_input(text: str) -> str:
    """Return the only field of an input as it is, several as JSON on lines of their own."""
    try:
        tool_input = json.loads(text) if text else ""
        if isinstance(tool_input, dict) and len(tool_input) > 1:
            return json.dumps(tool_input, indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text
    return describe_input(tool_input)


def _find_line_number(path: str, tool_use_id: str) -> int | None:
    """Return the number of the first line of a transcript that names a call; None if the transcript is gone."""
    id_bytes = tool_use_id.encode("utf-8", "replace")
    if not path or not id_bytes:
        return None
    try:
        with open(path, "rb", opener=_open_transcript) as file:
            for number, line in enumerate(file, 1):
                if id_bytes in line:
                    return number
    except (OSError, ValueError):
        pass
    return None


def _open_transcript(path: str, flags: int) -> int:
    """Open a transcript; OSError unless it is a plain file of a likely size, since its path came from outside."""
    descriptor = open_plain_file(path, flags | os.O_NOFOLLOW)
    if os.fstat(descriptor).st_size > _MAX_TRANSCRIPT_BYTES:
        os.close(descriptor)
        raise OSError(errno.EFBIG, "too large for a transcript", path)
    return descriptor


def _read_agent_words(home: str, connection: Connection, session: Row, since: float, until: float) -> list[Row]:
    """Return the main agent's messages from its transcript as steps of the timeline, without what is never recorded.

    Empty if there is no transcript any more, or if it is too long to be read for a page.
    """
    path = session["transcript"]
    agent = session["host"]
    if agent not in TRANSCRIPT_AGENTS or not path or not transcript_files.is_agent_transcript_path(path, agent):
        return []
    try:
        if os.path.getsize(path) > _MAX_READ_BYTES:
            return []
        values = settings.resolve_settings(settings.read_config(home))
        is_excluded = denied_or_deleted(build_step_exclusion(home, values), read_tombstones(connection))
        private_turns = PrivateTurnTracker(path)
        words: list[Row] = []
        for number, step in _iter_transcript_steps(path, agent):
            # The tracker sees every step, since it must notice where a private turn begins and ends.
            if private_turns.check_next_step(step):
                continue
            is_main_agent = not step.subagent_id and step.session == session["session"]
            if step.kind != "agent" or not is_main_agent or not step.text.strip():
                continue
            at = parse_timestamp(step.at)
            if since <= at <= until and not is_excluded(step):
                words.append({"what": "words", "id": number, "at": at, "text": clean_text(step.text)})
        return words
    except (OSError, UserError):
        return []


def _iter_transcript_steps(path: str, agent: str) -> Iterator[tuple[int, Step]]:
    """Yield the steps of a transcript, each with the number of its line."""
    reader = load_transcript_module(agent).Reader()
    with transcript_files.open_transcript(path) as transcript:
        for lines, _ in transcript.portions:
            for number, line in lines:
                for step in reader.read_line(number, line):
                    yield number, step
