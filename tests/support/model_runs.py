"""Read the recorded model runs of a store."""

from __future__ import annotations

from hardwon.store.db import Connection
from hardwon.store.runs import BEGUN, LOST, LOST_SECONDS
from hardwon.types import frozen, replace


@frozen
class Run:
    """A model call: its purpose, usage, cost and outcome."""

    id: int
    at: float
    purpose: str
    provider: str
    model: str
    project: str
    session: int | None
    tokens_in: int
    tokens_out: int
    tokens_cached: int
    cost: float
    duration: float  # seconds
    outcome: str
    why: str = ""


def list_latest_runs(connection: Connection, *, limit: int, now: float) -> list[Run]:
    """Return the last runs, newest first; one that was never settled is lost after a while."""
    columns = ", ".join(Run.__annotations__)
    rows = connection.execute(f"select {columns} from runs order by at desc, id desc limit ?", (limit,))
    runs = [Run(*row) for row in rows]
    return [replace(run, outcome=LOST) if run.outcome == BEGUN and run.at < now - LOST_SECONDS else run for run in runs]
