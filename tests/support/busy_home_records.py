"""The memories and handoffs of the busy home, in every state, with their files."""

from __future__ import annotations

import os

from hardwon import clock, paths
from hardwon.handoff import ratification
from hardwon.memories import memories
from hardwon.store import reflections
from hardwon.store.db import Connection
from hardwon.store.memories import list_memories
from hardwon.store.reflections import Evidence, Finding, Reflection, WrittenFile

KITE = "/home/dev/kite"
TRANSCRIPT = "/home/dev/.claude/projects/kite/1.jsonl"
_MEMORIES = (
    ("user", "I am new to Rust: explain a lifetime the first time it matters", "active"),
    ("feedback", "Always use pnpm in this repository, never npm", "active"),
    ("project", "The tail's length is measured in spans, not in metres; tail.py converts at its border", "active"),
    ("reference", "The wind tables are kept in docs/wind.md, not in the wiki", "candidate"),
    ("feedback", "From now on run the gust tests before every commit\nThey take four seconds.", "candidate"),
    ("project", "Merges are frozen from Thursday until the release", "candidate"),
    ("project", "The old spool is still in use at the harbour", "retired"),
    ("feedback", "Answer in one line from here on", "rejected"),
)
_DRAFT = """---
topic: "{topic}"
workstream: "wind"
session: "{session}"
host: "claude-code"
minutes: 42
tokens: 18200
confidence: "M"
status: "draft"
---

# {topic}

## Summary

- Asked: {topic} (L1)
- Changed `src/wind.py` and `tests/test_wind.py` (L4, L16){text}

## Decisions

- You: “Use spans, not metres.” (L8)

## What failed and was ruled out

- `pytest tests/test_wind.py -q`: **No module named 'wind'**, until src/ was put on the path (L9)

## Open ends

- `npm test` fails: Missing script: "test" (L14)

## Resume Prompt

> First: `npm test` fails: Missing script: "test" (L14)
> Look at src/wind.py and tests/test_wind.py{text}

Confidence: M (the session was cut off, but the last check shows where things stand)

## Findings

- **failed experiments** → learning: Tried metres first, then took them back (L8, L9){text}
- **naming inconsistencies** → convention: tail() and tail_at() are both used (L12)

## Memories to approve

- feedback: run the gust tests before every single commit, in spring too (L5)
"""


def fill(connection: Connection, home: str, now: float, text: str) -> None:
    """Store memories and handoffs; `text` is added to every text field."""
    for back, (memory_type, statement, status) in enumerate(_MEMORIES):
        at = now - (len(_MEMORIES) - back) * 3600.0
        distinct_words = (
            " ".join(f"{word}{back}" for word in statement.split()) if text else ""
        )  # or the text would make them alike
        memory = memories.propose(
            connection,
            home,
            memory_type,
            f"{statement}{text}{distinct_words}",
            project=KITE,
            source="reflection",
            session="session-0000",
            evidence=("L5",),
            now=at,
        )
        if status in ("active", "retired"):
            memory, path = memories.approve(connection, home, memory, at + 60)
            if text:
                _append_text(path, text)
        if status in ("retired", "rejected"):
            memories.reject_or_retire(connection, memory, at + 120)
    for number, status in enumerate(("draft", "ratified", "discarded", "moot"), 1):
        handoff = _store_handoff(connection, home, number, now - number * 7200.0, text)
        if status == "ratified":
            ratification.ratify(connection, home, _remove_memories(handoff), now - 7000.0)
        elif status == "discarded":
            ratification.discard(connection, handoff, now - 7000.0)
        elif status == "moot":
            ratification.drop_session_drafts(connection, handoff.session, now - 7000.0)


def _append_text(path: str, text: str) -> None:
    with open(path, "a") as file:
        file.write(text)


def _store_handoff(connection: Connection, home: str, number: int, at: float, text: str) -> Reflection:
    session = f"session-{number:04}"
    topic = ("Make the kite fly higher in light wind", "Draw the harbour map once", "Rename tide()", "Slow the light")
    path = os.path.join(home, "drafts", f"{session}.draft.md")
    draft_text = _DRAFT.format(topic=topic[number - 1], session=session, text=text)
    paths.write_private(path, draft_text.encode())
    evidence = (
        Evidence(TRANSCRIPT, 8, f"Use spans, not metres.{text}"),
        Evidence(TRANSCRIPT, 9, "git checkout -- src/wind.py"),
    )
    findings = (
        Finding("failed experiments", "Tried metres first, then took them back", 0.8, "learning", evidence),
        Finding("naming inconsistencies", "tail() and tail_at() are both used", 0.5, "convention", evidence[:1]),
    )
    handoff = Reflection(
        0,
        clock.create_ulid(at),
        "claude-code",
        session,
        KITE,
        at,
        "plain",
        draft=path,
        topic=topic[number - 1],
        confidence="M",
        findings=findings,
        files=(WrittenFile(path, None, ""),),
    )
    return reflections.insert(connection, handoff)


def _remove_memories(handoff: Reflection) -> Reflection:
    """Remove the memories from the handoff's page, so that ratifying it decides about none."""
    with open(handoff.draft) as file:
        text = file.read().partition("\n## Memories to approve")[0]
    with open(handoff.draft, "w") as file:
        file.write(text + "\n")
    return handoff


def find_first_ids(connection: Connection) -> dict[str, int]:
    """Return the ids of a proposal, an approved memory, a draft and a ratified handoff."""
    memory_ids = {memory.status: memory.id for memory in list_memories(connection)}
    handoff_ids = {reflection.status: reflection.id for reflection in reflections.list_reflections(connection)}
    return {
        "proposed": memory_ids["candidate"],
        "approved": memory_ids["active"],
        "draft": handoff_ids["draft"],
        "ratified": handoff_ids["ratified"],
    }
