"""The hook while the worker is away: the same answers from the compiled manifest, in the same process.

What was delivered is spooled, so that the record is complete when the worker is back. Nothing that goes wrong here
may reach the agent; it goes to a log that `doctor` reads.
"""

from __future__ import annotations

import os
import sys
from time import monotonic, process_time, sleep, time

from hardwon import claims, paths, pauses
from hardwon.agents import host as host_named
from hardwon.agents.exchange import read_event, write_reply
from hardwon.fallback import worker_start
from hardwon.lessons.delivery import (
    ASKING,
    answer_prompt,
    decides,
    is_answered_here,
    is_for_us,
    open_index,
    refuse_decision,
    reply_to,
)
from hardwon.lessons.matching import patience
from hardwon.privacy.identifiers import clean_ids
from hardwon.sessions import spool
from hardwon.types import ASKS, NOTHING, SILENCE, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from subprocess import Popen
    from typing import Any

    from hardwon.lessons.manifest_index import Index
    from hardwon.types import Event, Injection, Pattern

    Ask = Callable[[str, str, str, str, bytes], bytes | None]

SOURCES = (paths.LESSONS, paths.TRUSTED)
START_SECONDS = 1.5
SHARE_OF_BUDGET = 0.4  # of a prompt's, to wait for a worker that starts: the answer takes up to half of it
BUILD_SECONDS = 10.0  # for an agent that would wait for ever: the others give a hook less, and then the build goes on
OPENING_SECONDS = 4.0  # of that at the start of a session, where a person waits
LOG_BYTES = 200_000


def answer(host: str, kind: str, home: str, id: str, payload: bytes, ask: Ask) -> bytes:
    try:
        return _answer(host, kind, home, id, payload, ask)
    except Exception as wrong:  # noqa: BLE001 (nothing of ours may reach the agent)
        _log(home, kind, wrong)
        return SILENCE


def _answer(host: str, kind: str, home: str, id: str, payload: bytes, ask: Ask) -> bytes:
    started = monotonic()
    read = read_event(host, kind, payload)
    if read is None:
        return SILENCE
    event = replace(clean_ids(read), id=id, at=time())
    warm = None
    if os.path.exists(os.path.join(home, paths.PAUSED)):
        if pauses.paused(home, event.cwd, event.at):
            claims.note_pause(home, event.session, event.at)
            return SILENCE
        warm = ask(host, kind, home, id, payload)
    # A worker that listens and did not answer is stuck; asking it again would only cost the same time again.
    if not warm and _wants_worker(event) and not _listens(home) and worker_start.may_start(home, event.at):
        _launch(home, event.kind)
        wait = START_SECONDS if event.kind == "SessionStart" else host_named(host).EVENTS[event.kind] * SHARE_OF_BUDGET
        while not (warm := ask(host, kind, home, id, payload)) and monotonic() - started < min(wait, START_SECONDS):
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
    return event.kind == "UserPromptSubmit" and event.source != "command" and is_for_us(event.prompt)


def _launch(home: str, kind: str) -> None:
    try:
        worker_start.launch(home)
    except OSError as wrong:  # the session still opens with what the manifest has
        _log(home, kind, wrong)


def _from_manifest(event: Event, home: str) -> bytes:
    index = _opened(home)
    kept = None if event.kind == "PreToolUse" or is_answered_here(event) else _kept(event, home, index)
    if index is None and event.kind in ASKS and not _is_unbuildable(home):
        _spool(home, event, kept)  # the agent may end us before the manifest is there
        index = _built(home, OPENING_SECONDS if event.kind == "SessionStart" else BUILD_SECONDS)
    reply, started = NOTHING, process_time()
    if index is not None:
        reply = reply_to(
            event,
            index,
            home,
            search=search,
            seconds=lambda: process_time() - started,  # to get as far as this may take a small machine long
            learn=lambda event: _keep_lesson(home, event),
            doubt=lambda event: _find_doubt(home, event),
        )
    elif _is_typed_to_us(event):
        reply = answer_prompt(event, _keep_lesson(home, event))
    if reply.deny and event.kind == "PreToolUse":
        kept = _kept(replace(event, denied=True), home, index)
    _spool(home, event, kept, reply.injections)
    return write_reply(event, reply)


def _spool(home: str, event: Event, kept: Event | None, injections: Sequence[Injection] = ()) -> None:
    """Leave it for the worker, in the place of what was left of the same event before."""
    try:
        if injections or kept:
            spool.keep(home, event, kept=kept, injections=injections)
    except OSError as full:  # the agent gets its answer all the same
        _log(home, event.kind, full)


def _opened(home: str) -> Index | None:
    """The compiled manifest, however old."""
    try:
        return open_index(home)
    except (OSError, ValueError):
        return None


def _sources(home: str) -> str:
    """Another text when there is something else to build from; empty with nothing."""
    found = []
    for name in SOURCES:
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
            os.path.join(home, paths.UNBUILT), encoding="ascii", errors="replace", opener=paths.plain_file
        ) as file:
            return not wanted or file.read() == wanted
    except OSError:
        return not wanted


def _kept(event: Event, home: str, index: Index | None) -> Event | None:
    from hardwon.privacy.event_filter import kept, limits  # a tool call that is only asked about need not pay for it

    return kept(event, home, limits(home, {} if index is None else index.settings))


def _built(home: str, seconds: float) -> Index | None:
    """An index that is gone or spoilt is made from the sources by a process of its own, once however many wait for it.

    If the agent ends the hook meanwhile, the build goes on, and the next call finds it done.
    """
    import fcntl

    end, wanted = monotonic() + seconds, _sources(home)
    try:
        lock = os.open(os.path.join(home, paths.BUILDING), os.O_RDWR | os.O_CREAT, 0o600)
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
            paths.write_private(os.path.join(home, paths.UNBUILT), wanted.encode())
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
    from hardwon.privacy.cleaning import clean

    decision = decides(event.prompt.split())
    if decision and decision[1] in ASKING:
        return "hardwon: the worker is away, and it has the answer: hardwon start, then type it again"
    if decision and (doubt := _find_doubt(home, event)):
        return f"hardwon: {refuse_decision(home, event.prompt, doubt, event.at)}"
    if decision and os.path.exists(os.path.join(home, paths.SOCKET)):
        return "hardwon: the worker is busy and may still do this. Check before you type it again"
    if decision:
        return "hardwon: NOT done, the worker is not running yet. Type it again in a moment, or run: hardwon start"
    prompt = _blocks_of(clean(event.prompt))
    if not prompt:
        return ""
    try:
        spool.keep(home, event, lessons=[replace(event, prompt=prompt)])
    except OSError as full:
        return f"hardwon: NOT kept, type it again later: the worker is away and {home} is not writable: {full.strerror}"
    return "hardwon: the worker is away; the lesson is kept as a proposal (hardwon start, then hardwon lessons list)"


def _blocks_of(prompt: str) -> str:
    """The blocks alone, on their lines. The rest is not ours to keep, but a lesson among other text counts for less
    than one alone, so an ellipsis stands for it."""
    from hardwon.text.lesson_tags import blocks

    parts, end, found = list[str](), 0, blocks(prompt)
    for tag in found:
        start = prompt.rfind("\n", end, tag.start) + 1 or end
        parts += ["…" * bool(prompt[end:start].strip()), prompt[start : tag.end]]
        end = tag.end
    parts.append("…" * bool(prompt[end:].strip()))
    return "\n".join(parts) if found else ""


def search(pattern: Pattern, text: str) -> bool:
    """`re` under an alarm, which interrupts it: a catastrophic pattern loses its turn, not the guard beside it."""
    import _signal  # type: ignore[import-not-found]  # `signal` would bring in enum
    import re

    def ring(*_: object) -> None:
        raise TimeoutError

    _signal.signal(_signal.SIGVTALRM, ring)
    _signal.setitimer(_signal.ITIMER_VIRTUAL, patience(text))
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
        paths.private_folder(os.path.dirname(path))
        if os.path.exists(path) and os.path.getsize(path) > LOG_BYTES:
            os.replace(path, path + ".old")
        trace, where = wrong.__traceback__, ""
        while trace:
            where = f"{os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}"
            trace = trace.tb_next
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a") as file:
            file.write(f"{time():.0f} {kind} {type(wrong).__name__} at {where}\n")
    except OSError:
        pass
