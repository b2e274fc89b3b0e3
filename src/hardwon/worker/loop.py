"""The worker process: a socket for hooks, and a clock for what has no hook."""

from __future__ import annotations

import asyncio
import logging
import logging.handlers
import os
import signal
import time
from contextlib import suppress

from hardwon import claims, clock, launch, paths, switches
from hardwon.capture import intake
from hardwon.recall import prompts
from hardwon.store import db
from hardwon.worker import lifecycle
from hardwon.worker.background import Background
from hardwon.worker.reply import Desk

TICK_SECONDS = 10.0
LARGEST_MESSAGE = 64 * 1024 * 1024
SLOWEST_MESSAGE = 5.0
CLAIM_DAYS = 14
log = logging.getLogger(__name__)


def main(home: str) -> int:
    """Serve until told to stop; the lock is let go by the process ending, so that who waits for it sees us gone."""
    if lifecycle.take_lock(home) is None:
        return 0
    _log_to(home)
    asyncio.run(_serve(home))
    return 0


def _log_to(home: str) -> None:
    path = os.path.join(home, paths.LOG)
    paths.private_folder(os.path.dirname(path))
    handler = logging.handlers.RotatingFileHandler(path, maxBytes=1_000_000, backupCount=2, encoding="utf-8")
    formatter = logging.Formatter("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%SZ")
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    logging.basicConfig(level=logging.INFO, handlers=[handler])


async def _serve(home: str) -> None:
    os.umask(0o077)
    connection = db.connect(home, busy_milliseconds=200)
    background = Background(home, connection)
    desk = Desk(home, connection, background.heard)
    desk.index()
    asked_to_stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, asked_to_stop.set)
    address = lifecycle.socket_path(home)
    server = await _listen(desk, home, address)
    lifecycle.announce(home, socket=address, port=None)
    launch.forget_starts(home)
    log.info("serving %s, process %d", home, os.getpid())
    while not asked_to_stop.is_set():
        desk.write_what_waits()
        _housekeeping(home, connection)
        background.reap()
        with suppress(TimeoutError):
            await asyncio.wait_for(asked_to_stop.wait(), TICK_SECONDS)
        if not lifecycle.is_ours(home):
            log.warning("the home is gone or has another worker")
            break
        if not asked_to_stop.is_set() and not os.path.exists(address):
            log.warning("the socket was removed by somebody; made again")
            server.close()
            address = lifecycle.socket_path(home)
            server = await _listen(desk, home, address)
            lifecycle.announce(home, socket=address, port=None)
    server.close()
    for path in (os.path.join(home, paths.SOCKET), address):
        with suppress(FileNotFoundError):
            os.unlink(path)
    connection.close()
    log.info("stopped")


async def _listen(desk: Desk, home: str, address: str) -> asyncio.Server:
    """Bind the socket and point the home's link at it; hooks read the link, so they need no environment."""
    with suppress(FileNotFoundError):
        os.unlink(address)
    server = await asyncio.start_unix_server(lambda r, w: _talk(desk, r, w), path=address, backlog=512)
    link = os.path.join(home, paths.SOCKET)
    fresh = f"{link}.{os.getpid()}.new"
    with suppress(FileNotFoundError):
        os.unlink(fresh)
    os.symlink(address, fresh)
    os.replace(fresh, link)
    return server


async def _talk(desk: Desk, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One hook: its whole message, one answer ending in a newline that says it is complete."""
    try:
        async with asyncio.timeout(SLOWEST_MESSAGE):
            message = await _read(reader)
            answer = desk.answer(message) if message is not None else b""
            if answer:
                writer.write(answer + b"\n")
                await writer.drain()
    except (TimeoutError, OSError):
        pass
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def _read(reader: asyncio.StreamReader) -> bytes | None:
    parts, size = [], 0
    while part := await reader.read(1 << 18):
        parts.append(part)
        size += len(part)
        if size > LARGEST_MESSAGE:
            return None
    return b"".join(parts)


def _housekeeping(home: str, connection: db.Connection) -> None:
    """What is due now and then: the spool, and claims of sessions long over."""
    try:
        intake.drain(home, connection, lambda prompt, cwd: prompts.learn(home, prompt, cwd))
        claims.prune(home, clock.now() - CLAIM_DAYS * 86_400)
        switches.forget_ended(home, clock.now())
    except (OSError, db.StoreError) as wrong:
        log.warning("housekeeping: %s", wrong)
