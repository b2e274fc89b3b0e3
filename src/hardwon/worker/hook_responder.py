"""Answers hooks: from the bytes that a hook sends to the bytes that it prints."""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from os import urandom
from time import monotonic, sleep, thread_time
from typing import Any

from hardwon import claims, clock, paths, pauses, projects
from hardwon.actions import approvals, decisions
from hardwon.agents import AGENT_NAMES, bound_event, prompt_origin, read_event, write_reply
from hardwon.efficacy import delivery_changes
from hardwon.efficacy.staleness import FRESH, LESSON, StalenessChecker
from hardwon.errors import UserError
from hardwon.handoff.written_handoffs import describe_unrecorded_work
from hardwon.lessons import manifest
from hardwon.lessons.call_replies import AFTER_CALL_EVENTS
from hardwon.lessons.delivery import merge_replies
from hardwon.lessons.hook_replies import reply_to_event
from hardwon.lessons.manifest_index import ManifestIndex, open_index
from hardwon.lessons.patterns import PatternCache
from hardwon.lessons.review_queue import announce_proposals
from hardwon.lessons.typed_prompts import is_answered_by_hardwon
from hardwon.privacy import event_filter
from hardwon.privacy.cleaning import clean_text
from hardwon.privacy.identifiers import clean_ids
from hardwon.privacy.prompt_text import extract_agent_prompt
from hardwon.search import brief, file_memory
from hardwon.sessions import ingest, spool
from hardwon.store import db
from hardwon.text.brief_layout import BriefLine, RecalledItem
from hardwon.types import (
    ANSWERED_EVENTS,
    EMPTY_ANSWER,
    EMPTY_REPLY,
    Delivery,
    Event,
    HookReply,
    Pattern,
    dump_record,
    replace,
)
from hardwon.worker.asking_for_lessons import LessonAsker

_PROTOCOL_VERSION = "1"
BUILD_SECONDS = 0.2
FIRST_BUILD_SECONDS = 10.0  # when the worker starts and no hook is waiting yet
_BUILD_RETRY_SECONDS = 10.0  # after a build that failed, for example because the disk is full
_PROMPT_SECONDS = 0.3  # agents wait a second for the answer to a prompt
_ORIGIN_SECONDS = 0.3  # it usually takes a millisecond, and only decisions need it
_SAVE_SECONDS = 1.5  # `hardwon stop` waits 5 s for the worker to end
_MAX_UNWRITTEN_EVENTS = 20_000
_LIVE_MESSAGE_KINDS = {"SessionStart": "session", "SessionEnd": "session", "UserPromptSubmit": "prompt"}
_MAX_LIVE_PROMPT_CHARS = 500
log = logging.getLogger(__name__)


class WorkerSources:
    """The sources of the worker's answer to one event: its patterns, the store, and the process that asked."""

    def __init__(self, responder: HookResponder, index: ManifestIndex, sender_pid: int) -> None:
        self._responder = responder
        self._index = index
        self._sender_pid = sender_pid
        self._home = responder.home
        self._connection = responder.connection
        self._started_at = thread_time()
        self.viewer_address = responder.viewer_url

    def search_pattern(self, pattern: Pattern, text: str) -> bool:
        return self._responder.pattern_cache.search(pattern, text)

    def get_cpu_seconds(self) -> float:
        return thread_time() - self._started_at

    def handle_prompt(self, event: Event) -> str:
        """Handle a prompt for hardwon in a thread, and return the answer.

        Checking and saving may take longer than the agent waits; the answer then says where to look.
        """
        answers: list[decisions.PromptAnswer] = []
        finished = threading.Event()
        timed_out = threading.Event()

        def run_handler() -> None:
            """Check who typed the prompt, carry it out, and keep or log the answer."""
            try:
                doubt = prompt_origin.find_doubt(self._sender_pid, event.host, self._home)
                answers.extend(decisions.handle_prompt(self._home, clean_text(event.prompt), event.cwd, doubt))
            except (OSError, db.StoreError) as error:
                log.warning("a typed prompt was not saved: %s", error)
                answers.append(decisions.PromptAnswer(f"NOT saved: {error}; fix that, then type it again", False))
            finished.set()
            # Nobody reads this answer any more, so a refusal goes to the log that doctor shows.
            if timed_out.is_set():
                decisions.log_refused_answers(self._home, answers)

        threading.Thread(target=run_handler).start()
        if not finished.wait(_PROMPT_SECONDS):
            timed_out.set()
        # The handler may have finished between the two lines above, and has not logged its answer then.
        if finished.is_set():
            return decisions.format_answers(answers)
        return "hardwon: still saving; run hardwon doctor if it does not appear"

    def find_doubt(self, event: Event) -> str:
        """Return why a prompt may not be a person's; runs in a thread, because inspecting a hung process may hang."""
        doubts: list[str] = []
        thread = threading.Thread(
            target=lambda: doubts.append(prompt_origin.find_doubt(self._sender_pid, event.host, self._home)),
            daemon=True,
        )
        thread.start()
        thread.join(_ORIGIN_SECONDS)
        return doubts[0] if doubts else prompt_origin.UNKNOWN_SENDER

    def read_brief(self, home: str, project: str) -> Sequence[BriefLine]:
        return brief.compile_or_reuse(self._connection, home, project, self._index.settings)

    def recall_for_file(self, event: Event) -> Sequence[RecalledItem]:
        return file_memory.recall_for_file(self._connection, event)

    def recall_for_prompt(self, event: Event) -> Sequence[RecalledItem]:
        return file_memory.recall_for_prompt(self._connection, self._home, event)

    def check_code(self, lesson_id: str) -> str:
        """Return whether the code that a lesson names is fresh, changed or gone; fresh while the database is busy."""
        try:
            return self._responder.load_staleness_checker().check(lesson_id)
        except db.StoreError as error:
            log.warning("the code that lessons name is not checked: %s", error)
            return FRESH

    # These are left out while the database is busy or lessons.json is broken; announcements come at the next start.

    def describe_unrecorded_work(self, event: Event) -> str:
        sensitive_words = self._index.settings.get("sensitiveWords", ())
        return _skip_faults(lambda: describe_unrecorded_work(self._connection, event, sensitive_words))

    def announce_approvals(self) -> str:
        return _skip_faults(lambda: approvals.announce(self._connection, clock.now()))

    def announce_efficacy(self) -> str:
        return _skip_faults(lambda: delivery_changes.announce(self._connection, self._home, clock.now()))

    def announce_proposals(self) -> str:
        return _skip_faults(lambda: announce_proposals(self._connection, self._home))


def _skip_faults(build_message: Callable[[], str]) -> str:
    """Return a message; an empty one if its data cannot be read now."""
    try:
        return build_message()
    except (OSError, db.StoreError, UserError) as error:
        log.warning("left out of the answer: %s", error)
        return ""


class HookResponder:
    """Owns the manifest in force and the connection that records events and deliveries."""

    def __init__(
        self,
        home: str,
        connection: db.Connection,
        on_event: Callable[[Event], None] = lambda event: None,
        publish_message: Callable[[str, dict[str, object]], None] = lambda kind, message: None,
    ) -> None:
        self.home = home
        self.connection = connection
        self._on_event = on_event
        self._publish_message = publish_message
        self.viewer_url = ""  # set once the worker serves the viewer
        # Events that neither the database nor the spool had room for; of too many the oldest are dropped.
        self._unwritten_events = deque[tuple[Event, Event | None, tuple[Delivery, ...]]](maxlen=_MAX_UNWRITTEN_EVENTS)
        self._lesson_asker = LessonAsker(connection)
        self._index: ManifestIndex | None = None
        self.pattern_cache = PatternCache()
        self._staleness_checker: StalenessChecker | None = None
        self._index_stamp: object = None  # of the index file that was loaded, to notice a new one
        self._built_source_stats: object = None  # of the sources that were last compiled, or tried to be
        self._retry_build_at = 0.0  # of the monotonic clock; set after a build that failed

    def answer(self, message: bytes, sender_pid: int = 0) -> bytes:
        """Return the hook's output; an empty answer makes the hook use its fallback.

        A message is a line `hardwon 1 HOST EVENT ID` and then the payload. `sender_pid` is 0 if it is not known.
        """
        # The payload is the agent's own bytes: the hook hands them on untouched, because parsing JSON costs it
        # milliseconds.
        header, _, payload = message.partition(b"\n")
        words = header.decode("utf-8", "replace").split(" ")
        if len(words) != 5 or words[:2] != ["hardwon", _PROTOCOL_VERSION] or words[2] not in AGENT_NAMES:
            return b""
        _, _, host, kind, event_id = words
        try:
            return self._answer_event(host, kind, event_id, payload, sender_pid)
        except Exception:  # no fault of hardwon may reach the agent
            log.exception("no answer to %s %s", host, kind)
            return b""

    def _answer_event(self, host: str, kind: str, event_id: str, payload: bytes, sender_pid: int) -> bytes:
        """Answer an event and store it; an empty answer if it found no room, so that its hook spools it."""
        try:
            parsed_event = read_event(host, kind, payload)
        except (ValueError, RecursionError) as error:
            log.info("%s %s: invalid payload (%s)", host, kind, type(error).__name__)
            return EMPTY_ANSWER
        if parsed_event is None:
            return EMPTY_ANSWER
        event = replace(clean_ids(parsed_event), id=event_id, at=clock.now())
        index = self.load_index()
        if pauses.is_paused(self.home, event.cwd, event.at):
            claims.mark_paused(self.home, event.session, event.at)
            return EMPTY_ANSWER
        reply = EMPTY_REPLY
        if index is not None:
            if index.settings.get("promptRecall"):
                file_memory.preload_search()
            reply = reply_to_event(event, index, self.home, WorkerSources(self, index, sender_pid))
        recorded_event = event
        if reply.deny and event.kind == "PreToolUse":
            recorded_event = replace(event, denied=True)
        # Filtering also notes whether a private prompt is being worked on, so every event passes it.
        filtered_event = event_filter.filter_hook_event(recorded_event, self.home, self._read_limits(index))
        # What a person types to hardwon is no part of the session.
        if is_answered_by_hardwon(event):
            filtered_event = None
        if index is not None and index.settings.get("askForLessons"):
            reply = self._add_lesson_request(reply, event, filtered_event, index)
        is_worth_storing = bool(reply.deliveries or filtered_event)
        if is_worth_storing and not self._store_event(event, filtered_event, reply.deliveries):
            return b""
        self._notify_listener(event)
        return write_reply(event, reply)

    def _add_lesson_request(
        self, reply: HookReply, event: Event, filtered_event: Event | None, index: ManifestIndex
    ) -> HookReply:
        """Return the reply with a request for a lesson if this call shows that the agent found out what works."""
        if event.kind == "PreToolUse":
            self._lesson_asker.note_start(event)
        elif event.kind in AFTER_CALL_EVENTS and filtered_event is not None:
            try:
                request = self._lesson_asker.build_reply(filtered_event, index, self.pattern_cache.search)
                return merge_replies(reply, request)
            except db.StoreError as error:
                log.warning("a lesson was not asked for: %s", error)
        return reply

    def record_event(self, event: Event) -> str:
        """Record an event from the API; return why it was not recorded, an empty text if it was."""
        event = replace(clean_ids(bound_event(event)), id=urandom(16).hex())
        limits = self._read_limits(self.load_index())
        if pauses.is_paused(self.home, event.cwd, event.at):
            return "paused"
        filtered_event = event_filter.filter_hook_event(event, self.home, limits)
        if filtered_event is None:
            if event.prompt and not extract_agent_prompt(event.prompt):
                return "not a prompt"
            if projects.is_below(event.cwd, limits.get("denyProjects", ())):
                return "denied"
            return "private"
        if not self._store_event(event, filtered_event, ()):
            return "no room"
        self._notify_listener(event)
        return ""

    def _notify_listener(self, event: Event) -> None:
        """Start the work that follows a session start or the end of a turn now, not at the next tick."""
        if event.kind in ("SessionStart", "Stop", "SessionEnd"):
            self._on_event(event)

    def _read_limits(self, index: ManifestIndex | None) -> Mapping[str, Any]:
        """Return what may be recorded, by the settings in force."""
        return event_filter.read_recording_settings(self.home, {} if index is None else index.settings)

    def load_staleness_checker(self) -> StalenessChecker:
        """Return the checker for the lessons in force, read once for each manifest."""
        if self._staleness_checker is None:
            self._staleness_checker = StalenessChecker(self.connection, LESSON)
        return self._staleness_checker

    def load_index(self, seconds: float = BUILD_SECONDS) -> ManifestIndex | None:
        """Return the manifest in force, rebuilt if a source changed; if a source is broken, the last good one.

        A build that takes longer than `seconds` goes on in its thread, and calls are answered from the old manifest.
        """
        is_broken = self._reload_index()
        source_stats = manifest.stat_sources(self.home, self._index)
        is_outdated = self._index is None or source_stats != self._index.source_stats
        # A build from broken sources leaves the old manifest, and would fail again.
        was_tried = source_stats == self._built_source_stats
        needs_build = is_broken or (is_outdated and not was_tried)
        if needs_build and monotonic() >= self._retry_build_at:
            self._built_source_stats = source_stats
            # In a thread, because a build of thousands of lessons takes longer than a hook may wait.
            thread = threading.Thread(target=self._build_manifest, daemon=True)
            thread.start()
            thread.join(seconds)
            self._reload_index()
        return self._index

    def _reload_index(self) -> bool:
        """Open the index file if it changed; return True if it is damaged or was deleted."""
        try:
            stat = os.stat(os.path.join(self.home, paths.LESSON_INDEX))
            stamp = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            # One stat per call is cheaper than reading the file, and PreToolUse waits for this.
            if stamp != self._index_stamp:
                self._index_stamp = stamp
                self._index = open_index(self.home)
                self.pattern_cache = PatternCache()
                self._staleness_checker = None  # lessons were approved or edited, so there may be other anchors
        except OSError as error:
            log.info("no manifest to open: %s", error)
            was_open = self._index_stamp is not None
            self._index_stamp = None
            return was_open
        except ValueError as error:
            log.warning("rebuilding the manifest: %s", error)
            return True
        return False

    def _build_manifest(self) -> None:
        """Compile the manifest and log what it left out. Runs in a thread."""
        try:
            result = manifest.build(self.home, clock.now())
        except UserError as error:
            log.warning("the last good manifest stays in force: %s", error)
            return
        except (OSError, ValueError) as error:
            log.warning("the manifest could not be built, will retry: %s", error)
            # Forgotten, so that the same sources are built again after the wait.
            self._built_source_stats = None
            self._retry_build_at = monotonic() + _BUILD_RETRY_SECONDS
            return
        log.info("manifest: %d lessons in force", result.lesson_count)
        for slug, reason in result.left_out:
            log.info("left out %s: %s", slug, reason)
        for fault in result.faults:
            log.warning("%s", fault)

    def _store_event(self, event: Event, filtered_event: Event | None, deliveries: tuple[Delivery, ...]) -> bool:
        """Commit an event before its hook is answered, or spool it if the database is busy or full.

        With no room in the spool either it waits in memory. Return whether to answer: a hook that only reports gets no
        answer then, and tries to spool the event itself.
        """
        try:
            self._write_event(event, filtered_event, deliveries, is_live=True)
        except OSError as error:
            log.warning("%s waits in memory: %s", event.kind, error)
            self._unwritten_events.append((event, filtered_event, deliveries))
            # An agent that waits gets its answer all the same.
            return bool(deliveries) or event.kind in ANSWERED_EVENTS
        return True

    def _write_event(
        self, event: Event, filtered_event: Event | None, deliveries: tuple[Delivery, ...], *, is_live: bool
    ) -> None:
        """Write an event to the database, else to the spool; OSError if neither has room.

        `filtered_event` is what may be kept of it; None if nothing may, and only the deliveries are written.
        """
        try:
            # The commit comes before the answer: a hook that gets one does not spool the event itself.
            ingest.commit_event(self.connection, filtered_event, deliveries, is_live=is_live)
        except db.StoreError as error:
            log.warning("%s goes to the spool: %s", event.kind, error)
            spool.spool_event(self.home, event, filtered_event=filtered_event, deliveries=deliveries)
        else:
            if is_live:
                self._publish_event(filtered_event, deliveries)

    def _publish_event(self, filtered_event: Event | None, deliveries: tuple[Delivery, ...]) -> None:
        """Send a stored event to live listeners."""
        if filtered_event:
            field_names = ("host", "session", "kind", "at", "agent", "tool", "tool_use_id", "failed", "cwd")
            record = dump_record(filtered_event)
            message = {name: record[name] for name in field_names}
            self._publish_message(
                _LIVE_MESSAGE_KINDS.get(filtered_event.kind, "event"),
                {**message, "prompt": filtered_event.prompt[:_MAX_LIVE_PROMPT_CHARS]},
            )
        for delivery in deliveries:
            if delivery.arm not in ("silent", "shadow"):  # of these no agent was told anything
                self._publish_message("delivery", dump_record(delivery))

    @property
    def has_unwritten_events(self) -> bool:
        return bool(self._unwritten_events)

    def retry_unwritten_events(self) -> None:
        """Write the events that wait in memory, oldest first, as long as there is room."""
        while self._unwritten_events:
            try:
                self._write_event(*self._unwritten_events[0], is_live=False)
            except OSError as error:
                log.warning("%d events still wait in memory: %s", len(self._unwritten_events), error)
                return
            # Removed only once it is written: the next try begins with it.
            self._unwritten_events.popleft()

    def save_unwritten_events(self, seconds: float = _SAVE_SECONDS) -> None:
        """Write the waiting events before the worker ends; old logs are deleted first to make room for them."""
        if not self._unwritten_events:
            return
        for number in (1, 2):  # as many as `_configure_logging` keeps
            with suppress(OSError):
                os.unlink(os.path.join(self.home, f"{paths.WORKER_LOG}.{number}"))
        deadline = monotonic() + seconds
        self.retry_unwritten_events()
        while self._unwritten_events and monotonic() < deadline:
            sleep(0.1)
            self.retry_unwritten_events()
        if self._unwritten_events:
            log.error("%d events were LOST: no room for them when the worker ended", len(self._unwritten_events))
