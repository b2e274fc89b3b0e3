"""The process that follows the end of a turn: import the transcript, distil the session, index it, compile the brief.

It does the jobs that are due and ends. Jobs for a model run in a second process, so that slow answers do not hold up
plain code. Every step is one transaction; the worker releases the leases of a process that was killed.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Any, TypeVar

from hardwon import clock, paths, pauses, projects, settings
from hardwon.actions.handoffs import ratify_overdue
from hardwon.distil.llm import Answer, Busy, Capped, Denied, Provider, Question, provider
from hardwon.distil.llm.calls import MAX_WAIT_SECONDS, ask_model, get_caps
from hardwon.distil.observations import observe_turn
from hardwon.distil.refinement import refine_summary, refine_turn
from hardwon.distil.summaries import has_work, summarise_session
from hardwon.efficacy.delivery_changes import propose_retiring_gone, update_deliveries
from hardwon.efficacy.outcomes import record_past_firings
from hardwon.errors import UserError
from hardwon.handoff import due_sessions, memory_queue, ratification, reflection
from hardwon.handoff.idle_sessions import find_handoff_time
from hardwon.handoff.reflection import ReflectionResult
from hardwon.handoff.transcript_story import Story
from hardwon.memories import memories
from hardwon.privacy.prompt_text import has_sensitive_word
from hardwon.search import brief, indexing
from hardwon.sessions import transcript_import
from hardwon.store import db, jobs, observations, reflections, runs, sessions, turns, views
from hardwon.store.memories import list_memories
from hardwon.store.reflections import SuggestedMemory
from hardwon.types import Job

REFLECT = "reflect"
_SHIFT_SECONDS = 20.0
_STORE_RETRY_SECONDS = 30.0
_NICENESS = 10
_EXIT_FAILED = 1
ReadClock = Callable[[], float]
T = TypeVar("T")


def main(home: str, kind: str) -> int:
    """Do the due jobs of a kind; return the exit code, jobs.EXIT_UNFINISHED if more is left to index."""
    # Give way to other programs: a person may be waiting for an agent.
    os.nice(_NICENESS)
    # Raising SystemExit lets a model call in progress be recorded as cut off.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(_EXIT_FAILED))
    try:
        values = settings.load_settings(home)
        with db.open(home) as connection:
            if kind == REFLECT:
                _draft_handoffs(home, connection, values)
                return 0
            if kind == jobs.DISTIL:
                transcript_import.import_waiting_sessions(home, connection, values)
            is_finished = run_due_jobs(home, connection, kind, values)
            if kind == jobs.DISTIL:
                _judge_firings(home, connection)
    except (UserError, OSError, db.StoreError) as error:
        _write_log_line(f"{kind}: {error}", level="WARNING")
        return _EXIT_FAILED
    return 0 if is_finished else jobs.EXIT_UNFINISHED


def _judge_firings(home: str, connection: db.Connection) -> None:
    """Judge firings and change deliveries, now that the session's calls are imported."""
    with suppress(UserError):  # lessons.json is broken, and doctor says where; the sessions are distilled all the same
        record_past_firings(connection, home)
        propose_retiring_gone(connection, home, clock.now())
        update_deliveries(connection, home, clock.now())


def run_due_jobs(
    home: str,
    connection: db.Connection,
    kind: str,
    values: Mapping[str, Any],
    *,
    read_clock: ReadClock = clock.now,
) -> bool:
    """Do the due jobs of a kind, then compile briefs and refresh the index; return False if more is left to index.

    It stops after _SHIFT_SECONDS, so that new sessions are not kept waiting by a long history.
    """
    # The worker releases the leases of a process that ended by its number; the rest tells apart two shifts of one
    # process.
    lease = f"{os.getpid()}.{os.urandom(4).hex()}"
    touched_projects = set[str]()
    deadline = monotonic() + _SHIFT_SECONDS
    while monotonic() < deadline:
        job = jobs.lease_next(connection, lease=lease, now=read_clock(), kinds=(kind,))
        if job is None:
            break
        session = views.find_session(connection, job.session)
        if session is None:  # deleted since, and its job with it
            continue
        try:
            _run_job(home, connection, job, session, values, read_clock)
        except db.StoreError as error:  # a full disk or a long write by others, which is not the job's fault
            with suppress(db.StoreError):
                jobs.postpone(connection, job, read_clock() + _STORE_RETRY_SECONDS, str(error))
            raise
        touched_projects.add(session["project_path"])
    # Once per project, after all its sessions of this shift.
    for project in touched_projects - {""}:
        brief.compile_brief(connection, home, project, values)
    model = indexing.load_model_or_none()  # takes long on a busy machine, and is no part of the shift
    deadline = monotonic() + _SHIFT_SECONDS

    def should_continue() -> bool:
        """Stop when a live session waits, which the next process distils first."""
        return monotonic() < deadline and not jobs.is_live_due(connection, kind, read_clock())

    index_result = indexing.refresh_index(connection, home, model=model, should_continue=should_continue)
    return not index_result["left"]


def _run_job(
    home: str,
    connection: db.Connection,
    job: Job,
    session: Mapping[str, Any],
    values: Mapping[str, Any],
    read_clock: ReadClock,
) -> None:
    """Distil or refine the session of a job."""
    if job.kind == jobs.DISTIL:
        distil_session(connection, job, session["transcript"], values, read_clock)
        drop_superseded_drafts(connection, job.session, read_clock())
    elif _is_recording_denied(home, values, read_clock(), session["cwd"]):
        # A pause or a denied folder that came after the job was queued keeps its text from the model, too.
        jobs.finish(connection, job)
    else:
        _refine_session(connection, job, session["project_path"], values, read_clock)


class _LeaseLost(Exception):
    """The lease ran out, and another process may have taken the job."""


def distil_session(
    connection: db.Connection, job: Job, transcript: str, values: Mapping[str, Any], read_clock: ReadClock
) -> None:
    """Distil the changed turns of a session into observations and a summary, by plain code.

    Of a session that is marked as sensitive nothing is kept, and what was distilled before is deleted.
    """
    is_sensitive = _is_sensitive(connection, job.session, values)
    is_live = job.priority == jobs.LIVE
    for turn_number in turns.list_changed_turns(connection, job.session):
        turn, fingerprint = turns.read_turn(connection, job.session, turn_number)
        # A sensitive turn is stored as distilled to nothing, so that it does not count as changed any more.
        turn_observations = [] if is_sensitive else observe_turn(turn)
        turns.store_distilled(connection, turn, fingerprint, turn_observations, turns.PLAIN)
        if is_sensitive:
            continue
        # Only when the turn is over, and not for imported history.
        if values["rememberInTurn"] and turn.final_message and is_live:
            approved_texts = [memory.text for memory in list_memories(connection, "active", project=turn.project)]
            memory_queue.queue_statements(memory_queue.get_queue_folder(), turn, transcript, approved_texts)
        if not jobs.renew_lease(connection, job, read_clock()):
            return  # another process has the job now
    if is_sensitive:
        observations.delete_for_session(connection, job.session)
        jobs.finish(connection, job)
        return
    is_changed = _update_summary(connection, job.session)
    if is_changed and is_live and values["llm.provider"] != "none":  # imported history is not sent to a model
        jobs.enqueue(connection, jobs.REFINE, job.session, priority=job.priority, now=read_clock())
    jobs.finish(connection, job)


def _update_summary(connection: db.Connection, session: int) -> bool:
    """Summarise a session anew; return False if nothing changed since its last summary, or nothing was distilled."""
    fingerprint = turns.compute_session_fingerprint(connection, session)  # empty if nothing was distilled
    if fingerprint in ("", observations.read_summary_fingerprint(connection, session)):
        return False
    session_turns = turns.list_turns(connection, session)
    if has_work(session_turns):
        summary = summarise_session(session_turns, observations.list_for_session(connection, session))
        turns.store_summary(connection, session, summary, fingerprint)
    return True


def _is_sensitive(connection: db.Connection, session: int, values: Mapping[str, Any]) -> bool:
    return has_sensitive_word(sessions.list_prompt_texts(connection, session), values["sensitiveWords"])


def _refine_session(
    connection: db.Connection, job: Job, project: str, values: Mapping[str, Any], read_clock: ReadClock
) -> None:
    """Have a model improve what plain code wrote, which stays where the model fails or a cap is reached."""
    try:
        if not _is_sensitive(connection, job.session, values):
            model_provider = provider(values, os.environ)
            if model_provider:  # else the person has turned the model off since
                _refine_with_model(connection, job, project, model_provider, values, read_clock)
    except _LeaseLost:
        return
    except Busy as busy:
        # A rate limit with a date is no failure of the job, and does not count as a try.
        if busy.retry_after and busy.retry_after > MAX_WAIT_SECONDS:
            jobs.postpone(connection, job, read_clock() + busy.retry_after, busy.reason)
        else:
            jobs.fail(connection, job, busy.reason, read_clock())
        return
    except (Denied, UserError) as error:
        jobs.fail(connection, job, str(error), read_clock())
        return
    except Capped:
        pass  # already logged
    jobs.finish(connection, job)


def _refine_with_model(
    connection: db.Connection,
    job: Job,
    project: str,
    model_provider: Provider,
    values: Mapping[str, Any],
    read_clock: ReadClock,
) -> None:
    """Ask the model about each turn that plain code distilled, then about the summary."""

    def renew_lease() -> None:
        """Keep the job while an answer is awaited; _LeaseLost if another process took it."""
        if not jobs.renew_lease(connection, job, read_clock()):
            raise _LeaseLost

    # Every attempt renews the lease, because a slow model may take longer than it lasts.
    send = partial(
        ask_model,
        connection,
        model_provider,
        read_clock=read_clock,
        on_attempt=renew_lease,
        caps=get_caps(values),
        project=project,
        session=job.session,
    )

    def ask(question: Question, read_answer: Callable[[Answer], T], /) -> T:
        """Log a reached cap here, because the caller may keep earlier answers and not report it."""
        try:
            return send(question, read_answer)
        except Capped as capped:
            if capped.is_first_today:
                _write_log_line(f"no more model calls today: caps.{capped.cap} is reached; plain code goes on")
            raise

    for turn_number in turns.list_turns_made_by(connection, job.session, turns.PLAIN):
        turn, fingerprint = turns.read_turn(connection, job.session, turn_number)
        plain_observations = observations.list_for_turn(connection, job.session, turn_number)
        refined = refine_turn(turn, plain_observations, ask)
        if refined is None:
            refined = plain_observations  # stored as the model's, so that it is not asked again
        turns.store_distilled(connection, turn, fingerprint, refined, model_provider.model)
    fingerprint = turns.compute_session_fingerprint(connection, job.session)
    summary = observations.find_summary(connection, job.session)
    if summary and summary.made == turns.PLAIN:
        session_turns = turns.list_turns(connection, job.session)
        session_observations = observations.list_for_session(connection, job.session)
        summary = refine_summary(session_turns, session_observations, summary, ask)
        if summary:
            turns.store_summary(connection, job.session, summary, fingerprint)


def _draft_handoffs(home: str, connection: db.Connection, values: Mapping[str, Any]) -> None:
    """Draft what is due, log it, and compile the briefs that name the drafts."""
    for result in reflect_on_due_sessions(connection, home):
        if isinstance(result, ReflectionResult):
            _write_log_line(f"drafted handoff H{result.record.id}")
            brief.compile_brief(connection, home, result.record.project, values)
        else:
            _write_log_line(f"a session could not be handed off: {result}", level="WARNING")


def _write_log_line(text: str, level: str = "INFO") -> None:
    """Write a line to stderr, which is the worker's log, in the format of the worker's own lines."""
    print(f"{clock.format_iso(clock.now())} {level} {text}", file=sys.stderr, flush=True)


def reflect_on_session(
    connection: db.Connection, home: str, transcript: str, host: str, *, plain: bool
) -> reflection.ReflectionResult:
    """Draft a handoff of the session in a transcript; with `plain`, no model is asked."""
    values = settings.load_settings(home)
    model_provider = None if plain else provider(values, os.environ)

    def ask(question: Question, read_answer: Callable[[Answer], T]) -> T:
        assert model_provider
        return ask_model(connection, model_provider, question, read_answer, caps=get_caps(values))

    def propose(memory: SuggestedMemory, story: Story) -> None:
        """Propose a memory that the session suggests."""
        with suppress(UserError):  # it is known, or was rejected before
            memories.propose(
                connection,
                home,
                memory.type,
                memory.text,
                project=story.project,
                source=ratification.REFLECTION_SOURCE,
                session=story.session,
                evidence=[f"{citation.path}:{citation.line}" for citation in memory.evidence],
                now=clock.now(),
            )

    options = reflection.ReflectionOptions(
        ask=ask if model_provider else None,
        max_turns=values["reflectTurns"],
        is_denied=partial(_is_recording_denied, home, values, clock.now()),
        sensitive_words=values["sensitiveWords"],
        propose=propose,
    )
    return reflection.reflect(connection, home, transcript, options, agent=host, now=clock.now())


def reflect_on_due_sessions(
    connection: db.Connection, home: str, *, plain: bool = False
) -> Iterator[reflection.ReflectionResult | UserError | OSError]:
    """Draft a handoff of every session that is due, then ratify the drafts that `ratifyAfterDays` lets be ratified.

    An error about one session is yielded and does not stop the others.
    """
    values = settings.load_settings(home)
    now = clock.now()
    reflections_today = runs.read_spending(connection, runs.find_budget_day(connection, now)).reflections
    is_denied = partial(_is_recording_denied, home, values, now)
    sessions_due = due_sessions.find_sessions_due_for_reflection(
        connection, home, values, os.environ, now=now, is_denied=is_denied, model_reflections_today=reflections_today
    )
    for due_session in sessions_due:
        # Without a model also when as many as a day allows were drafted with it.
        is_plain = plain or not due_session.due.can_use_model
        try:
            yield reflect_on_session(connection, home, due_session.transcript, due_session.agent, plain=is_plain)
        except (UserError, OSError) as error:
            yield error
    for result in ratify_overdue(connection, home, values, now):
        if isinstance(result, UserError | OSError):
            yield result


def drop_superseded_drafts(connection: db.Connection, session: int, now: float) -> int:
    """Delete the drafts of a session that was handed off by hand since; return how many."""
    all_drafts = reflections.list_drafts(connection, session)
    # What a person or the agent wrote in the session stays.
    drafts = [draft for draft in all_drafts if draft.kind in reflections.REFLECTED_KINDS]
    if not drafts:
        return 0
    first_draft_at = min(draft.at for draft in drafts)
    for turn in turns.list_turns(connection, session):
        handoff_at = find_handoff_time(turn)
        if handoff_at is not None and handoff_at > first_draft_at:
            return ratification.drop_session_drafts(connection, drafts[0].session, now)
    return 0


def _is_recording_denied(home: str, values: Mapping[str, Any], now: float, cwd: str) -> bool:
    """Return whether recording is paused or denied in this folder."""
    return pauses.is_paused(home, cwd, now) or projects.is_below(cwd, values["denyProjects"])


if __name__ == "__main__":
    sys.exit(main(paths.get_home(), sys.argv[1]))
