"""The worker process: a socket for hooks, and a clock for what has no hook."""

from __future__ import annotations

import asyncio
import logging
import logging.handlers
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any

from hardwon import claims, clock, paths, pauses, settings
from hardwon.actions import approvals, prompts
from hardwon.agents import plugin_discovery, prompt_origin
from hardwon.errors import UserError
from hardwon.fallback import worker_start
from hardwon.sessions import ingest, spool
from hardwon.store import db, retention, sessions, set_up, turns
from hardwon.store.migrations import MIGRATIONS
from hardwon.web.http import HttpServer
from hardwon.web.live import LiveFeed
from hardwon.worker import lifecycle
from hardwon.worker.background import JobRunner
from hardwon.worker.hook_responder import FIRST_BUILD_SECONDS, HookResponder

TICK_SECONDS = 10.0
PURGE_INTERVAL_SECONDS = 3600.0
PURGE_RETRY_SECONDS = 60.0  # with more than fits: what is distilled meanwhile may go
QUIET_SECONDS = 60.0
SHUTDOWN_SECONDS = 1.0
API_DELAY_SECONDS = 0.5
MAX_MESSAGE_BYTES = 8 * 1024 * 1024  # with more the hook does its work itself, while the worker answers others
MESSAGE_TIMEOUT_SECONDS = 5.0
CLAIM_DAYS = 14
log = logging.getLogger(__name__)
MonotonicClock = Callable[[], float]


def main(home: str, *, seconds: MonotonicClock = time.monotonic, tick: float = TICK_SECONDS) -> int:
    """Serve until told to stop; the lock is let go by the process ending, so that who waits for it sees us gone."""
    if lifecycle.take_lock(home) is None:
        return 0
    os.umask(0o077)
    _log_to(home)
    try:
        connection = db.connect(home, busy_milliseconds=200, ignore_epoch=True)
    except UserError as wrong:
        log.error("no worker: %s; %s", wrong.say, wrong.fix)
        return 1
    _note_set_up(connection)
    _approve_what_was_in_force(home, connection)
    asyncio.run(_serve(home, connection, seconds, tick))
    connection.close()
    log.info("stopped")
    return 0


def _note_set_up(connection: db.Connection) -> None:
    """Note when hardwon was set up; a database that is busy now is asked again at the next start."""
    try:
        set_up.record_time(connection, clock.now())
    except db.StoreError as wrong:
        log.warning("the time of setting up is not noted yet: %s", wrong)


def _approve_what_was_in_force(home: str, connection: db.Connection) -> None:
    """Upgrade a home that was made before approvals were recorded."""
    try:
        if count := approvals.ensure_upgraded(home, connection, clock.now()):
            log.info("approved what was in force before the upgrade: %d", count)
    except (db.StoreError, UserError, OSError) as wrong:
        log.warning("what was in force is not approved yet: %s", wrong)


def _log_to(home: str) -> None:
    path = os.path.join(home, paths.WORKER_LOG)
    paths.make_private_folder(os.path.dirname(path))
    handler = logging.handlers.RotatingFileHandler(path, maxBytes=1_000_000, backupCount=2, encoding="utf-8")
    formatter = logging.Formatter("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%SZ")
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    logging.basicConfig(level=logging.INFO, handlers=[handler])


async def _serve(home: str, connection: db.Connection, seconds: MonotonicClock, tick: float) -> None:
    installed = lifecycle.read_install_stamp()
    live = LiveFeed()
    background = JobRunner(home, connection, live.publish)
    desk = HookResponder(home, connection, background.handle_event, live.publish)
    desk.load_index(FIRST_BUILD_SECONDS)
    asked_to_stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, asked_to_stop.set)
    door, chores = HookSocket(home, desk, seconds), Housekeeping(home, seconds)
    http = HttpServer(home, desk, live, seconds)
    desk.viewer_url = _reserve_port(http, _values(desk)["apiPort"])
    _tell_plugins(home)
    await door.open()

    def wake() -> None:
        """Look for work now, and say where we are; see `lifecycle.wake` and `lifecycle.status`."""
        door.announce_if_lost()
        background.start_due_jobs()

    asyncio.get_running_loop().add_signal_handler(signal.SIGCONT, wake)
    worker_start.clear_failed_starts(home)
    log.info("serving %s, process %d", home, os.getpid())
    opening = asyncio.create_task(_open_api(http, door))
    while not asked_to_stop.is_set():
        desk.retry_unwritten_events()
        background.start_due_jobs()
        values = _values(desk)
        quiet = seconds() - door.last_message_at >= QUIET_SECONDS and not background.is_busy()
        chores.start(values, is_quiet=quiet)
        with suppress(TimeoutError):
            await asyncio.wait_for(asked_to_stop.wait(), tick)
        due = (
            desk.has_unwritten_events
            or chores.is_busy()
            or background.is_busy()
            or live.client_count
            or _has_spooled(home)
        )
        if live.client_count:
            http.note_activity()
        heard = max(door.last_message_at, http.last_activity_at)
        idle = lifecycle.can_exit_idle(seconds(), heard, values["idleExitMinutes"], bool(due))
        if why := _reason_to_leave(
            home, connection, idle=idle, changed=not due and lifecycle.read_install_stamp() != installed
        ):
            log.warning("leaving: %s", why)
            break
        if not asked_to_stop.is_set():
            await door.repair()
    await door.close()
    opening.cancel()
    await http.stop()
    desk.save_unwritten_events()
    chores.stop()
    background.stop()


def _reserve_port(http: HttpServer, port: int) -> str:
    """Return the viewer's address; empty if there is to be no API, or no port for it."""
    if port < 0:
        return ""
    try:
        return http.reserve_port(port)
    except (OSError, UserError) as wrong:
        log.warning("no API: %s", wrong)
        return ""


async def _open_api(http: HttpServer, door: HookSocket) -> None:
    """Hooks come first: the API's libraries are loaded once they have been answered for a while, in a thread."""
    if http.port is None:
        return
    await asyncio.sleep(API_DELAY_SECONDS)
    try:
        await asyncio.to_thread(import_module, "hardwon.web.server")
        door.announce(await http.start())
        log.info("the API is at port %d", http.port)
    except (ImportError, OSError, UserError, db.StoreError) as wrong:
        log.warning("no API: %s", wrong)


def _tell_plugins(home: str) -> None:
    try:
        plugin_discovery.write_discovery_files(home)
    except OSError as wrong:
        log.warning("plugins may not find this hardwon: %s", wrong)


def _values(desk: HookResponder) -> dict[str, Any]:
    """The settings in force: those of the last good config.json."""
    index = desk.load_index()
    return {**settings.resolve_settings({}), **(index.settings if index else {})}


def _has_spooled(home: str) -> bool:
    try:
        return any(spool.read_spooled_records(home))
    except OSError:
        return True


def _reason_to_leave(home: str, connection: db.Connection, *, idle: bool, changed: bool) -> str:
    """Why this worker is of no use any more, empty if it is. The next session starts one that is."""
    if not lifecycle.is_lock_owner(home):
        return "the home is gone or has another worker"
    with suppress(db.StoreError):
        if db.read_schema_version(connection) > len(MIGRATIONS):
            return f"{paths.DATABASE} was brought up to date by a newer hardwon"
    if changed:
        return "another version was installed"
    return "no hook for a long time" if idle else ""


class HookSocket:
    """Owns the socket that hooks come to, and knows when one came last."""

    def __init__(self, home: str, desk: HookResponder, seconds: MonotonicClock) -> None:
        self.home, self._desk, self._seconds = home, desk, seconds
        self.last_message_at = seconds()
        self._since = clock.now()
        self._port: int | None = None
        self._talks: set[asyncio.Task[None] | None] = set()

    async def open(self) -> None:
        """Bind the socket and point the home's link at it; hooks read the link, so they need no environment."""
        self._address = lifecycle.get_socket_path(self.home)
        with suppress(FileNotFoundError):
            os.unlink(self._address)
        self._server = await asyncio.start_unix_server(self._talk, path=self._address, backlog=512)
        link = os.path.join(self.home, paths.SOCKET)
        fresh = f"{link}.{os.getpid()}.new"
        with suppress(FileNotFoundError):
            os.unlink(fresh)
        os.symlink(self._address, fresh)
        os.replace(fresh, link)
        self.announce(self._port)

    def announce(self, port: int | None) -> None:
        self._port = port
        lifecycle.write_announcement(self.home, socket_address=self._address, port=port, started_at=self._since)

    async def repair(self) -> None:
        if not os.path.exists(self._address):
            log.warning("the socket was removed by somebody; made again")
            self._server.close()
            await self.open()
        self.announce_if_lost()

    def announce_if_lost(self) -> None:
        """Say again where this worker is to be found, if what it said is gone or spoilt."""
        if lifecycle.is_announced(self.home) or not lifecycle.is_lock_owner(self.home):
            return
        log.warning("%s was removed or changed by somebody; written again", paths.WORKER_INFO)
        try:
            self.announce(self._port)
        except OSError as wrong:  # tried again at the next look
            log.warning("%s cannot be written: %s", paths.WORKER_INFO, wrong)

    async def close(self) -> None:
        """Let nobody in, and answer those who are. Who is sent away goes to the spool."""
        if lifecycle.is_lock_owner(self.home) or not os.path.exists(self.home):
            for path in (os.path.join(self.home, paths.SOCKET), self._address):
                with suppress(FileNotFoundError):
                    os.unlink(path)
        await asyncio.sleep(0.01)  # those who had found the socket before
        self._server.close()
        if self._talks:
            await asyncio.wait([talk for talk in self._talks if talk], timeout=SHUTDOWN_SECONDS)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One hook: its whole message, one answer ending in a newline that says it is complete."""
        task = asyncio.current_task()
        self._talks.add(task)
        self.last_message_at = self._seconds()
        try:
            async with asyncio.timeout(MESSAGE_TIMEOUT_SECONDS):
                message = await _read(reader)
                sender = prompt_origin.get_peer_pid(writer.get_extra_info("socket"))
                answer = self._desk.answer(message, sender) if message is not None else b""
                if answer:
                    writer.write(answer + b"\n")
                    await writer.drain()
        except (TimeoutError, OSError):
            pass
        finally:
            self._talks.discard(task)
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


async def _read(reader: asyncio.StreamReader) -> bytes | None:
    parts, size = [], 0
    while part := await reader.read(1 << 18):
        parts.append(part)
        size += len(part)
        if size > MAX_MESSAGE_BYTES:
            return None
    return b"".join(parts)


class Housekeeping:
    """Owns the thread that does what no hook waits for: the spool, claims of sessions long over, retention.

    It has a connection of its own, so that a hook waits for it only if both write, and then for one short transaction.
    """

    def __init__(self, home: str, seconds: MonotonicClock) -> None:
        self.home, self._seconds = home, seconds
        self._thread: threading.Thread | None = None
        self._leaving = threading.Event()
        self._next_purge = seconds()
        self._caught_up = False
        self._fitted = False  # after the last purge

    def start(self, values: Mapping[str, Any], *, is_quiet: bool) -> None:
        """See to everything once more, unless that is being done; quiet: the store may be busy for longer."""
        if not self.is_busy():
            self._thread = threading.Thread(target=self._do, args=(values, is_quiet), daemon=True)
            self._thread.start()

    def is_busy(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def stop(self) -> None:
        """Stop at the next pause; what is cut off is done by the next worker."""
        self._leaving.set()
        if self._thread:
            self._thread.join(SHUTDOWN_SECONDS)

    def _do(self, values: Mapping[str, Any], quiet: bool) -> None:
        try:
            connection = db.connect(self.home)
            try:
                ingest.drain_spool(
                    self.home, connection, lambda prompt, cwd: prompts.handle_spooled_prompt(self.home, prompt, cwd)
                )
                claims.prune_old(self.home, clock.now() - CLAIM_DAYS * 86_400)
                pauses.remove_ended_pauses(self.home, clock.now())
                sessions.delete_empty_sessions(connection, clock.now())
                if not self._caught_up:
                    turns.enqueue_undistilled(connection, clock.now())
                    self._caught_up = True
                self._see_to_size(connection, values, quiet)
            finally:
                connection.close()
        except (OSError, db.StoreError, UserError) as wrong:
            log.warning("housekeeping: %s", wrong)

    def _see_to_size(self, connection: db.Connection, values: Mapping[str, Any], quiet: bool) -> None:
        if quiet and not retention.can_release_pages(connection) and self._has_room():
            log.info("%s is written anew, so that it can shrink", paths.DATABASE)
            retention.rebuild_database(connection)
        days, most = values["retentionDays"], values["maxDbMb"] * 1024 * 1024
        grew = self._fitted and retention.measure_used_bytes(connection) > most
        if self._seconds() < self._next_purge and not grew:
            return
        gone, left = retention.enforce_limits(
            connection, days=days, max_bytes=most, now=clock.now(), should_continue=self._pause
        )
        if gone:
            told = ", ".join(f"{count} {table}" for table, count in gone.items())
            log.info("too old or too much: %s; %d bytes are in use", told, left)
        self._fitted = left <= most
        self._next_purge = self._seconds() + (PURGE_INTERVAL_SECONDS if self._fitted else PURGE_RETRY_SECONDS)
        if left > most and not self._leaving.is_set():
            log.warning("%s has %d bytes, more than maxDbMb, and no events are left to go", paths.DATABASE, left)

    def _has_room(self) -> bool:
        """The file is written to a temporary one, then into the log."""
        return shutil.disk_usage(self.home).free > 3 * retention.measure_file_bytes(self.home)

    def _pause(self) -> bool:
        """Half of the time is for others. False when the worker leaves."""
        return not self._leaving.wait(retention.SLICE_SECONDS)
