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
from hardwon.mining.episode_state import OpenEpisode, ThreadState, dump_threads, load_threads
from hardwon.mining.suggestions import suggest_problem, suggest_solution, suggest_tags, suggest_trigger
from hardwon.shell import failures
from hardwon.shell.failures import MAX_QUOTE_LENGTH, Failure, FailureKind
from hardwon.types import frozen

CORRECTION_WINDOW = 15  # calls; corrections come 3 to 15 calls after the error
PROPOSAL_THRESHOLD = 0.4  # from here on an episode is proposed even if it never happens again
_AGENTS = 16
_PENDING = 32  # calls; results come within 10
_MOST_OPEN = 8  # of one agent
_MOST_ERRORS = 16
_KEPT = 4_000  # characters of what was run, written or said
_WORDS_WITHIN = 4  # calls after the error; what is said later is about something else
_FEW_WORDS = 3  # "continue", "commit it": the next task, not a correction

_ABOUT: Mapping[FailureKind, float] = {
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


@frozen
class EvidenceQuote:
    """Where something stands in the transcript."""

    line: int
    kind: Literal["error", "correction", "user"]
    quote: str


@frozen
class Episode:
    """One thing that went wrong, every attempt at it, and what put it right; `errors[0].id` tells it from others."""

    session: str
    subagent: str
    cwd: str
    timestamp: str
    errors: tuple[Failure, ...]
    failing_call: Step
    working_call: Step | None
    removed_arguments: tuple[str, ...]
    added_arguments: tuple[str, ...]
    agent_words: str
    person_words: str
    is_refused: bool
    score_parts: Mapping[str, float]
    score: float
    problem: str
    solution: str
    trigger: str
    tags: tuple[str, ...]
    signature: str
    evidence: tuple[EvidenceQuote, ...]
    is_open: bool  # its correction may still come, in steps that are not written yet


class EpisodeTracker:
    """Owns what is under way in one transcript."""

    def __init__(self, state: Mapping[str, Any] | None = None, *, window: int = CORRECTION_WINDOW) -> None:
        self._window = window
        self._threads = load_threads(state)

    def process_step(self, step: Step) -> Sequence[Episode]:
        """The episodes that this step ends."""
        thread = self._threads.get(step.agent)
        ended = self._met(step) if thread is None else _taken(thread, step, self._window)
        return [_episode(each) for each in ended] if ended else ()

    def list_unfinished(self) -> list[Episode]:
        """The episodes whose correction may still come, as they stand."""
        return [_episode(each, still_open=True) for thread in self._threads.values() for each in thread.open_episodes]

    def dump_state(self) -> dict[str, Any]:
        return dump_threads(self._threads)

    def _met(self, step: Step) -> Sequence[OpenEpisode]:
        """Takes an agent's first step in; there is room for so many, and the one met first makes it."""
        left = self._threads.pop(next(iter(self._threads))).open_episodes if len(self._threads) >= _AGENTS else ()
        thread = self._threads[step.agent] = ThreadState()
        return [*left, *_taken(thread, step, self._window)]


def find_episodes(steps: Iterable[Step], *, window: int = CORRECTION_WINDOW) -> list[Episode]:
    """Every episode of a session in the order in which they ended; those still open come last."""
    watch = EpisodeTracker(window=window)
    return [episode for step in steps for episode in watch.process_step(step)] + watch.list_unfinished()


def score_recurrence(failure_kind: FailureKind, wordless: bool, sessions: int) -> float:
    """What it counts that several sessions met the same error.

    A check fails again and again, that is its purpose; and a refusal without words says nothing twice.
    """
    says_nothing = wordless or failure_kind in ("code", "silent")
    return 0.0 if says_nothing else min(_SESSION * max(sessions - 1, 0), _SESSIONS)


def _taken(thread: ThreadState, step: Step, window: int) -> Sequence[OpenEpisode]:
    """Takes a step in; gives the episodes that it ends."""
    kind = step.kind
    if kind == "call":
        return _called(thread, step, window)
    if kind == "result":
        _, call = thread.pending_calls.pop(step.call, (0, None))
        return _result(thread, call, step) if call else ()
    if thread.open_episodes:
        if kind == "agent":
            _spoke(thread, step)
        elif kind == "person":
            _heard(thread, step)
    return ()


def _called(thread: ThreadState, step: Step, window: int) -> Sequence[OpenEpisode]:
    if len(step.command) > _KEPT or len(step.content) > _KEPT or len(step.path) > _KEPT:
        step = step._replace(command=step.command[:_KEPT], content=step.content[:_KEPT], path=step.path[:_KEPT])
    pending = thread.pending_calls
    pending.pop(step.call, None)
    thread.call_count += 1
    pending[step.call] = thread.call_count, step
    oldest = next(iter(pending))
    if thread.call_count - pending[oldest][0] > _PENDING:
        del pending[oldest]
    if not thread.open_episodes:
        return ()
    return _leave(thread, [each for each in thread.open_episodes if thread.call_count - each.last_call_number > window])


def _leave(thread: ThreadState, ended: list[OpenEpisode]) -> list[OpenEpisode]:
    if ended:
        thread.open_episodes = [each for each in thread.open_episodes if each not in ended]
    return ended


def _enter(thread: ThreadState, new: OpenEpisode) -> list[OpenEpisode]:
    """Begins an episode; gives the oldest if there are too many."""
    thread.open_episodes.append(new)
    return _leave(thread, thread.open_episodes[:-_MOST_OPEN])


def _spoke(thread: ThreadState, step: Step) -> None:
    lately = [each for each in thread.open_episodes if thread.call_count - each.last_call_number <= _WORDS_WITHIN]
    if lately:
        reason, newest = corrections.find_reason(step.text[:_KEPT]), max(each.last_call_number for each in lately)
        for each in (
            each for each in lately if each.last_call_number == newest
        ):  # of several the agent means the latest
            each.reasons = [*each.reasons, (step.line, reason)][-_WORDS_WITHIN:]


def _heard(thread: ThreadState, step: Step) -> None:
    """A person's words belong to the call they refused, or to the failure they were just shown if they correct it."""
    latest = thread.open_episodes[-1]
    if (
        thread.has_failed_last
        and not latest.person_words
        and (latest.is_awaiting_words or corrections.is_correction(step.text))
    ):
        latest.person_words, latest.person_line, latest.is_awaiting_words = step.text[:_KEPT], step.line, False


def _result(thread: ThreadState, call: Step, step: Step) -> Sequence[OpenEpisode]:
    if step.denied:  # the call did not run: it cures nothing, and is no attempt
        return ()
    if step.refused:
        thread.has_failed_last = True
        return _refused(thread, call, step)
    if step.failed or failures.is_unreported_failure(call.tool, call.command, step.text):
        thread.has_failed_last = True
        return _failed(thread, call, _failure(call, step))
    thread.has_failed_last = False
    return _worked(thread, call) if thread.open_episodes else ()


def _refused(thread: ThreadState, call: Step, step: Step) -> list[OpenEpisode]:
    new = OpenEpisode(call, [_failure(call, step)], thread.call_count)
    new.is_refused, new.person_words = True, step.refused.strip()[:_KEPT]
    new.is_awaiting_words, new.person_line = not new.person_words, step.line if new.person_words else 0
    return _enter(thread, new)


def _worked(thread: ThreadState, call: Step) -> list[OpenEpisode]:
    ended = _leave(thread, _cured(_akin(thread, call), call))
    unedited = [each for each in thread.open_episodes if each.failing_call.tool == "Bash" and not each.is_edited]
    if unedited and corrections.is_file_change(call):
        for each in unedited:
            each.is_edited = True
    return ended


def _cured(these: list[OpenEpisode], call: Step) -> list[OpenEpisode]:
    for each in these:
        each.working_call = call
    return these


def _akin(thread: ThreadState, call: Step) -> list[OpenEpisode]:
    """The episodes that a call belongs to: it wants the same, and was made when their latest error was known."""
    return [
        each
        for each in thread.open_episodes
        if not each.is_refused
        and call.line > each.errors[-1].line
        and corrections.has_same_aim(each.failing_call, call, each.errors[-1])
    ]


def _failed(thread: ThreadState, call: Step, error: Failure) -> list[OpenEpisode]:
    """Another attempt at what failed before, or the start of an episode.

    A form of the call that fails in quite another way got past what stopped the first: that one is cured.
    """
    if error.kind == "cancelled":
        return []
    before = _akin(thread, call)
    kin = [each for each in before if each.errors[-1].kind == error.kind]
    kin = kin or [
        each for each in thread.open_episodes if each.errors[-1].signature == error.signature and not each.is_refused
    ]
    others = [
        each for each in before if each not in kin and not corrections.is_same_call(each.failing_call, call, False)
    ]
    ended = _leave(thread, _cured(others, call))
    if not kin:
        return ended + _enter(thread, OpenEpisode(call, [error], thread.call_count))
    latest = kin[-1]
    latest.errors.append(error)
    latest.failing_call, latest.last_call_number = call, thread.call_count
    return ended + _leave(thread, [latest] if len(latest.errors) >= _MOST_ERRORS else [])


def _failure(call: Step, result: Step) -> Failure:
    line = failures.find_failure_line(result.text, is_shell=call.tool == "Bash")
    about = "refused" if result.refused else failures.classify_failure(result.text, line, call.command)
    sign = failures.build_signature(call.tool, call.command, about, line)
    text = failures.cut_middle(result.text)
    quote = line or text.strip()[:MAX_QUOTE_LENGTH].partition("\n")[0]
    return Failure(result.id, result.line, call.line, call.tool, call.command, call.path, text, quote, about, sign)


def _episode(own: OpenEpisode, *, still_open: bool = False) -> Episode:
    first, failing, worked = own.errors[0], own.failing_call, own.working_call
    spoken_at, reason = next((each for each in own.reasons if each[1]), (0, ""))
    removed, added = corrections.diff_arguments(failing.command, worked.command) if worked else ([], [])
    parts = _parts(own, reason)
    evidence = [EvidenceQuote(error.line, "error", error.quote) for error in own.errors]
    if reason:
        evidence.append(EvidenceQuote(spoken_at, "correction", reason))
    if worked and (quote := _quote(worked)):
        evidence.append(EvidenceQuote(worked.line, "correction", quote))
    if own.person_line:
        evidence.append(EvidenceQuote(own.person_line, "user", own.person_words[:MAX_QUOTE_LENGTH].rstrip()))
    return Episode(
        session=failing.session,
        subagent=failing.agent,
        cwd=failing.cwd,
        timestamp=failing.at,
        errors=tuple(own.errors),
        failing_call=failing,
        working_call=worked,
        removed_arguments=tuple(removed),
        added_arguments=tuple(added),
        agent_words=reason,
        person_words=own.person_words,
        is_refused=own.is_refused,
        score_parts=parts,
        score=compute_score(parts),
        problem=suggest_problem(failing, first.quote, own.person_words if own.is_refused else ""),
        solution=suggest_solution(failing, worked, removed, added, reason, own.person_words),
        trigger=suggest_trigger(failing, removed, first.quote),
        tags=suggest_tags(failing, first.quote),
        signature=_signature(own),
        evidence=tuple(evidence),
        is_open=still_open,
    )


def _quote(call: Step) -> str:
    """What stands on a call's line: a look at what runs in the background has no command there."""
    given = (call.command if call.tool != "BashOutput" else "") or call.path
    return (given or call.content.strip().partition("\n")[0])[:MAX_QUOTE_LENGTH].rstrip()


def _signature(own: OpenEpisode) -> str:
    """A refusal is known by a person's words: those of the host are the same every time."""
    if own.is_refused and own.person_words:
        return failures.build_signature(own.failing_call.tool, own.failing_call.command, "refused", own.person_words)
    return own.errors[0].signature


def _parts(own: OpenEpisode, reason: str) -> dict[str, float]:
    parts = {"about": 0.0, "cure": 0.0, "attempts": 0.0, "reason": 0.0, "person": 0.0, "recurs": 0.0}
    if own.failing_call.tool not in corrections.TOOLS_ASKING_PERSON:
        parts["person"] += _TOLD if corrections.is_correction(own.person_words) else 0.0
        parts["person"] += _REFUSED if own.is_refused and len(own.person_words.split()) > _FEW_WORDS else 0.0
    if own.is_refused:
        return parts
    parts["about"] = _ABOUT[own.errors[0].kind] + (_LOOKING if _only_looked(own) else 0.0)
    if own.working_call:
        parts["cure"] = _SAME_CALL if _same(own) else _ANOTHER_CALL
    if _code_was_changed(own):
        parts["cure"] = _AFTER_EDITS
    else:
        parts["attempts"] = min(_ATTEMPT * (corrections.count_call_forms(own.errors) - 1), _ATTEMPTS)
    parts["reason"] = _REASON if reason else 0.0
    return parts


def _code_was_changed(own: OpenEpisode) -> bool:
    """Whether edits can have cured it; no edit teaches a program an option or opens a port."""
    about = own.errors[0].kind
    if about in ("interface", "environment"):
        return False
    return bool(
        own.is_edited or (about == "code" and own.working_call and corrections.is_file_change(own.working_call))
    )


def _same(own: OpenEpisode) -> bool:
    return own.working_call is not None and corrections.is_same_call(
        own.failing_call, own.working_call, own.errors[0].kind == "code"
    )


def _only_looked(own: OpenEpisode) -> bool:
    return own.failing_call.tool == "Bash" and failures.is_read_only(own.failing_call.command)


def compute_score(parts: Mapping[str, float]) -> float:
    """One score from 0 to 1."""
    return round(min(max(sum(parts.values()), 0.0), 1.0), 3)
