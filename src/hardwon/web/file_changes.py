"""What a decision would write, shown before it is written: each file as it stands, and as it would be.

The form that agrees carries the print of what was shown. It is compared with what would be written by then, so that
nobody agrees to what they did not see.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from hashlib import sha256
from typing import Any

from hardwon.errors import UserError
from hardwon.handoff import handoffs, memories, memory_files, ratification
from hardwon.lessons import compiled_brief
from hardwon.privacy.cleaning import clean_text
from hardwon.search import brief
from hardwon.store.reflections import RATIFIED, Reflection
from hardwon.text.printable import make_printable, to_printable_line
from hardwon.types import Memory, frozen, replace
from hardwon.web.page_request import PageRequest

CONTEXT_LINES = 3  # lines that are shown around one that differs
MAX_COMPARED_LINES = 1_000  # that are compared one by one: more would take seconds of the worker
MAX_SHOWN_LINES = 1_200
DiffLine = tuple[str, str]  # a sign and a text


@frozen
class FileChange:
    """A file as it stands and as it would be, None where there is none; `was` is its name until then."""

    path: str
    old_text: str | None
    new_text: str | None
    old_path: str = ""


def fingerprint_values(*values: object) -> str:
    """By which it is known later that somebody saw just this."""
    return sha256(repr(values).encode("utf-8", "replace")).hexdigest()


def is_agreed(request: PageRequest, subject: object, changes: Sequence[FileChange]) -> bool:
    """Whether the form says yes to just these changes of just this."""
    return request.form.get("agreed") == fingerprint_values(subject, *changes)


def describe_changes(changes: Sequence[FileChange]) -> list[dict[str, Any]]:
    """The changes as a template shows them."""
    descriptions = []
    for change in changes:
        lines = list(_diff_lines((change.old_text or "").splitlines(), (change.new_text or "").splitlines()))
        state = (
            "new"
            if change.old_text is None
            else "deleted"
            if change.new_text is None
            else "moved"
            if change.old_path
            else "changed"
        )
        omitted_count = len(lines[MAX_SHOWN_LINES:])
        descriptions.append(
            {
                "path": change.path,
                "was": change.old_path,
                "said": state,
                "lines": lines[:MAX_SHOWN_LINES],
                "rest": omitted_count,
            }
        )
    return descriptions


def _diff_lines(old_lines: list[str], new_lines: list[str]) -> Iterator[DiffLine]:
    """The lines that differ, with some around them; a line with the sign of a gap stands for those left out."""
    if not old_lines or not new_lines or max(len(old_lines), len(new_lines)) > MAX_COMPARED_LINES:
        yield from _diff_middle(old_lines, new_lines)
        return
    for group_index, group in enumerate(SequenceMatcher(None, old_lines, new_lines).get_grouped_opcodes(CONTEXT_LINES)):
        if group_index:
            yield "…", ""
        for operation, a, b, c, d in group:
            if operation == "equal":
                yield from ((" ", line) for line in old_lines[a:b])
            else:
                yield from (("-", line) for line in old_lines[a:b])
                yield from (("+", line) for line in new_lines[c:d])


def _diff_middle(old_lines: list[str], new_lines: list[str]) -> Iterator[DiffLine]:
    """All of what differs, between the lines at both ends that do not."""
    head_count = _count_common_lines(old_lines, new_lines)
    tail_count = _count_common_lines(old_lines[head_count:][::-1], new_lines[head_count:][::-1])
    yield from (("-", line) for line in old_lines[head_count : len(old_lines) - tail_count])
    yield from (("+", line) for line in new_lines[head_count : len(new_lines) - tail_count])


def _count_common_lines(old_lines: list[str], new_lines: list[str]) -> int:
    """How many lines are the same at the beginning."""
    return next(
        (index for index, (a, b) in enumerate(zip(old_lines, new_lines, strict=False)) if a != b),
        min(len(old_lines), len(new_lines)),
    )


def plan_approval(request: PageRequest, memory: Memory) -> list[FileChange]:
    """The file of a memory, and the list beside it; nothing where a file says the same already."""
    folder = memory_files.get_memory_folder(request.home, memory)
    if memory.file and os.path.exists(os.path.join(folder, memory.file)):
        return []
    others = (
        memories.list_unapproved_pages(request.connection, request.home, memory.project)
        if memory.type != "user"
        else []
    )
    if any(page.text == memory.text for page in others):
        return []
    file = memory_files.choose_file_name(folder, memory)
    change = FileChange(
        os.path.join(folder, file),
        None,
        memory_files.render_memory(request.home, replace(memory, file=file), request.now),
    )
    if path := memory_files.find_index_file(folder):
        index_text = (handoffs.read_page_text(path) or "").rstrip("\n")
        return [change, FileChange(path, index_text, memory_files.add_index_entry(index_text, file, memory.text))]
    return [change]


def plan_rewording(request: PageRequest, memory: Memory, text: str) -> list[FileChange]:
    """The file of an approved memory in other words."""
    page = memories.read_page(request.home, memory)
    current_text = handoffs.read_page_text(page.path) if page else None
    if page is None or current_text is None:
        return []
    reworded_memory = replace(memory, text=make_printable(clean_text(text)).strip(), type=page.type)
    return [
        FileChange(
            page.path,
            current_text,
            memory_files.render_memory(
                request.home, reworded_memory, request.now, memory_files.split_front_matter(current_text)[0]
            ),
        )
    ]


def plan_ratification(request: PageRequest, reflection: Reflection) -> tuple[list[FileChange], list[str]]:
    """The page in the draft's place and the memories that it names; in sentences what else comes of it."""
    page, current_text = handoffs.read_page(reflection), handoffs.read_page_text(reflection.draft)
    if page is None or current_text is None:
        return [], []
    if reflection.status == RATIFIED:
        return [], ["No file is written: the page counts as it stands now."]
    path = ratification.choose_page_path(request.connection, request.home, reflection)
    text, existing_text = (
        ratification.build_page_text(reflection.draft, request.now),
        handoffs.read_page_text(path) if path != reflection.draft else None,
    )
    changes = [FileChange(path, current_text, text, reflection.draft)]
    if existing_text is not None:
        changes = [FileChange(path, existing_text, text), FileChange(reflection.draft, current_text, None)]
    (named_memories, unnamed_memories), notes = (
        ratification.plan_memories(request.connection, reflection, page, request.now),
        list[str](),
    )
    for memory in named_memories:
        memory_changes = plan_approval(request, memory)
        try:
            if memory_changes or not memory.id:
                statuses = ["active"] if memory.id else []
                memories.refuse_duplicate(request.connection, request.home, memory.text, memory.project, *statuses)
            changes += memory_changes
        except UserError as error:
            notes.append(f"Not approved: {to_printable_line(memory.text, 100)} ({error.say})")
    notes += [
        f"Rejected, since the draft does not name it any more: {to_printable_line(memory.text, 100)}"
        for memory in unnamed_memories
    ]
    return _merge_changes(changes), notes


def _merge_changes(changes: Sequence[FileChange]) -> list[FileChange]:
    """What several memories add to one list, together."""
    merged = list[FileChange]()
    for change in changes:
        position = next(
            (index for index, other in enumerate(merged) if other.path == change.path and change.old_text is not None),
            None,
        )
        if position is None:
            merged.append(change)
        else:
            added = (change.new_text or "").removeprefix(change.old_text or "").lstrip("\n")
            merged[position] = replace(merged[position], new_text=f"{merged[position].new_text}{added}")
    return merged


def refresh_brief(request: PageRequest, project: str) -> None:
    """What the hook says without the worker follows at once."""
    compiled_brief.delete_all(request.home)
    brief.refresh_brief(request.connection, request.home, project)
