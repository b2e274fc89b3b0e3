"""scan, scan candidates, scan promote, scan state"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import datetime
from typing import Any

import click

from hardwon import actor, clock, paths, settings
from hardwon.actions import candidates
from hardwon.actions import lessons as actions
from hardwon.agents.transcript_steps import TRANSCRIPT_MODULES
from hardwon.cli.candidates import ask_for_fields, show_in_force, show_list, show_preview, to_record
from hardwon.cli.lessons import add_lesson_options, parse_flags, pluralize
from hardwon.cli.output import is_interactive, make_printable, to_printable_line
from hardwon.cli.person_only import require_person
from hardwon.errors import UserError
from hardwon.lessons import adding, review_queue
from hardwon.lessons import lessons_file as shelves
from hardwon.mining import scan as mining
from hardwon.store import candidates as table
from hardwon.store import db, transcripts
from hardwon.store.approvals import COMMAND_LINE
from hardwon.store.candidates import Candidate
from hardwon.text import similarity

MAX_SHOWN = 5


@click.group(invoke_without_command=True)
@click.option("--full", is_flag=True, help="read every transcript from the beginning")
@click.option("--auto", is_flag=True, help="as in the background: silent, only when due, accepts nothing")
@click.option("--dry-run", is_flag=True, help="say what would be found, and keep nothing")
@click.option("--yes", is_flag=True, help="accept every sound #lesson that agents reported")
@click.option("--path", "places", multiple=True, metavar="PATH", help="only this file or folder")
@click.option("--host", type=click.Choice(list(TRANSCRIPT_MODULES)), help="only this agent's transcripts")
@click.option("--since", metavar="DATE", help="only transcripts changed since, such as 2026-11-01")
@click.option("--tier1-only", is_flag=True, help="propose only #lesson tags; the rest waits for the next scan")
@click.option("--tier2-only", is_flag=True, help="propose only errors and corrections")
@click.option("--json", "as_json", is_flag=True, help="print JSON")
@click.pass_context
def scan(ctx: click.Context, /, **flags: Any) -> None:
    """Mine the agents' transcripts for lessons, and propose them.

    Only what was added since the last scan is read.
    """
    if ctx.invoked_subcommand:
        return
    if flags["tier1_only"] and flags["tier2_only"]:
        raise UserError("--tier1-only and --tier2-only leave nothing to propose", "give one of them")
    if flags["yes"]:
        require_person("accepting lessons")
    home = paths.get_home()
    values = settings.resolve_settings(settings.read_config(home))
    with _open_database(home, throw_away=flags["dry_run"]) as connection:
        outcome = _scan_exclusively(home, connection, values, flags)
        if outcome is None or flags["auto"]:
            return
        all_tiers = not (flags["tier1_only"] or flags["tier2_only"])
        waiting_count = len(table.list_fresh_signatures(connection)) if all_tiers else 0
        if flags["as_json"]:
            _print_json(connection, outcome, waiting_count)
        else:
            _print_result(outcome, waiting_count, is_dry_run=flags["dry_run"])
        if not flags["dry_run"] and not flags["tier2_only"]:
            _promote_tags(home, connection, yes=flags["yes"], silent=flags["as_json"])


def _scan_exclusively(
    home: str, connection: db.Connection, values: dict[str, Any], flags: dict[str, Any]
) -> mining.ScanResult | None:
    """Scan while nobody else does; in the background not at all if somebody does, or if it is not due."""
    with mining.hold_scan_lock(home, wait=False) as has_lock:
        if has_lock:
            return _scan_if_due(home, connection, values, flags)
    if flags["auto"]:
        return None
    click.echo("another scan is at work; waiting for it", err=True)
    with mining.hold_scan_lock(home, wait=True):
        return _scan_if_due(home, connection, values, flags)


def _scan_if_due(
    home: str, connection: db.Connection, values: dict[str, Any], flags: dict[str, Any]
) -> mining.ScanResult | None:
    if flags["auto"]:
        if not mining.is_due(connection, values, clock.now()):
            return None
        os.nice(10)
    tiers = (1,) if flags["tier1_only"] else (2,) if flags["tier2_only"] else (1, 2)
    options = {name: flags[name] for name in ("full", "auto", "places", "host", "since")}
    return run_scan(home, connection, values, **options, tiers=tiers, silent=flags["auto"] or flags["as_json"])


def _print_json(connection: db.Connection, outcome: mining.ScanResult, waiting_count: int) -> None:
    report = {
        "generatedAt": clock.format_iso(clock.now()),
        "candidates": [to_record(connection, candidate) for candidate in outcome.new_candidates],
        "waiting": waiting_count,
        "files": outcome.file_count,
        "bytes": outcome.byte_count,
        "malformed": outcome.malformed_lines,
        "steppedDown": list(outcome.stepped_down),
        "faults": [{"path": path, "fault": fault} for path, fault in outcome.faults],
    }
    click.echo(json.dumps(report, indent=2))


def run_scan(
    home: str,
    connection: db.Connection,
    values: Mapping[str, Any],
    *,
    full: bool = False,
    auto: bool = False,
    places: Sequence[str] = (),
    host: str | None = None,
    since: str | None = None,
    tiers: Sequence[int] = (1, 2),
    silent: bool = False,
) -> mining.ScanResult:
    """One scan, its progress shown."""
    require_transcripts(places, host or "")
    earliest = parse_date(since) if since is not None else 0.0
    folders = mining.find_transcript_folders(
        os.environ, os.path.expanduser("~"), places or values["scanPaths"], host or ""
    )
    read_positions = transcripts.list_read_positions(connection)
    files = list(mining.find_changed_transcripts(folders, {} if full else read_positions))
    files = [file for file in files if file.modified_at >= earliest]
    if reread_paths := [*mining.find_vanished_transcripts(read_positions), *(file.path for file in files if full)]:
        transcripts.forget_transcripts(connection, reread_paths)
    is_unfiltered = not (places or host or since)
    kind = "part" if not is_unfiltered else "full" if full or not read_positions else "auto" if auto else "new"
    with show_progress(sum(file.unread_bytes for file in files), silent) as report_progress:
        return mining.scan_transcripts(
            home, connection, files, values, kind=kind, tiers=tiers, report_progress=report_progress
        )


def require_transcripts(sources: Sequence[str], host: str) -> None:
    fix = "give --path a transcript or a folder of them"
    for source in sources:
        path = os.path.expanduser(source)
        if not os.path.exists(path):
            raise UserError(f"there is nothing at {source}", fix)
        if not os.path.isdir(path) and not any(mining.find_changed_transcripts({host: [path]}, {})):
            raise UserError(f"{source} is no transcript of {host or 'an agent that hardwon knows'}", fix)


def parse_date(since: str) -> float:
    try:
        return datetime.fromisoformat(since).astimezone().timestamp()
    except (ValueError, OverflowError, OSError):
        raise UserError(f"--since {since!r} is no date", "write it as 2026-11-01 or 2026-11-01T14:00") from None


@contextmanager
def _open_database(home: str, *, throw_away: bool) -> Iterator[db.Connection]:
    """The home's database; to throw away, a copy of it, so that a dry run does all a scan does and leaves nothing."""
    with tempfile.TemporaryDirectory(prefix="hardwon-") if throw_away else nullcontext(home) as folder:
        if throw_away:
            db.copy_database(home, folder)
        connection = db.connect(folder)
        try:
            yield connection
        finally:
            connection.close()


@contextmanager
def show_progress(total_bytes: int, silent: bool) -> Iterator[Callable[[int], None]]:
    if silent or not total_bytes or not sys.stderr.isatty():
        yield lambda byte_count: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("reading transcripts"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=total_bytes)
        yield lambda byte_count: progress.advance(task, byte_count)


def _print_result(outcome: mining.ScanResult, waiting_count: int, *, is_dry_run: bool) -> None:
    click.echo(f"read      {describe_read_size(outcome)}")
    if outcome.malformed_lines:
        click.echo(f"          {pluralize(outcome.malformed_lines, 'line')} could not be read and were passed over")
    for path, fault in outcome.faults:
        click.echo(make_printable(f"          {path}: {fault}"))
    verdict = "would be proposed" if is_dry_run else "new"
    click.echo(f"found     {pluralize(len(outcome.new_candidates), 'candidate')} {verdict}")
    show_list(outcome.new_candidates[:MAX_SHOWN])
    if len(outcome.new_candidates) > MAX_SHOWN:
        click.echo(f"          and {len(outcome.new_candidates) - MAX_SHOWN} more: hardwon scan candidates --all")
    echo_remaining(waiting_count)
    for line in outcome.stepped_down:
        click.echo(make_printable(f"retired   {line}"))
    if outcome.new_candidates and not is_dry_run:
        click.echo("next      hardwon review")


def echo_remaining(waiting_count: int) -> None:
    """What one scan may add is limited; those that it left over come with the next."""
    if waiting_count:
        click.echo(f"          {waiting_count} more {'waits' if waiting_count == 1 else 'wait'} for the next scan")


def describe_read_size(outcome: mining.ScanResult) -> str:
    size = (
        f"{outcome.byte_count / 1e6:.1f} MB" if outcome.byte_count >= 100_000 else f"{outcome.byte_count / 1e3:.1f} kB"
    )
    return f"{pluralize(outcome.file_count, 'transcript')}, {size}" if outcome.file_count else "nothing new"


def _promote_tags(home: str, connection: db.Connection, *, yes: bool, silent: bool) -> None:
    """What agents reported with a tag and what is sound is previewed and asked about; the rest is for review."""
    reported = [
        reported_candidate
        for reported_candidate in table.list_candidates(connection)
        if reported_candidate.tier == 1 and not review_queue.is_proposed_by_agent(reported_candidate)
    ]
    sound = (
        [reported_candidate for reported_candidate in reported if not _find_obstacle(home, reported_candidate)]
        if reported
        else []
    )
    for number, candidate in enumerate(sound):
        if not yes and (silent or not is_interactive() or actor.find_agent_variable(os.environ)):
            if not silent:
                click.echo(
                    f"{pluralize(len(sound), 'lesson')} reported by agents: hardwon review, or hardwon scan --yes"
                )
            return
        if not silent:
            show_preview(candidate)
        question = f"Put it in force? ({number + 1} of {len(sound)}) [y]es [n]o, reject it [l]ater"
        answer = "y" if yes else click.prompt(question, default="l", show_default=False).strip().lower()[:1]
        if answer == "n":
            candidates.reject(home, connection, candidate)
        elif answer == "y":
            try:
                lesson = actions.accept_candidate(home, connection, candidate, {}, COMMAND_LINE)
                show_in_force(lesson, with_text=False, err=silent)
            except UserError as error:
                click.echo(f"not accepted: {to_printable_line(error.say)}; it stays in review", err=silent)


def _find_obstacle(home: str, candidate: Candidate) -> str:
    """Why a reported lesson cannot go in as it is."""
    try:
        lesson = adding.parse_valid_lesson(candidates.build_accepted_record(candidate))
    except UserError as error:
        return error.say
    nearest = similarity.find_nearest_lesson(lesson, shelves.read(shelves.get_lessons_path(home)).lessons)
    return f"much like {nearest[0].slug}" if nearest and nearest[1] >= similarity.SAME_THRESHOLD else ""


@scan.command("candidates")
@click.option("--all", "every", is_flag=True, help="those seen in one session only, too")
@click.option("--rejected", is_flag=True, help="those that were rejected; accept takes them all the same")
@click.option("--json", "as_json", is_flag=True, help="print JSON")
def list_candidates(every: bool, rejected: bool, as_json: bool) -> None:
    """What may become a lesson, best first; without --all what was seen in two or more sessions."""
    home = paths.get_home()
    connection = db.connect(home)
    waiting = review_queue.list_waiting(home, connection, "rejected" if rejected else "candidate")
    every = every or rejected
    matches = [candidate for candidate in waiting if every or len(candidate.sessions) > 1]
    hidden_count = len(waiting) - len(matches)
    if as_json:
        records = [to_record(connection, candidate) for candidate in matches]
        click.echo(
            json.dumps(
                {"generatedAt": clock.format_iso(clock.now()), "candidates": records, "more": hidden_count}, indent=2
            )
        )
        return
    show_list(matches)
    if not waiting:
        click.echo("no candidates: hardwon scan")
    elif not matches:
        click.echo("no candidates seen in two sessions")
    if hidden_count:
        verb = "waits" if hidden_count == 1 else "wait"
        click.echo(f"{hidden_count} more {verb}, seen once or proposed by an agent: hardwon scan candidates --all")
    if matches:
        click.echo("next      hardwon review")


@scan.command()
@click.argument("name", metavar="N|SLUG|ID")
@add_lesson_options
@click.option("--confirm", is_flag=True, help="for a block whose trigger fired seldom")
def promote(name: str, confirm: bool, **flags: Any) -> None:
    """Make a candidate a lesson in force; at a terminal its fields are asked for."""
    accept_by_name(name, parse_flags(flags), confirm=confirm, should_ask=is_interactive())


def accept_by_name(name: str, changes: dict[str, Any], *, confirm: bool, should_ask: bool) -> None:
    """Accept the candidate of this name for a person."""
    require_person("accepting a lesson")
    home = paths.get_home()
    connection = db.connect(home)
    candidate = candidates.find_candidate(home, connection, name)
    if should_ask and not changes:
        changes = ask_for_fields(candidate)
    lesson = actions.accept_candidate(
        home, connection, candidate, changes, COMMAND_LINE, confirm=lambda message: confirm
    )
    show_in_force(lesson)


@scan.command()
@click.option("--json", "as_json", is_flag=True, help="print JSON")
def state(as_json: bool) -> None:
    """How far each transcript was read."""
    connection = db.connect(paths.get_home())
    files, malformed = transcripts.read_scan_progress(connection)
    last_scan, last_full_scan = table.find_last_scan_time(connection), table.find_last_scan_time(connection, "full")
    if as_json:
        report = {
            "files": files,
            "lastFullScanAt": last_full_scan and clock.format_iso(last_full_scan),
            "lastScanAt": last_scan and clock.format_iso(last_scan),
        }
        click.echo(json.dumps({**report, "malformed": malformed}, indent=2))
        return
    for path, offset in files.items():
        click.echo(make_printable(f"{offset:>12,}  {path}"))
    click.echo(f"{pluralize(len(files), 'transcript')}, {pluralize(malformed, 'malformed line')}")
    click.echo(
        f"last scan {clock.format_iso(last_scan) if last_scan else 'never'}; full "
        f"{clock.format_iso(last_full_scan) if last_full_scan else 'never'}"
    )
