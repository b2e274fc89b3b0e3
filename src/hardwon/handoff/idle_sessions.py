"""When a session is reflected on: at once when it ends, else when it has been left long enough.

The longer somebody worked in a session, the longer a break may be before it counts as left, and longer again once they
came back to it: whoever keeps a tab open all day takes lunch. What was handed off by its person, is private or denied,
or never amounted to anything is left alone, and so is what was left so long ago that nobody would look at a draft of
it. Nothing here knows the time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal

from hardwon.types import Call, Turn, word

MINUTE, HOUR = 60.0, 3600.0
PAUSE = HOUR  # more than this between two prompts is no work
GROWS_FROM, DOUBLES_IN = HOUR, 3 * HOUR  # 15 minutes are 30 after four hours of work, and 60 after ten
RETURNED_TIMES = 2.0  # for each time that it was reflected on and went on
MOST_TIMES = 4.0
UNDER_WAY_TIMES = 4.0  # the agent may be waiting for a long command, or nobody told that it stopped
LEAST_CALLS = 10  # with fewer, a session of too few prompts is too short
OLDEST = 72 * HOUR  # a weekend
_COMMAND = re.compile(r"\s*(?:<command-name>\s*)?/(?:[\w-]+:)?hand-?off\b|\s*hardwon handoff (?:write|ratify)\b", re.I)
_COMMITS = re.compile(
    r"\bgit\b[^|;&\n]{0,200}\bcommit\b[^|;&\n]{0,200}?\s(?:-\w*m|--message)[\s=]*[\"']?"
    r"(?:\$\(cat\s*<<-?\s*[\"'\\]?\w+[\"']?\s*\n\s*)?(?:(?:docs|chore|session)(?:\([^()]*\))?:\s*)?"
    r"(?:session[ -])?hand-?off\b|\bhardwon\s+handoff\s+(?:write|ratify)\b",
    re.I,
)
_PAGE = re.compile(r"(?:^|/)docs/sessions/[^/]+(?<!\.draft)\.md$")

LOOK_AGAIN = 600.0  # seconds after which sessions that were not due the last time are looked at again
Why = Literal["ended", "idle"]


@word
class Look:
    """What the worker's clock saw when it last had sessions looked at: their numbers, each with its last event."""

    left: tuple[tuple[int, float], ...] = ()
    at: float = 0.0


def look(left: Sequence[tuple[int, float]], now: float, last: Look, *, overdue: bool = False) -> Look | None:
    """What is to be looked at now, None if nothing is: what is left has changed, or the last look is a while ago."""
    if not left and not overdue:
        return None
    is_recent = 0 <= now - last.at < LOOK_AGAIN
    return None if is_recent and tuple(left) == last.left else Look(tuple(left), now)


@word
class Quiet:
    """A session as the idle clock sees it; times in seconds, 0 for never.

    `reflected` is how far the latest of its `reflections` has read, `queued` how many statements wait to be remembered.
    """

    id: int
    last: float  # anything that happened, the agent's calls too
    prompted: tuple[float, ...]
    ended: float = 0.0
    handed_off: float = 0.0
    reflected: float = 0.0
    reflections: int = 0
    calls: int = 0
    queued: int = 0
    is_under_way: bool = False  # a prompt was not answered to its end
    is_private: bool = False
    is_denied: bool = False
    is_sensitive: bool = False  # a prompt holds one of `sensitiveWords`


@word
class Due:
    """A session to reflect on, and whether a model may; `at` is when it became due."""

    id: int
    why: Why
    at: float
    by_model: bool = False


def due(sessions: Iterable[Quiet], now: float, values: Mapping[str, Any], *, by_model_today: int = 0) -> list[Due]:
    """The sessions to reflect on now, those that became due first in front; a model for as many as the cap still lets.

    Whoever reflects books each call all the same: the cap is held there.
    """
    found = [
        (at, session, why)
        for session in sessions
        if (due_at := when(session, values)) and (at := due_at[0]) <= now < session.last + OLDEST
        for why in [due_at[1]]
    ]
    left = values["caps.reflectionsPerDay"] - by_model_today if values["llm.provider"] != "none" else 0
    ordered = sorted(found, key=lambda one: (one[0], one[1].id))
    return [Due(session.id, why, at, number < left) for number, (at, session, why) in enumerate(ordered)]


def when(session: Quiet, values: Mapping[str, Any]) -> tuple[float, Why] | None:
    """From when on it is to be reflected on, and why; None if it is left alone."""
    if left_alone(session, values):
        return None
    if session.ended and session.ended >= max(session.prompted, default=0.0):
        return session.ended, "ended"
    patience = idle_seconds(session, values)
    return (session.last + patience, "idle") if patience else None


def left_alone(session: Quiet, values: Mapping[str, Any]) -> str:
    """Why a session is not reflected on, whatever the time; empty if it is."""
    if not values["autoReflect"]:
        return "reflecting by itself is turned off"
    if session.is_private:
        return "it is private"
    if session.is_denied:
        return "nothing is recorded in its folder"
    if session.is_sensitive:
        return "it is sensitive"
    since_handoff = sum(at > session.handed_off for at in session.prompted)
    if session.handed_off and since_handoff < values["reflectMinPrompts"]:
        return "it was handed off"
    if not any(at > session.reflected for at in session.prompted):
        return "it was reflected on, and nothing was asked since" if session.reflected else "nothing was asked in it"
    is_long = len(session.prompted) >= values["reflectMinPrompts"] or session.calls >= LEAST_CALLS
    return "" if is_long or session.queued else "it is too short"


def idle_seconds(session: Quiet, values: Mapping[str, Any]) -> float:
    """How long it may be quiet before it counts as left; 0: for ever."""
    grown = 1.0 + max(worked(session) - GROWS_FROM, 0.0) / DOUBLES_IN
    times = min(grown * RETURNED_TIMES ** min(session.reflections, 9), MOST_TIMES)
    return float(values["idleMinutes"] * MINUTE * times * (UNDER_WAY_TIMES if session.is_under_way else 1.0))


def worked(session: Quiet) -> float:
    """The time that was spent in a session, long pauses counted short."""
    return sum(min(after - before, PAUSE) for before, after in pairwise(sorted((*session.prompted, session.last))))


def is_handoff(turn: Turn) -> bool:
    """Whether its person had the session handed off in this turn: by command, by commit or by the page itself."""
    return handed_off_at(turn) is not None


def handed_off_at(turn: Turn) -> float | None:
    """When that was; None if it was not."""
    times = [call.at for call in turn.calls if call.outcome == "fine" and _hands_off(call)]
    return max([*times, turn.at]) if times or _COMMAND.match(turn.asked) else None


def _hands_off(call: Call) -> bool:
    said = dict(_texts(call.input))
    command, path = said.get("command", ""), said.get("file_path", "").replace("\\", "/")
    if call.tool in ("Skill", "SlashCommand"):
        return bool(_COMMAND.match(command or f"/{said.get('skill', '')}"))
    return bool(_COMMITS.search(command) or (call.tool == "Write" and _PAGE.search(path)))


def _texts(value: Any) -> Iterator[tuple[str, str]]:
    for name, text in value.items() if isinstance(value, dict) else ():
        if isinstance(text, str):
            yield name, text[:20_000]
