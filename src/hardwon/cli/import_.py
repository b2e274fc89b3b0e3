"""import transcripts, import jsonl, import claude-mem, import notes"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import click

from hardwon import clock, paths, settings
from hardwon.agents.transcript_steps import TRANSCRIPT_MODULES
from hardwon.cli.data import import_claude_mem, import_jsonl
from hardwon.cli.lessons import pluralize
from hardwon.cli.notes import import_notes
from hardwon.cli.output import is_interactive, make_printable
from hardwon.cli.scan import parse_date, require_transcripts, show_progress
from hardwon.mining import scan as mining
from hardwon.sessions import transcript_import
from hardwon.store import db, retention, sessions
from hardwon.store import transcripts as read_positions
from hardwon.types import frozen

DAY_SECONDS = 86_400.0
MEGABYTE = 1024 * 1024
STORED_SHARE = 0.5  # of a transcript's bytes, index included; 0.37 on 94 MB of transcripts, before distilling
QUIET_SECONDS = 86_400.0  # a transcript that was not written for so long is of a session that has ended


@frozen
class ImportOutcome:
    """What an import came to."""

    files: int
    sessions: int
    prompts: int
    events: int
    faults: tuple[tuple[str, str], ...]


@click.group("import")
def import_() -> None:
    """Take in what was recorded elsewhere: transcripts, an export, claude-mem, notes."""


import_.add_command(import_notes)


@import_.command()
@click.option("--path", "places", multiple=True, metavar="PATH", help="only this file or folder")
@click.option("--host", type=click.Choice(list(TRANSCRIPT_MODULES)), help="only this agent's transcripts")
@click.option("--since", metavar="DATE", help="only transcripts changed since, such as 2026-11-01")
@click.option("--json", "as_json", is_flag=True, help="print JSON")
def transcripts(places: tuple[str, ...], host: str | None, since: str | None, as_json: bool) -> None:
    """Record the sessions in the agents' transcripts; what is recorded already is not recorded again.

    A session whose transcript was not written for a day counts as completed. What is imported is kept for
    retentionDays from today, however old it is.
    """
    home = paths.get_home()
    values = settings.resolve_settings(settings.read_config(home))
    require_transcripts(places, host or "")
    earliest = parse_date(since) if since is not None else 0.0
    folders = mining.find_transcript_folders(
        os.environ, os.path.expanduser("~"), places or values["scanPaths"], host or ""
    )
    files = [file for file in mining.find_changed_transcripts(folders, {}) if file.modified_at >= earliest]
    connection = db.connect(home)
    _warn_of_size_limit(connection, files, values["maxDbMb"])
    kept_until = clock.now() + values["retentionDays"] * DAY_SECONDS if values["retentionDays"] else None
    outcome = _import_files(home, connection, files, values, silent=as_json)
    if as_json:
        faults = [{"path": path, "fault": fault} for path, fault in outcome.faults]
        until = clock.format_iso(kept_until) if kept_until else None
        click.echo(json.dumps({**outcome.__dict__, "faults": faults, "kept_until": until}, indent=2))
        return
    click.echo(f"read      {pluralize(outcome.files, 'transcript')}")
    for path, fault in outcome.faults:
        click.echo(make_printable(f"          {path}: {fault}"))
    parts = [pluralize(getattr(outcome, plural), plural[:-1]) for plural in ("sessions", "prompts", "events")]
    click.echo(f"new       {', '.join(parts)}")
    if kept_until:
        days = values["retentionDays"]
        click.echo(f"kept      until {clock.format_iso(kept_until)[:10]}, {days} days from today (retentionDays)")
    else:
        click.echo("kept      for ever (retentionDays 0)")
    if outcome.sessions:
        click.echo("next      hardwon sessions list")


def _warn_of_size_limit(connection: db.Connection, files: Sequence[mining.TranscriptFile], max_megabytes: int) -> None:
    """Say before the import that not all of it would stay, and let the person at a terminal stop it."""
    needed_bytes = _count_unread_bytes(connection, files) * STORED_SHARE
    free_bytes = max_megabytes * MEGABYTE - retention.measure_used_bytes(connection)
    if needed_bytes <= free_bytes:
        return
    needed_megabytes, free_megabytes = round(needed_bytes / MEGABYTE), max(0, round(free_bytes / MEGABYTE))
    enough_megabytes = max_megabytes + needed_megabytes - free_megabytes + 1
    click.echo(
        f"warning: this import takes about {needed_megabytes:,} MB, and {free_megabytes:,} MB of maxDbMb"
        f" ({max_megabytes:,} MB) are free: the oldest events would be dropped soon after\n"
        f"fix: hardwon config set maxDbMb {enough_megabytes}, or import less with --since or --path",
        err=True,
    )
    if is_interactive():
        click.confirm("Import all the same?", abort=True)


def _count_unread_bytes(connection: db.Connection, files: Sequence[mining.TranscriptFile]) -> int:
    unread = 0
    for file in files:
        read_position = read_positions.find_read_position(
            connection, os.path.realpath(file.path), transcript_import.CAPTURE_PURPOSE
        )
        unread += max(0, file.unread_bytes - (read_position.offset if read_position else 0))
    return unread


def _import_files(
    home: str,
    connection: db.Connection,
    files: Sequence[mining.TranscriptFile],
    values: Mapping[str, Any],
    *,
    silent: bool,
) -> ImportOutcome:
    """Take in every file. One that cannot be read is named and stops nobody."""
    faults: list[tuple[str, str]] = []
    old_counts = sessions.count_recorded(connection)
    with show_progress(sum(file.unread_bytes for file in files), silent) as report_progress:
        for file in files:
            try:
                transcript_import.import_transcript(home, connection, file.agent, file.path, values)
            except OSError as error:
                faults.append((file.path, error.strerror or str(error)))
            report_progress(file.unread_bytes)
    _complete_idle_sessions(connection, files)
    new_counts = sessions.count_recorded(connection)
    added_counts = {name: new_counts[name] - old_counts[name] for name in new_counts}
    return ImportOutcome(files=len(files), **added_counts, faults=tuple(faults))


def _complete_idle_sessions(connection: db.Connection, files: Sequence[mining.TranscriptFile]) -> None:
    idle_since = clock.now() - QUIET_SECONDS
    ended_paths = {file.path for file in files if file.modified_at < idle_since}
    idle_sessions = sessions.list_idle_sessions(connection, idle_since)
    sessions.mark_completed(
        connection, [number for number, path in idle_sessions if os.path.realpath(path) in ended_paths]
    )


@import_.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option("--restore-deleted", is_flag=True, help="take in what was deleted here, too")
@click.option("--json", "as_json", is_flag=True, help="print JSON")
def jsonl(file: str, restore_deleted: bool, as_json: bool) -> None:
    """Take in what hardwon export wrote; what is here already is not taken again.

    Sessions you deleted and texts you purged stay out.
    """
    import_jsonl(file, as_json=as_json, restore_deleted=restore_deleted)


@import_.command("claude-mem")
@click.argument("file", required=False, type=click.Path(dir_okay=False))
@click.option("--restore-deleted", is_flag=True, help="take in what was deleted here, too")
@click.option("--json", "as_json", is_flag=True, help="print JSON")
def from_claude_mem(file: str | None, restore_deleted: bool, as_json: bool) -> None:
    """Take over claude-mem's sessions, prompts, observations and summaries.

    FILE is its database, ~/.claude-mem/claude-mem.db if left out; it is only read.
    """
    import_claude_mem(file, as_json=as_json, restore_deleted=restore_deleted)
