"""A turn is distilled automatically and exactly once, even if a process is killed meanwhile."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from hardwon import settings
from hardwon.store import db, documents, jobs
from hardwon.worker import job_process
from tests.support.house import House, failed, happened, prompt, used

SESSION = "5e551017-0000-4000-8000-000000000001"
TEST = {"command": "pytest tests/test_token.py"}
EDIT = {"file_path": "/home/dev/project/src/token.py", "old_string": "now()", "new_string": "utcnow()"}
PATIENCE = 60


def report_turn(house: House, session: str = SESSION, prompt_text: str = "make the token test pass") -> None:
    house.ask(session, prompt(prompt_text))
    house.ask(session, failed("Bash", TEST, "Exit code 1\nE   AssertionError: expired\n1 failed, 3 passed in 0.2s"))
    house.ask(session, used("Edit", EDIT, {"filePath": EDIT["file_path"]}))
    house.ask(session, used("Bash", TEST, {"stdout": "4 passed in 0.2s", "stderr": ""}))
    house.ask(session, happened("Stop", last_assistant_message="The test passes. Next: the same for refresh tokens."))


def show_session(house: House, session: str = SESSION) -> dict[str, Any]:
    session_record: dict[str, Any] = house.ok("sessions", "show", session, "--json").json()
    return session_record


def wait_until(house: House, is_so: Callable[[dict[str, Any]], bool], session: str = SESSION) -> dict[str, Any]:
    deadline = time.monotonic() + PATIENCE
    while not is_so(session_record := show_session(house, session)):
        assert time.monotonic() < deadline, session_record
        time.sleep(0.1)
    return session_record


def list_observations(session_record: dict[str, Any]) -> list[dict[str, Any]]:
    return [step for step in session_record["timeline"] if step["what"] == "observation"]


def test_the_end_of_a_turn_is_distilled_by_itself(house: House) -> None:
    house.ok("start")
    report_turn(house)
    session_record = wait_until(house, lambda session_record: bool(session_record["summary"]))
    observed_text = str(
        [
            [observation["title"], observation["facts"], observation["narrative"]]
            for observation in list_observations(session_record)
        ]
    )
    assert all(word in observed_text for word in ("pytest tests/test_token.py", "src/token.py", "1 failed", "4 passed"))
    assert "make the token test pass" in session_record["summary"]["request"]
    assert "refresh tokens" in session_record["summary"]["next_steps"]
    assert {file for observation in list_observations(session_record) for file in observation["files_modified"]} == {
        "src/token.py"
    }


def test_a_summary_is_refreshed_and_a_turn_is_not_observed_twice(house: House) -> None:
    house.ok("start")
    report_turn(house)
    first = wait_until(house, lambda session_record: bool(session_record["summary"]))
    report_turn(house, prompt_text="now the refresh tokens")
    second = wait_until(house, lambda session_record: "refresh" in session_record["summary"]["request"])
    keys = [observation["id"] for observation in list_observations(second)]
    assert (len(keys), {observation["id"] for observation in list_observations(first)} <= set(keys)) == (
        len(set(keys)),
        True,
    )
    assert query_rows(house, "select count(*) from summaries") == [(1,)]


def test_what_came_in_while_no_worker_was_there_is_distilled_by_the_next(house: House) -> None:
    report_turn(house)
    house.start_with(tick=0.5)
    assert list_observations(wait_until(house, lambda session_record: bool(session_record["summary"])))


def test_a_session_that_nobody_ended_is_distilled_all_the_same(house: House) -> None:
    house.ask(SESSION, prompt("look at the token"))
    house.ask(SESSION, used("Edit", EDIT, {"filePath": EDIT["file_path"]}))
    house.ok("sessions", "list")  # takes in the spool
    run_jobs(house.home, kill_at=0)
    assert query_rows(house, "select count(*) from observations") == [(0,)], "it waits for the end of the turn"
    run_jobs(house.home, kill_at=0, later=3600)
    assert query_rows(house, "select title, facts from observations") == [("", '["Edited src/token.py"]')], (
        "but not for ever"
    )


@pytest.mark.parametrize(("priority", "goes_on"), [(jobs.LIVE, False), (jobs.HISTORY, True)])
def test_indexing_makes_way_for_a_session_under_way(house: House, priority: int, goes_on: bool) -> None:
    report_turn(house)
    house.ok("sessions", "list")  # takes in the spool
    times = iter([0.0])  # when it looks for jobs, and none is due; by the time it indexes one is
    with closing(db.connect(house.home)) as connection:
        connection.execute("update jobs set priority = ?", (priority,))
        assert sum(documents.count_backlog(connection)) > 2
        values = settings.resolve_settings({})
        job_process.run_due_jobs(
            house.home, connection, jobs.DISTIL, values, read_clock=lambda: next(times, time.time())
        )
        assert (documents.count_backlog(connection) == (0, 0)) is goes_on, "after the first batch it makes way"


def query_rows(house: House, sql: str) -> list[tuple[Any, ...]]:
    with sqlite3.connect(os.path.join(house.home, "hardwon.db")) as connection:
        return connection.execute(sql).fetchall()


WHAT_IS_MADE = (
    "select key, type, title, facts, events, times from observations order by key",
    "select key, request, completed, next_steps from summaries order by key",
    "select number, made from turns order by number",
    "select kind, session from jobs",
)


def test_killed_at_any_stage_a_job_is_done_exactly_once_in_the_end(house: House, tmp_path: Any) -> None:
    report_turn(house)
    house.ok("sessions", "list")  # takes in the spool
    run_jobs(house.home, kill_at=0)
    report_turn(house, prompt_text="now the refresh tokens")
    report_turn(house, prompt_text="and the last of them")
    house.ok("sessions", "list")
    whole_home = str(tmp_path / "whole")
    statements = run_jobs_in_copy(house, whole_home, kill_at=0)
    expected = read_distilled(whole_home)
    assert expected[0] and expected[1] and not expected[3]
    assert statements > 20
    for number in range(1, statements + 1, max(1, statements // 30)):
        home = str(tmp_path / f"killed-{number}")
        run_jobs_in_copy(house, home, kill_at=number)
        run_jobs(home, kill_at=0, later=3600)  # when the lease has run out
        assert read_distilled(home) == expected, f"killed at statement {number}"
        shutil.rmtree(home)


def run_jobs_in_copy(house: House, home: str, *, kill_at: int, kind: str = "distil") -> int:
    shutil.copytree(house.home, home)
    return run_jobs(home, kill_at=kill_at, kind=kind)


def run_jobs(home: str, *, kill_at: int, later: float = 0.0, kind: str = "distil") -> int:
    """Run due jobs in a process that kills itself before the nth statement; return how many statements there were."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        count = 0

        def count_down(statement: str) -> None:
            nonlocal count
            count += 1
            if count == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

        code = 1
        try:
            connection = db.connect(home)
            connection.set_trace_callback(count_down)
            values = settings.resolve_settings(settings.read_config(home))
            job_process.run_due_jobs(home, connection, kind, values, read_clock=lambda: time.time() + later)
            os.write(writing, str(count).encode())
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    with open(reading) as file:
        count_text = file.read()
    _, status = os.waitpid(child, 0)
    # A slow machine renews leases more often, so one run may have fewer statements than another and end first.
    has_ended_first = count_text != "" and int(count_text) < kill_at
    assert os.waitstatus_to_exitcode(status) == (-signal.SIGKILL if kill_at and not has_ended_first else 0)
    return int(count_text or 0)


def read_distilled(home: str) -> list[Any]:
    connection = sqlite3.connect(os.path.join(home, "hardwon.db"))
    distilled = [connection.execute(sql).fetchall() for sql in WHAT_IS_MADE]
    connection.close()
    return distilled
