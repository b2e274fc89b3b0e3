"""What came of a lesson's deliveries: for each, the call that the agent made instead, and how that ended."""

from __future__ import annotations

from typing import Any

from hardwon.agents.fields import path_of, text_of
from hardwon.shell.failures import working_parts
from hardwon.store import views
from hardwon.store.db import Connection, value_of
from hardwon.types import word

LOOKED_AHEAD = 8  # calls: later ones are about something else


@word
class Followed:
    """The call that a lesson was delivered on, and the one that came instead; each None if it is not known."""

    call: dict[str, Any] | None
    instead: dict[str, Any] | None


def follow(connection: Connection, delivery: dict[str, Any]) -> Followed:
    """Return the call that a delivery was about and the next call of that tool that ran, by the same agent.

    A call with the same aim is preferred to one that only came sooner: after a denial agents often look around first.
    """
    session = delivery["number"]
    if not session:
        return Followed(None, None)
    is_denial = delivery["delivery"] in ("hold", "block")
    denied = views.denied_call(connection, session, delivery) if is_denial else None
    later = views.calls_after(connection, session, delivery, limit=LOOKED_AHEAD)
    if denied is None:
        return Followed(None, later[0] if later else None)
    same_aim = (call for call in later if _has_same_aim(denied, call))
    return Followed(denied, next(same_aim, later[0] if later else None))


def _has_same_aim(denied: dict[str, Any], call: dict[str, Any]) -> bool:
    """Return whether two calls run a program in common, or are about the same file."""
    wanted, came = _input_of(denied), _input_of(call)
    if command := text_of(wanted, "command"):
        programs = {part.program for part in working_parts(command)}
        return not programs.isdisjoint(part.program for part in working_parts(text_of(came, "command")))
    return bool(path_of(wanted)) and path_of(wanted) == path_of(came)


def _input_of(call: dict[str, Any]) -> dict[str, Any]:
    given = value_of(call["input"])
    return given if isinstance(given, dict) else {}
