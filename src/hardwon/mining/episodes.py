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
_MAX_THREADS = 16
_MAX_PENDING_CALLS = 32  # calls; results come within 10
_MAX_OPEN_EPISODES = 8  # of one agent
_MAX_ERRORS = 16
_MAX_TEXT_CHARS = 4_000  # characters of what was run, written or said
_WORDS_WINDOW = 4  # calls after the error; what is said later is about something else
_FEW_WORDS = 3  # "continue", "commit it": the next task, not a correction

_KIND_SCORES: Mapping[FailureKind, float] = {
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
_OTHER_CALL_SCORE, _SAME_CALL_SCORE, _EDITS_SCORE = 0.3, -0.1, -0.2
_LOOK_SCORE = -0.15  # a look that failed is answered by another look
_ATTEMPT_SCORE, _MAX_ATTEMPTS_SCORE = 0.15, 0.3
_REASON_SCORE = 0.1
_REFUSED_SCORE, _CORRECTED_SCORE = 0.3, 0.3
_SESSION_SCORE, _MAX_SESSIONS_SCORE = 0.1, 0.3


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
        ended = self._add_thread(step) if thread is None else _apply_step(thread, step, self._window)
        return [_build_episode(open_episode) for open_episode in ended] if ended else ()

    def list_unfinished(self) -> list[Episode]:
        """The episodes whose correction may still come, as they stand."""
        return [
            _build_episode(open_episode, still_open=True)
            for thread in self._threads.values()
            for open_episode in thread.open_episodes
        ]

    def dump_state(self) -> dict[str, Any]:
        return dump_threads(self._threads)

    def _add_thread(self, step: Step) -> Sequence[OpenEpisode]:
        """Takes an agent's first step in; there is room for so many, and the one met first makes it."""
        dropped = (
            self._threads.pop(next(iter(self._threads))).open_episodes if len(self._threads) >= _MAX_THREADS else ()
        )
        thread = self._threads[step.agent] = ThreadState()
        return [*dropped, *_apply_step(thread, step, self._window)]


def find_episodes(steps: Iterable[Step], *, window: int = CORRECTION_WINDOW) -> list[Episode]:
    """Every episode of a session in the order in which they ended; those still open come last."""
    tracker = EpisodeTracker(window=window)
    return [episode for step in steps for episode in tracker.process_step(step)] + tracker.list_unfinished()


def score_recurrence(failure_kind: FailureKind, is_wordless: bool, sessions: int) -> float:
    """What it counts that several sessions met the same error.

    A check fails again and again, that is its purpose; and a refusal without words says nothing twice.
    """
    says_nothing = is_wordless or failure_kind in ("code", "silent")
    return 0.0 if says_nothing else min(_SESSION_SCORE * max(sessions - 1, 0), _MAX_SESSIONS_SCORE)


def _apply_step(thread: ThreadState, step: Step, window: int) -> Sequence[OpenEpisode]:
    """Takes a step in; gives the episodes that it ends."""
    kind = step.kind
    if kind == "call":
        return _apply_call(thread, step, window)
    if kind == "result":
        _, call = thread.pending_calls.pop(step.call, (0, None))
        return _apply_result(thread, call, step) if call else ()
    if thread.open_episodes:
        if kind == "agent":
            _add_agent_words(thread, step)
        elif kind == "person":
            _add_person_words(thread, step)
    return ()


def _apply_call(thread: ThreadState, step: Step, window: int) -> Sequence[OpenEpisode]:
    if len(step.command) > _MAX_TEXT_CHARS or len(step.content) > _MAX_TEXT_CHARS or len(step.path) > _MAX_TEXT_CHARS:
        step = step._replace(
            command=step.command[:_MAX_TEXT_CHARS],
            content=step.content[:_MAX_TEXT_CHARS],
            path=step.path[:_MAX_TEXT_CHARS],
        )
    pending = thread.pending_calls
    pending.pop(step.call, None)
    thread.call_count += 1
    pending[step.call] = thread.call_count, step
    oldest = next(iter(pending))
    if thread.call_count - pending[oldest][0] > _MAX_PENDING_CALLS:
        del pending[oldest]
    if not thread.open_episodes:
        return ()
    return _remove_episodes(
        thread, [episode for episode in thread.open_episodes if thread.call_count - episode.last_call_number > window]
    )


def _remove_episodes(thread: ThreadState, ended: list[OpenEpisode]) -> list[OpenEpisode]:
    if ended:
        thread.open_episodes = [episode for episode in thread.open_episodes if episode not in ended]
    return ended


def _add_episode(thread: ThreadState, episode: OpenEpisode) -> list[OpenEpisode]:
    """Begins an episode; gives the oldest if there are too many."""
    thread.open_episodes.append(episode)
    return _remove_episodes(thread, thread.open_episodes[:-_MAX_OPEN_EPISODES])


def _add_agent_words(thread: ThreadState, step: Step) -> None:
    recent = [
        episode for episode in thread.open_episodes if thread.call_count - episode.last_call_number <= _WORDS_WINDOW
    ]
    if recent:
        reason, newest = (
            corrections.find_reason(step.text[:_MAX_TEXT_CHARS]),
            max(episode.last_call_number for episode in recent),
        )
        for episode in (
            episode for episode in recent if episode.last_call_number == newest
        ):  # of several the agent means the latest
            episode.reasons = [*episode.reasons, (step.line, reason)][-_WORDS_WINDOW:]


def _add_person_words(thread: ThreadState, step: Step) -> None:
    """A person's words belong to the call they refused, or to the failure they were just shown if they correct it."""
    latest = thread.open_episodes[-1]
    if (
        thread.has_failed_last
        and not latest.person_words
        and (latest.is_awaiting_words or corrections.is_correction(step.text))
    ):
        latest.person_words, latest.person_line, latest.is_awaiting_words = (
            step.text[:_MAX_TEXT_CHARS],
            step.line,
            False,
        )


def _apply_result(thread: ThreadState, call: Step, step: Step) -> Sequence[OpenEpisode]:
    if step.denied:  # the call did not run: it cures nothing, and is no attempt
        return ()
    if step.refused:
        thread.has_failed_last = True
        return _start_refused(thread, call, step)
    if step.failed or failures.is_unreported_failure(call.tool, call.command, step.text):
        thread.has_failed_last = True
        return _apply_failure(thread, call, _build_failure(call, step))
    thread.has_failed_last = False
    return _apply_success(thread, call) if thread.open_episodes else ()


def _start_refused(thread: ThreadState, call: Step, step: Step) -> list[OpenEpisode]:
    episode = OpenEpisode(call, [_build_failure(call, step)], thread.call_count)
    episode.is_refused, episode.person_words = True, step.refused.strip()[:_MAX_TEXT_CHARS]
    episode.is_awaiting_words, episode.person_line = not episode.person_words, step.line if episode.person_words else 0
    return _add_episode(thread, episode)


def _apply_success(thread: ThreadState, call: Step) -> list[OpenEpisode]:
    ended = _remove_episodes(thread, _mark_cured(_find_related(thread, call), call))
    unedited = [
        episode for episode in thread.open_episodes if episode.failing_call.tool == "Bash" and not episode.is_edited
    ]
    if unedited and corrections.is_file_change(call):
        for episode in unedited:
            episode.is_edited = True
    return ended


def _mark_cured(episodes: list[OpenEpisode], call: Step) -> list[OpenEpisode]:
    for episode in episodes:
        episode.working_call = call
    return episodes


def _find_related(thread: ThreadState, call: Step) -> list[OpenEpisode]:
    """The episodes that a call belongs to: it wants the same, and was made when their latest error was known."""
    return [
        episode
        for episode in thread.open_episodes
        if not episode.is_refused
        and call.line > episode.errors[-1].line
        and corrections.has_same_aim(episode.failing_call, call, episode.errors[-1])
    ]


def _apply_failure(thread: ThreadState, call: Step, error: Failure) -> list[OpenEpisode]:
    """Another attempt at what failed before, or the start of an episode.

    A form of the call that fails in quite another way got past what stopped the first: that one is cured.
    """
    if error.kind == "cancelled":
        return []
    related = _find_related(thread, call)
    same_failures = [episode for episode in related if episode.errors[-1].kind == error.kind]
    same_failures = same_failures or [
        episode
        for episode in thread.open_episodes
        if episode.errors[-1].signature == error.signature and not episode.is_refused
    ]
    others = [
        episode
        for episode in related
        if episode not in same_failures and not corrections.is_same_call(episode.failing_call, call, False)
    ]
    ended = _remove_episodes(thread, _mark_cured(others, call))
    if not same_failures:
        return ended + _add_episode(thread, OpenEpisode(call, [error], thread.call_count))
    latest = same_failures[-1]
    latest.errors.append(error)
    latest.failing_call, latest.last_call_number = call, thread.call_count
    return ended + _remove_episodes(thread, [latest] if len(latest.errors) >= _MAX_ERRORS else [])


def _build_failure(call: Step, result: Step) -> Failure:
    line = failures.find_failure_line(result.text, is_shell=call.tool == "Bash")
    kind = "refused" if result.refused else failures.classify_failure(result.text, line, call.command)
    signature = failures.build_signature(call.tool, call.command, kind, line)
    text = failures.cut_middle(result.text)
    quote = line or text.strip()[:MAX_QUOTE_LENGTH].partition("\n")[0]
    return Failure(result.id, result.line, call.line, call.tool, call.command, call.path, text, quote, kind, signature)


def _build_episode(open_episode: OpenEpisode, *, still_open: bool = False) -> Episode:
    first, failing_call, working_call = open_episode.errors[0], open_episode.failing_call, open_episode.working_call
    spoken_at, reason = next((entry for entry in open_episode.reasons if entry[1]), (0, ""))
    removed, added = (
        corrections.diff_arguments(failing_call.command, working_call.command) if working_call else ([], [])
    )
    parts = _compute_score_parts(open_episode, reason)
    evidence = [EvidenceQuote(error.line, "error", error.quote) for error in open_episode.errors]
    if reason:
        evidence.append(EvidenceQuote(spoken_at, "correction", reason))
    if working_call and (quote := _quote_call(working_call)):
        evidence.append(EvidenceQuote(working_call.line, "correction", quote))
    if open_episode.person_line:
        evidence.append(
            EvidenceQuote(open_episode.person_line, "user", open_episode.person_words[:MAX_QUOTE_LENGTH].rstrip())
        )
    return Episode(
        session=failing_call.session,
        subagent=failing_call.agent,
        cwd=failing_call.cwd,
        timestamp=failing_call.at,
        errors=tuple(open_episode.errors),
        failing_call=failing_call,
        working_call=working_call,
        removed_arguments=tuple(removed),
        added_arguments=tuple(added),
        agent_words=reason,
        person_words=open_episode.person_words,
        is_refused=open_episode.is_refused,
        score_parts=parts,
        score=compute_score(parts),
        problem=suggest_problem(
            failing_call, first.quote, open_episode.person_words if open_episode.is_refused else ""
        ),
        solution=suggest_solution(failing_call, working_call, removed, added, reason, open_episode.person_words),
        trigger=suggest_trigger(failing_call, removed, first.quote),
        tags=suggest_tags(failing_call, first.quote),
        signature=_build_signature(open_episode),
        evidence=tuple(evidence),
        is_open=still_open,
    )


def _quote_call(call: Step) -> str:
    """What stands on a call's line: a look at what runs in the background has no command there."""
    target = (call.command if call.tool != "BashOutput" else "") or call.path
    return (target or call.content.strip().partition("\n")[0])[:MAX_QUOTE_LENGTH].rstrip()


def _build_signature(episode: OpenEpisode) -> str:
    """A refusal is known by a person's words: those of the host are the same every time."""
    if episode.is_refused and episode.person_words:
        return failures.build_signature(
            episode.failing_call.tool, episode.failing_call.command, "refused", episode.person_words
        )
    return episode.errors[0].signature


def _compute_score_parts(episode: OpenEpisode, reason: str) -> dict[str, float]:
    parts = {"about": 0.0, "cure": 0.0, "attempts": 0.0, "reason": 0.0, "person": 0.0, "recurs": 0.0}
    if episode.failing_call.tool not in corrections.TOOLS_ASKING_PERSON:
        parts["person"] += _CORRECTED_SCORE if corrections.is_correction(episode.person_words) else 0.0
        parts["person"] += (
            _REFUSED_SCORE if episode.is_refused and len(episode.person_words.split()) > _FEW_WORDS else 0.0
        )
    if episode.is_refused:
        return parts
    parts["about"] = _KIND_SCORES[episode.errors[0].kind] + (_LOOK_SCORE if _is_look(episode) else 0.0)
    if episode.working_call:
        parts["cure"] = _SAME_CALL_SCORE if _is_same_call(episode) else _OTHER_CALL_SCORE
    if _is_code_changed(episode):
        parts["cure"] = _EDITS_SCORE
    else:
        parts["attempts"] = min(
            _ATTEMPT_SCORE * (corrections.count_call_forms(episode.errors) - 1), _MAX_ATTEMPTS_SCORE
        )
    parts["reason"] = _REASON_SCORE if reason else 0.0
    return parts


def _is_code_changed(episode: OpenEpisode) -> bool:
    """Whether edits can have cured it; no edit teaches a program an option or opens a port."""
    kind = episode.errors[0].kind
    if kind in ("interface", "environment"):
        return False
    return bool(
        episode.is_edited
        or (kind == "code" and episode.working_call and corrections.is_file_change(episode.working_call))
    )


def _is_same_call(episode: OpenEpisode) -> bool:
    return episode.working_call is not None and corrections.is_same_call(
        episode.failing_call, episode.working_call, episode.errors[0].kind == "code"
    )


def _is_look(episode: OpenEpisode) -> bool:
    return episode.failing_call.tool == "Bash" and failures.is_read_only(episode.failing_call.command)


def compute_score(parts: Mapping[str, float]) -> float:
    """One score from 0 to 1."""
    return round(min(max(sum(parts.values()), 0.0), 1.0), 3)
