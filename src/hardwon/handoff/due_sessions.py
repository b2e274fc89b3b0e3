"""Which sessions there are for the idle clock to look at: those recorded, and transcripts that no hook told of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from hardwon import claims
from hardwon.errors import UserError
from hardwon.handoff import memory_queue, transcript_story
from hardwon.handoff.idle_sessions import MAX_AGE_SECONDS, DueSession, SessionActivity, is_handoff, select_due_sessions
from hardwon.handoff.unrecorded_sessions import MAX_TRANSCRIPTS, find_unrecorded_transcripts
from hardwon.privacy.sensitive_sessions import has_sensitive_word
from hardwon.store import reflections, sessions, set_up, turns
from hardwon.store.db import Connection
from hardwon.types import Turn, replace


class DueTranscript(NamedTuple):
    """A session to reflect on, by its transcript."""

    due: DueSession
    transcript: str
    agent: str
    session: str
    cwd: str


class _Seen(NamedTuple):
    quiet: SessionActivity
    transcript: str
    host: str
    session: str
    cwd: str


class _Decided(NamedTuple):
    """When a session was last reflected on and last handed off for good, 0 for never, and how often it was read."""

    read: float
    handed_off: float
    reflections: int


DecisionsBySession = dict[str, _Decided]
_NEVER = _Decided(0.0, 0.0, 0)


def find_sessions_due_for_reflection(
    connection: Connection,
    home: str,
    values: Mapping[str, Any],
    environment: Mapping[str, str],
    *,
    now: float,
    is_denied: Callable[[str], bool],
    queue_folder: str = "",
    model_reflections_today: int = 0,
) -> list[DueTranscript]:
    """The sessions that are due, those that became due first in front; nothing is read if it is turned off.

    Sessions that were over before hardwon was set up are left alone: nobody asked for drafts of them.
    """
    if not values["autoReflect"]:
        return []
    set_up_at, sensitive_words = set_up.read_time(connection), values.get("sensitiveWords", ())
    decided = _decided(connection)
    waiting = [one.session for one in memory_queue.read_queue(queue_folder or memory_queue.get_queue_folder())]
    every = [
        *_recorded(connection, home, now, is_denied, decided, waiting, sensitive_words),
        *_told_by_nobody(connection, home, environment, now, is_denied, decided, waiting, sensitive_words),
    ]
    known = {one.quiet.id: one for one in every if one.quiet.last_event_at >= set_up_at}
    found = select_due_sessions(
        [one.quiet for one in known.values()], now, values, model_reflections_today=model_reflections_today
    )
    return [DueTranscript(one, *known[one.id][1:]) for one in found]


def _decided(connection: Connection) -> DecisionsBySession:
    found = DecisionsBySession()
    for one in reflections.list_reflections(connection, limit=10 * MAX_TRANSCRIPTS):
        known = found.get(one.session, _NEVER)
        ratified = (one.decided_at or one.at) if one.status == reflections.RATIFIED else 0.0
        found[one.session] = _Decided(max(known.read, one.at), max(known.handed_off, ratified), known.reflections + 1)
    return found


def _recorded(
    connection: Connection,
    home: str,
    now: float,
    denied: Callable[[str], bool],
    decided: DecisionsBySession,
    waiting: list[str],
    sensitive_words: Sequence[str],
) -> Iterator[_Seen]:
    for one in sessions.list_sessions(connection, limit=MAX_TRANSCRIPTS):
        name = str(one["session"])
        known = decided.get(name, _NEVER)
        if not one["transcript"] or one["last_at"] <= max(now - MAX_AGE_SECONDS, known.read):
            continue
        every = turns.list_turns(connection, one["id"])
        quiet = _quiet(one["id"], every, one["last_at"], one["ended_at"] or 0.0, known, waiting)
        is_sensitive = has_sensitive_word((turn.prompt for turn in every), sensitive_words)
        quiet = replace(
            quiet, is_private=_is_private(home, name), is_denied=denied(one["cwd"]), is_sensitive=is_sensitive
        )
        yield _Seen(quiet, one["transcript"], one["host"], name, one["cwd"])


def _is_private(home: str, session: str) -> bool:
    return claims.is_last_prompt_private(home, session) or claims.has_been_paused(home, session)


def _quiet(
    id: int, every: Sequence[Turn], last: float, ended: float, known: _Decided, waiting: list[str]
) -> SessionActivity:
    """The session so far; whether it may be looked at is said by whoever knows."""
    return SessionActivity(
        id=id,
        last_event_at=last,
        prompt_times=tuple(turn.at for turn in every if turn.prompt),
        ended_at=ended,
        handed_off_at=max([known.handed_off, *(turn.at for turn in every if is_handoff(turn))]),
        reflected_until=known.read,
        reflection_count=known.reflections,
        call_count=sum(len(turn.calls) for turn in every),
        queued_count=waiting.count(every[-1].name) if every else 0,
        is_under_way=bool(every) and not ended and not every[-1].final_message,
    )


def _told_by_nobody(
    connection: Connection,
    home: str,
    environment: Mapping[str, str],
    now: float,
    denied: Callable[[str], bool],
    decided: DecisionsBySession,
    waiting: list[str],
    sensitive_words: Sequence[str],
) -> Iterator[_Seen]:
    """The sessions of hosts without hooks, by their transcripts; numbered below zero."""
    for number, (host, path, _) in enumerate(find_unrecorded_transcripts(connection, environment, now), 1):
        try:
            told = transcript_story.read_story(path, host)
        except (OSError, UserError):
            continue
        every = list(transcript_story.build_turns(told))
        quiet = _quiet(-number, every, told.ended_at, 0.0, decided.get(told.session, _NEVER), waiting)
        is_private = told.is_last_prompt_private or not told.steps or _is_private(home, told.session)
        is_sensitive = has_sensitive_word((turn.prompt for turn in every), sensitive_words)
        quiet = replace(quiet, is_private=is_private, is_denied=denied(told.cwd), is_sensitive=is_sensitive)
        yield _Seen(quiet, path, host, told.session, told.cwd)
