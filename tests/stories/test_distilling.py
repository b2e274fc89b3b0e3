"""What happened in a turn becomes what it meant: by itself, once, whatever is killed meanwhile."""

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


def a_turn(house: House, session: str = SESSION, asked: str = "make the token test pass") -> None:
    house.ask(session, prompt(asked))
    house.ask(session, failed("Bash", TEST, "Exit code 1\nE   AssertionError: expired\n1 failed, 3 passed in 0.2s"))
    house.ask(session, used("Edit", EDIT, {"filePath": EDIT["file_path"]}))
    house.ask(session, used("Bash", TEST, {"stdout": "4 passed in 0.2s", "stderr": ""}))
    house.ask(session, happened("Stop", last_assistant_message="The test passes. Next: the same for refresh tokens."))


def shown(house: House, session: str = SESSION) -> dict[str, Any]:
    whole: dict[str, Any] = house.ok("sessions", "show", session, "--json").json()
    return whole


def wait_until(house: House, is_so: Callable[[dict[str, Any]], bool], session: str = SESSION) -> dict[str, Any]:
    deadline = time.monotonic() + PATIENCE
    while not is_so(whole := shown(house, session)):
        assert time.monotonic() < deadline, whole
        time.sleep(0.1)
    return whole


def observed(whole: dict[str, Any]) -> list[dict[str, Any]]:
    return [step for step in whole["timeline"] if step["what"] == "observation"]


def test_the_end_of_a_turn_is_distilled_by_itself(house: House) -> None:
    house.ok("start")
    a_turn(house)
    whole = wait_until(house, lambda whole: bool(whole["summary"]))
    told = str([[one["title"], one["facts"], one["narrative"]] for one in observed(whole)])
    assert all(word in told for word in ("pytest tests/test_token.py", "src/token.py", "1 failed", "4 passed"))
    assert "make the token test pass" in whole["summary"]["request"]
    assert "refresh tokens" in whole["summary"]["next_steps"]
    assert {file for one in observed(whole) for file in one["files_modified"]} == {"src/token.py"}


def test_a_summary_is_refreshed_and_a_turn_is_not_observed_twice(house: House) -> None:
    house.ok("start")
    a_turn(house)
    first = wait_until(house, lambda whole: bool(whole["summary"]))
    a_turn(house, asked="now the refresh tokens")
    again = wait_until(house, lambda whole: "refresh" in whole["summary"]["request"])
    keys = [one["id"] for one in observed(again)]
    assert (len(keys), {one["id"] for one in observed(first)} <= set(keys)) == (len(set(keys)), True)
    assert rows(house, "select count(*) from summaries") == [(1,)]


def test_what_came_in_while_no_worker_was_there_is_distilled_by_the_next(house: House) -> None:
    a_turn(house)
    house.ok("start")
    assert observed(wait_until(house, lambda whole: bool(whole["summary"])))


def test_a_session_that_nobody_ended_is_distilled_all_the_same(house: House) -> None:
    house.ask(SESSION, prompt("look at the token"))
    house.ask(SESSION, used("Edit", EDIT, {"filePath": EDIT["file_path"]}))
    house.ok("sessions", "list")  # takes in the spool
    labour_in(house.home, kill_at=0)
    assert rows(house, "select count(*) from observations") == [(0,)], "it waits for the end of the turn"
    labour_in(house.home, kill_at=0, later=3600)
    assert rows(house, "select title, facts from observations") == [("", '["Edited src/token.py"]')], "but not for ever"


@pytest.mark.parametrize(("priority", "goes_on"), [(jobs.LIVE, False), (jobs.HISTORY, True)])
def test_indexing_makes_way_for_a_session_under_way(house: House, priority: int, goes_on: bool) -> None:
    a_turn(house)
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


def rows(house: House, sql: str) -> list[tuple[Any, ...]]:
    with sqlite3.connect(os.path.join(house.home, "hardwon.db")) as connection:
        return connection.execute(sql).fetchall()


WHAT_IS_MADE = (
    "select key, type, title, facts, events, times from observations order by key",
    "select key, request, completed, next_steps from summaries order by key",
    "select number, made from turns order by number",
    "select kind, session from jobs",
)


def test_killed_at_any_stage_a_job_is_done_exactly_once_in_the_end(house: House, tmp_path: Any) -> None:
    a_turn(house)
    house.ok("sessions", "list")  # takes in the spool
    labour_in(house.home, kill_at=0)
    a_turn(house, asked="now the refresh tokens")
    a_turn(house, asked="and the last of them")
    house.ok("sessions", "list")
    whole = str(tmp_path / "whole")
    statements = labour_in_a_copy(house, whole, kill_at=0)
    expected = made_in(whole)
    assert expected[0] and expected[1] and not expected[3]
    assert statements > 20
    for number in range(1, statements + 1, max(1, statements // 30)):
        home = str(tmp_path / f"killed-{number}")
        labour_in_a_copy(house, home, kill_at=number)
        labour_in(home, kill_at=0, later=3600)  # when the lease has run out
        assert made_in(home) == expected, f"killed at statement {number}"
        shutil.rmtree(home)


def labour_in_a_copy(house: House, home: str, *, kill_at: int, kind: str = "distil") -> int:
    shutil.copytree(house.home, home)
    return labour_in(home, kill_at=kill_at, kind=kind)


def labour_in(home: str, *, kill_at: int, later: float = 0.0, kind: str = "distil") -> int:
    """Work off what is due in a process that kills itself before a statement; gives how many there were."""
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
    with open(reading) as said:
        told = said.read()
    _, status = os.waitpid(child, 0)
    # A slow machine renews leases more often, so one run may have fewer statements than another and end first.
    has_ended_first = told != "" and int(told) < kill_at
    assert os.waitstatus_to_exitcode(status) == (-signal.SIGKILL if kill_at and not has_ended_first else 0)
    return int(told or 0)


def made_in(home: str) -> list[Any]:
    connection = sqlite3.connect(os.path.join(home, "hardwon.db"))
    made = [connection.execute(sql).fetchall() for sql in WHAT_IS_MADE]
    connection.close()
    return made
