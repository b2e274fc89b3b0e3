"""The server behind `http`: everything that is slow to import."""

from __future__ import annotations

from contextlib import nullcontext

import uvicorn

from hardwon.viewer.app import Viewer
from hardwon.viewer.app import app as pages
from hardwon.worker.api import Api, app
from hardwon.worker.gate import gate
from hardwon.worker.live import MOST_CLIENTS, Live
from hardwon.worker.reply import Desk

MOST_CONNECTIONS = 300


def server(home: str, desk: Desk, live: Live, token: str, port: int) -> uvicorn.Server:
    viewer = Viewer(home, live.listen, lambda: live.clients >= MOST_CLIENTS)
    config = uvicorn.Config(
        gate(app(Api(home, desk, live)), pages(viewer), token=token, port=port),
        lifespan="off",
        access_log=False,
        log_config=None,
        ws="none",
        proxy_headers=False,
        server_header=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=1,
    )
    made = uvicorn.Server(config)
    made.capture_signals = nullcontext  # type: ignore[assignment]  # the worker's own loop handles them
    return made
