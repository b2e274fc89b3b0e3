"""What follows the end of a turn, in a process of its own: fill the session, distil it, index it, compile the brief.

It works off what is due and ends; the worker starts it again when something is. What a model is asked is done by a
second one, so that nobody's slow answer holds up plain code. Killed at any point it leaves leases behind, which the
worker frees, and every step that was committed is whole.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from time import monotonic
from typing import Any

from hardwon import clock, paths, settings
from hardwon.errors import UserError
from hardwon.handoff.reflection import ReflectionResult
from hardwon.search import brief, indexing
from hardwon.sessions import transcript_import
from hardwon.store import db, jobs, sessions
from hardwon.worker import distil_job
from hardwon.worker.reflection_job import drop_superseded_drafts, is_recording_denied, reflect_on_due_sessions

REFLECT = "reflect"
SHIFT_SECONDS = 20.0
STORE_RETRY_SECONDS = 30.0


def main(home: str, kind: str, max_documents: int | None = None) -> int:
    """Work off the jobs of a kind; 1 if something has to be tried again, jobs.UNFINISHED if more is left to index."""
    os.nice(10)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # a call to a model is cut off and booked as such
    try:
        values = settings.resolve_settings(settings.read_config(home))
        connection = db.connect(home)
        if kind == REFLECT:
            _draft_handoffs(home, connection, values)
            return 0
        if kind == jobs.DISTIL:
            transcript_import.import_waiting_sessions(home, connection, values)
        is_finished = run_due_jobs(home, connection, kind, values, max_documents=max_documents)
    except (UserError, OSError, db.StoreError) as error:
        _write_log_line(f"{kind}: {error}", level="WARNING")
        return 1
    return 0 if is_finished else jobs.EXIT_UNFINISHED


def run_due_jobs(
    home: str,
    connection: db.Connection,
    kind: str,
    values: Mapping[str, Any],
    *,
    read_clock: Callable[[], float] = clock.now,
    max_documents: int | None = None,
) -> bool:
    """The jobs of the kind that are due, then what is made from all of them. Of many it does a part, so that what comes
    in meanwhile is filled, indexed and told before all of history is. False if something is left to index."""
    lease, touched_projects, deadline = f"{os.getpid()}.{os.urandom(4).hex()}", set[str](), monotonic() + SHIFT_SECONDS
    while monotonic() < deadline and (job := jobs.lease_next(connection, lease=lease, now=read_clock(), kinds=(kind,))):
        try:
            if kind == jobs.DISTIL:
                distil_job.distil_session(connection, job, values, read_clock)
                drop_superseded_drafts(connection, job.session, read_clock())
            elif is_recording_denied(home, values, read_clock(), sessions.get_cwd(connection, job.session)):
                jobs.finish(connection, job)
            else:
                distil_job.refine_session(connection, job, values, read_clock, os.environ)
        except db.StoreError as error:  # the disk is full, or somebody writes for long: no fault of the job's
            with suppress(db.StoreError):
                jobs.postpone(connection, job, read_clock() + STORE_RETRY_SECONDS, str(error))
            raise
        touched_projects.add(sessions.get_project_path(connection, job.session))
    for project in touched_projects - {""}:
        brief.compile_brief(connection, home, project, values)
    deadline = monotonic() + SHIFT_SECONDS

    def should_continue() -> bool:
        """Until a session under way waits, which the next shift fills and distils."""
        return monotonic() < deadline and not jobs.is_live_due(connection, kind, read_clock())

    index_result = indexing.refresh_index(
        connection, home, model=indexing.load_model_or_none(), should_continue=should_continue, max_items=max_documents
    )
    return not index_result["left"]


def _draft_handoffs(home: str, connection: db.Connection, values: Mapping[str, Any]) -> None:
    for result in reflect_on_due_sessions(connection, home):
        if isinstance(result, ReflectionResult):
            _write_log_line(f"a handoff was drafted: reflection {result.record.id}")
            brief.compile_brief(connection, home, result.record.project, values)
        else:
            _write_log_line(f"a session could not be reflected on: {result}", level="WARNING")


def _write_log_line(text: str, level: str = "INFO") -> None:
    """Write a line into the worker's log, where stderr leads, in the form the worker's own lines have."""
    print(f"{clock.format_iso(clock.now())} {level} {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(paths.get_home(), sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else None))
