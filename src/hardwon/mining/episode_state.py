"""What is under way in a transcript, and how it is kept between two scans.

An error may stand in one scan and its correction in the next, so a watch can be stopped after any step: its state is
stored beside the reader's, and another watch goes on from it as if nothing had been between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hardwon.agents.transcript_steps import Step
from hardwon.shell.failures import Failure

VERSION = 2  # of the state: another one for every change of Step, Failure or what is saved here
_READABLE = (1, 2)  # 2 has a field more at the end of Step, which has a default


class Open:
    """An episode under way: what is known of it before it is told."""

    def __init__(self, failing: Step, errors: list[Failure], last: int) -> None:
        self.failing, self.errors = failing, errors
        self.last = last  # the number of calls that were made when it failed the last time
        self.refused = self.edited = False
        self.waits = False  # for the words of the person who refused
        self.told, self.told_at = "", 0
        self.reasons: list[tuple[int, str]] = []  # where the agent spoke, and the sentence that gives a reason
        self.worked: Step | None = None


class Thread:
    """What one agent of the session has under way."""

    def __init__(self) -> None:
        self.pending: dict[str, tuple[int, Step]] = {}  # calls without a result, with their numbers, oldest first
        self.open: list[Open] = []
        self.calls = 0
        self.failed = False  # the latest result


def saved(threads: Mapping[str, Thread]) -> dict[str, Any]:
    return {"version": VERSION, "threads": [[agent, _saved_thread(thread)] for agent, thread in threads.items()]}


def restored(state: Mapping[str, Any] | None) -> dict[str, Thread]:
    """What was saved; nothing if another version saved it."""
    if not state or state.get("version") not in _READABLE:
        return {}
    return {agent: _restored_thread(thread) for agent, thread in state["threads"]}


def _saved_thread(thread: Thread) -> list[Any]:
    pending = [[number, *call] for number, call in thread.pending.values()]
    return [thread.calls, thread.failed, pending, [_saved_open(each) for each in thread.open]]


def _restored_thread(given: Sequence[Any]) -> Thread:
    thread = Thread()
    thread.calls, thread.failed, pending, under_way = given
    thread.open = [_restored_open(each) for each in under_way]
    for number, *fields in pending:
        call = Step(*fields)
        thread.pending[call.call] = number, call
    return thread


def _saved_open(own: Open) -> list[Any]:
    errors = [list(vars(error).values()) for error in own.errors]
    known = [own.refused, own.edited, own.waits, own.told, own.told_at]
    return [list(own.failing), errors, own.last, known, [list(each) for each in own.reasons]]


def _restored_open(given: Sequence[Any]) -> Open:
    failing, errors, last, known, reasons = given
    own = Open(Step(*failing), [Failure(*error) for error in errors], last)
    own.refused, own.edited, own.waits, own.told, own.told_at = known
    own.reasons = [(line, reason) for line, reason in reasons]
    return own
