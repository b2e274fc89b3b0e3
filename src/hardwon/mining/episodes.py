"""Find episodes, from a failure to its fix, in a session's steps, and decide whether each teaches anything.

An episode is one thing that went wrong, with every failed attempt at it, until a call with the same aim succeeded. It
can be rejected at each stage, and the reason is kept: which part of the call failed, what kind of failure it is, what
fixed it, and what distinguishes the call from successful ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from hardwon.agents.transcript_steps import Step
from hardwon.mining import corrections
from hardwon.mining.episode_state import OpenEpisode, ThreadState, dump_threads, load_threads
from hardwon.mining.failed_commands import (
    Diagnosis,
    classify_blame,
    diagnose_failure,
    find_blaming_line,
    list_tags,
)
from hardwon.mining.suggestions import suggest_problem, suggest_solution
from hardwon.mining.triggers import build_triggers, changes_folder, find_setup, find_variable
from hardwon.shell import failures, working_commands
from hardwon.shell.failures import MAX_QUOTE_LENGTH, Failure, FailureKind
from hardwon.types import SHELL_TOOL, frozen, replace

CORRECTION_WINDOW = 15  # corrections come 3 to 15 calls after the error
_MAX_THREADS = 16
_MAX_PENDING_CALLS = 32  # results come within 10 calls
_MAX_OPEN_EPISODES = 8  # per agent
_MAX_ERRORS = 16
_MAX_TEXT_CHARS = 4_000  # longest command, content or message kept
_WORDS_WINDOW = 4  # calls after the error; later words are about something else
_MAX_MESSAGES = 4  # latest messages of the agent after the error
_FEW_WORDS = 3  # "continue", "commit it": the next task, not a correction

# If the error names the wrong word of the call, one occurrence is enough. Otherwise it may have been chance.
NAMED_SCORE, PERSON_SCORE, UNNAMED_SCORE = 0.8, 0.6, 0.4
NO_FIX_KNOWN = "nothing that worked instead is known"
_WORD_KINDS: tuple[FailureKind, ...] = ("interface", "path")  # a word of the call is wrong
# About how the agent's own tools work, so no lesson for a project.
_MECHANICS: frozenset[FailureKind] = frozenset(("cancelled", "anchor", "precondition"))
NEVER_LESSONS: frozenset[FailureKind] = _MECHANICS | {"code"}  # so nothing is gained by diagnosing them


@frozen
class EvidenceQuote:
    """A quote and its place in the transcript."""

    line: int
    kind: Literal["error", "correction", "user"]
    quote: str


@frozen
class Episode:
    """One thing that went wrong, every attempt at it, and its fix; identified by `errors[0].id`."""

    session: str
    subagent_id: str
    cwd: str
    timestamp: str
    errors: tuple[Failure, ...]
    failing_call: Step
    working_call: Step | None  # got further: it succeeded, or failed in another way
    cure: Step | None  # succeeded with the same aim in another form
    removed_arguments: tuple[str, ...]
    added_arguments: tuple[str, ...]
    agent_words: str
    person_words: str
    is_refused: bool
    rejection: str  # why it teaches nothing; "" if it may become a lesson
    score: float  # 0 if rejected
    problem: str
    solution: str
    triggers: Mapping[str, Any]
    tags: tuple[str, ...]
    signature: str
    evidence: tuple[EvidenceQuote, ...]
    is_open: bool  # its correction may still come in steps that are not written yet


class EpisodeTracker:
    """Track the open episodes of one transcript, step by step."""

    def __init__(self, state: Mapping[str, Any] | None = None, *, window: int = CORRECTION_WINDOW) -> None:
        self._window = window
        self._threads = load_threads(state)

    def process_step(self, step: Step) -> Sequence[Episode]:
        """Process a step and return the episodes that it ends."""
        thread = self._threads.get(step.subagent_id)
        ended = self._add_thread(step) if thread is None else _apply_step(thread, step, self._window)
        return [_build_episode(open_episode) for open_episode in ended] if ended else ()

    def has_failed_last(self, subagent_id: str) -> bool:
        """Return whether the latest result of a sub-agent, or of the main agent, was a failure, reported or not."""
        return subagent_id in self._threads and self._threads[subagent_id].has_failed_last

    def list_unfinished(self) -> list[Episode]:
        """Return the episodes that are still open, in their current state."""
        return [
            _build_episode(open_episode, still_open=True)
            for thread in self._threads.values()
            for open_episode in thread.open_episodes
        ]

    def dump_state(self) -> dict[str, Any]:
        return dump_threads(self._threads)

    def _add_thread(self, step: Step) -> Sequence[OpenEpisode]:
        """Start tracking an agent; beyond `_MAX_THREADS` drop the oldest one and end its episodes."""
        dropped: list[OpenEpisode] = []
        if len(self._threads) >= _MAX_THREADS:
            dropped = self._threads.pop(next(iter(self._threads))).open_episodes
        thread = self._threads[step.subagent_id] = ThreadState()
        return [*dropped, *_apply_step(thread, step, self._window)]


def find_episodes(steps: Iterable[Step], *, window: int = CORRECTION_WINDOW) -> list[Episode]:
    """Return every episode of a session in the order they ended, open ones last."""
    tracker = EpisodeTracker(window=window)
    return [episode for step in steps for episode in tracker.process_step(step)] + tracker.list_unfinished()


def _apply_step(thread: ThreadState, step: Step, window: int) -> Sequence[OpenEpisode]:
    """Apply a step to its agent's thread and return the episodes that it ends."""
    kind = step.kind
    if kind == "call":
        return _apply_call(thread, step, window)
    if kind == "result":
        _, call = thread.pending_calls.pop(step.call, (0, None))
        if call:
            return _apply_result(thread, call, step)
        thread.has_failed_last = step.failed
        return ()
    if thread.open_episodes:
        if kind == "agent":
            _add_agent_words(thread, step)
        elif kind == "person":
            _add_person_words(thread, step)
    return ()


def _apply_call(thread: ThreadState, step: Step, window: int) -> Sequence[OpenEpisode]:
    """Count a call and wait for its result; return the episodes whose last failure is too many calls ago."""
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
    oldest_id = next(iter(pending))
    oldest_number, _ = pending[oldest_id]
    if thread.call_count - oldest_number > _MAX_PENDING_CALLS:
        del pending[oldest_id]
    if not thread.open_episodes:
        return ()
    expired = [episode for episode in thread.open_episodes if thread.call_count - episode.last_call_number > window]
    return _remove_episodes(thread, expired)


def _remove_episodes(thread: ThreadState, ended: list[OpenEpisode]) -> list[OpenEpisode]:
    """Remove the ended episodes from the open ones, and return them."""
    if ended:
        thread.open_episodes = [episode for episode in thread.open_episodes if episode not in ended]
    return ended


def _add_episode(thread: ThreadState, episode: OpenEpisode) -> list[OpenEpisode]:
    """Open an episode; return the oldest as ended if there are too many."""
    thread.open_episodes.append(episode)
    return _remove_episodes(thread, thread.open_episodes[:-_MAX_OPEN_EPISODES])


def _add_agent_words(thread: ThreadState, step: Step) -> None:
    """Add the reason that the agent gives, or "" if it gives none, to the episodes with the latest failure.

    Of several failures the agent means the latest; one that is more than `_WORDS_WINDOW` calls ago it no longer means.
    A message without a reason is added too, since only the latest `_MAX_MESSAGES` messages count.
    """
    latest_number = max(episode.last_call_number for episode in thread.open_episodes)
    if thread.call_count - latest_number > _WORDS_WINDOW:
        return
    reason = corrections.find_reason(step.text[:_MAX_TEXT_CHARS])
    for episode in thread.open_episodes:
        if episode.last_call_number == latest_number:
            messages = [*episode.reasons, (step.line, reason)]
            episode.reasons = messages[-_MAX_MESSAGES:]


def _add_person_words(thread: ThreadState, step: Step) -> None:
    """Attach a person's words to the call they just refused, or to the latest failure if they correct it.

    Words are left out if a call succeeded since, or if the episode has the person's words already.
    """
    latest = thread.open_episodes[-1]
    if not thread.has_failed_last or latest.person_words:
        return
    if latest.is_awaiting_words or corrections.is_correction(step.text):
        latest.person_words = step.text[:_MAX_TEXT_CHARS]
        latest.person_line = step.line
        latest.is_awaiting_words = False


def _apply_result(thread: ThreadState, call: Step, step: Step) -> Sequence[OpenEpisode]:
    """Apply a call's result by its outcome, and return the episodes that it ends."""
    if step.denied:  # the call did not run, so it is neither a fix nor an attempt
        return ()
    if step.refused:
        thread.has_failed_last = True
        return _start_refused(thread, call, step)
    if step.failed or failures.is_unreported_failure(call.tool, call.command, step.text):
        thread.has_failed_last = True
        return _apply_failure(thread, call, _build_failure(call, step))
    thread.has_failed_last = False
    if not thread.open_episodes:
        return ()
    return _apply_success(thread, call, step.text)


def _start_refused(thread: ThreadState, call: Step, step: Step) -> list[OpenEpisode]:
    """Open the episode of a call that a person refused; if they did not say why, their next prompt may."""
    episode = OpenEpisode(call, [_build_failure(call, step)], thread.call_count)
    episode.is_refused = True
    episode.person_words = step.refused.strip()[:_MAX_TEXT_CHARS]
    if episode.person_words:
        episode.person_line = step.line
    else:
        episode.is_awaiting_words = True
    return _add_episode(thread, episode)


def _apply_success(thread: ThreadState, call: Step, text: str) -> list[OpenEpisode]:
    """Close and return the open episodes that a call which worked cures or decides; `text` is its result.

    A cure is a fix. A call with the same aim that is no fix still shows that the failure is over.
    """
    related = _find_related(thread, call)
    # Reading the help, or a call whose failure would not show, decides nothing: the fix may still come.
    is_shown = corrections.shows_success(call, text)
    ended: list[OpenEpisode] = []
    for episode in thread.open_episodes:
        is_related = episode in related
        if _is_cured_by(episode, call, text, is_related=is_related):
            episode.cure = call
            ended.append(episode)
        elif is_related and (is_shown or episode.errors[-1].kind in NEVER_LESSONS):
            ended.append(episode)
    for episode in ended:
        episode.working_call = episode.working_call or call
    _remove_episodes(thread, ended)
    _mark_edited(thread, call)
    return ended


def _is_cured_by(episode: OpenEpisode, call: Step, text: str, *, is_related: bool) -> bool:
    """Return whether a call which worked, after the latest error, is the fix that an episode waits for."""
    error = episode.errors[-1]
    if episode.is_refused or call.line <= error.line or error.kind in NEVER_LESSONS:
        return False
    return corrections.is_cure(episode.failing_call, _diagnose(episode), error, call, text, is_same_aim=is_related)


def _mark_edited(thread: ThreadState, call: Step) -> None:
    """Note an edit in the open episodes: it may be what makes a shell call work, which then was not wrong itself."""
    unedited = [
        episode for episode in thread.open_episodes if episode.failing_call.tool == SHELL_TOOL and not episode.is_edited
    ]
    if unedited and corrections.is_file_change(call):
        for episode in unedited:
            episode.is_edited = True


def _diagnose(episode: OpenEpisode) -> Diagnosis:
    """Diagnose the first attempt, which is the one that another session would make."""
    if episode.diagnosis is None:
        error = episode.errors[0]
        episode.diagnosis = diagnose_failure(_get_first_attempt(episode), error.quote, error.text)
    return episode.diagnosis


def _get_first_attempt(episode: OpenEpisode) -> Step:
    """Return the call as it first failed; of the first attempt only what its error kept is known."""
    error = episode.errors[0]
    return episode.failing_call._replace(command=error.command, path=error.path)


def _find_related(thread: ThreadState, call: Step) -> list[OpenEpisode]:
    """Return the open episodes with the call's aim whose latest error came before the call."""
    return [
        episode
        for episode in thread.open_episodes
        if not episode.is_refused
        and call.line > episode.errors[-1].line
        and corrections.has_same_aim(episode.failing_call, call, episode.errors[-1])
    ]


def _apply_failure(thread: ThreadState, call: Step, error: Failure) -> list[OpenEpisode]:
    """Add another attempt to an open episode, or start a new one.

    A form of the call that fails in another way got past the first error, but only success is a fix, so that episode
    stays open.
    """
    if error.kind == "cancelled":
        return []
    related = _find_related(thread, call)
    attempted = [episode for episode in related if episode.errors[-1].kind == error.kind]
    if not attempted:  # the same error of a call that looks different
        attempted = [
            episode
            for episode in thread.open_episodes
            if episode.errors[-1].signature == error.signature and not episode.is_refused
        ]
    for episode in related:
        is_other_form = not corrections.is_same_call(episode.failing_call, call)
        if episode not in attempted and is_other_form and episode.working_call is None:
            episode.working_call = call
    if not attempted:
        return _add_episode(thread, OpenEpisode(call, [error], thread.call_count))
    latest = attempted[-1]
    latest.errors.append(error)
    latest.failing_call = call
    latest.last_call_number = thread.call_count
    if len(latest.errors) < _MAX_ERRORS:
        return []
    return _remove_episodes(thread, [latest])


def _build_failure(call: Step, result: Step) -> Failure:
    """Return a failed attempt with the line that names the failure, its kind and its signature."""
    text = failures.cut_middle(result.text)
    line, kind, diagnosis = _classify_result(call, text)
    if result.refused:
        kind = "refused"
    if diagnosis.word and kind in _WORD_KINDS:
        signature = _build_word_signature(diagnosis)
    else:
        signature = failures.build_signature(call.tool, call.command, kind, line)
    return Failure(
        id=result.id,
        line=result.line,
        call_line=call.line,
        tool=call.tool,
        command=call.command,
        path=call.path,
        text=text,
        quote=line or text.strip()[:MAX_QUOTE_LENGTH].partition("\n")[0],
        kind=kind,
        signature=signature,
    )


def _classify_result(call: Step, text: str) -> tuple[str, FailureKind, Diagnosis]:
    """Return the line that names the failure, "" if none does, the kind of failure, and the diagnosis.

    A line that calls a word of the command unknown decides the kind. Without one the text decides, and only some kinds
    are worth a diagnosis.
    """
    is_shell = call.tool == SHELL_TOOL
    blaming_line = find_blaming_line(call.command, text) if is_shell else ""
    if blaming_line:
        diagnosis = diagnose_failure(call, blaming_line, text)
        return blaming_line, classify_blame(diagnosis, blaming_line), diagnosis
    line = failures.find_failure_line(text, is_shell=is_shell)
    kind = failures.classify_failure(text, line, call.command)
    if kind not in _WORD_KINDS and (kind != "other" or is_shell):
        return line, kind, Diagnosis()
    diagnosis = diagnose_failure(call, line, text)
    if kind == "other" and diagnosis.word:
        kind = classify_blame(diagnosis, line)
    return line, kind, diagnosis


def _build_word_signature(diagnosis: Diagnosis) -> str:
    """Return a signature of the wrong word and its place.

    Programs word the error in many ways; the same word in the same place is the same mistake. An address that zsh takes
    for a file pattern, because of its `?`, counts as "url": zsh would do the same to any other address.
    """
    is_url = diagnosis.is_pattern and "://" in diagnosis.word
    word = "url" if is_url else diagnosis.word
    # `list_unfixed_episodes` in the store finds these signatures by the first word.
    parts = ["call", diagnosis.program, diagnosis.subcommand, word]
    return " ".join(part for part in parts if part)


def _build_episode(open_episode: OpenEpisode, *, still_open: bool = False) -> Episode:
    """Build the episode from its state; `still_open` if its correction may come in steps not written yet."""
    first = open_episode.errors[0]
    failing_call = open_episode.failing_call
    first_call = _get_first_attempt(open_episode)
    cure = open_episode.cure
    working_call = cure or open_episode.working_call
    spoken_at, reason = _find_first_reason(open_episode)
    removed: list[str] = []
    added: list[str] = []
    if working_call:
        removed, added = corrections.diff_arguments(failing_call.command, working_call.command)
    correction = _get_correction(open_episode)
    diagnosis, triggers = _find_mistake(open_episode, correction)
    rejection = _explain_rejection(open_episode, diagnosis, triggers)
    refusal = open_episode.person_words if open_episode.is_refused else ""
    return Episode(
        session=failing_call.session,
        subagent_id=failing_call.subagent_id,
        cwd=failing_call.cwd,
        timestamp=failing_call.at,
        errors=tuple(open_episode.errors),
        failing_call=failing_call,
        working_call=open_episode.working_call,
        cure=cure,
        removed_arguments=tuple(removed),
        added_arguments=tuple(added),
        agent_words=reason,
        person_words=open_episode.person_words,
        is_refused=open_episode.is_refused,
        rejection=rejection,
        score=_score_episode(open_episode, diagnosis, rejection),
        problem=suggest_problem(failing_call, diagnosis, first.quote, refusal),
        solution=suggest_solution(first_call, diagnosis, cure, added, reason, correction),
        triggers=triggers,
        tags=list_tags(diagnosis, failing_call, first.quote),
        signature=_build_signature(open_episode),
        evidence=_quote_evidence(open_episode, working_call, spoken_at, reason),
        is_open=still_open,
    )


def _find_mistake(episode: OpenEpisode, correction: str) -> tuple[Diagnosis, dict[str, Any]]:
    """Return which word of the call is wrong, and the triggers for it, which are empty if nothing distinguishes it.

    They describe the first attempt, since that is what another session would try. If a person corrected the call, they
    follow the person's words and not the error's.
    """
    if correction:
        diagnosis = diagnose_failure(episode.failing_call, correction, text="")
        if not diagnosis.word:
            return diagnosis, {}
        return diagnosis, build_triggers(episode.failing_call, diagnosis, None, is_path=False)
    first = episode.errors[0]
    diagnosis = Diagnosis()
    if first.kind not in NEVER_LESSONS or episode.person_words:
        diagnosis = _diagnose(episode)
    if episode.cure and (subcommand := corrections.find_misread_subcommand(diagnosis, first, episode.cure)):
        diagnosis = replace(diagnosis, word=subcommand, is_command=True)
    is_path = first.kind == "path"
    return diagnosis, build_triggers(_get_first_attempt(episode), diagnosis, episode.cure, is_path=is_path)


def _find_first_reason(episode: OpenEpisode) -> tuple[int, str]:
    """Return the line and the sentence of the first reason that the agent gave; (0, "") if it gave none."""
    for line, reason in episode.reasons:
        if reason:
            return line, reason
    return 0, ""


def _quote_evidence(
    episode: OpenEpisode, working_call: Step | None, spoken_at: int, reason: str
) -> tuple[EvidenceQuote, ...]:
    """Return the quotes that an episode rests on: its errors, the reason, the working call, a person's words."""
    evidence = [EvidenceQuote(error.line, "error", error.quote) for error in episode.errors]
    if reason:
        evidence.append(EvidenceQuote(spoken_at, "correction", reason))
    if working_call and (call_quote := _quote_call(working_call)):
        evidence.append(EvidenceQuote(working_call.line, "correction", call_quote))
    if episode.person_line:
        person_quote = episode.person_words[:MAX_QUOTE_LENGTH].rstrip()
        evidence.append(EvidenceQuote(episode.person_line, "user", person_quote))
    return tuple(evidence)


def _get_correction(episode: OpenEpisode) -> str:
    """Return a person's words if they say how to do it and name a word of the call; else "".

    Words about a refused call need not name a word, since they can only be about that call.
    """
    words = episode.person_words
    call = episode.failing_call
    if call.tool in corrections.TOOLS_ASKING_PERSON or len(words.split()) <= _FEW_WORDS:
        return ""
    if not corrections.is_correction(words):
        return ""
    if episode.is_refused or diagnose_failure(call, words, text="").word:
        return words
    return ""


def _explain_rejection(episode: OpenEpisode, diagnosis: Diagnosis, triggers: Mapping[str, Any]) -> str:
    """Return why an episode teaches nothing that another session could use; "" if it does."""
    kind = episode.errors[0].kind
    cure = episode.cure
    if _get_correction(episode):
        return "" if triggers else "the person's words name no word of the call"
    if episode.is_refused:
        return "it was refused without words that correct it"
    if kind in _MECHANICS:
        return "it is about how the agent's tools work"
    if kind == "code":
        return "it is about the code under work"
    if kind == "silent":
        return "the error says nothing"
    if not diagnosis.word and failures.is_passing_failure(episode.errors[0].quote):
        return "the network failed, and not the call"
    if kind == "path" and diagnosis.program in working_commands.READ_ONLY_PROGRAMS and not diagnosis.is_argument:
        return "a look at a file that was not there"
    if episode.failing_call.tool == SHELL_TOOL and diagnosis.command is None:
        return "several commands of the call could have failed"
    if cure is None:
        return NO_FIX_KNOWN
    if corrections.is_same_call(episode.failing_call, cure):
        return "the same call worked later"
    if episode.is_edited and (kind not in ("interface", "environment") or diagnosis.is_source_file):
        return "files were changed before it worked"
    if not triggers:
        return "nothing tells the call from those that go fine"
    return ""


def _score_episode(episode: OpenEpisode, diagnosis: Diagnosis, rejection: str) -> float:
    """Return how certain it is that the episode teaches something; 0 if it is rejected.

    It is most certain if the error names a word that stays wrong, and least if it names none.
    """
    if rejection:
        return 0.0
    if _get_correction(episode):
        return PERSON_SCORE
    setup = find_setup(episode.failing_call, diagnosis, episode.cure) if episode.cure else ""
    variable = find_variable(setup)
    if variable and re.search(rf"\b{variable}\b", episode.errors[0].quote):
        return NAMED_SCORE  # the error names the variable that the fix sets
    # A wrong option or argument stays wrong; a missing file or branch may exist tomorrow.
    is_lasting = episode.errors[0].kind == "interface" or diagnosis.is_argument
    if not diagnosis.word or not is_lasting:
        return UNNAMED_SCORE
    # The shell of some agents stays in the folder, and then the call needs no `cd`.
    if changes_folder(setup):
        return UNNAMED_SCORE
    return NAMED_SCORE


def _quote_call(call: Step) -> str:
    """Return the text that the call's transcript line contains; a poll of a background command lacks the command."""
    target = call.path
    if call.command and call.tool != "BashOutput":
        target = call.command
    if not target:
        target = call.content.strip().partition("\n")[0]
    return target[:MAX_QUOTE_LENGTH].rstrip()


def _build_signature(episode: OpenEpisode) -> str:
    """Build the signature; a refusal uses the person's words, since the agent's message is always the same."""
    if episode.is_refused and episode.person_words:
        return failures.build_signature(
            episode.failing_call.tool, episode.failing_call.command, "refused", episode.person_words
        )
    return episode.errors[0].signature
