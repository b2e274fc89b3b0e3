"""Tell a person at a terminal from an agent that runs our commands. An agent may propose, never approve."""

from __future__ import annotations

from collections.abc import Mapping

from hardwon.self_protection.commands import AGENT_VARIABLES


def find_agent_variable(environment: Mapping[str, str]) -> str:
    """Return the environment variable that reveals an agent, or an empty string for a person."""
    return next((name for name in AGENT_VARIABLES if environment.get(name)), "")
