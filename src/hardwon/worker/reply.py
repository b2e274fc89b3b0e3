"""Answering a hook: from its bytes to the bytes it prints."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from time import thread_time

from hardwon import clock, paths, switches
from hardwon.capture import spool
from hardwon.core.index import Index
from hardwon.errors import UserError
from hardwon.hosts import MODULES
from hardwon.hosts import host as host_named
from hardwon.recall import manifest, prompts
from hardwon.recall.deliver import open_index, reply_to
from hardwon.recall.patterns import Patterns
from hardwon.store import db, injections
from hardwon.words import Event, Reply, replace

PROTOCOL = "1"
SILENCE = b"{}"
BUILD_SECONDS = 0.2
LEARN_SECONDS = 0.3
log = logging.getLogger(__name__)


class Desk:
    """Where hooks are answered: owns the manifest in force and the connection that records deliveries."""

    def __init__(
        self, home: str, connection: db.Connection, opened: Callable[[Event], None] = lambda event: None
    ) -> None:
        self.home, self.connection, self._opened_session = home, connection, opened
        self._index: Index | None = None
        self._patterns = Patterns()
        self._opened: object = None
        self._built_from: object = None

    def answer(self, message: bytes) -> bytes:
        """What to print for one message: a line `hardwon 1 HOST EVENT ID`, then the payload. Empty: not understood,
        so that the hook goes its own way."""
        head, _, payload = message.partition(b"\n")
        words = head.decode("utf-8", "replace").split(" ")
        if len(words) != 5 or words[:2] != ["hardwon", PROTOCOL] or words[2] not in MODULES:
            return b""
        _, _, host, kind, id = words
        try:
            return self._answer(host, kind, id, payload)
        except Exception:  # nothing of ours may reach the agent
            log.exception("no answer to %s %s", host, kind)
            return SILENCE

    def _answer(self, host: str, kind: str, id: str, payload: bytes) -> bytes:
        module = host_named(host)
        try:
            read = module.read(kind, payload)
        except (ValueError, RecursionError) as wrong:
            log.info("%s %s: a payload that is not one (%s)", host, kind, type(wrong).__name__)
            return SILENCE
        if read is None:
            return SILENCE
        event = replace(read, id=id, at=clock.now())
        index = self.index()
        if index is None or switches.paused(self.home, event.cwd, event.at):
            return SILENCE
        started = thread_time()
        reply = reply_to(
            event,
            index,
            self.home,
            search=self._patterns.search,
            seconds=lambda: thread_time() - started,
            learn=self._learn,
        )
        if reply.injections:
            self._record(event, reply)
        if event.kind == "SessionStart":
            self._opened_session(event)
        return module.write(event, reply)

    def _learn(self, event: Event) -> str:
        """Checking and building may take longer than the agent waits: then the person is told where to look."""
        said: list[str] = []
        learning = threading.Thread(target=lambda: said.append(prompts.learn(self.home, event.prompt, event.cwd)))
        learning.start()
        learning.join(LEARN_SECONDS)
        return said[0] if said else "hardwon: the lesson is being checked; see hardwon lessons list"

    def index(self) -> Index | None:
        """The manifest in force, built anew if a source changed; with a broken source the last good one.

        A large build goes on in its thread while calls are answered from the manifest before it.
        """
        spoilt = self._open()
        wanted = manifest.sources(self.home)
        changed = self._index is None or wanted != self._index.sources
        if spoilt or (changed and wanted != self._built_from):
            self._built_from = wanted
            building = threading.Thread(target=self._build, daemon=True)
            building.start()
            building.join(BUILD_SECONDS)
            self._open()
        return self._index

    def _open(self) -> bool:
        """Open the index file if it is another than before; True if it is not one."""
        try:
            stat = os.stat(os.path.join(self.home, paths.INDEX))
            is_now = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            if is_now != self._opened:
                self._opened = is_now
                self._index, self._patterns = open_index(self.home), Patterns()
        except OSError as wrong:
            log.info("no manifest to open: %s", wrong)
        except ValueError as wrong:
            log.warning("the manifest is built anew: %s", wrong)
            return True
        return False

    def _build(self) -> None:
        try:
            built = manifest.build(self.home, clock.now())
        except UserError as wrong:
            log.warning("the last good manifest stays in force: %s", wrong)
            return
        except (OSError, ValueError) as wrong:
            log.warning("the manifest could not be built and is tried again: %s", wrong)
            self._built_from = None
            return
        log.info("manifest: %d lessons in force", built.count)
        for slug, reason in built.left_out:
            log.info("left out %s: %s", slug, reason)
        for fault in built.faults:
            log.warning("%s", fault)

    def _record(self, event: Event, reply: Reply) -> None:
        """Recorded before the answer goes out; with the database busy or full it waits in the spool."""
        try:
            injections.add(self.connection, reply.injections)
        except db.StoreError as wrong:
            log.warning("a delivery waits in the spool: %s", wrong)
            try:
                spool.keep(self.home, event, injections=reply.injections)
            except OSError as full:
                log.warning("a delivery could not be recorded: %s", full)
