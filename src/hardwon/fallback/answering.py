"""Answers a hook while no worker runs: from the compiled manifest, in the hook's own process.

Events and deliveries are spooled for the worker. Errors never reach the agent; they go to a log that `doctor` reads.
"""

from __future__ import annotations

import os
import sys
from time import monotonic, process_time, sleep, time

# What most calls do not need is imported in the functions below.
from hardwon import paths
from hardwon.agents import load_agent, read_event, write_reply
from hardwon.lessons.call_replies import deny_protected_call
from hardwon.lessons.hook_replies import reply_to_event
from hardwon.lessons.manifest_index import open_index
from hardwon.privacy.identifiers import clean_ids
from hardwon.types import ANSWERED_EVENTS, EMPTY_ANSWER, EMPTY_REPLY, replace

TYPE_CHECKING = False  # importing it from `typing` would slow down the hook
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from subprocess import Popen
    from typing import Any

    from hardwon.lessons.manifest_index import ManifestIndex
    from hardwon.text.brief_layout import BriefLine, RecalledItem
    from hardwon.types import Delivery, Event, Pattern

    AskWorker = Callable[[str, str, str, str, bytes], bytes | None]

_MANIFEST_SOURCES = (paths.LESSONS, paths.TRUSTED_PROJECTS)
_WORKER_START_SECONDS = 1.5
_START_BUDGET_SHARE = 0.4  # of a prompt's timeout, spent on a starting worker; its answer may take half of the timeout
BUILD_SECONDS = 10.0  # most agents stop a hook sooner, and the build then goes on without it
_SESSION_START_BUILD_SECONDS = 4.0  # shorter, because a person is waiting


def answer_event(agent: str, kind: str, home: str, event_id: str, payload: bytes, ask_worker: AskWorker) -> bytes:
    """Return the answer to an event that no worker answered; an empty one if anything goes wrong."""
    try:
        return _ask_or_answer(agent, kind, home, event_id, payload, ask_worker)
    except Exception as error:  # noqa: BLE001 (no fault of hardwon may reach the agent)
        _log_error(home, kind, error)
        return EMPTY_ANSWER


def _ask_or_answer(agent: str, kind: str, home: str, event_id: str, payload: bytes, ask_worker: AskWorker) -> bytes:
    """Ask the worker if that makes sense, and start it for what only it can answer; else answer from the manifest."""
    started = monotonic()
    parsed_event = read_event(agent, kind, payload)
    if parsed_event is None:
        return EMPTY_ANSWER  # hardwon does nothing about such events
    event = replace(clean_ids(parsed_event), id=event_id, at=time())

    def ask() -> bytes | None:
        return ask_worker(agent, kind, home, event_id, payload)

    worker_answer = None
    # While there is a pause, `hook.py` asks nobody: the worker must not see what is paused.
    if os.path.exists(os.path.join(home, paths.PAUSES)):
        from hardwon import claims, pauses

        if pauses.is_paused(home, event.cwd, event.at):
            claims.mark_paused(home, event.session, event.at)
            return EMPTY_ANSWER
        worker_answer = ask()
    if not worker_answer and _can_start_worker(home, event):
        deadline = started + _WORKER_START_SECONDS
        if event.kind != "SessionStart":
            budget = load_agent(agent).EVENT_TIMEOUTS[event.kind] * _START_BUDGET_SHARE
            deadline = min(deadline, started + budget)
        worker_answer = _ask_new_worker(home, kind, ask, deadline)
    return worker_answer or _answer_from_manifest(event, home)


def _ask_new_worker(home: str, kind: str, ask: Callable[[], bytes | None], deadline: float) -> bytes | None:
    """Start a worker and ask it until it answers or the deadline has passed."""
    from hardwon.fallback import worker_start

    try:
        worker_start.launch_worker(home)
    except OSError as error:  # the session still gets what the manifest has
        _log_error(home, kind, error)
    worker_answer = ask()
    while not worker_answer and monotonic() < deadline:
        sleep(0.02)
        worker_answer = ask()
    return worker_answer


def _can_start_worker(home: str, event: Event) -> bool:
    """Return whether this event is worth starting a worker for, and none runs."""
    # A session start has seconds to spare, and only the worker can carry out what is typed to hardwon.
    if event.kind != "SessionStart" and not _is_typed_to_hardwon(event):
        return False
    from hardwon.fallback import worker_start

    # A worker that listens but does not answer is stuck, so asking again would only cost the same time again.
    return not _is_worker_listening(home) and worker_start.can_start(home, event.at)


def _is_worker_listening(home: str) -> bool:
    """Return whether a worker accepts connections, even if it does not answer."""
    import _socket

    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        connection.settimeout(0.1)
        connection.connect(os.readlink(os.path.join(home, paths.SOCKET)))
    except (BlockingIOError, TimeoutError):
        return True  # the worker's queue of connections is full
    except OSError:
        return False
    finally:
        connection.close()
    return True


def _is_typed_to_hardwon(event: Event) -> bool:
    """Return whether a person may have typed a decision or a lesson, and not the name of a command with such a text."""
    if event.kind != "UserPromptSubmit" or event.source == "command":
        return False
    from hardwon.lessons.typed_prompts import can_be_for_hardwon

    return can_be_for_hardwon(event.prompt)


def _answer_from_manifest(event: Event, home: str) -> bytes:
    """Answer by the lessons in the manifest, built first if it is missing, and spool the event for the worker."""
    index = _open_manifest(home)
    filtered_event = None
    # A PreToolUse is recorded only if it is denied: what ran is reported by PostToolUse. What a person types to hardwon
    # is no part of the session.
    if event.kind != "PreToolUse" and not _is_answered_by_hardwon(event):
        filtered_event = _filter_event(event, home, index)
    if index is None and event.kind in ANSWERED_EVENTS and not _is_unbuildable(home):
        _spool_event(home, event, filtered_event)  # the agent may stop the hook before the build ends
        build_seconds = _SESSION_START_BUILD_SECONDS if event.kind == "SessionStart" else BUILD_SECONDS
        index = _wait_for_build(home, build_seconds)
    reply = EMPTY_REPLY
    if index is not None:
        reply = reply_to_event(event, index, home, FallbackSources(home))
    elif event.kind == "PreToolUse":
        # hardwon's own files are guarded even in a home without lessons.
        reply = deny_protected_call(event, home) or EMPTY_REPLY
    elif _is_typed_to_hardwon(event):
        from hardwon.lessons.typed_prompts import answer_prompt

        reply = answer_prompt(event, _answer_typed_prompt(home, event))
    if reply.deny and event.kind == "PreToolUse":
        filtered_event = _filter_event(replace(event, denied=True), home, index)
    _spool_event(home, event, filtered_event, reply.deliveries)
    return write_reply(event, reply)


def _is_answered_by_hardwon(event: Event) -> bool:
    """Return whether a person typed this prompt to hardwon, so that the model does not see it."""
    if event.kind != "UserPromptSubmit":
        return False
    from hardwon.lessons.typed_prompts import is_answered_by_hardwon

    return is_answered_by_hardwon(event)


class FallbackSources:
    """The sources of an answer while no worker runs: patterns and the compiled brief, but no recall from the store."""

    viewer_address = ""

    def __init__(self, home: str) -> None:
        self._home = home
        self._started = process_time()  # counted from here, because starting Python may take long on a small machine

    def search_pattern(self, pattern: Pattern, text: str) -> bool:
        return search_pattern(pattern, text)

    def get_cpu_seconds(self) -> float:
        return process_time() - self._started

    def handle_prompt(self, event: Event) -> str:
        return _answer_typed_prompt(self._home, event)

    def find_doubt(self, event: Event) -> str:
        return _find_doubt(self._home, event)

    def read_brief(self, home: str, project: str) -> Sequence[BriefLine]:
        from hardwon.lessons import compiled_brief  # imported here because tool calls do not need it

        return compiled_brief.read(home, project)

    def recall_for_file(self, event: Event) -> Sequence[RecalledItem]:
        return ()

    def recall_for_prompt(self, event: Event) -> Sequence[RecalledItem]:
        return ()

    def describe_unrecorded_work(self, event: Event) -> str:
        return ""

    def check_code(self, lesson_id: str) -> str:
        return "fresh"  # the anchors are in the store

    def announce_approvals(self) -> str:
        return ""

    def announce_proposals(self) -> str:
        return ""

    def announce_efficacy(self) -> str:
        return ""


def _spool_event(home: str, event: Event, filtered_event: Event | None, deliveries: Sequence[Delivery] = ()) -> None:
    """Spool what may be kept of an event, if anything; this replaces an earlier spool file of the same event."""
    if not deliveries and not filtered_event:
        return  # nothing of it may be kept
    from hardwon.sessions import spool

    try:
        spool.spool_event(home, event, filtered_event=filtered_event, deliveries=deliveries)
    except OSError as error:  # the agent still gets its answer
        _log_error(home, event.kind, error)


def _open_manifest(home: str) -> ManifestIndex | None:
    """Return the compiled manifest, even an outdated one; None if it is missing or damaged."""
    try:
        return open_index(home)
    except (OSError, ValueError):
        return None


def _fingerprint_sources(home: str) -> str:
    """Return a text that changes with the sources of the manifest; empty if there are none."""
    modified_times = []
    for name in _MANIFEST_SOURCES:
        try:
            modified_times.append(str(os.stat(os.path.join(home, name)).st_mtime_ns))
        except OSError:
            continue
    return " ".join(modified_times)


def _is_unbuildable(home: str) -> bool:
    """Return whether there are no sources, or only those whose build failed before."""
    fingerprint = _fingerprint_sources(home)
    if not fingerprint:
        return True
    path = os.path.join(home, paths.FAILED_BUILD)
    try:
        with open(path, encoding="ascii", errors="replace", opener=paths.open_plain_file) as file:
            return file.read() == fingerprint
    except OSError:
        return False


def _filter_event(event: Event, home: str, index: ManifestIndex | None) -> Event | None:
    """Return the event as it may be recorded; None if nothing of it may."""
    from hardwon.privacy import event_filter  # PreToolUse does not need it

    settings = {} if index is None else index.settings
    return event_filter.filter_hook_event(event, home, event_filter.read_recording_settings(home, settings))


def _wait_for_build(home: str, seconds: float) -> ManifestIndex | None:
    """Rebuild a missing or damaged index in a subprocess and return it; None if there is none after these seconds.

    Concurrent hooks share one build. If the agent stops this hook meanwhile, the build goes on, and the next call uses
    its result.
    """
    import fcntl

    # Taken before the build, so that sources edited meanwhile count as not tried yet.
    deadline = monotonic() + seconds
    fingerprint = _fingerprint_sources(home)
    try:
        lock = os.open(os.path.join(home, paths.BUILD_LOCK), os.O_RDWR | os.O_CREAT, 0o600)
    except OSError:
        return None
    try:
        process = None  # of the build, if this hook is the one that builds
        if _try_lock(lock, fcntl):
            process = _start_build(home, lock)
        while monotonic() < deadline:
            if process and process.poll() is not None:
                break
            # Another hook's build has ended when its lock is free or its index is there.
            if not process and (_try_lock(lock, fcntl) or _open_manifest(home)):
                break
            sleep(0.01)
        index = _open_manifest(home)
        has_failed = process is not None and bool(process.poll())
        if index is None and has_failed:
            paths.write_private(os.path.join(home, paths.FAILED_BUILD), fingerprint.encode())
        return index
    except OSError:
        return None
    finally:
        os.close(lock)


def _try_lock(lock: int, fcntl: Any) -> bool:
    """Take the build lock if no other process builds."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _start_build(home: str, lock: int) -> Popen[bytes]:
    """Start a build that holds the lock until it ends."""
    import subprocess

    command = [sys.executable, "-I", "-m", "hardwon", "lessons", "build", "--no-approve"]
    env = {**os.environ, "HARDWON_HOME": home}
    null = subprocess.DEVNULL
    return subprocess.Popen(
        command, env=env, stdin=null, stdout=null, stderr=null, start_new_session=True, pass_fds=[lock]
    )


def _find_doubt(home: str, event: Event) -> str:
    from hardwon.agents import prompt_origin

    return prompt_origin.find_doubt(os.getpid(), event.host, home)


def _answer_typed_prompt(home: str, event: Event) -> str:
    """Answer a prompt for hardwon; empty if it is neither a decision nor a lesson.

    A spool file cannot prove later who wrote it. So a decision is not spooled, and a lesson becomes a proposal.
    """
    from hardwon.lessons.typed_prompts import parse_decision, refuse_decision
    from hardwon.privacy.cleaning import clean_text
    from hardwon.sessions import spool

    if parse_decision(event.prompt.split()):
        if doubt := _find_doubt(home, event):
            return f"hardwon: {refuse_decision(home, event.prompt, doubt, event.at)}"
        if os.path.exists(os.path.join(home, paths.SOCKET)):
            return "hardwon: the worker is busy and may still do this. Check before you type it again"
        return "hardwon: NOT done, the worker is not running yet. Type it again in a moment, or run: hardwon start"
    prompt = _extract_lesson_blocks(clean_text(event.prompt))
    if not prompt:
        return ""
    try:
        spool.spool_event(home, event, typed_prompts=[replace(event, prompt=prompt)])
    except OSError as error:
        return f"hardwon: NOT saved, type it again later: no worker runs and {home} is not writable: {error.strerror}"
    return "hardwon: no worker runs; the lesson is saved as a proposal (hardwon start, then hardwon lessons list)"


def _extract_lesson_blocks(prompt: str) -> str:
    """Return the #lesson blocks, with an ellipsis for other text; empty if there is no block.

    That text is not stored, but the ellipsis shows that a block was not alone, so it may have been pasted.
    """
    from hardwon.text.lesson_tags import find_lesson_blocks

    blocks = find_lesson_blocks(prompt)
    if not blocks:
        return ""
    parts: list[str] = []
    end = 0  # of the block before
    for block in blocks:
        # What stands before the tag on its line comes along, such as the marker of a quote or a list.
        line_start = prompt.rfind("\n", end, block.start) + 1
        start = line_start or end  # `rfind` found no newline
        parts.append("…" if prompt[end:start].strip() else "")
        parts.append(prompt[start : block.end])
        end = block.end
    parts.append("…" if prompt[end:].strip() else "")
    return "\n".join(parts)


def search_pattern(pattern: Pattern, text: str) -> bool:
    """Search with `re` under an alarm: a catastrophic pattern does not match, and the other lessons still do."""
    import _signal  # type: ignore[import-not-found]  # `signal` would import enum
    import re

    from hardwon.lessons.matching import get_pattern_timeout

    def raise_timeout(*_: object) -> None:
        raise TimeoutError

    # CPU time and not wall time: on a busy machine a sound pattern would run into the limit.
    _signal.signal(_signal.SIGVTALRM, raise_timeout)
    _signal.setitimer(_signal.ITIMER_VIRTUAL, get_pattern_timeout(text))
    try:
        return re.compile(pattern.source, pattern.flags).search(text) is not None
    except (TimeoutError, re.error, RecursionError, OverflowError):
        return False
    finally:
        _signal.setitimer(_signal.ITIMER_VIRTUAL, 0)  # ends the alarm


def _log_error(home: str, kind: str, error: Exception) -> None:
    """Log an error in one line, without the payload, which may be private."""
    # The innermost frame, without importing `traceback`.
    trace = error.__traceback__
    location = ""
    while trace:
        location = f"{os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}"
        trace = trace.tb_next
    paths.append_to_hook_log(home, [f"{kind} {type(error).__name__} at {location}"], time())
