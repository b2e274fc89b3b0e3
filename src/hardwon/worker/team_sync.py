"""Exchange records with the team's server in the background, in a thread of the worker."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from contextlib import closing

from hardwon import paths
from hardwon.errors import UserError
from hardwon.store import db

INTERVAL_SECONDS = 60.0
COUNTS_SECONDS = 86_400.0  # what lessons came to changes with every firing, and the log keeps each report
MAX_INTERVAL_SECONDS = 300.0  # while the server is away: how late a machine may notice that it is back
log = logging.getLogger(__name__)


class TeamSync:
    """Owns the thread and the time of the next exchange."""

    def __init__(self, home: str, get_seconds: Callable[[], float]) -> None:
        self._home, self._get_seconds = home, get_seconds
        self._thread: threading.Thread | None = None
        self._due_at, self._interval = 0.0, INTERVAL_SECONDS
        self._counts_due_at = 0.0

    def start_if_due(self) -> None:
        """Start an exchange if this machine is in a team and none is running."""
        if self._get_seconds() < self._due_at or (self._thread and self._thread.is_alive()):
            return
        if not os.path.exists(os.path.join(self._home, paths.TEAM_CONFIG)):
            return
        self._due_at = self._get_seconds() + self._interval
        self._thread = threading.Thread(target=self._exchange, daemon=True)
        self._thread.start()

    def _exchange(self) -> None:
        # Imported here because only machines in a team need cryptography and the network.
        from hardwon.actions.team_decisions import Team, apply_state, report_counts
        from hardwon.team import client

        try:
            config = client.read_config(self._home)
            if config is None:
                return
            with closing(db.connect(self._home)) as connection:
                client.exchange_records(connection, config)
                team = Team(self._home, connection, config)
                for message in apply_state(team):
                    log.info("team: %s", message)
                if self._get_seconds() >= self._counts_due_at and config.key:
                    report_counts(team)
                    self._counts_due_at = self._get_seconds() + COUNTS_SECONDS
        except (client.ServerAway, client.ServerRefusal, UserError, OSError, db.StoreError) as error:
            self._interval = min(self._interval * 2, MAX_INTERVAL_SECONDS)
            log.info("team: not exchanged, next try in %.0f s: %s", self._interval, error)
        else:
            self._interval = INTERVAL_SECONDS
