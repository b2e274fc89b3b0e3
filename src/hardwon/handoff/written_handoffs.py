"""Handoffs that the agent in a session, or its person, writes: read the fields, attach the record, save the page.

An agent's handoff is a draft, checked against what hardwon recorded of the session. What the record contradicts is
listed at the top of the page.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import localtime, strftime
from typing import Any

from hardwon import clock, paths
from hardwon.data import backups
from hardwon.errors import UserError
from hardwon.handoff import claim_check, handoffs, ratification
from hardwon.handoff.claim_check import SessionRecord
from hardwon.handoff.draft import CONFIDENCE_NAMES, FAILED_HEADING, OPEN_HEADING
from hardwon.handoff.handoffs import (
    CONTRADICTIONS_HEADING,
    HEADING_PATTERN,
    MEMORIES_HEADING,
    RESUME_HEADING,
    fingerprint_file,
)
from hardwon.handoff.idle_sessions import is_commit
from hardwon.memories import memory_files
from hardwon.privacy.cleaning import clean_text
from hardwon.privacy.prompt_text import has_sensitive_word
from hardwon.store import reflections
from hardwon.store.db import Connection
from hardwon.store.reflections import DRAFT, RATIFIED, Reflection, WrittenFile
from hardwon.store.sessions import list_changing_calls, list_session_prompts
from hardwon.text.excerpts import to_plain_line
from hardwon.text.handoff_request import HANDOFF_EXAMPLE
from hardwon.types import EDIT_TOOLS, MEMORY_TYPES, Event, replace

AGENT_KIND, PERSON_KIND = "agent", "person"
RECORD_HEADING = "Recorded by hardwon"
FIX = (
    f"send one JSON object on stdin, such as:\n{HANDOFF_EXAMPLE}\n"
    "memories and workstream may be left out, lists may be empty"
)
MAX_ITEMS, MAX_ITEM_CHARS, MAX_TOPIC_CHARS, MAX_RESUME_CHARS = 12, 600, 160, 2_000
_REQUIRED = ("topic", "summary", "decisions", "failed", "open_ends", "resume_prompt", "confidence")


@dataclass(frozen=True, slots=True)
class WrittenHandoff:
    """The fields of a handoff as the agent sent them, cleaned, each item on one line."""

    topic: str
    workstream: str
    summary: tuple[str, ...]
    decisions: tuple[str, ...]
    failed: tuple[str, ...]
    open_ends: tuple[str, ...]
    resume_prompt: tuple[str, ...]
    confidence: str
    memories: tuple[tuple[str, str], ...]


def parse_handoff(text: str) -> WrittenHandoff:
    """Read the JSON of a handoff; UserError with an example if a field is missing or of the wrong form."""
    try:
        wire = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"this is not JSON: {error}", FIX) from None
    if not isinstance(wire, dict):
        raise UserError("this is not a JSON object", FIX)
    if missing := [name for name in _REQUIRED if name not in wire]:
        raise UserError(f"missing: {', '.join(missing)}", FIX)
    confidence = str(wire["confidence"])[:1].upper()
    if confidence not in CONFIDENCE_NAMES:
        raise UserError(f"confidence is {wire['confidence']!r:.40}, not H, M or L", FIX)
    summary = [wire["summary"]] if isinstance(wire["summary"], str) else wire["summary"]
    resume_lines = _read_string(wire["resume_prompt"], "resume_prompt", MAX_RESUME_CHARS).splitlines()
    handoff = WrittenHandoff(
        topic=to_plain_line(_read_string(wire["topic"], "topic", MAX_TOPIC_CHARS)),
        workstream=to_plain_line(_read_string(wire.get("workstream", ""), "workstream", MAX_TOPIC_CHARS)),
        summary=_read_items(summary, "summary"),
        decisions=_read_items(wire["decisions"], "decisions", ("decision", "reason"), "{}, because {}"),
        failed=_read_items(wire["failed"], "failed", ("tried", "why"), "{}: {}"),
        open_ends=_read_items(wire["open_ends"], "open_ends"),
        resume_prompt=tuple(line for raw_line in resume_lines if (line := to_plain_line(raw_line))),
        confidence=confidence,
        memories=_read_memories(wire.get("memories", [])),
    )
    empty_names = [name for name in ("topic", "summary", "resume_prompt") if not getattr(handoff, name)]
    if empty_names:
        raise UserError(f"empty: {', '.join(empty_names)}", FIX)
    return handoff


def _read_items(rows: Any, name: str, keys: Sequence[str] = (), form: str = "") -> tuple[str, ...]:
    """Return the lines of a list of strings, or of a list of objects with these keys."""
    if not isinstance(rows, list) or len(rows) > MAX_ITEMS:
        raise UserError(f"{name} is not a list of at most {MAX_ITEMS} items", FIX)
    lines = []
    for number, row in enumerate(rows):
        label = f"{name}[{number}]"
        if not keys:
            line = _read_string(row, label, MAX_ITEM_CHARS)
        else:
            if isinstance(row, dict):
                texts = [_read_string(row.get(key), f"{label}.{key}", MAX_ITEM_CHARS) for key in keys]
            else:
                texts = []
            if not all(texts) or not texts:
                raise UserError(f"{label} is not an object with {' and '.join(keys)}", FIX)
            line = form.format(texts[0].rstrip(". "), texts[1])
        lines.append(to_plain_line(line))
    return tuple(line for line in lines if line)


def _read_memories(rows: Any) -> tuple[tuple[str, str], ...]:
    """Return type and text of each memory that an agent wrote; UserError names the first that is malformed."""
    if not isinstance(rows, list) or len(rows) > MAX_ITEMS:
        raise UserError(f"memories is not a list of at most {MAX_ITEMS} items", FIX)
    for number, row in enumerate(rows):
        if not isinstance(row, dict) or row.get("type") not in MEMORY_TYPES:
            raise UserError(f"memories[{number}].type is not one of {', '.join(MEMORY_TYPES)}", FIX)
    texts = [to_plain_line(_read_string(row.get("text"), "memories.text", MAX_ITEM_CHARS)) for row in rows]
    return tuple((row["type"], text) for row, text in zip(rows, texts, strict=True) if text)


def _read_string(value: Any, name: str, max_chars: int) -> str:
    """Return a text, redacted; UserError calls it by `name` if it is no text or too long."""
    if not isinstance(value, str):
        raise UserError(f"{name} is not a text", FIX)
    if len(value) > max_chars:
        raise UserError(f"{name} is too long ({len(value):,} characters, at most {max_chars:,})", "shorten it")
    return clean_text(value)


@dataclass(frozen=True, slots=True)
class CheckedHandoff:
    """The body of a handoff's page, and its lines that say what the record contradicts."""

    body: str
    contradictions: tuple[str, ...]


def build_checked_body(handoff: WrittenHandoff, record: SessionRecord | None) -> CheckedHandoff:
    """Render a handoff with the record beside it; without a record nothing can be checked, and the page says so."""
    contradictions = list[str]()
    record_lines = ["Nothing was recorded of this session, so nothing was checked."]
    if record is not None:
        done_texts = [handoff.topic, *handoff.summary, *handoff.decisions]
        other_texts = [*handoff.failed, *handoff.open_ends, *handoff.resume_prompt]
        contradictions = claim_check.find_contradictions(record, done_texts, other_texts)
        unrecorded = claim_check.find_unrecorded_claims(record, [*done_texts, *other_texts])
        record_lines = claim_check.describe_record(record) or ["No file was changed, nothing committed, no check run."]
        record_lines += [f"No such check was recorded: “{sentence}”" for sentence in unrecorded]
    sections = {
        CONTRADICTIONS_HEADING: _render_bullets(contradictions),
        "Summary": _render_bullets(handoff.summary),
        "Decisions": _render_bullets(handoff.decisions),
        FAILED_HEADING: _render_bullets(handoff.failed),
        OPEN_HEADING: _render_bullets(handoff.open_ends),
        RESUME_HEADING: "\n".join(f"> {_escape(line)}  " for line in handoff.resume_prompt)
        + f"\n\nConfidence: {handoff.confidence} (as the agent judges)",
        MEMORIES_HEADING: _render_bullets(f"{memory_type}: {text}" for memory_type, text in handoff.memories),
        RECORD_HEADING: _render_bullets(record_lines),
    }
    text = "\n\n".join(f"## {heading}\n\n{lines}" for heading, lines in sections.items() if lines)
    if record is not None:
        for folder in filter(None, (record.cwd, record.project)):
            text = text.replace(f"{folder}/", "")
    return CheckedHandoff(f"# {_escape(handoff.topic)}\n\n{text}", tuple(contradictions))


def _render_bullets(lines: Any) -> str:
    return "\n".join(f"- {_escape(line)}" for line in lines)


def _escape(text: str) -> str:
    """Escape `<`, so that tags and comments show as text."""
    return text.replace("<", "\\<")


def save_handoff(
    connection: Connection,
    home: str,
    text: str,
    *,
    folder: str,
    session: str,
    agent: str,
    project: str,
    topic: str,
    now: float,
    is_ratified: bool,
    kind: str = PERSON_KIND,
    fields: Mapping[str, str] | None = None,
) -> Reflection:
    """Save a handoff that did not come from reflection, and retire the session's drafts.

    It goes into `folder`, or into the home if that is empty. `fields` are added to the front matter.
    """
    session = session or strftime("%Y-%m-%d-%H%M", localtime(now))
    name = session if folder else paths.build_draft_name(project, session)
    end = ratification.PAGE_SUFFIX if is_ratified else ratification.DRAFT_SUFFIX
    path = _find_free_path(folder or os.path.join(home, backups.DRAFTS_FOLDER), name, end)
    status = RATIFIED if is_ratified else DRAFT
    front = {"topic": topic, "session": session, "written": clock.format_iso(now), "status": status, **(fields or {})}
    paths.write_document(home, path, _build_page_text(clean_text(text), front))
    files = (WrittenFile(path, None, fingerprint_file(path)),)
    reflection = Reflection(
        0, clock.create_ulid(now), agent, session, project, now, kind, status, path, topic, files=files
    )
    page = handoffs.read_page(reflection)
    resume = "\n".join(handoffs.get_resume_lines(page)) if page else ""
    confidence = page.confidence if page else ""
    earlier = reflections.list_reflections(connection, DRAFT, session=session)
    try:
        saved = reflections.insert(
            connection,
            replace(reflection, resume=resume, confidence=confidence, decided_at=now if is_ratified else None),
        )
    except BaseException:
        os.unlink(path)
        raise
    for draft in earlier:
        ratification.retire_draft(connection, draft, now)
    return saved


def _build_page_text(text: str, front: Mapping[str, str]) -> str:
    """Build the file: plain text becomes the resume prompt, text with headings stays as it is."""
    text = text.strip()
    if text.startswith("---\n"):
        return text + "\n"
    lines = "\n".join(f"{name}: {memory_files.quote_yaml(value)}" for name, value in front.items() if value)
    body = text if any(map(HEADING_PATTERN.fullmatch, text.splitlines())) else f"## {RESUME_HEADING}\n\n{text}"
    return f"---\n{lines}\n---\n\n{body}\n"


def _find_free_path(folder: str, name: str, end: str) -> str:
    """Return a path that ends with `end` and whose name neither a page nor a draft has, numbered if need be."""
    stem = paths.to_safe_name(name)
    number = 1
    suffixes = (ratification.PAGE_SUFFIX, ratification.DRAFT_SUFFIX)
    while any(os.path.lexists(os.path.join(folder, f"{stem}{suffix}")) for suffix in suffixes):
        number += 1
        stem = f"{paths.to_safe_name(name)}-{number}"
    return os.path.join(folder, f"{stem}{end}")


def describe_unrecorded_work(connection: Connection, event: Event, sensitive_words: Sequence[str]) -> str:
    """Return what a session changed since its last handoff, such as "2 changed files and 1 commit"; empty for nothing.

    The end of a turn counts only if the turn made a commit: something is finished then. Before a compaction any change
    counts, because the agent soon knows less of it.
    """
    handed_off_at = max(
        (
            reflection.at
            for reflection in reflections.list_reflections(connection, session=event.session)
            if reflection.kind not in reflections.REFLECTED_KINDS or reflection.status == RATIFIED
        ),
        default=0.0,
    )
    calls = list_changing_calls(connection, event.host, event.session, handed_off_at)
    commits = [call for call in calls if call.tool not in EDIT_TOOLS and is_commit(call.subject)]
    files = {call.subject for call in calls if call.tool in EDIT_TOOLS}
    if event.kind == "Stop" and not any(call.is_in_last_turn for call in commits):
        return ""
    if calls and has_sensitive_word(list_session_prompts(connection, event.host, event.session), sensitive_words):
        return ""
    counts = [(len(files), "changed file"), (len(commits), "commit")]
    return " and ".join(f"{count} {noun}{'s' * (count > 1)}" for count, noun in counts if count)
