"""Read handoffs: what a session leaves for the next one, as a draft and later ratified by a person.

A handoff is a file that people edit. The database keeps its origin, its status and the hash that was ratified. A file
that changed since is not delivered until it is ratified again, because somebody else may have changed it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from hashlib import sha256
from time import localtime, strftime
from typing import Any

from hardwon import clock
from hardwon.errors import UserError
from hardwon.memories import memory_files
from hardwon.paths import open_plain_file
from hardwon.privacy.cleaning import clean_text
from hardwon.store import approvals, reflections
from hardwon.store.db import Connection
from hardwon.store.reflections import DRAFT, RATIFIED, Reflection
from hardwon.text.characters import make_printable, to_printable_line
from hardwon.types import frozen

MAX_FILE_BYTES = 200_000  # a larger file is not a handoff
RESUME_HEADING, FINDINGS_HEADING, MEMORIES_HEADING = "Resume Prompt", "Findings", "Memories to approve"
CONTRADICTIONS_HEADING = "Contradicted by the record"
HEADING_PATTERN = re.compile(r"## +(.+?) *#*")
SOURCE_LINES_PATTERN = re.compile(r" \((L\d+(?:, L\d+)*)\)\s*$")  # transcript lines behind a statement
SUMMARY_HEADING = "Summary"
FIRST_LEAD, THEN_LEAD = "First: ", "Then: "  # before the steps in a resume prompt
OUTCOME_ARROW = " → "  # between a request and its outcome
_TOPIC_LINE = re.compile(rf"“.+”{OUTCOME_ARROW}.+")  # in the summary of a plain draft
_LAST_LEAD = re.compile(r"Last(?: change)?: ")  # earlier versions marked the last work in the resume prompt
ASKED_LEAD = "asked: "  # before a topic of which nothing came yet
NO_TOPIC = "A session without a request"
SAID_LEAD = "Said: "  # introduces the person's own words after a proposed memory
SAID_PATTERN = re.compile(rf" {SAID_LEAD}“[^“”]*”$")
_MAX_HANDOFFS = 1_000
_MAX_NEWEST = 5  # read at most this many recent handoffs to find one that is still approved


@frozen
class HandoffPage:
    """A handoff as its file has it now; `sections` maps headings to their text, in file order."""

    reflection: Reflection
    path: str
    topic: str
    confidence: str
    fields: Mapping[str, str]
    sections: Mapping[str, str]
    text: str
    is_edited: bool  # since it was ratified


def read_page(reflection: Reflection) -> HandoffPage | None:
    """Read and parse the handoff's file; None if it is missing, a link, or too large."""
    text = read_page_text(reflection.draft)
    if text is None:
        return None
    fields, body = memory_files.split_front_matter(make_printable(clean_text(text)))
    topic = to_printable_line(fields.get("topic", "") or reflection.topic, 200)
    confidence = fields.get("confidence", "")[:1].upper() or reflection.confidence
    ratified_fingerprint = next(
        (file.after for file in reversed(reflection.files) if file.path == reflection.draft), ""
    )
    is_edited = reflection.status == RATIFIED and fingerprint_file(reflection.draft) != ratified_fingerprint
    return HandoffPage(
        reflection, reflection.draft, topic, confidence, fields, split_sections(body), body.strip(), is_edited
    )


def find_handoff(connection: Connection, name: str) -> Reflection:
    """Return a handoff by its number (3, H3 or H:3), or the newest one of a session by an id prefix."""
    number = name.removeprefix("H").removeprefix(":")
    is_number = number.isascii() and number.isdigit() and len(number) < 16
    if is_number and (reflection := reflections.get(connection, int(number))):
        return reflection
    recent = reflections.list_reflections(connection, limit=_MAX_HANDOFFS)
    matches = [
        candidate
        for candidate in recent
        if candidate.session == name or (candidate.session.startswith(name) and len(name) >= 4)
    ]
    if not matches:
        raise UserError(
            f"there is no handoff {f'H{name}' if name.isdigit() else repr(name)}", "hardwon handoff list --all"
        )
    return next((candidate for candidate in matches if candidate.status == DRAFT), matches[0])


def fingerprint_file(path: str) -> str:
    """Return the SHA-256 of a file, to detect edits; empty if it is missing."""
    try:
        with open(path, "rb", opener=open_plain_file) as file:
            return sha256(file.read(MAX_FILE_BYTES + 1)).hexdigest()
    except OSError:
        return ""


def split_sections(body: str) -> dict[str, str]:
    """Return the text below each `##` heading."""
    sections = dict[str, list[str]]()
    name = ""
    for line in body.splitlines():
        if heading := HEADING_PATTERN.fullmatch(line):
            name = heading[1]
            sections.setdefault(name, [])
        elif name:
            sections[name].append(line)
    return {name: "\n".join(lines).strip() for name, lines in sections.items()}


def get_resume_lines(page: HandoffPage) -> list[str]:
    """Return the lines of the resume prompt without quote markers and line numbers."""
    return _list_lines(page, RESUME_HEADING)


def _list_lines(page: HandoffPage, heading: str) -> list[str]:
    """Return the lines of a section without quote markers, bullets, line numbers and escapes."""
    lines: list[str] = []
    for raw_line in page.sections.get(heading, "").splitlines():
        line = raw_line.strip().lstrip("> ").removeprefix("- ")
        line = SOURCE_LINES_PATTERN.sub("", line).strip()
        if line:
            lines.append(line.replace("\\<", "<"))
    return lines


def get_contradictions(page: HandoffPage) -> list[str]:
    """Return the lines that say what the record of the session contradicts."""
    lines = page.sections.get(CONTRADICTIONS_HEADING, "").splitlines()
    return [line.removeprefix("- ").replace("\\<", "<") for line in lines if line.startswith("- ")]


def summarise_resume(page: HandoffPage) -> tuple[str, str]:
    """Return the last work, from the summary, and the first step, from the resume prompt."""
    lines = get_resume_lines(page)
    step = next((line for line in lines if line.startswith(FIRST_LEAD)), "").removeprefix(FIRST_LEAD)
    topic_lines = [line for line in _list_lines(page, SUMMARY_HEADING) if _TOPIC_LINE.match(line)]
    marked_lines = [line for line in lines if _LAST_LEAD.match(line)]
    last = _LAST_LEAD.sub("", (marked_lines or topic_lines or [""])[-1], count=1)
    if step and not last:
        return f"{ASKED_LEAD}{page.topic}", step  # nothing came of it yet
    if not last and not step:
        # A person or an agent wrote it in their own words.
        step = " ".join(line for line in lines if not line.startswith("Confidence: "))
    return last or page.topic, step


def list_ratified_pages(
    connection: Connection, home: str, project: str | None = None, limit: int = _MAX_HANDOFFS
) -> list[HandoffPage]:
    """Return the handoffs whose current file a person ratified, newest first."""
    approved_hashes = approvals.read_live_hashes(connection, approvals.HANDOFF)
    pages = list[HandoffPage]()
    for reflection in reflections.list_reflections(connection, RATIFIED, project=project, limit=limit):
        page = read_page(reflection)
        if page and approved_hashes.get(str(reflection.id)) == fingerprint_file(reflection.draft):
            pages.append(page)
    return pages


def is_approved(connection: Connection, reflection: Reflection) -> bool:
    """Return whether a person ratified the current content of the file."""
    approval = approvals.find_live(connection, approvals.HANDOFF, str(reflection.id))
    return (
        reflection.status == RATIFIED and approval is not None and approval.hash == fingerprint_file(reflection.draft)
    )


def find_untold_reason(connection: Connection, reflection: Reflection, page: HandoffPage | None) -> str:
    """Return why agents are not told a handoff, or why nobody can review a draft; empty if nothing is wrong."""
    if reflection.status not in (DRAFT, RATIFIED):
        return ""
    if page is None:
        return "its file is gone"
    if page.is_edited:
        return "edited since it was ratified"
    return "not approved here" if reflection.status == RATIFIED and not is_approved(connection, reflection) else ""


def to_json(connection: Connection, reflection: Reflection) -> dict[str, Any]:
    """Build the record that `hardwon handoff list --json` prints."""
    page = read_page(reflection)
    contradictions = get_contradictions(page) if page else []
    state = reflection.status
    if reason := find_untold_reason(connection, reflection, page):
        state = f"{reason}, not told"
    elif contradictions:
        state += f", {len(contradictions)} claim{'s' * (len(contradictions) > 1)} contradicted"
    return {
        "id": reflection.id,
        "status": reflection.status,
        "state": state,
        "session": reflection.session,
        "host": reflection.host,
        "project": reflection.project,
        "at": clock.format_iso(reflection.at),
        "kind": reflection.kind,
        "file": reflection.draft,
        "topic": page.topic if page else reflection.topic,
        "confidence": page.confidence if page else reflection.confidence,
        "contradictions": contradictions,
        "resume": get_resume_lines(page) if page else reflection.resume.splitlines(),
        "decided_at": clock.format_iso(reflection.decided_at) if reflection.decided_at else None,
    }


def find_latest_page(connection: Connection, home: str, project: str | None) -> HandoffPage | None:
    """Return the newest ratified handoff of one project or of all; looks only at the newest few."""
    return next(iter(list_ratified_pages(connection, home, project, _MAX_NEWEST)), None)


def find_waiting_draft(connection: Connection, project: str | None) -> Reflection | None:
    """Return the newest undecided draft of a project that has a topic; None if something newer was ratified."""
    candidates = reflections.list_reflections(connection, DRAFT, RATIFIED, project=project, limit=20)
    existing = [
        reflection
        for reflection in candidates
        if not reflection.topic.endswith(NO_TOPIC) and read_page_text(reflection.draft) is not None
    ]
    return existing[0] if existing and existing[0].status == DRAFT else None


def fingerprint_ratified(connection: Connection) -> str:
    """Return a hash that changes whenever the set of ratified handoffs or one of their files changes."""
    ratified = reflections.list_reflections(connection, RATIFIED, limit=_MAX_HANDOFFS)
    approved_hashes = approvals.read_live_hashes(connection, approvals.HANDOFF)
    stamps = [
        (
            reflection.id,
            reflection.draft,
            approved_hashes.get(str(reflection.id)),
            memory_files.read_file_stamp(reflection.draft),
        )
        for reflection in ratified
    ]
    return sha256(repr(stamps).encode("utf-8", "replace")).hexdigest()


def read_page_text(path: str) -> str | None:
    """Return a file's text; None if it is not a regular file, or too large for a handoff."""
    try:
        if os.path.islink(path) or not os.path.isfile(path) or os.path.getsize(path) > MAX_FILE_BYTES:
            return None
        with open(path, encoding="utf-8-sig", errors="replace", opener=open_plain_file) as file:
            return file.read()
    except OSError:
        return None


def build_banner(reflection: Reflection) -> str:
    """Build the line that tells the person about an unreviewed draft: last work and next step."""
    at = strftime("%Y-%m-%d %H:%M", localtime(reflection.at))
    page = read_page(reflection)
    last, step = summarise_resume(page) if page else (reflection.topic, "")
    return f"draft handoff of {at}, not reviewed: {last}; {describe_next(step)}"


def describe_next(step: str) -> str:
    return f"next: {step}" if step else "nothing says what is next"
