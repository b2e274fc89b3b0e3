"""Hold the open episodes of a transcript, and save them between two scans.

An error may be in one scan and its correction in the next. So a tracker can stop after any step: its state is stored
with the reader's, and another tracker continues from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hardwon.agents.transcript_steps import Step
from hardwon.mining.failed_commands import Diagnosis
from hardwon.shell.failures import Failure

STATE_VERSION = 4  # increase it whenever Step, Failure or the format below changes

_READABLE_VERSIONS = (1, 2, 3, 4)  # 2 and 4 added a field at the end of Step, 3 one at the end of an episode


class OpenEpisode:
    """An episode whose correction may still come."""

    def __init__(self, failing_call: Step, errors: list[Failure], last_call_number: int) -> None:
        self.failing_call = failing_call
        self.errors = errors
        self.last_call_number = last_call_number  # the call count at the latest failure
        self.is_refused = self.is_edited = False
        self.is_awaiting_words = False  # waiting for the person to say why they refused
        self.person_words, self.person_line = "", 0
        self.reasons: list[tuple[int, str]] = []  # line and sentence where the agent gave a reason
        self.working_call: Step | None = None
        self.cure: Step | None = None
        self.diagnosis: Diagnosis | None = None  # computed from the first error, so it is not saved


class ThreadState:
    """The pending calls and open episodes of the main agent, or of a sub-agent, in a session."""

    def __init__(self) -> None:
        # Calls without a result, by id, with their numbers; oldest first.
        self.pending_calls: dict[str, tuple[int, Step]] = {}
        self.open_episodes: list[OpenEpisode] = []
        self.call_count = 0
        self.has_failed_last = False  # the latest result was a failure


def dump_threads(threads: Mapping[str, ThreadState]) -> dict[str, Any]:
    dumped = [[subagent_id, _dump_thread(thread)] for subagent_id, thread in threads.items()]
    return {"version": STATE_VERSION, "threads": dumped}


def load_threads(state: Mapping[str, Any] | None) -> dict[str, ThreadState]:
    """Load saved threads by the id of their sub-agent; empty if the version is unknown."""
    if not state or state.get("version") not in _READABLE_VERSIONS:
        return {}
    return {subagent_id: _load_thread(thread) for subagent_id, thread in state["threads"]}


def _dump_thread(thread: ThreadState) -> list[Any]:
    pending = [[number, *call] for number, call in thread.pending_calls.values()]
    return [
        thread.call_count,
        thread.has_failed_last,
        pending,
        [_dump_episode(episode) for episode in thread.open_episodes],
    ]


def _load_thread(state: Sequence[Any]) -> ThreadState:
    thread = ThreadState()
    thread.call_count, thread.has_failed_last, pending, open_episodes = state
    thread.open_episodes = [_load_episode(episode) for episode in open_episodes]
    for number, *fields in pending:
        call = Step(*fields)
        thread.pending_calls[call.call] = number, call
    return thread


def _dump_episode(episode: OpenEpisode) -> list[Any]:
    errors = [list(vars(error).values()) for error in episode.errors]
    flags = [
        episode.is_refused,
        episode.is_edited,
        episode.is_awaiting_words,
        episode.person_words,
        episode.person_line,
    ]
    return [
        list(episode.failing_call),
        errors,
        episode.last_call_number,
        flags,
        [list(reason) for reason in episode.reasons],
        list(episode.working_call) if episode.working_call else None,
    ]


def _load_episode(state: Sequence[Any]) -> OpenEpisode:
    failing_fields, errors, last_call_number, flags, reasons, *working_fields = state
    episode = OpenEpisode(Step(*failing_fields), [Failure(*error) for error in errors], last_call_number)
    episode.is_refused, episode.is_edited, episode.is_awaiting_words, episode.person_words, episode.person_line = flags
    episode.reasons = [(line, reason) for line, reason in reasons]
    episode.working_call = Step(*working_fields[0]) if any(working_fields) else None
    return episode
