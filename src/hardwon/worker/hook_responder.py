"""Answering a hook: from its bytes to the bytes it prints."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from os import urandom
from time import monotonic, sleep, thread_time
from typing import Any

from hardwon import claims, clock, paths, pauses, projects
from hardwon.actions import approvals, prompts
from hardwon.agents import AGENT_PACKAGES, bound_event, prompt_origin, read_event, write_reply
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
from hardwon.text.brief_layout import BriefLine, RecalledItem
from hardwon.types import ANSWERED_EVENTS, EMPTY_ANSWER, EMPTY_REPLY, Delivery, Event, HookReply, Pattern, replace

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


def _mark_denied(event: Event, reply: HookReply) -> Event:
    return replace(event, denied=True) if reply.deny and event.kind == "PreToolUse" else event


class WorkerSources:
    """What the worker answers one event with: its patterns, the store, and the process that asked."""

    def __init__(self, responder: HookResponder, index: ManifestIndex, sender_pid: int) -> None:
        self._responder, self._index, self._sender_pid = responder, index, sender_pid
        self._started_at = thread_time()
        self.viewer_address = responder.viewer_url

    def search_pattern(self, pattern: Pattern, text: str) -> bool:
        return self._responder.search_pattern(pattern, text)

    def get_cpu_seconds(self) -> float:
        return thread_time() - self._started_at

    def handle_prompt(self, event: Event) -> str:
        return self._responder.handle_prompt(event, self._sender_pid)

    def find_doubt(self, event: Event) -> str:
        return self._responder.find_doubt(event, self._sender_pid)

    def read_brief(self, home: str, project: str) -> Sequence[BriefLine]:
        return brief.compile_or_reuse(self._responder.connection, home, project, self._index.settings)

    def recall_for_file(self, event: Event) -> Sequence[RecalledItem]:
        return file_memory.recall_for_file(self._responder.connection, event)

    def recall_for_prompt(self, event: Event) -> Sequence[RecalledItem]:
        return file_memory.recall_for_prompt(self._responder.connection, self._responder.home, event)

    def announce_approvals(self) -> str:
        """Return what was approved since the last session start; nothing while the database is busy."""
        try:
            return approvals.announce(self._responder.connection, clock.now())
        except db.StoreError as error:
            log.warning("approvals are listed at the next start: %s", error)
            return ""


class HookResponder:
    """Where hooks are answered: owns the manifest in force and the connection that records deliveries."""

    def __init__(
        self,
        home: str,
        connection: db.Connection,
        on_event: Callable[[Event], None] = lambda event: None,
        publish_message: Callable[[str, dict[str, object]], None] = lambda kind, message: None,
    ) -> None:
        self.home, self.connection, self._on_event, self._publish_message = home, connection, on_event, publish_message
        self.viewer_url = ""
        self._unwritten_events: list[tuple[Event, Event | None, tuple[Delivery, ...]]] = []
        self._index: ManifestIndex | None = None
        self._pattern_cache = PatternCache()
        self._index_stamp: object = None
        self._built_source_stats: object = None
        self._retry_build_at = 0.0

    def answer(self, message: bytes, sender_pid: int = 0) -> bytes:
        """What to print for one message: a line `hardwon 1 HOST EVENT ID`, then the payload. Empty: not understood,
        so that the hook goes its own way. `sender_pid` is the process that sent it, 0 if that is not known."""
        header, _, payload = message.partition(b"\n")
        words = header.decode("utf-8", "replace").split(" ")
        if len(words) != 5 or words[:2] != ["hardwon", PROTOCOL_VERSION] or words[2] not in AGENT_PACKAGES:
            return b""
        _, _, host, kind, event_id = words
        try:
            return self._answer_event(host, kind, event_id, payload, sender_pid)
        except Exception:  # nothing of ours may reach the agent
            log.exception("no answer to %s %s", host, kind)
            return b""

    def _answer_event(self, host: str, kind: str, event_id: str, payload: bytes, sender_pid: int) -> bytes:
        try:
            parsed_event = read_event(host, kind, payload)
        except (ValueError, RecursionError) as error:
            log.info("%s %s: a payload that is not one (%s)", host, kind, type(error).__name__)
            return EMPTY_ANSWER
        if parsed_event is None:
            return EMPTY_ANSWER
        event = replace(clean_ids(parsed_event), id=event_id, at=clock.now())
        index = self.load_index()
        if pauses.is_paused(self.home, event.cwd, event.at):
            claims.mark_paused(self.home, event.session, event.at)
            return EMPTY_ANSWER
        reply = EMPTY_REPLY if index is None else self._build_reply(event, index, sender_pid)
        filtered_event = event_filter.filter_hook_event(_mark_denied(event, reply), self.home, self._read_limits(index))
        if is_answered_by_hardwon(event):
            filtered_event = None
        if (reply.deliveries or filtered_event) and not self._store_event(event, filtered_event, reply.deliveries):
            return b""
        self._notify_listener(event)
        return write_reply(event, reply)

    def record_event(self, event: Event) -> str:
        """Keep an event that came over the API; gives why it was not kept, nothing if it was."""
        event = replace(clean_ids(bound_event(event)), id=urandom(16).hex(), at=clock.now())
        limits = self._read_limits(self.load_index())
        if pauses.is_paused(self.home, event.cwd, event.at):
            return "paused"
        filtered_event = event_filter.filter_hook_event(event, self.home, limits)
        if filtered_event is None:
            if event.prompt and not extract_agent_prompt(event.prompt):
                return "not a prompt"
            return "denied" if projects.is_below(event.cwd, limits.get("denyProjects", ())) else "private"
        if not self._store_event(event, filtered_event, ()):
            return "no room"
        self._notify_listener(event)
        return ""

    def _notify_listener(self, event: Event) -> None:
        """What happens at the ends of turns and sessions is begun soon, not at the next tick."""
        if event.kind in ("SessionStart", "Stop", "SessionEnd"):
            self._on_event(event)

    def _read_limits(self, index: ManifestIndex | None) -> Mapping[str, Any]:
        return event_filter.read_recording_settings(self.home, {} if index is None else index.settings)

    def _build_reply(self, event: Event, index: ManifestIndex, sender_pid: int) -> HookReply:
        if index.settings.get("promptRecall"):
            file_memory.preload_search()
        return reply_to_event(event, index, self.home, WorkerSources(self, index, sender_pid))

    def search_pattern(self, pattern: Pattern, text: str) -> bool:
        return self._pattern_cache.search(pattern, text)

    def find_doubt(self, event: Event, sender_pid: int) -> str:
        """Return why a prompt is not known to be a person's. In a thread: reading about a hung process may hang."""
        doubts: list[str] = []
        thread = threading.Thread(
            target=lambda: doubts.append(prompt_origin.find_doubt(sender_pid, event.host, self.home)), daemon=True
        )
        thread.start()
        thread.join(ORIGIN_SECONDS)
        return doubts[0] if doubts else prompt_origin.UNKNOWN_SENDER

    def handle_prompt(self, event: Event, sender_pid: int) -> str:
        """Checking and building may take longer than the agent waits: then the person is told where to look."""
        answers: list[prompts.PromptAnswer] = []
        finished, timed_out = threading.Event(), threading.Event()

        def run_handler() -> None:
            try:
                doubt = prompt_origin.find_doubt(sender_pid, event.host, self.home)
                answers.extend(prompts.handle_prompt(self.home, clean_text(event.prompt), event.cwd, doubt))
            except (OSError, db.StoreError) as error:
                log.warning("what a person typed was not kept: %s", error)
                answers.append(prompts.PromptAnswer(f"NOT kept: {error}; type it again once that is mended", False))
            finished.set()
            if timed_out.is_set():
                prompts.log_refused_answers(self.home, answers)

        threading.Thread(target=run_handler).start()
        if not finished.wait(LEARN_SECONDS):
            timed_out.set()
        if finished.is_set():
            return prompts.format_answers(answers)
        return "hardwon: it takes a moment longer; hardwon doctor tells if it was not taken"

    def load_index(self, seconds: float = BUILD_SECONDS) -> ManifestIndex | None:
        """The manifest in force, built anew if a source changed; with a broken source the last good one.

        A build that takes longer goes on in its thread while calls are answered from the manifest before it.
        """
        is_broken = self._reload_index()
        source_stats = manifest.stat_sources(self.home, self._index)
        is_changed = self._index is None or source_stats != self._index.source_stats
        if (
            is_broken or (is_changed and source_stats != self._built_source_stats)
        ) and monotonic() >= self._retry_build_at:
            self._built_source_stats = source_stats
            thread = threading.Thread(target=self._build_manifest, daemon=True)
            thread.start()
            thread.join(seconds)
            self._reload_index()
        return self._index

    def _reload_index(self) -> bool:
        """Open the index file if it is another than before; True if it is not one, or was there and is gone."""
        try:
            stat = os.stat(os.path.join(self.home, paths.LESSON_INDEX))
            stamp = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            if stamp != self._index_stamp:
                self._index_stamp = stamp
                self._index, self._pattern_cache = open_index(self.home), PatternCache()
        except OSError as error:
            log.info("no manifest to open: %s", error)
            was_open, self._index_stamp = self._index_stamp is not None, None
            return was_open
        except ValueError as error:
            log.warning("the manifest is built anew: %s", error)
            return True
        return False

    def _build_manifest(self) -> None:
        try:
            result = manifest.build(self.home, clock.now())
        except UserError as error:
            log.warning("the last good manifest stays in force: %s", error)
            return
        except (OSError, ValueError) as error:
            log.warning("the manifest could not be built and is tried again: %s", error)
            self._built_source_stats, self._retry_build_at = None, monotonic() + BUILD_RETRY_SECONDS
            return
        log.info("manifest: %d lessons in force", result.lesson_count)
        for slug, reason in result.left_out:
            log.info("left out %s: %s", slug, reason)
        for fault in result.faults:
            log.warning("%s", fault)

    def _store_event(self, event: Event, filtered_event: Event | None, deliveries: tuple[Delivery, ...]) -> bool:
        """Committed before the answer goes out; with the database busy or full it waits in the spool.

        With no room for that either it waits here, and the hook of a tell is not told that it was taken.
        """
        try:
            ingest.commit_event(self.connection, filtered_event, deliveries, is_live=True)
            self._publish_event(filtered_event, deliveries)
        except db.StoreError as error:
            log.warning("%s waits in the spool: %s", event.kind, error)
            try:
                spool.spool_event(self.home, event, filtered_event=filtered_event, deliveries=deliveries)
            except OSError as spool_error:
                log.warning("%s waits in memory: %s", event.kind, spool_error)
                self._unwritten_events = [*self._unwritten_events, (event, filtered_event, deliveries)][
                    -MAX_UNWRITTEN_EVENTS:
                ]
                return bool(deliveries) or event.kind in ANSWERED_EVENTS
        return True

    def _publish_event(self, filtered_event: Event | None, deliveries: tuple[Delivery, ...]) -> None:
        """Tell whoever looks on, of what is in the store by now."""
        if filtered_event:
            field_names = ("host", "session", "kind", "at", "agent", "tool", "tool_use_id", "failed", "cwd")
            message = {name: getattr(filtered_event, name) for name in field_names}
            self._publish_message(
                LIVE_MESSAGE_KINDS.get(filtered_event.kind, "event"),
                {**message, "prompt": filtered_event.prompt[:MAX_LIVE_PROMPT_CHARS]},
            )
        for delivery in deliveries:
            self._publish_message("delivery", dict(delivery.__dict__))

    @property
    def has_unwritten_events(self) -> bool:
        return bool(self._unwritten_events)

    def save_unwritten_events(self, seconds: float = SAVE_SECONDS) -> None:
        """Store or spool at the worker's end what there was no room for; what cannot be saved is counted in the log.

        The logs of earlier days go first: an event is worth more than they are.
        """
        if not self._unwritten_events:
            return
        for number in (1, 2):
            with suppress(OSError):
                os.unlink(os.path.join(self.home, f"{paths.WORKER_LOG}.{number}"))
        deadline = monotonic() + seconds
        while True:
            self.retry_unwritten_events()
            self._spool_unwritten_events()
            if not self._unwritten_events or monotonic() >= deadline:
                break
            sleep(0.1)
        if self._unwritten_events:
            log.error(
                "%d events were LOST: there was no room for them when the worker ended", len(self._unwritten_events)
            )

    def _spool_unwritten_events(self) -> None:
        pending, self._unwritten_events = self._unwritten_events, []
        for index, (event, filtered_event, deliveries) in enumerate(pending):
            try:
                spool.spool_event(self.home, event, filtered_event=filtered_event, deliveries=deliveries)
            except OSError:
                self._unwritten_events = pending[index:]
                return

    def retry_unwritten_events(self) -> None:
        """Try again what there was no room for."""
        pending, self._unwritten_events = self._unwritten_events, []
        for index, (_, filtered_event, deliveries) in enumerate(pending):
            try:
                ingest.commit_event(self.connection, filtered_event, deliveries)
            except db.StoreError as error:
                log.warning("%d events still wait in memory: %s", len(pending) - index, error)
                self._unwritten_events = [*pending[index:], *self._unwritten_events]
                return
