"""Find sessions due for reflection, from recorded sessions and from transcripts that no hook reported."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from hardwon import claims
from hardwon.agents import TRANSCRIPT_AGENTS, transcript_files
from hardwon.agents.transcript_steps import load_transcript_module
from hardwon.errors import UserError
from hardwon.handoff import memory_queue, transcript_story
from hardwon.handoff.idle_sessions import (
    MAX_AGE_SECONDS,
    DueSession,
    SessionActivity,
    changes_something,
    is_handoff,
    select_due_sessions,
)
from hardwon.privacy.prompt_text import has_sensitive_word
from hardwon.store import reflections, sessions, turns
from hardwon.store.db import Connection
from hardwon.types import Turn, replace

MAX_TRANSCRIPTS = 500  # only the latest are looked at
_SUBAGENT_MARKS = ("/subagents/", "/agent-")


class DueTranscript(NamedTuple):
    """A session to reflect on, with its transcript."""

    due: DueSession
    transcript: str
    agent: str
    session: str
    cwd: str


class _ObservedSession(NamedTuple):
    """A session that may be due, with its transcript.

    Sessions that the store does not know have negative ids in their activity.
    """

    activity: SessionActivity
    transcript: str
    agent: str
    session: str
    cwd: str


class _PastDecisions(NamedTuple):
    """The times of a session's last reflection and last ratified handoff, 0 for never, and its reflection count."""

    read_at: float
    handed_off_at: float
    reflection_count: int


DecisionsBySession = dict[str, _PastDecisions]
_NO_DECISIONS = _PastDecisions(0.0, 0.0, 0)


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
    """Return the due sessions, earliest due time first; empty if `autoReflect` is off.

    Sessions that ended before hardwon was set up are skipped: nobody asked for drafts of them.
    """
    if not values["autoReflect"]:
        return []
    set_up_at = sessions.read_set_up_time(connection)
    sensitive_words = values.get("sensitiveWords", ())
    decisions = _read_decisions(connection)
    queue = memory_queue.read_queue(queue_folder or memory_queue.get_queue_folder())
    queued_sessions = [entry.session for entry in queue]
    candidates = [
        *_find_recorded_sessions(connection, home, now, is_denied, decisions, queued_sessions, sensitive_words),
        *_find_unrecorded_sessions(
            connection, home, environment, now, is_denied, decisions, queued_sessions, sensitive_words
        ),
    ]
    sessions_by_id = {entry.activity.id: entry for entry in candidates if entry.activity.last_event_at >= set_up_at}
    due_sessions = select_due_sessions(
        [entry.activity for entry in sessions_by_id.values()],
        now,
        values,
        model_reflections_today=model_reflections_today,
    )
    due_transcripts: list[DueTranscript] = []
    for due in due_sessions:
        observed = sessions_by_id[due.id]
        due_transcripts.append(DueTranscript(due, observed.transcript, observed.agent, observed.session, observed.cwd))
    return due_transcripts


def _read_decisions(connection: Connection) -> DecisionsBySession:
    """Return what was decided about sessions, by their ids in the agent; for the latest reflections only."""
    decisions = DecisionsBySession()
    for reflection in reflections.list_reflections(connection, limit=10 * MAX_TRANSCRIPTS):
        earlier = decisions.get(reflection.session, _NO_DECISIONS)
        ratified_at = 0.0
        if reflection.status == reflections.RATIFIED:
            ratified_at = reflection.decided_at or reflection.at
        decisions[reflection.session] = _PastDecisions(
            read_at=max(earlier.read_at, reflection.at),
            handed_off_at=max(earlier.handed_off_at, ratified_at),
            reflection_count=earlier.reflection_count + 1,
        )
    return decisions


def _find_recorded_sessions(
    connection: Connection,
    home: str,
    now: float,
    is_denied: Callable[[str], bool],
    decisions: DecisionsBySession,
    queued_sessions: list[str],
    sensitive_words: Sequence[str],
) -> Iterator[_ObservedSession]:
    """Yield recorded sessions that have a transcript and were active lately, and since their last reflection."""
    for row in sessions.list_sessions(connection, limit=MAX_TRANSCRIPTS):
        session_id = str(row["session"])
        past_decisions = decisions.get(session_id, _NO_DECISIONS)
        if not row["transcript"] or row["last_at"] <= max(now - MAX_AGE_SECONDS, past_decisions.read_at):
            continue
        session_turns = turns.list_turns(connection, row["id"])
        activity = _build_activity(
            row["id"], session_turns, row["last_at"], row["ended_at"] or 0.0, past_decisions, queued_sessions
        )
        is_sensitive = has_sensitive_word((turn.prompt for turn in session_turns), sensitive_words)
        activity = replace(
            activity,
            is_private=_is_private(home, session_id),
            is_denied=is_denied(row["cwd"]),
            is_sensitive=is_sensitive,
        )
        yield _ObservedSession(activity, row["transcript"], row["host"], session_id, row["cwd"])


def _is_private(home: str, session: str) -> bool:
    """Return whether a session's last prompt was private, or recording was ever paused in it."""
    return claims.is_last_prompt_private(home, session) or claims.has_been_paused(home, session)


def _build_activity(
    row_id: int,
    session_turns: Sequence[Turn],
    last_event_at: float,
    ended_at: float,
    past_decisions: _PastDecisions,
    queued_sessions: list[str],
) -> SessionActivity:
    """Build the activity of a session; the caller sets `is_private`, `is_denied` and `is_sensitive`."""
    return SessionActivity(
        id=row_id,
        last_event_at=last_event_at,
        prompt_times=tuple(turn.at for turn in session_turns if turn.prompt),
        ended_at=ended_at,
        handed_off_at=max([past_decisions.handed_off_at, *(turn.at for turn in session_turns if is_handoff(turn))]),
        reflected_until=past_decisions.read_at,
        reflection_count=past_decisions.reflection_count,
        call_count=sum(len(turn.calls) for turn in session_turns),
        has_changes=any(changes_something(call) for turn in session_turns for call in turn.calls),
        queued_count=queued_sessions.count(session_turns[-1].name) if session_turns else 0,
        is_under_way=bool(session_turns) and not ended_at and not session_turns[-1].final_message,
    )


def _find_unrecorded_sessions(
    connection: Connection,
    home: str,
    environment: Mapping[str, str],
    now: float,
    is_denied: Callable[[str], bool],
    decisions: DecisionsBySession,
    queued_sessions: list[str],
    sensitive_words: Sequence[str],
) -> Iterator[_ObservedSession]:
    """Yield sessions of agents without hooks, read from transcripts, with negative numbers as ids."""
    for number, (agent, path, _) in enumerate(find_unrecorded_transcripts(connection, environment, now), 1):
        try:
            story = transcript_story.read_story(path, agent)
        except (OSError, UserError):
            continue
        if story.is_subagent:
            continue
        session_turns = list(transcript_story.build_turns(story))
        activity = _build_activity(
            row_id=-number,
            session_turns=session_turns,
            last_event_at=story.ended_at,
            ended_at=0.0,  # no hook reports an end
            past_decisions=decisions.get(story.session, _NO_DECISIONS),
            queued_sessions=queued_sessions,
        )
        has_only_private_turns = not story.steps
        is_private = story.is_last_prompt_private or has_only_private_turns or _is_private(home, story.session)
        is_sensitive = has_sensitive_word((turn.prompt for turn in session_turns), sensitive_words)
        activity = replace(activity, is_private=is_private, is_denied=is_denied(story.cwd), is_sensitive=is_sensitive)
        yield _ObservedSession(activity, path, agent, story.session, story.cwd)


class UnrecordedTranscript(NamedTuple):
    """A transcript that changed after its last reflection."""

    agent: str
    path: str
    modified_at: float


def find_unrecorded_transcripts(
    connection: Connection, environment: Mapping[str, str], now: float
) -> list[UnrecordedTranscript]:
    """Return the unrecorded transcripts that changed since their last reflection, latest first."""
    changed = _find_changed_transcripts(environment, now - MAX_AGE_SECONDS)
    transcripts = sorted(changed, key=lambda transcript: -transcript.modified_at)[:MAX_TRANSCRIPTS]
    if not transcripts:
        return []
    recorded_paths = {os.path.realpath(path) for path in sessions.list_transcript_paths(connection)}
    reflection_times = reflections.read_reflection_times(connection)
    unrecorded = list[UnrecordedTranscript]()
    for transcript in transcripts:
        name = os.path.basename(transcript.path)
        is_reflected = any(session in name and at >= transcript.modified_at for session, at in reflection_times.items())
        if os.path.realpath(transcript.path) not in recorded_paths and not is_reflected:
            unrecorded.append(transcript)
    return unrecorded


def _find_changed_transcripts(environment: Mapping[str, str], since: float) -> Iterator[UnrecordedTranscript]:
    """Yield the transcripts in the agents' own folders that changed since this time."""
    for agent in TRANSCRIPT_AGENTS:
        for top in load_transcript_module(agent).find_transcript_folders(environment, os.path.expanduser("~")):
            for folder, _, names in os.walk(top):
                for name in names:
                    yield from _list_changed_sessions(os.path.join(folder, name), agent, since)


def _list_changed_sessions(path: str, agent: str, since: float) -> Iterator[UnrecordedTranscript]:
    """Yield the sessions in a transcript file that changed since this time, without sub-agents."""
    if not transcript_files.is_agent_transcript_path(path, agent):
        return
    try:
        entries = transcript_files.list_sessions(path, os.stat(path))
    except OSError:
        return
    for session_path, stat in entries:
        if stat.st_mtime > since and not any(part in session_path for part in _SUBAGENT_MARKS):
            yield UnrecordedTranscript(agent, session_path, stat.st_mtime)
