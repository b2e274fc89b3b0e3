"""What distilling costs and what waits for it is shown, and can be taken out again."""

from __future__ import annotations

import os
import sqlite3
import time
from typing import Any

import pytest

from hardwon.store import db, jobs, observations, runs, turns
from hardwon.types import Observation, Summary
from tests.stories.test_purge import find_files_with
from tests.support.house import House, failed, prompt, used, wait_for
from tests.support.model_runs import list_latest_runs

SESSION = "kite-flight-1"  # long enough that no random byte of the database looks like it
TEXT = "Wombat Ouagadougou-4417 pelican"
CAPS = {"runsPerDay": 200, "tokensPerDay": 1_000_000, "dollarsPerDay": 1.0, "reflectionsPerDay": 20}


@pytest.fixture
def store(house: House) -> db.Connection:
    house.stay_cold()
    house.ask(SESSION, prompt("fly the kite"))
    house.ask(SESSION, used("Bash", {"command": "make kite"}, {"stdout": "ok"}))
    house.ask(SESSION, prompt(f"look for {TEXT}"))
    house.ask(SESSION, failed("Bash", {"command": "grep wombat notes"}, f"Exit code 1\n{TEXT}"))
    house.ask(SESSION, used("Read", {"file_path": "/home/dev/project/notes"}, {"text": "nothing"}))
    house.ask(SESSION, prompt("land the kite"))
    house.ask(SESSION, used("Bash", {"command": "make land"}, {"stdout": "ok"}))
    house.deliveries()
    return db.connect(house.home)


def distil_turns(store: db.Connection) -> None:
    """Store an observation for each call, with nothing but the tool's name in its title."""
    for number in turns.list_changed_turns(store, 1):
        turn, fingerprint = turns.read_turn(store, 1, number)
        observed = [
            Observation(call.key, call.at, "change", f"{call.tool} in turn {number}", events=(call.key,))
            for call in turn.calls
        ]
        turns.store_distilled(store, turn, fingerprint, observed, "plain")
    observations.replace_summary(store, 1, Summary("sum", 1.0, request="kites"))


def book_run(store: db.Connection, now: float, **more: Any) -> int:
    request = {"purpose": "observation", "provider": "anthropic", "model": "small", "project": "/home/dev/project"}
    estimates = {"session": 1, "estimate_in": 1200, "estimate_out": 300, "estimate_cost": 0.0123}
    booking = runs.book(store, **{**request, **estimates, "caps": CAPS, "now": now, **more})
    assert booking.id is not None
    return booking.id


def settle_run(store: db.Connection, run_id: int, **more: Any) -> None:
    usage = {"tokens_in": 1000, "tokens_out": 200, "tokens_cached": 0, "cost": 0.0123, "duration": 1.0}
    runs.settle(store, run_id, **{**usage, "outcome": "fine", **more})


def test_with_nothing_spent_one_line_says_so(house: House) -> None:
    assert house.ok("cost").out == "nothing was spent in the last 30 days: no model was asked\n"
    assert house.ok("cost", "--json").json()["today"]["runs"] == {"used": 0, "cap": 200}


def test_what_was_spent_is_told_by_day_purpose_project_and_model(house: House, store: db.Connection) -> None:
    now = time.time()
    settle_run(store, book_run(store, now - 2 * 86_400, model="a-model-with-quite-a-long-name-2026-11-16"))
    settle_run(store, book_run(store, now, purpose="summary"), outcome="malformed", why="no XML")
    book_run(store, now)
    runs.book(
        store,
        purpose="observation",
        provider="anthropic",
        model="small",
        project="",
        session=None,
        estimate_in=10**7,
        estimate_out=0,
        estimate_cost=0.0,
        caps=CAPS,
        now=now,
    )
    output = house.ok("cost", env={"COLUMNS": "80"}).out
    assert max(map(len, output.splitlines())) <= 80
    assert "2 of 200 runs" in output and "2,700 of 1,000,000 tokens" in output and "0.0246 of 1.0 dollars" in output
    assert "refused   once today, above caps.tokensPerDay: done without a model" in output
    for words in ("by day", "by purpose", "summary", "/home/dev/project", "long-name-2026-11-16", "malformed", "begun"):
        assert words in output, words
    report = house.ok("cost", "--json", "--days", "1").json()
    assert (report["total"]["runs"], [entry["name"] for entry in report["by"]["model"]]) == (2, ["small"])
    assert report["today"]["tokens"] == {"used": 2700, "cap": 1_000_000}


def test_a_dead_job_is_listed_with_its_reason_retried_and_forgotten(house: House, store: db.Connection) -> None:
    for waiting in jobs.list_jobs(store):
        house.ok("jobs", "cancel", str(waiting["id"]))
    assert house.ok("jobs", "list").out == "No pending jobs\n"
    jobs.enqueue(store, "refine", 1, priority=jobs.LIVE, now=1.0)
    for count in range(jobs.MAX_TRIES):
        job = jobs.lease_next(store, lease="me", now=1e9 + count * 1e5)
        assert job and jobs.fail(store, job, "the model answered nonsense", 1e9 + count * 1e5)
    output = house.ok("jobs", "list").out
    assert "dead" in output and "the model answered" in output and "hardwon jobs retry" in output
    [dead_job] = house.ok("jobs", "list", "--json").json()
    assert (dead_job["state"], dead_job["tries"], dead_job["session"]) == ("dead", jobs.MAX_TRIES, SESSION)
    assert house.ok("jobs", "retry").out == "1 job pending again\n"
    assert [row["state"] for row in house.ok("jobs", "list", "--json").json()] == ["waiting"]
    assert house.ok("jobs", "cancel", str(dead_job["id"])).out == "1 job cancelled\n"
    assert "does not exist" in house.cli("jobs", "cancel", str(dead_job["id"])).err
    assert "does not exist" in house.cli("jobs", "retry", "77").err
    assert house.ok("jobs", "retry").out == "no dead jobs\n"


def test_a_job_that_is_retried_is_done_at_once_by_a_worker_that_would_not_look_for_an_hour(
    house: House, store: db.Connection
) -> None:
    store.execute("update jobs set state = 'dead'")
    house.start_with(tick=3600)
    assert house.ok("jobs", "retry").out == "1 job pending again\n"
    wait_for(lambda: jobs.list_jobs(store) == [])


def test_a_purged_text_takes_along_what_was_made_of_it(house: House, store: db.Connection) -> None:
    distil_turns(store)
    now = time.time()
    settle_run(store, book_run(store, now), outcome="broken", why=f"could not read {TEXT}")
    jobs.enqueue(store, "refine", 1, priority=jobs.LIVE, now=now)
    job = jobs.lease_next(store, lease="me", now=now)
    assert job and jobs.fail(store, job, f"stumbled over {TEXT}", now)
    store.close()
    house.ok("purge", "--text", TEXT, "--yes")
    assert find_files_with(house.home, TEXT) == []
    connection = db.connect(house.home)
    rows = connection.execute("select prompt, title from observations order by at").fetchall()
    assert [tuple(row) for row in rows] == [(1, "Bash in turn 1"), (2, "Bash in turn 3")]
    assert observations.find_summary(connection, 1) is None
    assert {(item["kind"], item["why"]) for item in jobs.list_jobs(connection)} == {("refine", ""), ("distil", "")}
    [run] = list_latest_runs(connection, limit=5, now=now)
    assert (run.why, run.tokens_in, run.project) == ("", 1000, "/home/dev/project")
    assert turns.list_changed_turns(connection, 1) == [1]
    distil_turns(connection)
    titles = [item.title for item in observations.list_for_session(connection, 1)]
    assert (titles, turns.list_changed_turns(connection, 1)) == (
        ["Bash in turn 1", "Read in turn 1", "Bash in turn 3"],
        [],
    )


@pytest.mark.parametrize("flags", [("--session", SESSION), ("--project", "/home/dev/project"), ("--older-than", "0h")])
def test_a_purge_of_what_was_recorded_leaves_only_that_something_was_spent(
    house: House, store: db.Connection, flags: tuple[str, str]
) -> None:
    distil_turns(store)
    now = time.time()
    settle_run(store, book_run(store, now), outcome="broken", why="of the session")
    settle_run(store, book_run(store, now - 9 * 86_400))
    jobs.enqueue(store, "distil", 1, priority=jobs.LIVE, now=now)
    store.close()
    house.ok("purge", *flags, "--yes")
    with sqlite3.connect(os.path.join(house.home, "hardwon.db")) as plain:
        tables = ("sessions", "turns", "jobs", "observations", "summaries", "prompts", "events")
        row_counts = {table: plain.execute(f"select count(*) from {table}").fetchone()[0] for table in tables}
        ledger = plain.execute("select tokens_in, session, why from runs where at > ?", (now - 86_400,)).fetchall()
    assert row_counts == dict.fromkeys(tables, 0)
    assert ledger == [(1000, None, "")]
