"""jobs list, jobs retry, jobs cancel"""

from __future__ import annotations

import json
from typing import Any

import click

from hardwon import clock, paths
from hardwon.cli.output import echo_table, to_printable_line
from hardwon.cli.person_only import require_person
from hardwon.errors import UserError
from hardwon.store import db
from hardwon.store import jobs as kept
from hardwon.worker import lifecycle

_TIME_FIELDS = ("made_at", "due_at", "lease_until")
_UNITS = ((86_400, "d"), (3600, "h"), (60, "min"))


@click.group()
def jobs() -> None:
    """Distilling that waits, runs or failed."""


@jobs.command("list")
@click.option("--json", "as_json", is_flag=True, help="print JSON")
def list_jobs(as_json: bool) -> None:
    """What runs, what waits in the order it is taken, and what was given up."""
    listed_jobs = kept.list_jobs(db.connect(paths.get_home()))
    if as_json:
        click.echo(json.dumps([_to_json(job) for job in listed_jobs], indent=2))
    elif listed_jobs:
        echo_table(
            ["id", "what", "state", "session", "project", "tries", "when", "why"],
            [_format_row(job) for job in listed_jobs],
        )
        if any(job["state"] == "dead" for job in listed_jobs):
            click.echo("dead ones wait for you: hardwon jobs retry, or hardwon jobs cancel ID")
    else:
        click.echo("no job waits: everything is distilled")


def _format_row(job: dict[str, Any]) -> list[str]:
    project = to_printable_line(job["project"].rpartition("/")[2] or "-", 14)
    cells = [str(job["id"]), job["kind"], job["state"], str(job["number"]), project, str(job["tries"])]
    return [*cells, _format_due_time(job), to_printable_line(job["why"]) or "-"]


def _format_due_time(job: dict[str, Any]) -> str:
    """When it is taken next."""
    seconds = job["due_at"] - clock.now()
    if job["state"] != "waiting":
        return "now" if job["state"] == "running" else "-"
    for size, name in _UNITS:
        if seconds >= size:
            return f"in {seconds / size:.0f} {name}"
    return "now" if seconds <= 0 else f"in {seconds:.0f} s"


def _to_json(job: dict[str, Any]) -> dict[str, Any]:
    return {key: clock.format_iso(value) if key in _TIME_FIELDS and value else value for key, value in job.items()}


@jobs.command()
@click.argument("ids", nargs=-1, type=int, metavar="[ID]...")
def retry(ids: tuple[int, ...]) -> None:
    """Try jobs again now; without an ID all that are dead."""
    require_person("trying a job again")
    connection = db.connect(paths.get_home())
    job_states = {job["id"]: job["state"] for job in kept.list_jobs(connection)}
    for job_id in ids:
        if job_states.get(job_id) in (None, "running"):
            raise UserError(f"job {job_id} {'runs' if job_id in job_states else 'is not there'}", "hardwon jobs list")
    job_ids = ids or tuple(job_id for job_id, state in job_states.items() if state == "dead")
    retried_count = sum(kept.retry(connection, job_id, clock.now()) for job_id in job_ids)
    lifecycle.wake_worker(paths.get_home())
    click.echo(f"{_format_waiting(retried_count)} again" if retried_count else "no job is dead")


@jobs.command()
@click.argument("ids", nargs=-1, type=int, required=True, metavar="ID...")
def cancel(ids: tuple[int, ...]) -> None:
    """Forget jobs until something new happens in their sessions."""
    require_person("cancelling a job")
    connection = db.connect(paths.get_home())
    existing_ids = {job["id"] for job in kept.list_jobs(connection)}
    for job_id in ids:
        if job_id not in existing_ids:
            raise UserError(f"job {job_id} is not there", "hardwon jobs list")
    cancelled_count = sum(kept.cancel(connection, job_id) for job_id in ids)
    click.echo(f"{cancelled_count} {'job' if cancelled_count == 1 else 'jobs'} forgotten")


def _format_waiting(count: int) -> str:
    return f"{count} {'job waits' if count == 1 else 'jobs wait'}"
