"""A job is done exactly once, however many workers there are and however often they die."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from hardwon.store import db, jobs, observations, turns
from hardwon.store.jobs import FIRST_WAIT_SECONDS, HISTORY, LEASE_SECONDS, LIVE, MAX_TRIES
from hardwon.types import Job
from tests.support.new_store import connect_to_new_store

NOW = 1_790_000_000.0

# What a worker's process repeats: lease a job, distil the only turn of its session, finish the job.
WORK = """
import os, sys, time
from hardwon.store import db, jobs, turns
from hardwon.types import Observation
connection = db.connect(sys.argv[1])
lease = f"{sys.argv[2]}.{os.getpid()}"
print("ready", flush=True)
while job := jobs.lease_next(connection, lease=lease, now=time.time()):
    for number in turns.list_changed_turns(connection, job.session):
        turn, fingerprint = turns.read_turn(connection, job.session, number)
        observation = Observation(f"{turn.name}:{os.urandom(4).hex()}", turn.at, "change", turn.prompt)
        turns.store_distilled(connection, turn, fingerprint, [observation], "plain")
    if jobs.finish(connection, job):
        print(job.session, flush=True)
"""


@pytest.fixture
def home(own_home: str) -> str:
    return os.path.join(own_home, ".hardwon")


@pytest.fixture
def store(home: str) -> db.Connection:
    return connect_to_new_store(home)


def insert_sessions(store: db.Connection, count: int) -> list[int]:
    """Insert sessions of one prompt each, and return their ids."""
    with db.transaction(store):
        for number in range(1, count + 1):
            store.execute(
                "insert into sessions (id, host, session, cwd, transcript, first_prompt, prompts, status, reason,"
                " started_at, opened_at, last_at, to_fill) values (?, 'codex', ?, '', '', '', 1, 'active', '', 1, 1, 1, 0)",
                (number, f"s{number}"),
            )
            store.execute(
                "insert into prompts (key, session, number, at, prompt, name) values (?, ?, 1, 1, ?, '')",
                (f"p{number}", number, f"do {number}"),
            )
    return list(range(1, count + 1))


def lease_job(store: db.Connection, now: float = NOW, lease: str = "me", kinds: tuple[str, ...] = ()) -> Job:
    job = jobs.lease_next(store, lease=lease, now=now, kinds=kinds)
    assert job is not None
    return job


def list_states(store: db.Connection) -> list[tuple[str, int, str]]:
    return [(job["state"], job["tries"], job["why"]) for job in jobs.list_jobs(store)]


def test_a_kind_and_session_has_one_job(store: db.Connection) -> None:
    [first_session, second_session] = insert_sessions(store, 2)
    for kind, session in (
        ("distil", first_session),
        ("distil", first_session),
        ("refine", first_session),
        ("distil", second_session),
    ):
        jobs.enqueue(store, kind, session, priority=LIVE, now=NOW)
    assert [(job["kind"], job["number"], job["wanted"]) for job in jobs.list_jobs(store)] == [
        ("distil", first_session, 2),
        ("refine", first_session, 1),
        ("distil", second_session, 1),
    ]


def test_live_sessions_come_before_history_and_only_due_jobs_are_leased(store: db.Connection) -> None:
    old, live, later = insert_sessions(store, 3)
    jobs.enqueue(store, "distil", old, priority=HISTORY, now=NOW - 100)
    jobs.enqueue(store, "distil", live, priority=LIVE, now=NOW)
    jobs.enqueue(store, "distil", later, priority=LIVE, now=NOW + 1)
    assert jobs.lease_next(store, lease="me", now=NOW, kinds=("refine",)) is None
    assert [lease_job(store).session, lease_job(store).session] == [live, old]
    assert jobs.lease_next(store, lease="me", now=NOW) is None
    assert jobs.find_next_due(store) == NOW + 1


def test_a_history_job_that_becomes_live_comes_first(store: db.Connection) -> None:
    old, other = insert_sessions(store, 2)
    jobs.enqueue(store, "distil", old, priority=HISTORY, now=NOW)
    jobs.enqueue(store, "distil", other, priority=LIVE, now=NOW)
    jobs.enqueue(store, "distil", old, priority=LIVE, now=NOW + 1)
    assert lease_job(store, NOW + 1).session == old


def test_a_job_that_is_wanted_while_it_runs_is_done_again(store: db.Connection) -> None:
    [session] = insert_sessions(store, 1)
    jobs.enqueue(store, "distil", session, priority=LIVE, now=NOW)
    job = lease_job(store)
    jobs.enqueue(store, "distil", session, priority=LIVE, now=NOW + 1)
    assert jobs.finish(store, job) is True
    assert jobs.finish(store, lease_job(store, NOW + 1)) is True
    assert jobs.list_jobs(store) == []


def test_a_worker_that_lost_the_lease_changes_nothing(store: db.Connection) -> None:
    [session] = insert_sessions(store, 1)
    jobs.enqueue(store, "distil", session, priority=LIVE, now=NOW)
    slow_job = lease_job(store, lease="slow")
    assert jobs.lease_next(store, lease="other", now=NOW + LEASE_SECONDS - 1) is None
    assert jobs.renew_lease(store, slow_job, NOW + LEASE_SECONDS - 1)
    assert jobs.lease_next(store, lease="other", now=NOW + LEASE_SECONDS + 1) is None
    other_job = lease_job(store, NOW + 2 * LEASE_SECONDS, lease="other")
    jobs_before = jobs.list_jobs(store)
    results = (
        jobs.finish(store, slow_job),
        jobs.fail(store, slow_job, "late", NOW),
        jobs.postpone(store, slow_job, NOW, "late"),
        jobs.renew_lease(store, slow_job, NOW),
    )
    assert (results, jobs.list_jobs(store)) == ((False,) * 4, jobs_before)
    assert jobs.finish(store, other_job)


def test_a_lease_from_before_the_clock_was_set_back_does_not_hold_for_hours(store: db.Connection) -> None:
    [session] = insert_sessions(store, 1)
    jobs.enqueue(store, "distil", session, priority=LIVE, now=NOW - 7200)
    lease_job(store, NOW, lease="gone")
    assert lease_job(store, NOW - 3600, lease="me").session == session


def test_each_failure_doubles_the_wait_and_the_last_one_is_shown(store: db.Connection) -> None:
    [session] = insert_sessions(store, 1)
    jobs.enqueue(store, "refine", session, priority=LIVE, now=NOW)
    now, waits = NOW, []
    for _ in range(MAX_TRIES):
        jobs.fail(store, lease_job(store, now), "the model is out", now)
        due = jobs.find_next_due(store)
        waits.append(due and due - now)
        now = due or now
    assert waits == [*(FIRST_WAIT_SECONDS * 2**times for times in range(MAX_TRIES - 1)), None]
    assert list_states(store) == [("dead", MAX_TRIES, "the model is out")]
    assert jobs.lease_next(store, lease="me", now=now + 1e9) is None
    assert jobs.count_by_state(store) == {"waiting": 0, "running": 0, "dead": 1}


def create_dead_job(store: db.Connection, session: int) -> int:
    jobs.enqueue(store, "refine", session, priority=LIVE, now=NOW)
    for count in range(MAX_TRIES):
        jobs.fail(store, lease_job(store, NOW + count * 1e5), "out", NOW + count * 1e5)
    [job] = jobs.list_jobs(store)
    assert job["state"] == "dead"
    return int(job["id"])


def test_a_dead_job_runs_again_when_enqueued_or_retried_and_is_removed_when_cancelled(store: db.Connection) -> None:
    [session] = insert_sessions(store, 1)
    job_id = create_dead_job(store, session)
    jobs.enqueue(store, "refine", session, priority=LIVE, now=NOW)
    assert list_states(store) == [("waiting", 0, "")]
    assert jobs.cancel(store, job_id) and not jobs.cancel(store, job_id)
    job_id = create_dead_job(store, session)
    assert jobs.retry(store, job_id, NOW) and lease_job(store).tries == 1
    assert jobs.retry(store, job_id, NOW) is False
    assert jobs.cancel(store, job_id) and jobs.list_jobs(store) == []


def test_a_postponed_job_has_not_failed_and_waits_its_time(store: db.Connection) -> None:
    [session] = insert_sessions(store, 1)
    jobs.enqueue(store, "refine", session, priority=LIVE, now=NOW)
    jobs.postpone(store, lease_job(store), NOW + 9000, "above the cap")
    jobs.enqueue(store, "refine", session, priority=LIVE, now=NOW + 1)
    assert (list_states(store), jobs.find_next_due(store)) == ([("waiting", 0, "above the cap")], NOW + 9000)


def test_a_job_that_kills_its_workers_is_given_up(store: db.Connection) -> None:
    [session] = insert_sessions(store, 1)
    jobs.enqueue(store, "distil", session, priority=LIVE, now=NOW)
    for count in range(MAX_TRIES):
        lease_job(store, lease=f"w1.{count}")
        assert jobs.release_leases(store, "w2.") == 0
        assert jobs.release_leases(store, "w1.") == 1
    assert list_states(store) == [("dead", MAX_TRIES, "whoever worked on it ended without a word: hardwon logs")]


def start_worker(home: str, name: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", WORK, home, name], stdout=subprocess.PIPE, text=True)


def list_titles(store: db.Connection) -> list[str]:
    return sorted(
        observation.title
        for session_id in range(1, 401)
        for observation in observations.list_for_session(store, session_id)
    )


def test_eight_processes_take_each_job_exactly_once(home: str, store: db.Connection) -> None:
    session_ids = insert_sessions(store, 200)
    for session in session_ids:
        jobs.enqueue(store, "distil", session, priority=LIVE, now=NOW - 1)
    processes = [start_worker(home, f"w{number}") for number in range(8)]
    finished_sessions = [line for process in processes for line in process.communicate()[0].split() if line != "ready"]
    assert [process.returncode for process in processes] == [0] * 8
    assert sorted(map(int, finished_sessions)) == session_ids
    assert list_titles(store) == sorted(f"do {session}" for session in session_ids)
    assert jobs.list_jobs(store) == []


def wait_a_moment(generator: random.Random) -> None:
    time.sleep(generator.uniform(0, 0.02))


def test_every_job_is_done_once_although_workers_are_killed(home: str, store: db.Connection) -> None:
    session_ids = insert_sessions(store, 400)
    for session in session_ids:
        jobs.enqueue(store, "distil", session, priority=LIVE, now=NOW - 1)
    generator = random.Random(7)
    released_leases = 0
    for _ in range(25):
        with start_worker(home, "w1") as process:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
            wait_a_moment(generator)
            os.kill(process.pid, signal.SIGKILL)
        released_leases += jobs.release_leases(store, "w1.")
    assert released_leases > 0
    start_worker(home, "w1").communicate()
    assert (
        jobs.list_jobs(store),
        [session for session in session_ids if turns.list_changed_turns(store, session)],
    ) == (
        [],
        [],
    )
    assert list_titles(store) == sorted(f"do {session}" for session in session_ids)
