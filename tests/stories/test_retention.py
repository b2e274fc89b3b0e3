"""What hooks told is kept for so many days and in so much room; what was distilled from it stays."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from typing import Any

import pytest

from hardwon.search import indexing
from hardwon.store import db, retention, turns
from hardwon.store.retention import DAY_SECONDS, compute_cutoff
from tests.support.house import House

NOW = 1_790_000_000.0
RECENT = time.time() - 3600


def wait_until(holds: Any, seconds: float = 300.0) -> bool:
    """Wait until another process has done something; return False if it takes too long."""
    end = time.monotonic() + seconds
    while not holds() and time.monotonic() < end:
        time.sleep(0.05)
    return bool(holds())


def store_session(connection: sqlite3.Connection, times: list[float], *, session: str = "s1", chars: int = 10) -> None:
    """Store a session with a prompt at its beginning and an event at each of these times."""
    with db.transaction(connection):
        connection.execute(
            "insert or ignore into sessions (host, session, cwd, transcript, first_prompt, prompts, status, reason,"
            " started_at, opened_at, last_at, to_fill) values ('claude-code', ?, '', '', '', 1, 'active', '', ?, 0, ?, 0)",
            (session, min(times), max(times)),
        )
        number = connection.execute("select id from sessions where session = ?", (session,)).fetchone()[0]
        key = f"{session}-{min(times)}"
        connection.execute(
            "insert into prompts (key, session, number, at, prompt, name) values (?, ?, 1, ?, 'do it', '')",
            (key, number, min(times)),
        )
        connection.executemany(
            "insert into events (key, session, kind, at, prompt, agent, tool, tool_use_id, input, response, outcome,"
            " signature, origin) values (?, ?, 'tool', ?, 1, '', 'Bash', '', '', ?, 'fine', '', 'hook')",
            [(f"{key}-{count}", number, at, os.urandom(chars // 2).hex()) for count, at in enumerate(times)],
        )


def store_call(connection: sqlite3.Connection, key: str, at: str) -> None:
    connection.execute(
        "insert into calls (key, host, session, cwd, at, path, line, tool, command, file, content, outcome, waits)"
        " values (?, 'codex', 's', '', ?, '', 1, 'Bash', 'ls', '', '', 'fine', '')",
        (key, at),
    )


def store_delivery(connection: sqlite3.Connection, event: str, at: float) -> None:
    connection.execute(
        "insert into injections (event, at, host, session, agent, kind, tool, lesson, slug, summary, delivery)"
        " values (?, ?, '', '', '', '', '', 'l1', '', '', 'note')",
        (event, at),
    )


def list_event_times(connection: sqlite3.Connection) -> list[float]:
    return [row[0] for row in connection.execute("select at from events order by at")]


def count_rows(connection: sqlite3.Connection, table: str) -> int:
    row_count: int = connection.execute(f"select count(*) from {table}").fetchone()[0]
    return row_count


def enforce_limits(
    connection: sqlite3.Connection, *, days: float = 90, most: int = 1 << 40, now: float = NOW
) -> dict[str, int]:
    return dict(
        retention.enforce_limits(connection, days=days, max_bytes=most, now=now, should_continue=lambda: True)[0]
    )


@pytest.fixture
def store(tmp_path_factory: pytest.TempPathFactory) -> sqlite3.Connection:
    return db.connect(str(tmp_path_factory.mktemp("store")))


@pytest.mark.parametrize(
    ("newest", "believed_before", "days", "expected"),
    [
        (None, None, 90, None),
        (NOW, NOW - 2 * DAY_SECONDS, 0, None),
        (NOW, None, 90, NOW - 90 * DAY_SECONDS),
        (NOW, NOW - 2 * DAY_SECONDS, 90, NOW - 90 * DAY_SECONDS),
        (NOW, NOW - 91 * DAY_SECONDS, 90, NOW - 90 * DAY_SECONDS),
        (NOW, NOW - 92 * DAY_SECONDS, 90, NOW - 182 * DAY_SECONDS),
        (NOW, NOW - 1.5 * DAY_SECONDS, 1, NOW - DAY_SECONDS),
        (NOW, NOW - 5000 * DAY_SECONDS, 1, NOW - 5001 * DAY_SECONDS),
    ],
)
def test_age_is_counted_from_the_latest_event_that_is_believed(
    newest: float | None, believed_before: float | None, days: float, expected: float | None
) -> None:
    assert compute_cutoff(newest, believed_before, days) == expected


def test_what_is_older_than_retention_goes_and_the_rest_stays(store: sqlite3.Connection) -> None:
    store_session(store, [NOW - 200 * DAY_SECONDS, NOW - 100 * DAY_SECONDS], session="old")
    store_session(store, [NOW - 100 * DAY_SECONDS, NOW - 30 * DAY_SECONDS, NOW], session="long")
    store_call(store, "k1", "2026-01-01T00:00:00.000Z")
    store_call(store, "k2", "2026-09-20T00:00:00+02:00")
    store_call(store, "k3", "no time")
    store_delivery(store, "e1", NOW - 91 * DAY_SECONDS)
    store_delivery(store, "e2", NOW - 1)
    deletions = enforce_limits(store)
    assert deletions == {"events": 3, "calls": 1, "injections": 1, "sessions": 1, "prompts": 1}
    assert list_event_times(store) == [NOW - 30 * DAY_SECONDS, NOW]
    assert [row["session"] for row in store.execute("select session from sessions")] == ["long"]
    assert (count_rows(store, "prompts"), count_rows(store, "calls"), count_rows(store, "injections")) == (1, 2, 1)
    assert enforce_limits(store) == {}


def test_prompts_and_last_words_outlive_calls(store: sqlite3.Connection) -> None:
    store_session(store, [NOW - 150 * DAY_SECONDS, NOW - 149 * DAY_SECONDS], session="long ago")
    store_session(store, [NOW - 100 * DAY_SECONDS, NOW - 99 * DAY_SECONDS], session="old")
    store_session(store, [NOW - 30 * DAY_SECONDS, NOW], session="new")
    store.execute(
        "update events set kind = 'Stop', tool = '' where id in (select max(id) from events group by session)"
    )

    def age(message_days: float) -> dict[str, int]:
        deleted_counts, _ = retention.enforce_limits(
            store, days=90, message_days=message_days, max_bytes=1 << 40, now=NOW, should_continue=lambda: True
        )
        return dict(deleted_counts)

    assert age(0) == {"events": 2}
    assert (
        list_event_times(store)[:2] == [NOW - 149 * DAY_SECONDS, NOW - 99 * DAY_SECONDS]
        and count_rows(store, "prompts") == 3
    )
    assert age(120) == {"events": 1, "prompts": 1, "sessions": 1}
    assert age(30) == {"events": 1, "prompts": 1, "sessions": 1} and count_rows(store, "prompts") == 1


def test_nothing_goes_by_age_with_retention_for_ever(store: sqlite3.Connection) -> None:
    store_session(store, [NOW - 5000 * DAY_SECONDS, NOW])
    assert (enforce_limits(store, days=0), len(list_event_times(store))) == ({}, 2)


@pytest.mark.parametrize("years", [1, 5, 500])
def test_a_clock_far_ahead_does_not_empty_the_store(store: sqlite3.Connection, years: int) -> None:
    store_session(store, [NOW - number * DAY_SECONDS for number in range(80)])
    wrong = NOW + years * 365 * DAY_SECONDS
    assert enforce_limits(store, now=wrong) == {}
    store_session(store, [wrong, wrong + 600], session="while the clock was wrong")
    assert enforce_limits(store, now=wrong + 700) == {}
    store_session(store, [NOW + DAY_SECONDS], session="after it was set right")
    assert (enforce_limits(store, now=NOW + DAY_SECONDS), len(list_event_times(store))) == ({}, 83)


def test_a_clock_far_behind_deletes_nothing(store: sqlite3.Connection) -> None:
    store_session(store, [NOW - number * DAY_SECONDS for number in range(80)])
    assert enforce_limits(store, now=0.0) == {} and enforce_limits(store, now=NOW - 300 * DAY_SECONDS) == {}


def test_after_a_long_absence_old_events_go_once_a_day_of_events_confirms_the_clock(store: sqlite3.Connection) -> None:
    store_session(store, [NOW - 300 * DAY_SECONDS, NOW - 299 * DAY_SECONDS], session="before")
    store_session(store, [NOW], session="back")
    assert enforce_limits(store, now=NOW + 60) == {}
    store_session(store, [NOW + 1.1 * DAY_SECONDS], session="next day")
    assert enforce_limits(store, now=NOW + 2 * DAY_SECONDS)["events"] == 2


def test_too_large_a_file_loses_its_oldest_and_shrinks(store: sqlite3.Connection) -> None:
    store_session(store, [NOW - number * 60 for number in range(4000)], chars=4000)
    for number in range(100):
        store_call(store, f"k{number}", "2020-01-01T00:00:00Z" if number < 50 else "2030-01-01T00:00:00Z")
    path = store.execute("pragma database_list").fetchone()["file"]
    deletions = enforce_limits(store, most=10 << 20)
    times_left = list_event_times(store)
    assert os.path.getsize(path) <= 10 << 20 and os.path.getsize(path + "-wal") == 0
    assert (
        times_left == [NOW - number * 60 for number in reversed(range(len(times_left)))]
        and 500 < len(times_left) < 4000
    )
    assert (deletions["calls"], deletions["events"]) == (50, 4000 - len(times_left))
    assert (count_rows(store, "sessions"), count_rows(store, "prompts")) == (1, 1)
    assert store.execute("pragma integrity_check").fetchone()[0] == "ok"


def test_what_was_distilled_stays_even_if_it_alone_is_too_large(store: sqlite3.Connection) -> None:
    store_session(store, [NOW])
    with db.transaction(store):
        store.executemany(
            "insert into signals (key, tier, signature, host, path, session, agent, project, at, score, body, fresh)"
            " values (?, 2, '', '', '', '', '', '', '2001-01-01T00:00:00Z', 1, ?, 0)",
            [(str(number), "x" * 3000) for number in range(1000)],
        )
    assert enforce_limits(store, most=1 << 20) == {"events": 1}
    assert count_rows(store, "signals") == 1000


def test_a_session_of_which_something_was_distilled_stays_with_it(store: sqlite3.Connection) -> None:
    store.execute("create table gist (id integer primary key, of integer references sessions (id) on delete cascade)")
    store_session(store, [NOW - 200 * DAY_SECONDS], session="of use")
    store_session(store, [NOW - 200 * DAY_SECONDS], session="of none")
    store_session(store, [NOW - 2 * DAY_SECONDS, NOW], session="new")
    store.execute("insert into gist (of) select id from sessions where session = 'of use'")
    assert enforce_limits(store) == {"events": 2, "prompts": 2, "sessions": 1}
    assert [row[0] for row in store.execute("select session from sessions order by id")] == ["of use", "new"]
    assert (count_rows(store, "gist"), enforce_limits(store)) == (1, {})


def test_it_stops_when_told_and_goes_on_the_next_time(store: sqlite3.Connection) -> None:
    store_session(store, [NOW - 100 * DAY_SECONDS - number for number in range(20_000)])
    store_session(store, [NOW], session="now")
    store_session(store, [NOW - 5 * DAY_SECONDS], session="a few days ago")
    event_counts: list[int] = []

    def twice() -> bool:
        event_counts.append(len(list_event_times(store)))
        return len(event_counts) < 3

    retention.enforce_limits(store, days=90, max_bytes=1 << 40, now=NOW, should_continue=twice)
    assert event_counts[0] == 20_002 > event_counts[1] > event_counts[2] > 2
    enforce_limits(store)
    assert list_event_times(store) == [NOW - 5 * DAY_SECONDS, NOW]


def test_a_file_that_was_not_made_to_shrink_is_rebuilt_whole(tmp_path_factory: pytest.TempPathFactory) -> None:
    home = str(tmp_path_factory.mktemp("old"))
    create_old_database(home)
    store = db.connect(home)
    store_session(store, [NOW - 100 * DAY_SECONDS, NOW - DAY_SECONDS, NOW])
    assert not retention.can_release_pages(store)
    retention.rebuild_database(store)
    assert retention.can_release_pages(store) and len(list_event_times(store)) == 3


def create_old_database(home: str) -> None:
    """Create a database of a version whose files could not shrink."""
    with sqlite3.connect(os.path.join(home, "hardwon.db")) as plain:
        plain.execute("create table made_before (id)")
        plain.execute("drop table made_before")


def test_the_worker_keeps_the_limits_and_status_tells_them(house: House) -> None:
    os.makedirs(house.home, mode=0o700)
    with open(os.path.join(house.home, "config.json"), "w") as file:
        json.dump({"retentionDays": 7, "maxDbMb": 10, "autoReflect": False}, file)
    store = db.connect(house.home)
    store_session(store, [RECENT - 20 * DAY_SECONDS] * 5, session="old")
    store_session(store, [RECENT - number for number in range(2000)], session="new", chars=6000)
    store_session(store, [RECENT - 2 * DAY_SECONDS], session="two days ago")
    for (number,) in store.execute("select id from sessions").fetchall():
        turns.mark_distilled(store, number, {1: turns.PLAIN})  # and nothing came of it that would keep a session
    indexing.refresh_index(store, house.home, model=None, should_continue=lambda: True)  # else it grows while it is cut
    status_before = house.status()
    assert (
        status_before["database"]["events"],
        status_before["database"]["sessions"],
        status_before["database"]["prompts"],
    ) == (2006, 3, 3)
    assert status_before["database"]["oldest"] == pytest.approx(RECENT - 20 * DAY_SECONDS)
    assert (
        status_before["database"]["limit_bytes"],
        status_before["database"]["retention_days"],
        status_before["spool"],
    ) == (
        10 << 20,
        7,
        0,
    )
    assert status_before["database"]["bytes"] > 10 << 20
    house.ok("start")
    assert wait_until(lambda: retention.measure_file_bytes(house.home) <= 10 << 20)
    database_after = house.status()["database"]
    assert (
        database_after["oldest"] > RECENT - 7 * DAY_SECONDS
        and 0 < database_after["events"] < 2001
        and database_after["sessions"] == 3
    )
    assert store.execute("select 1 from events where at = ?", (RECENT,)).fetchone()
    output = house.ok("status").out
    assert "MB of at most 10 MB\n" in output and f"{database_after['events']} events" in output
    assert "retention events for 7 days, prompts and last messages for 730 days\n" in output
    checks = {check["name"]: check for check in json.loads(house.cli("doctor", "--json").out)}
    assert checks["database"]["well"] is True and "of at most 10 MB" in checks["database"]["found"]
    assert "0 candidates to review" in checks["scan"]["found"]


def test_status_makes_no_database_and_says_what_is_wrong_with_one(house: House) -> None:
    house.ok("status")
    assert not os.path.exists(os.path.join(house.home, "hardwon.db"))
    os.makedirs(house.home, mode=0o700, exist_ok=True)
    with open(os.path.join(house.home, "hardwon.db"), "w") as file:
        file.write("this is not a database, and it is long enough to be looked at as one" * 20)
    assert "not a database" in house.status()["database"]["fault"]
    assert "not a database" in house.ok("status").out
