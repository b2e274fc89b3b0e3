"""Every run is booked before it starts, and no cap is exceeded by concurrent processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import date, datetime
from typing import Any

import pytest

from hardwon.data import exports, imports
from hardwon.store import db, retention, runs
from hardwon.store.runs import Booking
from tests.support.model_runs import list_latest_runs
from tests.support.new_store import connect_to_new_store

NOON = datetime(2026, 11, 16, 12, 0).timestamp()
DAY = 86_400.0
CAPS: dict[str, float] = {
    "runsPerDay": 10,
    "tokensPerDay": 1000,
    "dollarsPerDay": 1.0,
    "reflectionsPerDay": 2,
}

RACE = """
import json, sys, time
from hardwon.store import db, runs
home, caps = sys.argv[1], json.loads(sys.argv[2])
connection, booked = db.connect(home), 0
for number in range(30):
    booking = runs.book(connection, purpose=sys.argv[3], provider="p", model="m", project="", session=None,
                     estimate_in=7, estimate_out=3, estimate_cost=0.01, caps=caps, now=time.time())
    if booking.id and number % 2:
        runs.settle(connection, booking.id, tokens_in=7, tokens_out=3, tokens_cached=0, cost=0.01, duration=0.1,
                    outcome="fine")
    booked += booking.id is not None
print(booked)
"""


@pytest.fixture
def home(own_home: str) -> str:
    return os.path.join(own_home, ".hardwon")


@pytest.fixture
def store(home: str) -> db.Connection:
    return connect_to_new_store(home)


def book_run(store: db.Connection, now: float = NOON, caps: dict[str, float] = CAPS, **changes: Any) -> Booking:
    request_fields = {"purpose": "observation", "provider": "anthropic", "model": "small", "project": "/home/dev/kite"}
    estimates = {"session": None, "estimate_in": 50, "estimate_out": 10, "estimate_cost": 0.05}
    return runs.book(store, **{**request_fields, **estimates, "caps": caps, "now": now, **changes})


def settle_run(store: db.Connection, booked: Booking, **changes: Any) -> bool:
    used = {"tokens_in": 40, "tokens_out": 5, "tokens_cached": 20, "cost": 0.01, "duration": 1.5, "outcome": "fine"}
    assert booked.id is not None
    return runs.settle(store, booked.id, **{**used, **changes})


def read_spending(store: db.Connection, now: float = NOON) -> runs.DailySpending:
    return runs.read_spending(store, runs.find_budget_day(store, now))


def test_an_estimate_counts_until_the_run_is_settled(store: db.Connection) -> None:
    booked = book_run(store)
    assert read_spending(store) == runs.DailySpending(1, 60, 0.05, 0)
    assert settle_run(store, booked) and not settle_run(store, booked, tokens_in=0)
    assert read_spending(store) == runs.DailySpending(1, 45, 0.01, 0)
    [run] = list_latest_runs(store, limit=5, now=NOON)
    assert (run.purpose, run.model, run.tokens_cached, run.duration, run.outcome) == (
        "observation",
        "small",
        20,
        1.5,
        "fine",
    )


@pytest.mark.parametrize(
    ("cap", "changes", "expected_count"),
    [
        ("runsPerDay", {"estimate_in": 0, "estimate_cost": 0.0}, 10),
        ("tokensPerDay", {"estimate_in": 190, "estimate_cost": 0.0}, 5),
        ("dollarsPerDay", {"estimate_cost": 0.1, "estimate_in": 1, "estimate_out": 1}, 10),
        ("reflectionsPerDay", {"purpose": "reflect"}, 2),
    ],
)
def test_above_a_cap_nothing_is_booked_and_the_first_refusal_is_marked(
    store: db.Connection, cap: str, changes: dict[str, Any], expected_count: int
) -> None:
    caps = {**CAPS, "runsPerDay": 10 if cap == "runsPerDay" else 1000}
    bookings = [book_run(store, caps=caps, **changes) for _ in range(expected_count + 3)]
    assert [booking.id is not None for booking in bookings] == [True] * expected_count + [False] * 3
    refused = [(booking.refusing_cap, booking.is_first_refusal) for booking in bookings[expected_count:]]
    assert refused == [(cap, True), (cap, False), (cap, False)]
    assert runs.count_refusals(store, since="2026-11-16") == [{"day": "2026-11-16", "cap": cap, "times": 3}]
    assert book_run(store, NOON + DAY, caps, **changes).id is not None


def test_a_cap_of_zero_refuses_every_run(store: db.Connection) -> None:
    assert book_run(store, caps={**CAPS, "runsPerDay": 0}) == Booking(None, "runsPerDay", True)


def test_a_run_above_its_estimate_counts_against_the_next(store: db.Connection) -> None:
    settle_run(store, book_run(store), tokens_in=990, tokens_out=0)
    assert book_run(store).refusing_cap == "tokensPerDay"


def test_an_unsettled_run_keeps_counting_and_is_called_lost(store: db.Connection) -> None:
    book_run(store)
    assert [run.outcome for run in list_latest_runs(store, limit=1, now=NOON + 60)] == ["begun"]
    assert [run.outcome for run in list_latest_runs(store, limit=1, now=NOON + DAY)] == ["lost"]
    [lost] = runs.sum_by_group(store, group="outcome", since="2026-11-16", now=NOON + DAY)
    assert (lost["name"], lost["tokens_in"], read_spending(store).tokens) == ("lost", 50, 60)


def test_a_clock_that_goes_back_over_midnight_brings_no_fresh_allowance(store: db.Connection) -> None:
    caps = {**CAPS, "runsPerDay": 1}
    assert book_run(store, caps=caps).id
    assert book_run(store, NOON - DAY, caps).refusing_cap == "runsPerDay"
    assert book_run(store, NOON - 3 * DAY, caps).id, "a clock that was days ahead does not block for days"
    assert book_run(store, NOON + DAY, caps).id


def test_totals_are_by_day_purpose_project_and_model(store: db.Connection) -> None:
    for now, model in ((NOON - DAY, "large"), (NOON, "small"), (NOON, "small")):
        settle_run(store, book_run(store, now, model=model), cost=0.5 if model == "large" else 0.01)
    days = runs.sum_by_group(store, group="day", since="2026-11-01", now=NOON)
    assert [(row["name"], row["runs"]) for row in days] == [("2026-11-15", 1), ("2026-11-16", 2)]
    models = runs.sum_by_group(store, group="model", since="2026-11-01", now=NOON)
    assert [(row["name"], row["tokens_in"], row["seconds"]) for row in models] == [
        ("large", 40, 1.5),
        ("small", 80, 3.0),
    ]
    assert [row["runs"] for row in runs.sum_by_group(store, group="project", since="2026-11-16", now=NOON)] == [2]


@pytest.mark.parametrize(
    ("processes", "purpose", "caps", "expected_count"),
    [
        (16, "observation", {"runsPerDay": 37}, 37),
        (4, "observation", {"tokensPerDay": 255}, 25),
        (4, "observation", {"dollarsPerDay": 0.2}, 20),
        (4, "reflect", {"reflectionsPerDay": 11}, 11),
    ],
)
def test_processes_racing_never_pass_a_cap(
    home: str, store: db.Connection, processes: int, purpose: str, caps: dict[str, float], expected_count: int
) -> None:
    plenty = dict.fromkeys(CAPS, 1e9)
    day = date.today()
    command = [sys.executable, "-c", RACE, home, json.dumps({**plenty, **caps}), purpose]
    children = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(processes)]
    booked = sum(int(process.communicate()[0]) for process in children)
    if day == date.today():
        assert booked == expected_count == len(list_latest_runs(store, limit=1000, now=NOON))


def test_runs_are_exported_and_imported_once(
    home: str, store: db.Connection, tmp_path_factory: pytest.TempPathFactory
) -> None:
    for _ in range(3):
        settle_run(store, book_run(store))
    lines = [json.loads(line) for line in exports.export_lines(store, home, exported_at=0.0)][1:]
    assert [line["what"] for line in lines] == ["run"] * 3 and len({line["at"] for line in lines}) == 3
    other_home = str(tmp_path_factory.mktemp("there"))
    other_store = db.connect(other_home)
    for expected_count in (3, 0):
        outcome = imports.import_records(other_store, enumerate(lines, 2), [], is_approved=True)
        assert (outcome.imported_counts.get("run", 0), outcome.faults) == (expected_count, ())
    assert [json.loads(line) for line in exports.export_lines(other_store, other_home, exported_at=0.0)][1:] == lines
    assert read_spending(other_store) == read_spending(store)
    invalid_line = {**lines[0], "at": 1e17}
    assert imports.import_records(other_store, [(2, invalid_line)], [], is_approved=True).faults == (
        (2, "run: at is no time"),
    )


def test_runs_are_kept_for_more_than_a_year(store: db.Connection) -> None:
    for days in (0, 300, 500):
        book_run(store, NOON - days * DAY)
        book_run(store, NOON - days * DAY, {**CAPS, "runsPerDay": 0})
    store.execute(
        "insert into sessions (id, host, session, cwd, transcript, first_prompt, prompts, status, reason, started_at,"
        " opened_at, last_at, to_fill) values (1, 'codex', 's', '', '', '', 0, 'active', '', 1, 1, ?, 0)",
        (NOON,),
    )
    for number in (0, 2):
        store.execute(
            "insert into events (key, session, kind, at, prompt, agent, tool, tool_use_id, input, response, outcome,"
            " signature, origin) values (?, 1, 'tool', ?, 0, '', 'Bash', '', '', '', 'fine', '', 'hook')",
            (f"e{number}", NOON - number * DAY),
        )
    removed_counts, _ = retention.enforce_limits(
        store, days=90, max_bytes=1 << 40, now=NOON, should_continue=lambda: True
    )
    assert removed_counts == {"runs": 1, "refusals": 1}
