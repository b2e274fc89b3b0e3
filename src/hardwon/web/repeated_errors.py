"""The errors that agents met most often, in words, with the lesson or proposal that covers each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hardwon.agents.tool_results import get_stored_result_text
from hardwon.efficacy.outcomes import build_entry_trigger, build_trigger, parse_candidate
from hardwon.lessons import manifest, review_queue
from hardwon.shell.failures import classify_failure, find_failure_line
from hardwon.store import views
from hardwon.types import SHELL_TOOL
from hardwon.web.page_request import PageRequest
from hardwon.web.render import describe_input

# The agent's own tools, and the code under work: a lesson about them prevents nothing.
_NO_LESSON_KINDS = ("anchor", "precondition", "cancelled", "code")


@dataclass(frozen=True, slots=True)
class RepeatedError:
    """An error that came more than once, the latest call that met it, and what is known about it."""

    times: int
    sessions: int
    at: float
    call: dict[str, Any]
    message: str
    lesson_slug: str = ""
    candidate_number: int | None = None
    may_become_lesson: bool = True

    @property
    def is_about_habit(self) -> bool:
        """Return whether a lesson could prevent it, or does so already."""
        return self.may_become_lesson or bool(self.lesson_slug) or self.candidate_number is not None


def list_repeated_errors(request: PageRequest, since: float, *, limit: int) -> list[RepeatedError]:
    """Return the errors that came most often, each with the lesson or the proposal that fires on its latest call."""
    index = manifest.open_current_index(request.home, request.now)
    lesson_triggers = []
    for number in range(len(index)):
        entry = index.read_entry(number)
        lesson_triggers.append((entry.slug, build_entry_trigger(entry)))
    candidate_triggers = []
    for candidate in review_queue.list_waiting(request.home, request.connection):
        proposed = parse_candidate(candidate)
        if proposed and (trigger := build_trigger(proposed)):
            candidate_triggers.append((candidate.number, trigger))
    repeated_errors = []
    for row in views.list_repeated_errors(request.connection, since, limit=limit):
        call = row["call"]
        call_values = (call["host"], call["cwd"], call["tool"], call["input"])
        message, may_become_lesson = describe_failure(call)
        repeated_errors.append(
            RepeatedError(
                row["times"],
                row["sessions"],
                row["at"],
                call,
                message or row["signature"],
                next((slug for slug, fires in lesson_triggers if fires(*call_values)), ""),
                next((number for number, fires in candidate_triggers if fires(*call_values)), None),
                may_become_lesson,
            )
        )
    return repeated_errors


def describe_failure(call: dict[str, Any]) -> tuple[str, bool]:
    """Return the line of a failed call's result that names the failure, and whether a lesson could prevent it."""
    text = get_stored_result_text(call["response"])
    message = find_failure_line(text, is_shell=call["tool"] == SHELL_TOOL)
    command = describe_input(call["input"]) if call["tool"] == SHELL_TOOL else ""
    return message, classify_failure(text, message, command) not in _NO_LESSON_KINDS
