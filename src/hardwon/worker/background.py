"""What the worker has done by processes of their own, so that no hook waits for it."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys

from hardwon import clock, paths, settings, switches
from hardwon.distil import scan
from hardwon.errors import UserError
from hardwon.launch import environment
from hardwon.store import db, sessions
from hardwon.words import Event

FILL_SECONDS = 0.5  # after the end of a turn: the agent may still be writing its transcript
END_SECONDS = 0.5
log = logging.getLogger(__name__)


class Background:
    """Owns the processes."""

    def __init__(self, home: str, connection: db.Connection) -> None:
        self.home, self.connection = home, connection
        self._loop = asyncio.get_running_loop()
        self._scan: subprocess.Popen[bytes] | None = None
        self._fill: subprocess.Popen[bytes] | None = None

    def heard(self, event: Event) -> None:
        if event.kind == "SessionStart":
            self.scan()
        else:
            self._loop.call_soon_threadsafe(self._loop.call_later, FILL_SECONDS, self.fill)

    def scan(self) -> None:
        """Mine the transcripts if it is due and nobody is at it."""
        self._note()
        if self._scan is None and self._is_due():
            self._scan = self._run("hardwon", "scan", "--auto")
            log.info("a scan has begun, process %d", self._scan.pid)

    def fill(self) -> None:
        """Read the transcripts of sessions for what hooks missed, if any wait for it and nobody is at it."""
        self._note()
        if self._fill is None and self._is_waited_for():
            self._fill = self._run("hardwon.capture.fill")

    def _run(self, *command: str) -> subprocess.Popen[bytes]:
        path = os.path.join(self.home, paths.LOG)
        with open(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "a") as out:
            return subprocess.Popen(
                [sys.executable, "-I", "-m", *command],
                env=environment(self.home),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    def _is_due(self) -> bool:
        try:
            return scan.is_due(self.connection, settings.resolve(settings.read_config(self.home)), clock.now())
        except (UserError, db.StoreError) as wrong:
            log.warning("no background scan: %s", wrong)
            return False

    def _is_waited_for(self) -> bool:
        """With settings that cannot be read it waits: they may deny what the transcript has."""
        try:
            waiting = sessions.to_fill(self.connection)
            if waiting:
                settings.read_config(self.home)
        except (UserError, db.StoreError):
            return False
        return any(not switches.paused(self.home, one["cwd"], clock.now()) for one in waiting)

    def is_busy(self) -> bool:
        return self._scan is not None or self._fill is not None

    def reap(self) -> None:
        """Take note of what has ended, and see to sessions that were left over or failed."""
        self._note()
        self.fill()

    def _note(self) -> None:
        if self._scan is not None and self._scan.poll() is not None:
            log.info("the scan ended with %s", self._scan.returncode)
            self._scan = None
        if self._fill is not None and self._fill.poll() is not None:
            if self._fill.returncode:
                log.warning("filling sessions ended with %s", self._fill.returncode)
            self._fill = None

    def end(self) -> None:
        """Cut off the filling of sessions: every step of it is committed whole, and the next worker goes on."""
        if self._fill is None or self._fill.poll() is not None:
            return
        self._fill.terminate()
        try:
            self._fill.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._fill.kill()
            self._fill.wait()
