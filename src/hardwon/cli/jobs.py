"""jobs list, jobs retry, jobs cancel; cost"""

from __future__ import annotations

from typing import Any

import click

from hardwon import clock, paths, settings
from hardwon.cli.command_group import CommandGroup
from hardwon.cli.context import json_option, open_store, require_person
from hardwon.cli.output import echo_json, echo_table, format_duration, format_times
from hardwon.errors import UserError
from hardwon.store.jobs import cancel, list_jobs, retry
from hardwon.text.characters import format_count, to_printable_line

_JOB_COLUMNS = ("id", "what", "state", "session", "project", "tries", "when", "why")
_TIME_FIELDS = ("made_at", "due_at", "lease_until")
_TOKEN_FIELDS = ("runs", "tokens_in", "tokens_out", "tokens_cached")
_NAME_WIDTH, _COLUMN_WIDTHS = 28, (7, 12, 12, 11, 10)


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
        due = {"waiting": f"in {format_duration(seconds)}" if seconds > 0 else "now", "running": "now"}
        project = to_printable_line(job["project"].rpartition("/")[2] or "-", 14)
        cells = [job["id"], job["kind"], job["state"], job["number"], project, job["tries"]]
        rows.append([*map(str, cells), due.get(job["state"], "-"), to_printable_line(job["why"]) or "-"])
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
            if job_states.get(job_id) in (None, "running"):
                fact = "is running" if job_id in job_states else "does not exist"
                raise UserError(f"job {job_id} {fact}", "hardwon jobs list")
        dead_ids = [job_id for job_id, state in job_states.items() if state == "dead"]
        retried_count = sum(retry(connection, job_id, clock.now()) for job_id in ids or dead_ids)
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
    from hardwon.distil.llm.cost_report import build_cost_report  # imported here because it loads the providers

    values = settings.resolve_settings(settings.read_config(paths.get_home()))
    with open_store() as connection:
        report = build_cost_report(connection, values, days, clock.now())
    if as_json:
        echo_json(report)
        return
    total, refusals = report["total"], report["refusals"]
    span = "the last day" if days == 1 else f"the last {days} days"
    if not total["runs"] and not refusals:
        click.echo(f"nothing was spent in {span}: no model was asked")
        return
    for name, row in report["today"].items():
        lead = "today" if name == "runs" else ""
        used, cap = (round(row[key], 4 if name == "dollars" else None) for key in ("used", "cap"))
        click.echo(f"{lead:<10}{used:,} of {cap:,} {name}")
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


def _print_sums(name: str, sums: dict[str, Any], *, indent: str = "  ") -> None:
    label = to_printable_line(name)
    max_chars = _NAME_WIDTH - len(indent) - 1
    if len(label) > max_chars:  # the end of a path is the most useful part
        label = f"…{label[1 - max_chars :]}"
    _print_columns(indent + label, *(f"{sums[field]:,}" for field in _TOKEN_FIELDS), f"{sums['cost']:,.4f}")


def _print_columns(name: str, *columns: str) -> None:
    cells = [f"{text:>{width}}" for text, width in zip(columns, _COLUMN_WIDTHS, strict=True)]
    click.echo(f"{name:<{_NAME_WIDTH}}{''.join(cells)}")
