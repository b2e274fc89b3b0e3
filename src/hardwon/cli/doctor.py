"""doctor: every part checked, each fault with the command that mends it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import groupby, islice, takewhile
from time import process_time
from typing import TYPE_CHECKING

import click

from hardwon import __version__, clock, paths, pauses, projects, settings
from hardwon.actions import approvals
from hardwon.cli.doctor_agents import Check, check_agents
from hardwon.cli.output import echo_styled, format_age, make_printable
from hardwon.errors import UserError
from hardwon.fallback import worker_start
from hardwon.lessons import approved_lessons, health, manifest, review_queue, trust_file
from hardwon.lessons import lessons_file as shelves
from hardwon.lessons.delivery import REFUSED_DECISION, open_index
from hardwon.lessons.health import Advice, LessonFacts
from hardwon.lessons.pattern_search import PatternCache
from hardwon.search.index_backlog import describe_backlog
from hardwon.sessions import spool
from hardwon.store import candidates, db, injections, jobs, retention, transcripts
from hardwon.text.excerpts import pluralize
from hardwon.web.http import TOKEN_FILE
from hardwon.worker import lifecycle

if TYPE_CHECKING:
    from hardwon.lessons.manifest_index import ManifestIndex
    from hardwon.lessons.matching import PatternSearch
    from hardwon.types import Lesson

MAX_SHOWN = 5  # of each kind of advice
MAX_CALLS, MAX_REPLAY_SECONDS = 20_000, 2.0  # calls tried, the newest, and seconds of computing spent on them


@click.command()
@click.option("--json", "as_json", is_flag=True, help="print JSON")
def doctor(as_json: bool) -> None:
    """Check every part, and say how to mend what is broken."""
    home = paths.get_home()
    checks = [*_home(home), *_lessons(home), *_worker(home), *_database(home), *check_agents(home)]
    if as_json:
        click.echo(json.dumps([check.__dict__ for check in checks], indent=2))
    else:
        for check in checks:
            mark, colour = {True: ("ok", "green"), False: ("bad", "red"), None: ("--", "yellow")}[check.well]
            echo_styled(f"{mark:<4}", fg=colour, nl=False)
            click.echo(make_printable(f"{check.name:<13}{check.found}"))
            if check.fix:
                click.echo(make_printable(f"    {'fix:':<13}{check.fix}"))
    if any(check.well is False for check in checks):
        raise SystemExit(1)


def _home(home: str) -> Iterator[Check]:
    if not os.path.isdir(home):
        yield Check("home", None, f"{home} is not there yet", "hardwon up")
        return
    if not os.access(home, os.W_OK):
        yield Check("home", False, f"{home} cannot be written", f"chmod u+rwx {home}")
    elif os.stat(home).st_mode & 0o077:
        yield Check("home", False, f"{home} can be read by others", f"chmod 700 {home}")
    else:
        yield Check("home", True, home)
    yield from _odd_files(home)
    for pause in pauses.describe_pauses(home, clock.now()):
        yield Check("pause", None, pause, "hardwon unpause")
    for fault in pauses.find_pause_faults(home):
        yield Check("pause", False, fault, "hardwon unpause, then: hardwon pause")


def _odd_files(home: str) -> Iterator[Check]:
    """What stands in the place of a file or folder of ours and is none."""
    place = os.path.join(home, "claims")
    if os.path.lexists(place) and not (os.path.isdir(place) and os.access(place, os.W_OK | os.X_OK)):
        found = f"{place} is not a folder that can be written, so nobody can tell which lessons were said"
        yield Check("claims", False, found, f"mv {place} {place}.old")
    place = os.path.join(home, TOKEN_FILE)
    if os.path.lexists(place) and not (os.path.isfile(place) and os.access(place, os.R_OK)):
        found = f"{place} is not a file that can be read, so there is no API and no viewer"
        yield Check("token", False, found, f"mv {place} {place}.old; hardwon restart")


def _lessons(home: str) -> Iterator[Check]:
    try:
        if os.path.exists(os.path.join(home, paths.DATABASE)):
            built = approvals.compile_manifest(home, clock.now())
        else:  # looking does not make a database
            built = manifest.build(home, clock.now())
    except UserError as wrong:
        yield Check("lessons", False, wrong.say + "; the last good manifest stays in force", wrong.fix)
        return
    except OSError as wrong:
        yield Check("lessons", False, f"the manifest cannot be written: {wrong}", "make room, then: hardwon doctor")
        return
    yield Check(
        "lessons", not built.faults, f"{built.lesson_count} in force", "hardwon lessons check" if built.faults else ""
    )
    for fault in built.faults[:5]:
        yield Check("", False, fault, "hardwon lessons check")
    for waiting in built.waiting_changes[:MAX_SHOWN]:
        kept = "" if waiting.approved is None else "; the version approved before stays in force"
        found = f"{waiting.change} by hand in {paths.LESSONS} and not approved: {waiting.slug}{kept}"
        yield Check("waiting", None, found, approved_lessons.APPROVE_COMMAND)
    if len(built.waiting_changes) > MAX_SHOWN:
        yield Check(
            "waiting", None, f"and {len(built.waiting_changes) - MAX_SHOWN} more", approved_lessons.APPROVE_COMMAND
        )
    added = {waiting.slug for waiting in built.waiting_changes}
    for slug, reason in [one for one in built.left_out if one[0] not in added][:5]:
        yield Check("", None, f"left out {slug}: {reason}", f"hardwon lessons edit {slug}")
    index = open_index(home)
    lessons, _ = manifest.choose_active_lessons(manifest.gather_lessons(home)[0], dict(index.settings))
    if lessons:
        yield from _content(home, lessons, index)


def _content(home: str, lessons: list[Lesson], index: ManifestIndex) -> Iterator[Check]:
    """Advice about what the lessons say and when; never a fault."""
    facts, search = LessonFacts({}, {}, {}), PatternCache().search
    try:
        facts = _facts(home, index, search)
    except UserError as wrong:
        yield Check("history", False, wrong.say, wrong.fix.removeprefix("hardwon doctor; "))
    except db.StoreError as wrong:
        yield Check("history", False, f"{paths.DATABASE} cannot be read: {wrong}", "moving it away starts a new one")
    own = {lesson.id for lesson in shelves.read(shelves.get_lessons_path(home)).lessons}
    advice = health.find_advice(lessons, facts, now=clock.now(), path_exists=_may_exist, search_pattern=search)
    yield from _shown(advice, own)


def _facts(home: str, index: ManifestIndex, search: PatternSearch) -> LessonFacts:
    """What the database knows about the lessons; looking does not make one."""
    if not os.path.exists(os.path.join(home, paths.DATABASE)):
        return LessonFacts({}, {}, {})

    @cache
    def place(folder: str) -> tuple[str, list[str]]:
        return projects.find_git_root(folder), projects.list_equivalent_folders(folder)

    connection = db.connect(home)
    try:
        tools = {tool for number in range(len(index)) for tool in index.read_entry(number).tools}
        end = process_time() + MAX_REPLAY_SECONDS
        calls = takewhile(lambda _: process_time() < end, transcripts.iter_ended_calls(connection, tools))
        chances, replays = health.replay_calls(
            islice(calls, MAX_CALLS), index, search_pattern=search, locate_folder=place
        )
        return LessonFacts(injections.count_by_lesson(connection), chances, replays)
    finally:
        connection.close()


def _may_exist(path: str) -> bool:
    """Gone only if that is certain: what may not be looked at may be there."""
    try:
        os.stat(os.path.expanduser(path))
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError):
        return True
    return True


def _shown(advice: Iterable[Advice], own: set[str]) -> Iterator[Check]:
    """The first few of each kind. A repository's lesson is mended where it stands, and trusted again."""
    for kind, found in groupby(advice, key=lambda one: one.kind):
        for one in islice(found, MAX_SHOWN):
            project = one.lesson.project
            mend = f"edit {trust_file.get_project_lessons_path(project)}, then: hardwon trust {project}"
            yield Check(kind, None, one.finding, one.fix if one.lesson.id in own else mend)
        if more := sum(1 for _ in found):
            yield Check(kind, None, f"and {more} more")


def _worker(home: str) -> Iterator[Check]:
    said = lifecycle.read_status(home)
    failed, latest = worker_start.read_failed_starts(home)
    if said.running and said.version != __version__:
        yield Check("worker", False, f"runs version {said.version}, installed is {__version__}", "hardwon restart")
    elif said.running:
        yield Check("worker", True, f"process {said.pid}, since {format_age(said.since or 0)}")
    elif failed:
        yield Check(
            "worker",
            False,
            f"{pluralize(failed, 'start')} came to nothing, the last {format_age(latest)}",
            "hardwon logs",
        )
    else:
        yield Check("worker", None, "not running; guards hold without it", "hardwon start")
    waiting = sum(1 for _ in spool.read_spooled_records(home))
    if waiting:
        yield Check("spool", None, f"{pluralize(waiting, 'delivery', 'deliveries')} to be recorded", "hardwon start")
    for path in spool.find_unreadable(home):
        yield Check("spool", False, f"{path} cannot be opened", f"ls -ld {path}")
    errors = os.path.join(home, paths.HOOK_LOG)
    if os.path.exists(errors):
        with open(errors, encoding="utf-8", errors="replace", opener=paths.open_plain_file) as file:
            lines = file.read().splitlines()
        refused = [line for line in lines if f" {REFUSED_DECISION}: " in line]
        typed = [line for line in lines if "what you typed was not taken" in line]
        about_prompts = {*refused, *typed}
        wrong = [line for line in lines if line not in about_prompts]
        for what, became, some in (
            ("hook", "went wrong", wrong),
            ("prompt", "refused", typed),
            ("decision", "not carried out, since it is not known to be yours", refused),
        ):
            if some:
                found = f"{pluralize(len(some), what)} {became}; last: {some[-1]}"
                yield Check("hook log", None, found, f"rm {errors}")


def _database(home: str) -> Iterator[Check]:
    """How large it is, and what waits in it; looking does not make one."""
    if not os.path.exists(os.path.join(home, paths.DATABASE)):
        return
    most = _most_megabytes(home)
    try:
        connection = db.connect(home)
        try:
            held, last = retention.read_store_totals(connection), candidates.find_last_scan_time(connection)
            proposed, waiting = len(review_queue.list_waiting(home, connection)), jobs.count_by_state(connection)
            backlog = describe_backlog(connection)
        finally:
            connection.close()
    except (UserError, db.StoreError) as wrong:
        yield Check("database", False, str(wrong), getattr(wrong, "fix", "").removeprefix("hardwon doctor; "))
        return
    megabytes = retention.measure_file_bytes(home) / 1024 / 1024
    holds = f"{pluralize(held.sessions, 'session')}, {pluralize(held.events, 'event')}"
    found = f"{megabytes:.1f} MB of at most {most} MB, {holds}"
    fits = megabytes <= most
    yield Check("database", True if fits else None, found, "" if fits else "hardwon start; it drops the oldest events")
    when = f"the last {format_age(last)}" if last else "none yet"
    fix = "hardwon review" if proposed else ""
    yield Check("scan", None if fix else True, f"{when}; {pluralize(proposed, 'candidate')} to decide about", fix)
    dead = waiting["dead"]
    said = f"{pluralize(waiting['waiting'] + waiting['running'], 'job')} to do" + (
        f", {dead} came to nothing" if dead else ""
    )
    yield Check("distilling", not dead, said, "hardwon jobs list" if dead else "")
    if backlog:
        yield Check("index", None, backlog, "" if lifecycle.read_status(home).running else "hardwon start")


def _most_megabytes(home: str) -> int:
    try:
        return int(settings.resolve_settings(settings.read_config(home))["maxDbMb"])
    except UserError:  # said with the lessons
        return int(settings.SETTINGS_BY_NAME["maxDbMb"].default)
