"""What the worker has done by processes of their own, so that no hook waits for it."""

from __future__ import annotations

import logging
import os
import subprocess
import sys

from hardwon import clock, paths, settings
from hardwon.distil import scan
from hardwon.errors import UserError
from hardwon.launch import environment
from hardwon.store import db
from hardwon.words import Event

log = logging.getLogger(__name__)


class Background:
    """Owns the processes."""

    def __init__(self, home: str, connection: db.Connection) -> None:
        self.home, self.connection = home, connection
        self._scan: subprocess.Popen[bytes] | None = None

    def heard(self, event: Event) -> None:
        if event.kind == "SessionStart":
            self.scan()

    def scan(self) -> None:
        """Mine the transcripts if it is due and nobody is at it."""
        self.reap()
        if self._scan is not None or not self._is_due():
            return
        path = os.path.join(self.home, paths.LOG)
        with open(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "a") as out:
            self._scan = subprocess.Popen(
                [sys.executable, "-I", "-m", "hardwon", "scan", "--auto"],
                env=environment(self.home),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        log.info("a scan has begun, process %d", self._scan.pid)

    def _is_due(self) -> bool:
        try:
            return scan.is_due(self.connection, settings.resolve(settings.read_config(self.home)), clock.now())
        except (UserError, db.StoreError) as wrong:
            log.warning("no background scan: %s", wrong)
            return False

    def reap(self) -> None:
        """Take note of what has ended."""
        if self._scan is not None and self._scan.poll() is not None:
            log.info("the scan ended with %s", self._scan.returncode)
            self._scan = None
