"""Memory: what agents are told to know, what was proposed, what is no longer told; a person decides about each."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

from hardwon.actions import memories as actions
from hardwon.errors import UserError
from hardwon.handoff import memories
from hardwon.handoff.memory_files import Page
from hardwon.store import memories as kept
from hardwon.store import views
from hardwon.store.approvals import VIEWER
from hardwon.text.printable import in_line
from hardwon.types import MEMORY_TYPES, STATUSES, Memory
from hardwon.web import file_changes
from hardwon.web.page_request import GONE, Ask, Moved, Shown, number

PAGE = 100
MOST_PROJECTS = 50  # whose repositories are looked at for files that nobody approved


def page(ask: Ask) -> Shown:
    """The memories of one status, by type and project; with the proposals the files that nobody approved here."""
    given = {name: ask.query.get(name, "") for name in ("type", "project")}
    status = ask.query.get("status", "active")
    status = status if status in STATUSES else "active"
    every = kept.listed(ask.connection)
    found = [
        one
        for one in every
        if one.status == status and given["type"] in ("", one.type) and given["project"] in ("", one.project or "*")
    ]
    found.sort(key=lambda one: (MEMORY_TYPES.index(one.type), -one.id) if status == "active" else (0, -one.id))
    start = min(number(ask.query, "from") or 0, len(found))
    told = {page.number: page for page in memories.told(ask.connection, ask.home)} if status == "active" else {}
    files = _unapproved(ask)
    values = {
        "title": "Memory",
        "status": status,
        "counts": Counter(one.status for one in every),
        "given": given,
        "filtered": any(given.values()),
        "types": MEMORY_TYPES,
        "projects": sorted({one.project for one in every if one.project}),
        "memories": [_row(ask, one, told.get(one.id)) for one in found[start : start + PAGE]],
        "further": start + PAGE if len(found) > start + PAGE else None,
        "files": files if status == "candidate" and not any(given.values()) else [],
        "unapproved": len(files),
    }
    return Shown("memories.html", values)


def _row(ask: Ask, one: Memory, told: Page | None) -> dict[str, Any]:
    page = told or memories.page_of(ask.home, one)
    return {"memory": one, "text": page.text if page else one.text, "fault": "" if told else _fault(one, page)}


def _fault(one: Memory, page: Page | None) -> str:
    """Why an approved memory is not told."""
    if one.status != "active":
        return ""
    if page is None:
        return "its file is gone"
    return "edited since it was approved" if page.is_edited else "not approved here"


def _unapproved(ask: Ask) -> list[dict[str, Any]]:
    return [
        {"page": page, "project": one["id"], "name": os.path.basename(page.path)}
        for one in views.projects(ask.connection, limit=MOST_PROJECTS)
        for page in memories.unapproved(ask.connection, ask.home, one["path"])
    ]


def one(ask: Ask) -> Shown:
    known = _known(ask)
    if known is None:
        return GONE
    page, planned = memories.page_of(ask.home, known), file_changes.of_approving(ask, known)
    is_edited = bool(page and page.is_edited)
    text = page.text if page else known.text
    values = {
        "title": in_line(text, 100),
        "memory": known,
        "text": text,
        "page": page,
        "fault": "" if known.id in _told(ask, known) else _fault(known, page),
        "is_edited": is_edited,
        "words": file_changes.shown([file_changes.Change("", known.text, text)]) if is_edited else [],
        "may_approve": page is None or not memories.is_approved(ask.connection, known, page),
        "changes": file_changes.shown(planned),
        "seen": _print(ask, known),
        "session": views.number_of(ask.connection, known.session),
        **_around(ask, known),
    }
    return Shown("memory.html", values)


def _told(ask: Ask, known: Memory) -> set[int]:
    return {page.number for page in memories.told(ask.connection, ask.home, known.project)}


def _around(ask: Ask, known: Memory) -> dict[str, int | None]:
    """The proposals before and behind this one, if it is one."""
    waiting = [one.id for one in kept.listed(ask.connection, "candidate")][::-1]
    if known.id not in waiting:
        return {"before": None, "behind": None}
    place = waiting.index(known.id)
    behind = waiting[place + 1 : place + 2]
    return {"before": waiting[place - 1] if place else None, "behind": behind[0] if behind else None}


def edit(ask: Ask) -> Shown:
    known = _known(ask)
    return _editor(ask, known) if known and known.status in ("candidate", "active") else GONE


def change(ask: Ask) -> Shown | Moved:
    """Other words: of a proposal they are kept at once, of an approved one after a look at what that writes."""
    known, text = _seen(ask), ask.form.get("text", "").replace("\r\n", "\n")
    planned = file_changes.of_rewording(ask, known, text) if known.status == "active" else []
    if planned and not file_changes.is_agreed(ask, known, planned):
        return _confirm(ask, known, planned, text)
    try:
        actions.reword_memory(ask.connection, ask.home, known, text, VIEWER, ask.now)
    except UserError as wrong:
        return _editor(ask, known, wrong)
    file_changes.tell_anew(ask, known.project)
    said = "Changed, and told from now on." if planned else "Changed. It waits for you to approve it."
    return Moved(f"/memory/{known.id}", said)


def approve(ask: Ask) -> Moved:
    """Let it count: what that writes stood on the page that was agreed to."""
    known = _seen(ask)
    on = _next(ask, known)
    _, path = actions.approve_memory(ask.connection, ask.home, known, VIEWER, ask.now)
    file_changes.tell_anew(ask, known.project)
    return Moved(on, f"Approved as memory {known.id}: {path}")


def set_aside(ask: Ask) -> Moved:
    """Reject what waits, retire what counts."""
    known = _seen(ask)
    on = _next(ask, known)
    after = actions.set_memory_aside(ask.connection, ask.home, known, ask.now)
    file_changes.tell_anew(ask, known.project)
    where = ". Its file stays where it is" if known.file else ""
    return Moved(on, f"{after.status.capitalize()}: memory {known.id}{where}.")


def file(ask: Ask) -> Shown:
    """A file in a repository that nobody approved here."""
    found = _file(ask)
    if found is None:
        return GONE
    values = {"title": os.path.basename(found.path), "page": found, "seen": file_changes.print_of(found)}
    return Shown("memory_file.html", values)


def adopt(ask: Ask) -> Moved:
    found = _file(ask)
    if found is None or ask.form.get("seen") != file_changes.print_of(found):
        raise UserError("the file is gone or says something else by now", "look at it again before you decide")
    one = actions.adopt_file(ask.connection, ask.home, found, VIEWER, ask.now)
    file_changes.tell_anew(ask, found.project)
    return Moved(f"/memory/{one.id}", f"Approved as memory {one.id}. It is told as it stands in its file.")


def _file(ask: Ask) -> Page | None:
    known = number(ask.path, "project")
    names = {(one["project"], one["name"]): one["page"] for one in _unapproved(ask)}
    return names.get((known, ask.path["name"]))


def _known(ask: Ask) -> Memory | None:
    known = number(ask.path, "number")
    return None if known is None else kept.get(ask.connection, known)


def _seen(ask: Ask) -> Memory:
    """The memory as the person saw it, with what its file says and what approving it would write."""
    known = _known(ask)
    if known is None or ask.form.get("seen") != _print(ask, known):
        raise UserError("the memory is gone or says something else by now", "look at it again before you decide")
    return known


def _print(ask: Ask, known: Memory) -> str:
    return file_changes.print_of(known, memories.page_of(ask.home, known), file_changes.of_approving(ask, known))


def _next(ask: Ask, known: Memory) -> str:
    """Where to go when this one is decided about."""
    around = _around(ask, known)
    left = around["behind"] or around["before"]
    if known.status != "candidate":
        return f"/memory/{known.id}"
    return f"/memory/{left}" if left else "/memory"


def _editor(ask: Ask, known: Memory, wrong: UserError | None = None) -> Shown:
    page = memories.page_of(ask.home, known)
    values = {
        "title": f"Edit memory {known.id}",
        "label": "What to know",
        "hint": f"One thing, in a sentence or two; at most {memories.LONGEST:,} characters.",
        "text": ask.form.get("text", page.text if page else known.text),
        "seen": _print(ask, known),
        "action": f"/memory/{known.id}/edit",
        "back": f"/memory/{known.id}",
        "done": "Show what changes" if known.status == "active" else "Save",
        "wrong": wrong,
    }
    return Shown("text.html", values, 422 if wrong else 200)


def _confirm(ask: Ask, known: Memory, planned: list[file_changes.Change], text: str) -> Shown:
    values = {
        "title": f"Change memory {known.id}",
        "changes": file_changes.shown(planned),
        "says": [],
        "sent": {"seen": _print(ask, known), "agreed": file_changes.print_of(known, *planned)},
        "text": text,
        "action": f"/memory/{known.id}/edit",
        "back": f"/memory/{known.id}",
        "done": "Write it",
        "wrong": None,
    }
    return Shown("confirm.html", values)
