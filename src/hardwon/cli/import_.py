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
    outcome = _taken(home, connection, files, values, silent=as_json)
    if as_json:
        faults = [{"path": path, "fault": fault} for path, fault in outcome.faults]
        until = clock.format_iso(kept_until) if kept_until else None
        click.echo(json.dumps({**outcome.__dict__, "faults": faults, "kept_until": until}, indent=2))
        return
    click.echo(f"read      {pluralize(outcome.files, 'transcript')}")
    for path, fault in outcome.faults:
        click.echo(make_printable(f"          {path}: {fault}"))
    told = [pluralize(getattr(outcome, what), what[:-1]) for what in ("sessions", "prompts", "events")]
    click.echo(f"new       {', '.join(told)}")
    if kept_until:
        days = values["retentionDays"]
        click.echo(f"kept      until {clock.format_iso(kept_until)[:10]}, {days} days from today (retentionDays)")
    else:
        click.echo("kept      for ever (retentionDays 0)")
    if outcome.sessions:
        click.echo("next      hardwon sessions list")


def _warn_of_size_limit(connection: db.Connection, files: Sequence[mining.TranscriptFile], most_megabytes: int) -> None:
    """Say before the import that not all of it would stay, and let the person at a terminal stop it."""
    needed = _count_unread_bytes(connection, files) * STORED_SHARE
    free = most_megabytes * MEGABYTE - retention.measure_used_bytes(connection)
    if needed <= free:
        return
    needed_megabytes, free_megabytes = round(needed / MEGABYTE), max(0, round(free / MEGABYTE))
    enough = most_megabytes + needed_megabytes - free_megabytes + 1
    click.echo(
        f"warning: this import takes about {needed_megabytes:,} MB, and {free_megabytes:,} MB of maxDbMb"
        f" ({most_megabytes:,} MB) are free: the oldest events would be dropped soon after\n"
        f"fix: hardwon config set maxDbMb {enough}, or import less with --since or --path",
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


def _taken(
    home: str,
    connection: db.Connection,
    files: Sequence[mining.TranscriptFile],
    values: Mapping[str, Any],
    *,
    silent: bool,
) -> ImportOutcome:
    """Take in every file. One that cannot be read is named and stops nobody."""
    faults: list[tuple[str, str]] = []
    before = sessions.count_recorded(connection)
    with show_progress(sum(file.unread_bytes for file in files), silent) as passed:
        for file in files:
            try:
                transcript_import.import_transcript(home, connection, file.agent, file.path, values)
            except OSError as wrong:
                faults.append((file.path, wrong.strerror or str(wrong)))
            passed(file.unread_bytes)
    _complete(connection, files)
    after = sessions.count_recorded(connection)
    new = {what: after[what] - before[what] for what in after}
    return ImportOutcome(files=len(files), **new, faults=tuple(faults))


def _complete(connection: db.Connection, files: Sequence[mining.TranscriptFile]) -> None:
    quiet = clock.now() - QUIET_SECONDS
    ended = {file.path for file in files if file.modified_at < quiet}
    waiting = sessions.list_idle_sessions(connection, quiet)
    sessions.mark_completed(connection, [number for number, path in waiting if os.path.realpath(path) in ended])


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
