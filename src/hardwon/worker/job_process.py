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
from hardwon.handoff.reflection import Reflected
from hardwon.search import brief, indexing
from hardwon.sessions import transcript_import
from hardwon.store import db, jobs, sessions
from hardwon.worker import distil_job
from hardwon.worker.reflection_job import give_up_drafts, is_shut, reflect_on_left

REFLECT = "reflect"
SHIFT_SECONDS = 20.0
STORE_SECONDS = 30.0


def main(home: str, kind: str, most_documents: int | None = None) -> int:
    """Work off the jobs of a kind; 1 if something has to be tried again, jobs.UNFINISHED if more is left to index."""
    os.nice(10)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # a call to a model is cut off and booked as such
    try:
        values = settings.resolve(settings.read_config(home))
        connection = db.connect(home)
        if kind == REFLECT:
            _reflect(home, connection, values)
            return 0
        if kind == jobs.DISTIL:
            transcript_import.waiting(home, connection, values)
        is_finished = work_off(home, connection, kind, values, most_documents=most_documents)
    except (UserError, OSError, db.StoreError) as wrong:
        _log(f"{kind}: {wrong}", level="WARNING")
        return 1
    return 0 if is_finished else jobs.UNFINISHED


def work_off(
    home: str,
    connection: db.Connection,
    kind: str,
    values: Mapping[str, Any],
    *,
    clock: Callable[[], float] = clock.now,
    most_documents: int | None = None,
) -> bool:
    """The jobs of the kind that are due, then what is made from all of them. Of many it does a part, so that what comes
    in meanwhile is filled, indexed and told before all of history is. False if something is left to index."""
    lease, touched, end = f"{os.getpid()}.{os.urandom(4).hex()}", set[str](), monotonic() + SHIFT_SECONDS
    while monotonic() < end and (job := jobs.take(connection, lease=lease, now=clock(), kinds=(kind,))):
        try:
            if kind == jobs.DISTIL:
                distil_job.distil(connection, job, values, clock)
                give_up_drafts(connection, job.session, clock())
            elif is_shut(home, values, clock(), sessions.cwd_of(connection, job.session)):
                jobs.finish(connection, job)
            else:
                distil_job.refine(connection, job, values, clock, os.environ)
        except db.StoreError as wrong:  # the disk is full, or somebody writes for long: no fault of the job's
            with suppress(db.StoreError):
                jobs.postpone(connection, job, clock() + STORE_SECONDS, str(wrong))
            raise
        touched.add(sessions.project_of(connection, job.session))
    for project in touched - {""}:
        brief.compile(connection, home, project, values)
    end = monotonic() + SHIFT_SECONDS

    def go_on() -> bool:
        """Until a session under way waits, which the next shift fills and distils."""
        return monotonic() < end and not jobs.is_live_due(connection, kind, clock())

    done = indexing.refresh(connection, home, model=indexing.model_or_none(), go_on=go_on, most=most_documents)
    return not done["left"]


def _reflect(home: str, connection: db.Connection, values: Mapping[str, Any]) -> None:
    for done in reflect_on_left(connection, home):
        if isinstance(done, Reflected):
            _log(f"a handoff was drafted: reflection {done.record.id}")
            brief.compile(connection, home, done.record.project, values)
        else:
            _log(f"a session could not be reflected on: {done}", level="WARNING")


def _log(text: str, level: str = "INFO") -> None:
    """Write a line into the worker's log, where stderr leads, in the form the worker's own lines have."""
    print(f"{clock.iso(clock.now())} {level} {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(paths.home(), sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else None))
