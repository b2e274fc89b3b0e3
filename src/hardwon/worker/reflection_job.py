"""Drafts handoffs for `hardwon reflect` and for the worker: with its settings, its model, and proposed memories."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, TypeVar

from hardwon import clock, pauses, projects, settings
from hardwon.actions.handoffs import ratify_overdue
from hardwon.distil.llm import Answer, Question, provider
from hardwon.distil.llm.calls import ask_model, get_caps
from hardwon.errors import UserError
from hardwon.handoff import due_sessions, ratification, reflection
from hardwon.handoff.idle_sessions import find_handoff_time
from hardwon.handoff.transcript_story import Story
from hardwon.memories import memories
from hardwon.store import db, reflections, runs, turns
from hardwon.store.reflection_types import SuggestedMemory

T = TypeVar("T")


def reflect_on_session(
    connection: db.Connection, home: str, transcript: str, host: str, *, plain: bool
) -> reflection.ReflectionResult:
    """Draft a handoff of the session in a transcript."""
    values = settings.resolve_settings(settings.read_config(home))
    model_provider = None if plain else provider(values, os.environ)
    is_denied = partial(is_recording_denied, home, values, clock.now())

    def ask(question: Question, read_answer: Callable[[Answer], T]) -> T:
        assert model_provider
        return ask_model(connection, model_provider, question, read_answer, caps=get_caps(values))

    def propose(memory: SuggestedMemory, story: Story) -> None:
        propose_memory(connection, home, memory, story)

    return reflection.reflect(
        connection,
        home,
        transcript,
        agent=host,
        now=clock.now(),
        ask=ask if model_provider else None,
        propose=propose,
        max_turns=values["reflectTurns"],
        is_denied=is_denied,
        sensitive_words=values["sensitiveWords"],
    )


def propose_memory(connection: db.Connection, home: str, memory: SuggestedMemory, story: Story) -> None:
    """Propose a memory, unless it is known or was rejected before."""
    locations = [f"{citation.path}:{citation.line}" for citation in memory.evidence]
    try:
        memories.propose(
            connection,
            home,
            memory.type,
            memory.text,
            project=story.project,
            source=ratification.REFLECTION_SOURCE,
            session=story.session,
            evidence=locations,
            now=clock.now(),
        )
    except UserError:
        return


def reflect_on_due_sessions(
    connection: db.Connection, home: str, *, plain: bool = False
) -> Iterator[reflection.ReflectionResult | UserError | OSError]:
    """Draft a handoff of every session that is due, then ratify the drafts that `ratifyAfterDays` lets be ratified.

    An error about one session is yielded and does not stop the others.
    """
    values = settings.resolve_settings(settings.read_config(home))
    now = clock.now()
    reflections_today = runs.read_spending(connection, runs.find_budget_day(connection, now)).reflections
    is_denied = partial(is_recording_denied, home, values, now)
    for due_session in due_sessions.find_sessions_due_for_reflection(
        connection, home, values, os.environ, now=now, is_denied=is_denied, model_reflections_today=reflections_today
    ):
        try:
            yield reflect_on_session(
                connection,
                home,
                due_session.transcript,
                due_session.agent,
                plain=plain or not due_session.due.can_use_model,
            )
        except (UserError, OSError) as error:
            yield error
    for result in ratify_overdue(connection, home, values, now):
        if isinstance(result, UserError | OSError):
            yield result


def drop_superseded_drafts(connection: db.Connection, session: int, now: float) -> int:
    """Delete the drafts of a session that was handed off by hand since; return how many."""
    drafts = [
        draft for draft in reflections.list_drafts(connection, session) if draft.kind in reflections.REFLECTED_KINDS
    ]
    session_turns = turns.list_turns(connection, session) if drafts else []
    drafted_at = min((draft.at for draft in drafts), default=now)
    if not any(
        (handoff_at := find_handoff_time(turn)) is not None and handoff_at > drafted_at for turn in session_turns
    ):
        return 0
    return ratification.drop_session_drafts(connection, drafts[0].session, now)


def is_recording_denied(home: str, values: Mapping[str, Any], now: float, cwd: str) -> bool:
    """Return whether recording is paused or denied in this folder."""
    return pauses.is_paused(home, cwd, now) or projects.is_below(cwd, values["denyProjects"])
