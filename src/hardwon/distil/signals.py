"""Error, then correction: episodes found in a session's steps by plain code.

An episode is one thing that went wrong, with every failed attempt at it, until a call with the same aim worked. It is
scored by named parts, so that a person sees why it ranks where it does. The parts say what makes an error worth
telling another session: it is about a tool or the surroundings rather than the files under work; another form of the
call cured it, not an edit; it took several attempts; somebody gave the reason; a person said how it is done.

Memory is bounded by the window: an episode is given out once WINDOW calls have passed since its last error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from hardwon.distil import corrections, errors_seen
from hardwon.distil.errors_seen import QUOTE, About, Failure
from hardwon.distil.suggest import problem_of, solution_of, trigger_of
from hardwon.hosts.history import Step
from hardwon.words import replace, word

WINDOW = 15  # calls; corrections come 3 to 15 calls after the error
THRESHOLD = 0.4  # from here on an episode is proposed even if it never happens again
_PENDING = 64
_KEPT = 4_000  # characters of what was run, written or said
_MOST_ERRORS = 32
_AGENTS = 16
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
class Evidence:
    """Where something stands in the transcript."""

    line: int
    kind: Literal["error", "correction", "user"]
    quote: str


@word
class Episode:
    """One thing that went wrong, every attempt at it, and what put it right."""

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
    signature: str
    evidence: tuple[Evidence, ...]
    open: bool  # the steps ended within its window: a scan that begins at errors[0].call_line may find the correction


class _Open:
    """An episode whose correction may still come."""

    def __init__(self, call: Step, error: Failure, now: int) -> None:
        self.failing, self.errors, self.last = call, [error], now
        self.refused = self.waits = False
        self.edits = 0
        self.worked: Step | None = None
        self.said: list[Step] = []
        self.person: Step | None = None
        self.told = ""


class _Thread:
    """What one agent of the session has under way."""

    def __init__(self) -> None:
        self.pending: dict[str, Step] = {}
        self.open: list[_Open] = []
        self.calls = 0
        self.failed = False  # the latest result


def episodes(steps: Iterable[Step]) -> list[Episode]:
    """Every episode of a session, in the order in which they ended."""
    return list(watch(steps))


def watch(steps: Iterable[Step]) -> Iterator[Episode]:
    """The episodes as they end; those still open come last."""
    threads: dict[str, _Thread] = {}
    for step in steps:
        thread = threads.get(step.agent)
        if thread is None:
            if len(threads) >= _AGENTS:
                yield from _given(threads.pop(next(iter(threads))).open)
            thread = threads[step.agent] = _Thread()
        yield from _given(_taken(thread, step))
    for thread in threads.values():
        yield from _given(thread.open, still_open=True)


def recurring(episode: Episode, sessions: int) -> Episode:
    """The same episode, scored by the number of sessions in which its signature was met.

    A check fails again and again, that is its purpose; and a refusal without words says nothing twice.
    """
    says_nothing = episode.errors[0].about in ("code", "silent") or (episode.refused and not episode.person_words)
    recurs = 0.0 if says_nothing else min(_SESSION * max(sessions - 1, 0), _SESSIONS)
    parts = {**episode.parts, "recurs": recurs}
    return replace(episode, parts=parts, score=_sum(parts))


def _taken(thread: _Thread, step: Step) -> list[_Open]:
    """Takes a step in; gives the episodes that it ends."""
    if step.kind == "call":
        thread.pending[step.call] = step._replace(command=step.command[:_KEPT], content=step.content[:_KEPT])
        if len(thread.pending) > _PENDING:
            del thread.pending[next(iter(thread.pending))]
        thread.calls += 1
        return _leave(thread, [each for each in thread.open if thread.calls - each.last > WINDOW])
    if step.kind == "result":
        call = thread.pending.pop(step.call, None)
        return _result(thread, call, step) if call else []
    if step.kind == "agent":
        for each in thread.open:
            if thread.calls - each.last <= _WORDS_WITHIN:
                each.said = [*each.said, step._replace(text=step.text[:_KEPT])][-_WORDS_WITHIN:]
    elif step.kind == "person":
        _heard(thread, step)
    return []


def _leave(thread: _Thread, ended: list[_Open]) -> list[_Open]:
    thread.open = [each for each in thread.open if each not in ended]
    return ended


def _heard(thread: _Thread, step: Step) -> None:
    """A person's words belong to the call they refused, or to the failure they were just shown if they correct it."""
    if not thread.open or not thread.failed:
        return
    latest = thread.open[-1]
    if not latest.told and (latest.waits or corrections.corrects(step.text)):
        latest.person, latest.told, latest.waits = step, step.text[:_KEPT], False


def _result(thread: _Thread, call: Step, step: Step) -> list[_Open]:
    hidden = call.tool == "Bash" and not step.failed and errors_seen.hidden_failure(call.command, step.text)
    thread.failed = bool(step.failed or step.refused or hidden)
    if step.refused:
        new = _Open(call, _failure(call, step), thread.calls)
        new.refused, new.told, new.waits = True, step.refused.strip(), not step.refused.strip()
        new.person = step if new.told else None
        thread.open.append(new)
        return []
    if thread.failed:
        return _failed(thread, call, _failure(call, step))
    cured = _akin(thread, call)
    for each in cured:
        each.worked = call
    ended = _leave(thread, cured)
    if thread.open and corrections.changes_files(call):
        for each in thread.open:
            each.edits += each.failing.tool == "Bash"
    return ended


def _akin(thread: _Thread, call: Step) -> list[_Open]:
    """The episodes that a call belongs to: it wants the same, and was made when their latest error was known."""
    known = [each for each in thread.open if not each.refused and call.line > each.errors[-1].line]
    return [each for each in known if corrections.alike(each.failing, call, each.errors[-1])]


def _failed(thread: _Thread, call: Step, error: Failure) -> list[_Open]:
    """Another attempt at what failed before, or the start of an episode.

    A form of the call that fails in quite another way got past what stopped the first: that one is cured.
    """
    if error.about == "cancelled":
        return []
    before = _akin(thread, call)
    kin = [each for each in before if each.errors[-1].about == error.about]
    kin = kin or [each for each in thread.open if each.errors[-1].signature == error.signature and not each.refused]
    cured = [each for each in before if each not in kin and not corrections.same(each.failing, call, False)]
    for each in cured:
        each.worked = call
    if kin:
        kin[-1].errors.append(error)
        kin[-1].failing, kin[-1].last = call, thread.calls
        cured += [kin[-1]] if len(kin[-1].errors) >= _MOST_ERRORS else []
    else:
        thread.open.append(_Open(call, error, thread.calls))
    return _leave(thread, cured)


def _failure(call: Step, result: Step) -> Failure:
    line = errors_seen.key_line(result.text, shell=call.tool == "Bash")
    about = "refused" if result.refused else errors_seen.about(result.text, line, call.command)
    sign = errors_seen.signature(call.tool, call.command, about, line)
    text = errors_seen.ends(result.text)
    quote = line or text.strip()[:QUOTE].partition("\n")[0]
    return Failure(result.line, call.line, call.tool, call.command, call.path, text, quote, about, sign)


def _given(ended: list[_Open], *, still_open: bool = False) -> Iterator[Episode]:
    for each in ended:
        yield _episode(each, still_open)


def _episode(own: _Open, still_open: bool) -> Episode:
    first, failing, worked = own.errors[0], own.failing, own.worked
    spoken = next((step for step in own.said if corrections.because(step.text)), None)
    reason = corrections.because(spoken.text) if spoken else ""
    removed, added = corrections.difference(failing.command, worked.command) if worked else ([], [])
    parts = _parts(own, reason)
    evidence = [Evidence(error.line, "error", error.quote) for error in own.errors]
    if spoken:
        evidence.append(Evidence(spoken.line, "correction", reason))
    if worked:
        evidence.append(Evidence(worked.line, "correction", (worked.command or worked.path)[:QUOTE]))
    if own.person:
        evidence.append(Evidence(own.person.line, "user", own.told[:QUOTE].rstrip()))
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
        score=_sum(parts),
        problem=problem_of(failing, first.quote, own.told if own.refused else ""),
        solution=solution_of(failing, worked, removed, added, reason, own.told),
        trigger=trigger_of(failing, removed, first.quote),
        signature=_signature(own),
        evidence=tuple(evidence),
        open=still_open,
    )


def _signature(own: _Open) -> str:
    """A refusal is known by a person's words: those of the host are the same every time."""
    if own.refused and own.told:
        return errors_seen.signature(own.failing.tool, own.failing.command, "refused", own.told)
    return own.errors[0].signature


def _parts(own: _Open, reason: str) -> dict[str, float]:
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


def _code_was_changed(own: _Open) -> bool:
    """Whether edits can have cured it; no edit teaches a program an option or opens a port."""
    about = own.errors[0].about
    if about in ("interface", "environment"):
        return False
    return bool(own.edits or (about == "code" and own.worked and corrections.changes_files(own.worked)))


def _same(own: _Open) -> bool:
    return own.worked is not None and corrections.same(own.failing, own.worked, own.errors[0].about == "code")


def _only_looked(own: _Open) -> bool:
    return own.failing.tool == "Bash" and errors_seen.only_looks(own.failing.command)


def _sum(parts: Mapping[str, float]) -> float:
    return round(min(max(sum(parts.values()), 0.0), 1.0), 3)
