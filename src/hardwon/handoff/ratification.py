"""What a person decides about a handoff, and what is written then.

Ratifying goes by what the draft says now: a memory whose line was taken out is not approved, and a finding that was
taken out was not worth its place. Whatever is written is noted with what stood there before, so that it can be undone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from time import localtime, strftime
from typing import Any

from hardwon import clock, paths, projects
from hardwon.data import backups
from hardwon.errors import UserError
from hardwon.handoff import git_commit, handoffs, memories, memory_files
from hardwon.handoff.handoffs import (
    FINDINGS_HEADING,
    HEADING_PATTERN,
    MEMORIES_HEADING,
    RESUME_HEADING,
    SOURCE_LINES_PATTERN,
    HandoffPage,
    fingerprint_file,
    read_page,
    read_page_text,
)
from hardwon.privacy.cleaning import clean_text
from hardwon.store import memories as proposed
from hardwon.store import reflections, sessions
from hardwon.store.db import Connection, transaction
from hardwon.store.reflections import DISCARDED, DRAFT, MOOT, RATIFIED, Reflection, WrittenFile
from hardwon.text.printable import to_printable_line
from hardwon.text.similarity import is_same_statement
from hardwon.types import MEMORY_TYPES, Memory, frozen, replace

DRAFT_SUFFIX, PAGE_SUFFIX = ".draft.md", ".md"
REFLECTION_SOURCE = "reflection"  # of a memory that came with a draft
DAY_SECONDS = 86_400.0
_MEMORY = re.compile(rf"[-*] ({'|'.join(MEMORY_TYPES)}): (.+)")
_FRONT = re.compile(r"\A---\n((?:.*\n)*?)---[ \t]*\n")
_STATE = re.compile(r"^status:.*\n", re.M)
_TRANSCRIPT = re.compile(r"^transcript:.*\n", re.M)


@frozen
class RatificationResult:
    """The page, the memories with their files, the commit if there is one, and in sentences what was not done."""

    page_path: str
    memories: tuple[tuple[Memory, str], ...] = ()
    commit: git_commit.Commit | None = None
    left: tuple[str, ...] = ()


def describe_result(done: RatificationResult) -> list[str]:
    """What was done, and what was not, for the person who asked for it."""
    lines = [f"ratified: {done.page_path}"]
    lines += [f"approved as memory {memory.id}: {path}" for memory, path in done.memories]
    lines += [f"committed as {done.commit.id[:12]}: {', '.join(done.commit.files)}"] if done.commit else []
    return [*lines, *done.left]


def ratify(
    connection: Connection,
    home: str,
    known: Reflection,
    now: float,
    *,
    should_commit: bool = False,
    is_read: bool = True,
) -> RatificationResult:
    """Make the page of a draft and approve its memories; if asked for, commit just these files.

    A page that was edited since is ratified as it is now. Of a draft that nobody has read nothing is learned about what
    people keep.
    """
    page = read_page(known)
    if page is None:
        raise UserError(f"its file is gone or cannot be read: {known.draft}", f"hardwon handoff discard {known.id}")
    if known.status == RATIFIED and not handoffs.is_approved(connection, known):
        return _ratify_again(connection, known)
    if known.status != DRAFT:
        raise UserError(f"handoff {known.id} is {known.status} already", f"hardwon handoff show {known.id}")
    may_commit = [
        path for path in (known.draft, *_indexes(home, known)) if should_commit and git_commit.is_committed(path)
    ]
    path, files = _write_page(connection, home, known, page, now, is_read)
    approved, left, more = _approve(connection, home, known, page, now)
    reflections.set_files(connection, known.id, (*files, *more))
    done = RatificationResult(path, tuple(approved), None, tuple(left))
    top = projects.find_git_root(os.path.dirname(path))
    ours = [
        path,
        *(one.path for one in more if one.before is None and projects.find_git_root(os.path.dirname(one.path)) == top),
    ]
    return _commit(done, [*ours, *may_commit], page) if should_commit else done


def _ratify_again(connection: Connection, known: Reflection) -> RatificationResult:
    record_fingerprint(connection, known)
    return RatificationResult(known.draft)


def record_fingerprint(connection: Connection, known: Reflection) -> None:
    """Keep what a ratified page says now as what was ratified."""
    others = [one for one in known.files if one.path != known.draft]
    first = next((one for one in known.files if one.path == known.draft), WrittenFile(known.draft))
    reflections.set_files(connection, known.id, (*others, replace(first, after=fingerprint_file(known.draft))))


def _write_page(
    connection: Connection, home: str, known: Reflection, page: HandoffPage, now: float, is_read: bool
) -> tuple[str, tuple[WrittenFile, ...]]:
    """Write the page, and remove the draft; gives the page's path, and all files of the reflection so far."""
    path = choose_page_path(connection, home, known)
    text = build_page_text(known.draft, now)
    earlier = _giving_way(connection, known, path, text)
    before = read_page_text(path) if earlier else None
    paths.write_document(home, path, text)
    files = (*known.files, WrittenFile(path, before, fingerprint_file(path)))
    try:
        with transaction(connection):
            _decide(connection, known, RATIFIED, now)
            reflections.set_files(connection, known.id, files, draft=path)
            if earlier:
                reflections.set_status(connection, earlier.id, MOOT, now, expected_status=RATIFIED)
            for finding in known.findings if is_read else ():
                was = "kept" if f"**{finding.item}**" in page.sections.get(FINDINGS_HEADING, "") else "dropped"
                reflections.record_item_decision(connection, known, finding.item, was, now)
    except BaseException:
        paths.write_document(home, path, before) if before is not None else os.unlink(path)
        raise
    if path != known.draft:
        _unlink(known.draft)
    return path, files


def choose_page_path(connection: Connection, home: str, known: Reflection) -> str:
    """Return where ratifying a draft writes its page: in the repository that the session was in.

    Without one, or where that must not or cannot be written, the page stays in the home. A draft that lies in a
    repository already, as version 0.1.0 put it there, becomes the page beside it.
    """
    beside = known.draft.removesuffix(DRAFT_SUFFIX).removesuffix(PAGE_SUFFIX) + PAGE_SUFFIX
    if known.status != DRAFT or not paths.is_inside(home, known.draft):
        return beside
    folder = projects.find_sessions_folder(
        sessions.find_cwd_by_session_id(connection, known.host, known.session) or known.project
    )
    return os.path.join(folder, f"{paths.to_safe_name(known.session or 'session')}{PAGE_SUFFIX}") if folder else beside


def _giving_way(connection: Connection, known: Reflection, path: str, text: str) -> Reflection | None:
    """The handoff of the same session whose page this one replaces; UserError if another's page stands there.

    One that says the very same is ours: somebody was cut off while ratifying.
    """
    if path == known.draft or not os.path.lexists(path) or read_page_text(path) == text:
        return None
    for one in reflections.list_reflections(connection, RATIFIED, session=known.session):
        if one.draft == path and (page := read_page(one)) and not page.is_edited:
            return one
    raise UserError(f"there is a handoff of this session already: {path}", f"hardwon handoff discard {known.id}")


def build_page_text(draft: str, now: float) -> str:
    """The draft as it was written and edited, its state said anew: without what there was to decide, and without where
    the transcript lies on this machine, since the page is for everybody."""
    kept, is_decided = list[str](), False
    for line in clean_text(read_page_text(draft) or "").splitlines():
        if heading := HEADING_PATTERN.fullmatch(line):
            is_decided = heading[1] == MEMORIES_HEADING
        if not is_decided:
            kept.append(line)
    text = "\n".join(kept).rstrip() + "\n"
    front = _FRONT.match(text)
    fields, body = (front[1], text[front.end() :]) if front else ("", f"\n{text}")
    fields = _TRANSCRIPT.sub("", fields)
    state = f"status: {RATIFIED}\nratified: {clock.format_iso(now)[:10]}\n"
    fields = _STATE.sub(state, fields, count=1) if _STATE.search(fields) else state + fields
    return f"---\n{fields}---\n{body}"


def plan_memories(
    connection: Connection, known: Reflection, page: HandoffPage, now: float
) -> tuple[list[Memory], list[Memory]]:
    """The memories that a draft names, those without a number not proposed yet; and what it proposed and took out."""
    waiting, named = proposed.list_memories(connection, "candidate", project=known.project), list[Memory]()
    for type, text, evidence in parse_memories(page.sections.get(MEMORIES_HEADING, "")):
        own = next((one for one in waiting if is_same_statement(one.text, text)), None)
        waiting = [one for one in waiting if one is not own]
        new = Memory(
            0,
            "",
            type,
            text,
            "" if type == "user" else known.project,
            known.session,
            "candidate",
            REFLECTION_SOURCE,
            tuple(evidence),
            "",
            now,
        )
        named.append(replace(own, text=text) if own else new)
    return named, [one for one in waiting if one.session == known.session and one.source == REFLECTION_SOURCE]


def _approve(
    connection: Connection, home: str, known: Reflection, page: HandoffPage, now: float
) -> tuple[list[tuple[Memory, str]], list[str], list[WrittenFile]]:
    """Approve the memories that the draft names, in its words; a proposal whose line was taken out is rejected."""
    named, unnamed = plan_memories(connection, known, page, now)
    approved, left = list[tuple[Memory, str]](), list[str]()
    before = {path: read_page_text(path) for path in _indexes(home, known)}
    folders = (memory_files.get_project_folder(home, project) for project in (known.project, ""))
    there = {path for folder in folders for path in memory_files.list_files(folder)}
    for one in named:
        try:
            if one.id:
                proposed.reword(connection, one.id, one.text)
            own = (
                one
                if one.id
                else memories.propose(
                    connection,
                    home,
                    one.type,
                    one.text,
                    project=known.project,
                    source=REFLECTION_SOURCE,
                    session=known.session,
                    evidence=one.evidence,
                    now=now,
                )
            )
            approved.append(memories.approve(connection, home, own, now))
        except (UserError, OSError) as wrong:
            why = wrong.say if isinstance(wrong, UserError) else wrong.strerror
            left.append(f"not approved: {to_printable_line(one.text, 60)} ({why})")
    for one in unnamed:
        memories.reject_or_retire(connection, one, now)
    files = [WrittenFile(path, None, fingerprint_file(path)) for _, path in approved if path not in there]
    files += [
        WrittenFile(path, text, fingerprint_file(path)) for path, text in before.items() if read_page_text(path) != text
    ]
    return approved, left, files


def parse_memories(section: str) -> Iterator[tuple[str, str, list[str]]]:
    """Type, words and lines of the transcript of each memory that the draft names."""
    for line in section.splitlines():
        shown = SOURCE_LINES_PATTERN.search(line)
        if found := _MEMORY.fullmatch(SOURCE_LINES_PATTERN.sub("", line).strip()):
            yield found[1], found[2].replace("\\<", "<"), shown[1].split(", ") if shown else []


def _indexes(home: str, known: Reflection) -> list[str]:
    found = (
        memory_files.find_index_file(memory_files.get_project_folder(home, project)) for project in (known.project, "")
    )
    return [path for path in found if path]


def _commit(done: RatificationResult, files: Sequence[str], page: HandoffPage) -> RatificationResult:
    message = (
        f"Handoff: {to_printable_line(page.topic or page.reflection.session, 60)}\n\nSession "
        f"{page.reflection.session}\n"
    )
    try:
        made = git_commit.commit_files(files, message)
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
            reflections.record_item_decision(connection, known, finding.item, "dropped", now)
    _unlink(known.draft)


def drop_session_drafts(connection: Connection, session: str, now: float) -> int:
    """A session was handed off otherwise: what reflecting drafted of it goes, unless somebody edited it; how many."""
    found = [one for one in reflections.list_reflections(connection, DRAFT, session=session) if one.kind != "person"]
    for known in found:
        _give_up(connection, known, now)
    return len(found)


def _give_up(connection: Connection, known: Reflection, now: float) -> None:
    reflections.set_status(connection, known.id, MOOT, now)
    if fingerprint_file(known.draft) in {file.after for file in known.files if file.path == known.draft}:
        _unlink(known.draft)


def save_session_handoff(
    connection: Connection,
    home: str,
    text: str,
    cwd: str,
    *,
    now: float,
    is_ratified: bool,
    name: str = "",
    topic: str = "",
) -> Reflection:
    """Hand off the session of this name, else the last one in the project that this folder belongs to."""
    project = projects.find_project_path(cwd)
    found = (
        sessions.find_by_name(connection, name)
        if name
        else sessions.list_sessions(connection, limit=1, project=project)
    )
    if name and len(found) != 1:
        raise UserError(f"there is no session {name!r}, or more than one", "hardwon sessions list")
    made_up = {"session": strftime("%Y-%m-%d-%H%M", localtime(now)), "host": "", "first_prompt": ""}
    about = found[0] if found else made_up
    return save_handoff(
        connection,
        home,
        text,
        session=about["session"],
        agent=about["host"],
        now=now,
        is_ratified=is_ratified,
        project=about.get("project_path") or project,
        topic=topic or to_printable_line(about["first_prompt"], 90),
        folder=projects.find_sessions_folder(cwd) if is_ratified else "",
    )


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
) -> Reflection:
    """Keep a handoff that was not made by reflecting; drafts of the session are moot then.

    It goes into the folder, and into the home if there is none.
    """
    name = session if folder else paths.build_draft_name(project, session)
    path = _fresh_path(
        folder or os.path.join(home, backups.DRAFTS_FOLDER), name, PAGE_SUFFIX if is_ratified else DRAFT_SUFFIX
    )
    status = RATIFIED if is_ratified else DRAFT
    paths.write_document(home, path, _own_text(clean_text(text), topic=topic, session=session, status=status, now=now))
    files = (WrittenFile(path, None, fingerprint_file(path)),)
    known = Reflection(
        0, clock.create_ulid(now), agent, session, project, now, "person", status, path, topic, files=files
    )
    page = read_page(known)
    resume = "\n".join(handoffs.get_resume_lines(page)) if page else ""
    confidence = page.confidence if page else ""
    earlier = reflections.list_reflections(connection, DRAFT, session=session)
    try:
        made = reflections.insert(
            connection, replace(known, resume=resume, confidence=confidence, decided_at=now if is_ratified else None)
        )
    except BaseException:
        os.unlink(path)
        raise
    for one in earlier:
        _give_up(connection, one, now)
    return made


def _own_text(text: str, *, topic: str, session: str, status: str, now: float) -> str:
    """Words alone are what to say to the next session; a page with headings stays as it is."""
    text = text.strip()
    if text.startswith("---\n"):
        return text + "\n"
    fields = {"topic": topic, "session": session, "written": clock.format_iso(now), "status": status}
    front = "\n".join(f"{name}: {memory_files.quote_yaml(value)}" for name, value in fields.items() if value)
    body = text if any(map(HEADING_PATTERN.fullmatch, text.splitlines())) else f"## {RESUME_HEADING}\n\n{text}"
    return f"---\n{front}\n---\n\n{body}\n"


def find_overdue_drafts(connection: Connection, values: Mapping[str, Any], now: float) -> list[Reflection]:
    """The drafts that nobody looked at for as many days as the setting says; it is off at 0.

    One that was tried, or that came back when a person undid another, waits for a person.
    """
    days = float(values.get("ratifyAfterDays", 0))
    found = reflections.list_reflections(connection, DRAFT) if days else []
    return [one for one in found if one.at <= now - days * DAY_SECONDS and one.decided_at is None and read_page(one)]


def retire_undone_memories(connection: Connection, home: str, known: Reflection, now: float) -> int:
    """Retire the memories that an undone handoff approved, and those it proposed unless another draft names them;
    gives how many. None counts as rejected: a person took the handoff back, not what it says."""
    written = {file.path for file in known.files}
    decided = (known.session, REFLECTION_SOURCE, known.decided_at)  # of one that found its file there already
    approved = [
        one
        for one in proposed.list_memories(connection, "active")
        if memory_files.get_memory_path(home, one) in written or (one.session, one.source, one.decided_at) == decided
    ]
    waiting = [
        one
        for one in proposed.list_memories(connection, "candidate")
        if one.session == known.session and one.source == REFLECTION_SOURCE
        if not reflections.list_reflections(connection, DRAFT, session=known.session)
    ]
    with transaction(connection):
        for one in (*approved, *waiting):
            proposed.record_decision(connection, one, "retired", one.file, now)
    return len(approved) + len(waiting)


def list_committed_files(known: Reflection) -> list[str]:
    """The files of a handoff that are in the last commit just as they lie there."""
    return [file.path for file in known.files if file.after and git_commit.is_committed(file.path)]


def _fresh_path(folder: str, name: str, end: str) -> str:
    stem, number = paths.to_safe_name(name), 1
    while any(os.path.lexists(os.path.join(folder, f"{stem}{end}")) for end in (PAGE_SUFFIX, DRAFT_SUFFIX)):
        number += 1
        stem = f"{paths.to_safe_name(name)}-{number}"
    return os.path.join(folder, f"{stem}{end}")


def _unlink(path: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)


def _decide(connection: Connection, known: Reflection, status: str, now: float) -> None:
    if not reflections.set_status(connection, known.id, status, now):
        raise UserError(f"somebody decided about handoff {known.id} meanwhile", f"hardwon handoff show {known.id}")
