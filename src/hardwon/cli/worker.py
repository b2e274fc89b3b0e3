"""start, stop, restart, status, logs, view"""

from __future__ import annotations

import os
from collections.abc import Mapping
from time import monotonic, sleep
from typing import Any

import click

from hardwon import clock, paths, pauses, settings
from hardwon.cli.context import json_option, open_store, require_person
from hardwon.cli.import_progress import describe_import
from hardwon.cli.output import echo_json, format_age
from hardwon.errors import UserError
from hardwon.fallback.worker_start import read_failed_starts
from hardwon.sessions.spool import read_spooled_records
from hardwon.store import db, retention
from hardwon.store.documents import count_backlog
from hardwon.text.characters import format_count

PORT_SECONDS = 20.0  # the pages come up a moment after the worker


@click.command()
def start() -> None:
    """Start the worker of this home, unless it runs."""
    from hardwon.worker import lifecycle

    worker_status = lifecycle.start_worker(paths.get_home())
    click.echo(f"worker running, process {worker_status.pid}, home {worker_status.home}")


@click.command()
def stop() -> None:
    """Stop the worker. Lessons still apply while it is stopped; the next session starts it again."""
    from hardwon.worker import lifecycle

    click.echo("worker stopped" if lifecycle.stop_worker(paths.get_home()) else "no worker was running")


@click.command()
@click.pass_context
def restart(ctx: click.Context) -> None:
    """Stop the worker, then start it."""
    from hardwon.worker import lifecycle

    lifecycle.stop_worker(paths.get_home())
    ctx.invoke(start)


@click.command()
@json_option
def status(as_json: bool) -> None:
    """Show whether the worker runs, where, and what it stores."""
    from hardwon.worker import lifecycle

    home = paths.get_home()
    worker_status = lifecycle.read_status(home)
    database = _describe_database(home)
    spooled_count = sum(1 for _ in read_spooled_records(home))
    active_pauses = pauses.describe_pauses(home, clock.now())
    if as_json:
        report = {**worker_status.__dict__, "database": database, "spool": spooled_count, "pauses": active_pauses}
        echo_json(report)
        return
    if worker_status.running:
        click.echo(f"worker    running, process {worker_status.pid}, started {format_age(worker_status.since or 0)}")
        click.echo(f"socket    {worker_status.socket}")
        click.echo(f"port      {worker_status.port or 'none: the API is not up'}")
    else:
        failed_starts, _ = read_failed_starts(home)
        note = f"; {format_count(failed_starts, 'start')} failed: hardwon logs" if failed_starts else ""
        click.echo(f"worker    stopped{note}")
    for pause in active_pauses:
        click.echo(f"pause     {pause}; lift it: hardwon unpause")
    click.echo(f"home      {worker_status.home}")
    click.echo(f"version   {worker_status.version}")
    if database["fault"]:
        click.echo(f"database  {database['fault']}")
    else:
        megabytes, max_megabytes = database["bytes"] / 1024 / 1024, database["limit_bytes"] // 1024 // 1024
        period = _format_days(database["retention_days"])
        message_period = _format_days(database["message_retention_days"])
        counts = ", ".join(format_count(database[f"{name}s"], name) for name in ("session", "prompt", "event"))
        oldest = f", oldest {format_age(database['oldest'])}" if database["oldest"] else ""
        click.echo(f"database  {megabytes:.1f} MB of at most {max_megabytes} MB")
        click.echo(f"retention events {period}, prompts and last messages {message_period}")
        click.echo(f"stored    {counts}{oldest}")
    if database["backlog"]:
        click.echo(f"index     {database['backlog']}")
    click.echo(f"spool     {spooled_count} pending")
    if import_progress := describe_import(home):
        click.echo(f"history   {import_progress}")


def _format_days(days: int) -> str:
    return f"for {days} days" if days else "for ever"


def _get_message_days(values: Mapping[str, Any]) -> int:
    """Return how long messages are kept; 0 is for ever."""
    if not values["retentionDays"] or not values["messageRetentionDays"]:
        return 0
    return max(int(values["retentionDays"]), int(values["messageRetentionDays"]))


def _describe_database(home: str) -> dict[str, Any]:
    """Return the database's size, limits and contents, without creating one."""
    from hardwon.search.backlog import describe_backlog

    # Status must work with a broken config.json; doctor reports it.
    try:
        values = settings.resolve_settings(settings.read_config(home))
    except UserError:
        values = settings.resolve_settings({})
    report: dict[str, Any] = {
        "bytes": retention.measure_file_bytes(home),
        "limit_bytes": values["maxDbMb"] * 1024 * 1024,
        "retention_days": values["retentionDays"],
        "message_retention_days": _get_message_days(values),
        **retention.StoreTotals(0, 0, 0, None).__dict__,
        "unindexed": 0,
        "backlog": "",
        "fault": "",
    }
    if os.path.exists(os.path.join(home, paths.DATABASE)):
        try:
            with open_store() as connection:
                report.update(retention.read_store_totals(connection).__dict__)
                report.update(unindexed=count_backlog(connection)[0], backlog=describe_backlog(connection))
        except (UserError, db.StoreError) as error:
            report["fault"] = str(error)
    return report


@click.command()
@click.option("-n", "line_count", default=50, show_default=True, type=click.IntRange(1), help="how many lines")
@click.option("-f", "--follow", is_flag=True, help="keep printing as it grows")
@click.option("--json", "as_json", is_flag=True, help="print JSON, one array")
def logs(line_count: int, follow: bool, as_json: bool) -> None:
    """Show the end of the worker's log."""
    path = os.path.join(paths.get_home(), paths.WORKER_LOG)
    if not os.path.exists(path):
        raise UserError(f"there is no log yet at {path}", "hardwon start")
    with open(path, encoding="utf-8", errors="replace", opener=paths.open_plain_file) as file:
        last_lines = file.readlines()[-line_count:]
        if as_json:
            echo_json([line.rstrip("\n") for line in last_lines])
            return
        # The file stays open, so following goes on where the last line ended.
        click.echo("".join(last_lines), nl=False)
        while follow:
            click.echo(file.read(), nl=False)
            sleep(0.3)


@click.command()
@click.option("--print", "only_print", is_flag=True, help="print the link alone; it works once, for five minutes")
@click.option("--sign-out", is_flag=True, help="sign every browser out instead")
def view(only_print: bool, sign_out: bool) -> None:
    """Open the viewer in the browser.

    Starts the worker if needed. The link works once; the browser that opens it stays signed in for a week after its
    last visit.
    """
    import webbrowser

    from hardwon.web.access_control import create_link, sign_out_all
    from hardwon.worker import lifecycle

    require_person("opening the viewer")
    home = paths.get_home()
    if sign_out:
        click.echo(f"signed out: {format_count(sign_out_all(home), 'browser')}")
        return
    if settings.resolve_settings(settings.read_config(home))["apiPort"] < 0:
        raise UserError("the viewer is served with the API, and apiPort is -1", "hardwon config set apiPort null")
    worker_status = lifecycle.start_worker(home)
    deadline = monotonic() + PORT_SECONDS
    while worker_status.running and not worker_status.port and monotonic() < deadline:
        sleep(0.05)
        worker_status = lifecycle.read_status(home)
    if not worker_status.port:
        raise UserError("the worker runs but serves no pages", "hardwon restart, then hardwon logs")
    link = create_link(home, worker_status.port, clock.now())
    if only_print:
        click.echo(link)
    elif webbrowser.open(link):
        click.echo("opened in your browser; if nothing shows: hardwon view --print")
    else:
        click.echo(f"no browser could be opened; open this link, it works once:\n{link}")
