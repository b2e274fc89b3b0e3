"""The queue of distilling jobs, one row for each kind and session.

A process that works on a job holds a lease on it. If the process dies, the row stays, until a holder of the lease
finishes the job. `wanted` counts the requests: a job that is requested again while it runs is done again.
"""

from __future__ import annotations

from collections.abc import Sequence

from hardwon.store.db import Connection, Row, fetch_dicts, fetch_value, transaction
from hardwon.types import Job

DISTIL, REFINE = "distil", "refine"  # by plain code; then improved by a model
EXIT_UNFINISHED = 3  # exit code of a process that worked off jobs: its time was up before everything was indexed
LIVE, HISTORY = 0, 10  # priorities: live sessions come before imported history
LEASE_SECONDS = 120.0  # renewed while the job runs; afterwards the job is taken over
FIRST_WAIT_SECONDS = 15.0  # after the first failure; each further one doubles it
_MAX_WAIT_SECONDS = 3600.0  # between two tries
MAX_TRIES = 5
_QUIET_SLACK_SECONDS = 30.0
_STATES = ("waiting", "running", "dead")
_MAX_WHY_CHARS = 500
_VANISHED_MESSAGE = "whoever worked on it ended without a word: hardwon logs"
_COLUMNS = ", ".join(Job.__annotations__)
_IS_LEASED_SQL = "id = ? and state = 'running' and lease = ?"
# What a further request changes: a dead job begins anew; `why` is empty unless a try failed or was postponed.
_WANT_AGAIN_SQL = """
    wanted = wanted + 1,
    priority = min(priority, excluded.priority),
    due_at = iif(state = 'dead', excluded.due_at, iif(why = '', min(due_at, excluded.due_at), due_at)),
    tries = iif(state = 'dead', 0, tries),
    why = iif(state = 'dead', '', why),
    state = iif(state = 'dead', 'waiting', state)
    """
# Every event requests a new wait, so one that is nearly as long as the current wait is not written.
_WAIT_AGAIN_SQL = f"""
    due_at = excluded.due_at where state = 'waiting' and why = '' and due_at > excluded.made_at
    and abs(due_at - excluded.due_at) >= {_QUIET_SLACK_SECONDS}
    """


def enqueue(
    connection: Connection, kind: str, session: int, *, priority: int, now: float, due_at: float | None = None
) -> None:
    """Request a job, within the caller's transaction if there is one.

    A dead job gets another chance; a failed or postponed one keeps its due time. A `due_at` in the future waits for the
    session to become quiet: each request extends the wait, unless the job is due or running.
    """
    if due_at is None:
        due_at = now
    clause = _WAIT_AGAIN_SQL if due_at > now else _WANT_AGAIN_SQL
    connection.execute(
        f"""
        insert into jobs (kind, session, state, priority, wanted, tries, made_at, due_at, lease, lease_until, why)
        values (?, ?, 'waiting', ?, 1, 0, ?, ?, '', 0, '') on conflict (kind, session) do update set {clause}
        """,
        (kind, session, priority, now, due_at),
    )


def lease_next(connection: Connection, *, lease: str, now: float, kinds: Sequence[str] = ()) -> Job | None:
    """Take a lease on the next due job; return None if there is none. No two callers get the same job.

    The attempt is counted here, so that a job that kills its process is not retried forever.
    """
    where = f" and kind in ({', '.join('?' * len(kinds))})" if kinds else ""
    with transaction(connection):
        # A lease that ends later than any lease can was taken before the clock was set back.
        _requeue_running_jobs(connection, "lease_until not between ? and ?", (now, now + 2 * LEASE_SECONDS))
        row = connection.execute(
            f"""
            update jobs set state = 'running', lease = ?, lease_until = ?, tries = tries + 1 where id = (
                select id from jobs where state = 'waiting' and due_at <= ?{where}
                order by priority, due_at, id limit 1)
            returning {_COLUMNS}
            """,
            (lease, now + LEASE_SECONDS, now, *kinds),
        ).fetchone()
    return Job(*row) if row else None


def renew_lease(connection: Connection, job: Job, now: float) -> bool:
    """Extend the lease; return False if another process has the job now."""
    query = f"update jobs set lease_until = ? where {_IS_LEASED_SQL}"
    changed = connection.execute(query, (now + LEASE_SECONDS, job.id, job.lease)).rowcount
    return bool(changed)


def finish(connection: Connection, job: Job) -> bool:
    """Delete a finished job, or queue it again if it was requested again; return False if the lease was lost."""
    with transaction(connection):
        deleted = connection.execute(
            f"delete from jobs where {_IS_LEASED_SQL} and wanted = ?", (job.id, job.lease, job.wanted)
        ).rowcount
        return bool(deleted) or _requeue_job(connection, job, job.due_at, why="", tries=0)


def fail(connection: Connection, job: Job, why: str, now: float) -> bool:
    """Retry a job later, each time after twice the wait; after the last try it is dead, unless requested again."""
    delay = min(FIRST_WAIT_SECONDS * 2 ** (job.tries - 1), _MAX_WAIT_SECONDS)
    with transaction(connection):
        if not _requeue_job(connection, job, now + delay, why, tries=job.tries):
            return False
        connection.execute(
            "update jobs set state = 'dead' where id = ? and tries >= ? and wanted = ?",
            (job.id, MAX_TRIES, job.wanted),
        )
    return True


def postpone(connection: Connection, job: Job, until: float, why: str) -> bool:
    """Postpone a job that cannot be done yet; this does not count as a failure."""
    return _requeue_job(connection, job, until, why, tries=job.tries - 1)


def _requeue_job(connection: Connection, job: Job, due_at: float, why: str, *, tries: int) -> bool:
    """Queue a running job again; return False if the lease was lost."""
    query = f"""
        update jobs set state = 'waiting', lease = '', lease_until = 0, due_at = ?, why = ?, tries = ?
        where {_IS_LEASED_SQL}
        """
    changed = connection.execute(query, (due_at, why[:_MAX_WHY_CHARS], tries, job.id, job.lease)).rowcount
    return bool(changed)


def release_leases(connection: Connection, lease_prefix: str) -> int:
    """Free the jobs of a process that is known to be gone; return how many."""
    with transaction(connection):
        return _requeue_running_jobs(connection, "substr(lease, 1, length(?1)) = ?1", (lease_prefix,))


def _requeue_running_jobs(connection: Connection, condition: str, values: tuple[object, ...]) -> int:
    """Queue running jobs that no process works on again; after the last try they are dead."""
    return connection.execute(
        f"""
        update jobs set state = iif(tries >= {MAX_TRIES}, 'dead', 'waiting'), lease = '', lease_until = 0,
            why = iif(tries >= {MAX_TRIES}, '{_VANISHED_MESSAGE}', why)
        where state = 'running' and {condition}
        """,
        values,
    ).rowcount


def list_jobs(connection: Connection) -> list[Row]:
    """Return every job with its session: running ones, pending ones in order, then dead ones."""
    query = """
        select jobs.id, kind, state, priority, wanted, tries, made_at, due_at, lease_until, why, host,
            sessions.session, sessions.id as number, coalesce(projects.path, '') as project
        from jobs join sessions on sessions.id = jobs.session left join projects on projects.id = sessions.project
        order by state = 'dead', state = 'waiting', priority, due_at, jobs.id
        """
    return fetch_dicts(connection, query)


def retry(connection: Connection, job_id: int, now: float) -> bool:
    """Make a job due now, as if it had never failed; return False if it does not exist or is running."""
    query = "update jobs set state = 'waiting', tries = 0, due_at = ?, why = '' where id = ? and state != 'running'"
    return bool(connection.execute(query, (now, job_id)).rowcount)


def cancel(connection: Connection, job_id: int) -> bool:
    """Delete a job until it is requested again; a process that works on it loses its lease."""
    return bool(connection.execute("delete from jobs where id = ?", (job_id,)).rowcount)


def find_next_due(connection: Connection, kinds: Sequence[str] = ()) -> float | None:
    """Return when the next job is due or a lease ends; None if no job is pending or running."""
    where = f" and kind in ({', '.join('?' * len(kinds))})" if kinds else ""
    query = f"select min(iif(state = 'running', lease_until, due_at)) from jobs where state != 'dead'{where}"
    due_at: float | None = fetch_value(connection, query, *kinds)
    return due_at


def is_live_due(connection: Connection, kind: str, now: float) -> bool:
    """Return whether a job of a live session is due."""
    query = "select 1 from jobs where kind = ? and state = 'waiting' and priority = ? and due_at <= ?"
    return bool(fetch_value(connection, query, kind, LIVE, now))


def count_by_state(connection: Connection) -> dict[str, int]:
    """Return how many jobs there are in each state."""
    counts = dict(connection.execute("select state, count(*) from jobs group by state").fetchall())
    return {state: counts.get(state, 0) for state in _STATES}
