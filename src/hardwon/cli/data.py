"""export, export notes, backup, restore; import transcripts, jsonl, claude-mem, notes"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import closing

import click

from hardwon import clock, paths, projects, settings
from hardwon.actions.data import (
    build_notes_block,
    import_records,
    import_transcripts,
    measure_import_megabytes,
    propose_rules,
    replace_block,
    restore_backup,
)
from hardwon.agents.settings_files import read_text_file
from hardwon.cli import CommandGroup
from hardwon.cli.context import (
    EXISTING_FILE,
    confirm,
    find_agent,
    is_interactive,
    json_option,
    open_decider,
    open_store,
    require_person,
    show_diff,
    transcript_agent_option,
    yes_option,
)
from hardwon.cli.output import echo_json, echo_text, note_progress, show_progress
from hardwon.data import backups, claude_mem, exports, imports
from hardwon.data.exports import map_unique_project_names
from hardwon.data.imports import NumberedRecord
from hardwon.errors import UserError
from hardwon.mining.scan import ScanRequest, find_transcripts
from hardwon.mining.transcript_reading import TranscriptFile
from hardwon.search.query_scope import parse_time
from hardwon.self_protection.commands import DEFAULT_BACKUP_COUNT
from hardwon.store import db
from hardwon.text.characters import format_count
from hardwon.types import MEMORY_TYPES
from hardwon.worker.lifecycle import hold_worker_stopped

_NOTE_FILES = ("AGENTS.md", "CLAUDE.md", "GEMINI.md", ".cursorrules")
_MAX_NOTE_CHARS = 6_000
_CLAUDE_MEM_DATABASE = "~/.claude-mem/claude-mem.db"
_DAY_SECONDS = 86_400.0
restore_option = click.option("--restore-deleted", is_flag=True, help="import what was deleted here, too")


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
    home = paths.get_home()
    now = clock.now()
    with open_store(drain=True) as connection:
        path = _find_project(connection, project) if project else ""
        lines = exports.export_lines(connection, home, project=path, since=parse_time(since, now), exported_at=now)
        if out == "-":
            # Lone surrogates in recorded text cannot be encoded, and are replaced.
            for line in lines:
                sys.stdout.buffer.write(line.encode("utf-8", "replace"))
            return
        line_count = exports.write_lines(os.path.abspath(os.path.expanduser(out)), lines)
    record_count = line_count - 1  # the first line is the header
    click.echo(f"exported  {format_count(record_count, 'record')} to {out}")


def _find_project(connection: db.Connection, name: str) -> str:
    """Return the path of the project that a person named, or whose folder they gave; UserError if it is not known."""
    folder = os.path.abspath(os.path.expanduser(name))
    return exports.resolve_project_name(connection, name, projects.find_project_path(folder))


@export.command("notes")
@click.option(
    "--to", "files", multiple=True, type=click.Choice(_NOTE_FILES), default=[_NOTE_FILES[0]], show_default=True
)
@click.option("--here", is_flag=True, help="only what belongs to this project alone")
@click.option("--most", default=_MAX_NOTE_CHARS, show_default=True, type=click.IntRange(200), help="characters at most")
@click.option("--remove", is_flag=True, help="take the block out again")
@click.option("--print", "only_print", is_flag=True, help="show the change and stop")
@yes_option
def export_notes(files: Sequence[str], here: bool, most: int, remove: bool, only_print: bool, yes: bool) -> None:
    """Write lessons and memories into AGENTS.md, for agents without hooks.

    They stand in a marked block; nothing else in the file is touched.
    """
    root = projects.find_git_root(os.getcwd())
    block = ""  # an empty block takes the present one out
    omitted_count = 0
    if not remove:
        with open_store() as connection:
            block, omitted_count = build_notes_block(connection, paths.get_home(), root, most, only_here=here)
    changes = []
    # CLAUDE.md is often a link to AGENTS.md, which is written once then.
    real_paths = [os.path.realpath(os.path.join(root, name)) for name in files]
    for path in dict.fromkeys(real_paths):
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
        # The person may have edited the file in another window while they were asked.
        if read_text_file(path) != old_text:
            raise UserError(f"{path} changed while you were looking at it", "run the command again")
        _write_notes(path, new_text)


def _write_notes(path: str, text: str) -> None:
    """Write a file of notes, or remove it if nothing is left in it."""
    if text:
        mode = os.stat(path).st_mode & 0o777 if os.path.exists(path) else 0o644
        paths.replace_file(path, text.encode("utf-8"), mode)
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
    """Print the backups, the newest first."""
    existing_backups = backups.list_backups(home)
    if as_json:
        echo_json([entry.__dict__ for entry in existing_backups])
        return
    for entry in existing_backups:
        schema_text = "cannot be read" if entry.schema is None else f"schema {entry.schema}"
        click.echo(f"{entry.name}  {entry.bytes / 1e6:>8.1f} MB  {schema_text}  {', '.join(entry.files)}")
    click.echo("next      hardwon restore NAME" if existing_backups else "no backups yet: hardwon backup")


@click.group("import", cls=CommandGroup)
def import_() -> None:
    """Import transcripts, an export, claude-mem's database or notes."""


import_.commands_by_suffix = {".jsonl": "jsonl", ".db": "claude-mem", ".md": "notes"}


@import_.command()
@click.option("--path", "scan_paths", multiple=True, metavar="PATH", help="only this file or folder")
@transcript_agent_option
@click.option("--since", default="", metavar="DATE", help="only transcripts changed since, such as 2026-11-01 or 7d")
@click.option("--background", is_flag=True, hidden=True, help="at low priority; hardwon status shows the progress")
@json_option
def transcripts(scan_paths: tuple[str, ...], agent: str | None, since: str, background: bool, as_json: bool) -> None:
    """Record the sessions in the agents' transcripts; none is recorded twice.

    A session whose transcript was not written for a day counts as completed. What is imported is kept for
    retentionDays from today, however old it is.
    """
    home = paths.get_home()
    now = clock.now()
    values = settings.load_settings(home)
    retention_days = values["retentionDays"]
    kept_until = clock.format_iso(now + retention_days * _DAY_SECONDS) if retention_days else None
    request = ScanRequest(scan_paths=scan_paths, agent=agent or "", since=parse_time(since, now))
    # What a scan has read is imported all the same, so its read positions do not count.
    files = find_transcripts(request, values, read_positions={})
    with open_store() as connection:
        _warn_of_size_limit(connection, files, values["maxDbMb"])
        total_bytes = sum(file.unread_bytes for file in files)
        progress = note_progress(home, total_bytes) if background else show_progress(total_bytes, is_silent=as_json)
        with progress as report_progress:
            counts, faults = import_transcripts(home, connection, files, values, report_progress)
    if as_json:
        fault_rows = [{"path": path, "fault": fault} for path, fault in faults]
        echo_json({"files": len(files), **counts, "faults": fault_rows, "kept_until": kept_until})
        return
    click.echo(f"read      {format_count(len(files), 'transcript')}")
    for path, fault in faults:
        echo_text(f"          {path}: {fault}")
    new_counts = [format_count(counts[f"{noun}s"], noun) for noun in ("session", "prompt", "event")]
    click.echo(f"new       {', '.join(new_counts)}")
    if kept_until:
        click.echo(f"kept      until {kept_until[:10]}, {retention_days} days from today (retentionDays)")
    else:
        click.echo("kept      for ever (retentionDays 0)")
    if counts["sessions"]:
        click.echo("next      hardwon sessions list")


def _warn_of_size_limit(connection: db.Connection, files: Sequence[TranscriptFile], max_megabytes: int) -> None:
    """Warn before an import that does not fit, and let a person at a terminal stop it."""
    needed, free = measure_import_megabytes(connection, files, max_megabytes)
    if needed <= free:
        return
    enough = max_megabytes + round(needed) - round(free) + 1
    click.echo(
        f"warning: this import takes about {needed:,.0f} MB, and {free:,.0f} MB of maxDbMb"
        f" ({max_megabytes:,} MB) are free: the oldest events would be dropped soon after\n"
        f"fix: hardwon config set maxDbMb {enough}, or import less with --since or --path",
        err=True,
    )
    # A script continues after the warning, because everything deleted is still in the transcripts.
    if is_interactive():
        click.confirm("Import all the same?", abort=True)


@import_.command()
@click.argument("file", type=EXISTING_FILE)
@restore_option
@json_option
def jsonl(file: str, restore_deleted: bool, as_json: bool) -> None:
    """Import what hardwon export wrote; what is here already is not imported again.

    Sessions you deleted and texts you purged stay out.
    """
    faults: list[tuple[int, str]] = []
    with open(file, encoding="utf-8", errors="replace") as lines:
        imports.check_header(lines.readline(), file)
        numbered_records = imports.parse_records(lines, faults)
        _import_records(numbered_records, faults, file=file, restore_deleted=restore_deleted, as_json=as_json)


@import_.command("claude-mem")
@click.argument("file", default=_CLAUDE_MEM_DATABASE, type=click.Path(dir_okay=False))
@restore_option
@json_option
def import_claude_mem(file: str, restore_deleted: bool, as_json: bool) -> None:
    """Import claude-mem's sessions, prompts, observations and summaries.

    FILE is its database, ~/.claude-mem/claude-mem.db if left out; it is only read.
    """
    with closing(claude_mem.open_database(os.path.expanduser(file))) as source:
        with open_store(drain=True) as connection:
            project_names = map_unique_project_names(connection)
        numbered_records = enumerate(claude_mem.read_records(source, project_names), 1)
        _import_records(numbered_records, [], file=file, restore_deleted=restore_deleted, as_json=as_json)


def _import_records(
    numbered_records: Iterable[NumberedRecord],
    faults: list[tuple[int, str]],
    *,
    file: str,
    restore_deleted: bool,
    as_json: bool,
) -> None:
    """Import records, from whichever source, and print what came of it; exit with 1 if a line was refused."""
    if restore_deleted:
        require_person("restoring what was deleted")
    agent_variable = find_agent()
    with open_decider(drain=True) as decider:
        report = import_records(
            decider, numbered_records, faults, is_person=not agent_variable, restore_deleted=restore_deleted
        )
    if as_json:
        fault_rows = [{"line": number, "fault": fault} for number, fault in report.faults]
        echo_json({"imported": report.counts, "deleted": report.deleted, "faults": fault_rows})
    else:
        for number, fault in report.faults:
            echo_text(f"{file} line {number}: {fault}", err=True)
        parts = [format_count(count, kind) for kind, count in report.counts.items()]
        click.echo(f"imported  {', '.join(parts) or 'nothing new'}")
        if agent_variable and "lesson" in report.counts:
            click.echo(f"          as candidates, since {agent_variable} says an agent runs this: hardwon lessons list")
        if report.faults:
            click.echo(f"          {format_count(len(report.faults), 'line')} refused")
        if report.deleted:
            deleted_count = format_count(report.deleted, "record")
            click.echo(f"left out  {deleted_count} deleted here; --restore-deleted imports them")
    if report.faults:
        raise SystemExit(1)


@import_.command("notes")
@click.argument("file", type=EXISTING_FILE)
@click.option("--type", "type_", type=click.Choice(MEMORY_TYPES), default="project", show_default=True)
@json_option
def import_notes(file: str, type_: str, as_json: bool) -> None:
    """Propose the rules in AGENTS.md, CLAUDE.md and the like as memories.

    A rule is an item of a list, or if there is none a line. What hardwon wrote there itself is left out.
    """
    with open_store() as connection:
        proposed = propose_rules(connection, paths.get_home(), file, type_, clock.now())
    if as_json:
        refused_rows = [{"line": line, "why": reason} for line, reason in proposed.refused]
        echo_json({"proposed": proposed.memory_ids, "refused": refused_rows})
        return
    for line, reason in proposed.refused:
        echo_text(f"{os.path.basename(file)} line {line}: {reason}")
    click.echo(f"proposed  {len(proposed.memory_ids)} of {format_count(proposed.rule_count, 'rule')} as memories")
    if proposed.memory_ids:
        click.echo("next      hardwon memory list, then hardwon memory approve NO or reject NO")
