"""What goes wrong behind the worker's back ends neither it nor what it will do later, and is said once."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hardwon import clock, paths
from hardwon.actions.handoffs import ratify_overdue
from hardwon.store import db, reflections, sessions
from hardwon.worker.background import JobRunner
from tests.process.test_the_workers_life import Started, configure, started
from tests.stories.test_retention import wait_until
from tests.support.distilled_store import DAY
from tests.support.handoff_drafts import DraftWriter, create_repository
from tests.support.house import House, happened, prompt
from tests.support.made_up_transcripts import build_launch_session

__all__ = ["started"]
SAID = "no background jobs for now"


@pytest.fixture
def left(house: House, tmp_path: Path, own_home: str) -> Iterator[DraftWriter]:
    owned = DraftWriter(house, create_repository(tmp_path / "kite", own_home))
    yield owned
    owned.connection.close()


def test_a_worker_that_cannot_start_a_process_goes_on_and_tries_again(house: House, started: Started) -> None:
    worker = started.worker()
    log = Path(house.home, "logs", "worker.log")
    kept = log.rename(log.with_name("kept.log"))
    log.mkdir()  # what a process says has no place to go
    house.ask("s1", prompt("show me the log"))
    house.ask("s1", happened("Stop", last_assistant_message="there"))
    assert wait_until(lambda: SAID in kept.read_text() or worker.poll() is not None)
    house.ask("s1", prompt("and again"))
    house.ask("s1", happened("Stop", last_assistant_message="there again"))
    assert (worker.poll(), kept.read_text().count(SAID)) == (None, 1)
    log.rmdir()
    assert wait_until(log.exists)
    assert worker.poll() is None


def test_a_store_that_fails_while_it_is_asked_what_to_reflect_on_ends_no_worker(house: House, started: Started) -> None:
    configure(house, autoReflect=True)
    worker = started.worker()
    with closing(sqlite3.connect(os.path.join(house.home, "hardwon.db"))) as connection:
        connection.execute("alter table reflections rename to elsewhere")
        assert wait_until(lambda: SAID in started.log() or worker.poll() is not None)
        house.ask("s1", prompt("still there?"))
        assert (worker.poll(), started.log().count(SAID)) == (None, 1)


def begins(left: DraftWriter) -> bool:
    """Whether the worker's clock would start a process now."""

    async def look() -> bool:
        background = JobRunner(left.home, left.connection)
        background.start_due_jobs()
        is_busy = background.is_busy()
        background.stop()
        return is_busy

    return asyncio.run(look())


def test_a_draft_whose_file_is_gone_starts_no_process(house: House, left: DraftWriter) -> None:
    configure(house, ratifyAfterDays=7)
    paths.make_private_folder(os.path.join(left.home, "logs"))
    one = left.write_draft(at=clock.now() - 8 * DAY)
    assert begins(left)
    os.unlink(one.draft)
    assert not begins(left)


def test_a_draft_that_cannot_be_ratified_by_itself_is_tried_once_and_waits_for_its_person(
    house: House, left: DraftWriter
) -> None:
    configure(house, ratifyAfterDays=7)
    now = clock.now()
    one = left.write_draft(at=now - 8 * DAY)
    page = Path(one.draft.replace(".draft.md", ".md"))
    page.write_text("mine\n")
    values = {"ratifyAfterDays": 7}
    assert [type(each).__name__ for each in ratify_overdue(left.connection, left.home, values, now)] == ["UserError"]
    assert list(ratify_overdue(left.connection, left.home, values, now)) == [] and not begins(left)
    assert left.get(one.id).status == reflections.DRAFT
    page.unlink()
    house.ok("handoff", "ratify", str(one.id), cwd=str(left.folder))
    assert left.get(one.id).status == reflections.RATIFIED


def test_a_session_that_no_hook_told_of_is_drafted_and_a_denied_one_is_not(
    house: House, started: Started, own_home: str, tmp_path: Path
) -> None:
    then = clock.now() - 3600
    folder = Path(own_home, ".claude", "projects", "-home-dev-kite")
    folder.mkdir(parents=True)
    for name in ("secret", "kite"):
        told = build_launch_session(
            str(tmp_path / name), name, start=f"{datetime.fromtimestamp(then, UTC):%Y-%m-%dT%H:%M:%S}"
        )
        told.person("Now the landing, in the same way.")
        told.agent("It cuts no more.")
        os.utime(told.write(folder), (then, then))
    configure(house, autoReflect=True, denyProjects=[str(tmp_path / "secret")])
    with closing(db.connect(house.home)) as connection:
        sessions.record_set_up_time(connection, then - 3600)
    started.worker()
    drafts = Path(house.home, "drafts")
    assert wait_until(drafts.exists) and wait_until(lambda: "drafted handoff" in started.log())
    assert [path.name for path in drafts.iterdir()] == ["kite-kite.draft.md"]
