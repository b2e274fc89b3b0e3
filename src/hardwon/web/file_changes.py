"""Show the files that a decision would write as a diff, before they are written.

The confirming form carries a fingerprint of the shown diff. It is compared with the current diff, so that nobody
confirms something they did not see.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import unified_diff
from typing import Any

from hardwon.errors import UserError
from hardwon.handoff import handoffs, ratification
from hardwon.memories import memories, memory_files
from hardwon.privacy.cleaning import clean_text
from hardwon.store.reflections import RATIFIED, Reflection
from hardwon.text.characters import make_printable, to_printable_line
from hardwon.types import Memory, replace
from hardwon.web.page_request import PageContent, PageRequest, fingerprint_values

_CONTEXT_LINES = 3
_MAX_COMPARED_LINES = 1_000  # comparing more line by line would take seconds
_MAX_SHOWN_LINES = 1_200  # a browser gets slow with more
DiffLine = tuple[str, str]  # a sign (+, -, space, … for left out lines) and a text


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file before and after, None where there is none; `old_path` if it is also renamed."""

    path: str
    old_text: str | None
    new_text: str | None
    old_path: str = ""


def is_agreed(request: PageRequest, subject: object, changes: Sequence[FileChange]) -> bool:
    """Return whether the form agrees to exactly these changes."""
    return request.form.get("agreed") == fingerprint_values(subject, *changes)


def build_confirmation(
    request: PageRequest,
    subject: object,
    changes: Sequence[FileChange],
    *,
    title: str,
    action: str,
    button: str,
    notes: Sequence[str] = (),
    text: str | None = None,
    fingerprint: str = "",
) -> PageContent:
    """Build the page that shows the changes, with a button that agrees to exactly these."""
    # A form that agreed comes here only if it agreed to other changes than there are now.
    is_stale = "agreed" in request.form
    error = None
    if is_stale:
        error = UserError("the files changed since you opened this page", "review the new diff")
    values = {
        "title": title,
        "changes": describe_changes(changes),
        "notes": notes,
        "seen": fingerprint,
        "agreed": fingerprint_values(subject, *changes),
        "text": text,
        "action": action,
        "back": action.rpartition("/")[0],
        "done": button,
        "wrong": error,
    }
    return PageContent("confirm.html", values, 409 if is_stale else 200)


def describe_changes(changes: Sequence[FileChange]) -> list[dict[str, Any]]:
    """Return the changes as a template shows them."""
    descriptions = []
    for change in changes:
        lines = _diff_lines((change.old_text or "").splitlines(), (change.new_text or "").splitlines())
        state = "changed"
        if change.old_text is None:
            state = "new"
        elif change.new_text is None:
            state = "deleted"
        elif change.old_path:
            state = "moved"
        descriptions.append(
            {
                "path": change.path,
                "old_path": change.old_path,
                "state": state,
                "lines": lines[:_MAX_SHOWN_LINES],
                "omitted": len(lines[_MAX_SHOWN_LINES:]),
            }
        )
    return descriptions


def _diff_lines(old_lines: list[str], new_lines: list[str]) -> list[DiffLine]:
    """Return the changed lines with some context; for a huge file, all old lines and then all new ones."""
    diff_lines: list[DiffLine] = []
    if max(len(old_lines), len(new_lines)) > _MAX_COMPARED_LINES:
        diff_lines += [("-", line) for line in old_lines]
        diff_lines += [("+", line) for line in new_lines]
        return diff_lines
    difference = list(unified_diff(old_lines, new_lines, n=_CONTEXT_LINES, lineterm=""))
    # The first three lines are two file names and the header of the first hunk.
    for line in difference[3:]:
        if line.startswith("@@"):  # the header of a later hunk stands for the lines left out before it
            diff_lines.append(("…", ""))
        else:
            diff_lines.append((line[0], line[1:]))
    return diff_lines


def plan_approval(request: PageRequest, memory: Memory) -> list[FileChange]:
    """Return the changes of approving a memory: its file and the index beside it; none if a file has this text."""
    folder = memory_files.get_memory_folder(request.home, memory)
    if memory.file and os.path.exists(os.path.join(folder, memory.file)):
        return []
    if memories.find_twin_file(request.connection, request.home, memory):
        return []
    file = memory_files.choose_file_name(folder, memory)
    text = memory_files.render_memory(request.home, replace(memory, file=file), request.now)
    changes = [FileChange(os.path.join(folder, file), old_text=None, new_text=text)]
    if path := memory_files.find_index_file(folder):
        index_text = (handoffs.read_page_text(path) or "").rstrip("\n")
        changes.append(FileChange(path, index_text, memory_files.add_index_entry(index_text, file, memory.text)))
    return changes


def plan_rewording(request: PageRequest, memory: Memory, text: str) -> list[FileChange]:
    """Return the file changes of rewording an approved memory; none if its file is gone."""
    page = memories.read_page(request.home, memory)
    current_text = handoffs.read_page_text(page.path) if page else None
    if page is None or current_text is None:
        return []
    reworded_memory = replace(memory, text=make_printable(clean_text(text)).strip(), type=page.type)
    fields, _ = memory_files.split_front_matter(current_text)
    new_text = memory_files.render_memory(request.home, reworded_memory, request.now, fields)
    return [FileChange(page.path, current_text, new_text)]


def plan_ratification(request: PageRequest, reflection: Reflection) -> tuple[list[FileChange], list[str]]:
    """Return the changes of ratifying a draft, its page and memories, and notes on other effects."""
    page = handoffs.read_page(reflection)
    current_text = handoffs.read_page_text(reflection.draft)
    if page is None or current_text is None:
        return [], []
    if reflection.status == RATIFIED:
        return [], ["No file is written: the page counts as it is now."]
    path = ratification.choose_page_path(request.connection, request.home, reflection)
    text = ratification.build_page_text(reflection.draft, request.now)
    existing_text = handoffs.read_page_text(path) if path != reflection.draft else None
    if existing_text is None:
        changes = [FileChange(path, current_text, text, reflection.draft)]
    else:
        changes = [
            FileChange(path, existing_text, text),
            FileChange(reflection.draft, old_text=current_text, new_text=None),
        ]
    notes = list[str]()
    named_memories, unnamed_memories = ratification.plan_memories(request.connection, reflection, page, request.now)
    for memory in named_memories:
        memory_changes = plan_approval(request, memory)
        try:
            # Ratifying refuses a memory that is known already, so the plan must not show its file.
            if memory_changes or not memory.id:
                statuses = ["active"] if memory.id else []
                memories.refuse_duplicate(request.connection, request.home, memory.text, memory.project, *statuses)
            changes += memory_changes
        except UserError as error:
            notes.append(f"Not approved: {to_printable_line(memory.text, 100)} ({error.message})")
    for memory in unnamed_memories:
        notes.append(f"Rejected, because you removed it from the draft: {to_printable_line(memory.text, 100)}")
    return _merge_changes(changes), notes


def _merge_changes(changes: Sequence[FileChange]) -> list[FileChange]:
    """Merge the lines that several memories add to the same list."""
    # Each was planned from the file as it is now, so the second must add to what the first adds.
    merged = dict[str, FileChange]()
    for change in changes:
        earlier = merged.get(change.path)
        if earlier is None:
            merged[change.path] = change
        else:
            added = (change.new_text or "").removeprefix(change.old_text or "").lstrip("\n")
            merged[change.path] = FileChange(change.path, earlier.old_text, f"{earlier.new_text}{added}")
    return list(merged.values())
