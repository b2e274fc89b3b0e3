"""What a person decides about a handoff, and what is written then.

Ratifying goes by what the draft says now: a memory whose line was taken out is not approved, and a finding that was
taken out was not worth its place. Whatever is written is noted with what stood there before, so that it can be undone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from hardwon import clock, paths, projects
from hardwon.core.clean import clean
from hardwon.core.printable import in_line
from hardwon.core.similarity import SAME, jaccard, tokens
from hardwon.errors import UserError
from hardwon.recall import commit, handoffs, memories
from hardwon.recall.handoffs import FINDINGS, HEADING, MEMORIES, RESUME, SHOWN_BY, Page, page_of, print_of, read
from hardwon.store import memories as proposed
from hardwon.store import reflections
from hardwon.store.db import Connection, transaction
from hardwon.store.reflections import DISCARDED, DRAFT, MOOT, RATIFIED, File, Reflection
from hardwon.words import MEMORY_TYPES, Memory, replace, word

DRAFT_END, END = ".draft.md", ".md"
SOURCE = "reflection"  # of a memory that came with a draft
DAY = 86_400.0
_MEMORY = re.compile(rf"[-*] ({'|'.join(MEMORY_TYPES)}): (.+)")
_STATE = re.compile(r"\A(---\n(?:.*\n)*?)status:[^\n]*\n")


@word
class Ratified:
    """The page, the memories with their files, the commit if there is one, and in sentences what was not done."""

    page: str
    memories: tuple[tuple[Memory, str], ...] = ()
    commit: commit.Commit | None = None
    left: tuple[str, ...] = ()


def ratify(connection: Connection, home: str, known: Reflection, now: float, *, commits: bool = False) -> Ratified:
    """Make the page of a draft and approve its memories; if asked for, commit just these files.

    A page that was edited since is ratified as it is now.
    """
    page = page_of(known)
    if page is None:
        raise UserError(f"its file is gone or cannot be read: {known.draft}", f"hardwon handoff discard {known.id}")
    if known.status == RATIFIED and page.is_edited:
        return _ratify_again(connection, known)
    if known.status != DRAFT:
        raise UserError(f"handoff {known.id} is {known.status} already", f"hardwon handoff show {known.id}")
    may_commit = [path for path in (known.draft, *_indexes(home, known)) if commits and commit.is_as_committed(path)]
    path, files = _write_page(connection, home, known, page, now)
    approved, left, more = _approve(connection, home, known, page, now)
    reflections.wrote(connection, known.id, (*files, *more))
    done = Ratified(path, tuple(approved), None, tuple(left))
    top = projects.root(os.path.dirname(path))
    ours = [path, *(one.path for one in more if one.before is None and projects.root(os.path.dirname(one.path)) == top)]
    return _commit(done, [*ours, *may_commit], page) if commits else done


def _ratify_again(connection: Connection, known: Reflection) -> Ratified:
    others = [one for one in known.files if one.path != known.draft]
    first = next((one for one in known.files if one.path == known.draft), File(known.draft))
    reflections.wrote(connection, known.id, (*others, replace(first, after=print_of(known.draft))))
    return Ratified(known.draft)


def _write_page(
    connection: Connection, home: str, known: Reflection, page: Page, now: float
) -> tuple[str, tuple[File, ...]]:
    """Put the page beside the draft, which goes; gives its path, and all files of the reflection so far."""
    path = known.draft.removesuffix(DRAFT_END).removesuffix(END) + END
    if path != known.draft and os.path.lexists(path):
        raise UserError(f"there is a handoff of this session already: {path}", f"hardwon handoff discard {known.id}")
    _write(home, path, _ratified_text(known.draft, now))
    files = (*known.files, File(path, None, print_of(path)))
    try:
        with transaction(connection):
            _decide(connection, known, RATIFIED, now)
            reflections.wrote(connection, known.id, files, draft=path)
            for finding in known.findings:
                was = "kept" if f"**{finding.item}**" in page.sections.get(FINDINGS, "") else "dropped"
                reflections.note_kept(connection, known, finding.item, was, now)
    except BaseException:
        os.unlink(path)
        raise
    _unlink(known.draft)
    return path, files


def _ratified_text(draft: str, now: float) -> str:
    """The draft as it was written and edited, without what there was to decide, its state said anew."""
    kept, is_decided = list[str](), False
    for line in clean(read(draft) or "").splitlines():
        if heading := HEADING.fullmatch(line):
            is_decided = heading[1] == MEMORIES
        if not is_decided:
            kept.append(line)
    body = "\n".join(kept).rstrip() + "\n"
    state = f"status: {RATIFIED}\nratified: {clock.iso(now)[:10]}\n"
    if _STATE.match(body):
        return _STATE.sub(lambda found: found[1] + state, body, count=1)
    return body.replace("---\n", f"---\n{state}", 1) if body.startswith("---\n") else f"---\n{state}---\n\n{body}"


def _approve(
    connection: Connection, home: str, known: Reflection, page: Page, now: float
) -> tuple[list[tuple[Memory, str]], list[str], list[File]]:
    """Approve the memories that the draft names, in its words; a proposal whose line was taken out is rejected."""
    waiting = proposed.listed(connection, "candidate", project=known.project)
    approved, left = list[tuple[Memory, str]](), list[str]()
    before = {path: read(path) for path in _indexes(home, known)}
    for type, text, evidence in _memories(page.sections.get(MEMORIES, "")):
        own = next((one for one in waiting if jaccard(tokens(one.text), tokens(text)) >= SAME), None)
        try:
            if own:
                waiting.remove(own)
                own = replace(own, text=text)
                proposed.reword(connection, own.id, text)
            else:
                own = memories.propose(
                    connection, home, type, text, project=known.project, source=SOURCE, session=known.session,
                    evidence=evidence, now=now,
                )  # fmt: skip
            approved.append(memories.approve(connection, home, own, now))
        except UserError as wrong:
            left.append(f"not approved: {in_line(text, 60)} ({wrong.say})")
    for one in waiting:
        if one.session == known.session and one.source == SOURCE:
            memories.set_aside(connection, one, now)
    files = [File(path, None, print_of(path)) for _, path in approved]
    files += [File(path, text, print_of(path)) for path, text in before.items() if read(path) != text]
    return approved, left, files


def _memories(section: str) -> Iterator[tuple[str, str, list[str]]]:
    """Type, words and lines of the transcript of each memory that the draft names."""
    for line in section.splitlines():
        shown = SHOWN_BY.search(line)
        if found := _MEMORY.fullmatch(SHOWN_BY.sub("", line).strip()):
            yield found[1], found[2].replace("\\<", "<"), shown[1].split(", ") if shown else []


def _indexes(home: str, known: Reflection) -> list[str]:
    found = (memories.index_in(memories.place_of(home, project)) for project in (known.project, ""))
    return [path for path in found if path]


def _commit(done: Ratified, files: Sequence[str], page: Page) -> Ratified:
    message = f"Handoff: {in_line(page.topic or page.known.session, 60)}\n\nSession {page.known.session}\n"
    try:
        made = commit.commit(files, message)
    except UserError as wrong:
        return replace(done, left=(*done.left, f"not committed: {wrong.say}"))
    ignored = tuple(f"not committed: git is told to ignore {name}" for name in made.ignored)
    return replace(done, commit=made, left=(*done.left, *ignored))


def discard(connection: Connection, known: Reflection, now: float) -> None:
    """Say no to a draft: its file goes, and nothing it found was kept. The memories it proposed wait on."""
    if known.status != DRAFT:
        raise UserError(f"handoff {known.id} is {known.status} already", f"hardwon handoff show {known.id}")
    with transaction(connection):
        _decide(connection, known, DISCARDED, now)
        for finding in known.findings:
            reflections.note_kept(connection, known, finding.item, "dropped", now)
    _unlink(known.draft)


def moot(connection: Connection, session: str, now: float) -> int:
    """A session was handed off otherwise: drafts of it go, unless somebody edited them; gives how many."""
    found = reflections.listed(connection, DRAFT, session=session)
    for known in found:
        as_written = {file.after for file in known.files if file.path == known.draft}
        if reflections.decide(connection, known.id, MOOT, now) and print_of(known.draft) in as_written:
            _unlink(known.draft)
    return len(found)


def write(
    connection: Connection, home: str, text: str, *, folder: str, session: str, host: str, project: str, topic: str,
    now: float, is_ratified: bool,
) -> Reflection:  # fmt: skip
    """Keep a handoff that was not made by reflecting; drafts of the session are moot then."""
    path = _fresh_path(folder, session, END if is_ratified else DRAFT_END)
    status = RATIFIED if is_ratified else DRAFT
    moot(connection, session, now)
    _write(home, path, _own_text(clean(text), topic=topic, session=session, status=status, now=now))
    files = (File(path, None, print_of(path)),)
    known = Reflection(0, clock.ulid(now), host, session, project, now, "person", status, path, topic, files=files)
    page = page_of(known)
    resume = "\n".join(handoffs.resume_of(page)) if page else ""
    confidence = page.confidence if page else ""
    try:
        return reflections.put(
            connection, replace(known, resume=resume, confidence=confidence, decided_at=now if is_ratified else None)
        )
    except BaseException:
        os.unlink(path)
        raise


def _own_text(text: str, *, topic: str, session: str, status: str, now: float) -> str:
    """Words alone are what to say to the next session; a page with headings stays as it is."""
    text = text.strip()
    if text.startswith("---\n"):
        return text + "\n"
    fields = {"topic": topic, "session": session, "written": clock.iso(now), "status": status}
    front = "\n".join(f"{name}: {memories.quoted(value)}" for name, value in fields.items() if value)
    body = text if any(map(HEADING.fullmatch, text.splitlines())) else f"## {RESUME}\n\n{text}"
    return f"---\n{front}\n---\n\n{body}\n"


def overdue(connection: Connection, home: str, values: Mapping[str, Any], now: float) -> list[Ratified]:
    """Ratify the drafts that nobody looked at for as many days as the setting says; it is off at 0."""
    days = float(values.get("ratifyAfterDays", 0))
    found = reflections.listed(connection, DRAFT) if days else []
    return [
        ratify(connection, home, one, now, commits=bool(values.get("handoffCommit", False)))
        for one in found
        if one.at <= now - days * DAY and page_of(one)
    ]


def undone(connection: Connection, known: Reflection, now: float) -> int:
    """Retire the memories that were approved with a handoff, once their files are gone; gives how many."""
    files = {os.path.basename(one.path) for one in known.files if not os.path.lexists(one.path)}
    found = [one for one in proposed.listed(connection, "active") if one.session == known.session and one.file in files]
    for one in found:
        memories.set_aside(connection, one, now)
    return len(found)


def _fresh_path(folder: str, session: str, end: str) -> str:
    stem, number = paths.safe_name(session), 1
    while any(os.path.lexists(os.path.join(folder, f"{stem}{end}")) for end in (END, DRAFT_END)):
        number += 1
        stem = f"{paths.safe_name(session)}-{number}"
    return os.path.join(folder, f"{stem}{end}")


def _write(home: str, path: str, text: str) -> None:
    content = text.encode("utf-8", "replace")
    if path.startswith(home + os.sep):
        paths.write_private(path, content)
    else:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        paths.replace_file(path, content, 0o644)


def _unlink(path: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)


def _decide(connection: Connection, known: Reflection, status: str, now: float) -> None:
    if not reflections.decide(connection, known.id, status, now):
        raise UserError(f"somebody decided about handoff {known.id} meanwhile", f"hardwon handoff show {known.id}")
