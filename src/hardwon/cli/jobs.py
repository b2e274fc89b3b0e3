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

_TIMES = ("made_at", "due_at", "lease_until")
_UNITS = ((86_400, "d"), (3600, "h"), (60, "min"))


@click.group()
def jobs() -> None:
    """Distilling that waits, runs or failed."""


@jobs.command("list")
@click.option("--json", "as_json", is_flag=True, help="print JSON")
def list_jobs(as_json: bool) -> None:
    """What runs, what waits in the order it is taken, and what was given up."""
    found = kept.list_jobs(db.connect(paths.get_home()))
    if as_json:
        click.echo(json.dumps([_plain(one) for one in found], indent=2))
    elif found:
        echo_table(["id", "what", "state", "session", "project", "tries", "when", "why"], [_row(one) for one in found])
        if any(one["state"] == "dead" for one in found):
            click.echo("dead ones wait for you: hardwon jobs retry, or hardwon jobs cancel ID")
    else:
        click.echo("no job waits: everything is distilled")


def _row(one: dict[str, Any]) -> list[str]:
    project = to_printable_line(one["project"].rpartition("/")[2] or "-", 14)
    words = [str(one["id"]), one["kind"], one["state"], str(one["number"]), project, str(one["tries"])]
    return [*words, _when(one), to_printable_line(one["why"]) or "-"]


def _when(one: dict[str, Any]) -> str:
    """When it is taken next."""
    seconds = one["due_at"] - clock.now()
    if one["state"] != "waiting":
        return "now" if one["state"] == "running" else "-"
    for size, name in _UNITS:
        if seconds >= size:
            return f"in {seconds / size:.0f} {name}"
    return "now" if seconds <= 0 else f"in {seconds:.0f} s"


def _plain(one: dict[str, Any]) -> dict[str, Any]:
    return {key: clock.format_iso(value) if key in _TIMES and value else value for key, value in one.items()}


@jobs.command()
@click.argument("ids", nargs=-1, type=int, metavar="[ID]...")
def retry(ids: tuple[int, ...]) -> None:
    """Try jobs again now; without an ID all that are dead."""
    require_person("trying a job again")
    connection = db.connect(paths.get_home())
    listed = {one["id"]: one["state"] for one in kept.list_jobs(connection)}
    for id in ids:
        if listed.get(id) in (None, "running"):
            raise UserError(f"job {id} {'runs' if id in listed else 'is not there'}", "hardwon jobs list")
    wanted = ids or tuple(id for id, state in listed.items() if state == "dead")
    done = sum(kept.retry(connection, id, clock.now()) for id in wanted)
    lifecycle.wake_worker(paths.get_home())
    click.echo(f"{_counted(done)} again" if done else "no job is dead")


@jobs.command()
@click.argument("ids", nargs=-1, type=int, required=True, metavar="ID...")
def cancel(ids: tuple[int, ...]) -> None:
    """Forget jobs until something new happens in their sessions."""
    require_person("cancelling a job")
    connection = db.connect(paths.get_home())
    listed = {one["id"] for one in kept.list_jobs(connection)}
    for id in ids:
        if id not in listed:
            raise UserError(f"job {id} is not there", "hardwon jobs list")
    done = sum(kept.cancel(connection, id) for id in ids)
    click.echo(f"{done} {'job' if done == 1 else 'jobs'} forgotten")


def _counted(count: int) -> str:
    return f"{count} {'job waits' if count == 1 else 'jobs wait'}"
