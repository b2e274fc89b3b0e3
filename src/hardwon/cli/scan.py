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
from hardwon.agents.transcript_steps import MODULES
from hardwon.cli.candidates import as_record, ask_for_fields, in_force, listing, preview
from hardwon.cli.lessons import counted, fields, from_flags
from hardwon.cli.output import at_terminal, in_line, printable
from hardwon.cli.person_only import require_person
from hardwon.errors import UserError
from hardwon.lessons import adding, review_queue
from hardwon.lessons import lessons_file as shelves
from hardwon.mining import scan as mining
from hardwon.store import candidates as table
from hardwon.store import db, transcripts
from hardwon.store.approvals import COMMAND_LINE
from hardwon.store.candidates import Proposal
from hardwon.text import similarity

SHOWN = 5


@click.group(invoke_without_command=True)
@click.option("--full", is_flag=True, help="read every transcript from the beginning")
@click.option("--auto", is_flag=True, help="as in the background: silent, only when due, accepts nothing")
@click.option("--dry-run", is_flag=True, help="say what would be found, and keep nothing")
@click.option("--yes", is_flag=True, help="accept every sound #lesson that agents reported")
@click.option("--path", "places", multiple=True, metavar="PATH", help="only this file or folder")
@click.option("--host", type=click.Choice(list(MODULES)), help="only this agent's transcripts")
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
    home = paths.home()
    values = settings.resolve(settings.read_config(home))
    with _database(home, throw_away=flags["dry_run"]) as connection:
        outcome = _alone(home, connection, values, flags)
        if outcome is None or flags["auto"]:
            return
        whole = not (flags["tier1_only"] or flags["tier2_only"])
        left = len(table.fresh(connection)) if whole else 0
        if flags["as_json"]:
            _print_json(connection, outcome, left)
        else:
            _say(outcome, left, dry=flags["dry_run"])
        if not flags["dry_run"] and not flags["tier2_only"]:
            _promote_tags(home, connection, yes=flags["yes"], silent=flags["as_json"])


def _alone(
    home: str, connection: db.Connection, values: dict[str, Any], flags: dict[str, Any]
) -> mining.Outcome | None:
    """Scan while nobody else does; in the background not at all if somebody does, or if it is not due."""
    with mining.alone(home, wait=False) as free:
        if free:
            return _mined(home, connection, values, flags)
    if flags["auto"]:
        return None
    click.echo("another scan is at work; waiting for it", err=True)
    with mining.alone(home, wait=True):
        return _mined(home, connection, values, flags)


def _mined(
    home: str, connection: db.Connection, values: dict[str, Any], flags: dict[str, Any]
) -> mining.Outcome | None:
    if flags["auto"]:
        if not mining.is_due(connection, values, clock.now()):
            return None
        os.nice(10)
    tiers = (1,) if flags["tier1_only"] else (2,) if flags["tier2_only"] else (1, 2)
    named = {name: flags[name] for name in ("full", "auto", "places", "host", "since")}
    return mine(home, connection, values, **named, tiers=tiers, silent=flags["auto"] or flags["as_json"])


def _print_json(connection: db.Connection, outcome: mining.Outcome, left: int) -> None:
    said = {
        "generatedAt": clock.iso(clock.now()),
        "candidates": [as_record(connection, one) for one in outcome.new],
        "waiting": left,
        "files": outcome.files,
        "bytes": outcome.bytes,
        "malformed": outcome.malformed,
        "faults": [{"path": path, "fault": fault} for path, fault in outcome.faults],
    }
    click.echo(json.dumps(said, indent=2))


def mine(
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
) -> mining.Outcome:
    """One scan, its progress shown."""
    _must_be_transcripts(places, host or "")
    earliest = _instant(since) if since is not None else 0.0
    folders = mining.folders(os.environ, os.path.expanduser("~"), places or values["scanPaths"], host or "")
    known = transcripts.marks(connection)
    files = list(mining.find(folders, {} if full else known))
    files = [file for file in files if file.modified >= earliest]
    if again := [*mining.vanished(known), *(file.path for file in files if full)]:
        transcripts.forget(connection, again)
    everything = not (places or host or since)
    kind = "part" if not everything else "full" if full or not known else "auto" if auto else "new"
    with _progress(sum(file.size for file in files), silent) as passed:
        return mining.run(home, connection, files, values, kind=kind, tiers=tiers, passed=passed)


def _must_be_transcripts(places: Sequence[str], host: str) -> None:
    fix = "give --path a transcript or a folder of them"
    for place in places:
        path = os.path.expanduser(place)
        if not os.path.exists(path):
            raise UserError(f"there is nothing at {place}", fix)
        if not os.path.isdir(path) and not any(mining.find({host: [path]}, {})):
            raise UserError(f"{place} is no transcript of {host or 'an agent that hardwon knows'}", fix)


def _instant(since: str) -> float:
    try:
        return datetime.fromisoformat(since).astimezone().timestamp()
    except (ValueError, OverflowError, OSError):
        raise UserError(f"--since {since!r} is no date", "write it as 2026-11-01 or 2026-11-01T14:00") from None


@contextmanager
def _database(home: str, *, throw_away: bool) -> Iterator[db.Connection]:
    """The home's database; to throw away, a copy of it, so that a dry run does all a scan does and leaves nothing."""
    with tempfile.TemporaryDirectory(prefix="hardwon-") if throw_away else nullcontext(home) as place:
        if throw_away:
            db.copy(home, place)
        connection = db.connect(place)
        try:
            yield connection
        finally:
            connection.close()


@contextmanager
def _progress(size: int, silent: bool) -> Iterator[Callable[[int], None]]:
    if silent or not size or not sys.stderr.isatty():
        yield lambda passed: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("reading transcripts"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=size)
        yield lambda passed: progress.advance(task, passed)


def _say(outcome: mining.Outcome, left: int, *, dry: bool) -> None:
    click.echo(f"read      {read_size(outcome)}")
    if outcome.malformed:
        click.echo(f"          {counted(outcome.malformed, 'line')} could not be read and were passed over")
    for path, fault in outcome.faults:
        click.echo(printable(f"          {path}: {fault}"))
    word = "would be proposed" if dry else "new"
    click.echo(f"found     {counted(len(outcome.new), 'candidate')} {word}")
    listing(outcome.new[:SHOWN])
    if len(outcome.new) > SHOWN:
        click.echo(f"          and {len(outcome.new) - SHOWN} more: hardwon scan candidates --all")
    say_left(left)
    if outcome.new and not dry:
        click.echo("next      hardwon review")


def say_left(left: int) -> None:
    """What one scan may add is limited; those that it left over come with the next."""
    if left:
        click.echo(f"          {left} more {'waits' if left == 1 else 'wait'} for the next scan")


def read_size(outcome: mining.Outcome) -> str:
    size = f"{outcome.bytes / 1e6:.1f} MB" if outcome.bytes >= 100_000 else f"{outcome.bytes / 1e3:.1f} kB"
    return f"{counted(outcome.files, 'transcript')}, {size}" if outcome.files else "nothing new"


def _promote_tags(home: str, connection: db.Connection, *, yes: bool, silent: bool) -> None:
    """What agents reported with a tag and what is sound is previewed and asked about; the rest is for review."""
    reported = [one for one in table.listed(connection) if one.tier == 1 and not review_queue.is_proposed(one)]
    sound = [one for one in reported if not _unfit(home, one)] if reported else []
    for number, proposal in enumerate(sound):
        if not yes and (silent or not at_terminal() or actor.agent(os.environ)):
            if not silent:
                click.echo(f"{counted(len(sound), 'lesson')} reported by agents: hardwon review, or hardwon scan --yes")
            return
        if not silent:
            preview(proposal)
        question = f"Put it in force? ({number + 1} of {len(sound)}) [y]es [n]o, reject it [l]ater"
        answer = "y" if yes else click.prompt(question, default="l", show_default=False).strip().lower()[:1]
        if answer == "n":
            candidates.reject(home, connection, proposal)
        elif answer == "y":
            try:
                lesson = actions.accept_candidate(home, connection, proposal, {}, COMMAND_LINE)
                in_force(lesson, whole=False, err=silent)
            except UserError as refused:
                click.echo(f"not accepted: {in_line(refused.say)}; it stays in review", err=silent)


def _unfit(home: str, proposal: Proposal) -> str:
    """Why a reported lesson cannot go in as it is."""
    try:
        lesson = adding.sound(candidates.proposal_record(proposal))
    except UserError as refused:
        return refused.say
    near = similarity.nearest(lesson, shelves.read(shelves.lessons_path(home)).lessons)
    return f"much like {near[0].slug}" if near and near[1] >= similarity.SAME else ""


@scan.command("candidates")
@click.option("--all", "every", is_flag=True, help="those seen in one session only, too")
@click.option("--rejected", is_flag=True, help="those that were rejected; accept takes them all the same")
@click.option("--json", "as_json", is_flag=True, help="print JSON")
def list_candidates(every: bool, rejected: bool, as_json: bool) -> None:
    """What may become a lesson, best first; without --all what was seen in two or more sessions."""
    home = paths.home()
    connection = db.connect(home)
    waiting = review_queue.list_waiting(home, connection, "rejected" if rejected else "candidate")
    every = every or rejected
    found = [one for one in waiting if every or len(one.sessions) > 1]
    more = len(waiting) - len(found)
    if as_json:
        records = [as_record(connection, one) for one in found]
        click.echo(json.dumps({"generatedAt": clock.iso(clock.now()), "candidates": records, "more": more}, indent=2))
        return
    listing(found)
    if not waiting:
        click.echo("no candidates: hardwon scan")
    elif not found:
        click.echo("no candidates seen in two sessions")
    if more:
        wait = "waits" if more == 1 else "wait"
        click.echo(f"{more} more {wait}, seen once or proposed by an agent: hardwon scan candidates --all")
    if found:
        click.echo("next      hardwon review")


@scan.command()
@click.argument("name", metavar="N|SLUG|ID")
@fields
@click.option("--confirm", is_flag=True, help="for a block whose trigger fired seldom")
def promote(name: str, confirm: bool, **flags: Any) -> None:
    """Make a candidate a lesson in force; at a terminal its fields are asked for."""
    promoted(name, from_flags(flags), confirm=confirm, ask=at_terminal())


def promoted(name: str, changes: dict[str, Any], *, confirm: bool, ask: bool) -> None:
    """Accept the candidate of this name for a person."""
    require_person("accepting a lesson")
    home = paths.home()
    connection = db.connect(home)
    proposal = candidates.named(home, connection, name)
    if ask and not changes:
        changes = ask_for_fields(proposal)
    lesson = actions.accept_candidate(home, connection, proposal, changes, COMMAND_LINE, confirm=lambda say: confirm)
    in_force(lesson)


@scan.command()
@click.option("--json", "as_json", is_flag=True, help="print JSON")
def state(as_json: bool) -> None:
    """How far each transcript was read."""
    connection = db.connect(paths.home())
    files, malformed = transcripts.state(connection)
    latest, full = table.last_scan(connection), table.last_scan(connection, "full")
    if as_json:
        shown = {"files": files, "lastFullScanAt": full and clock.iso(full), "lastScanAt": latest and clock.iso(latest)}
        click.echo(json.dumps({**shown, "malformed": malformed}, indent=2))
        return
    for path, offset in files.items():
        click.echo(printable(f"{offset:>12,}  {path}"))
    click.echo(f"{counted(len(files), 'transcript')}, {counted(malformed, 'malformed line')}")
    click.echo(f"last scan {clock.iso(latest) if latest else 'never'}; full {clock.iso(full) if full else 'never'}")
