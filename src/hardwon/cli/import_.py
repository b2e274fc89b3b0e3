"""import transcripts, import jsonl, import claude-mem, import notes"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import closing

import click

from hardwon import clock, paths, settings
from hardwon.actions.importing import import_records, import_transcripts, measure_import_megabytes
from hardwon.actions.notes import propose_rules
from hardwon.cli.command_group import CommandGroup
from hardwon.cli.context import (
    find_agent,
    is_interactive,
    json_option,
    open_store,
    require_person,
    transcript_agent_option,
)
from hardwon.cli.import_progress import note_progress
from hardwon.cli.output import echo_json, echo_text
from hardwon.cli.scan import show_progress
from hardwon.data import claude_mem, imports
from hardwon.data.exports import map_unique_project_names
from hardwon.data.imports import NumberedRecord
from hardwon.mining.scan import TranscriptFile
from hardwon.mining.scan_request import ScanRequest, find_transcripts
from hardwon.search.query_scope import parse_time
from hardwon.store import db
from hardwon.store.approvals import COMMAND_LINE
from hardwon.text.characters import format_count
from hardwon.types import MEMORY_TYPES

CLAUDE_MEM_DATABASE = "~/.claude-mem/claude-mem.db"
DAY_SECONDS = 86_400.0

restore_option = click.option("--restore-deleted", is_flag=True, help="import what was deleted here, too")


@click.group("import", cls=CommandGroup)
def import_() -> None:
    """Import transcripts, an export, claude-mem's database or notes."""


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
    home, now = paths.get_home(), clock.now()
    values = settings.resolve_settings(settings.read_config(home))
    retention_days = values["retentionDays"]
    kept_until = clock.format_iso(now + retention_days * DAY_SECONDS) if retention_days else None
    request = ScanRequest(scan_paths=scan_paths, agent=agent or "", since=parse_time(since, now))
    files = find_transcripts(request, values, {})
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
    click.echo(
        f"new       {', '.join(format_count(counts[name], name[:-1]) for name in ('sessions', 'prompts', 'events'))}"
    )
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
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@restore_option
@json_option
def jsonl(file: str, restore_deleted: bool, as_json: bool) -> None:
    """Import what hardwon export wrote; what is here already is not imported again.

    Sessions you deleted and texts you purged stay out.
    """
    faults: list[tuple[int, str]] = []
    with open(file, encoding="utf-8", errors="replace") as lines:
        imports.check_header(lines.readline(), file)
        _import_records(imports.parse_records(lines, faults), faults, file, restore_deleted, as_json)


@import_.command("claude-mem")
@click.argument("file", default=CLAUDE_MEM_DATABASE, type=click.Path(dir_okay=False))
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
        _import_records(numbered_records, [], file, restore_deleted, as_json)


def _import_records(
    numbered_records: Iterable[NumberedRecord],
    faults: list[tuple[int, str]],
    file: str,
    restore_deleted: bool,
    as_json: bool,
) -> None:
    if restore_deleted:
        require_person("restoring what was deleted")
    agent_variable = find_agent()
    with open_store(drain=True) as connection:
        report = import_records(
            paths.get_home(),
            connection,
            numbered_records,
            faults,
            COMMAND_LINE,
            is_person=not agent_variable,
            restore_deleted=restore_deleted,
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
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
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
