"""Propose, approve, reword and retire memories; each approved memory is a file that people may edit.

The file is in the project's repository. A memory about the user, or of a project without a repository, is in the home.
Agents are told what the file says, and only as a person approved it on this machine: a fetched repository may contain
anything, and an agent can write files. An edited file must be approved again. `actions/` records the approvals.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from hardwon import clock, paths
from hardwon.errors import UserError
from hardwon.memories import memory_files
from hardwon.privacy.cleaning import clean_text
from hardwon.store import approvals, deletions
from hardwon.store.db import Connection, parse_row_number, transaction
from hardwon.store.memories import get_memory, insert_memory, list_memories, record_memory_decision, update_memory_text
from hardwon.text.characters import format_count, make_printable
from hardwon.text.similarity import is_contradiction, is_same_statement, tokenize
from hardwon.types import MEMORY_TYPES, Memory, replace

MAX_MEMORY_CHARS = 2_000  # longest memory
SHORTEST = 4  # shorter text says nothing in any script
MAX_WAITING = 200
_NOT_APPROVED = "nobody approved it here, so it is not told"
STATE_NAMES = {"candidate": "proposed", "active": "approved"}


def propose(
    connection: Connection,
    home: str,
    memory_type: str,
    text: str,
    *,
    project: str,
    source: str,
    session: str = "",
    evidence: Sequence[str] = (),
    now: float,
) -> Memory:
    """Store a candidate; UserError if the text is invalid or a duplicate.

    A person may propose again what is waiting or was rejected; other sources may not.
    """
    if memory_type not in MEMORY_TYPES:
        raise UserError(f"{memory_type!r} is no type of memory", f"one of: {', '.join(MEMORY_TYPES)}")
    text = _clean_memory_text(text)
    project = "" if memory_type == "user" else project
    if len(list_memories(connection, "candidate")) >= MAX_WAITING:
        raise UserError(f"{MAX_WAITING} proposals wait for a person", "they decide with: hardwon memory list")
    if source == "person":
        refuse_duplicate(connection, home, text, project, "active")
    else:
        refuse_duplicate(connection, home, text, project)
    memory = Memory(
        id=0,  # the database assigns it
        key=clock.create_ulid(now),
        type=memory_type,
        text=text,
        project=project,
        session=session,
        status="candidate",
        source=source,
        evidence=tuple(evidence),
        file="",
        at=now,
    )
    return insert_memory(connection, memory)


def _clean_memory_text(text: str) -> str:
    """Return the redacted, printable text; UserError if it is too short or too long."""
    text = make_printable(clean_text(text)).strip()
    if not tokenize(text) or not SHORTEST <= len(text) <= MAX_MEMORY_CHARS:
        raise UserError(
            f"the memory has {format_count(len(text), 'character')} without secrets and private parts;"
            f" {SHORTEST} to {MAX_MEMORY_CHARS:,} are allowed",
            "say one thing, in a sentence or two",
        )
    return text


def refuse_duplicate(connection: Connection, home: str, text: str, project: str, *statuses: str) -> None:
    """Raise UserError if a memory with one of these statuses, by default all but retired, says the same."""
    for other in list_memories(connection, *(statuses or ("candidate", "active", "rejected")), project=project):
        page = read_page(home, other) if other.status == "active" else None
        if other.status == "active" and page is None:
            continue
        if is_same_statement(text, page.text if page else other.text):
            state = {"candidate": "waits for a person", "active": "is known", "rejected": "was rejected"}[other.status]
            raise UserError(f"this {state} already, as memory M{other.id}", f"hardwon memory show M{other.id}")
    if not statuses and deletions.is_rejected_memory(connection, text, project):
        raise UserError("this was rejected already, and purged since", "a person adds it: hardwon memory add")


def find_memory(connection: Connection, name: str) -> Memory:
    """Return a memory by its number, with or without the letter: 3, M3 or M:3."""
    memory = get_memory(connection, parse_row_number(name.removeprefix("M").removeprefix(":")))
    if memory is None:
        shown_name = f"M{name}" if name.isdigit() else repr(name)
        raise UserError(f"there is no memory {shown_name}", "hardwon memory list --all")
    return memory


def approve(connection: Connection, home: str, memory: Memory, now: float) -> tuple[Memory, str]:
    """Write the memory's file, or approve the current content of an existing one; return memory and path."""
    page = read_page(home, memory)
    if page and is_approved(connection, memory, page):
        raise UserError(f"memory M{memory.id} is approved already", f"edit {page.path}")
    folder = memory_files.get_memory_folder(home, memory)
    file = memory.file
    if not file or not os.path.exists(os.path.join(folder, file)):
        file = find_twin_file(connection, home, memory)
    is_new_file = not file
    if is_new_file:
        if memory.status == "candidate":
            refuse_duplicate(connection, home, memory.text, memory.project, "active")
        file = memory_files.choose_file_name(folder, memory)
    path = os.path.join(folder, file)
    approved = replace(memory, status="active", file=file, decided_at=now)
    if is_new_file:
        paths.write_document(home, path, memory_files.render_memory(home, approved, now))
    try:
        with transaction(connection):
            _record_decision(connection, memory, "active", file, now)
            if page:
                update_memory_text(connection, memory.id, page.text)
    except BaseException:
        # Leave no file that the database does not know.
        if is_new_file:
            os.unlink(path)
        raise
    if is_new_file:
        _add_to_index(home, folder, file, memory.text)
    return approved, path


def find_twin_file(connection: Connection, home: str, memory: Memory) -> str:
    """Return the name of an unapproved file in the repository with exactly this text; empty if there is none."""
    if memory.type == "user":  # memories about the user are in the home
        return ""
    for page in list_unapproved_pages(connection, home, memory.project):
        if page.text == memory.text:
            return os.path.basename(page.path)
    return ""


def _add_to_index(home: str, folder: str, file: str, text: str) -> None:
    """Add the memory to the index file, if people keep one in the folder."""
    if path := memory_files.find_index_file(folder):
        index_text = paths.read_text(path, errors="replace").rstrip("\n")
        if f"({file})" not in index_text:
            paths.write_document(home, path, memory_files.add_index_entry(index_text, file, text))


def adopt_file(connection: Connection, page: memory_files.MemoryPage, now: float) -> Memory:
    """Approve a file that somebody else put into the repository."""
    file = os.path.basename(page.path)
    memory = Memory(
        id=0,  # the database assigns it
        key=clock.create_ulid(now),
        type=page.type,
        text=page.text,
        project=page.project,
        session="",
        status="active",
        source="file",
        evidence=page.sources,
        file=file,
        at=now,
        decided_at=now,
    )
    return insert_memory(connection, memory)


def reword(connection: Connection, home: str, memory: Memory, text: str, now: float) -> Memory:
    """Change the text; for an approved memory this rewrites its file, a proposal keeps waiting."""
    text = _clean_memory_text(text)
    if memory.status not in ("candidate", "active"):
        raise UserError(f"memory M{memory.id} is {memory.status}", f"hardwon memory show M{memory.id}")
    reworded = replace(memory, text=text)
    if memory.status == "active":
        page = read_page(home, memory)
        if page is None:
            raise UserError(f"the file of memory M{memory.id} is gone", f"hardwon memory approve M{memory.id}")
        fields, _ = memory_files.split_front_matter(paths.read_text(page.path, "utf-8-sig", "replace"))
        document = memory_files.render_memory(home, replace(reworded, type=page.type), now, fields)
        paths.write_document(home, page.path, document)
    with transaction(connection):
        update_memory_text(connection, memory.id, text)
    return reworded


def reject_or_retire(connection: Connection, memory: Memory, now: float) -> Memory:
    """Reject a proposal or retire an approved memory; its file stays."""
    status = "rejected" if memory.status == "candidate" else "retired"
    if memory.status not in ("candidate", "active"):
        raise UserError(f"memory M{memory.id} is {memory.status} already", f"hardwon memory show M{memory.id}")
    with transaction(connection):
        _record_decision(connection, memory, status, memory.file, now)
    return replace(memory, status=status, decided_at=now)


def _record_decision(connection: Connection, memory: Memory, status: str, file: str, now: float) -> None:
    if not record_memory_decision(connection, memory, status, file, now):
        raise UserError(f"somebody decided about memory M{memory.id} meanwhile", f"hardwon memory show M{memory.id}")


def read_page(home: str, memory: Memory) -> memory_files.MemoryPage | None:
    """Read the file of an approved memory; None if it is missing or unreadable."""
    if not memory.file.endswith(memory_files.MEMORY_SUFFIX) or os.path.basename(memory.file) != memory.file:
        return None  # an imported row may name any path
    page = memory_files.read_memory_file(memory_files.get_memory_path(home, memory), memory.project)
    if page is None:
        return None
    is_edited = memory_files.hash_content(page.text) != memory_files.hash_content(memory.text)
    return replace(page, number=memory.id, is_edited=is_edited)


def list_approved_pages(connection: Connection, home: str, project: str | None = None) -> list[memory_files.MemoryPage]:
    """Return the approved memories of all projects, or of one project and the global ones; user memories first.

    A file that changed after its approval is left out: somebody else may have changed it.
    """
    approved_hashes = approvals.read_live_hashes(connection, approvals.MEMORY)
    pages = list[memory_files.MemoryPage]()
    for memory in list_memories(connection, "active", project=project):
        page = read_page(home, memory)
        if page and page.text and approved_hashes.get(str(memory.id)) == compute_approval_hash(memory.type, page.text):
            pages.append(page)
    return sorted(pages, key=lambda page: (MEMORY_TYPES.index(page.type), page.number))


def compute_approval_hash(memory_type: str, text: str) -> str:
    """Return the hash that the approval of a memory refers to."""
    return sha256(json.dumps([memory_type, text.strip()]).encode()).hexdigest()


def is_approved(connection: Connection, memory: Memory, page: memory_files.MemoryPage) -> bool:
    """Return whether a person approved the current content of the memory's file."""
    approval = approvals.find_live(connection, approvals.MEMORY, str(memory.id))
    is_same = approval is not None and approval.hash == compute_approval_hash(memory.type, page.text)
    return memory.status == "active" and is_same


def find_untold_reason(connection: Connection, memory: Memory, page: memory_files.MemoryPage | None) -> str:
    """Return why agents are not told an approved memory; empty if they are, or if it is not approved."""
    if memory.status != "active":
        return ""
    if page is None:
        return "its file is gone"
    if page.is_edited:
        return "edited since it was approved"
    return "" if is_approved(connection, memory, page) else "not approved here"


def describe_state(connection: Connection, home: str, memory: Memory) -> str:
    reason = find_untold_reason(connection, memory, read_page(home, memory))
    return f"{reason}, not told" if reason else STATE_NAMES.get(memory.status, memory.status)


def read_text(home: str, memory: Memory) -> str:
    """Return the text of the memory's file, or the proposed text while it has none."""
    page = read_page(home, memory)
    return page.text if page else memory.text


def to_json(home: str, memory: Memory) -> dict[str, Any]:
    """Build the record that `hardwon memory list --json` prints."""
    page = read_page(home, memory)
    return {
        **memory.__dict__,
        "evidence": list(memory.evidence),
        "at": clock.format_iso(memory.at),
        "decided_at": clock.format_iso(memory.decided_at) if memory.decided_at else None,
        "file": page.path if page else memory.file,
        "text": page.text if page else memory.text,
        "edited": page is not None and page.is_edited,
    }


def fingerprint_approved(connection: Connection, home: str) -> str:
    """Return a hash that changes whenever the approved memories or their files change."""
    approved_hashes = approvals.read_live_hashes(connection, approvals.MEMORY)
    stamps = [
        (
            memory.id,
            memory.type,
            memory.project,
            approved_hashes.get(str(memory.id)),
            memory_files.read_file_stamp(memory_files.get_memory_path(home, memory)),
        )
        for memory in list_memories(connection, "active")
    ]
    return sha256(repr(stamps).encode("utf-8", "replace")).hexdigest()


def list_unapproved_pages(connection: Connection, home: str, project: str) -> list[memory_files.MemoryPage]:
    """Return the memory files in a project's repository that nobody approved on this machine."""
    folder = memory_files.get_project_folder(home, project)
    if paths.is_inside(home, folder):
        return []  # only this machine writes there, while others can add files to a repository
    # The list also has the memories that count in every project.
    known_files = {memory.file for memory in list_memories(connection, project=project) if memory.project == project}
    names = [name for name in sorted(memory_files.list_file_names(folder)) if name not in known_files]
    pages = [memory_files.read_memory_file(os.path.join(folder, name), project) for name in names]
    return [page for page in pages if page and page.text]


class MemoryFault(NamedTuple):
    """What is wrong with a memory or a file of memories, and what mends it."""

    name: str
    fault: str
    fix: str


def find_memory_faults(connection: Connection, home: str, project: str) -> list[MemoryFault]:
    """Return what is wrong with the active memories, the files that nobody approved, and the index file."""
    faults = list[MemoryFault]()
    checked_pages = list[memory_files.MemoryPage]()
    for memory in list_memories(connection, "active", project=project):
        page = read_page(home, memory)
        if page is None:
            missing_file = f"its file is gone, a link or too large: {memory_files.get_memory_path(home, memory)}"
            fix = f"hardwon memory approve M{memory.id}, or retire {memory.id}"
            faults.append(MemoryFault(f"M{memory.id}", missing_file, fix))
            continue
        faults += _find_page_faults(connection, memory, page, checked_pages)
        checked_pages.append(page)
    for page in list_unapproved_pages(connection, home, project):
        file = os.path.basename(page.path)
        faults.append(MemoryFault(file, _NOT_APPROVED, f"hardwon memory approve {file}"))
    return [*faults, *_find_index_faults(memory_files.get_project_folder(home, project))]


def _find_page_faults(
    connection: Connection,
    memory: Memory,
    page: memory_files.MemoryPage,
    earlier_pages: Sequence[memory_files.MemoryPage],
) -> Iterator[MemoryFault]:
    """Yield what is wrong with the file of an active memory, by itself or beside the files before it."""
    name = f"M{memory.id}"
    approve_command = f"hardwon memory approve {name}"
    retire_command = f"hardwon memory retire {name}"
    if not page.text:
        yield MemoryFault(name, f"its file says nothing: {page.path}", retire_command)
    if page.is_edited:
        yield MemoryFault(name, "its file says something else than was approved", approve_command)
    elif not is_approved(connection, memory, page):
        yield MemoryFault(name, _NOT_APPROVED, approve_command)
    if len(page.text) > MAX_MEMORY_CHARS:
        yield MemoryFault(name, f"it has {len(page.text)} characters", "say one thing, in a sentence or two")
    twin = next((other for other in earlier_pages if is_same_statement(other.text, page.text)), None)
    if twin:
        yield MemoryFault(name, f"it says what M{twin.number} says", retire_command)
    opposite = next((other for other in earlier_pages if is_contradiction(page.text, other.text)), None)
    if opposite:
        conflict = f"it and M{opposite.number} speak against each other"
        yield MemoryFault(name, conflict, f"{retire_command}, or retire {opposite.number}")


def _find_index_faults(folder: str) -> Iterator[MemoryFault]:
    """Yield files missing from the index file, and its entries without a file."""
    path = memory_files.find_index_file(folder)
    if not path:
        return
    listed = set(re.findall(r"\]\(([\w.-]+\.md)\)", paths.read_text(path, errors="replace")))
    names = set(memory_files.list_file_names(folder))
    for name in sorted(names - listed):
        yield MemoryFault(name, f"it is not in {os.path.basename(path)}", f"add a line: - [name]({name})")
    for name in sorted(listed - names - set(memory_files.INDEX_FILES)):
        yield MemoryFault(os.path.basename(path), f"it lists {name}, which is not there", "take the line out")
