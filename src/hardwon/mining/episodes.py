"""Error, then correction: an episode found in a session's steps by plain code, and what it is worth.

An episode is one thing that went wrong, with every failed attempt at it, until a call with the same aim worked. It is
scored by named parts, so that a person sees why it ranks where it does. The parts say what makes an error worth
telling another session: it is about a tool or the surroundings rather than the files under work; another form of the
call cured it, not an edit; it took several attempts; somebody gave the reason; a person said how it is done.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from hardwon.agents.transcript_steps import Step
from hardwon.mining import corrections
from hardwon.mining.episode_state import Open, Thread, restored, saved
from hardwon.mining.suggestions import problem_of, solution_of, tags_of, trigger_of
from hardwon.shell import failures
from hardwon.shell.failures import QUOTE, About, Failure
from hardwon.types import word

WINDOW = 15  # calls; corrections come 3 to 15 calls after the error
THRESHOLD = 0.4  # from here on an episode is proposed even if it never happens again
_AGENTS = 16
_PENDING = 32  # calls; results come within 10
_MOST_OPEN = 8  # of one agent
_MOST_ERRORS = 16
_KEPT = 4_000  # characters of what was run, written or said
_WORDS_WITHIN = 4  # calls after the error; what is said later is about something else
_FEW_WORDS = 3  # "continue", "commit it": the next task, not a correction

_ABOUT: Mapping[About, float] = {
    "interface": 0.35,
    "environment": 0.25,
    "other": 0.15,
    "code": 0.1,
    "refused": 0.0,
    "silent": 0.0,
    "anchor": 0.0,
    "path": -0.1,
    "precondition": -0.3,
}
_ANOTHER_CALL, _SAME_CALL, _AFTER_EDITS = 0.3, -0.1, -0.2
_LOOKING = -0.15  # a look that failed is answered by another look
_ATTEMPT, _ATTEMPTS = 0.15, 0.3
_REASON = 0.1
_REFUSED, _TOLD = 0.3, 0.3
_SESSION, _SESSIONS = 0.1, 0.3


@word
class Quoted:
    """Where something stands in the transcript."""

    line: int
    kind: Literal["error", "correction", "user"]
    quote: str


@word
class Episode:
    """One thing that went wrong, every attempt at it, and what put it right; `errors[0].id` tells it from others."""

    session: str
    agent: str
    cwd: str
    at: str
    errors: tuple[Failure, ...]
    failing: Step
    worked: Step | None
    removed: tuple[str, ...]
    added: tuple[str, ...]
    agent_words: str
    person_words: str
    refused: bool
    parts: Mapping[str, float]
    score: float
    problem: str
    solution: str
    trigger: str
    tags: tuple[str, ...]
    signature: str
    evidence: tuple[Quoted, ...]
    open: bool  # its correction may still come, in steps that are not written yet


class Watch:
    """Owns what is under way in one transcript."""

    def __init__(self, state: Mapping[str, Any] | None = None, *, window: int = WINDOW) -> None:
        self._window = window
        self._threads = restored(state)

    def take(self, step: Step) -> Sequence[Episode]:
        """The episodes that this step ends."""
        thread = self._threads.get(step.agent)
        ended = self._met(step) if thread is None else _taken(thread, step, self._window)
        return [_episode(each) for each in ended] if ended else ()

    def unfinished(self) -> list[Episode]:
        """The episodes whose correction may still come, as they stand."""
        return [_episode(each, still_open=True) for thread in self._threads.values() for each in thread.open]

    def state(self) -> dict[str, Any]:
        return saved(self._threads)

    def _met(self, step: Step) -> Sequence[Open]:
        """Takes an agent's first step in; there is room for so many, and the one met first makes it."""
        left = self._threads.pop(next(iter(self._threads))).open if len(self._threads) >= _AGENTS else ()
        thread = self._threads[step.agent] = Thread()
        return [*left, *_taken(thread, step, self._window)]


def episodes(steps: Iterable[Step], *, window: int = WINDOW) -> list[Episode]:
    """Every episode of a session in the order in which they ended; those still open come last."""
    watch = Watch(window=window)
    return [episode for step in steps for episode in watch.take(step)] + watch.unfinished()


def recurrence(about: About, wordless: bool, sessions: int) -> float:
    """What it counts that several sessions met the same error.

    A check fails again and again, that is its purpose; and a refusal without words says nothing twice.
    """
    says_nothing = wordless or about in ("code", "silent")
    return 0.0 if says_nothing else min(_SESSION * max(sessions - 1, 0), _SESSIONS)


def _taken(thread: Thread, step: Step, window: int) -> Sequence[Open]:
    """Takes a step in; gives the episodes that it ends."""
    kind = step.kind
    if kind == "call":
        return _called(thread, step, window)
    if kind == "result":
        _, call = thread.pending.pop(step.call, (0, None))
        return _result(thread, call, step) if call else ()
    if thread.open:
        if kind == "agent":
            _spoke(thread, step)
        elif kind == "person":
            _heard(thread, step)
    return ()


def _called(thread: Thread, step: Step, window: int) -> Sequence[Open]:
    if len(step.command) > _KEPT or len(step.content) > _KEPT or len(step.path) > _KEPT:
        step = step._replace(command=step.command[:_KEPT], content=step.content[:_KEPT], path=step.path[:_KEPT])
    pending = thread.pending
    pending.pop(step.call, None)
    thread.calls += 1
    pending[step.call] = thread.calls, step
    oldest = next(iter(pending))
    if thread.calls - pending[oldest][0] > _PENDING:
        del pending[oldest]
    if not thread.open:
        return ()
    return _leave(thread, [each for each in thread.open if thread.calls - each.last > window])


def _leave(thread: Thread, ended: list[Open]) -> list[Open]:
    if ended:
        thread.open = [each for each in thread.open if each not in ended]
    return ended


def _enter(thread: Thread, new: Open) -> list[Open]:
    """Begins an episode; gives the oldest if there are too many."""
    thread.open.append(new)
    return _leave(thread, thread.open[:-_MOST_OPEN])


def _spoke(thread: Thread, step: Step) -> None:
    lately = [each for each in thread.open if thread.calls - each.last <= _WORDS_WITHIN]
    if lately:
        reason, newest = corrections.because(step.text[:_KEPT]), max(each.last for each in lately)
        for each in (each for each in lately if each.last == newest):  # of several the agent means the latest
            each.reasons = [*each.reasons, (step.line, reason)][-_WORDS_WITHIN:]


def _heard(thread: Thread, step: Step) -> None:
    """A person's words belong to the call they refused, or to the failure they were just shown if they correct it."""
    latest = thread.open[-1]
    if thread.failed and not latest.told and (latest.waits or corrections.corrects(step.text)):
        latest.told, latest.told_at, latest.waits = step.text[:_KEPT], step.line, False


def _result(thread: Thread, call: Step, step: Step) -> Sequence[Open]:
    if step.denied:  # the call did not run: it cures nothing, and is no attempt
        return ()
    if step.refused:
        thread.failed = True
        return _refused(thread, call, step)
    if step.failed or failures.reads_as_failure(call.tool, call.command, step.text):
        thread.failed = True
        return _failed(thread, call, _failure(call, step))
    thread.failed = False
    return _worked(thread, call) if thread.open else ()


def _refused(thread: Thread, call: Step, step: Step) -> list[Open]:
    new = Open(call, [_failure(call, step)], thread.calls)
    new.refused, new.told = True, step.refused.strip()[:_KEPT]
    new.waits, new.told_at = not new.told, step.line if new.told else 0
    return _enter(thread, new)


def _worked(thread: Thread, call: Step) -> list[Open]:
    ended = _leave(thread, _cured(_akin(thread, call), call))
    unedited = [each for each in thread.open if each.failing.tool == "Bash" and not each.edited]
    if unedited and corrections.changes_files(call):
        for each in unedited:
            each.edited = True
    return ended


def _cured(these: list[Open], call: Step) -> list[Open]:
    for each in these:
        each.worked = call
    return these


def _akin(thread: Thread, call: Step) -> list[Open]:
    """The episodes that a call belongs to: it wants the same, and was made when their latest error was known."""
    return [
        each
        for each in thread.open
        if not each.refused
        and call.line > each.errors[-1].line
        and corrections.alike(each.failing, call, each.errors[-1])
    ]


def _failed(thread: Thread, call: Step, error: Failure) -> list[Open]:
    """Another attempt at what failed before, or the start of an episode.

    A form of the call that fails in quite another way got past what stopped the first: that one is cured.
    """
    if error.about == "cancelled":
        return []
    before = _akin(thread, call)
    kin = [each for each in before if each.errors[-1].about == error.about]
    kin = kin or [each for each in thread.open if each.errors[-1].signature == error.signature and not each.refused]
    others = [each for each in before if each not in kin and not corrections.same(each.failing, call, False)]
    ended = _leave(thread, _cured(others, call))
    if not kin:
        return ended + _enter(thread, Open(call, [error], thread.calls))
    latest = kin[-1]
    latest.errors.append(error)
    latest.failing, latest.last = call, thread.calls
    return ended + _leave(thread, [latest] if len(latest.errors) >= _MOST_ERRORS else [])


def _failure(call: Step, result: Step) -> Failure:
    line = failures.key_line(result.text, shell=call.tool == "Bash")
    about = "refused" if result.refused else failures.about(result.text, line, call.command)
    sign = failures.signature(call.tool, call.command, about, line)
    text = failures.ends(result.text)
    quote = line or text.strip()[:QUOTE].partition("\n")[0]
    return Failure(result.id, result.line, call.line, call.tool, call.command, call.path, text, quote, about, sign)


def _episode(own: Open, *, still_open: bool = False) -> Episode:
    first, failing, worked = own.errors[0], own.failing, own.worked
    spoken_at, reason = next((each for each in own.reasons if each[1]), (0, ""))
    removed, added = corrections.difference(failing.command, worked.command) if worked else ([], [])
    parts = _parts(own, reason)
    evidence = [Quoted(error.line, "error", error.quote) for error in own.errors]
    if reason:
        evidence.append(Quoted(spoken_at, "correction", reason))
    if worked and (quote := _quote(worked)):
        evidence.append(Quoted(worked.line, "correction", quote))
    if own.told_at:
        evidence.append(Quoted(own.told_at, "user", own.told[:QUOTE].rstrip()))
    return Episode(
        session=failing.session,
        agent=failing.agent,
        cwd=failing.cwd,
        at=failing.at,
        errors=tuple(own.errors),
        failing=failing,
        worked=worked,
        removed=tuple(removed),
        added=tuple(added),
        agent_words=reason,
        person_words=own.told,
        refused=own.refused,
        parts=parts,
        score=total(parts),
        problem=problem_of(failing, first.quote, own.told if own.refused else ""),
        solution=solution_of(failing, worked, removed, added, reason, own.told),
        trigger=trigger_of(failing, removed, first.quote),
        tags=tags_of(failing, first.quote),
        signature=_signature(own),
        evidence=tuple(evidence),
        open=still_open,
    )


def _quote(call: Step) -> str:
    """What stands on a call's line: a look at what runs in the background has no command there."""
    given = (call.command if call.tool != "BashOutput" else "") or call.path
    return (given or call.content.strip().partition("\n")[0])[:QUOTE].rstrip()


def _signature(own: Open) -> str:
    """A refusal is known by a person's words: those of the host are the same every time."""
    if own.refused and own.told:
        return failures.signature(own.failing.tool, own.failing.command, "refused", own.told)
    return own.errors[0].signature


def _parts(own: Open, reason: str) -> dict[str, float]:
    parts = {"about": 0.0, "cure": 0.0, "attempts": 0.0, "reason": 0.0, "person": 0.0, "recurs": 0.0}
    if own.failing.tool not in corrections.ASKS_A_PERSON:
        parts["person"] += _TOLD if corrections.corrects(own.told) else 0.0
        parts["person"] += _REFUSED if own.refused and len(own.told.split()) > _FEW_WORDS else 0.0
    if own.refused:
        return parts
    parts["about"] = _ABOUT[own.errors[0].about] + (_LOOKING if _only_looked(own) else 0.0)
    if own.worked:
        parts["cure"] = _SAME_CALL if _same(own) else _ANOTHER_CALL
    if _code_was_changed(own):
        parts["cure"] = _AFTER_EDITS
    else:
        parts["attempts"] = min(_ATTEMPT * (corrections.forms(own.errors) - 1), _ATTEMPTS)
    parts["reason"] = _REASON if reason else 0.0
    return parts


def _code_was_changed(own: Open) -> bool:
    """Whether edits can have cured it; no edit teaches a program an option or opens a port."""
    about = own.errors[0].about
    if about in ("interface", "environment"):
        return False
    return bool(own.edited or (about == "code" and own.worked and corrections.changes_files(own.worked)))


def _same(own: Open) -> bool:
    return own.worked is not None and corrections.same(own.failing, own.worked, own.errors[0].about == "code")


def _only_looked(own: Open) -> bool:
    return own.failing.tool == "Bash" and failures.only_looks(own.failing.command)


def total(parts: Mapping[str, float]) -> float:
    """One score from 0 to 1."""
    return round(min(max(sum(parts.values()), 0.0), 1.0), 3)
