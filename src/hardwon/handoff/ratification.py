"""Carry out a person's decision about a handoff, and write the files that follow from it.

Ratifying uses the draft as edited: a memory whose line was deleted is not approved, and a deleted finding counts as
dropped. Every write is recorded with the previous content, so that it can be undone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from hardwon import clock, paths, projects
from hardwon.errors import UserError
from hardwon.handoff import git_commit, handoffs
from hardwon.handoff.handoffs import (
    FINDINGS_HEADING,
    HEADING_PATTERN,
    MEMORIES_HEADING,
    SAID_PATTERN,
    SOURCE_LINES_PATTERN,
    HandoffPage,
    fingerprint_file,
    read_page,
    read_page_text,
)
from hardwon.memories import memories, memory_files
from hardwon.privacy.cleaning import clean_text
from hardwon.store import reflections, sessions
from hardwon.store.db import Connection, transaction
from hardwon.store.memories import list_memories, record_memory_decision, update_memory_text
from hardwon.store.reflections import DISCARDED, DRAFT, MOOT, RATIFIED, Reflection, WrittenFile
from hardwon.text.characters import to_printable_line
from hardwon.text.similarity import is_same_statement
from hardwon.types import MEMORY_TYPES, Memory, frozen, replace

DRAFT_SUFFIX, PAGE_SUFFIX = ".draft.md", ".md"
REFLECTION_SOURCE = "reflection"  # source of memories proposed by a draft
DAY_SECONDS = 86_400.0
_MEMORY_LINE = re.compile(rf"[-*] ({'|'.join(MEMORY_TYPES)}): (.+)")
_FRONT_MATTER = re.compile(r"\A---\n((?:.*\n)*?)---[ \t]*\n")
_STATUS_LINE = re.compile(r"^status:.*\n", re.M)
_TRANSCRIPT_LINE = re.compile(r"^transcript:.*\n", re.M)


@frozen
class RatificationResult:
    """The page, the approved memories with their files, the commit if any, and the problems as sentences."""

    page_path: str
    memories: tuple[tuple[Memory, str], ...] = ()
    commit: git_commit.Commit | None = None
    problems: tuple[str, ...] = ()


def describe_result(result: RatificationResult) -> list[str]:
    """Return lines for the person: what was done and what was not."""
    lines = [f"ratified: {result.page_path}"]
    lines += [f"approved as memory M{memory.id}: {path}" for memory, path in result.memories]
    lines += [f"committed as {result.commit.id[:12]}: {', '.join(result.commit.files)}"] if result.commit else []
    return [*lines, *result.problems]


def ratify(
    connection: Connection,
    home: str,
    reflection: Reflection,
    now: float,
    *,
    should_commit: bool = False,
    is_read: bool = True,
) -> RatificationResult:
    """Write the page of a draft and approve its memories; commit exactly these files if asked to.

    A page edited after it was ratified is ratified as it is now. `is_read` tells that a person read the draft. Without
    that, as when `ratifyAfterDays` ratifies it, nothing is learned about which findings people keep.
    """
    page = read_page(reflection)
    if page is None:
        raise UserError(
            f"its file is gone or cannot be read: {reflection.draft}", f"hardwon handoff discard {reflection.id}"
        )
    is_edited_since = reflection.status == RATIFIED and not handoffs.is_approved(connection, reflection)
    if is_edited_since:
        record_fingerprint(connection, reflection)
        return RatificationResult(reflection.draft)
    if reflection.status != DRAFT:
        raise UserError(
            f"handoff H{reflection.id} is {reflection.status} already", f"hardwon handoff show H{reflection.id}"
        )
    # Looked up before they change: the commit also has the draft and index files that git knows already.
    tracked_paths: list[str] = []
    if should_commit:
        changed_paths = [reflection.draft, *_list_index_files(home, reflection)]
        tracked_paths = [path for path in changed_paths if git_commit.is_committed(path)]
    path, files = _write_page(connection, home, reflection, page, now, is_read)
    approved, problems, extra_files = _approve_memories(connection, home, reflection, page, now)
    reflections.set_files(connection, reflection.id, (*files, *extra_files))
    result = RatificationResult(path, tuple(approved), None, tuple(problems))
    if not should_commit:
        return result
    top = projects.find_git_root(os.path.dirname(path))
    page_files = [path]
    for written in extra_files:
        is_new = written.before is None
        if is_new and projects.find_git_root(os.path.dirname(written.path)) == top:
            page_files.append(written.path)
    return _commit_page(result, [*page_files, *tracked_paths], page)


def record_fingerprint(connection: Connection, reflection: Reflection) -> None:
    """Record the current hash of a ratified page as the approved one."""
    others = [written for written in reflection.files if written.path != reflection.draft]
    page_file = next(
        (written for written in reflection.files if written.path == reflection.draft), WrittenFile(reflection.draft)
    )
    reflections.set_files(
        connection, reflection.id, (*others, replace(page_file, after=fingerprint_file(reflection.draft)))
    )


def _write_page(
    connection: Connection, home: str, reflection: Reflection, page: HandoffPage, now: float, is_read: bool
) -> tuple[str, tuple[WrittenFile, ...]]:
    """Write the page and remove the draft; return the page's path and all files written so far.

    If the decision cannot be recorded, the page is taken back and the draft stays. Only if a person read the draft
    (`is_read`) do its findings count as kept or dropped.
    """
    path = choose_page_path(connection, home, reflection)
    text = build_page_text(reflection.draft, now)
    earlier = _find_replaced_handoff(connection, reflection, path, text)
    previous_text = read_page_text(path) if earlier else None
    paths.write_document(home, path, text)
    files = (*reflection.files, WrittenFile(path, previous_text, fingerprint_file(path)))
    try:
        with transaction(connection):
            _record_decision(connection, reflection, RATIFIED, now)
            reflections.set_files(connection, reflection.id, files, draft=path)
            if earlier:
                reflections.set_status(connection, earlier.id, MOOT, now, expected_status=RATIFIED)
            if is_read:
                _record_findings(connection, reflection, page, now)
    except BaseException:
        # The decision was not recorded, so put back the page that was there before.
        if previous_text is not None:
            paths.write_document(home, path, previous_text)
        else:
            os.unlink(path)
        raise
    if path != reflection.draft:
        _remove_file(reflection.draft)
    return path, files


def _record_findings(connection: Connection, reflection: Reflection, page: HandoffPage, now: float) -> None:
    """Record each finding of the draft as kept, or as dropped if the person deleted it from the page."""
    findings_text = page.sections.get(FINDINGS_HEADING, "")
    for finding in reflection.findings:
        decision = "kept" if f"**{finding.item}**" in findings_text else "dropped"
        reflections.record_item_decision(connection, reflection, finding.item, decision, now)


def choose_page_path(connection: Connection, home: str, reflection: Reflection) -> str:
    """Return the path for a ratified page: in the session's repository, or else beside the draft.

    It is beside the draft if there is no repository, if the repository may not or cannot be written, and if the draft
    is in a repository already, where version 0.1.0 put it.
    """
    path_beside_draft = reflection.draft.removesuffix(DRAFT_SUFFIX).removesuffix(PAGE_SUFFIX) + PAGE_SUFFIX
    if reflection.status != DRAFT or not paths.is_inside(home, reflection.draft):
        return path_beside_draft
    recorded = sessions.find_by_session_id(connection, reflection.session, reflection.host)
    cwd = recorded[0]["cwd"] if recorded else ""
    folder = projects.find_sessions_folder(cwd or reflection.project)
    if folder:
        return os.path.join(folder, f"{paths.to_safe_name(reflection.session or 'session')}{PAGE_SUFFIX}")
    return path_beside_draft


def _find_replaced_handoff(connection: Connection, reflection: Reflection, path: str, text: str) -> Reflection | None:
    """Return this session's handoff whose unedited page is replaced; UserError if another file is at the path.

    A page with exactly the same text is ours: an earlier ratification was interrupted.
    """
    if path == reflection.draft or not os.path.lexists(path) or read_page_text(path) == text:
        return None
    for earlier in reflections.list_reflections(connection, RATIFIED, session=reflection.session):
        if earlier.draft == path and (page := read_page(earlier)) and not page.is_edited:
            return earlier
    raise UserError(f"there is a handoff of this session already: {path}", f"hardwon handoff discard {reflection.id}")


def build_page_text(draft: str, now: float) -> str:
    """Build the page from the edited draft, with its new status.

    Proposed memories are dropped because they are decided, and so is the transcript's path, because others will read
    the page.
    """
    lines = list[str]()
    is_decided = False
    for line in clean_text(read_page_text(draft) or "").splitlines():
        if heading := HEADING_PATTERN.fullmatch(line):
            is_decided = heading[1] == MEMORIES_HEADING
        if not is_decided:
            lines.append(line)
    text = "\n".join(lines).rstrip() + "\n"
    front_matter = _FRONT_MATTER.match(text)
    fields = front_matter[1] if front_matter else ""
    body = text[front_matter.end() :] if front_matter else f"\n{text}"
    fields = _TRANSCRIPT_LINE.sub("", fields)
    status_lines = f"status: {RATIFIED}\nratified: {clock.format_iso(now)[:10]}\n"
    fields, replaced_count = _STATUS_LINE.subn(status_lines, fields, count=1)
    if not replaced_count:  # the person removed the line
        fields = status_lines + fields
    return f"---\n{fields}---\n{body}"


def plan_memories(
    connection: Connection, reflection: Reflection, page: HandoffPage, now: float
) -> tuple[list[Memory], list[Memory]]:
    """Return the memories listed in a draft, and its proposals whose lines were deleted.

    A listed memory with id 0 was not proposed before.
    """
    candidates = list_memories(connection, "candidate", project=reflection.project)
    planned = list[Memory]()
    for memory_type, text, evidence in parse_memories(page.sections.get(MEMORIES_HEADING, "")):
        proposal = next((memory for memory in candidates if is_same_statement(memory.text, text)), None)
        candidates = [memory for memory in candidates if memory is not proposal]
        new = Memory(
            0,
            "",
            memory_type,
            text,
            "" if memory_type == "user" else reflection.project,
            reflection.session,
            "candidate",
            REFLECTION_SOURCE,
            tuple(evidence),
            "",
            now,
        )
        planned.append(replace(proposal, text=text) if proposal else new)
    removed = [
        memory for memory in candidates if memory.session == reflection.session and memory.source == REFLECTION_SOURCE
    ]
    return planned, removed


def _approve_memories(
    connection: Connection, home: str, reflection: Reflection, page: HandoffPage, now: float
) -> tuple[list[tuple[Memory, str]], list[str], list[WrittenFile]]:
    """Approve the memories listed in the draft, in its words; reject proposals whose lines were deleted."""
    planned, removed = plan_memories(connection, reflection, page, now)
    approved = list[tuple[Memory, str]]()
    problems = list[str]()
    index_texts = {path: read_page_text(path) for path in _list_index_files(home, reflection)}
    folders = (memory_files.get_project_folder(home, project) for project in (reflection.project, ""))
    existing_paths = {path for folder in folders for path in memory_files.list_files(folder)}
    for memory in planned:
        try:
            if memory.id:
                update_memory_text(connection, memory.id, memory.text)
                candidate = memory
            else:
                candidate = memories.propose(
                    connection,
                    home,
                    memory.type,
                    memory.text,
                    project=reflection.project,
                    source=REFLECTION_SOURCE,
                    session=reflection.session,
                    evidence=memory.evidence,
                    now=now,
                )
            approved.append(memories.approve(connection, home, candidate, now))
        except (UserError, OSError) as error:
            reason = error.message if isinstance(error, UserError) else error.strerror
            problems.append(f"not approved: {to_printable_line(memory.text, 60)} ({reason})")
    for memory in removed:
        memories.reject_or_retire(connection, memory, now)
    files = [WrittenFile(path, None, fingerprint_file(path)) for _, path in approved if path not in existing_paths]
    files += [
        WrittenFile(path, text, fingerprint_file(path))
        for path, text in index_texts.items()
        if read_page_text(path) != text
    ]
    return approved, problems, files


def parse_memories(section: str) -> Iterator[tuple[str, str, list[str]]]:
    """Yield type, text and transcript lines of each memory listed in the draft.

    Lines of another form are skipped, and so are the quoted words of the person behind a memory.
    """
    for line in section.splitlines():
        source_lines = SOURCE_LINES_PATTERN.search(line)
        statement = SAID_PATTERN.sub("", SOURCE_LINES_PATTERN.sub("", line).strip())
        if match := _MEMORY_LINE.fullmatch(statement):
            text = match[2].replace("\\<", "<")  # as the draft escapes it
            yield match[1], text, source_lines[1].split(", ") if source_lines else []


def _list_index_files(home: str, reflection: Reflection) -> list[str]:
    index_paths = (
        memory_files.find_index_file(memory_files.get_project_folder(home, project))
        for project in (reflection.project, "")
    )
    return [path for path in index_paths if path]


def _commit_page(result: RatificationResult, files: Sequence[str], page: HandoffPage) -> RatificationResult:
    """Commit the files and return the result with the commit; what git refuses becomes a problem in it."""
    session = page.reflection.session
    title = to_printable_line(page.topic or session, 60)
    message = f"Handoff: {title}\n\nSession {session}\n"
    try:
        commit = git_commit.commit_files(files, message)
    except UserError as error:
        return replace(result, problems=(*result.problems, f"not committed: {error.message}"))
    ignored = tuple(f"not committed: git is told to ignore {name}" for name in commit.ignored)
    return replace(result, commit=commit, problems=(*result.problems, *ignored))


def discard(connection: Connection, reflection: Reflection, now: float) -> None:
    """Discard a draft: delete its file and count its findings as dropped. Its proposed memories keep waiting."""
    with transaction(connection):
        _record_decision(connection, reflection, DISCARDED, now)
        for finding in reflection.findings:
            reflections.record_item_decision(connection, reflection, finding.item, "dropped", now)
    _remove_file(reflection.draft)


def drop_session_drafts(connection: Connection, session: str, now: float) -> int:
    """Retire the drafts of a session that was handed off in another way; return how many.

    Files that somebody edited stay.
    """
    drafts = [
        reflection
        for reflection in reflections.list_reflections(connection, DRAFT, session=session)
        if reflection.kind in reflections.REFLECTED_KINDS
    ]
    for draft in drafts:
        retire_draft(connection, draft, now)
    return len(drafts)


def retire_draft(connection: Connection, draft: Reflection, now: float) -> None:
    """Mark a draft as superseded, and delete its file unless somebody edited it."""
    reflections.set_status(connection, draft.id, MOOT, now)
    if fingerprint_file(draft.draft) in {file.after for file in draft.files if file.path == draft.draft}:
        _remove_file(draft.draft)


def find_overdue_drafts(connection: Connection, values: Mapping[str, Any], now: float) -> list[Reflection]:
    """Return drafts undecided for longer than `ratifyAfterDays`; none if that is 0.

    A draft with a decision time is left to a person: ratifying it failed before, or an undo brought it back. So is one
    that the record contradicts.
    """
    days = float(values.get("ratifyAfterDays", 0))
    if not days:
        return []
    overdue: list[Reflection] = []
    for draft in reflections.list_reflections(connection, DRAFT):
        if draft.at > now - days * DAY_SECONDS or draft.decided_at is not None:
            continue
        page = read_page(draft)
        if page and not handoffs.get_contradictions(page):
            overdue.append(draft)
    return overdue


def retire_undone_memories(connection: Connection, home: str, reflection: Reflection, now: float) -> int:
    """Retire the memories that an undone handoff approved or proposed; return how many.

    Proposals that another draft of the session lists keep waiting. None counts as rejected: the person took back the
    handoff, not its statements.
    """
    written_paths = {file.path for file in reflection.files}
    # Memories whose file existed before are known by this; all others by the file that the handoff wrote.
    decision_key = (reflection.session, REFLECTION_SOURCE, reflection.decided_at)
    approved = [
        memory
        for memory in list_memories(connection, "active")
        if memory_files.get_memory_path(home, memory) in written_paths
        or (memory.session, memory.source, memory.decided_at) == decision_key
    ]
    waiting = [
        memory
        for memory in list_memories(connection, "candidate")
        if memory.session == reflection.session and memory.source == REFLECTION_SOURCE
        if not reflections.list_reflections(connection, DRAFT, session=reflection.session)
    ]
    with transaction(connection):
        for memory in (*approved, *waiting):
            record_memory_decision(connection, memory, "retired", memory.file, now)
    return len(approved) + len(waiting)


def list_committed_files(reflection: Reflection) -> list[str]:
    """Return the handoff's files that the last commit contains in their current state."""
    return [file.path for file in reflection.files if file.after and git_commit.is_committed(file.path)]


def _remove_file(path: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)


def _record_decision(connection: Connection, reflection: Reflection, status: str, now: float) -> None:
    """Set the status of a handoff; UserError if it was decided in the meantime."""
    if not reflections.set_status(connection, reflection.id, status, now):
        raise UserError(
            f"somebody decided about handoff H{reflection.id} meanwhile", f"hardwon handoff show H{reflection.id}"
        )
