"""scan, scan candidates, scan promote, scan state"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from hardwon import clock, paths, settings
from hardwon.cli import CommandGroup
from hardwon.cli.context import (
    add_lesson_options,
    confirm_option,
    find_agent,
    is_interactive,
    json_option,
    open_store,
    parse_flags,
    require_person,
    transcript_agent_option,
)
from hardwon.cli.output import echo_json, echo_text, show_progress
from hardwon.errors import UserError
from hardwon.lessons.review_queue import list_waiting, to_candidate_record
from hardwon.store import candidates, db, transcripts
from hardwon.store.approvals import COMMAND_LINE
from hardwon.text.characters import format_count, to_printable_line
from hardwon.types import MINED_TIER, TAG_TIER, replace

if TYPE_CHECKING:
    from hardwon.mining.scan import ScanRequest, ScanResult

_MAX_SHOWN = 5


@click.group(cls=CommandGroup, invoke_without_command=True)
@click.option("--full", is_flag=True, help="read every transcript from the beginning")
@click.option("--auto", is_flag=True, help="as in the background: silent, only when due, accepts nothing")
@click.option("--dry-run", is_flag=True, help="show what would be found, and keep nothing")
@click.option("--yes", is_flag=True, help="accept every sound #lesson that agents reported")
@click.option("--path", "scan_paths", multiple=True, metavar="PATH", help="only this file or folder")
@transcript_agent_option
@click.option("--since", default="", metavar="DATE", help="only transcripts changed since, such as 2026-11-01 or 7d")
@click.option("--tier1-only", is_flag=True, help="propose only #lesson tags; the rest follows at the next scan")
@click.option("--tier2-only", is_flag=True, help="propose only errors and corrections")
@json_option
@click.pass_context
def scan(
    ctx: click.Context,
    full: bool,
    auto: bool,
    dry_run: bool,
    yes: bool,
    scan_paths: tuple[str, ...],
    agent: str | None,
    since: str,
    tier1_only: bool,
    tier2_only: bool,
    as_json: bool,
) -> None:
    """Mine the agents' transcripts for lessons, and propose them.

    Only what was added since the last scan is read.
    """
    if ctx.invoked_subcommand:
        return  # click runs the group's function also before `scan candidates`
    # Imported here because `scan candidates` needs none of them.
    from hardwon.mining.scan import ScanRequest, run_scan
    from hardwon.search.query_scope import parse_time

    if tier1_only and tier2_only:
        raise UserError("--tier1-only and --tier2-only exclude each other", "choose one of them")
    if yes:
        require_person("accepting lessons")
    request = ScanRequest(full=full, scan_paths=scan_paths, agent=agent or "", since=parse_time(since, clock.now()))
    if tier1_only:
        request = replace(request, tiers=[TAG_TIER])
    elif tier2_only:
        request = replace(request, tiers=[MINED_TIER])
    home = paths.get_home()
    values = settings.load_settings(home)
    with _open_scanned_database(home, is_dry_run=dry_run) as connection:
        if auto:
            _scan_in_background(home, connection, values, request)
            return
        with _wait_for_scan_lock(home):
            show_bar = partial(show_progress, is_silent=as_json)
            outcome = run_scan(home, connection, values, request, show_bar)
        # With one tier only, the other tier is not waiting but left out on purpose.
        waiting_count = 0
        if not (tier1_only or tier2_only):
            waiting_count = len(candidates.list_fresh_signatures(connection))
        if as_json:
            _print_json(connection, outcome, waiting_count)
        else:
            _print_result(outcome, waiting_count, is_dry_run=dry_run)
        if TAG_TIER in request.tiers and not dry_run:
            _accept_reported(home, connection, yes=yes, silent=as_json)


@contextmanager
def _open_scanned_database(home: str, *, is_dry_run: bool) -> Iterator[db.Connection]:
    """Open the database; for a dry run a copy, so that it does all a scan does and leaves nothing."""
    if not is_dry_run:
        with db.open(home) as connection:
            yield connection
        return
    import tempfile

    with tempfile.TemporaryDirectory(prefix="hardwon-") as folder:
        if paths.has_database(home):
            db.copy_database(os.path.join(home, paths.DATABASE), os.path.join(folder, paths.DATABASE))
        with db.open(folder) as connection:
            yield connection


def _scan_in_background(home: str, connection: db.Connection, values: Mapping[str, Any], request: ScanRequest) -> None:
    """Scan silently and at low priority, unless another scan runs or none is due: the worker asks again later."""
    from hardwon.mining.scan import hold_scan_lock, is_due, run_scan

    with hold_scan_lock(home, wait=False) as has_lock:
        # The worker names a transcript when an agent has just reported a lesson in it, so it is always due.
        is_wanted = bool(request.scan_paths or request.agent) or is_due(connection, values, clock.now())
        if has_lock and is_wanted:
            os.nice(10)  # a person may be waiting for an agent
            run_scan(home, connection, values, request, partial(show_progress, is_silent=True), is_automatic=True)


@contextmanager
def _wait_for_scan_lock(home: str) -> Iterator[None]:
    """Hold the lock of the only scan, after waiting for another one to end."""
    from hardwon.mining.scan import hold_scan_lock

    with hold_scan_lock(home, wait=False) as has_lock:
        if has_lock:
            yield
            return
    click.echo("another scan is running; waiting for it", err=True)
    with hold_scan_lock(home, wait=True):
        yield


def _print_json(connection: db.Connection, outcome: ScanResult, waiting_count: int) -> None:
    """Print the outcome of a scan as JSON."""
    echo_json(
        {
            "generatedAt": clock.format_iso(clock.now()),
            "candidates": [to_candidate_record(connection, candidate) for candidate in outcome.new_candidates],
            "waiting": waiting_count,
            "files": outcome.file_count,
            "bytes": outcome.byte_count,
            "malformed": outcome.malformed_lines,
            "steppedDown": list(outcome.retired_lines),
            "faults": [{"path": path, "fault": fault} for path, fault in outcome.faults],
        }
    )


def _print_result(outcome: ScanResult, waiting_count: int, *, is_dry_run: bool) -> None:
    """Print what a scan read and found, and the best of the new candidates."""
    from hardwon.cli.candidates import show_list

    click.echo(f"read      {describe_read_size(outcome)}")
    if outcome.malformed_lines:
        click.echo(f"          {format_count(outcome.malformed_lines, 'unreadable line')} skipped")
    for path, fault in outcome.faults:
        echo_text(f"          {path}: {fault}")
    new_count = len(outcome.new_candidates)
    proposals = format_count(new_count, "new candidate") if new_count else "no new candidates"
    click.echo(f"found     {proposals}{' (dry run: nothing is kept)' if is_dry_run else ''}")
    show_list(outcome.new_candidates[:_MAX_SHOWN])
    if new_count > _MAX_SHOWN:
        click.echo(f"          and {new_count - _MAX_SHOWN} more: hardwon scan candidates --all")
    echo_remaining(waiting_count)
    for line in outcome.retired_lines:
        echo_text(f"retired   {line}")
    if outcome.new_candidates and not is_dry_run:
        click.echo("next      hardwon review")


def echo_remaining(waiting_count: int) -> None:
    """Print how many candidates were left for the next scan, because one scan adds a limited number."""
    if waiting_count:
        click.echo(f"          {waiting_count} more at the next scan")


def describe_read_size(outcome: ScanResult) -> str:
    """Return how much a scan read."""
    if not outcome.file_count:
        return "nothing new"
    megabytes = outcome.byte_count / 1e6
    size = f"{megabytes:.1f} MB" if megabytes >= 0.1 else f"{megabytes * 1e3:.1f} kB"
    return f"{format_count(outcome.file_count, 'transcript')}, {size}"


def _accept_reported(home: str, connection: db.Connection, *, yes: bool, silent: bool) -> None:
    """Show each sound lesson that agents reported with a tag and ask about it; the others are left for review."""
    from hardwon.actions.approvals import open_decider
    from hardwon.actions.lessons import accept_candidate, list_sound_reports, reject_candidate
    from hardwon.cli.candidates import show_in_force, show_preview

    sound = list_sound_reports(home, connection)
    can_ask = is_interactive() and not silent and not find_agent()
    if not yes and not can_ask:
        if sound and not silent:
            lesson_count = format_count(len(sound), "lesson")
            click.echo(f"{lesson_count} reported by agents: hardwon review, or hardwon scan --yes")
        return
    for number, candidate in enumerate(sound, 1):
        if not silent:
            show_preview(candidate)
        answer = "yes"
        if not yes:
            question = f"Put it in force? ({number} of {len(sound)}) [y]es [n]o, reject it [l]ater"
            answer = click.prompt(question, default="later", show_default=False).strip().lower()
        decider = open_decider(home, connection, COMMAND_LINE)
        if answer.startswith("n"):
            reject_candidate(decider, candidate)
        elif answer.startswith("y"):
            try:
                lesson = accept_candidate(decider, candidate, changes={})
                show_in_force(lesson, with_text=False, err=silent)
            except UserError as error:
                click.echo(f"not accepted: {to_printable_line(error.message)}; it stays in review", err=silent)


@scan.command("candidates")
@click.option("--all", "every", is_flag=True, help="those seen in one session only, too")
@click.option("--rejected", is_flag=True, help="rejected ones, which can still be accepted")
@json_option
def print_candidates(every: bool, rejected: bool, as_json: bool) -> None:
    """List candidates, best first; without --all those seen in two or more sessions."""
    from hardwon.cli.candidates import show_list

    with open_store() as connection:
        waiting = list_waiting(paths.get_home(), connection, "rejected" if rejected else "candidate")
        matches = [candidate for candidate in waiting if every or rejected or len(candidate.sessions) > 1]
        hidden_count = len(waiting) - len(matches)
        if as_json:
            records = [to_candidate_record(connection, candidate) for candidate in matches]
            generated_at = clock.format_iso(clock.now())
            echo_json({"generatedAt": generated_at, "candidates": records, "more": hidden_count})
            return
    show_list(matches)
    if not waiting:
        click.echo("no candidates: hardwon scan")
    elif not matches:
        click.echo("no candidates seen in two sessions")
    if hidden_count:
        click.echo(f"{hidden_count} more, seen once or proposed by an agent: hardwon scan candidates --all")
    if matches:
        click.echo("next      hardwon review")


@scan.command(hidden=True)
@click.argument("name", metavar="N|SLUG|ID")
@add_lesson_options
@confirm_option
def promote(name: str, confirmed: bool, **flags: Any) -> None:
    """Put a candidate in force; at a terminal its fields are asked for."""
    from hardwon.cli.candidates import accept_by_name

    accept_by_name(name, parse_flags(flags), confirmed=confirmed, should_ask=is_interactive())


@scan.command()
@json_option
def state(as_json: bool) -> None:
    """Show how far each transcript was read."""
    with open_store() as connection:
        files, malformed = transcripts.read_scan_progress(connection)
        last_scan_at = candidates.find_last_scan_time(connection)
        last_full_scan_at = candidates.find_last_scan_time(connection, "full")
    last_scan = clock.format_iso(last_scan_at) if last_scan_at else None
    last_full_scan = clock.format_iso(last_full_scan_at) if last_full_scan_at else None
    if as_json:
        echo_json({"files": files, "lastFullScanAt": last_full_scan, "lastScanAt": last_scan, "malformed": malformed})
        return
    for path, offset in files.items():
        echo_text(f"{offset:>12,}  {path}")
    click.echo(f"{format_count(len(files), 'transcript')}, {format_count(malformed, 'malformed line')}")
    click.echo(f"last scan {last_scan or 'never'}; full {last_full_scan or 'never'}")
