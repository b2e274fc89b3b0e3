"""The hook while the worker is away: the same answers from the compiled manifest, in the same process.

What was delivered is spooled, so that the record is complete when the worker is back. Nothing that goes wrong here
may reach the agent; it goes to a log that `doctor` reads.
"""

from __future__ import annotations

import os
import sys
from time import monotonic, process_time, sleep, time

from hardwon import claims, paths, pauses
from hardwon.agents import load_payload_module as host_named
from hardwon.agents.exchange import read_event, write_reply
from hardwon.fallback import worker_start
from hardwon.lessons.delivery import (
    READ_ONLY_VERBS,
    answer_prompt,
    can_be_for_hardwon,
    is_answered_by_hardwon,
    open_index,
    parse_decision,
    refuse_decision,
    reply_to_event,
)
from hardwon.lessons.matching import get_pattern_timeout
from hardwon.privacy.identifiers import clean_ids
from hardwon.sessions import spool
from hardwon.types import ANSWERED_EVENTS, EMPTY_ANSWER, EMPTY_REPLY, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from subprocess import Popen
    from typing import Any

    from hardwon.lessons.manifest_index import ManifestIndex
    from hardwon.types import Delivery, Event, Pattern

    AskWorker = Callable[[str, str, str, str, bytes], bytes | None]

MANIFEST_SOURCES = (paths.LESSONS, paths.TRUSTED_PROJECTS)
WORKER_START_SECONDS = 1.5
START_BUDGET_SHARE = 0.4  # of a prompt's, to wait for a worker that starts: the answer takes up to half of it
BUILD_SECONDS = 10.0  # for an agent that would wait for ever: the others give a hook less, and then the build goes on
SESSION_START_BUILD_SECONDS = 4.0  # of that at the start of a session, where a person waits
MAX_LOG_BYTES = 200_000


def answer_event(agent: str, kind: str, home: str, event_id: str, payload: bytes, ask_worker: AskWorker) -> bytes:
    try:
        return _answer(agent, kind, home, event_id, payload, ask_worker)
    except Exception as wrong:  # noqa: BLE001 (nothing of ours may reach the agent)
        _log(home, kind, wrong)
        return EMPTY_ANSWER


def _answer(host: str, kind: str, home: str, id: str, payload: bytes, ask: AskWorker) -> bytes:
    started = monotonic()
    read = read_event(host, kind, payload)
    if read is None:
        return EMPTY_ANSWER
    event = replace(clean_ids(read), id=id, at=time())
    warm = None
    if os.path.exists(os.path.join(home, paths.PAUSES)):
        if pauses.is_paused(home, event.cwd, event.at):
            claims.mark_paused(home, event.session, event.at)
            return EMPTY_ANSWER
        warm = ask(host, kind, home, id, payload)
    # A worker that listens and did not answer is stuck; asking it again would only cost the same time again.
    if not warm and _wants_worker(event) and not _listens(home) and worker_start.can_start(home, event.at):
        _launch(home, event.kind)
        wait = (
            WORKER_START_SECONDS
            if event.kind == "SessionStart"
            else host_named(host).EVENT_TIMEOUTS[event.kind] * START_BUDGET_SHARE
        )
        while not (warm := ask(host, kind, home, id, payload)) and monotonic() - started < min(
            wait, WORKER_START_SECONDS
        ):
            sleep(0.02)
    return warm or _from_manifest(event, home)


def _listens(home: str) -> bool:
    """Return whether a worker takes connections, whether or not it answers."""
    import _socket

    line = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        line.settimeout(0.1)
        line.connect(os.readlink(os.path.join(home, paths.SOCKET)))
    except (BlockingIOError, TimeoutError):
        return True  # so many wait already that no more are let in
    except OSError:
        return False
    finally:
        line.close()
    return True


def _wants_worker(event: Event) -> bool:
    """Whether only the worker can answer: a session that starts, or what a person typed to us."""
    return event.kind == "SessionStart" or _is_typed_to_us(event)


def _is_typed_to_us(event: Event) -> bool:
    return event.kind == "UserPromptSubmit" and event.source != "command" and can_be_for_hardwon(event.prompt)


def _launch(home: str, kind: str) -> None:
    try:
        worker_start.launch_worker(home)
    except OSError as wrong:  # the session still opens with what the manifest has
        _log(home, kind, wrong)


def _from_manifest(event: Event, home: str) -> bytes:
    index = _opened(home)
    kept = None if event.kind == "PreToolUse" or is_answered_by_hardwon(event) else _kept(event, home, index)
    if index is None and event.kind in ANSWERED_EVENTS and not _is_unbuildable(home):
        _spool(home, event, kept)  # the agent may end us before the manifest is there
        index = _built(home, SESSION_START_BUILD_SECONDS if event.kind == "SessionStart" else BUILD_SECONDS)
    reply, started = EMPTY_REPLY, process_time()
    if index is not None:
        reply = reply_to_event(
            event,
            index,
            home,
            search_pattern=search_pattern,
            get_cpu_seconds=lambda: process_time() - started,  # to get as far as this may take a small machine long
            handle_prompt=lambda event: _keep_lesson(home, event),
            find_doubt=lambda event: _find_doubt(home, event),
        )
    elif _is_typed_to_us(event):
        reply = answer_prompt(event, _keep_lesson(home, event))
    if reply.deny and event.kind == "PreToolUse":
        kept = _kept(replace(event, denied=True), home, index)
    _spool(home, event, kept, reply.deliveries)
    return write_reply(event, reply)


def _spool(home: str, event: Event, kept: Event | None, injections: Sequence[Delivery] = ()) -> None:
    """Leave it for the worker, in the place of what was left of the same event before."""
    try:
        if injections or kept:
            spool.spool_event(home, event, filtered_event=kept, deliveries=injections)
    except OSError as full:  # the agent gets its answer all the same
        _log(home, event.kind, full)


def _opened(home: str) -> ManifestIndex | None:
    """The compiled manifest, however old."""
    try:
        return open_index(home)
    except (OSError, ValueError):
        return None


def _sources(home: str) -> str:
    """Another text when there is something else to build from; empty with nothing."""
    found = []
    for name in MANIFEST_SOURCES:
        try:
            found.append(str(os.stat(os.path.join(home, name)).st_mtime_ns))
        except OSError:
            continue
    return " ".join(found)


def _is_unbuildable(home: str) -> bool:
    """Whether there is nothing to build from, or nothing but what could not be built."""
    wanted = _sources(home)
    try:
        with open(
            os.path.join(home, paths.FAILED_BUILD), encoding="ascii", errors="replace", opener=paths.open_plain_file
        ) as file:
            return not wanted or file.read() == wanted
    except OSError:
        return not wanted


def _kept(event: Event, home: str, index: ManifestIndex | None) -> Event | None:
    from hardwon.privacy.event_filter import (  # a tool call that is only asked about need not pay for it
        filter_hook_event,
        read_recording_settings,
    )

    return filter_hook_event(event, home, read_recording_settings(home, {} if index is None else index.settings))


def _built(home: str, seconds: float) -> ManifestIndex | None:
    """An index that is gone or spoilt is made from the sources by a process of its own, once however many wait for it.

    If the agent ends the hook meanwhile, the build goes on, and the next call finds it done.
    """
    import fcntl

    end, wanted = monotonic() + seconds, _sources(home)
    try:
        lock = os.open(os.path.join(home, paths.BUILD_LOCK), os.O_RDWR | os.O_CREAT, 0o600)
    except OSError:
        return None
    try:
        is_ours = _is_free(lock, fcntl)
        building = _build(home, lock) if is_ours else None
        while monotonic() < end:
            ended = building.poll() is not None if building else _is_free(lock, fcntl)
            if ended or (not is_ours and _opened(home)):
                break
            sleep(0.01)
        index = _opened(home)
        if index is None and building and building.poll():
            paths.write_private(os.path.join(home, paths.FAILED_BUILD), wanted.encode())
        return index
    except OSError:
        return None
    finally:
        os.close(lock)


def _is_free(lock: int, fcntl: Any) -> bool:
    """Whether nobody builds; then the lock is ours."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _build(home: str, lock: int) -> Popen[bytes]:
    """A process that holds the lock for as long as it lives."""
    import subprocess

    words = [sys.executable, "-I", "-m", "hardwon", "lessons", "build", "--no-approve"]
    env, null = {**os.environ, "HARDWON_HOME": home}, subprocess.DEVNULL
    return subprocess.Popen(
        words, env=env, stdin=null, stdout=null, stderr=null, start_new_session=True, pass_fds=[lock]
    )


def _find_doubt(home: str, event: Event) -> str:
    from hardwon.agents import prompt_origin

    return prompt_origin.find_doubt(os.getpid(), event.host, home)


def _keep_lesson(home: str, event: Event) -> str:
    """Answer what was typed to us. Nothing in the spool can prove later who wrote it, so a decision is not kept, and a
    lesson is kept as a proposal."""
    from hardwon.privacy.cleaning import clean_text

    decision = parse_decision(event.prompt.split())
    if decision and decision[1] in READ_ONLY_VERBS:
        return "hardwon: the worker is away, and it has the answer: hardwon start, then type it again"
    if decision and (doubt := _find_doubt(home, event)):
        return f"hardwon: {refuse_decision(home, event.prompt, doubt, event.at)}"
    if decision and os.path.exists(os.path.join(home, paths.SOCKET)):
        return "hardwon: the worker is busy and may still do this. Check before you type it again"
    if decision:
        return "hardwon: NOT done, the worker is not running yet. Type it again in a moment, or run: hardwon start"
    prompt = _blocks_of(clean_text(event.prompt))
    if not prompt:
        return ""
    try:
        spool.spool_event(home, event, typed_prompts=[replace(event, prompt=prompt)])
    except OSError as full:
        return f"hardwon: NOT kept, type it again later: the worker is away and {home} is not writable: {full.strerror}"
    return "hardwon: the worker is away; the lesson is kept as a proposal (hardwon start, then hardwon lessons list)"


def _blocks_of(prompt: str) -> str:
    """The blocks alone, on their lines. The rest is not ours to keep, but a lesson among other text counts for less
    than one alone, so an ellipsis stands for it."""
    from hardwon.text.lesson_tags import find_lesson_blocks

    parts, end, found = list[str](), 0, find_lesson_blocks(prompt)
    for tag in found:
        start = prompt.rfind("\n", end, tag.start) + 1 or end
        parts += ["…" * bool(prompt[end:start].strip()), prompt[start : tag.end]]
        end = tag.end
    parts.append("…" * bool(prompt[end:].strip()))
    return "\n".join(parts) if found else ""


def search_pattern(pattern: Pattern, text: str) -> bool:
    """`re` under an alarm, which interrupts it: a catastrophic pattern loses its turn, not the guard beside it."""
    import _signal  # type: ignore[import-not-found]  # `signal` would bring in enum
    import re

    def ring(*_: object) -> None:
        raise TimeoutError

    _signal.signal(_signal.SIGVTALRM, ring)
    _signal.setitimer(_signal.ITIMER_VIRTUAL, get_pattern_timeout(text))
    try:
        return re.compile(pattern.source, pattern.flags).search(text) is not None
    except (TimeoutError, re.error, RecursionError, OverflowError):
        return False
    finally:
        _signal.setitimer(_signal.ITIMER_VIRTUAL, 0)


def _log(home: str, kind: str, wrong: Exception) -> None:
    """One line on what went wrong, never the payload: it may hold what is private."""
    try:
        path = os.path.join(home, paths.HOOK_LOG)
        paths.make_private_folder(os.path.dirname(path))
        if os.path.exists(path) and os.path.getsize(path) > MAX_LOG_BYTES:
            os.replace(path, path + ".old")
        trace, where = wrong.__traceback__, ""
        while trace:
            where = f"{os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}"
            trace = trace.tb_next
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a") as file:
            file.write(f"{time():.0f} {kind} {type(wrong).__name__} at {where}\n")
    except OSError:
        pass
