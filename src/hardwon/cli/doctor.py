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
    checks = [
        *_check_home(home),
        *_check_lessons(home),
        *_check_worker(home),
        *_check_database(home),
        *check_agents(home),
    ]
    if as_json:
        click.echo(json.dumps([check.__dict__ for check in checks], indent=2))
    else:
        for check in checks:
            label, colour = {True: ("ok", "green"), False: ("bad", "red"), None: ("--", "yellow")}[check.well]
            echo_styled(f"{label:<4}", fg=colour, nl=False)
            click.echo(make_printable(f"{check.name:<13}{check.found}"))
            if check.fix:
                click.echo(make_printable(f"    {'fix:':<13}{check.fix}"))
    if any(check.well is False for check in checks):
        raise SystemExit(1)


def _check_home(home: str) -> Iterator[Check]:
    if not os.path.isdir(home):
        yield Check("home", None, f"{home} is not there yet", "hardwon up")
        return
    if not os.access(home, os.W_OK):
        yield Check("home", False, f"{home} cannot be written", f"chmod u+rwx {home}")
    elif os.stat(home).st_mode & 0o077:
        yield Check("home", False, f"{home} can be read by others", f"chmod 700 {home}")
    else:
        yield Check("home", True, home)
    yield from _check_odd_files(home)
    for pause in pauses.describe_pauses(home, clock.now()):
        yield Check("pause", None, pause, "hardwon unpause")
    for fault in pauses.find_pause_faults(home):
        yield Check("pause", False, fault, "hardwon unpause, then: hardwon pause")


def _check_odd_files(home: str) -> Iterator[Check]:
    """What stands in the place of a file or folder of ours and is none."""
    path = os.path.join(home, "claims")
    if os.path.lexists(path) and not (os.path.isdir(path) and os.access(path, os.W_OK | os.X_OK)):
        finding = f"{path} is not a folder that can be written, so nobody can tell which lessons were said"
        yield Check("claims", False, finding, f"mv {path} {path}.old")
    path = os.path.join(home, TOKEN_FILE)
    if os.path.lexists(path) and not (os.path.isfile(path) and os.access(path, os.R_OK)):
        finding = f"{path} is not a file that can be read, so there is no API and no viewer"
        yield Check("token", False, finding, f"mv {path} {path}.old; hardwon restart")


def _check_lessons(home: str) -> Iterator[Check]:
    try:
        if os.path.exists(os.path.join(home, paths.DATABASE)):
            build_result = approvals.compile_manifest(home, clock.now())
        else:  # looking does not make a database
            build_result = manifest.build(home, clock.now())
    except UserError as error:
        yield Check("lessons", False, error.say + "; the last good manifest stays in force", error.fix)
        return
    except OSError as error:
        yield Check("lessons", False, f"the manifest cannot be written: {error}", "make room, then: hardwon doctor")
        return
    yield Check(
        "lessons",
        not build_result.faults,
        f"{build_result.lesson_count} in force",
        "hardwon lessons check" if build_result.faults else "",
    )
    for fault in build_result.faults[:5]:
        yield Check("", False, fault, "hardwon lessons check")
    for waiting_change in build_result.waiting_changes[:MAX_SHOWN]:
        approved_note = "" if waiting_change.approved is None else "; the version approved before stays in force"
        finding = (
            f"{waiting_change.change} by hand in {paths.LESSONS} and not approved: {waiting_change.slug}{approved_note}"
        )
        yield Check("waiting", None, finding, approved_lessons.APPROVE_COMMAND)
    if len(build_result.waiting_changes) > MAX_SHOWN:
        yield Check(
            "waiting",
            None,
            f"and {len(build_result.waiting_changes) - MAX_SHOWN} more",
            approved_lessons.APPROVE_COMMAND,
        )
    waiting_slugs = {waiting_change.slug for waiting_change in build_result.waiting_changes}
    for slug, reason in [omission for omission in build_result.left_out if omission[0] not in waiting_slugs][:5]:
        yield Check("", None, f"left out {slug}: {reason}", f"hardwon lessons edit {slug}")
    index = open_index(home)
    lessons, _ = manifest.choose_active_lessons(manifest.gather_lessons(home)[0], dict(index.settings))
    if lessons:
        yield from _check_content(home, lessons, index)


def _check_content(home: str, lessons: list[Lesson], index: ManifestIndex) -> Iterator[Check]:
    """Advice about what the lessons say and when; never a fault."""
    facts, search = LessonFacts({}, {}, {}), PatternCache().search
    try:
        facts = _gather_facts(home, index, search)
    except UserError as error:
        yield Check("history", False, error.say, error.fix.removeprefix("hardwon doctor; "))
    except db.StoreError as error:
        yield Check("history", False, f"{paths.DATABASE} cannot be read: {error}", "moving it away starts a new one")
    own_ids = {lesson.id for lesson in shelves.read(shelves.get_lessons_path(home)).lessons}
    advice = health.find_advice(lessons, facts, now=clock.now(), path_exists=_may_exist, search_pattern=search)
    yield from _build_advice_checks(advice, own_ids)


def _gather_facts(home: str, index: ManifestIndex, search: PatternSearch) -> LessonFacts:
    """What the database knows about the lessons; looking does not make one."""
    if not os.path.exists(os.path.join(home, paths.DATABASE)):
        return LessonFacts({}, {}, {})

    @cache
    def locate_folder(folder: str) -> tuple[str, list[str]]:
        return projects.find_git_root(folder), projects.list_equivalent_folders(folder)

    connection = db.connect(home)
    try:
        tools = {tool for number in range(len(index)) for tool in index.read_entry(number).tools}
        deadline = process_time() + MAX_REPLAY_SECONDS
        calls = takewhile(lambda _: process_time() < deadline, transcripts.iter_ended_calls(connection, tools))
        chances, replays = health.replay_calls(
            islice(calls, MAX_CALLS), index, search_pattern=search, locate_folder=locate_folder
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


def _build_advice_checks(advice: Iterable[Advice], own_ids: set[str]) -> Iterator[Check]:
    """The first few of each kind. A repository's lesson is mended where it stands, and trusted again."""
    for kind, group in groupby(advice, key=lambda item: item.kind):
        for item in islice(group, MAX_SHOWN):
            project = item.lesson.project
            project_fix = f"edit {trust_file.get_project_lessons_path(project)}, then: hardwon trust {project}"
            yield Check(kind, None, item.finding, item.fix if item.lesson.id in own_ids else project_fix)
        if omitted_count := sum(1 for _ in group):
            yield Check(kind, None, f"and {omitted_count} more")


def _check_worker(home: str) -> Iterator[Check]:
    worker_status = lifecycle.read_status(home)
    failed_starts, last_failure = worker_start.read_failed_starts(home)
    if worker_status.running and worker_status.version != __version__:
        yield Check(
            "worker", False, f"runs version {worker_status.version}, installed is {__version__}", "hardwon restart"
        )
    elif worker_status.running:
        yield Check("worker", True, f"process {worker_status.pid}, since {format_age(worker_status.since or 0)}")
    elif failed_starts:
        yield Check(
            "worker",
            False,
            f"{pluralize(failed_starts, 'start')} came to nothing, the last {format_age(last_failure)}",
            "hardwon logs",
        )
    else:
        yield Check("worker", None, "not running; guards hold without it", "hardwon start")
    spooled_count = sum(1 for _ in spool.read_spooled_records(home))
    if spooled_count:
        yield Check(
            "spool", None, f"{pluralize(spooled_count, 'delivery', 'deliveries')} to be recorded", "hardwon start"
        )
    for path in spool.find_unreadable(home):
        yield Check("spool", False, f"{path} cannot be opened", f"ls -ld {path}")
    log_path = os.path.join(home, paths.HOOK_LOG)
    if os.path.exists(log_path):
        with open(log_path, encoding="utf-8", errors="replace", opener=paths.open_plain_file) as file:
            lines = file.read().splitlines()
        refused_decisions = [line for line in lines if f" {REFUSED_DECISION}: " in line]
        refused_prompts = [line for line in lines if "what you typed was not taken" in line]
        prompt_lines = {*refused_decisions, *refused_prompts}
        hook_failures = [line for line in lines if line not in prompt_lines]
        for noun, verdict, matching_lines in (
            ("hook", "went wrong", hook_failures),
            ("prompt", "refused", refused_prompts),
            ("decision", "not carried out, since it is not known to be yours", refused_decisions),
        ):
            if matching_lines:
                finding = f"{pluralize(len(matching_lines), noun)} {verdict}; last: {matching_lines[-1]}"
                yield Check("hook log", None, finding, f"rm {log_path}")


def _check_database(home: str) -> Iterator[Check]:
    """How large it is, and what waits in it; looking does not make one."""
    if not os.path.exists(os.path.join(home, paths.DATABASE)):
        return
    max_megabytes = _read_max_megabytes(home)
    try:
        connection = db.connect(home)
        try:
            totals, last_scan = retention.read_store_totals(connection), candidates.find_last_scan_time(connection)
            candidate_count, job_counts = (
                len(review_queue.list_waiting(home, connection)),
                jobs.count_by_state(connection),
            )
            backlog = describe_backlog(connection)
        finally:
            connection.close()
    except (UserError, db.StoreError) as error:
        yield Check("database", False, str(error), getattr(error, "fix", "").removeprefix("hardwon doctor; "))
        return
    megabytes = retention.measure_file_bytes(home) / 1024 / 1024
    contents = f"{pluralize(totals.sessions, 'session')}, {pluralize(totals.events, 'event')}"
    finding = f"{megabytes:.1f} MB of at most {max_megabytes} MB, {contents}"
    fits = megabytes <= max_megabytes
    yield Check(
        "database", True if fits else None, finding, "" if fits else "hardwon start; it drops the oldest events"
    )
    when = f"the last {format_age(last_scan)}" if last_scan else "none yet"
    fix = "hardwon review" if candidate_count else ""
    yield Check(
        "scan", None if fix else True, f"{when}; {pluralize(candidate_count, 'candidate')} to decide about", fix
    )
    dead_count = job_counts["dead"]
    job_summary = f"{pluralize(job_counts['waiting'] + job_counts['running'], 'job')} to do" + (
        f", {dead_count} came to nothing" if dead_count else ""
    )
    yield Check("distilling", not dead_count, job_summary, "hardwon jobs list" if dead_count else "")
    if backlog:
        yield Check("index", None, backlog, "" if lifecycle.read_status(home).running else "hardwon start")


def _read_max_megabytes(home: str) -> int:
    try:
        return int(settings.resolve_settings(settings.read_config(home))["maxDbMb"])
    except UserError:  # said with the lessons
        return int(settings.SETTINGS_BY_NAME["maxDbMb"].default)
