"""doctor: check every part; each fault comes with the command that fixes it."""

from __future__ import annotations

import os
from collections.abc import Iterator

import click

from hardwon import __version__, clock, paths, pauses, settings
from hardwon.actions.approvals import compile_manifest
from hardwon.actions.team_decisions import Team
from hardwon.agents.installation import FAULT, NOTE, OK, Check, check_agents, check_fired_hooks
from hardwon.cli.context import json_option, open_store
from hardwon.cli.output import echo_json, echo_styled, echo_text, format_age, format_time
from hardwon.efficacy.delivery_changes import format_ignored_denials
from hardwon.errors import UserError
from hardwon.fallback.worker_start import read_failed_starts
from hardwon.lessons import manifest
from hardwon.lessons.advice import check_lessons
from hardwon.lessons.review_queue import list_waiting
from hardwon.lessons.typed_prompts import REFUSED_DECISION
from hardwon.search.backlog import describe_backlog
from hardwon.sessions.spool import find_unreadable, read_spooled_records
from hardwon.store import db, retention
from hardwon.store.candidates import find_last_scan_time
from hardwon.store.efficacy import list_ignored_denials
from hardwon.store.jobs import count_by_state
from hardwon.store.sessions import list_hook_coverage
from hardwon.store.team_log import read_forks
from hardwon.team.client import read_config
from hardwon.text.characters import format_count
from hardwon.web.http import TOKEN_FILE
from hardwon.worker import lifecycle

_RECENT_SESSIONS = 10
_DENIAL_DAYS = 30  # after which a denial that an agent ignored is no longer reported


@click.command()
@json_option
def doctor(as_json: bool) -> None:
    """Check every part, and say how to fix what is broken."""
    home = paths.get_home()
    checks = [
        *_check_home(home),
        *_check_lessons(home),
        *_check_worker(home),
        *_check_database(home),
        *check_agents(home),
        *_check_fired_hooks(home),
        *_check_team(home),
    ]
    if as_json:
        records = []
        for check in checks:
            records.append({"name": check.name, "well": check.is_ok, "found": check.finding, "fix": check.fix})
        echo_json(records)
    else:
        for check in checks:
            label, colour = {True: ("ok", "green"), False: ("bad", "red"), None: ("--", "yellow")}[check.is_ok]
            echo_styled(f"{label:<4}", fg=colour, nl=False)
            echo_text(f"{check.name:<13}{check.finding}")
            if check.fix:
                echo_text(f"    {'fix:':<13}{check.fix}")
    if any(check.is_ok is False for check in checks):
        raise SystemExit(1)


def _check_home(home: str) -> Iterator[Check]:
    """Check that hardwon can write its home, that nobody else can read it, and whether it is paused."""
    if not os.path.isdir(home):
        parent = os.path.dirname(home)
        if os.path.isdir(parent) and not os.access(parent, os.W_OK):
            fix = f"chmod u+rwx {parent}, or set HARDWON_HOME to a folder of yours"
            yield Check("home", FAULT, f"{home} cannot be made: {parent} cannot be written", fix)
        else:
            yield Check("home", NOTE, f"{home} does not exist yet", "hardwon up")
        return
    if not os.access(home, os.W_OK):
        yield Check("home", FAULT, f"{home} cannot be written", f"chmod u+rwx {home}")
    elif os.stat(home).st_mode & 0o077:
        yield Check("home", FAULT, f"{home} can be read by others", f"chmod 700 {home}")
    else:
        yield Check("home", OK, home)
    # The claims and the token are created when they are needed, so they may be missing.
    claims_path = os.path.join(home, "claims")
    is_usable = os.path.isdir(claims_path) and os.access(claims_path, os.W_OK | os.X_OK)
    if os.path.lexists(claims_path) and not is_usable:
        finding = f"{claims_path} is not a writable folder, so lessons may be repeated"
        yield Check("claims", FAULT, finding, f"mv {claims_path} {claims_path}.old")
    token_path = os.path.join(home, TOKEN_FILE)
    is_usable = os.path.isfile(token_path) and os.access(token_path, os.R_OK)
    if os.path.lexists(token_path) and not is_usable:
        finding = f"{token_path} is not a readable file, so there is no API and no viewer"
        yield Check("token", FAULT, finding, f"mv {token_path} {token_path}.old; hardwon restart")
    for pause in pauses.describe_pauses(home, clock.now()):
        yield Check("pause", NOTE, pause, "hardwon unpause")
    for fault in pauses.find_pause_faults(home):
        yield Check("pause", FAULT, fault, "hardwon unpause, then: hardwon pause")


def _check_team(home: str) -> Iterator[Check]:
    """Check this machine's team; yield nothing if it is in none."""
    try:
        config = read_config(home)
        if config is None:
            return  # this machine is in no team
        with open_store() as connection:
            forked_writers = read_forks(connection, config.team)
            state = Team(home, connection, config).state
    except UserError as error:
        yield Check("team", FAULT, error.message, error.fix)
        return
    for writer in sorted(forked_writers):
        machine = state.machines.get(writer)
        name = f"{machine.name} of {machine.member}" if machine else writer
        finding = f"{name} wrote two records under one number, so it is quarantined, as after a restored backup"
        yield Check("team", FAULT, finding, f"on it: hardwon team leave, then join again; then: revoke {writer[:12]}")
    if not forked_writers:
        yield Check("team", OK, f"{state.name} at {config.url}")


def _check_lessons(home: str) -> Iterator[Check]:
    """Compile the manifest, and report what is wrong with the lessons."""
    try:
        # `compile_manifest` also approves once what an older hardwon had in force, but opens the database, which
        # `doctor` must not create.
        build = compile_manifest if paths.has_database(home) else manifest.build
        build_result = build(home, clock.now())
    except UserError as error:
        yield Check("lessons", FAULT, f"{error.message}; the last good manifest stays in force", error.fix)
        return
    except OSError as error:
        fix = "make room or allow writing there, then: hardwon doctor"
        yield Check("lessons", FAULT, f"the manifest cannot be written: {error.strerror or error}", fix)
        return
    yield from check_lessons(home, build_result)


def _check_worker(home: str) -> Iterator[Check]:
    """Check that the worker runs or can run, and that no event waits for it in vain."""
    worker_status = lifecycle.read_status(home)
    failed_starts, last_failure = read_failed_starts(home)
    if worker_status.running and worker_status.version != __version__:
        finding = f"runs version {worker_status.version}, installed is {__version__}"
        yield Check("worker", FAULT, finding, "hardwon restart")
    elif worker_status.running:
        yield Check("worker", OK, f"process {worker_status.pid}, started {format_age(worker_status.since or 0)}")
    elif failed_starts:
        finding = f"{format_count(failed_starts, 'start')} failed, the last {format_age(last_failure)}"
        yield Check("worker", FAULT, finding, "hardwon logs")
    else:
        yield Check("worker", NOTE, "not running; guards hold without it", "hardwon start")
    if spooled_count := sum(1 for _ in read_spooled_records(home)):
        yield Check("spool", NOTE, f"{spooled_count} pending", "hardwon start")
    for path in find_unreadable(home):
        yield Check("spool", FAULT, f"{path} cannot be opened", f"ls -ld {path}")
    yield from _check_hook_log(os.path.join(home, paths.HOOK_LOG))


def _check_hook_log(path: str) -> Iterator[Check]:
    """Yield what hooks could not do while no worker ran; nothing if there is no such log."""
    if not os.path.exists(path):
        return  # no hook ever had anything to report
    failures = list[str]()
    refused_prompts = list[str]()
    refused_decisions = list[str]()
    for line in paths.read_text(path, errors="replace").splitlines():
        if f" {REFUSED_DECISION}: " in line:
            refused_decisions.append(line)
        elif "what you typed was not taken" in line:
            refused_prompts.append(line)
        else:
            failures.append(line)
    for noun, verdict, lines in (
        ("hook", "failed", failures),
        ("prompt", "refused", refused_prompts),
        ("decision", "not carried out, since it is not known to be yours", refused_decisions),
    ):
        if lines:
            timestamp, _, text = lines[-1].partition(" ")
            last_line = lines[-1]
            if timestamp.isdecimal():
                last_line = f"{format_time(float(timestamp))} {text}"
            finding = f"{format_count(len(lines), noun)} {verdict}; last: {last_line}"
            yield Check("hook log", NOTE, finding, f"rm {path}")


def _check_database(home: str) -> Iterator[Check]:
    """Check the size of the database, and whether work on it has come to a halt."""
    if not paths.has_database(home):
        return
    try:
        max_megabytes = int(settings.load_settings(home)["maxDbMb"])
    except UserError:  # reported with the lessons
        max_megabytes = int(settings.SETTINGS_BY_NAME["maxDbMb"].default)
    try:
        with open_store() as connection:
            totals = retention.read_store_totals(connection)
            last_scan = find_last_scan_time(connection)
            candidate_count = len(list_waiting(home, connection))
            job_counts = count_by_state(connection)
            backlog = describe_backlog(connection)
            ignored_denials = list_ignored_denials(connection, since=clock.now() - _DENIAL_DAYS * 86_400)
    except (UserError, db.StoreError) as error:
        yield Check("database", FAULT, str(error), getattr(error, "fix", "").removeprefix("hardwon doctor; "))
        return
    megabytes = retention.measure_file_bytes(home) / 1024 / 1024
    contents = f"{format_count(totals.sessions, 'session')}, {format_count(totals.events, 'event')}"
    finding = f"{megabytes:.1f} MB of at most {max_megabytes} MB, {contents}"
    if megabytes <= max_megabytes:
        yield Check("database", OK, finding)
    else:
        yield Check("database", NOTE, finding, "hardwon start; it drops the oldest events")
    for line in format_ignored_denials(ignored_denials):
        yield Check("denials", FAULT, line, "upgrade or downgrade the agent, then: hardwon proof")
    when = f"last {format_age(last_scan)}" if last_scan else "none yet"
    finding = f"{when}; {format_count(candidate_count, 'candidate')} to review"
    if candidate_count:
        yield Check("scan", NOTE, finding, "hardwon review")
    else:
        yield Check("scan", OK, finding)
    finding = f"{format_count(job_counts['waiting'] + job_counts['running'], 'job')} pending"
    if job_counts["dead"]:
        yield Check("distilling", FAULT, f"{finding}, {job_counts['dead']} failed", "hardwon jobs list")
    else:
        yield Check("distilling", OK, finding)
    if backlog:  # a worker that runs is at it
        fix = "" if lifecycle.read_status(home).running else "hardwon start"
        yield Check("index", NOTE, backlog, fix)


def _check_fired_hooks(home: str) -> Iterator[Check]:
    """Check that hooks fired in the latest sessions."""
    if not paths.has_database(home):
        return
    try:
        with open_store() as connection:
            coverage = list_hook_coverage(connection, _RECENT_SESSIONS)
    except (UserError, db.StoreError):  # the check of the database reports it
        return
    yield from check_fired_hooks(coverage)
