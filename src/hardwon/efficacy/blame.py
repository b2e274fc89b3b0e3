"""Find what hardwon had told an agent before a call: from where each item came, and who approved it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hardwon.agents.fields import get_text, get_tool_path
from hardwon.clock import format_iso
from hardwon.efficacy.outcomes import find_former_lesson
from hardwon.lessons import manifest
from hardwon.lessons.start_replies import BRIEF_SLUG, REQUEST_SLUG
from hardwon.store import approvals, efficacy, memories, reflections
from hardwon.store.db import Connection, parse_json_or_text
from hardwon.text.similarity import tokenize
from hardwon.types import Lesson

_ORIGINS = {
    "person": "written by a person",
    "agent": "proposed by an agent",
    "scan": "found in transcripts",
    "import": "imported",
}


@dataclass(frozen=True, slots=True)
class BlamedItem:
    """Something the agent was told: when and how, from where it came, and who approved it."""

    at: float
    name: str
    delivery: str
    text: str
    origin: str
    approval: str
    shared_words: tuple[str, ...]  # with the call that it may have led to


def list_told_items(
    connection: Connection, home: str, session: dict[str, Any], call: dict[str, Any] | None
) -> list[BlamedItem]:
    """Return what a session was told, before a call if one is given, oldest first."""
    lessons = {lesson.id: lesson for lesson in manifest.list_lessons(home)}
    call_words = tokenize(describe_call(call)) if call else frozenset()
    items: list[BlamedItem] = []
    for delivery in efficacy.list_told(connection, session["host"], session["session"]):
        if call and delivery["at"] > call["at"]:
            continue
        # What another sub-agent was told did not reach this one; what the session's main agent was told may have.
        if call and delivery["agent"] not in ("", call["agent"]):
            continue
        if delivery["lesson"] == BRIEF_SLUG:
            items += _iter_brief_items(connection, session["project_path"], delivery, call_words)
        else:
            items.append(_build_item(connection, lessons, delivery, call_words))
    return items


def describe_call(call: dict[str, Any]) -> str:
    """Return the command or the file of a call, or else its tool."""
    tool_input = parse_json_or_text(call["input"])
    fields = tool_input if isinstance(tool_input, dict) else {}
    return get_text(fields, "command") or get_tool_path(fields) or str(call["tool"])


def _build_item(
    connection: Connection, lessons: dict[str, Lesson], delivery: dict[str, Any], call_words: frozenset[str]
) -> BlamedItem:
    """Describe a delivered lesson, also one that is gone since, a recalled record, or a request for a lesson."""
    lesson = lessons.get(delivery["lesson"]) or find_former_lesson(connection, delivery["lesson"])
    summary = text = delivery["summary"]
    if delivery["slug"] == REQUEST_SLUG:
        origin = "hardwon itself"
        approval = "a request, no advice"
    elif lesson is None:  # a recalled record
        origin = "recorded in an earlier session"
        approval = "recorded data, approved by nobody"
    else:
        summary = lesson.summary
        text = f"{lesson.summary} {lesson.problem} {lesson.solution}"
        origin = _describe_origin(lesson)
        approval = _describe_approval(connection, approvals.LESSON, delivery["lesson"], delivery["at"])
        if not approval and lesson.project:
            approval = _describe_approval(connection, approvals.TRUST, lesson.project, delivery["at"])
    return BlamedItem(
        at=delivery["at"],
        name=delivery["slug"],
        delivery=delivery["delivery"],
        text=summary,
        origin=origin or "of unknown origin",
        approval=approval or "no approval on record",
        shared_words=tuple(sorted(tokenize(text) & call_words)),
    )


def _describe_origin(lesson: Lesson) -> str:
    """Say who wrote a lesson and in which sessions it was learned; empty if the record tells neither."""
    origin = _ORIGINS.get(str(lesson.extra.get("source", "")), "")
    if lesson.source_sessions:
        return f"{origin or 'learned'} from session {', '.join(lesson.source_sessions[:3])}"
    if lesson.project and not origin:
        return f"carried by the repository {lesson.project}"
    return origin


def _iter_brief_items(
    connection: Connection, project: str, delivery: dict[str, Any], call_words: frozenset[str]
) -> Iterator[BlamedItem]:
    """Yield what the brief of a session said: in sum, and the memories that were approved by then."""
    at = delivery["at"]
    origin = "compiled from earlier sessions here"
    approval = "memories and ratified handoffs are approved, the rest is data"
    yield BlamedItem(at, BRIEF_SLUG, "start", delivery["summary"], origin, approval, ())
    for memory in memories.list_memories(connection, project=project):
        if approved := _describe_approval(connection, approvals.MEMORY, str(memory.id), at):
            shared_words = tuple(sorted(tokenize(memory.text) & call_words))
            origin = f"{memory.source}, session {memory.session}" if memory.session else memory.source
            yield BlamedItem(at, f"M{memory.id}", "start", memory.text, origin, approved, shared_words)
    for reflection in reflections.list_reflections(connection, reflections.RATIFIED, project=project, limit=1):
        if approved := _describe_approval(connection, approvals.HANDOFF, str(reflection.id), at):
            shared_words = tuple(sorted(tokenize(f"{reflection.topic} {reflection.resume}") & call_words))
            origin = f"handoff of session {reflection.session}"
            yield BlamedItem(at, f"H{reflection.id}", "start", reflection.topic, origin, approved, shared_words)


def _describe_approval(connection: Connection, kind: str, subject: str, at: float) -> str:
    """Return the approval that was in force at a time, by its path and date; empty if there was none."""
    for approval in reversed(approvals.list_of_subject(connection, kind, subject)):
        is_undone_by_then = approval.undone_at is not None and approval.undone_at <= at
        if approval.approved_at <= at and not is_undone_by_then:
            return f"approved by {approval.path}, {format_iso(approval.approved_at)[:10]}"
    return ""
