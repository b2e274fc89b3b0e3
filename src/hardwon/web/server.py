"""The HTTP server itself: everything that is slow to import, so `http` imports it late."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from hardwon.web.access_control import build_gate
from hardwon.web.api import ApiContext, create_api_app
from hardwon.web.app import Viewer, create_viewer_app
from hardwon.web.live import LiveFeed
from hardwon.worker.hook_responder import HookResponder

if TYPE_CHECKING:
    from asyncio import TimerHandle, Transport

_MAX_CONNECTIONS = 300  # 200 live listeners, and room for requests beside them
_HEAD_TIMEOUT_SECONDS = 10.0  # uvicorn itself waits for ever, and each waiting connection counts against the limit


class HeadTimeoutProtocol(H11Protocol):
    """Closes a connection if a request's headers take too long, since the caller is unknown until they arrive."""

    _head_timer: TimerHandle | None = None

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._update_head_timer()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._update_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop_head_timer()

    def _update_head_timer(self) -> None:
        """Start the timer while the headers of a request are awaited; stop it once they have arrived."""
        if self.conn.their_state is not h11.IDLE:
            self._stop_head_timer()
        elif self._head_timer is None:
            self._head_timer = self.loop.call_later(_HEAD_TIMEOUT_SECONDS, self.transport.close)

    def _stop_head_timer(self) -> None:
        if self._head_timer:
            self._head_timer.cancel()
            self._head_timer = None


def create_server(
    home: str, responder: HookResponder, live_feed: LiveFeed, token: str, port: int, note_activity: Callable[[], None]
) -> uvicorn.Server:
    """Return a server of the API and the viewer behind the gate, which the worker's own event loop runs."""
    api_app = create_api_app(ApiContext(home, responder, live_feed, note_activity))
    viewer_app = create_viewer_app(Viewer(home, live_feed, note_activity))
    config = uvicorn.Config(
        build_gate(api_app, viewer_app, token=token, port=port),
        http=HeadTimeoutProtocol,
        # The worker has its own log, and there is no proxy in front of this server that could set headers.
        lifespan="off",
        access_log=False,
        log_config=None,
        ws="none",
        proxy_headers=False,
        server_header=False,
        limit_concurrency=_MAX_CONNECTIONS,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    server.capture_signals = nullcontext  # type: ignore[assignment]  # the worker's own loop handles them
    return server
