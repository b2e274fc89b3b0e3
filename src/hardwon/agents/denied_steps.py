"""What transcripts hold that is not to be recorded: the agents write them whatever a person told us to leave out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any

from hardwon import claims, projects
from hardwon.agents.transcript_steps import Step, parse_timestamp
from hardwon.store.deletions import SESSION, Tombstones

StepPredicate = Callable[[Step], bool]


def build_step_exclusion(home: str, values: Mapping[str, Any]) -> StepPredicate:
    """Whether a step is left out: for its folder, for a pause in its session, or for a file that a call is about."""
    is_denied_folder = lru_cache(maxsize=512)(lambda cwd: projects.is_below(cwd, values["denyProjects"]))
    was_paused = lru_cache(maxsize=512)(partial(claims.has_been_paused, home))
    denied_paths = values["denyPaths"]

    def is_denied(step: Step) -> bool:
        if is_denied_folder(step.cwd) or was_paused(step.session):
            return True
        should_check_paths = bool(denied_paths) and step.kind == "call"
        return should_check_paths and projects.has_denied_path(
            denied_paths, step.cwd, step.tool, step.command, step.content, [step.path]
        )

    return is_denied


def denied_or_deleted(is_denied: StepPredicate, tombstones: Tombstones) -> StepPredicate:
    """Return a predicate for what is denied, or was deleted after it happened: an agent may rewrite its transcript."""
    if not tombstones:
        return is_denied

    def is_excluded(step: Step) -> bool:
        if is_denied(step):
            return True
        at = parse_timestamp(step.at) or None
        if tombstones.covers(SESSION, step.session, at):
            return True
        return tombstones.covers_text("\n".join((step.command, step.path, step.content, step.text, step.refused)), at)

    return is_excluded
