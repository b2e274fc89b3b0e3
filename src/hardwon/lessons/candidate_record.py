"""Build the JSON record of a candidate in the format of the seed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from hardwon.lessons.validation import REVIEW_BELOW
from hardwon.store.candidates import Candidate, list_episodes
from hardwon.store.db import Connection

PATTERN_NAMES = {"commandPatterns": "command", "pathPatterns": "path", "contentPatterns": "content"}


def to_candidate_record(connection: Connection, candidate: Candidate) -> dict[str, Any]:
    """Return the candidate in the seed's format, with hardwon's additional fields."""
    episodes = list_episodes(connection, candidate.signature)
    record = candidate.record
    episode_body = next((item.body for item in episodes if item.body["solution"] == record["solution"]), {})
    pattern = find_first_pattern(record, *PATTERN_NAMES)
    if candidate.tier == 1:
        raw_trigger = episode_body.get("trigger")
    else:
        raw_trigger = episode_body.get("command") or episode_body.get("file")
    return {
        "index": candidate.number,
        "id": candidate.id,
        "slug": candidate.slug,
        "tier": candidate.tier,
        "status": candidate.status,
        "tool": episode_body.get("tool", ""),
        "confidence": record["confidence"],
        "priority": record["priority"],
        "occurrenceCount": candidate.occurrences,
        "sessionCount": len(candidate.sessions),
        "projectCount": len(candidate.projects),
        "projects": [os.path.basename(project) or project for project in candidate.projects],
        "summary": record["summary"],
        "problem": record["problem"],
        "solution": record["solution"],
        "tags": record["tags"],
        "trigger": str(raw_trigger or pattern),
        "triggerPattern": pattern,
        "triggers": record["triggers"],
        "delivery": record["delivery"],
        "scope": record["scope"],
        "needsReview": candidate.tier == 2 or record["confidence"] < REVIEW_BELOW,
        "sourceSessionIds": list(candidate.sessions),
        "signals": {"userCorrection": any(bool(episode.body.get("person")) for episode in episodes)},
        "score": candidate.score,
        "scoreParts": dict(candidate.parts),
        "difference": {
            key: episode_body[key] for key in ("command", "worked", "removed", "added") if key in episode_body
        },
        "evidence": [entry for episode in episodes for entry in episode.body["evidence"]],
    }


def find_first_pattern(record: Mapping[str, Any], *kinds: str) -> str:
    for kind in kinds:
        for pattern in record["triggers"].get(kind, ()):
            return str(pattern["source"] if isinstance(pattern, dict) else pattern)
    return ""


def describe_figures(parts: Mapping[str, float]) -> str:
    """Describe for the list on which calls a proposal would have fired."""
    stopped, repeats, fine, fine_calls = (int(parts.get(name, 0)) for name in ("stopped", "repeats", "fine", "calls"))
    stops = f"would have stopped {stopped} of {repeats} repeats" if repeats else "seen in one session, no repeat yet"
    return f"{stops}; fired on {fine} of {fine_calls} calls that went fine"
