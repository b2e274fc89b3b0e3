"""Decide when to reflect on a session: as soon as it ends, or after it was idle long enough.

The longer somebody worked in a session, the longer it may be idle, and longer again if they came back after a
reflection: people who keep a session open all day take breaks. Skipped are sessions that their person handed off,
private and denied ones, trivial ones, and those idle for so long that nobody would read a draft. The current time is
always passed in.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal

from hardwon.types import EDIT_TOOLS, Call, Turn, frozen

MINUTE, HOUR = 60.0, 3600.0
MAX_PROMPT_GAP_SECONDS = HOUR  # a longer gap between two prompts counts as this much work
# 15 minutes grow to 30 after four hours of work, and to 60 after ten.
GROWTH_START_SECONDS = HOUR
DOUBLING_SECONDS = 3 * HOUR
RETURN_FACTOR = 2.0  # for each reflection after which the session went on
MAX_FACTOR = 4.0  # limit for growth and returns together
UNDER_WAY_FACTOR = 4.0  # the agent may be waiting for a long command, or its stop was not reported
MIN_CALLS = 10  # a session with few prompts and fewer calls is too short to reflect on
MAX_AGE_SECONDS = 72 * HOUR  # covers a weekend
_HANDOFF_COMMAND = re.compile(
    r"\s*(?:<command-name>\s*)?/(?:[\w-]+:)?hand-?off\b|\s*hardwon handoff (?:write|ratify)\b", re.I
)
_HANDOFF_COMMIT = re.compile(
    r"\bgit\b[^|;&\n]{0,200}\bcommit\b[^|;&\n]{0,200}?\s(?:-\w*m|--message)[\s=]*[\"']?"
    r"(?:\$\(cat\s*<<-?\s*[\"'\\]?\w+[\"']?\s*\n\s*)?(?:(?:docs|chore|session)(?:\([^()]*\))?:\s*)?"
    r"(?:session[ -])?hand-?off\b|\bhardwon\s+handoff\s+(?:write|ratify)\b",
    re.I,
)
_COMMIT = re.compile(r"\bgit\b[^|;&\n]{0,200}\bcommit\b")
# A page that somebody wrote, not one of our drafts.
_HANDOFF_PAGE = re.compile(r"(?:^|/)docs/sessions/[^/]+(?<!\.draft)\.md$")

RECHECK_SECONDS = 600.0  # check sessions that were not due again after this time
DueReason = Literal["ended", "idle"]


@frozen
class LastCheck:
    """The session numbers and last event times that the worker saw at its last check."""

    session_times: tuple[tuple[int, float], ...] = ()
    checked_at: float = 0.0


def plan_check(
    session_times: Sequence[tuple[int, float]], now: float, last_check: LastCheck, *, has_overdue: bool = False
) -> LastCheck | None:
    """Return the check to make now; None if there is nothing to check, or nothing changed since a recent check.

    `session_times` are the sessions' numbers and the times of their last events.
    """
    if not session_times and not has_overdue:
        return None
    # A negative age means that the clock was set back.
    is_recent = 0 <= now - last_check.checked_at < RECHECK_SECONDS
    if is_recent and tuple(session_times) == last_check.session_times:
        return None
    return LastCheck(tuple(session_times), now)


@frozen
class SessionActivity:
    """The activity of a session as far as reflection needs it; times in seconds, 0 for never.

    `reflected_until` is the time of the last of its `reflection_count` reflections; `queued_count` counts its
    statements in the memory queue.
    """

    id: int
    last_event_at: float  # the agent's calls included
    prompt_times: tuple[float, ...]
    ended_at: float = 0.0
    handed_off_at: float = 0.0
    reflected_until: float = 0.0
    reflection_count: int = 0
    call_count: int = 0
    queued_count: int = 0
    has_changes: bool = False  # a file was edited or a commit made
    is_under_way: bool = False  # the last prompt has no final answer
    is_private: bool = False
    is_denied: bool = False
    is_sensitive: bool = False  # a prompt contains one of `sensitiveWords`


@frozen
class DueSession:
    """A session to reflect on, when it became due, and whether a model may be used."""

    id: int
    reason: DueReason
    due_at: float
    can_use_model: bool = False


def select_due_sessions(
    sessions: Iterable[SessionActivity], now: float, values: Mapping[str, Any], *, model_reflections_today: int = 0
) -> list[DueSession]:
    """Return the sessions to reflect on now, earliest due time first, with a model while the daily cap lasts.

    The cap is enforced where the model is called; this only avoids planning calls beyond it.
    """
    due: list[tuple[float, int, DueReason]] = []
    for session in sessions:
        due_time = find_due_time(session, values)
        if due_time is None:
            continue
        due_at, reason = due_time
        if due_at <= now < session.last_event_at + MAX_AGE_SECONDS:
            due.append((due_at, session.id, reason))
    model_budget = 0
    if values["llm.provider"] != "none":
        model_budget = values["caps.reflectionsPerDay"] - model_reflections_today
    return [
        DueSession(session_id, reason, due_at, position < model_budget)
        for position, (due_at, session_id, reason) in enumerate(sorted(due))
    ]


def find_due_time(session: SessionActivity, values: Mapping[str, Any]) -> tuple[float, DueReason] | None:
    """Return when and why the session is due; None if it is skipped."""
    if find_skip_reason(session, values):
        return None
    # A session that was resumed after its end has later prompts.
    if session.ended_at and session.ended_at >= max(session.prompt_times, default=0.0):
        return session.ended_at, "ended"
    idle_limit = compute_idle_limit(session, values)
    if not idle_limit:
        return None
    return session.last_event_at + idle_limit, "idle"


def find_skip_reason(session: SessionActivity, values: Mapping[str, Any]) -> str:
    """Return why a session is never due; empty if it may be."""
    if not values["autoReflect"]:
        return "reflecting by itself is turned off"
    if session.is_private:
        return "it is private"
    if session.is_denied:
        return "nothing is recorded in its folder"
    if session.is_sensitive:
        return "it is sensitive"
    since_handoff = sum(at > session.handed_off_at for at in session.prompt_times)
    if session.handed_off_at and since_handoff < values["reflectMinPrompts"]:
        return "it was handed off"
    if not any(at > session.reflected_until for at in session.prompt_times):
        if session.reflected_until:
            return "it was reflected on, and nothing was asked since"
        return "nothing was asked in it"
    is_long = len(session.prompt_times) >= values["reflectMinPrompts"] or session.call_count >= MIN_CALLS
    if is_long or session.has_changes or session.queued_count:
        return ""
    return "it is too short"


def compute_idle_limit(session: SessionActivity, values: Mapping[str, Any]) -> float:
    """Return the seconds of silence after which a session counts as idle; 0 means never.

    They grow with the time spent in the session, with each reflection on it, and while an answer is under way.
    """
    growth = 1.0 + max(compute_worked_seconds(session) - GROWTH_START_SECONDS, 0.0) / DOUBLING_SECONDS
    factor = min(growth * RETURN_FACTOR ** min(session.reflection_count, 9), MAX_FACTOR)
    if session.is_under_way:
        factor *= UNDER_WAY_FACTOR
    return float(values["idleMinutes"] * MINUTE * factor)


def compute_worked_seconds(session: SessionActivity) -> float:
    """Return the seconds spent in a session; gaps between prompts count for at most an hour."""
    times = sorted([*session.prompt_times, session.last_event_at])
    return sum(min(later - earlier, MAX_PROMPT_GAP_SECONDS) for earlier, later in pairwise(times))


def is_handoff(turn: Turn) -> bool:
    """Return whether the person handed off the session in this turn, by command, commit or handoff page."""
    return find_handoff_time(turn) is not None


def find_handoff_time(turn: Turn) -> float | None:
    """Return the time of the handoff in this turn, that of its last call or of the prompt; None if there is none."""
    times = [call.at for call in turn.calls if call.outcome == "fine" and _is_handoff_call(call)]
    if not times and not _HANDOFF_COMMAND.match(turn.prompt):
        return None
    return max([*times, turn.at])


def changes_something(call: Call) -> bool:
    """Return whether a call edited a file or made a commit."""
    command = dict(_list_text_fields(call.input)).get("command", "")
    return call.outcome == "fine" and (call.tool in EDIT_TOOLS or is_commit(command))


def is_commit(command: str) -> bool:
    return bool(_COMMIT.search(command))


def _is_handoff_call(call: Call) -> bool:
    """Return whether a call hands the session off: a handoff skill or command, a commit of one, or its page."""
    fields = dict(_list_text_fields(call.input))
    command = fields.get("command", "")
    path = fields.get("file_path", "").replace("\\", "/")
    if call.tool in ("Skill", "SlashCommand"):
        return bool(_HANDOFF_COMMAND.match(command or f"/{fields.get('skill', '')}"))
    return bool(_HANDOFF_COMMIT.search(command) or (call.tool == "Write" and _HANDOFF_PAGE.search(path)))


def _list_text_fields(value: Any) -> Iterator[tuple[str, str]]:
    """Yield the names and texts of a call's input, cut; nothing if the input is not an object."""
    if not isinstance(value, dict):
        return
    for name, text in value.items():
        if isinstance(text, str):
            yield name, text[:20_000]
