"""Find what agents did after a lesson was delivered: the next call, and its outcome."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hardwon.agents.fields import get_text, get_tool_path
from hardwon.shell.working_commands import list_working_commands
from hardwon.store import views
from hardwon.store.db import Connection, parse_json_or_text

_MAX_CALLS_AHEAD = 8  # later calls are about something else


@dataclass(frozen=True, slots=True)
class DeliveryOutcome:
    """The call that a lesson was delivered on and the call made instead; None if unknown."""

    call: dict[str, Any] | None
    instead: dict[str, Any] | None


def find_delivery_outcome(connection: Connection, delivery: dict[str, Any]) -> DeliveryOutcome:
    """Return the delivery's call and the same agent's next completed call of that tool.

    One that runs the same program or concerns the same file is preferred to an earlier one, because agents often look
    around after a denial.
    """
    session_number = delivery["number"]
    if not session_number:  # the session was never recorded, or is deleted
        return DeliveryOutcome(None, None)
    later_calls = views.list_calls_after(connection, session_number, delivery, limit=_MAX_CALLS_AHEAD)
    next_call = later_calls[0] if later_calls else None
    denied_call = None
    if delivery["delivery"] in ("hold", "block"):
        denied_call = views.find_denied_call(connection, session_number, delivery)
    if denied_call is None:
        return DeliveryOutcome(None, next_call)
    similar_calls = (call for call in later_calls if shares_program_or_file(denied_call["input"], call["input"]))
    return DeliveryOutcome(denied_call, next(similar_calls, next_call))


def shares_program_or_file(denied_call_input: str, later_call_input: str) -> bool:
    """Return whether two calls, given by their stored inputs, run a common program or concern the same file."""
    denied_input = _parse_input(denied_call_input)
    later_input = _parse_input(later_call_input)
    if denied_command := get_text(denied_input, "command"):
        denied_programs = {part.program for part in list_working_commands(denied_command)}
        later_programs = {part.program for part in list_working_commands(get_text(later_input, "command"))}
        return not denied_programs.isdisjoint(later_programs)
    denied_path = get_tool_path(denied_input)
    return bool(denied_path) and denied_path == get_tool_path(later_input)


def _parse_input(stored_input: str) -> dict[str, Any]:
    """Return a call's stored input; empty if it was too long and stored cut, so that it is no JSON."""
    parsed = parse_json_or_text(stored_input)
    return parsed if isinstance(parsed, dict) else {}
