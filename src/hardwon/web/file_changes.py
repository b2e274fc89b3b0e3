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
    after: str | None
    old_path: str = ""


def fingerprint_values(*seen: object) -> str:
    """By which it is known later that somebody saw just this."""
    return sha256(repr(seen).encode("utf-8", "replace")).hexdigest()


def is_agreed(ask: PageRequest, known: object, changes: Sequence[FileChange]) -> bool:
    """Whether the form says yes to just these changes of just this."""
    return ask.form.get("agreed") == fingerprint_values(known, *changes)


def describe_changes(changes: Sequence[FileChange]) -> list[dict[str, Any]]:
    """The changes as a template shows them."""
    found = []
    for one in changes:
        lines = list(_lines((one.old_text or "").splitlines(), (one.after or "").splitlines()))
        said = (
            "new"
            if one.old_text is None
            else "deleted"
            if one.after is None
            else "moved"
            if one.old_path
            else "changed"
        )
        rest = len(lines[MAX_SHOWN_LINES:])
        found.append(
            {"path": one.path, "was": one.old_path, "said": said, "lines": lines[:MAX_SHOWN_LINES], "rest": rest}
        )
    return found


def _lines(before: list[str], after: list[str]) -> Iterator[DiffLine]:
    """The lines that differ, with some around them; a line with the sign of a gap stands for those left out."""
    if not before or not after or max(len(before), len(after)) > MAX_COMPARED_LINES:
        yield from _replaced(before, after)
        return
    for place, group in enumerate(SequenceMatcher(None, before, after).get_grouped_opcodes(CONTEXT_LINES)):
        if place:
            yield "…", ""
        for what, a, b, c, d in group:
            if what == "equal":
                yield from ((" ", line) for line in before[a:b])
            else:
                yield from (("-", line) for line in before[a:b])
                yield from (("+", line) for line in after[c:d])


def _replaced(before: list[str], after: list[str]) -> Iterator[DiffLine]:
    """All of what differs, between the lines at both ends that do not."""
    head = _same(before, after)
    tail = _same(before[head:][::-1], after[head:][::-1])
    yield from (("-", line) for line in before[head : len(before) - tail])
    yield from (("+", line) for line in after[head : len(after) - tail])


def _same(one: list[str], other: list[str]) -> int:
    """How many lines are the same at the beginning."""
    return next(
        (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


def plan_approval(ask: PageRequest, memory: Memory) -> list[FileChange]:
    """The file of a memory, and the list beside it; nothing where a file says the same already."""
    folder = memory_files.get_memory_folder(ask.home, memory)
    if memory.file and os.path.exists(os.path.join(folder, memory.file)):
        return []
    others = memories.list_unapproved_pages(ask.connection, ask.home, memory.project) if memory.type != "user" else []
    if any(page.text == memory.text for page in others):
        return []
    file = memory_files.choose_file_name(folder, memory)
    made = FileChange(
        os.path.join(folder, file), None, memory_files.render_memory(ask.home, replace(memory, file=file), ask.now)
    )
    if path := memory_files.find_index_file(folder):
        said = (handoffs.read_page_text(path) or "").rstrip("\n")
        return [made, FileChange(path, said, memory_files.add_index_entry(said, file, memory.text))]
    return [made]


def plan_rewording(ask: PageRequest, memory: Memory, text: str) -> list[FileChange]:
    """The file of an approved memory in other words."""
    page = memories.read_page(ask.home, memory)
    held = handoffs.read_page_text(page.path) if page else None
    if page is None or held is None:
        return []
    after = replace(memory, text=make_printable(clean_text(text)).strip(), type=page.type)
    return [
        FileChange(
            page.path,
            held,
            memory_files.render_memory(ask.home, after, ask.now, memory_files.split_front_matter(held)[0]),
        )
    ]


def plan_ratification(ask: PageRequest, known: Reflection) -> tuple[list[FileChange], list[str]]:
    """The page in the draft's place and the memories that it names; in sentences what else comes of it."""
    page, held = handoffs.read_page(known), handoffs.read_page_text(known.draft)
    if page is None or held is None:
        return [], []
    if known.status == RATIFIED:
        return [], ["No file is written: the page counts as it stands now."]
    path = ratification.choose_page_path(ask.connection, ask.home, known)
    text, earlier = (
        ratification.build_page_text(known.draft, ask.now),
        handoffs.read_page_text(path) if path != known.draft else None,
    )
    made = [FileChange(path, held, text, known.draft)]
    if earlier is not None:
        made = [FileChange(path, earlier, text), FileChange(known.draft, held, None)]
    (named, unnamed), says = ratification.plan_memories(ask.connection, known, page, ask.now), list[str]()
    for one in named:
        planned = plan_approval(ask, one)
        try:
            if planned or not one.id:
                statuses = ["active"] if one.id else []
                memories.refuse_duplicate(ask.connection, ask.home, one.text, one.project, *statuses)
            made += planned
        except UserError as wrong:
            says.append(f"Not approved: {to_printable_line(one.text, 100)} ({wrong.say})")
    says += [
        f"Rejected, since the draft does not name it any more: {to_printable_line(one.text, 100)}" for one in unnamed
    ]
    return _joined(made), says


def _joined(found: Sequence[FileChange]) -> list[FileChange]:
    """What several memories add to one list, together."""
    made = list[FileChange]()
    for one in found:
        place = next((at for at, each in enumerate(made) if each.path == one.path and one.old_text is not None), None)
        if place is None:
            made.append(one)
        else:
            added = (one.after or "").removeprefix(one.old_text or "").lstrip("\n")
            made[place] = replace(made[place], after=f"{made[place].after}{added}")
    return made


def refresh_brief(ask: PageRequest, project: str) -> None:
    """What the hook says without the worker follows at once."""
    compiled_brief.delete_all(ask.home)
    brief.refresh_brief(ask.connection, ask.home, project)
