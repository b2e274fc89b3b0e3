"""start, stop, restart, status, logs"""

from __future__ import annotations

import json
import os
from time import sleep
from typing import Any

import click

from hardwon import clock, paths, pauses, settings
from hardwon.cli.output import format_age
from hardwon.errors import UserError
from hardwon.fallback import worker_start
from hardwon.search.index_backlog import describe_backlog
from hardwon.sessions import spool
from hardwon.store import db, documents, retention
from hardwon.text.excerpts import pluralize
from hardwon.worker import lifecycle


@click.command()
def start() -> None:
    """Start the worker of this home, unless it runs."""
    worker_status = lifecycle.start_worker(paths.get_home())
    click.echo(f"worker running, process {worker_status.pid}, home {worker_status.home}")


@click.command()
def stop() -> None:
    """Stop the worker. Guards hold without it; the next session starts it again."""
    click.echo("worker stopped" if lifecycle.stop_worker(paths.get_home()) else "no worker was running")


@click.command()
def restart() -> None:
    """Stop the worker, then start it."""
    lifecycle.stop_worker(paths.get_home())
    worker_status = lifecycle.start_worker(paths.get_home())
    click.echo(f"worker running, process {worker_status.pid}, home {worker_status.home}")


@click.command()
@click.option("--json", "as_json", is_flag=True, help="print JSON")
def status(as_json: bool) -> None:
    """Whether the worker runs, where, and what it keeps."""
    home = paths.get_home()
    worker_status, database, spooled_count = (
        lifecycle.read_status(home),
        _describe_database(home),
        sum(1 for _ in spool.read_spooled_records(home)),
    )
    pauses_in_force = pauses.describe_pauses(home, clock.now())
    if as_json:
        click.echo(
            json.dumps(
                {**worker_status.__dict__, "database": database, "spool": spooled_count, "pauses": pauses_in_force}
            )
        )
        return
    if worker_status.running:
        click.echo(f"worker    running, process {worker_status.pid}, since {format_age(worker_status.since or 0)}")
        click.echo(f"socket    {worker_status.socket}")
        click.echo(f"port      {worker_status.port or 'none: the API is not up'}")
    else:
        failed_starts, _ = worker_start.read_failed_starts(worker_status.home)
        click.echo(
            "worker    stopped"
            + (f"; {pluralize(failed_starts, 'start')} came to nothing: hardwon logs" if failed_starts else "")
        )
    for pause in pauses_in_force:
        click.echo(f"pause     {pause}; lift it: hardwon unpause")
    click.echo(f"home      {worker_status.home}")
    click.echo(f"version   {worker_status.version}")
    for name, line in _format_database(database, spooled_count):
        click.echo(f"{name:<10}{line}")


def _describe_database(home: str) -> dict[str, Any]:
    """What the database holds and what it may; looking does not make one."""
    try:
        values = settings.resolve_settings(settings.read_config(home))
    except UserError:
        values = settings.resolve_settings({})
    limits = {"limit_bytes": values["maxDbMb"] * 1024 * 1024, "retention_days": values["retentionDays"]}
    sizes = {"bytes": retention.measure_file_bytes(home), **limits}
    empty_totals = retention.StoreTotals(0, 0, 0, None)
    if not os.path.exists(os.path.join(home, paths.DATABASE)):
        return {**sizes, **empty_totals.__dict__, "unindexed": 0, "backlog": "", "fault": ""}
    try:
        connection = db.connect(home)
        try:
            backlog = {"unindexed": documents.count_backlog(connection)[0], "backlog": describe_backlog(connection)}
            return {**sizes, **retention.read_store_totals(connection).__dict__, **backlog, "fault": ""}
        finally:
            connection.close()
    except (UserError, db.StoreError) as error:
        return {**sizes, **empty_totals.__dict__, "unindexed": 0, "backlog": "", "fault": str(error)}


def _format_database(database: dict[str, Any], spooled_count: int) -> list[tuple[str, str]]:
    megabytes, max_megabytes = database["bytes"] / 1024 / 1024, database["limit_bytes"] // 1024 // 1024
    days = f"{database['retention_days']} days" if database["retention_days"] else "for ever"
    counts = ", ".join(pluralize(database[f"{name}s"], name) for name in ("session", "prompt", "event"))
    oldest = f", the oldest of {format_age(database['oldest'])}" if database["oldest"] else ""
    lines = [
        ("database", database["fault"] or f"{megabytes:.1f} MB of at most {max_megabytes} MB; events are kept {days}"),
        ("holds", counts + oldest),
        *([("index", database["backlog"])] if database["backlog"] else []),
        ("spool", f"{spooled_count} wait to be taken in"),
    ]
    return [line for line in lines if not (database["fault"] and line[0] == "holds")]


@click.command()
@click.option("-n", "lines", default=50, show_default=True, type=click.IntRange(1), help="how many lines")
@click.option("-f", "--follow", is_flag=True, help="go on printing as it grows")
@click.option("--json", "as_json", is_flag=True, help="print JSON, one array")
def logs(lines: int, follow: bool, as_json: bool) -> None:
    """The worker's log, its end first of all."""
    path = os.path.join(paths.get_home(), paths.WORKER_LOG)
    if not os.path.exists(path):
        raise UserError(f"there is no log yet at {path}", "hardwon start")
    with open(path, encoding="utf-8", errors="replace", opener=paths.open_plain_file) as file:
        last_lines = file.readlines()[-lines:]
        if as_json:
            click.echo(json.dumps([line.rstrip("\n") for line in last_lines], indent=2))
            return
        click.echo("".join(last_lines), nl=False)
        while follow:
            click.echo(file.read(), nl=False)
            sleep(0.3)
