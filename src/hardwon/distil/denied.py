"""What transcripts hold that is not to be recorded: the agents write them whatever a person told us to leave out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any

from hardwon import claims, projects
from hardwon.hosts.history import Step

Denied = Callable[[Step], bool]


def denied(home: str, values: Mapping[str, Any]) -> Denied:
    """Whether a step is left out: for its folder, for a pause in its session, or for a file that a call is about."""
    is_below = lru_cache(maxsize=512)(lambda cwd: projects.is_below(cwd, values["denyProjects"]))
    was_paused = lru_cache(maxsize=512)(partial(claims.was_paused, home))
    files = values["denyPaths"]

    def is_denied(step: Step) -> bool:
        if is_below(step.cwd) or was_paused(step.session):
            return True
        is_asked = bool(files) and step.kind == "call"
        return is_asked and projects.touches(files, step.cwd, step.tool, step.command, step.content, [step.path])

    return is_denied
