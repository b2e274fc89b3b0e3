"""A team server on loopback with a PostgreSQL of its own, in the test's process."""

from __future__ import annotations

import os
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn

from hardwon.team import server
from hardwon.team.postgres import ConnectionPool
from hardwon.team.server import TeamServer, build_app
from tests.support.house import wait_for
from tests.support.postgresql import Postgresql, run_postgresql


class RunningServer:
    """A server that can be stopped and started again at the same address."""

    def __init__(self, cluster: Postgresql) -> None:
        self.cluster = cluster
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        server.prepare_database(cluster.dsn)
        self.start()

    def start(self) -> None:
        self._pool = ConnectionPool(self.cluster.dsn, server.MAX_CONNECTIONS)
        app = build_app(TeamServer(self._pool))
        self._server = uvicorn.Server(uvicorn.Config(app, port=self.port, log_level="error"))
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        wait_for(lambda: self._server.started)

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._pool.close()

    def create_setup_code(self) -> str:
        code = os.urandom(8).hex()
        server.add_setup_code(self.cluster.dsn, code)
        return code


@contextmanager
def run_team_server() -> Iterator[RunningServer]:
    # Not in pytest's folder, which only its own user may enter: PostgreSQL runs as another one.
    with tempfile.TemporaryDirectory(prefix="hardwon-team-") as folder:
        os.chmod(folder, 0o755)
        with run_postgresql(Path(folder) / "postgresql") as cluster:
            server = RunningServer(cluster)
            try:
                yield server
            finally:
                server.stop()
