"""Starts and stops the HTTP server: on loopback only, at the configured port or the next free one."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
from collections.abc import Callable

from hardwon import paths
from hardwon.errors import UserError
from hardwon.web.access_control import VIEWER_HOST
from hardwon.web.live import LiveFeed
from hardwon.worker.hook_responder import HookResponder

_PORT_TRIES = 50  # each home of a user has its own worker, and takes the next free port
_STOP_SECONDS = 1.5
TOKEN_FILE = "token"


def _load_token(home: str) -> str:
    """Return the token of this home, which is created once and readable by its owner alone."""
    path = os.path.join(home, TOKEN_FILE)
    try:
        if token := paths.read_text(path, "ascii").strip():
            return token
    except FileNotFoundError:
        pass
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not ASCII text"
        fix = f"move it away, and the worker writes a new one: mv {path} {path}.old"
        raise UserError(f"{path} cannot be read: {reason}", fix) from None
    new_token = secrets.token_urlsafe(32)
    paths.write_private(path, f"{new_token}\n".encode())
    return new_token


def _bind_port(port: int) -> socket.socket:
    """Return a socket on 127.0.0.1 at this port or the next free one; 0 means any free port."""
    for candidate_port in range(port, port + _PORT_TRIES):
        # Without the explicit protocol asyncio leaves Nagle's algorithm on, which delays an answer by 40 ms.
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", candidate_port if port else 0))
            listener.listen(128)
        except OSError:
            listener.close()
            continue
        return listener
    raise UserError(f"no port from {port} to {port + _PORT_TRIES - 1} is free", "hardwon config set apiPort 0")


class HttpServer:
    """Owns the HTTP server. Its libraries are loaded late, so that hooks are answered before that."""

    def __init__(
        self, home: str, responder: HookResponder, live_feed: LiveFeed, get_seconds: Callable[[], float]
    ) -> None:
        self._home = home
        self._responder = responder
        self._live_feed = live_feed
        self._get_seconds = get_seconds
        self.last_activity_at = get_seconds()
        self._task: asyncio.Task[None] | None = None
        self._listener: socket.socket | None = None
        self.port: int | None = None

    def note_activity(self) -> None:
        self.last_activity_at = self._get_seconds()

    def reserve_port(self, port: int) -> str:
        """Take the port before anything serves there, and return the viewer's address.

        A session that starts together with the worker shows the address before uvicorn is loaded; requests that come
        that early wait in the listener's queue.
        """
        self._listener = _bind_port(port)
        self.port = self._listener.getsockname()[1]
        return f"http://{VIEWER_HOST}:{self.port}"

    async def start(self) -> int:
        """Serve at the reserved port and return it."""
        from hardwon.web.server import create_server  # uvicorn and starlette take a quarter of a second

        assert self._listener is not None and self.port is not None
        self._server = create_server(
            self._home, self._responder, self._live_feed, _load_token(self._home), self.port, self.note_activity
        )
        self._task = asyncio.create_task(self._server.serve(sockets=[self._listener]))
        return self.port

    async def stop(self) -> None:
        """Stop serving; live streams end here."""
        if self._task is None:
            if self._listener is not None:
                self._listener.close()
            return
        # Live streams never end by themselves, so waiting for them would never end either.
        self._server.should_exit = True
        self._server.force_exit = True
        with contextlib.suppress(asyncio.CancelledError, TimeoutError):
            await asyncio.wait_for(self._task, _STOP_SECONDS)
