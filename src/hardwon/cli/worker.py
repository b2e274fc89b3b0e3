"""start, stop, restart, status, logs, view; jobs list, retry, cancel; cost"""

from __future__ import annotations

import os
from collections.abc import Mapping
from time import monotonic, sleep
from typing import Any

import click

from hardwon import clock, paths, pauses, settings
from hardwon.cli import CommandGroup
from hardwon.cli.context import json_option, open_store, require_person
from hardwon.cli.output import describe_import, echo_json, echo_table, format_age, format_duration, format_times
from hardwon.errors import UserError
from hardwon.fallback.worker_start import read_failed_starts
from hardwon.sessions.spool import read_spooled_records
from hardwon.store import db, retention
from hardwon.store.documents import count_backlog
from hardwon.store.jobs import cancel, list_jobs, retry
from hardwon.text.characters import format_count, to_printable_line

_PORT_SECONDS = 20.0  # the pages come up a moment after the worker
_JOB_COLUMNS = ("id", "what", "state", "session", "project", "tries", "when", "why")
_TIME_FIELDS = ("made_at", "due_at", "lease_until")
_TOKEN_FIELDS = ("runs", "tokens_in", "tokens_out", "tokens_cached")
_NAME_WIDTH = 28
_COLUMN_WIDTHS = (7, 12, 12, 11, 10)


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
    _print_database(database)
    click.echo(f"spool     {spooled_count} pending")
    if import_progress := describe_import(home):
        click.echo(f"history   {import_progress}")


def _print_database(database: Mapping[str, Any]) -> None:
    """Print how large the database is, how long it keeps what, and what it holds; or why it cannot be read."""
    if database["fault"]:
        click.echo(f"database  {database['fault']}")
    else:
        megabytes = database["bytes"] / 1024 / 1024
        max_megabytes = database["limit_bytes"] // 1024 // 1024
        click.echo(f"database  {megabytes:.1f} MB of at most {max_megabytes} MB")
        period = _format_days(database["retention_days"])
        message_period = _format_days(database["message_retention_days"])
        click.echo(f"retention events {period}, prompts and last messages {message_period}")
        counts = ", ".join(format_count(database[f"{name}s"], name) for name in ("session", "prompt", "event"))
        oldest = f", oldest {format_age(database['oldest'])}" if database["oldest"] else ""
        click.echo(f"stored    {counts}{oldest}")
    if database["backlog"]:
        click.echo(f"index     {database['backlog']}")


def _format_days(days: int) -> str:
    """Return a length of time in days; 0 stands for no end."""
    return f"for {days} days" if days else "for ever"


def _describe_database(home: str) -> dict[str, Any]:
    """Return the database's size, limits and contents, without creating one."""
    from hardwon.search.backlog import describe_backlog

    # Status must work with a broken config.json; doctor reports it.
    try:
        values = settings.load_settings(home)
    except UserError:
        values = settings.resolve_settings({})
    # Here 0 stands for ever, and messages are never deleted before the events around them.
    retention_days = int(values["retentionDays"])
    message_days = int(values["messageRetentionDays"])
    if retention_days == 0:
        message_days = 0
    elif message_days:
        message_days = max(message_days, retention_days)
    report: dict[str, Any] = {
        "bytes": retention.measure_file_bytes(home),
        "limit_bytes": values["maxDbMb"] * 1024 * 1024,
        "retention_days": values["retentionDays"],
        "message_retention_days": message_days,
        **retention.StoreTotals(events=0, prompts=0, sessions=0, oldest=None).__dict__,
        "unindexed": 0,
        "backlog": "",
        "fault": "",
    }
    if paths.has_database(home):
        try:
            with open_store() as connection:
                report.update(retention.read_store_totals(connection).__dict__)
                report["unindexed"], _ = count_backlog(connection)
                report["backlog"] = describe_backlog(connection)
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
    if settings.load_settings(home)["apiPort"] < 0:
        raise UserError("the viewer is served with the API, and apiPort is -1", "hardwon config set apiPort null")
    worker_status = lifecycle.start_worker(home)
    deadline = monotonic() + _PORT_SECONDS
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


@click.group(cls=CommandGroup)
def jobs() -> None:
    """List, retry or cancel distilling jobs."""


@jobs.command("list")
@json_option
def print_jobs(as_json: bool) -> None:
    """List running jobs, pending ones in order, and those that failed for good."""
    with open_store() as connection:
        job_records = list_jobs(connection)
    if as_json:
        echo_json([format_times(job, *_TIME_FIELDS) for job in job_records])
        return
    if not job_records:
        click.echo("No pending jobs")
        return
    rows = []
    for job in job_records:
        seconds = job["due_at"] - clock.now()
        due = "now"
        if job["state"] == "dead":
            due = "-"
        elif job["state"] == "waiting" and seconds > 0:
            due = f"in {format_duration(seconds)}"
        project = to_printable_line(os.path.basename(job["project"]) or "-", 14)
        cells = [job["id"], job["kind"], job["state"], job["number"], project, job["tries"]]
        rows.append([*map(str, cells), due, to_printable_line(job["why"]) or "-"])
    echo_table(_JOB_COLUMNS, rows)
    if any(job["state"] == "dead" for job in job_records):
        click.echo("dead jobs wait for you: hardwon jobs retry, or hardwon jobs cancel ID")


@jobs.command("retry")
@click.argument("ids", nargs=-1, type=int, metavar="[ID]...")
def retry_jobs(ids: tuple[int, ...]) -> None:
    """Retry jobs now; without an ID all dead ones."""
    from hardwon.worker import lifecycle

    require_person("trying a job again")
    with open_store() as connection:
        job_states = {job["id"]: job["state"] for job in list_jobs(connection)}
        # Every id is checked before any job is changed.
        for job_id in ids:
            if job_id not in job_states:
                raise UserError(f"job {job_id} does not exist", "hardwon jobs list")
            if job_states[job_id] == "running":
                raise UserError(f"job {job_id} is running", "hardwon jobs list")
        dead_ids = [job_id for job_id, state in job_states.items() if state == "dead"]
        chosen_ids = ids or dead_ids
        retried_count = sum(retry(connection, job_id, clock.now()) for job_id in chosen_ids)
    # The worker may not look for jobs for up to an hour.
    lifecycle.wake_worker(paths.get_home())
    click.echo(f"{format_count(retried_count, 'job')} pending again" if retried_count else "no dead jobs")


@jobs.command("cancel")
@click.argument("ids", nargs=-1, type=int, required=True, metavar="ID...")
def cancel_jobs(ids: tuple[int, ...]) -> None:
    """Cancel jobs until something new happens in their sessions."""
    require_person("cancelling a job")
    with open_store() as connection:
        existing_ids = {job["id"] for job in list_jobs(connection)}
        for job_id in ids:
            if job_id not in existing_ids:
                raise UserError(f"job {job_id} does not exist", "hardwon jobs list")
        cancelled_count = sum(cancel(connection, job_id) for job_id in ids)
    click.echo(f"{format_count(cancelled_count, 'job')} cancelled")


@click.command()
@click.option("--days", default=30, show_default=True, type=click.IntRange(1, 3650), help="how far back")
@json_option
def cost(days: int, as_json: bool) -> None:
    """Show what models were asked and what it cost, and the caps used today.

    Dollars are estimated. Tokens in include those a provider had cached.
    """
    from hardwon.distil.llm.calls import build_cost_report  # imported here because it loads the providers

    values = settings.load_settings(paths.get_home())
    with open_store() as connection:
        report = build_cost_report(connection, values, days, clock.now())
    if as_json:
        echo_json(report)
        return
    total = report["total"]
    refusals = report["refusals"]
    span = "the last day" if days == 1 else f"the last {days} days"
    if not total["runs"] and not refusals:
        click.echo(f"nothing was spent in {span}: no model was asked")
        return
    lead = "today"  # only in front of the first line
    for name, row in report["today"].items():
        digits = 4 if name == "dollars" else None
        click.echo(f"{lead:<10}{round(row['used'], digits):,} of {round(row['cap'], digits):,} {name}")
        lead = ""
    for refusal in refusals:
        when = "today" if refusal["day"] == report["day"] else refusal["day"]
        times = "once" if refusal["times"] == 1 else f"{refusal['times']} times"
        click.echo(f"refused   {times} {when}, above caps.{refusal['cap']}: done without a model")
    if not total["runs"]:
        return
    click.echo()
    _print_columns(span, "runs", "tokens in", "tokens out", "cached", "dollars")
    for group, rows in report["by"].items():
        click.echo(f"by {group}")
        for row in rows:
            _print_sums(row["name"] or "-", row)
    _print_sums("together", total, indent="")


def _print_sums(name: str, sums: db.Row, *, indent: str = "  ") -> None:
    """Print a line of the table of costs."""
    label = to_printable_line(name)
    max_chars = _NAME_WIDTH - len(indent) - 1
    if len(label) > max_chars:  # the end of a path is the most useful part
        label = f"…{label[1 - max_chars :]}"
    counts = [f"{sums[field]:,}" for field in _TOKEN_FIELDS]
    _print_columns(indent + label, *counts, f"{sums['cost']:,.4f}")


def _print_columns(name: str, *columns: str) -> None:
    """Print a name and right-aligned columns."""
    cells = [f"{text:>{width}}" for text, width in zip(columns, _COLUMN_WIDTHS, strict=True)]
    click.echo(f"{name:<{_NAME_WIDTH}}{''.join(cells)}")
