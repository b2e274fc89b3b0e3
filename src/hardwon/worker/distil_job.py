"""Doing a job: from what is stored of a session to what it meant, each step committed whole."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from hardwon.clock import format_iso
from hardwon.distil.llm import Answer, Busy, Capped, Denied, Provider, Question, provider
from hardwon.distil.llm.calls import MAX_WAIT_SECONDS, ask_model, get_caps
from hardwon.distil.observations import observe_turn
from hardwon.distil.refinement import refine_summary
from hardwon.distil.refinement import refine_turn as refine_turn
from hardwon.distil.summaries import has_work, summarise_session
from hardwon.errors import UserError
from hardwon.handoff import memory_queue
from hardwon.privacy.sensitive_sessions import has_sensitive_word
from hardwon.store import db, jobs, memories, observations, sessions, turns
from hardwon.types import Job

Clock = Callable[[], float]
T = TypeVar("T")


class _LeaseLost(Exception):
    """The lease ran out: the work is somebody else's."""


def distil_session(connection: db.Connection, job: Job, values: Mapping[str, Any], clock: Clock) -> None:
    """Observe every turn of the session that has changed, then sum it up, by plain code.

    Nothing is made of a session that its person marked as sensitive, and what was made before it was marked goes.
    """
    if _is_sensitive(connection, job.session, values):
        for turn_number in turns.list_changed_turns(connection, job.session):
            turn, fingerprint = turns.read_turn(connection, job.session, turn_number)
            turns.store_distilled(connection, turn, fingerprint, [], turns.PLAIN)
        observations.delete_for_session(connection, job.session)
        jobs.finish(connection, job)
        return
    for turn_number in turns.list_changed_turns(connection, job.session):
        turn, fingerprint = turns.read_turn(connection, job.session, turn_number)
        turns.store_distilled(connection, turn, fingerprint, observe_turn(turn), turns.PLAIN)
        if values["rememberInTurn"] and turn.final_message and job.priority == jobs.LIVE:
            approved_texts = [
                memory.text for memory in memories.list_memories(connection, "active", project=turn.project)
            ]
            memory_queue.queue_statements(
                memory_queue.get_queue_folder(),
                turn,
                sessions.get_transcript_path(connection, job.session),
                approved_texts,
            )
        if not jobs.renew_lease(connection, job, clock()):
            return
    fingerprint = turns.compute_session_fingerprint(connection, job.session)
    is_changed = fingerprint not in ("", observations.read_summary_fingerprint(connection, job.session))
    if is_changed:
        session_turns, session_observations = (
            turns.list_turns(connection, job.session),
            observations.list_for_session(connection, job.session),
        )
        if has_work(session_turns):
            turns.store_summary(
                connection, job.session, summarise_session(session_turns, session_observations), fingerprint
            )
    if is_changed and values["llm.provider"] != "none" and job.priority == jobs.LIVE:
        jobs.enqueue(connection, jobs.REFINE, job.session, priority=job.priority, now=clock())
    jobs.finish(connection, job)


def _is_sensitive(connection: db.Connection, session: int, values: Mapping[str, Any]) -> bool:
    return has_sensitive_word(sessions.list_prompt_texts(connection, session), values["sensitiveWords"])


def refine_session(
    connection: db.Connection, job: Job, values: Mapping[str, Any], clock: Clock, environ: Mapping[str, str]
) -> None:
    """Have a model say better what plain code said; where it does not, or may not any more, that stays."""
    try:
        if not _is_sensitive(connection, job.session, values) and (model_provider := provider(values, environ)):
            _refine_with_model(connection, job, model_provider, values, clock)
    except _LeaseLost:
        return
    except Busy as busy:
        if busy.retry_after and busy.retry_after > MAX_WAIT_SECONDS:
            jobs.postpone(connection, job, clock() + busy.retry_after, busy.reason)
        else:
            jobs.fail(connection, job, busy.reason, clock())
        return
    except (Denied, UserError) as error:
        jobs.fail(connection, job, str(error), clock())
        return
    except Capped:
        pass  # it was said
    jobs.finish(connection, job)


def _refine_with_model(
    connection: db.Connection, job: Job, model_provider: Provider, values: Mapping[str, Any], clock: Clock
) -> None:
    project = sessions.get_project_path(connection, job.session)

    def renew_lease() -> None:
        if not jobs.renew_lease(connection, job, clock()):
            raise _LeaseLost

    send = partial(
        ask_model,
        connection,
        model_provider,
        read_clock=clock,
        on_attempt=renew_lease,
        caps=get_caps(values),
        project=project,
        session=job.session,
    )

    def ask(question: Question, read_answer: Callable[[Answer], T], /) -> T:
        """Says here that a cap is reached, since what was answered before it may be kept as if it were not."""
        try:
            return send(question, read_answer)
        except Capped as capped:
            if capped.is_first_today:
                message = f"no more model calls today: caps.{capped.cap} is reached; plain code goes on"
                print(f"{format_iso(clock())} INFO {message}", file=sys.stderr)
            raise

    for turn_number in turns.list_turns_made_by(connection, job.session, turns.PLAIN):
        turn, fingerprint = turns.read_turn(connection, job.session, turn_number)
        plain_observations = observations.list_for_turn(connection, job.session, turn_number)
        refined = refine_turn(turn, plain_observations, ask)
        turns.store_distilled(
            connection, turn, fingerprint, plain_observations if refined is None else refined, model_provider.model
        )
    fingerprint, summary = (
        turns.compute_session_fingerprint(connection, job.session),
        observations.find_summary(connection, job.session),
    )
    if summary and summary.made == turns.PLAIN:
        session_turns, session_observations = (
            turns.list_turns(connection, job.session),
            observations.list_for_session(connection, job.session),
        )
        summary = refine_summary(session_turns, session_observations, summary, ask)
        if summary:
            turns.store_summary(connection, job.session, summary, fingerprint)
