"""Reflecting, for the command and for the worker's clock: the settings, the model, and where memories are proposed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, TypeVar

from hardwon import clock, pauses, projects, settings
from hardwon.actions.handoffs import ratify_overdue
from hardwon.distil.llm import Answer, Question, provider
from hardwon.distil.llm.calls import ask, caps_of
from hardwon.errors import UserError
from hardwon.handoff import due_sessions, memories, ratification, reflection
from hardwon.handoff.idle_sessions import handed_off_at
from hardwon.handoff.transcript_story import Story
from hardwon.store import db, reflections, runs, turns
from hardwon.store.reflection_types import Remembered

T = TypeVar("T")


def reflect(connection: db.Connection, home: str, transcript: str, host: str, *, plain: bool) -> reflection.Reflected:
    """Draft a handoff of the session in a transcript."""
    values = settings.resolve(settings.read_config(home))
    asked = None if plain else provider(values, os.environ)
    shut = partial(is_shut, home, values, clock.now())

    def put(question: Question, read: Callable[[Answer], T]) -> T:
        assert asked, "who is asked is known"
        return ask(connection, asked, question, read, caps=caps_of(values))

    def propose(one: Remembered, told: Story) -> None:
        offer(connection, home, one, told)

    return reflection.reflect(
        connection,
        home,
        transcript,
        host=host,
        now=clock.now(),
        ask=put if asked else None,
        propose=propose,
        most_turns=values["reflectTurns"],
        shut=shut,
    )


def offer(connection: db.Connection, home: str, one: Remembered, told: Story) -> None:
    """Propose a memory to the person; what is known or was rejected already is not."""
    where = [f"{each.path}:{each.line}" for each in one.evidence]
    try:
        memories.propose(
            connection,
            home,
            one.type,
            one.text,
            project=told.project,
            source=ratification.SOURCE,
            session=told.session,
            evidence=where,
            now=clock.now(),
        )
    except UserError:
        return


def reflect_on_left(
    connection: db.Connection, home: str, *, plain: bool = False
) -> Iterator[reflection.Reflected | UserError | OSError]:
    """Every session that was left and not handed off; one that cannot be reflected on does not keep the others waiting.

    Then the drafts that a person's setting lets be ratified unseen are.
    """
    values, now = settings.resolve(settings.read_config(home)), clock.now()
    today = runs.today(connection, runs.day_of(connection, now)).reflections
    denied = partial(is_shut, home, values, now)
    for one in due_sessions.left(connection, home, values, os.environ, now=now, denied=denied, by_model_today=today):
        try:
            yield reflect(connection, home, one.transcript, one.host, plain=plain or not one.due.by_model)
        except (UserError, OSError) as wrong:
            yield wrong
    for made in ratify_overdue(connection, home, values, now):
        if isinstance(made, UserError | OSError):
            yield made


def give_up_drafts(connection: db.Connection, session: int, now: float) -> int:
    """A session that its person handed off after it was drafted needs no draft; gives how many went."""
    drafts = [one for one in reflections.drafts_of(connection, session) if one.kind != "person"]
    every = turns.session_turns(connection, session) if drafts else []
    since = min((one.at for one in drafts), default=now)
    if not any((at := handed_off_at(turn)) is not None and at > since for turn in every):
        return 0
    return ratification.moot(connection, drafts[0].session, now)


def is_shut(home: str, values: Mapping[str, Any], now: float, cwd: str) -> bool:
    """Whether a person has said that nothing of this folder is to be recorded, or sent."""
    return pauses.paused(home, cwd, now) or projects.is_below(cwd, values["denyProjects"])
