"""Admitting a lesson: filled in, checked against the rules and against those that are there, written, in force."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Any

from hardwon import clock
from hardwon.core import record as records
from hardwon.core import rules
from hardwon.errors import UserError
from hardwon.recall import manifest
from hardwon.store import lessons as shelves
from hardwon.words import Lesson, replace

_SLUG_LENGTH = 36


def add(home: str, record: dict[str, Any], *, approved: bool) -> Lesson:
    """Write a new lesson; UserError with a line per fault if it is not fit. What a machine proposes is a candidate."""
    now = clock.now()
    try:
        lesson = records.read(_with_reason(record))
    except records.BadRecord as bad:
        raise refusal(bad.faults) from None
    if wrong := rules.faults(lesson):
        raise refusal(wrong)
    with shelves.editing(home) as shelf:
        lesson = _filled_in(lesson, now, taken=[one.slug for one in shelf.lessons], approved=approved)
        for other in shelf.lessons:
            if other.id == lesson.id:
                raise UserError(f"there is a lesson with the id {lesson.id}: {other.slug}", "leave the id out")
            if records.content_hash(other) == lesson.content_hash:
                raise UserError(f"this lesson is there already: {other.slug}", f"hardwon lessons show {other.slug}")
        shelves.put(shelf, lesson)
        shelves.save(shelf)
    manifest.build(home, now)
    return lesson


def refusal(faults: Iterable[str]) -> UserError:
    listed = "".join(f"\n  - {fault}" for fault in faults)
    return UserError(f"the lesson is refused{listed}", "mend these and add it again")


def _with_reason(record: dict[str, Any]) -> dict[str, Any]:
    """`delivery: block` alone means the solution is the reason; the older pair `block`, `blockReason` stays a pair."""
    if record.get("delivery") == "block" and "block" not in record and not record.get("blockReason"):
        return {**record, "blockReason": record.get("solution") or record.get("fix") or ""}
    return record


def _filled_in(lesson: Lesson, now: float, *, taken: Iterable[str], approved: bool) -> Lesson:
    project = os.path.realpath(os.path.expanduser(lesson.project)) if lesson.project else ""
    lesson = replace(
        lesson,
        id=lesson.id or clock.ulid(now),
        slug=lesson.slug or fresh_slug(lesson.summary, taken),
        project=project,
        status=lesson.status if approved else "candidate",
        needs_review=lesson.needs_review or lesson.confidence < rules.REVIEW_BELOW,
        created=lesson.created or clock.iso(now),
        updated=clock.iso(now),
    )
    return replace(lesson, content_hash=records.content_hash(lesson))


def fresh_slug(summary: str, taken: Iterable[str]) -> str:
    """The summary in kebab case and four characters, unlike any other."""
    stem = re.sub(r"[^a-z0-9]+", "-", summary.lower()).strip("-") or "lesson"
    if len(stem) > _SLUG_LENGTH:
        stem = stem[: _SLUG_LENGTH + 1].rpartition("-")[0] or stem[:_SLUG_LENGTH]
    others = set(taken)
    while (slug := f"{stem}-{clock.suffix()}") in others:
        continue
    return slug
