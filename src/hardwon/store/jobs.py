"""Jobs: distilling that waits, one row for each kind and session.

Whoever works on a job holds a lease of some time. Whatever becomes of that process, the row stays until somebody who
still holds the lease says that it is done, and `wanted` counts how often it was asked for: a job that was wanted again
while it ran is done again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hardwon.store.db import Connection, to_storable, transaction
from hardwon.types import Job

DISTIL, REFINE = "distil", "refine"  # by plain code, and better by a model
EXIT_UNFINISHED = 3  # exit code of a process that worked off jobs: its time was up before everything was indexed
LIVE, HISTORY = 0, 10  # priorities: sessions under way come before what was imported
LEASE_SECONDS = 120.0
FIRST_WAIT_SECONDS = 15.0  # after the first failure; each further one doubles it
MAX_WAIT_SECONDS = 3600.0
MAX_TRIES = 5
QUIET_SLACK_SECONDS = 30.0  # every event asks for quiet: a wait that is nearly as long as asked for is not written anew
STATES = ("waiting", "running", "dead")
_MAX_WHY_CHARS = 500
_VANISHED_MESSAGE = "whoever worked on it ended without a word: hardwon logs"
_COLUMNS = ", ".join(Job.__annotations__)
_IS_LEASED = "id = ? and state = 'running' and lease = ?"


def enqueue(
    connection: Connection, kind: str, session: int, *, priority: int, now: float, due_at: float | None = None
) -> None:
    """Ask for a job, within the caller's transaction if there is one. A dead one gets another chance; how long one
    waits that failed or was put off does not change. Asked for later than now, it waits for quiet: each time it is
    asked for so it waits anew, to within a slack, unless it is due or under way."""
    if due_at is not None and due_at > now:
        _enqueue_later(connection, kind, session, priority, now, due_at)
        return
    connection.execute(
        "insert into jobs (kind, session, state, priority, wanted, tries, made_at, due_at, lease, lease_until, why)"
        " values (?, ?, 'waiting', ?, 1, 0, ?, ?, '', 0, '') on conflict (kind, session) do update set"
        " wanted = wanted + 1, priority = min(priority, excluded.priority),"
        " due_at = iif(state = 'dead', excluded.due_at, iif(why = '', min(due_at, excluded.due_at), due_at)),"
        " tries = iif(state = 'dead', 0, tries), why = iif(state = 'dead', '', why),"
        " state = iif(state = 'dead', 'waiting', state)",
        (kind, session, priority, now, now if due_at is None else due_at),
    )


def _enqueue_later(connection: Connection, kind: str, session: int, priority: int, now: float, due_at: float) -> None:
    connection.execute(
        "insert into jobs (kind, session, state, priority, wanted, tries, made_at, due_at, lease, lease_until, why)"
        " values (?, ?, 'waiting', ?, 1, 0, ?, ?, '', 0, '') on conflict (kind, session) do update set"
        " due_at = excluded.due_at where state = 'waiting' and why = '' and due_at > excluded.made_at"
        f" and abs(due_at - excluded.due_at) >= {QUIET_SLACK_SECONDS}",
        (kind, session, priority, now, due_at),
    )


def lease_next(connection: Connection, *, lease: str, now: float, kinds: Sequence[str] = ()) -> Job | None:
    """The next job that is due, from now on ours; None if there is none. No two callers get the same.

    A try counts from here, so that a job that kills whoever takes it is not taken for ever.
    """
    where = f" and kind in ({', '.join('?' * len(kinds))})" if kinds else ""
    with transaction(connection):
        # One that ends much later than a lease can was taken before the clock was set back.
        _free_jobs(connection, "lease_until not between ? and ?", (now, now + 2 * LEASE_SECONDS))
        row = connection.execute(
            "update jobs set state = 'running', lease = ?, lease_until = ?, tries = tries + 1 where id = ("
            f"select id from jobs where state = 'waiting' and due_at <= ?{where} order by priority, due_at, id limit 1)"
            f" returning {_COLUMNS}",
            (lease, now + LEASE_SECONDS, now, *kinds),
        ).fetchone()
    return Job(*row) if row else None


def renew_lease(connection: Connection, job: Job, now: float) -> bool:
    """Hold on to a job; False if it is not ours any more, and then the work is somebody else's."""
    return bool(
        connection.execute(
            f"update jobs set lease_until = ? where {_IS_LEASED}", (now + LEASE_SECONDS, job.id, job.lease)
        ).rowcount
    )


def finish(connection: Connection, job: Job) -> bool:
    """It is done; False, and nothing changed, if it is not ours any more. One that was wanted again waits again."""
    with transaction(connection):
        deleted = connection.execute(
            f"delete from jobs where {_IS_LEASED} and wanted = ?", (job.id, job.lease, job.wanted)
        ).rowcount
        return bool(deleted) or _requeue_job(connection, job, job.due_at, "", tries=0)


def fail(connection: Connection, job: Job, why: str, now: float) -> bool:
    """Try again later, each time after twice as long; dead after the last try, unless it was wanted again meanwhile."""
    delay = min(FIRST_WAIT_SECONDS * 2 ** (job.tries - 1), MAX_WAIT_SECONDS)
    with transaction(connection):
        if not _requeue_job(connection, job, now + delay, why, tries=job.tries):
            return False
        connection.execute(
            "update jobs set state = 'dead' where id = ? and tries >= ? and wanted = ?",
            (job.id, MAX_TRIES, job.wanted),
        )
    return True


def postpone(connection: Connection, job: Job, until: float, why: str) -> bool:
    """Put off what cannot be done before; that is no failure."""
    return _requeue_job(connection, job, until, why, tries=job.tries - 1)


def _requeue_job(connection: Connection, job: Job, due_at: float, why: str, *, tries: int) -> bool:
    return bool(
        connection.execute(
            "update jobs set state = 'waiting', lease = '', lease_until = 0, due_at = ?, why = ?, tries = ?"
            f" where {_IS_LEASED}",
            (due_at, to_storable(why[:_MAX_WHY_CHARS]), tries, job.id, job.lease),
        ).rowcount
    )


def release_leases(connection: Connection, lease_prefix: str) -> int:
    """Free at once what a process held that is known to be gone; gives how many."""
    with transaction(connection):
        return _free_jobs(connection, "substr(lease, 1, length(?1)) = ?1", (lease_prefix,))


def _free_jobs(connection: Connection, condition: str, values: tuple[object, ...]) -> int:
    """Running jobs that nobody works on wait again; after the last try they are dead."""
    return connection.execute(
        f"update jobs set state = iif(tries >= {MAX_TRIES}, 'dead', 'waiting'), lease = '', lease_until = 0,"
        f" why = iif(tries >= {MAX_TRIES}, '{_VANISHED_MESSAGE}', why) where state = 'running' and {condition}",
        values,
    ).rowcount


def list_jobs(connection: Connection) -> list[dict[str, Any]]:
    """Every job with its session: what runs, what waits in the order it is taken, then what is dead."""
    rows = connection.execute(
        "select jobs.id, kind, state, priority, wanted, tries, made_at, due_at, lease_until, why, host,"
        " sessions.session, sessions.id as number, coalesce(projects.path, '') as project from jobs"
        " join sessions on sessions.id = jobs.session left join projects on projects.id = sessions.project"
        " order by state = 'dead', state = 'waiting', priority, due_at, jobs.id"
    )
    return [dict(row) for row in rows]


def retry(connection: Connection, job_id: int, now: float) -> bool:
    """Try a job again at once, as if it had never failed; False if there is none, or it runs."""
    return bool(
        connection.execute(
            "update jobs set state = 'waiting', tries = 0, due_at = ?, why = '' where id = ? and state != 'running'",
            (now, job_id),
        ).rowcount
    )


def cancel(connection: Connection, job_id: int) -> bool:
    """Forget a job until it is wanted anew; one that runs finds that it has lost its lease."""
    return bool(connection.execute("delete from jobs where id = ?", (job_id,)).rowcount)


def find_next_due(connection: Connection, kinds: Sequence[str] = ()) -> float | None:
    """When the next job is due, or its lease ends; None if nothing waits or runs."""
    where = f" and kind in ({', '.join('?' * len(kinds))})" if kinds else ""
    due_at: float | None = connection.execute(
        f"select min(iif(state = 'running', lease_until, due_at)) from jobs where state != 'dead'{where}", tuple(kinds)
    ).fetchone()[0]
    return due_at


def is_live_due(connection: Connection, kind: str, now: float) -> bool:
    """Whether a job of a session under way waits that could be done now."""
    where = "kind = ? and state = 'waiting' and priority = ? and due_at <= ?"
    return connection.execute(f"select 1 from jobs where {where}", (kind, LIVE, now)).fetchone() is not None


def count_by_state(connection: Connection) -> dict[str, int]:
    """How many jobs there are in each state."""
    counts = dict(connection.execute("select state, count(*) from jobs group by state").fetchall())
    return {state: counts.get(state, 0) for state in STATES}
