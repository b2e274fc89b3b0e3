"""History that is imported is kept from the day of its import, and a limit that would drop it is said before."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hardwon import clock
from hardwon.store import db, retention
from tests.stories.test_retention import store_session
from tests.support.house import House
from tests.support.made_up_transcripts import SESSION, Transcript

DAY = 86_400.0


def write_old_transcript(own_home: str, days_ago: int = 200) -> None:
    """Write the transcript of an old session with a failed call."""
    start = datetime.now(UTC) - timedelta(days=days_ago)
    transcript = Transcript(start=start.replace(tzinfo=None).isoformat(timespec="seconds"))
    transcript.person("run the tests")
    transcript.bash("pytest --parallel 4", "ERROR: unrecognized arguments: --parallel", code=4)
    transcript.bash("pytest -n 4", "3 passed")
    transcript.agent("All tests pass.")
    folder = Path(own_home, ".claude", "projects", "-home-dev-kite")
    folder.mkdir(parents=True)
    transcript.write(folder)


def add_recent_session(home: str) -> None:
    """Store events of two days, so that the clock is believed."""
    with closing(db.connect(home)) as connection:
        store_session(connection, [clock.now() - 2 * DAY, clock.now() - 60], session="recent")


def count_rows(home: str) -> tuple[int, ...]:
    with closing(sqlite3.connect(os.path.join(home, "hardwon.db"))) as connection:
        return tuple(
            connection.execute(f"select count(*) from {table}").fetchone()[0]
            for table in ("sessions", "prompts", "events", "calls")
        )


def enforce_limits(home: str, now: float) -> None:
    with closing(db.connect(home)) as connection:
        connection.execute("delete from jobs")  # what waits to be distilled is kept whatever its age
        retention.enforce_limits(connection, days=90, max_bytes=1 << 40, now=now, should_continue=lambda: True)


def test_history_of_long_ago_stays_for_retention_days_after_its_import(house: House, own_home: str) -> None:
    write_old_transcript(own_home)
    output = house.ok("import", "transcripts").out
    until = clock.format_iso(clock.now() + 90 * DAY)[:10]
    assert f"kept      until {until}, 90 days from today (retentionDays)\n" in output
    house.ok("scan", "--json")
    add_recent_session(house.home)
    rows_before = count_rows(house.home)
    assert rows_before[0] == 2 and rows_before[3] == 2
    enforce_limits(house.home, clock.now())
    assert count_rows(house.home) == rows_before
    with closing(db.connect(house.home)) as connection, db.transaction(connection):
        connection.execute("update events set taken_at = taken_at - ?", (91 * DAY,))
        connection.execute("update calls set taken_at = taken_at - ?", (91 * DAY,))
        connection.execute("update sessions set taken_at = taken_at - ?", (91 * DAY,))
    enforce_limits(house.home, clock.now())
    assert count_rows(house.home) == (1, 1, 2, 0)


def test_an_export_of_long_ago_stays_too(house: House, own_home: str, tmp_path: Path) -> None:
    write_old_transcript(own_home)
    house.ok("import", "transcripts")
    exported = str(tmp_path / "all.jsonl")
    house.ok("export", "--out", exported)
    rows_before = count_rows(house.home)[:3]
    other_house = House(os.path.join(own_home, ".other"))
    other_house.ok("import", "jsonl", exported)
    add_recent_session(other_house.home)
    enforce_limits(other_house.home, clock.now())
    assert count_rows(other_house.home)[:3] == (rows_before[0] + 1, rows_before[1] + 1, rows_before[2] + 2)


def test_a_limit_that_would_drop_the_import_is_said_before_it(house: House, own_home: str) -> None:
    write_old_transcript(own_home)
    house.ok("config", "set", "maxDbMb", "10")
    large = Path(own_home, ".claude", "projects", "-home-dev-kite", f"{SESSION}.jsonl")
    line = '{"type": "progress", "padding": "' + "x" * 1_000 + '"}\n'
    large.write_text(large.read_text() + line * 30_000)
    ran = house.ok("import", "transcripts")
    assert "warning: this import takes about 15 MB" in ran.err and "the oldest events would be dropped" in ran.err
    assert "fix: hardwon config set maxDbMb" in ran.err
    second_import = house.ok("import", "transcripts")
    assert second_import.err == "", "what was read already takes no more room"


def test_retention_for_ever_is_said(house: House, own_home: str) -> None:
    write_old_transcript(own_home)
    house.ok("config", "set", "retentionDays", "0")
    assert "kept      for ever (retentionDays 0)\n" in house.ok("import", "transcripts").out
