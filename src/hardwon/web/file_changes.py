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
from hardwon.privacy.cleaning import clean
from hardwon.search import brief
from hardwon.store.reflections import RATIFIED, Reflection
from hardwon.text.printable import in_line, printable
from hardwon.types import Memory, replace, word
from hardwon.web.page_request import Ask

AROUND = 3  # lines that are shown around one that differs
MOST_LINES = 1_000  # that are compared one by one: more would take seconds of the worker
MOST_SHOWN = 1_200
Line = tuple[str, str]  # a sign and a text


@word
class Change:
    """A file as it stands and as it would be, None where there is none; `was` is its name until then."""

    path: str
    before: str | None
    after: str | None
    was: str = ""


def print_of(*seen: object) -> str:
    """By which it is known later that somebody saw just this."""
    return sha256(repr(seen).encode("utf-8", "replace")).hexdigest()


def is_agreed(ask: Ask, known: object, changes: Sequence[Change]) -> bool:
    """Whether the form says yes to just these changes of just this."""
    return ask.form.get("agreed") == print_of(known, *changes)


def shown(changes: Sequence[Change]) -> list[dict[str, Any]]:
    """The changes as a template shows them."""
    found = []
    for one in changes:
        lines = list(_lines((one.before or "").splitlines(), (one.after or "").splitlines()))
        said = "new" if one.before is None else "deleted" if one.after is None else "moved" if one.was else "changed"
        rest = len(lines[MOST_SHOWN:])
        found.append({"path": one.path, "was": one.was, "said": said, "lines": lines[:MOST_SHOWN], "rest": rest})
    return found


def _lines(before: list[str], after: list[str]) -> Iterator[Line]:
    """The lines that differ, with some around them; a line with the sign of a gap stands for those left out."""
    if not before or not after or max(len(before), len(after)) > MOST_LINES:
        yield from _replaced(before, after)
        return
    for place, group in enumerate(SequenceMatcher(None, before, after).get_grouped_opcodes(AROUND)):
        if place:
            yield "…", ""
        for what, a, b, c, d in group:
            if what == "equal":
                yield from ((" ", line) for line in before[a:b])
            else:
                yield from (("-", line) for line in before[a:b])
                yield from (("+", line) for line in after[c:d])


def _replaced(before: list[str], after: list[str]) -> Iterator[Line]:
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


def of_approving(ask: Ask, memory: Memory) -> list[Change]:
    """The file of a memory, and the list beside it; nothing where a file says the same already."""
    folder = memory_files.folder_of(ask.home, memory)
    if memory.file and os.path.exists(os.path.join(folder, memory.file)):
        return []
    others = memories.unapproved(ask.connection, ask.home, memory.project) if memory.type != "user" else []
    if any(page.text == memory.text for page in others):
        return []
    file = memory_files.name_of(folder, memory)
    made = Change(os.path.join(folder, file), None, memory_files.render(ask.home, replace(memory, file=file), ask.now))
    if path := memory_files.index_in(folder):
        said = (handoffs.read(path) or "").rstrip("\n")
        return [made, Change(path, said, memory_files.entered(said, file, memory.text))]
    return [made]


def of_rewording(ask: Ask, memory: Memory, text: str) -> list[Change]:
    """The file of an approved memory in other words."""
    page = memories.page_of(ask.home, memory)
    held = handoffs.read(page.path) if page else None
    if page is None or held is None:
        return []
    after = replace(memory, text=printable(clean(text)).strip(), type=page.type)
    return [Change(page.path, held, memory_files.render(ask.home, after, ask.now, memory_files.parted(held)[0]))]


def of_ratifying(ask: Ask, known: Reflection) -> tuple[list[Change], list[str]]:
    """The page in the draft's place and the memories that it names; in sentences what else comes of it."""
    page, held = handoffs.page_of(known), handoffs.read(known.draft)
    if page is None or held is None:
        return [], []
    if known.status == RATIFIED:
        return [], ["No file is written: the page counts as it stands now."]
    path = ratification.page_path(ask.connection, ask.home, known)
    text, earlier = (
        ratification.ratified_text(known.draft, ask.now),
        handoffs.read(path) if path != known.draft else None,
    )
    made = [Change(path, held, text, known.draft)]
    if earlier is not None:
        made = [Change(path, earlier, text), Change(known.draft, held, None)]
    (named, unnamed), says = ratification.plan(ask.connection, known, page, ask.now), list[str]()
    for one in named:
        planned = of_approving(ask, one)
        try:
            if planned or not one.id:
                statuses = ["active"] if one.id else []
                memories.refuse_known(ask.connection, ask.home, one.text, one.project, *statuses)
            made += planned
        except UserError as wrong:
            says.append(f"Not approved: {in_line(one.text, 100)} ({wrong.say})")
    says += [f"Rejected, since the draft does not name it any more: {in_line(one.text, 100)}" for one in unnamed]
    return _joined(made), says


def _joined(found: Sequence[Change]) -> list[Change]:
    """What several memories add to one list, together."""
    made = list[Change]()
    for one in found:
        place = next((at for at, each in enumerate(made) if each.path == one.path and one.before is not None), None)
        if place is None:
            made.append(one)
        else:
            added = (one.after or "").removeprefix(one.before or "").lstrip("\n")
            made[place] = replace(made[place], after=f"{made[place].after}{added}")
    return made


def tell_anew(ask: Ask, project: str) -> None:
    """What the hook says without the worker follows at once."""
    compiled_brief.forget(ask.home)
    brief.tell_anew(ask.connection, ask.home, project)
