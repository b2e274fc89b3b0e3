"""What is under way in a transcript, and how it is kept between two scans.

An error may stand in one scan and its correction in the next, so a watch can be stopped after any step: its state is
stored beside the reader's, and another watch goes on from it as if nothing had been between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hardwon.agents.transcript_steps import Step
from hardwon.shell.failures import Failure

STATE_VERSION = 2  # of the state: another one for every change of Step, Failure or what is saved here
_READABLE = (1, 2)  # 2 has a field more at the end of Step, which has a default


class OpenEpisode:
    """An episode under way: what is known of it before it is told."""

    def __init__(self, failing: Step, errors: list[Failure], last: int) -> None:
        self.failing_call, self.errors = failing, errors
        self.last_call_number = last  # the number of calls that were made when it failed the last time
        self.is_refused = self.is_edited = False
        self.is_awaiting_words = False  # for the words of the person who refused
        self.person_words, self.person_line = "", 0
        self.reasons: list[tuple[int, str]] = []  # where the agent spoke, and the sentence that gives a reason
        self.working_call: Step | None = None


class ThreadState:
    """What one agent of the session has under way."""

    def __init__(self) -> None:
        self.pending_calls: dict[str, tuple[int, Step]] = {}  # calls without a result, with their numbers, oldest first
        self.open_episodes: list[OpenEpisode] = []
        self.call_count = 0
        self.has_failed_last = False  # the latest result


def dump_threads(threads: Mapping[str, ThreadState]) -> dict[str, Any]:
    return {"version": STATE_VERSION, "threads": [[agent, _saved_thread(thread)] for agent, thread in threads.items()]}


def load_threads(state: Mapping[str, Any] | None) -> dict[str, ThreadState]:
    """What was saved; nothing if another version saved it."""
    if not state or state.get("version") not in _READABLE:
        return {}
    return {agent: _restored_thread(thread) for agent, thread in state["threads"]}


def _saved_thread(thread: ThreadState) -> list[Any]:
    pending = [[number, *call] for number, call in thread.pending_calls.values()]
    return [thread.call_count, thread.has_failed_last, pending, [_saved_open(each) for each in thread.open_episodes]]


def _restored_thread(given: Sequence[Any]) -> ThreadState:
    thread = ThreadState()
    thread.call_count, thread.has_failed_last, pending, under_way = given
    thread.open_episodes = [_restored_open(each) for each in under_way]
    for number, *fields in pending:
        call = Step(*fields)
        thread.pending_calls[call.call] = number, call
    return thread


def _saved_open(own: OpenEpisode) -> list[Any]:
    errors = [list(vars(error).values()) for error in own.errors]
    known = [own.is_refused, own.is_edited, own.is_awaiting_words, own.person_words, own.person_line]
    return [list(own.failing_call), errors, own.last_call_number, known, [list(each) for each in own.reasons]]


def _restored_open(given: Sequence[Any]) -> OpenEpisode:
    failing, errors, last, known, reasons = given
    own = OpenEpisode(Step(*failing), [Failure(*error) for error in errors], last)
    own.is_refused, own.is_edited, own.is_awaiting_words, own.person_words, own.person_line = known
    own.reasons = [(line, reason) for line, reason in reasons]
    return own
