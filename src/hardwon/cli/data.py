"""export, backup, restore, rebuild, purge"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence

import click

from hardwon import clock, paths, projects, settings
from hardwon.actions import approvals
from hardwon.actions.importing import restore_backup
from hardwon.actions.notes import build_notes_block, replace_block
from hardwon.actions.purge import PurgeReport, find_project, parse_target, purge_everywhere
from hardwon.agents.installation import read_text_file
from hardwon.cli.context import (
    confirm,
    json_option,
    open_store,
    require_person,
    show_diff,
    yes_option,
)
from hardwon.cli.output import echo_json, echo_text
from hardwon.data import backups, exports
from hardwon.errors import UserError
from hardwon.lessons import compiled_brief
from hardwon.search import brief
from hardwon.search.query_scope import parse_time
from hardwon.self_protection.commands import DEFAULT_BACKUP_COUNT
from hardwon.store import db, deletions, jobs
from hardwon.store.purge import PurgeTarget
from hardwon.store.purge_lock import hold_purge_lock
from hardwon.store.rebuild import count_derived, count_unrebuildable, forget_derived
from hardwon.text.excerpts import pluralize
from hardwon.worker import job_process
from hardwon.worker.exclusive_access import hold_worker_stopped

NOTE_FILES = ("AGENTS.md", "CLAUDE.md", "GEMINI.md", ".cursorrules")
MAX_NOTE_CHARS = 6_000
MAX_LOG_ENTRIES = 1_000
_UNREACHABLE_COPIES = (
    "file system snapshots, backups by other tools, freed disk blocks, swap, and what an agent has in its context"
)


@click.group(invoke_without_command=True)
@click.option("--project", metavar="NAME|PATH", help="only this project's records")
@click.option("--since", default="", metavar="DATE", help="only since this date, such as 2026-11-01 or 7d")
@click.option("--out", default="-", metavar="FILE|-", show_default=True, help="where to; - is stdout")
@click.pass_context
def export(ctx: click.Context, project: str | None, since: str, out: str) -> None:
    """Write what is recorded and learned as lines of JSON.

    The format is described in docs/export.md; hardwon import jsonl reads it.
    """
    if ctx.invoked_subcommand:
        return
    home, now = paths.get_home(), clock.now()
    with open_store(drain=True) as connection:
        path = find_project(connection, project) if project else ""
        lines = exports.export_lines(connection, home, project=path, since=parse_time(since, now), exported_at=now)
        if out == "-":
            # Lone surrogates in recorded text cannot be encoded, and are replaced.
            for line in lines:
                sys.stdout.buffer.write(line.encode("utf-8", "replace"))
            return
        count = exports.write_lines(os.path.abspath(os.path.expanduser(out)), lines)
    click.echo(f"exported  {pluralize(count - 1, 'record')} to {out}")


@export.command("notes")
@click.option("--to", "files", multiple=True, type=click.Choice(NOTE_FILES), default=[NOTE_FILES[0]], show_default=True)
@click.option("--here", is_flag=True, help="only what belongs to this project alone")
@click.option("--most", default=MAX_NOTE_CHARS, show_default=True, type=click.IntRange(200), help="characters at most")
@click.option("--remove", is_flag=True, help="take the block out again")
@click.option("--print", "only_print", is_flag=True, help="show the change and stop")
@yes_option
def export_notes(files: Sequence[str], here: bool, most: int, remove: bool, only_print: bool, yes: bool) -> None:
    """Write lessons and memories into AGENTS.md, for agents without hooks.

    They stand in a marked block; nothing else in the file is touched.
    """
    root = projects.find_git_root(os.getcwd())
    block, omitted_count = "", 0
    if not remove:
        with open_store() as connection:
            block, omitted_count = build_notes_block(connection, paths.get_home(), root, most, only_here=here)
    changes = []
    # CLAUDE.md is often a link to AGENTS.md, which is written once then.
    for path in dict.fromkeys(os.path.realpath(os.path.join(root, name)) for name in files):
        if not paths.is_inside(os.path.realpath(root), path):
            raise UserError(f"{path} is outside {root}, where a link leads", "put a file there instead")
        old_text = read_text_file(path)
        new_text = replace_block(path, old_text, block)
        if new_text == old_text:
            click.echo(f"nothing to change in {path}")
            continue
        show_diff(path, old_text, new_text)
        changes.append((path, old_text, new_text))
    if omitted_count:
        click.echo(f"{omitted_count} left out: --most limits the characters")
    if only_print or not changes or not confirm(yes, "Make this change?", default=True):
        return
    for path, old_text, new_text in changes:
        # The person may have edited it in another window while they were asked.
        if read_text_file(path) != old_text:
            raise UserError(f"{path} changed while you were looking at it", "run the command again")
        if new_text:
            mode = os.stat(path).st_mode & 0o777 if os.path.exists(path) else 0o644
            paths.replace_file(path, new_text.encode("utf-8"), mode)
            click.echo(f"written   {path}")
        else:
            os.unlink(path)
            click.echo(f"removed   {path}, which had nothing else")


@click.command()
@click.option(
    "--keep", default=DEFAULT_BACKUP_COUNT, show_default=True, type=click.IntRange(1), help="how many backups to keep"
)
@json_option
def backup(keep: int, as_json: bool) -> None:
    """Copy the database and your files into backups/, while everything runs."""
    # An agent could otherwise remove every backup but its own.
    if keep < DEFAULT_BACKUP_COUNT:
        require_person(f"keeping fewer than {DEFAULT_BACKUP_COUNT} backups")
    home = paths.get_home()
    new_backup = backups.create_backup(home, clock.now())
    removed = backups.rotate(home, keep)
    if as_json:
        click.echo(json.dumps({**new_backup.__dict__, "removed": removed}))
        return
    click.echo(f"backup    {new_backup.path}")
    click.echo(f"holds     {', '.join(new_backup.files) or 'nothing yet'}, {new_backup.bytes / 1e6:.1f} MB")
    if removed:
        click.echo(f"removed   {', '.join(removed)}; --keep says how many stay")


@click.command()
@click.argument("name", required=False)
@click.option("--restore-deleted", is_flag=True, help="with the sessions that you deleted since, too")
@yes_option
@click.option("--json", "as_json", is_flag=True, help="without a NAME: print JSON")
def restore(name: str | None, restore_deleted: bool, yes: bool, as_json: bool) -> None:
    """Put a backup in place of what is there, which becomes a backup itself.

    Without a NAME the backups are listed. Sessions you deleted since stay deleted.
    """
    home = paths.get_home()
    if not name:
        _print_backups(home, as_json)
        return
    require_person("restoring a backup")
    chosen = backups.find_backup(home, name)
    if not confirm(yes, f"Put the backup {chosen.name} in place of what is there?"):
        return
    with hold_worker_stopped(home):
        previous_backup, deleted_count = restore_backup(home, chosen, restore_deleted=restore_deleted)
    click.echo(f"restored  {chosen.name}")
    click.echo(f"before    saved as the backup {previous_backup.name}")
    if deleted_count:
        click.echo(f"left out  {pluralize(deleted_count, 'session')} deleted since; --restore-deleted keeps them")


def _print_backups(home: str, as_json: bool) -> None:
    existing_backups = backups.list_backups(home)
    if as_json:
        echo_json([entry.__dict__ for entry in existing_backups])
        return
    for entry in existing_backups:
        schema_text = "cannot be read" if entry.schema is None else f"schema {entry.schema}"
        click.echo(f"{entry.name}  {entry.bytes / 1e6:>8.1f} MB  {schema_text}  {', '.join(entry.files)}")
    click.echo("next      hardwon restore NAME" if existing_backups else "no backups yet: hardwon backup")


@click.command()
@json_option
def rebuild(as_json: bool) -> None:
    """Rebuild what is derived from the recorded sessions and your files.

    That is the search index, its vectors, observations and summaries made without a model, the briefs and the
    manifest. No model is asked; what one wrote before stays.
    """
    home = paths.get_home()
    values = settings.resolve_settings(settings.read_config(home))
    with hold_worker_stopped(home), open_store(drain=True) as connection:
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
        counts = count_derived(connection)
        unrebuildable = count_unrebuildable(connection)
    if as_json:
        report = {"sessions": session_count, "briefs": len(project_paths), **counts, "kept": unrebuildable}
        click.echo(json.dumps(report))
        return
    summary = ", ".join(f"{count} {name}" for name, count in counts.items())
    click.echo(f"rebuilt   from {session_count} sessions: {summary}")
    click.echo(f"          {len(project_paths)} briefs and the manifest")
    if unrebuildable:
        click.echo(f"kept      observations of {unrebuildable} turns, whose events are gone")


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
            report = purge_everywhere(home, connection, target, dry_run=True)
            _print_report(report, target, dry_run=True, as_json=as_json)
        if dry_run or not confirm(yes, "Delete this? It cannot be undone"):
            return
        with hold_worker_stopped(home), hold_purge_lock(home):
            try:
                report = purge_everywhere(home, connection, target, dry_run=False)
            except db.StoreError as error:
                raise UserError(f"the purge stopped half-way: {error}", "repair that, then purge again") from None
            connection.close()  # before the worker starts again, which needs the write-ahead log
    _print_report(report, target, dry_run=False, as_json=as_json)
    if report.remaining:
        raise SystemExit(1)


def _print_deletions(as_json: bool) -> None:
    with open_store() as connection:
        entries = deletions.list_newest(connection, MAX_LOG_ENTRIES)
    if as_json:
        echo_json([{**entry.__dict__, "at": clock.format_iso(entry.at)} for entry in entries])
        return
    for entry in entries:
        rows = _format_counts(entry.rows) or "nothing in the database"
        click.echo(f"{clock.format_iso(entry.at)}  {entry.path}, {entry.kind}: {rows}")
    if not entries:
        click.echo("nothing was deleted yet")


def _format_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{noun} {count}" for noun, count in counts.items())


def _print_report(report: PurgeReport, target: PurgeTarget, *, dry_run: bool, as_json: bool) -> None:
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
        line_numbers = "across lines" if numbers == [0] else ", ".join(map(str, numbers))
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
