"""A job is done exactly once, whoever works on it, however often they die."""

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

NOW = 1_790_000_000.0

# What a worker's process does, over and over: take a job, distil the one turn of its session, say that it is done.
WORK = """
import os, sys, time
from hardwon.store import db, jobs, turns
from hardwon.types import Observation
connection = db.connect(sys.argv[1])
lease = f"{sys.argv[2]}.{os.getpid()}"
print("ready", flush=True)
while job := jobs.lease_next(connection, lease=lease, now=time.time()):
    for number in turns.list_changed_turns(connection, job.session):
        turn, print_ = turns.read_turn(connection, job.session, number)
        seen = Observation(f"{turn.name}:{os.urandom(4).hex()}", turn.at, "change", turn.prompt)
        turns.store_distilled(connection, turn, print_, [seen], "plain")
    if jobs.finish(connection, job):
        print(job.session, flush=True)
"""


@pytest.fixture
def home(own_home: str) -> str:
    return os.path.join(own_home, ".hardwon")


@pytest.fixture
def store(home: str) -> db.Connection:
    return db.connect(home)


def sessions(store: db.Connection, count: int) -> list[int]:
    """Sessions of one prompt each."""
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


def take(store: db.Connection, now: float = NOW, lease: str = "me", kinds: tuple[str, ...] = ()) -> Job:
    job = jobs.lease_next(store, lease=lease, now=now, kinds=kinds)
    assert job is not None
    return job


def state(store: db.Connection) -> list[tuple[str, int, str]]:
    return [(one["state"], one["tries"], one["why"]) for one in jobs.list_jobs(store)]


def test_a_job_is_wanted_once_for_each_kind_and_session(store: db.Connection) -> None:
    [one, other] = sessions(store, 2)
    for kind, session in (("distil", one), ("distil", one), ("refine", one), ("distil", other)):
        jobs.enqueue(store, kind, session, priority=LIVE, now=NOW)
    assert [(job["kind"], job["number"], job["wanted"]) for job in jobs.list_jobs(store)] == [
        ("distil", one, 2),
        ("refine", one, 1),
        ("distil", other, 1),
    ]


def test_live_sessions_come_before_history_and_only_what_is_due_is_taken(store: db.Connection) -> None:
    old, live, later = sessions(store, 3)
    jobs.enqueue(store, "distil", old, priority=HISTORY, now=NOW - 100)
    jobs.enqueue(store, "distil", live, priority=LIVE, now=NOW)
    jobs.enqueue(store, "distil", later, priority=LIVE, now=NOW + 1)
    assert jobs.lease_next(store, lease="me", now=NOW, kinds=("refine",)) is None
    assert [take(store).session, take(store).session] == [live, old]
    assert jobs.lease_next(store, lease="me", now=NOW) is None
    assert jobs.find_next_due(store) == NOW + 1


def test_history_that_goes_on_comes_to_the_front(store: db.Connection) -> None:
    old, other = sessions(store, 2)
    jobs.enqueue(store, "distil", old, priority=HISTORY, now=NOW)
    jobs.enqueue(store, "distil", other, priority=LIVE, now=NOW)
    jobs.enqueue(store, "distil", old, priority=LIVE, now=NOW + 1)
    assert take(store, NOW + 1).session == old


def test_a_job_that_is_wanted_while_it_runs_is_done_again(store: db.Connection) -> None:
    [session] = sessions(store, 1)
    jobs.enqueue(store, "distil", session, priority=LIVE, now=NOW)
    job = take(store)
    jobs.enqueue(store, "distil", session, priority=LIVE, now=NOW + 1)
    assert jobs.finish(store, job) is True
    assert jobs.finish(store, take(store, NOW + 1)) is True
    assert jobs.list_jobs(store) == []


def test_who_lost_the_lease_changes_nothing(store: db.Connection) -> None:
    [session] = sessions(store, 1)
    jobs.enqueue(store, "distil", session, priority=LIVE, now=NOW)
    slow = take(store, lease="slow")
    assert jobs.lease_next(store, lease="other", now=NOW + LEASE_SECONDS - 1) is None
    assert jobs.renew_lease(store, slow, NOW + LEASE_SECONDS - 1)
    assert jobs.lease_next(store, lease="other", now=NOW + LEASE_SECONDS + 1) is None
    other = take(store, NOW + 2 * LEASE_SECONDS, lease="other")
    before = jobs.list_jobs(store)
    lost = (
        jobs.finish(store, slow),
        jobs.fail(store, slow, "late", NOW),
        jobs.postpone(store, slow, NOW, "late"),
        jobs.renew_lease(store, slow, NOW),
    )
    assert (lost, jobs.list_jobs(store)) == ((False,) * 4, before)
    assert jobs.finish(store, other)


def test_a_lease_from_before_the_clock_was_set_back_does_not_hold_for_hours(store: db.Connection) -> None:
    [session] = sessions(store, 1)
    jobs.enqueue(store, "distil", session, priority=LIVE, now=NOW - 7200)
    take(store, NOW, lease="gone")
    assert take(store, NOW - 3600, lease="me").session == session


def test_each_failure_doubles_the_wait_and_the_last_one_is_shown(store: db.Connection) -> None:
    [session] = sessions(store, 1)
    jobs.enqueue(store, "refine", session, priority=LIVE, now=NOW)
    now, waits = NOW, []
    for _ in range(MAX_TRIES):
        jobs.fail(store, take(store, now), "the model is out", now)
        due = jobs.find_next_due(store)
        waits.append(due and due - now)
        now = due or now
    assert waits == [*(FIRST_WAIT_SECONDS * 2**times for times in range(MAX_TRIES - 1)), None]
    assert state(store) == [("dead", MAX_TRIES, "the model is out")]
    assert jobs.lease_next(store, lease="me", now=now + 1e9) is None
    assert jobs.count_by_state(store) == {"waiting": 0, "running": 0, "dead": 1}


def dead(store: db.Connection, session: int) -> int:
    jobs.enqueue(store, "refine", session, priority=LIVE, now=NOW)
    for count in range(MAX_TRIES):
        jobs.fail(store, take(store, NOW + count * 1e5), "out", NOW + count * 1e5)
    [one] = jobs.list_jobs(store)
    assert one["state"] == "dead"
    return int(one["id"])


def test_a_dead_job_lives_again_when_it_is_wanted_or_retried_and_goes_when_cancelled(store: db.Connection) -> None:
    [session] = sessions(store, 1)
    id = dead(store, session)
    jobs.enqueue(store, "refine", session, priority=LIVE, now=NOW)
    assert state(store) == [("waiting", 0, "")]
    assert jobs.cancel(store, id) and not jobs.cancel(store, id)
    id = dead(store, session)
    assert jobs.retry(store, id, NOW) and take(store).tries == 1
    assert jobs.retry(store, id, NOW) is False
    assert jobs.cancel(store, id) and jobs.list_jobs(store) == []


def test_what_is_put_off_has_not_failed_and_waits_its_time(store: db.Connection) -> None:
    [session] = sessions(store, 1)
    jobs.enqueue(store, "refine", session, priority=LIVE, now=NOW)
    jobs.postpone(store, take(store), NOW + 9000, "above the cap")
    jobs.enqueue(store, "refine", session, priority=LIVE, now=NOW + 1)
    assert (state(store), jobs.find_next_due(store)) == ([("waiting", 0, "above the cap")], NOW + 9000)


def test_a_job_that_kills_whoever_takes_it_is_given_up(store: db.Connection) -> None:
    [session] = sessions(store, 1)
    jobs.enqueue(store, "distil", session, priority=LIVE, now=NOW)
    for count in range(MAX_TRIES):
        take(store, lease=f"w1.{count}")
        assert jobs.release_leases(store, "w2.") == 0
        assert jobs.release_leases(store, "w1.") == 1
    assert state(store) == [("dead", MAX_TRIES, "whoever worked on it ended without a word: hardwon logs")]


def worker(home: str, name: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", WORK, home, name], stdout=subprocess.PIPE, text=True)


def said(store: db.Connection) -> list[str]:
    return sorted(one.title for id in range(1, 401) for one in observations.list_for_session(store, id))


def test_eight_processes_take_each_job_exactly_once(home: str, store: db.Connection) -> None:
    wanted = sessions(store, 200)
    for session in wanted:
        jobs.enqueue(store, "distil", session, priority=LIVE, now=NOW - 1)
    running = [worker(home, f"w{number}") for number in range(8)]
    told = [line for one in running for line in one.communicate()[0].split() if line != "ready"]
    assert [one.returncode for one in running] == [0] * 8
    assert sorted(map(int, told)) == wanted
    assert said(store) == sorted(f"do {session}" for session in wanted)
    assert jobs.list_jobs(store) == []


def wait_a_moment(chance: random.Random) -> None:
    time.sleep(chance.uniform(0, 0.02))


def test_killed_anywhere_all_is_done_once_in_the_end(home: str, store: db.Connection) -> None:
    wanted = sessions(store, 400)
    for session in wanted:
        jobs.enqueue(store, "distil", session, priority=LIVE, now=NOW - 1)
    chance = random.Random(7)
    cut_off = 0
    for _ in range(25):
        with worker(home, "w1") as one:
            assert one.stdout is not None and one.stdout.readline() == "ready\n"
            wait_a_moment(chance)
            os.kill(one.pid, signal.SIGKILL)
        cut_off += jobs.release_leases(store, "w1.")
    assert cut_off > 0
    worker(home, "w1").communicate()
    assert (jobs.list_jobs(store), [session for session in wanted if turns.list_changed_turns(store, session)]) == (
        [],
        [],
    )
    assert said(store) == sorted(f"do {session}" for session in wanted)
