"""The worker process, which serves hooks on a Unix socket and runs jobs, housekeeping and the HTTP API."""

from __future__ import annotations

import asyncio
import logging
import logging.handlers
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any

from hardwon import clock, paths, settings
from hardwon.actions import approvals
from hardwon.agents import hook_settings, prompt_origin
from hardwon.errors import UserError
from hardwon.fallback import worker_start
from hardwon.sessions import spool
from hardwon.store import db, sessions
from hardwon.store.migrations import LATEST_VERSION
from hardwon.web.http import HttpServer
from hardwon.web.live import LiveFeed
from hardwon.worker import lifecycle
from hardwon.worker.background import Housekeeping, JobRunner, TeamSync
from hardwon.worker.hook_responder import FIRST_BUILD_SECONDS, HookResponder

_TICK_SECONDS = 10.0
QUIET_SECONDS = 60.0
_SHUTDOWN_SECONDS = 1.0
_API_DELAY_SECONDS = 0.5
_MAX_MESSAGE_BYTES = 8 * 1024 * 1024  # above this the hook uses its fallback, so that other hooks need not wait
_MESSAGE_TIMEOUT_SECONDS = 5.0
log = logging.getLogger(__name__)
MonotonicClock = Callable[[], float]


def main(home: str, *, seconds: MonotonicClock = time.monotonic, tick: float = _TICK_SECONDS) -> int:
    """Serve until stopped. The lock is released only when the process ends, so the next holder knows it is gone."""
    if lifecycle.take_lock(home) is None:
        return 0  # another process is the worker
    # Everything that the worker and its libraries write is for this user alone.
    os.umask(0o077)
    _configure_logging(home)
    try:
        # Hooks wait for this connection, so it gives up early and spools; it writes at once what it receives.
        connection = db.connect(home, busy_milliseconds=200, ignore_epoch=True)
    except UserError as error:
        log.error("no worker: %s; %s", error.message, error.fix)
        return 1
    _run_start_tasks(home, connection)
    asyncio.run(_serve(home, connection, seconds, tick))
    connection.close()
    log.info("stopped")
    return 0


def _run_start_tasks(home: str, connection: db.Connection) -> None:
    """Do what a new or upgraded home needs; a task that fails is tried again at the next start."""
    tasks: dict[str, Callable[[], object]] = {
        "record the time of the installation": lambda: sessions.record_set_up_time(connection, clock.now()),
        "approve what was in force before approvals were recorded": lambda: approvals.ensure_upgraded(
            home, connection, clock.now()
        ),
        "write the files by which plugins find hardwon": lambda: hook_settings.write_discovery_files(home),
    }
    for purpose, task in tasks.items():
        try:
            task()
        except (db.StoreError, UserError, OSError) as error:
            log.warning("could not %s: %s", purpose, error)


def _configure_logging(home: str) -> None:
    """Log to the worker's file, with times in UTC; a megabyte at most, and two earlier ones."""
    path = os.path.join(home, paths.WORKER_LOG)
    paths.make_private_folder(os.path.dirname(path))
    handler = logging.handlers.RotatingFileHandler(path, maxBytes=1_000_000, backupCount=2, encoding="utf-8")
    formatter = logging.Formatter("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%SZ")
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    logging.basicConfig(level=logging.INFO, handlers=[handler])


async def _serve(home: str, connection: db.Connection, get_seconds: MonotonicClock, tick_seconds: float) -> None:
    """Answer hooks until a signal or a reason to end comes; at each tick look for background work."""
    install_stamp = lifecycle.read_install_stamp()
    live_feed = LiveFeed()
    job_runner = JobRunner(home, connection, live_feed.publish)
    responder = HookResponder(home, connection, job_runner.handle_event, live_feed.publish)
    # Before the socket is open: the first hook should find a manifest.
    responder.load_index(FIRST_BUILD_SECONDS)
    stop_event = asyncio.Event()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signal_number, stop_event.set)
    hook_socket = HookSocket(home, responder, get_seconds)
    housekeeping = Housekeeping(home, get_seconds)
    team_sync = TeamSync(home, get_seconds)
    http_server = HttpServer(home, responder, live_feed, get_seconds)
    _reserve_api_port(http_server, responder)
    await hook_socket.open()

    # `wake_worker` sends this signal.
    asyncio.get_running_loop().add_signal_handler(signal.SIGCONT, job_runner.start_due_jobs)
    worker_start.clear_failed_starts(home)
    log.info("serving %s, process %d", home, os.getpid())
    api_task = asyncio.create_task(_start_api(http_server, hook_socket))
    while not stop_event.is_set():
        responder.retry_unwritten_events()
        job_runner.start_due_jobs()
        values = _get_settings(responder)
        is_quiet = get_seconds() - hook_socket.last_message_at >= QUIET_SECONDS and not job_runner.is_busy()
        housekeeping.start(values, is_quiet=is_quiet)
        team_sync.start_if_due()
        with suppress(TimeoutError):
            await asyncio.wait_for(stop_event.wait(), tick_seconds)
        has_work = (
            responder.has_unwritten_events
            or housekeeping.is_busy()
            or job_runner.is_busy()
            or live_feed.client_count > 0
            or _has_spooled_events(home)
        )
        # An open page of the viewer keeps the worker alive.
        if live_feed.client_count:
            http_server.note_activity()
        last_activity_at = max(hook_socket.last_message_at, http_server.last_activity_at)
        is_idle = lifecycle.can_exit_idle(get_seconds(), last_activity_at, values["idleExitMinutes"], has_work)
        is_reinstalled = not has_work and lifecycle.read_install_stamp() != install_stamp
        if reason := _find_exit_reason(home, connection, is_idle=is_idle, is_reinstalled=is_reinstalled):
            log.warning("stopping: %s", reason)
            break
        # The socket must not be created again once the worker is stopping.
        if not stop_event.is_set():
            await hook_socket.repair()
    # No new hooks first, so that nothing comes in while the rest is stopped.
    await hook_socket.close()
    api_task.cancel()
    await http_server.stop()
    responder.save_unwritten_events()
    housekeeping.stop()
    job_runner.stop()


def _reserve_api_port(http_server: HttpServer, responder: HookResponder) -> None:
    """Take the API's port, unless it is turned off; its libraries are loaded later."""
    api_port = _get_settings(responder)["apiPort"]
    if api_port < 0:
        return
    try:
        responder.viewer_url = http_server.reserve_port(api_port)
    except (OSError, UserError) as error:
        log.warning("no API: %s", error)


async def _start_api(http_server: HttpServer, hook_socket: HookSocket) -> None:
    """Load the API's libraries a moment later and in a thread, so that the first hooks do not wait for them."""
    if http_server.port is None:
        return  # the API is turned off, or no port was free
    await asyncio.sleep(_API_DELAY_SECONDS)
    try:
        await asyncio.to_thread(import_module, "hardwon.web.server")
        hook_socket.announce(await http_server.start())
        log.info("the API is at port %d", http_server.port)
    except (ImportError, OSError, UserError, db.StoreError) as error:
        log.warning("no API: %s", error)


def _get_settings(responder: HookResponder) -> dict[str, Any]:
    """Return the settings of the last valid config.json."""
    index = responder.load_index()
    return {**settings.resolve_settings({}), **(index.settings if index else {})}


def _has_spooled_events(home: str) -> bool:
    """Return whether an event waits in the spool for housekeeping."""
    try:
        return any(spool.read_spooled_records(home))
    except OSError:  # the folder cannot be read: stay, since there may be events in it
        return True


def _find_exit_reason(home: str, connection: db.Connection, *, is_idle: bool, is_reinstalled: bool) -> str:
    """Return why this worker should end, empty if it should not; the next session starts another."""
    if not lifecycle.is_lock_owner(home):
        return "the home was deleted or has another worker"
    with suppress(db.StoreError):  # the database is busy: the next tick looks again
        if db.read_schema_version(connection) > LATEST_VERSION:
            return f"a newer hardwon upgraded {paths.DATABASE}"
    if is_reinstalled:
        return "another version was installed"
    return "idle" if is_idle else ""


class HookSocket:
    """Owns the socket that hooks connect to, and the time of the last message."""

    def __init__(self, home: str, responder: HookResponder, get_seconds: MonotonicClock) -> None:
        self.home = home
        self._responder = responder
        self._get_seconds = get_seconds
        self.last_message_at = get_seconds()
        self._started_at = clock.now()
        self._port: int | None = None
        self._connection_tasks: set[asyncio.Task[None] | None] = set()

    async def open(self) -> None:
        """Bind the socket and link to it from the home, where hooks find it without environment variables."""
        self._socket_path = lifecycle.get_socket_path(self.home)
        with suppress(FileNotFoundError):
            os.unlink(self._socket_path)
        self._server = await asyncio.start_unix_server(self._handle_connection, path=self._socket_path, backlog=512)
        link = os.path.join(self.home, paths.SOCKET)
        # Replaced in one step, so that a hook finds the old socket or the new one, never none.
        new_link = f"{link}.{os.getpid()}.new"
        with suppress(FileNotFoundError):
            os.unlink(new_link)
        os.symlink(self._socket_path, new_link)
        os.replace(new_link, link)
        self.announce(self._port)

    def announce(self, port: int | None) -> None:
        """Write worker.json with the port of the API; None while there is no API."""
        self._port = port
        lifecycle.write_announcement(
            self.home, socket_address=self._socket_path, port=port, started_at=self._started_at
        )

    async def repair(self) -> None:
        """Create the socket and worker.json again if somebody deleted them."""
        if not os.path.exists(self._socket_path):
            log.warning("the socket was deleted; creating it again")
            self._server.close()
            await self.open()
        if lifecycle.is_announced(self.home) or not lifecycle.is_lock_owner(self.home):
            return
        log.warning("%s was deleted or changed; writing it again", paths.WORKER_INFO)
        try:
            self.announce(self._port)
        except OSError as error:  # the next tick tries again
            log.warning("%s cannot be written: %s", paths.WORKER_INFO, error)

    async def close(self) -> None:
        """Stop accepting connections and finish open ones. Hooks refused here use the spool."""
        # Another worker may have taken over the home, and its socket must stay.
        if lifecycle.is_lock_owner(self.home) or not os.path.exists(self.home):
            for path in (os.path.join(self.home, paths.SOCKET), self._socket_path):
                with suppress(FileNotFoundError):
                    os.unlink(path)
        await asyncio.sleep(0.01)  # let hooks connect that found the socket just before
        self._server.close()
        if self._connection_tasks:
            await asyncio.wait([task for task in self._connection_tasks if task], timeout=_SHUTDOWN_SECONDS)

    async def _handle_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one hook; the newline at the end tells it that the answer is complete."""
        task = asyncio.current_task()
        self._connection_tasks.add(task)
        self.last_message_at = self._get_seconds()
        try:
            async with asyncio.timeout(_MESSAGE_TIMEOUT_SECONDS):
                message = await _read_message(reader)
                sender_pid = prompt_origin.get_peer_pid(writer.get_extra_info("socket"))
                # A hook that gets no answer does the work in its own process: slower, but it blocks nobody else.
                if message is not None and (answer := self._responder.answer(message, sender_pid)):
                    writer.write(answer + b"\n")
                    await writer.drain()
        except (TimeoutError, OSError):
            pass  # the hook gave up, or its agent stopped it
        finally:
            self._connection_tasks.discard(task)
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


async def _read_message(reader: asyncio.StreamReader) -> bytes | None:
    """Return all that the hook sent; None if it is too long."""
    parts = []
    size = 0
    while part := await reader.read(1 << 18):
        parts.append(part)
        size += len(part)
        if size > _MAX_MESSAGE_BYTES:
            return None
    return b"".join(parts)
