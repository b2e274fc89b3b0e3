"""Doing a job: from what is stored of a session to what it meant, each step committed whole."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from hardwon.clock import iso
from hardwon.distil.llm import Answer, Busy, Capped, Denied, Provider, Question, provider
from hardwon.distil.llm.calls import PATIENCE, ask, caps_of
from hardwon.distil.observations import observe
from hardwon.distil.refinement import refine as refine_turn
from hardwon.distil.refinement import refine_summary
from hardwon.distil.summaries import has_work, summarise
from hardwon.errors import UserError
from hardwon.handoff import memory_queue
from hardwon.privacy.sensitive_sessions import has_sensitive_word
from hardwon.store import db, jobs, memories, observations, sessions, turns
from hardwon.types import Job

Clock = Callable[[], float]
T = TypeVar("T")


class _Lost(Exception):
    """The lease ran out: the work is somebody else's."""


def distil(connection: db.Connection, job: Job, values: Mapping[str, Any], clock: Clock) -> None:
    """Observe every turn of the session that has changed, then sum it up, by plain code.

    Nothing is made of a session that its person marked as sensitive, and what was made before it was marked goes.
    """
    if _is_sensitive(connection, job.session, values):
        for number in turns.changed(connection, job.session):
            turn, mark = turns.read(connection, job.session, number)
            turns.keep(connection, turn, mark, [], turns.PLAIN)
        observations.forget_session(connection, job.session)
        jobs.finish(connection, job)
        return
    for number in turns.changed(connection, job.session):
        turn, mark = turns.read(connection, job.session, number)
        turns.keep(connection, turn, mark, observe(turn), turns.PLAIN)
        if values["rememberInTurn"] and turn.said and job.priority == jobs.LIVE:
            approved = [memory.text for memory in memories.listed(connection, "active", project=turn.project)]
            memory_queue.put(memory_queue.folder(), turn, sessions.transcript_of(connection, job.session), approved)
        if not jobs.renew(connection, job, clock()):
            return
    mark = turns.whole(connection, job.session)
    new = mark not in ("", observations.summed_up(connection, job.session))
    if new:
        every, known = turns.session_turns(connection, job.session), observations.of_session(connection, job.session)
        if has_work(every):
            turns.keep_summary(connection, job.session, summarise(every, known), mark)
    if new and values["llm.provider"] != "none" and job.priority == jobs.LIVE:
        jobs.want(connection, jobs.REFINE, job.session, priority=job.priority, now=clock())
    jobs.finish(connection, job)


def _is_sensitive(connection: db.Connection, session: int, values: Mapping[str, Any]) -> bool:
    return has_sensitive_word(sessions.list_prompts(connection, session), values["sensitiveWords"])


def refine(
    connection: db.Connection, job: Job, values: Mapping[str, Any], clock: Clock, environ: Mapping[str, str]
) -> None:
    """Have a model say better what plain code said; where it does not, or may not any more, that stays."""
    try:
        if not _is_sensitive(connection, job.session, values) and (asked := provider(values, environ)):
            _refine(connection, job, asked, values, clock)
    except _Lost:
        return
    except Busy as busy:
        if busy.retry_after and busy.retry_after > PATIENCE:
            jobs.postpone(connection, job, clock() + busy.retry_after, busy.why)
        else:
            jobs.fail(connection, job, busy.why, clock())
        return
    except (Denied, UserError) as wrong:
        jobs.fail(connection, job, str(wrong), clock())
        return
    except Capped:
        pass  # it was said
    jobs.finish(connection, job)


def _refine(connection: db.Connection, job: Job, asked: Provider, values: Mapping[str, Any], clock: Clock) -> None:
    project = sessions.project_of(connection, job.session)

    def hold_on() -> None:
        if not jobs.renew(connection, job, clock()):
            raise _Lost

    send = partial(
        ask, connection, asked, now=clock, before=hold_on, caps=caps_of(values), project=project, session=job.session
    )

    def put(question: Question, read: Callable[[Answer], T], /) -> T:
        """Says here that a cap is reached, since what was answered before it may be kept as if it were not."""
        try:
            return send(question, read)
        except Capped as capped:
            if capped.first:
                said = f"no more model calls today: caps.{capped.cap} is reached; plain code goes on"
                print(f"{iso(clock())} INFO {said}", file=sys.stderr)
            raise

    for number in turns.made_by(connection, job.session, turns.PLAIN):
        turn, mark = turns.read(connection, job.session, number)
        plain = observations.of_turn(connection, job.session, number)
        made = refine_turn(turn, plain, put)
        turns.keep(connection, turn, mark, plain if made is None else made, asked.model)
    mark, summary = turns.whole(connection, job.session), observations.summary_of(connection, job.session)
    if summary and summary.made == turns.PLAIN:
        every, known = turns.session_turns(connection, job.session), observations.of_session(connection, job.session)
        summary = refine_summary(every, known, summary, put)
        if summary:
            turns.keep_summary(connection, job.session, summary, mark)
