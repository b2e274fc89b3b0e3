"""purge, rebuild"""

from __future__ import annotations

import sys
from collections.abc import Mapping

import click

from hardwon import clock, paths, settings
from hardwon.actions import approvals
from hardwon.actions.purge import ACROSS_LINES, PurgeReport, parse_target, purge_everywhere
from hardwon.cli.context import confirm, json_option, open_store, require_person, yes_option
from hardwon.cli.output import echo_json, echo_text, show_activity
from hardwon.data import exports
from hardwon.errors import UserError
from hardwon.lessons import compiled_brief
from hardwon.search import brief
from hardwon.store import db, deletions, jobs
from hardwon.store.purge import PurgeTarget, hold_purge_lock
from hardwon.store.turns import count_unrebuildable, forget_derived
from hardwon.worker.lifecycle import hold_worker_stopped

_MAX_LOG_ENTRIES = 1_000
_UNREACHABLE_COPIES = (
    "file system snapshots, backups by other tools, freed disk blocks, swap, and what an agent has in its context"
)


@click.command()
@click.option("--text", help="whatever holds this text; - reads it from stdin")
@click.option("--session", metavar="ID", help="a session: its id, the start of it, or its number")
@click.option("--project", metavar="NAME|PATH", help="everything of a project")
@click.option("--older-than", metavar="30d", help="everything older: hours (h), days (d), weeks (w) or years (y)")
@click.option("--dry-run", is_flag=True, help="show what would be deleted, and change nothing")
@click.option("--log", "show_log", is_flag=True, help="list past deletions: when, how and how many rows")
@yes_option
@json_option
def purge(
    text: str | None,
    session: str | None,
    project: str | None,
    older_than: str | None,
    dry_run: bool,
    show_log: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Delete something for good, then check that it is gone.

    Files you approved (lessons, memories, handoffs) are named, not touched.
    """
    if show_log:
        _print_deletions(as_json)
        return
    if sum(option is not None for option in (text, session, project, older_than)) != 1:
        options = "--text, --session, --project, --older-than"
        raise UserError(f"choose exactly one of {options}", "hardwon purge --text TEXT --dry-run")
    if not dry_run:
        require_person("purging")
    home = paths.get_home()
    with open_store() as connection:
        search_text = sys.stdin.read().strip("\n") if text == "-" else text
        target = parse_target(connection, search_text, session, project, older_than)
        # A person who will be asked sees first what would go.
        if dry_run or not (yes or as_json):
            with show_activity("searching the database, backups, logs and transcripts"):
                report = purge_everywhere(home, connection, target, dry_run=True)
            _print_report(report, target, dry_run=True, as_json=as_json)
        if dry_run or not confirm(yes, "Delete this? It cannot be undone"):
            return
        with hold_worker_stopped(home), hold_purge_lock(home):
            try:
                with show_activity("deleting, then checking every file"):
                    report = purge_everywhere(home, connection, target, dry_run=False)
            except db.StoreError as error:
                raise UserError(f"the purge stopped half-way: {error}", "repair that, then purge again") from None
            connection.close()  # before the worker starts again, which needs the write-ahead log
    _print_report(report, target, dry_run=False, as_json=as_json)
    if report.remaining:
        raise SystemExit(1)


def _print_deletions(as_json: bool) -> None:
    """Print the log of deletions, the newest first."""
    with open_store() as connection:
        entries = deletions.list_newest(connection, _MAX_LOG_ENTRIES)
    if as_json:
        echo_json([{**entry.__dict__, "at": clock.format_iso(entry.at)} for entry in entries])
        return
    for entry in entries:
        rows = _format_counts(entry.rows) or "nothing in the database"
        click.echo(f"{clock.format_iso(entry.at)}  {entry.path}, {entry.kind}: {rows}")
    if not entries:
        click.echo("nothing was deleted yet")


def _format_counts(counts: Mapping[str, int]) -> str:
    """Return counts as one text, such as `events 3, prompts 1`."""
    return ", ".join(f"{noun} {count}" for noun, count in counts.items())


def _print_report(report: PurgeReport, target: PurgeTarget, *, dry_run: bool, as_json: bool) -> None:
    """Print what was or would be deleted, what was left alone, and what nobody can check."""
    if as_json:
        echo_json(
            {
                "dry": dry_run,
                "gone": report.removed,
                "approved": report.approved,
                "transcripts": report.transcripts,
                "left": report.remaining,
                "cannot": _UNREACHABLE_COPIES,
            }
        )
        return
    verb = "would go" if dry_run else "deleted"
    for location, counts in report.removed.items():
        echo_text(f"{verb:<10}{location}: {_format_counts(counts)}")
    if not report.removed:
        click.echo(f"{verb:<10}nothing: hardwon does not hold it")
    for path, numbers in report.approved.items():
        line_numbers = ", ".join(map(str, numbers))
        if numbers == ACROSS_LINES:
            line_numbers = "across lines"
        echo_text(f"yours     {path}: line {line_numbers}; not touched, edit it yourself")
    for path in report.transcripts:
        echo_text(f"agent's   {path} still holds it")
    if report.transcripts:
        click.echo("          no scan or import brings it back from there")
    for path in report.remaining:
        echo_text(f"LEFT      {path} still holds it: look at it yourself")
    if dry_run:
        return
    if not report.remaining and target.older_than is None:
        exceptions = "" if target.text_pieces else ", read positions of its transcripts and marks of its pauses"
        click.echo(f"searched  every file of the home: only in the files named above{exceptions}")
    click.echo(f"unproven  {_UNREACHABLE_COPIES}")


@click.command()
@json_option
def rebuild(as_json: bool) -> None:
    """Rebuild what is derived from the recorded sessions and your files.

    That is the search index, its vectors, observations and summaries made without a model, the briefs and the
    manifest. No model is asked; what one wrote before stays.
    """
    from hardwon.worker import job_process  # imported here because it loads every distiller

    home = paths.get_home()
    values = settings.load_settings(home)
    with hold_worker_stopped(home), open_store(drain=True) as connection, show_activity("rebuilding"):
        session_count = forget_derived(connection, clock.now())
        compiled_brief.delete_all(home)
        # A job may give up its turn after a time limit, so the jobs are run until none is due.
        is_finished = False
        while not is_finished:
            is_indexed = job_process.run_due_jobs(home, connection, jobs.DISTIL, values)
            next_due = jobs.find_next_due(connection, (jobs.DISTIL,))
            is_finished = is_indexed and (next_due is None or next_due > clock.now())
        project_paths = exports.list_project_paths(connection)
        for project in project_paths:
            brief.compile_brief(connection, home, project, values)
        approvals.compile_manifest(home, clock.now())
        counts = db.count_rows(connection, ("observations", "summaries", "documents", "vectors"))
        unrebuildable = count_unrebuildable(connection)
    if as_json:
        report = {"sessions": session_count, "briefs": len(project_paths), **counts, "kept": unrebuildable}
        echo_json(report)
        return
    summary = ", ".join(f"{count} {name}" for name, count in counts.items())
    click.echo(f"rebuilt   from {session_count} sessions: {summary}")
    click.echo(f"          {len(project_paths)} briefs and the manifest")
    if unrebuildable:
        click.echo(f"kept      observations of {unrebuildable} turns, whose events are gone")
