"""Describe the state of memories and handoffs in words, and build their JSON records."""

from __future__ import annotations

from typing import Any

from hardwon import clock
from hardwon.handoff import handoffs, memories
from hardwon.store.db import Connection
from hardwon.store.reflections import DRAFT, RATIFIED, Reflection
from hardwon.types import Memory

STATE_NAMES = {"candidate": "proposed", "active": "approved"}


def describe_memory_state(connection: Connection, home: str, record: Memory) -> str:
    if record.status == "active":
        page = memories.read_page(home, record)
        if page is None:
            return "its file is gone"
        if page.is_edited:
            return "edited since approved, not told"
        if not memories.is_approved(connection, record, page):
            return "not approved, not told"
    return STATE_NAMES.get(record.status, record.status)


def read_memory_text(home: str, record: Memory) -> str:
    page = memories.read_page(home, record)
    return page.text if page else record.text


def to_memory_json(home: str, record: Memory) -> dict[str, Any]:
    fields: dict[str, Any] = {
        **record.__dict__,
        "evidence": list(record.evidence),
        "at": clock.format_iso(record.at),
        "decided_at": clock.format_iso(record.decided_at) if record.decided_at else None,
        "edited": False,
    }
    page = memories.read_page(home, record)
    if page:
        fields.update(file=page.path, text=page.text, edited=page.is_edited)
    return fields


def describe_handoff_state(connection: Connection, record: Reflection) -> str:
    page = handoffs.read_page(record)
    if record.status in (DRAFT, RATIFIED) and page is None:
        return f"{record.status}, file gone"
    if page and page.is_edited:
        return "edited, not told"
    if record.status == RATIFIED and not handoffs.is_approved(connection, record):
        return "not approved, not told"
    return record.status


def to_handoff_json(connection: Connection, record: Reflection) -> dict[str, Any]:
    page = handoffs.read_page(record)
    return {
        "id": record.id,
        "status": record.status,
        "state": describe_handoff_state(connection, record),
        "session": record.session,
        "host": record.host,
        "project": record.project,
        "at": clock.format_iso(record.at),
        "kind": record.kind,
        "file": record.draft,
        "topic": page.topic if page else record.topic,
        "confidence": page.confidence if page else record.confidence,
        "resume": handoffs.get_resume_lines(page) if page else record.resume.splitlines(),
        "decided_at": clock.format_iso(record.decided_at) if record.decided_at else None,
    }
