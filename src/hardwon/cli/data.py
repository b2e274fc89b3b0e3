"""export, import jsonl, import claude-mem, backup, restore"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager

import click

from hardwon import actor, clock, paths, projects
from hardwon.actions import approvals
from hardwon.actions.lessons import import_exported_lessons
from hardwon.cli.lessons import pluralize
from hardwon.cli.notes import export_notes
from hardwon.cli.output import is_interactive, make_printable
from hardwon.cli.person_only import require_person
from hardwon.cli.scan import parse_date
from hardwon.cli.sessions import open_drained_store
from hardwon.data import backups, claude_mem, exports, imports
from hardwon.data.imports import NumberedRecord
from hardwon.errors import UserError
from hardwon.lessons import compiled_brief, manifest
from hardwon.mining import scan as mining
from hardwon.self_protection.commands import DEFAULT_BACKUP_COUNT
from hardwon.store import db, deletions, sessions
from hardwon.store.approvals import COMMAND_LINE
from hardwon.worker import lifecycle

CLAUDE_MEM_DATABASE = "~/.claude-mem/claude-mem.db"
_STOP_ATTEMPTS = 5
_PLURALS = {"summary": "summaries", "delivery": "deliveries"}


@contextmanager
def hold_worker_stopped(home: str) -> Iterator[None]:
    """With the worker stopped and unable to start, and no scan at work; the worker runs again afterwards if it ran."""
    was_running, lock = False, None
    for _ in range(_STOP_ATTEMPTS):  # a hook may start one between the two
        was_running = lifecycle.stop_worker(home) or was_running
        lock = lifecycle.take_lock(home)
        if lock is not None:
            break
    if lock is None:
        raise UserError("the worker starts again as soon as it is stopped", "hardwon stop, then try again")
    try:
        with mining.hold_scan_lock(home, wait=True):
            yield
    finally:
        os.close(lock)
        if was_running:
            lifecycle.start_worker(home)


def require_confirmation(yes: bool, question: str) -> None:
    """Ask, unless that was answered on the command line."""
    if yes:
        return
    if not is_interactive():
        raise UserError("nothing was changed: there is nobody to ask", "give it --yes if you are sure")
    click.confirm(make_printable(question), abort=True)


def find_project_path(connection: db.Connection, name: str | None) -> str:
    """The project a person means: by name, or by a folder in it."""
    if not name:
        return ""
    return exports.resolve_project_name(
        connection, name, projects.find_project_path(os.path.abspath(os.path.expanduser(name)))
    )


@click.group(invoke_without_command=True)
@click.option("--project", metavar="NAME|PATH", help="only what belongs to this project alone")
@click.option("--since", metavar="DATE", help="only what happened since, such as 2026-11-01")
@click.option("--out", default="-", metavar="FILE|-", show_default=True, help="where to; - is stdout")
@click.pass_context
def export(ctx: click.Context, project: str | None, since: str | None, out: str) -> None:
    """Write what is recorded and learned as lines of JSON.

    The format is described in docs/export.md; hardwon import jsonl reads it.
    """
    if ctx.invoked_subcommand:
        return
    home = paths.get_home()
    connection = open_drained_store(home)
    path, earliest = find_project_path(connection, project), parse_date(since) if since else 0.0
    lines = exports.export_lines(connection, home, project=path, since=earliest, exported_at=clock.now())
    if out == "-":
        for line in lines:
            sys.stdout.buffer.write(line.encode("utf-8", "replace"))
        return
    count = _write_lines(os.path.abspath(os.path.expanduser(out)), lines)
    click.echo(f"exported  {pluralize(count - 1, 'record')} to {out}")


export.add_command(export_notes)


def _write_lines(path: str, lines: Iterable[str]) -> int:
    """Write a file of the person's, readable by them alone, whole or not at all."""
    partial_path, count = f"{path}.{os.getpid()}.new", 0
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise UserError(f"there is no folder {folder} to write {os.path.basename(path)} into", f"mkdir -p {folder}")
    try:
        with open(os.open(partial_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            for line in lines:
                file.write(line.encode("utf-8", "replace"))
                count += 1
        os.replace(partial_path, path)
    except BaseException:
        if os.path.exists(partial_path):
            os.unlink(partial_path)
        raise
    return count


def import_jsonl(file: str, *, as_json: bool, restore_deleted: bool) -> None:
    """import jsonl: every line that is sound comes in; exit code 1 if some are not."""
    faults: list[tuple[int, str]] = []
    with open(file, encoding="utf-8", errors="replace") as lines:
        imports.check_header(lines.readline(), file)
        _import_records(
            imports.parse_records(lines, faults), faults, as_json=as_json, name=file, restore_deleted=restore_deleted
        )


def import_claude_mem(file: str | None, *, as_json: bool, restore_deleted: bool) -> None:
    """import claude-mem: its sessions, prompts, observations and summaries, from its database."""
    home = paths.get_home()
    source = claude_mem.open_database(os.path.expanduser(file or CLAUDE_MEM_DATABASE))
    project_names = exports.map_unique_project_names(open_drained_store(home))
    numbered_records = enumerate(claude_mem.read_records(source, project_names), 1)
    _import_records(
        numbered_records, [], as_json=as_json, name=file or CLAUDE_MEM_DATABASE, restore_deleted=restore_deleted
    )
    source.close()


def _import_records(
    numbered_records: Iterable[NumberedRecord],
    faults: list[tuple[int, str]],
    *,
    as_json: bool,
    name: str,
    restore_deleted: bool,
) -> None:
    if restore_deleted:
        require_person("restoring what was deleted")
    home, agent_variable = paths.get_home(), actor.find_agent_variable(os.environ)
    connection = open_drained_store(home)
    approvals.ensure_upgraded(home, connection, clock.now())
    outcome = imports.import_records(
        connection, numbered_records, faults, is_approved=not agent_variable, restore_deleted=restore_deleted
    )
    approvals.record_imported(
        connection, outcome.new_memory_keys, outcome.new_reflection_keys, COMMAND_LINE, clock.now()
    )
    added, refused = import_exported_lessons(
        home, connection, outcome.lesson_records, COMMAND_LINE, is_person=not agent_variable
    )
    faults = sorted([*outcome.faults, *refused])
    counts = {**outcome.imported_counts, "lesson": added}
    if as_json:
        fault_rows = [{"line": number, "fault": fault} for number, fault in faults]
        imported = {kind: count for kind, count in counts.items() if count}
        click.echo(json.dumps({"imported": imported, "deleted": outcome.deleted, "faults": fault_rows}))
    else:
        _report_import(counts, faults, agent_variable, name)
        if outcome.deleted:
            click.echo(
                f"left out  {pluralize(outcome.deleted, 'record')} deleted here; --restore-deleted takes them in"
            )
    if faults:
        raise SystemExit(1)


def _report_import(counts: dict[str, int], faults: list[tuple[int, str]], agent_variable: str, name: str) -> None:
    for number, fault in faults:
        click.echo(make_printable(f"{name} line {number}: {fault}"), err=True)
    parts = [
        f"{count} {_PLURALS.get(kind, f'{kind}s') if count != 1 else kind}" for kind, count in counts.items() if count
    ]
    click.echo(f"imported  {', '.join(parts) or 'nothing new'}")
    if agent_variable and counts["lesson"]:
        click.echo(
            f"          as candidates, since {agent_variable} says an agent runs this; a person decides: "
            "hardwon lessons list"
        )
    if faults:
        click.echo(f"          {pluralize(len(faults), 'line')} could not be taken in")


@click.command()
@click.option(
    "--keep", default=DEFAULT_BACKUP_COUNT, show_default=True, type=click.IntRange(1), help="how many backups to keep"
)
@click.option("--json", "as_json", is_flag=True, help="print JSON")
def backup(keep: int, as_json: bool) -> None:
    """Copy the database and what you wrote into backups/, while everything runs."""
    if keep < DEFAULT_BACKUP_COUNT:
        require_person(f"keeping fewer than {DEFAULT_BACKUP_COUNT} backups")
    home = paths.get_home()
    new_backup = backups.create_backup(home, clock.now())
    removed = backups.rotate(home, keep)
    if as_json:
        click.echo(json.dumps({**new_backup.__dict__, "removed": removed}))
        return
    click.echo(f"backup    {new_backup.path}")
    click.echo(
        f"holds     {', '.join(new_backup.files) or 'nothing: there is nothing yet'}, {new_backup.bytes / 1e6:.1f} MB"
    )
    if removed:
        click.echo(f"removed   {', '.join(removed)}; --keep says how many stay")


@click.command()
@click.argument("name", required=False)
@click.option("--restore-deleted", is_flag=True, help="with the sessions that you deleted since, too")
@click.option("--yes", is_flag=True, help="do not ask")
@click.option("--json", "as_json", is_flag=True, help="without a NAME: print JSON")
def restore(name: str | None, restore_deleted: bool, yes: bool, as_json: bool) -> None:
    """Put a backup in place of what is there, which becomes a backup itself.

    Without a NAME the backups are listed. Sessions you deleted since stay deleted.
    """
    home = paths.get_home()
    if not name:
        _list_backups(home, as_json)
        return
    require_person("restoring a backup")
    chosen = backups.find_backup(home, name)
    require_confirmation(yes, f"Put the backup {chosen.name} in place of what is there?")
    with hold_worker_stopped(home):
        previous_backup = backups.create_backup(home, clock.now())
        backups.restore(home, chosen, previous_backup)
        compiled_brief.delete_all(home)
        with closing(db.connect(home)) as connection:
            approvals.ensure_upgraded(home, connection, clock.now(), is_restored=True)
            deleted = _delete_again(connection, previous_backup) if not restore_deleted else 0
        manifest.build(home, clock.now())
    click.echo(f"restored  {chosen.name}")
    click.echo(f"before    what was there is the backup {previous_backup.name}")
    if deleted:
        click.echo(f"left out  {pluralize(deleted, 'session')} deleted since; --restore-deleted keeps them")


def _delete_again(connection: db.Connection, previous_backup: backups.Backup) -> int:
    """Take over what is known of deletions and delete the sessions that a backup brought back; return how many."""
    previous_database = os.path.join(previous_backup.path, paths.DATABASE)
    numbers = deletions.carry_over(connection, previous_database) if os.path.exists(previous_database) else []
    for number in numbers:
        sessions.delete(connection, number)
    return len(numbers)


def _list_backups(home: str, as_json: bool) -> None:
    existing_backups = backups.list_backups(home)
    if as_json:
        click.echo(json.dumps([entry.__dict__ for entry in existing_backups], indent=2))
        return
    for entry in existing_backups:
        schema_text = "cannot be read" if entry.schema is None else f"schema {entry.schema}"
        click.echo(f"{entry.name}  {entry.bytes / 1e6:>8.1f} MB  {schema_text}  {', '.join(entry.files)}")
    click.echo("next      hardwon restore NAME" if existing_backups else "no backups yet: hardwon backup")
