"""Reflecting, for the command and for the worker's clock: the settings, the model, and where memories are proposed."""

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
from hardwon.handoff import due_sessions, memories, ratification, reflection
from hardwon.handoff.idle_sessions import find_handoff_time
from hardwon.handoff.transcript_story import Story
from hardwon.store import db, reflections, runs, turns
from hardwon.store.reflection_types import SuggestedMemory

T = TypeVar("T")


def reflect_on_session(
    connection: db.Connection, home: str, transcript: str, host: str, *, plain: bool
) -> reflection.ReflectionResult:
    """Draft a handoff of the session in a transcript."""
    values = settings.resolve_settings(settings.read_config(home))
    asked = None if plain else provider(values, os.environ)
    shut = partial(is_recording_denied, home, values, clock.now())

    def put(question: Question, read: Callable[[Answer], T]) -> T:
        assert asked, "who is asked is known"
        return ask_model(connection, asked, question, read, caps=get_caps(values))

    def propose(one: SuggestedMemory, told: Story) -> None:
        propose_memory(connection, home, one, told)

    return reflection.reflect(
        connection,
        home,
        transcript,
        agent=host,
        now=clock.now(),
        ask=put if asked else None,
        propose=propose,
        max_turns=values["reflectTurns"],
        is_denied=shut,
    )


def propose_memory(connection: db.Connection, home: str, one: SuggestedMemory, told: Story) -> None:
    """Propose a memory to the person; what is known or was rejected already is not."""
    where = [f"{each.path}:{each.line}" for each in one.evidence]
    try:
        memories.propose(
            connection,
            home,
            one.type,
            one.text,
            project=told.project,
            source=ratification.REFLECTION_SOURCE,
            session=told.session,
            evidence=where,
            now=clock.now(),
        )
    except UserError:
        return


def reflect_on_due_sessions(
    connection: db.Connection, home: str, *, plain: bool = False
) -> Iterator[reflection.ReflectionResult | UserError | OSError]:
    """Every session that was left and not handed off; one that cannot be reflected on does not keep the others waiting.

    Then the drafts that a person's setting lets be ratified unseen are.
    """
    values, now = settings.resolve_settings(settings.read_config(home)), clock.now()
    today = runs.read_spending(connection, runs.find_budget_day(connection, now)).reflections
    denied = partial(is_recording_denied, home, values, now)
    for one in due_sessions.find_sessions_due_for_reflection(
        connection, home, values, os.environ, now=now, is_denied=denied, model_reflections_today=today
    ):
        try:
            yield reflect_on_session(
                connection, home, one.transcript, one.agent, plain=plain or not one.due.can_use_model
            )
        except (UserError, OSError) as wrong:
            yield wrong
    for made in ratify_overdue(connection, home, values, now):
        if isinstance(made, UserError | OSError):
            yield made


def drop_superseded_drafts(connection: db.Connection, session: int, now: float) -> int:
    """A session that its person handed off after it was drafted needs no draft; gives how many went."""
    drafts = [one for one in reflections.list_drafts(connection, session) if one.kind != "person"]
    every = turns.list_turns(connection, session) if drafts else []
    since = min((one.at for one in drafts), default=now)
    if not any((at := find_handoff_time(turn)) is not None and at > since for turn in every):
        return 0
    return ratification.drop_session_drafts(connection, drafts[0].session, now)


def is_recording_denied(home: str, values: Mapping[str, Any], now: float, cwd: str) -> bool:
    """Whether a person has said that nothing of this folder is to be recorded, or sent."""
    return pauses.is_paused(home, cwd, now) or projects.is_below(cwd, values["denyProjects"])
