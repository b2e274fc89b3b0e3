"""export, export notes, backup, restore"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from hardwon import clock, paths, projects
from hardwon.actions.importing import restore_backup
from hardwon.actions.notes import build_notes_block, replace_block
from hardwon.agents.settings_files import read_text_file
from hardwon.cli.command_group import CommandGroup
from hardwon.cli.context import (
    confirm,
    json_option,
    open_store,
    require_person,
    show_diff,
    yes_option,
)
from hardwon.cli.output import echo_json
from hardwon.data import backups, exports
from hardwon.errors import UserError
from hardwon.search.query_scope import parse_time
from hardwon.self_protection.commands import DEFAULT_BACKUP_COUNT
from hardwon.store import db
from hardwon.text.characters import format_count
from hardwon.worker.exclusive_access import hold_worker_stopped

NOTE_FILES = ("AGENTS.md", "CLAUDE.md", "GEMINI.md", ".cursorrules")
MAX_NOTE_CHARS = 6_000


@click.group(cls=CommandGroup, invoke_without_command=True)
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
        path = _find_project(connection, project) if project else ""
        lines = exports.export_lines(connection, home, project=path, since=parse_time(since, now), exported_at=now)
        if out == "-":
            # Lone surrogates in recorded text cannot be encoded, and are replaced.
            for line in lines:
                sys.stdout.buffer.write(line.encode("utf-8", "replace"))
            return
        count = exports.write_lines(os.path.abspath(os.path.expanduser(out)), lines)
    click.echo(f"exported  {format_count(count - 1, 'record')} to {out}")


def _find_project(connection: db.Connection, name: str) -> str:
    folder = os.path.abspath(os.path.expanduser(name))
    return exports.resolve_project_name(connection, name, projects.find_project_path(folder))


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
        echo_json({**new_backup.__dict__, "removed": removed})
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
        click.echo(f"left out  {format_count(deleted_count, 'session')} deleted since; --restore-deleted keeps them")


def _print_backups(home: str, as_json: bool) -> None:
    existing_backups = backups.list_backups(home)
    if as_json:
        echo_json([entry.__dict__ for entry in existing_backups])
        return
    for entry in existing_backups:
        schema_text = "cannot be read" if entry.schema is None else f"schema {entry.schema}"
        click.echo(f"{entry.name}  {entry.bytes / 1e6:>8.1f} MB  {schema_text}  {', '.join(entry.files)}")
    click.echo("next      hardwon restore NAME" if existing_backups else "no backups yet: hardwon backup")
