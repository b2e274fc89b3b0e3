"""A large backlog is indexed to its end, through a restart of the worker."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from hardwon import paths
from hardwon.search import indexing
from hardwon.store import db, documents, events
from hardwon.worker.background import JobRunner
from tests.support.distilled_store import DistilledStore
from tests.support.house import House

BATCH = indexing.READ_BATCH_SIZE
PROJECT = "/home/dev/kite"


@pytest.fixture
def connection(house: House) -> Iterator[db.Connection]:
    """A store with 500 observations and 50 summaries, and as many calls as two more batches have."""
    store = DistilledStore(house.home, PROJECT)
    store.observe_many(500)
    store.close()
    paths.make_private_folder(os.path.join(house.home, "logs"))
    with closing(db.connect(house.home)) as opened_connection:
        with db.transaction(opened_connection):
            for number in range(2 * BATCH):
                call: dict[str, Any] = {"tool": "Bash", "input": '{"command": "ls"}', "response": f"file {number}"}
                events.store_report(
                    opened_connection,
                    events.Report(f"e{number}", "claude-code", "long", "tool", 1.0 + number, PROJECT, None, **call),
                )
        yield opened_connection


def work_until(home: str, connection: db.Connection, max_backlog: int) -> None:
    """Run a worker's background work until the backlog is at most this large, then end it as a restart does."""

    async def work() -> None:
        background = JobRunner(home, connection)
        background.start_due_jobs()
        while sum(documents.count_backlog(connection)) > max_backlog:
            assert background.is_busy(), f"it stopped with {documents.count_backlog(connection)} left"
            await asyncio.sleep(0.01)
        background.stop()

    asyncio.run(work())


def test_a_large_backlog_is_indexed_to_its_end_through_a_restart(house: House, connection: db.Connection) -> None:
    total = 550 + 2 * BATCH
    assert sum(documents.count_backlog(connection)) == total
    assert f"{total:,} records not indexed yet" in house.ok("status").out
    assert f"{total:,} records not indexed yet" in house.cli("doctor").out
    work_until(house.home, connection, max_backlog=total - BATCH)  # stopped in the middle, as by a restart
    assert sum(documents.count_backlog(connection)) > 0
    work_until(house.home, connection, max_backlog=0)
    assert connection.execute("select count(*) from documents").fetchone()[0] == total
    assert connection.execute("select count(*) from vectors").fetchone()[0] == 550
    assert "indexed" not in house.ok("status").out
    assert "indexed" not in house.cli("doctor").out
