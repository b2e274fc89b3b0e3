"""Find the firings that a lesson would have had before it was approved, in the calls that are recorded.

They are the baseline that a lesson in force is compared with. For candidates they are what is tracked in silence while
a person has not decided yet. One firing per session counts, as it does live.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hardwon.efficacy.outcomes import build_trigger, parse_candidate
from hardwon.lessons import manifest
from hardwon.lessons.manifest import find_lesson_tools
from hardwon.lessons.record import compute_version
from hardwon.store import approvals, candidates, efficacy
from hardwon.store.db import Connection, transaction
from hardwon.types import Lesson

MAX_CALLS = 50_000  # the newest: years of one person's work
_POSITION = "replayed "  # before a lesson's id; the value is its version and the last event
_TO_APPROVAL = " approved"  # after that, if all that the lesson fired on before its approval was replayed


def record_past_firings(connection: Connection, home: str) -> int:
    """Record the past firings of lessons and candidates that are new since the last time; return how many lessons."""
    in_use = ("active", "candidate")
    lessons = {lesson.id: lesson for lesson in manifest.gather_lessons(home)[0] if lesson.status in in_use}
    for candidate in candidates.list_candidates(connection):
        if proposed := parse_candidate(candidate):
            lessons.setdefault(candidate.id, proposed)
    return sum(_replay_lesson(connection, lesson) for lesson in lessons.values())


def _replay_lesson(connection: Connection, lesson: Lesson) -> bool:
    """Record a lesson's past firings; return False if there is nothing new to look at."""
    version, trigger = compute_version(lesson), build_trigger(lesson)
    stored = efficacy.get_value(connection, _POSITION + lesson.id)
    replayed_version, _, position = stored.removesuffix(_TO_APPROVAL).partition(" ")
    is_new_version = replayed_version != version
    approved = approvals.list_of_subject(connection, approvals.LESSON, lesson.id)
    # After the approval one more replay takes in what a candidate fired on since the last one.
    is_complete = stored.endswith(_TO_APPROVAL) and not is_new_version
    if trigger is None or (approved and is_complete):
        return False
    # Everything that 0.1.0 had in force was approved by the upgrade, long after it was first told.
    told_since = efficacy.find_first_told(connection, lesson.id)
    first_approval = min(approved[0].approved_at if approved else float("inf"), told_since)
    after_id = 0 if is_new_version else int(position or 0)
    rows: dict[tuple[str, str], dict[str, object]] = {}
    last_id = after_id
    for call in efficacy.iter_history(connection, find_lesson_tools(lesson), after_id=after_id, limit=MAX_CALLS):
        last_id = max(last_id, call["id"])
        if call["at"] < first_approval and trigger(call["host"], call["cwd"], call["tool"], call["input"]):
            # History is read backwards, so the first firing of a session is the one that stays.
            rows[call["host"], call["session"]] = _build_row(call, lesson, version)
    with transaction(connection):
        if is_new_version:
            efficacy.delete_past_firings(connection, lesson.id)
        efficacy.insert_past_firings(connection, rows.values())
        suffix = _TO_APPROVAL if approved else ""
        efficacy.set_value(connection, _POSITION + lesson.id, f"{version} {last_id}{suffix}")
    return True


def _build_row(call: Mapping[str, Any], lesson: Lesson, version: str) -> dict[str, object]:
    return {
        "event": f"{call['session']}:{call['tool_use_id']}" if call["tool_use_id"] else call["key"],
        **{name: call[name] for name in ("at", "host", "session", "agent", "tool")},
        "kind": "PreToolUse",
        "lesson": lesson.id,
        "slug": lesson.slug,
        "summary": "",
        "delivery": lesson.delivery,
        "version": version,
        "arm": efficacy.BEFORE,
        "probability": 0.0,
    }
