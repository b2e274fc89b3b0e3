"""Every run is booked before it is made, and no cap is passed, however many ask at once."""

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
    made = runs.book(connection, purpose=sys.argv[3], provider="p", model="m", project="", session=None,
                     estimate_in=7, estimate_out=3, estimate_cost=0.01, caps=caps, now=time.time())
    if made.id and number % 2:
        runs.settle(connection, made.id, tokens_in=7, tokens_out=3, tokens_cached=0, cost=0.01, duration=0.1,
                    outcome="fine")
    booked += made.id is not None
print(booked)
"""


@pytest.fixture
def home(own_home: str) -> str:
    return os.path.join(own_home, ".hardwon")


@pytest.fixture
def store(home: str) -> db.Connection:
    return db.connect(home)


def book(store: db.Connection, now: float = NOON, caps: dict[str, float] = CAPS, **more: Any) -> Booking:
    asked = {"purpose": "observation", "provider": "anthropic", "model": "small", "project": "/home/dev/kite"}
    estimates = {"session": None, "estimate_in": 50, "estimate_out": 10, "estimate_cost": 0.05}
    return runs.book(store, **{**asked, **estimates, "caps": caps, "now": now, **more})


def settle(store: db.Connection, booked: Booking, **more: Any) -> bool:
    used = {"tokens_in": 40, "tokens_out": 5, "tokens_cached": 20, "cost": 0.01, "duration": 1.5, "outcome": "fine"}
    assert booked.id is not None
    return runs.settle(store, booked.id, **{**used, **more})


def spent(store: db.Connection, now: float = NOON) -> runs.DailySpending:
    return runs.read_spending(store, runs.find_budget_day(store, now))


def test_an_estimate_counts_until_it_is_known_what_a_run_came_to(store: db.Connection) -> None:
    booked = book(store)
    assert spent(store) == runs.DailySpending(1, 60, 0.05, 0)
    assert settle(store, booked) and not settle(store, booked, tokens_in=0)
    assert spent(store) == runs.DailySpending(1, 45, 0.01, 0)
    [run] = list_latest_runs(store, limit=5, now=NOON)
    assert (run.purpose, run.model, run.tokens_cached, run.duration, run.outcome) == (
        "observation",
        "small",
        20,
        1.5,
        "fine",
    )


@pytest.mark.parametrize(
    ("cap", "more", "fit"),
    [
        ("runsPerDay", {"estimate_in": 0, "estimate_cost": 0.0}, 10),
        ("tokensPerDay", {"estimate_in": 190, "estimate_cost": 0.0}, 5),
        ("dollarsPerDay", {"estimate_cost": 0.1, "estimate_in": 1, "estimate_out": 1}, 10),
        ("reflectionsPerDay", {"purpose": "reflect"}, 2),
    ],
)
def test_above_a_cap_nothing_is_booked_and_it_is_said_once(
    store: db.Connection, cap: str, more: dict[str, Any], fit: int
) -> None:
    caps = {**CAPS, "runsPerDay": 10 if cap == "runsPerDay" else 1000}
    made = [book(store, caps=caps, **more) for _ in range(fit + 3)]
    assert [one.id is not None for one in made] == [True] * fit + [False] * 3
    refused = [(one.refusing_cap, one.is_first_refusal) for one in made[fit:]]
    assert refused == [(cap, True), (cap, False), (cap, False)]
    assert runs.count_refusals(store, since="2026-11-16") == [{"day": "2026-11-16", "cap": cap, "times": 3}]
    assert book(store, NOON + DAY, caps, **more).id is not None


def test_a_cap_of_nothing_lets_nothing_through(store: db.Connection) -> None:
    assert book(store, caps={**CAPS, "runsPerDay": 0}) == Booking(None, "runsPerDay", True)


def test_what_cost_more_than_was_thought_is_seen_by_the_next(store: db.Connection) -> None:
    settle(store, book(store), tokens_in=990, tokens_out=0)
    assert book(store).refusing_cap == "tokensPerDay"


def test_a_run_that_nobody_settled_goes_on_counting_and_is_called_lost(store: db.Connection) -> None:
    book(store)
    assert [one.outcome for one in list_latest_runs(store, limit=1, now=NOON + 60)] == ["begun"]
    assert [one.outcome for one in list_latest_runs(store, limit=1, now=NOON + DAY)] == ["lost"]
    [lost] = runs.sum_by_group(store, group="outcome", since="2026-11-16", now=NOON + DAY)
    assert (lost["name"], lost["tokens_in"], spent(store).tokens) == ("lost", 50, 60)


def test_a_clock_that_goes_back_over_midnight_brings_no_fresh_allowance(store: db.Connection) -> None:
    caps = {**CAPS, "runsPerDay": 1}
    assert book(store, caps=caps).id
    assert book(store, NOON - DAY, caps).refusing_cap == "runsPerDay"
    assert book(store, NOON - 3 * DAY, caps).id, "a clock that was days ahead does not block for days"
    assert book(store, NOON + DAY, caps).id


def test_totals_are_by_day_purpose_project_and_model(store: db.Connection) -> None:
    for now, model in ((NOON - DAY, "large"), (NOON, "small"), (NOON, "small")):
        settle(store, book(store, now, model=model), cost=0.5 if model == "large" else 0.01)
    days = runs.sum_by_group(store, group="day", since="2026-11-01", now=NOON)
    assert [(one["name"], one["runs"]) for one in days] == [("2026-11-15", 1), ("2026-11-16", 2)]
    models = runs.sum_by_group(store, group="model", since="2026-11-01", now=NOON)
    assert [(one["name"], one["tokens_in"], one["seconds"]) for one in models] == [
        ("large", 40, 1.5),
        ("small", 80, 3.0),
    ]
    assert [one["runs"] for one in runs.sum_by_group(store, group="project", since="2026-11-16", now=NOON)] == [2]


@pytest.mark.parametrize(
    ("processes", "purpose", "caps", "fit"),
    [
        (16, "observation", {"runsPerDay": 37}, 37),
        (4, "observation", {"tokensPerDay": 255}, 25),
        (4, "observation", {"dollarsPerDay": 0.2}, 20),
        (4, "reflect", {"reflectionsPerDay": 11}, 11),
    ],
)
def test_processes_racing_never_pass_a_cap(
    home: str, store: db.Connection, processes: int, purpose: str, caps: dict[str, float], fit: int
) -> None:
    plenty = dict.fromkeys(CAPS, 1e9)
    day = date.today()
    command = [sys.executable, "-c", RACE, home, json.dumps({**plenty, **caps}), purpose]
    racing = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(processes)]
    booked = sum(int(process.communicate()[0]) for process in racing)
    if day == date.today():
        assert booked == fit == len(list_latest_runs(store, limit=1000, now=NOON))


def test_runs_go_out_and_come_in_once(
    home: str, store: db.Connection, tmp_path_factory: pytest.TempPathFactory
) -> None:
    for _ in range(3):
        settle(store, book(store))
    lines = [json.loads(line) for line in exports.export_lines(store, home, exported_at=0.0)][1:]
    assert [one["what"] for one in lines] == ["run"] * 3 and len({one["at"] for one in lines}) == 3
    there = str(tmp_path_factory.mktemp("there"))
    other = db.connect(there)
    for taken in (3, 0):
        outcome = imports.import_records(other, enumerate(lines, 2), [], is_approved=True)
        assert (outcome.imported_counts.get("run", 0), outcome.faults) == (taken, ())
    assert [json.loads(line) for line in exports.export_lines(other, there, exported_at=0.0)][1:] == lines
    assert spent(other) == spent(store)
    bad = {**lines[0], "at": 1e17}
    assert imports.import_records(other, [(2, bad)], [], is_approved=True).faults == ((2, "run: at is no time"),)


def test_runs_are_kept_for_more_than_a_year(store: db.Connection) -> None:
    for days in (0, 300, 500):
        book(store, NOON - days * DAY)
        book(store, NOON - days * DAY, {**CAPS, "runsPerDay": 0})
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
    gone, _ = retention.enforce_limits(store, days=90, max_bytes=1 << 40, now=NOON, should_continue=lambda: True)
    assert gone == {"runs": 1, "refusals": 1}
