"""What the worker does besides answering hooks: jobs in processes of their own, housekeeping and the team in threads.

No hook waits for any of it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from hardwon import claims, clock, paths, pauses, settings
from hardwon.actions import drain_spool
from hardwon.errors import UserError
from hardwon.fallback.worker_start import build_environment
from hardwon.handoff import ratification
from hardwon.handoff.due_sessions import UnrecordedTranscript, find_unrecorded_transcripts
from hardwon.handoff.idle_sessions import MAX_FACTOR, RECHECK_SECONDS, UNDER_WAY_FACTOR, LastCheck, plan_check
from hardwon.mining import scan
from hardwon.store import db, documents, jobs, observations, reflections, retention, sessions, turns
from hardwon.types import Event
from hardwon.worker import lifecycle

_TRANSCRIPT_DELAY_SECONDS = 0.5  # at the end of a turn the agent may still be writing its transcript
STOP_SECONDS = 0.5
_HOUSEKEEPING_STOP_SECONDS = 1.0
_PURGE_INTERVAL_SECONDS = 3600.0
_PURGE_RETRY_SECONDS = 60.0  # while above the limit: only distilled events may be deleted, and more are by then
_CLAIM_DAYS = 14
_LARGE_BACKLOG = 500  # documents; fewer wait for the end of the next turn
_QUIET_BACKLOG_SECONDS = 60.0  # or are indexed when none were added for so long: no turn is under way
_SCAN, REFLECT = "scan", "reflect"
_COMMANDS = {
    _SCAN: ("hardwon", "scan", "--auto"),
    jobs.DISTIL: ("hardwon.worker.job_process", jobs.DISTIL),
    jobs.REFINE: ("hardwon.worker.job_process", jobs.REFINE),
    REFLECT: ("hardwon.worker.job_process", REFLECT),
}
_INTERVAL_SECONDS = 60.0
_COUNTS_SECONDS = 86_400.0  # what lessons came to changes with every firing, and the log keeps each report
_MAX_INTERVAL_SECONDS = 300.0  # while the server is away: how late a machine may notice that it is back
log = logging.getLogger(__name__)


class JobRunner:
    """Owns the job processes, at most one of each kind, and the timer for jobs that are due later.

    Everything runs in the worker's event loop but the three methods that say otherwise.
    """

    def __init__(
        self,
        home: str,
        connection: db.Connection,
        publish_message: Callable[[str, dict[str, Any]], None] = lambda kind, message: None,
    ) -> None:
        self.home = home
        self.connection = connection
        self._publish_message = publish_message
        self._loop = asyncio.get_running_loop()
        self._running_jobs: dict[str, subprocess.Popen[bytes]] = {}  # by kind
        # The arguments of scans of transcripts in which an agent reported a lesson. A dict used as a set that can give
        # the latest first.
        self._waiting_scans: dict[tuple[str, str], None] = {}
        self._timer: asyncio.TimerHandle | None = None  # calls `start_due_jobs` when the next job is due
        self._last_published_id = observations.find_last_id(connection)
        # Each backlog is the number of rows that wait to be indexed, and of documents that wait for a vector.
        self._last_backlog = (0, 0)
        self._unindexable_backlog = (0, 0)  # what the last process could not index, such as vectors without a model
        self._backlog_since = clock.now()  # when the backlog last changed
        self._is_index_behind = False  # the last process ran out of time
        self._last_check = LastCheck()  # of the sessions that may be due for reflection
        self._last_walk_at = 0.0  # when the transcripts of all agents were last looked through
        self._unrecorded = set[UnrecordedTranscript]()  # what that walk found
        self._has_new_unrecorded = False  # since a reflection process was last started
        self._last_warning = ""  # logged once as long as it stays the same

    def handle_event(self, event: Event) -> None:
        """Do what follows a session start, the end of a turn or of a session; callers may be in any thread."""
        if event.kind == "SessionStart":
            self._loop.call_soon_threadsafe(self.start_due_scan)
            return
        self._loop.call_soon_threadsafe(self._loop.call_later, _TRANSCRIPT_DELAY_SECONDS, self.start_due_jobs)
        if "#/lesson" in event.message.lower():
            # An agent reported a lesson: read its transcript now, so that the person hears of it in this session.
            # Some agents name no transcript in their hooks.
            source = ("--path", event.transcript) if event.transcript else ("--agent", event.host)
            self._loop.call_soon_threadsafe(
                self._loop.call_later, _TRANSCRIPT_DELAY_SECONDS, self.start_report_scan, source
            )

    def start_report_scan(self, source: tuple[str, str]) -> None:
        """Scan one transcript, or those of one agent, after the scan that is running if there is one."""
        try:
            values = settings.load_settings(self.home)
            if values["autoScanIntervalHours"] < 0:
                return  # a person has switched background scans off
            if _SCAN in self._running_jobs:
                self._waiting_scans[source] = None
            else:
                self._start_process(_SCAN, *source)
        except (OSError, UserError) as error:
            log.warning("a reported lesson waits for the next scan: %s", error)

    def start_due_scan(self) -> None:
        """Start a scan of the transcripts if one is due and none is running."""
        try:
            values = settings.load_settings(self.home)
            if _SCAN not in self._running_jobs and scan.is_due(self.connection, values, clock.now()):
                self._start_process(_SCAN)
        except (OSError, UserError, db.StoreError) as error:
            log.warning("no background scan: %s", error)

    def start_due_jobs(self) -> None:
        """Start the processes for which work is due, and set a timer for work that is due later."""
        try:
            values = settings.load_settings(self.home)
            due_times = {jobs.DISTIL: self._find_plain_due()}
            if values["llm.provider"] != "none":
                due_times[jobs.REFINE] = jobs.find_next_due(self.connection, (jobs.REFINE,))
            now = clock.now()
            later_times = []
            for kind, due_at in due_times.items():
                if due_at is None:
                    continue
                if due_at > now:
                    later_times.append(due_at)
                elif kind not in self._running_jobs:
                    self._start_process(kind)
            self._start_due_reflection(values, now)
        # Without the settings nothing is distilled, because they may exclude it. RuntimeError: no thread is free.
        except (OSError, RuntimeError, UserError, db.StoreError) as error:
            if str(error) != self._last_warning:
                log.warning("no background jobs for now: %s", error)
            self._last_warning = str(error)
            return
        self._last_warning = ""
        if self._timer:
            self._timer.cancel()
            self._timer = None
        if later_times:
            self._timer = self._loop.call_later(min(later_times) - now, self.start_due_jobs)

    def _start_due_reflection(self, values: Mapping[str, Any], now: float) -> None:
        """Start a reflection process if a session that ended or is idle might be due, once it is distilled."""
        # A handoff is drafted from observations, so distilling comes first.
        if REFLECT in self._running_jobs or jobs.DISTIL in self._running_jobs:
            return
        unread_sessions: list[tuple[int, float]] = []
        # Drafts to ratify are due even if no new ones are wanted.
        has_overdue = bool(ratification.find_overdue_drafts(self.connection, values, now))
        if values["autoReflect"]:
            idle_seconds = values["idleMinutes"] * 60.0  # 0: sessions are drafted only at their end
            # Sessions that ended before hardwon was installed are history, and nobody waits for their handoffs.
            set_up_at = sessions.read_set_up_time(self.connection)
            unread = reflections.list_unreflected_sessions(self.connection, now, idle_seconds)
            unread_sessions = [(number, last_at) for number, last_at in unread if last_at >= set_up_at]
            if idle_seconds:
                has_overdue = has_overdue or self._has_new_unrecorded
                self._start_walk_if_due(now, idle_seconds)
        if new_check := plan_check(unread_sessions, now, self._last_check, has_overdue=has_overdue):
            self._start_process(REFLECT)
            self._last_check = new_check
            self._has_new_unrecorded = False

    def _start_walk_if_due(self, now: float, idle_seconds: float) -> None:
        """Start looking through all transcripts in a thread, unless that was done lately; the next check uses it."""
        since_last_walk = now - self._last_walk_at
        # A negative time means that the clock was set back since.
        if not 0 <= since_last_walk < RECHECK_SECONDS:
            self._last_walk_at = now
            threading.Thread(target=self._find_unrecorded, args=(now, idle_seconds), daemon=True).start()

    def _find_unrecorded(self, now: float, idle_seconds: float) -> None:
        """Look for idle transcripts that no hook reported.

        These are new ones, and those so recent that they may not have been due the last time. Runs in a thread, because
        there may be thousands of transcripts.
        """
        # What cannot be read now is looked for again at the next walk.
        with suppress(OSError, UserError, db.StoreError), db.open(self.home) as connection:
            set_up_at = sessions.read_set_up_time(connection)
            # What changed later may not have been due at the last walk.
            fresh_since = now - idle_seconds * MAX_FACTOR * UNDER_WAY_FACTOR - RECHECK_SECONDS
            idle_transcripts = set[UnrecordedTranscript]()
            for transcript in find_unrecorded_transcripts(connection, os.environ, now):
                if set_up_at <= transcript.modified_at <= now - idle_seconds:
                    idle_transcripts.add(transcript)
                    if transcript not in self._unrecorded or transcript.modified_at > fresh_since:
                        self._has_new_unrecorded = True
            self._unrecorded = idle_transcripts

    def _find_plain_due(self) -> float | None:
        """Return when plain code has work: now, or when the next job is due; None if there is none."""
        now = clock.now()
        for session in sessions.list_sessions_to_fill(self.connection):
            if not pauses.is_paused(self.home, session["cwd"], now):
                return now
        if self._is_indexing_due(now):
            return now
        return jobs.find_next_due(self.connection, (jobs.DISTIL,))

    def _is_indexing_due(self, now: float) -> bool:
        """Return whether the documents to index need a process now, before the next turn ends."""
        backlog = documents.count_backlog(self.connection)
        if backlog != self._last_backlog:
            self._last_backlog = backlog
            self._backlog_since = now
        if not any(backlog):
            return False
        if self._is_index_behind:
            return True
        # Trying again would fail again, every ten seconds.
        if backlog == self._unindexable_backlog:
            return False
        is_quiet = now - self._backlog_since >= _QUIET_BACKLOG_SECONDS
        return is_quiet or sum(backlog) >= _LARGE_BACKLOG

    def _start_process(self, kind: str, *arguments: str) -> None:
        """Start a job process, and a thread that waits for its end."""
        path = os.path.join(self.home, paths.WORKER_LOG)
        log_descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with open(log_descriptor, "a") as log_file, lifecycle.open_jobs_lock(self.home) as jobs_lock:
            process = subprocess.Popen(
                [sys.executable, "-I", "-m", *_COMMANDS[kind], *arguments],
                env=build_environment(self.home),
                stdin=subprocess.DEVNULL,
                stdout=log_file,
                stderr=log_file,
                start_new_session=True,
                pass_fds=(jobs_lock,),
            )
        self._running_jobs[kind] = process
        if kind == _SCAN:
            log.info("scan started, process %d", process.pid)
        threading.Thread(target=self._wait_for_exit, args=(kind, process), daemon=True).start()

    def _wait_for_exit(self, kind: str, process: subprocess.Popen[bytes]) -> None:
        """Report a process's end to the event loop. Runs in a thread."""
        process.wait()
        with suppress(RuntimeError):  # the worker has ended
            self._loop.call_soon_threadsafe(self._handle_exit, kind, process)

    def _handle_exit(self, kind: str, process: subprocess.Popen[bytes]) -> None:
        """Go on after a process that ended.

        After a scan start the next one; after others release their jobs, publish their observations, and start what is
        due unless they failed.
        """
        self._running_jobs.pop(kind, None)
        has_failed = process.returncode not in (0, jobs.EXIT_UNFINISHED)
        if has_failed or kind == _SCAN:
            log.log(logging.WARNING if has_failed else logging.INFO, "%s: ended %s", kind, process.returncode)
        if kind == _SCAN:
            if self._waiting_scans:
                self.start_report_scan(self._waiting_scans.popitem()[0])
            return
        try:
            jobs.release_leases(self.connection, f"{process.pid}.")
            for observation in observations.list_after(self.connection, self._last_published_id):
                self._publish_message("observation", observation)
            self._last_published_id = observations.find_last_id(self.connection)
            if process.returncode == jobs.EXIT_UNFINISHED:
                self._is_index_behind = True  # its time was over before everything was indexed
            elif kind == jobs.DISTIL and not has_failed:
                self._is_index_behind = False
                # It had time for everything, so what is left cannot be indexed.
                self._unindexable_backlog = documents.count_backlog(self.connection)
            self._publish_message("job", dict(jobs.count_by_state(self.connection)))
        except db.StoreError as error:
            log.warning("after %s: %s", kind, error)
        # A process that failed is tried again at the next tick: at once it would fail in a loop.
        if not has_failed:
            self.start_due_jobs()

    def is_busy(self) -> bool:
        return bool(self._running_jobs)

    def stop(self) -> None:
        """Stop the job processes: each of their steps is one transaction, and the next worker goes on.

        A scan is stopped as well: `hardwon stop` must leave nothing behind that still writes to the home.
        """
        ending_processes = list(self._running_jobs.values())
        for process in ending_processes:
            process.terminate()
        for process in ending_processes:
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class Housekeeping:
    """Owns the thread that drains the spool, deletes old claims and sessions, and keeps the database within its limit.

    It has its own connection, so a hook waits for it only if both write, and then for one short transaction.
    """

    def __init__(self, home: str, get_seconds: Callable[[], float]) -> None:
        """Prepare the thread; `get_seconds` is a monotonic clock, which setting the system's time does not change."""
        self.home = home
        self._get_seconds = get_seconds
        self._thread: threading.Thread | None = None
        self._stop_event = threading.Event()
        self._next_purge_at = get_seconds()
        self._has_caught_up = False  # undistilled turns were queued, which needs to be done only once
        self._is_within_limit = False  # as of the last purge

    def start(self, values: Mapping[str, Any], *, is_quiet: bool) -> None:
        """Start a round unless one is running; if `is_quiet`, it may keep the database busy for longer."""
        if not self.is_busy():
            self._thread = threading.Thread(target=self._run_tasks, args=(values, is_quiet), daemon=True)
            self._thread.start()

    def is_busy(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def stop(self) -> None:
        """Stop at the next pause of the purge; the next worker goes on with it."""
        self._stop_event.set()
        if self._thread:
            self._thread.join(_HOUSEKEEPING_STOP_SECONDS)

    def _run_tasks(self, values: Mapping[str, Any], is_quiet: bool) -> None:
        """Do one round, in a thread; what fails is tried again in the next."""
        try:
            with db.open(self.home) as connection:
                drain_spool(self.home, connection)
                claims.prune_old(self.home, clock.now() - _CLAIM_DAYS * 86_400)
                pauses.remove_ended_pauses(self.home, clock.now())
                sessions.delete_empty_sessions(connection, clock.now())
                # Once in the life of a worker: turns that were left undistilled, such as by an older version.
                if not self._has_caught_up:
                    turns.enqueue_undistilled(connection, clock.now())
                    self._has_caught_up = True
                self._enforce_size(connection, values, is_quiet)
        except (OSError, db.StoreError, UserError) as error:
            log.warning("housekeeping: %s", error)

    def _enforce_size(self, connection: db.Connection, values: Mapping[str, Any], is_quiet: bool) -> None:
        """Delete what is too old or too much, once an hour, and at once when the database outgrows its limit."""
        if is_quiet and not retention.can_release_pages(connection):
            # Rewriting takes a temporary copy and then the whole write-ahead log.
            needed_bytes = 3 * retention.measure_file_bytes(self.home)
            if shutil.disk_usage(self.home).free > needed_bytes:
                log.info("rewriting %s so that it can shrink", paths.DATABASE)
                retention.rebuild_database(connection)
        max_bytes = values["maxDbMb"] * 1024 * 1024
        has_grown = self._is_within_limit and retention.measure_used_bytes(connection) > max_bytes
        if self._get_seconds() < self._next_purge_at and not has_grown:
            return
        deleted_counts, used_bytes = retention.enforce_limits(
            connection,
            days=values["retentionDays"],
            message_days=values["messageRetentionDays"],
            max_bytes=max_bytes,
            now=clock.now(),
            # Half of the time is left to other writers; when the worker ends, the next one goes on.
            should_continue=lambda: not self._stop_event.wait(retention.SLICE_SECONDS),
        )
        if deleted_counts:
            summary = ", ".join(f"{count} {table}" for table, count in deleted_counts.items())
            log.info("deleted by retention: %s; %d bytes in use", summary, used_bytes)
        self._is_within_limit = used_bytes <= max_bytes
        interval = _PURGE_INTERVAL_SECONDS if self._is_within_limit else _PURGE_RETRY_SECONDS
        self._next_purge_at = self._get_seconds() + interval
        if not self._is_within_limit and not self._stop_event.is_set():
            log.warning("%s has %d bytes, above maxDbMb, and no more events can be deleted", paths.DATABASE, used_bytes)


class TeamSync:
    """Owns the thread that exchanges records with the team's server, and the time of the next exchange."""

    def __init__(self, home: str, get_seconds: Callable[[], float]) -> None:
        """Prepare the first exchange, which is due at once; `get_seconds` is a monotonic clock."""
        self._home = home
        self._get_seconds = get_seconds
        self._thread: threading.Thread | None = None
        self._due_at = 0.0
        self._interval = _INTERVAL_SECONDS  # longer while the server is away
        self._counts_due_at = 0.0  # when to report next what lessons came to

    def start_if_due(self) -> None:
        """Start an exchange if this machine is in a team and none is running."""
        if self._get_seconds() < self._due_at or (self._thread and self._thread.is_alive()):
            return
        if not os.path.exists(os.path.join(self._home, paths.TEAM_CONFIG)):
            return  # this machine is in no team
        # Set before the exchange, which may hang until its timeout.
        self._due_at = self._get_seconds() + self._interval
        self._thread = threading.Thread(target=self._exchange, daemon=True)
        self._thread.start()

    def _exchange(self) -> None:
        """Exchange records and apply what arrived; while the server is away, wait longer after each try."""
        # Imported here because only machines in a team need cryptography and the network.
        from hardwon.actions.team_decisions import Team, apply_state, report_counts
        from hardwon.team import client

        try:
            config = client.read_config(self._home)
            if config is None:
                return
            with db.open(self._home) as connection:
                client.exchange_records(connection, config)
                team = Team(self._home, connection, config)
                for message in apply_state(team):
                    log.info("team: %s", message)
                if self._get_seconds() >= self._counts_due_at and config.key:
                    report_counts(team)
                    self._counts_due_at = self._get_seconds() + _COUNTS_SECONDS
        except (client.ServerAway, client.ServerRefusal, UserError, OSError, db.StoreError) as error:
            self._interval = min(self._interval * 2, _MAX_INTERVAL_SECONDS)
            log.info("team: not exchanged, next try in %.0f s: %s", self._interval, error)
        else:
            self._interval = _INTERVAL_SECONDS
