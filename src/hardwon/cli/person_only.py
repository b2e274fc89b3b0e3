"""Some verbs are a person's. An agent that runs them is told what to ask for."""

from __future__ import annotations

import os
import shlex
import sys

from hardwon import actor
from hardwon.errors import UserError


def require_person(action: str) -> None:
    """UserError if an agent runs this program; the fix is the command as it was given."""
    if agent_variable := actor.find_agent_variable(os.environ):
        command = shlex.join(["hardwon", *sys.argv[1:]])
        raise UserError(
            f"{action} is for a person, and {agent_variable} says an agent runs this", f"they type: {command}"
        )
