"""Answering a hook: from its bytes to the bytes it prints."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from os import urandom
from time import monotonic, sleep, thread_time
from typing import Any

from hardwon import claims, clock, paths, pauses, projects
from hardwon.actions import approvals, prompts
from hardwon.agents import AGENT_PACKAGES, prompt_origin
from hardwon.agents.exchange import bound_event, read_event, write_reply
from hardwon.errors import UserError
from hardwon.lessons import manifest
from hardwon.lessons.delivery import is_answered_by_hardwon, open_index, reply_to_event
from hardwon.lessons.manifest_index import ManifestIndex
from hardwon.lessons.pattern_search import PatternCache
from hardwon.privacy import event_filter
from hardwon.privacy.cleaning import clean_text
from hardwon.privacy.identifiers import clean_ids
from hardwon.privacy.prompt_text import extract_agent_prompt
from hardwon.search import brief, file_memory
from hardwon.sessions import ingest, spool
from hardwon.store import db
from hardwon.types import ANSWERED_EVENTS, EMPTY_ANSWER, EMPTY_REPLY, Delivery, Event, HookReply, replace

PROTOCOL_VERSION = "1"
BUILD_SECONDS = 0.2
FIRST_BUILD_SECONDS = 10.0  # when the worker starts, and nobody waits yet
BUILD_RETRY_SECONDS = 10.0  # until a build that found no room is tried again
LEARN_SECONDS = 0.3
ORIGIN_SECONDS = 0.3  # for a decision only; it takes about a millisecond
SAVE_SECONDS = 1.5  # at the end, within which room may be made: whoever stops a worker waits 5 s
MAX_UNWRITTEN_EVENTS = 20_000
LIVE_MESSAGE_KINDS = {"SessionStart": "session", "SessionEnd": "session", "UserPromptSubmit": "prompt"}
MAX_LIVE_PROMPT_CHARS = 500
log = logging.getLogger(__name__)


def _with_denial(event: Event, reply: HookReply) -> Event:
    return replace(event, denied=True) if reply.deny and event.kind == "PreToolUse" else event


class HookResponder:
    """Where hooks are answered: owns the manifest in force and the connection that records deliveries."""

    def __init__(
        self,
        home: str,
        connection: db.Connection,
        heard: Callable[[Event], None] = lambda event: None,
        tell: Callable[[str, dict[str, object]], None] = lambda kind, what: None,
    ) -> None:
        self.home, self.connection, self._heard, self._tell = home, connection, heard, tell
        self.viewer_url = ""
        self._unwritten: list[tuple[Event, Event | None, tuple[Delivery, ...]]] = []
        self._index: ManifestIndex | None = None
        self._patterns = PatternCache()
        self._opened: object = None
        self._built_from: object = None
        self._again_at = 0.0

    def answer(self, message: bytes, sender: int = 0) -> bytes:
        """What to print for one message: a line `hardwon 1 HOST EVENT ID`, then the payload. Empty: not understood,
        so that the hook goes its own way. `sender` is the process that sent it, 0 if that is not known."""
        head, _, payload = message.partition(b"\n")
        words = head.decode("utf-8", "replace").split(" ")
        if len(words) != 5 or words[:2] != ["hardwon", PROTOCOL_VERSION] or words[2] not in AGENT_PACKAGES:
            return b""
        _, _, host, kind, id = words
        try:
            return self._answer(host, kind, id, payload, sender)
        except Exception:  # nothing of ours may reach the agent
            log.exception("no answer to %s %s", host, kind)
            return b""

    def _answer(self, host: str, kind: str, id: str, payload: bytes, sender: int) -> bytes:
        try:
            read = read_event(host, kind, payload)
        except (ValueError, RecursionError) as wrong:
            log.info("%s %s: a payload that is not one (%s)", host, kind, type(wrong).__name__)
            return EMPTY_ANSWER
        if read is None:
            return EMPTY_ANSWER
        event = replace(clean_ids(read), id=id, at=clock.now())
        index = self.load_index()
        if pauses.is_paused(self.home, event.cwd, event.at):
            claims.mark_paused(self.home, event.session, event.at)
            return EMPTY_ANSWER
        reply = EMPTY_REPLY if index is None else self._reply(event, index, sender)
        kept = event_filter.filter_hook_event(_with_denial(event, reply), self.home, self._limits(index))
        if is_answered_by_hardwon(event):
            kept = None
        if (reply.deliveries or kept) and not self._record(event, kept, reply.deliveries):
            return b""
        self._listen(event)
        return write_reply(event, reply)

    def record_event(self, event: Event) -> str:
        """Keep an event that came over the API; gives why it was not kept, nothing if it was."""
        event = replace(clean_ids(bound_event(event)), id=urandom(16).hex(), at=clock.now())
        limits = self._limits(self.load_index())
        if pauses.is_paused(self.home, event.cwd, event.at):
            return "paused"
        kept = event_filter.filter_hook_event(event, self.home, limits)
        if kept is None:
            if event.prompt and not extract_agent_prompt(event.prompt):
                return "not a prompt"
            return "denied" if projects.is_below(event.cwd, limits.get("denyProjects", ())) else "private"
        if not self._record(event, kept, ()):
            return "no room"
        self._listen(event)
        return ""

    def _listen(self, event: Event) -> None:
        """What happens at the ends of turns and sessions is begun soon, not at the next tick."""
        if event.kind in ("SessionStart", "Stop", "SessionEnd"):
            self._heard(event)

    def _limits(self, index: ManifestIndex | None) -> Mapping[str, Any]:
        return event_filter.read_recording_settings(self.home, {} if index is None else index.settings)

    def _reply(self, event: Event, index: ManifestIndex, sender: int) -> HookReply:
        started = thread_time()
        if index.settings.get("promptRecall"):
            file_memory.preload_search()
        return reply_to_event(
            event,
            index,
            self.home,
            search_pattern=self._patterns.search,
            get_cpu_seconds=lambda: thread_time() - started,
            handle_prompt=lambda event: self._learn(event, sender),
            find_doubt=lambda event: self._find_doubt(event, sender),
            read_brief=lambda home, project: brief.compile_or_reuse(self.connection, home, project, index.settings),
            recall_for_file=lambda event: file_memory.recall_for_file(self.connection, event),
            recall_for_prompt=lambda event: file_memory.recall_for_prompt(self.connection, self.home, event),
            announce_approvals=self._announce_approvals,
            viewer_address=self.viewer_url,
        )

    def _announce_approvals(self) -> str:
        """Return what was approved since the last session start; nothing while the database is busy."""
        try:
            return approvals.announce(self.connection, clock.now())
        except db.StoreError as wrong:
            log.warning("approvals are listed at the next start: %s", wrong)
            return ""

    def _find_doubt(self, event: Event, sender: int) -> str:
        """Return why a prompt is not known to be a person's. In a thread: reading about a hung process may hang."""
        doubts: list[str] = []
        looking = threading.Thread(
            target=lambda: doubts.append(prompt_origin.find_doubt(sender, event.host, self.home)), daemon=True
        )
        looking.start()
        looking.join(ORIGIN_SECONDS)
        return doubts[0] if doubts else prompt_origin.UNKNOWN_SENDER

    def _learn(self, event: Event, sender: int) -> str:
        """Checking and building may take longer than the agent waits: then the person is told where to look."""
        said: list[prompts.PromptAnswer] = []
        ended, late = threading.Event(), threading.Event()

        def learn() -> None:
            try:
                doubt = prompt_origin.find_doubt(sender, event.host, self.home)
                said.extend(prompts.handle_prompt(self.home, clean_text(event.prompt), event.cwd, doubt))
            except (OSError, db.StoreError) as wrong:
                log.warning("what a person typed was not kept: %s", wrong)
                said.append(prompts.PromptAnswer(f"NOT kept: {wrong}; type it again once that is mended", False))
            ended.set()
            if late.is_set():
                prompts.log_refused_answers(self.home, said)

        threading.Thread(target=learn).start()
        if not ended.wait(LEARN_SECONDS):
            late.set()
        if ended.is_set():
            return prompts.format_answers(said)
        return "hardwon: it takes a moment longer; hardwon doctor tells if it was not taken"

    def load_index(self, seconds: float = BUILD_SECONDS) -> ManifestIndex | None:
        """The manifest in force, built anew if a source changed; with a broken source the last good one.

        A build that takes longer goes on in its thread while calls are answered from the manifest before it.
        """
        spoilt = self._open()
        wanted = manifest.stat_sources(self.home)
        changed = self._index is None or wanted != self._index.source_stats
        if (spoilt or (changed and wanted != self._built_from)) and monotonic() >= self._again_at:
            self._built_from = wanted
            building = threading.Thread(target=self._build, daemon=True)
            building.start()
            building.join(seconds)
            self._open()
        return self._index

    def _open(self) -> bool:
        """Open the index file if it is another than before; True if it is not one, or was there and is gone."""
        try:
            stat = os.stat(os.path.join(self.home, paths.LESSON_INDEX))
            is_now = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            if is_now != self._opened:
                self._opened = is_now
                self._index, self._patterns = open_index(self.home), PatternCache()
        except OSError as wrong:
            log.info("no manifest to open: %s", wrong)
            was_there, self._opened = self._opened is not None, None
            return was_there
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
            self._built_from, self._again_at = None, monotonic() + BUILD_RETRY_SECONDS
            return
        log.info("manifest: %d lessons in force", built.lesson_count)
        for slug, reason in built.left_out:
            log.info("left out %s: %s", slug, reason)
        for fault in built.faults:
            log.warning("%s", fault)

    def _record(self, event: Event, kept: Event | None, delivered: tuple[Delivery, ...]) -> bool:
        """Committed before the answer goes out; with the database busy or full it waits in the spool.

        With no room for that either it waits here, and the hook of a tell is not told that it was taken.
        """
        try:
            ingest.commit_event(self.connection, kept, delivered, is_live=True)
            self._publish(kept, delivered)
        except db.StoreError as wrong:
            log.warning("%s waits in the spool: %s", event.kind, wrong)
            try:
                spool.spool_event(self.home, event, filtered_event=kept, deliveries=delivered)
            except OSError as full:
                log.warning("%s waits in memory: %s", event.kind, full)
                self._unwritten = [*self._unwritten, (event, kept, delivered)][-MAX_UNWRITTEN_EVENTS:]
                return bool(delivered) or event.kind in ANSWERED_EVENTS
        return True

    def _publish(self, kept: Event | None, delivered: tuple[Delivery, ...]) -> None:
        """Tell whoever looks on, of what is in the store by now."""
        if kept:
            named = ("host", "session", "kind", "at", "agent", "tool", "tool_use_id", "failed", "cwd")
            what = {name: getattr(kept, name) for name in named}
            self._tell(
                LIVE_MESSAGE_KINDS.get(kept.kind, "event"), {**what, "prompt": kept.prompt[:MAX_LIVE_PROMPT_CHARS]}
            )
        for one in delivered:
            self._tell("delivery", dict(one.__dict__))

    @property
    def has_unwritten_events(self) -> bool:
        return bool(self._unwritten)

    def save_unwritten_events(self, seconds: float = SAVE_SECONDS) -> None:
        """Store or spool at the worker's end what there was no room for; what cannot be saved is counted in the log.

        The logs of earlier days go first: an event is worth more than they are.
        """
        if not self._unwritten:
            return
        for number in (1, 2):
            with suppress(OSError):
                os.unlink(os.path.join(self.home, f"{paths.WORKER_LOG}.{number}"))
        end = monotonic() + seconds
        while True:
            self.retry_unwritten_events()
            self._spool_what_waits()
            if not self._unwritten or monotonic() >= end:
                break
            sleep(0.1)
        if self._unwritten:
            log.error("%d events were LOST: there was no room for them when the worker ended", len(self._unwritten))

    def _spool_what_waits(self) -> None:
        waiting, self._unwritten = self._unwritten, []
        for number, (event, kept, delivered) in enumerate(waiting):
            try:
                spool.spool_event(self.home, event, filtered_event=kept, deliveries=delivered)
            except OSError:
                self._unwritten = waiting[number:]
                return

    def retry_unwritten_events(self) -> None:
        """Try again what there was no room for."""
        waiting, self._unwritten = self._unwritten, []
        for number, (_, kept, delivered) in enumerate(waiting):
            try:
                ingest.commit_event(self.connection, kept, delivered)
            except db.StoreError as wrong:
                log.warning("%d events still wait in memory: %s", len(waiting) - number, wrong)
                self._unwritten = [*waiting[number:], *self._unwritten]
                return
