"""Handoffs: what a session leaves for the next. A draft waits for a person; what they ratify is told from then on.

A handoff is its file, which people edit; the database knows how it came about, what was decided, and the print of what
was ratified. A file that is another by now is not told until it is ratified again: somebody else may have changed it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from hashlib import sha256
from time import localtime, strftime

from hardwon.errors import UserError
from hardwon.handoff import memory_files
from hardwon.paths import open_plain_file
from hardwon.privacy.cleaning import clean_text
from hardwon.store import approvals, reflections
from hardwon.store.db import Connection
from hardwon.store.reflections import DRAFT, RATIFIED, Reflection
from hardwon.text.printable import make_printable, to_printable_line
from hardwon.types import frozen

MAX_FILE_BYTES = 200_000  # bytes of a file
RESUME_HEADING, FINDINGS_HEADING, MEMORIES_HEADING = "Resume Prompt", "Findings", "Memories to approve"
HEADING_PATTERN = re.compile(r"## +(.+?) *#*")
SOURCE_LINES_PATTERN = re.compile(r" \((L\d+(?:, L\d+)*)\)\s*$")  # the lines of the transcript behind a statement
_MOST = 1_000
_NEWEST = 5  # whose files are looked at for one that stands


@frozen
class HandoffPage:
    """A handoff as its file says it now; `sections` are by their headings, in their order."""

    reflection: Reflection
    path: str
    topic: str
    confidence: str
    fields: Mapping[str, str]
    sections: Mapping[str, str]
    text: str
    is_edited: bool  # since it was ratified


def read_page(known: Reflection) -> HandoffPage | None:
    """What its file says; None if that is gone, a link, or too large to be one."""
    text = read_page_text(known.draft)
    if text is None:
        return None
    fields, body = memory_files.split_front_matter(make_printable(clean_text(text)))
    topic = to_printable_line(fields.get("topic", "") or known.topic, 200)
    confidence = fields.get("confidence", "")[:1].upper() or known.confidence
    as_ratified = next((file.after for file in reversed(known.files) if file.path == known.draft), "")
    is_edited = known.status == RATIFIED and fingerprint_file(known.draft) != as_ratified
    return HandoffPage(known, known.draft, topic, confidence, fields, split_sections(body), body.strip(), is_edited)


def find_handoff(connection: Connection, name: str) -> Reflection:
    """By its number, which may stand behind `H:`, or the newest of a session by the beginning of its id."""
    number = name.removeprefix("H:")
    is_number = number.isascii() and number.isdigit() and len(number) < 16
    if is_number and (one := reflections.get(connection, int(number))):
        return one
    every = reflections.list_reflections(connection, limit=_MOST)
    found = [each for each in every if each.session == name or (each.session.startswith(name) and len(name) >= 4)]
    if not found:
        raise UserError(f"there is no handoff {name!r}", "hardwon handoff list --all")
    return next((each for each in found if each.status == DRAFT), found[0])


def fingerprint_file(path: str) -> str:
    """By which a file is known to be as it was written; nothing if it is gone."""
    try:
        with open(path, "rb", opener=open_plain_file) as file:
            return sha256(file.read(MAX_FILE_BYTES + 1)).hexdigest()
    except OSError:
        return ""


def split_sections(body: str) -> dict[str, str]:
    """What stands below each heading of the second rank."""
    found, name = dict[str, list[str]](), ""
    for line in body.splitlines():
        if heading := HEADING_PATTERN.fullmatch(line):
            name = heading[1]
            found.setdefault(name, [])
        elif name:
            found[name].append(line)
    return {name: "\n".join(lines).strip() for name, lines in found.items()}


def get_resume_lines(page: HandoffPage) -> list[str]:
    """What to say to the next session, a line each, without quoting marks and line numbers."""
    lines = (
        SOURCE_LINES_PATTERN.sub("", line.strip().lstrip("> ")).strip()
        for line in page.sections.get(RESUME_HEADING, "").splitlines()
    )
    return [line.replace("\\<", "<") for line in lines if line]


def list_ratified_pages(
    connection: Connection, home: str, project: str | None = None, limit: int = _MOST
) -> list[HandoffPage]:
    """The handoffs that a person ratified, as their files say them, newest first."""
    approved = approvals.read_live_hashes(connection, approvals.HANDOFF)
    pages = list[HandoffPage]()
    for known in reflections.list_reflections(connection, RATIFIED, project=project, limit=limit):
        page = read_page(known)
        if page and approved.get(str(known.id)) == fingerprint_file(known.draft):
            pages.append(page)
    return pages


def is_approved(connection: Connection, known: Reflection) -> bool:
    """Return whether a person ratified what the file says now."""
    approval = approvals.find_live(connection, approvals.HANDOFF, str(known.id))
    return known.status == RATIFIED and approval is not None and approval.hash == fingerprint_file(known.draft)


def find_latest_page(connection: Connection, home: str, project: str | None) -> HandoffPage | None:
    """The newest of those, of one project or of all, if it is among the few that are looked at."""
    return next(iter(list_ratified_pages(connection, home, project, _NEWEST)), None)


def find_waiting_draft(connection: Connection, project: str | None) -> Reflection | None:
    """The newest draft of a project that nobody decided about, if nothing newer was ratified."""
    found = reflections.list_reflections(connection, DRAFT, RATIFIED, project=project, limit=20)
    there = [one for one in found if read_page_text(one.draft) is not None]
    return there[0] if there and there[0].status == DRAFT else None


def fingerprint_ratified(connection: Connection) -> str:
    """Another text whenever another handoff counts, or one of the files is another."""
    found = reflections.list_reflections(connection, RATIFIED, limit=_MOST)
    approved = approvals.read_live_hashes(connection, approvals.HANDOFF)
    seen = [(one.id, one.draft, approved.get(str(one.id)), memory_files.read_file_stamp(one.draft)) for one in found]
    return sha256(repr(seen).encode("utf-8", "replace")).hexdigest()


def read_page_text(path: str) -> str | None:
    """A file's text; None if it is no file of its own, or too large to be a handoff."""
    try:
        if os.path.islink(path) or not os.path.isfile(path) or os.path.getsize(path) > MAX_FILE_BYTES:
            return None
        with open(path, encoding="utf-8-sig", errors="replace", opener=open_plain_file) as file:
            return file.read()
    except OSError:
        return None


def build_banner(known: Reflection) -> str:
    """What the next session, and whoever sits before it, is told of a draft."""
    path = os.path.relpath(known.draft, known.project) if known.draft.startswith(f"{known.project}/") else known.draft
    return f"previous session auto-handed-off at {strftime('%Y-%m-%d %H:%M', localtime(known.at))}; review {path}"
