"""Which sessions there are for the idle clock to look at: those recorded, and transcripts that no hook told of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from hardwon import claims
from hardwon.errors import UserError
from hardwon.handoff import memory_queue, transcript_story
from hardwon.handoff.idle_sessions import OLDEST, Due, Quiet, due, is_handoff
from hardwon.handoff.unrecorded_sessions import MOST, unheard
from hardwon.privacy.sensitive_sessions import has_sensitive_word
from hardwon.store import reflections, sessions, set_up, turns
from hardwon.store.db import Connection
from hardwon.types import Turn, replace


class Left(NamedTuple):
    """A session to reflect on, by its transcript."""

    due: Due
    transcript: str
    host: str
    session: str
    cwd: str


class _Seen(NamedTuple):
    quiet: Quiet
    transcript: str
    host: str
    session: str
    cwd: str


class _Decided(NamedTuple):
    """When a session was last reflected on and last handed off for good, 0 for never, and how often it was read."""

    read: float
    handed_off: float
    reflections: int


Decided = dict[str, _Decided]
_NEVER = _Decided(0.0, 0.0, 0)


def left(
    connection: Connection,
    home: str,
    values: Mapping[str, Any],
    environment: Mapping[str, str],
    *,
    now: float,
    denied: Callable[[str], bool],
    queued_in: str = "",
    by_model_today: int = 0,
) -> list[Left]:
    """The sessions that are due, those that became due first in front; nothing is read if it is turned off.

    Sessions that were over before hardwon was set up are left alone: nobody asked for drafts of them.
    """
    if not values["autoReflect"]:
        return []
    set_up_at, sensitive_words = set_up.read_time(connection), values.get("sensitiveWords", ())
    decided = _decided(connection)
    waiting = [one.session for one in memory_queue.read(queued_in or memory_queue.folder())]
    every = [
        *_recorded(connection, home, now, denied, decided, waiting, sensitive_words),
        *_told_by_nobody(connection, home, environment, now, denied, decided, waiting, sensitive_words),
    ]
    known = {one.quiet.id: one for one in every if one.quiet.last >= set_up_at}
    found = due([one.quiet for one in known.values()], now, values, by_model_today=by_model_today)
    return [Left(one, *known[one.id][1:]) for one in found]


def _decided(connection: Connection) -> Decided:
    found = Decided()
    for one in reflections.listed(connection, limit=10 * MOST):
        known = found.get(one.session, _NEVER)
        ratified = (one.decided_at or one.at) if one.status == reflections.RATIFIED else 0.0
        found[one.session] = _Decided(max(known.read, one.at), max(known.handed_off, ratified), known.reflections + 1)
    return found


def _recorded(
    connection: Connection,
    home: str,
    now: float,
    denied: Callable[[str], bool],
    decided: Decided,
    waiting: list[str],
    sensitive_words: Sequence[str],
) -> Iterator[_Seen]:
    for one in sessions.listed(connection, limit=MOST):
        name = str(one["session"])
        known = decided.get(name, _NEVER)
        if not one["transcript"] or one["last_at"] <= max(now - OLDEST, known.read):
            continue
        every = turns.session_turns(connection, one["id"])
        quiet = _quiet(one["id"], every, one["last_at"], one["ended_at"] or 0.0, known, waiting)
        is_sensitive = has_sensitive_word((turn.asked for turn in every), sensitive_words)
        quiet = replace(
            quiet, is_private=_is_private(home, name), is_denied=denied(one["cwd"]), is_sensitive=is_sensitive
        )
        yield _Seen(quiet, one["transcript"], one["host"], name, one["cwd"])


def _is_private(home: str, session: str) -> bool:
    return claims.is_private(home, session) or claims.was_paused(home, session)


def _quiet(id: int, every: Sequence[Turn], last: float, ended: float, known: _Decided, waiting: list[str]) -> Quiet:
    """The session so far; whether it may be looked at is said by whoever knows."""
    return Quiet(
        id=id,
        last=last,
        prompted=tuple(turn.at for turn in every if turn.asked),
        ended=ended,
        handed_off=max([known.handed_off, *(turn.at for turn in every if is_handoff(turn))]),
        reflected=known.read,
        reflections=known.reflections,
        calls=sum(len(turn.calls) for turn in every),
        queued=waiting.count(every[-1].name) if every else 0,
        is_under_way=bool(every) and not ended and not every[-1].said,
    )


def _told_by_nobody(
    connection: Connection,
    home: str,
    environment: Mapping[str, str],
    now: float,
    denied: Callable[[str], bool],
    decided: Decided,
    waiting: list[str],
    sensitive_words: Sequence[str],
) -> Iterator[_Seen]:
    """The sessions of hosts without hooks, by their transcripts; numbered below zero."""
    for number, (host, path, _) in enumerate(unheard(connection, environment, now), 1):
        try:
            told = transcript_story.read(path, host)
        except (OSError, UserError):
            continue
        every = list(transcript_story.turns(told))
        quiet = _quiet(-number, every, told.ended, 0.0, decided.get(told.session, _NEVER), waiting)
        is_private = told.ends_private or not told.steps or _is_private(home, told.session)
        is_sensitive = has_sensitive_word((turn.asked for turn in every), sensitive_words)
        quiet = replace(quiet, is_private=is_private, is_denied=denied(told.cwd), is_sensitive=is_sensitive)
        yield _Seen(quiet, path, host, told.session, told.cwd)
