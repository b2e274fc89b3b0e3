"""A failure in the background ends neither the worker nor its later work, and is logged once."""

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
from tests.process.test_the_workers_life import WorkerStarter, worker_starter, write_config
from tests.stories.test_retention import wait_until
from tests.support.distilled_store import DAY
from tests.support.handoff_drafts import DraftWriter, create_repository
from tests.support.house import House, happened, prompt
from tests.support.made_up_transcripts import build_launch_session

__all__ = ["worker_starter"]
SAID = "no background jobs for now"


@pytest.fixture
def draft_writer(house: House, tmp_path: Path, own_home: str) -> Iterator[DraftWriter]:
    writer = DraftWriter(house, create_repository(tmp_path / "kite", own_home))
    yield writer
    writer.connection.close()


def test_a_worker_that_cannot_start_a_process_goes_on_and_tries_again(
    house: House, worker_starter: WorkerStarter
) -> None:
    worker = worker_starter.start_worker()
    log = Path(house.home, "logs", "worker.log")
    old_log = log.rename(log.with_name("kept.log"))
    log.mkdir()  # what a process says has no place to go
    house.ask("s1", prompt("show me the log"))
    house.ask("s1", happened("Stop", last_assistant_message="there"))
    assert wait_until(lambda: SAID in old_log.read_text() or worker.poll() is not None)
    house.ask("s1", prompt("and again"))
    house.ask("s1", happened("Stop", last_assistant_message="there again"))
    assert (worker.poll(), old_log.read_text().count(SAID)) == (None, 1)
    log.rmdir()
    assert wait_until(log.exists)
    assert worker.poll() is None


def test_a_store_that_fails_while_it_is_asked_what_to_reflect_on_ends_no_worker(
    house: House, worker_starter: WorkerStarter
) -> None:
    write_config(house, autoReflect=True)
    worker = worker_starter.start_worker()
    with closing(sqlite3.connect(os.path.join(house.home, "hardwon.db"))) as connection:
        connection.execute("alter table reflections rename to elsewhere")
        assert wait_until(lambda: SAID in worker_starter.read_log() or worker.poll() is not None)
        house.ask("s1", prompt("still there?"))
        assert (worker.poll(), worker_starter.read_log().count(SAID)) == (None, 1)


def starts_process(draft_writer: DraftWriter) -> bool:
    """Return whether the worker would start a process now."""

    async def look() -> bool:
        background = JobRunner(draft_writer.home, draft_writer.connection)
        background.start_due_jobs()
        is_busy = background.is_busy()
        background.stop()
        return is_busy

    return asyncio.run(look())


def test_a_draft_whose_file_is_gone_starts_no_process(house: House, draft_writer: DraftWriter) -> None:
    write_config(house, ratifyAfterDays=7)
    paths.make_private_folder(os.path.join(draft_writer.home, "logs"))
    draft = draft_writer.write_draft(at=clock.now() - 8 * DAY)
    assert starts_process(draft_writer)
    os.unlink(draft.draft)
    assert not starts_process(draft_writer)


def test_a_draft_that_cannot_be_ratified_by_itself_is_tried_once_and_waits_for_its_person(
    house: House, draft_writer: DraftWriter
) -> None:
    write_config(house, ratifyAfterDays=7)
    now = clock.now()
    draft = draft_writer.write_draft(at=now - 8 * DAY)
    page = Path(draft.draft.replace(".draft.md", ".md"))
    page.write_text("mine\n")
    values = {"ratifyAfterDays": 7}
    assert [
        type(result).__name__ for result in ratify_overdue(draft_writer.connection, draft_writer.home, values, now)
    ] == ["UserError"]
    assert list(ratify_overdue(draft_writer.connection, draft_writer.home, values, now)) == [] and not starts_process(
        draft_writer
    )
    assert draft_writer.get(draft.id).status == reflections.DRAFT
    page.unlink()
    house.ok("handoff", "ratify", str(draft.id), cwd=str(draft_writer.folder))
    assert draft_writer.get(draft.id).status == reflections.RATIFIED


def test_a_session_that_no_hook_told_of_is_drafted_and_a_denied_one_is_not(
    house: House, worker_starter: WorkerStarter, own_home: str, tmp_path: Path
) -> None:
    then = clock.now() - 3600
    folder = Path(own_home, ".claude", "projects", "-home-dev-kite")
    folder.mkdir(parents=True)
    for name in ("secret", "kite"):
        transcript = build_launch_session(
            str(tmp_path / name), name, start=f"{datetime.fromtimestamp(then, UTC):%Y-%m-%dT%H:%M:%S}"
        )
        transcript.person("Now the landing, in the same way.")
        transcript.agent("It cuts no more.")
        os.utime(transcript.write(folder), (then, then))
    write_config(house, autoReflect=True, denyProjects=[str(tmp_path / "secret")])
    with closing(db.connect(house.home)) as connection:
        sessions.record_set_up_time(connection, then - 3600)
    worker_starter.start_worker()
    drafts = Path(house.home, "drafts")
    assert wait_until(drafts.exists) and wait_until(lambda: "drafted handoff" in worker_starter.read_log())
    assert [path.name for path in drafts.iterdir()] == ["kite-kite.draft.md"]
