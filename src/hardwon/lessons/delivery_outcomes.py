"""What came of a lesson's deliveries: for each, the call that the agent made instead, and how that ended."""

from __future__ import annotations

from typing import Any

from hardwon.agents.fields import get_text, get_tool_path
from hardwon.shell.failures import list_working_commands
from hardwon.store import views
from hardwon.store.db import Connection, parse_json_or_text
from hardwon.types import frozen

MAX_CALLS_AHEAD = 8  # calls: later ones are about something else


@frozen
class DeliveryOutcome:
    """The call that a lesson was delivered on, and the one that came instead; each None if it is not known."""

    call: dict[str, Any] | None
    instead: dict[str, Any] | None


def find_delivery_outcome(connection: Connection, delivery: dict[str, Any]) -> DeliveryOutcome:
    """Return the call that a delivery was about and the next call of that tool that ran, by the same agent.

    A call with the same aim is preferred to one that only came sooner: after a denial agents often look around first.
    """
    session = delivery["number"]
    if not session:
        return DeliveryOutcome(None, None)
    is_denial = delivery["delivery"] in ("hold", "block")
    denied = views.find_denied_call(connection, session, delivery) if is_denial else None
    later = views.list_calls_after(connection, session, delivery, limit=MAX_CALLS_AHEAD)
    if denied is None:
        return DeliveryOutcome(None, later[0] if later else None)
    same_aim = (call for call in later if _has_same_aim(denied, call))
    return DeliveryOutcome(denied, next(same_aim, later[0] if later else None))


def _has_same_aim(denied: dict[str, Any], call: dict[str, Any]) -> bool:
    """Return whether two calls run a program in common, or are about the same file."""
    wanted, came = _input_of(denied), _input_of(call)
    if command := get_text(wanted, "command"):
        programs = {part.program for part in list_working_commands(command)}
        return not programs.isdisjoint(part.program for part in list_working_commands(get_text(came, "command")))
    return bool(get_tool_path(wanted)) and get_tool_path(wanted) == get_tool_path(came)


def _input_of(call: dict[str, Any]) -> dict[str, Any]:
    given = parse_json_or_text(call["input"])
    return given if isinstance(given, dict) else {}
