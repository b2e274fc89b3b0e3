"""Memory: what agents are told to know, what was proposed, what is no longer told; a person decides about each."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

from hardwon.actions import memories as actions
from hardwon.errors import UserError
from hardwon.handoff import memories
from hardwon.handoff.memory_files import MemoryPage
from hardwon.store import memories as kept
from hardwon.store import views
from hardwon.store.approvals import VIEWER
from hardwon.text.printable import to_printable_line
from hardwon.types import MEMORY_TYPES, STATUSES, Memory
from hardwon.web import file_changes
from hardwon.web.page_request import NOT_FOUND, PageContent, PageRequest, Redirect, parse_number

PAGE_SIZE = 100
MAX_PROJECTS = 50  # whose repositories are looked at for files that nobody approved


def show_memory_list(ask: PageRequest) -> PageContent:
    """The memories of one status, by type and project; with the proposals the files that nobody approved here."""
    given = {name: ask.query.get(name, "") for name in ("type", "project")}
    status = ask.query.get("status", "active")
    status = status if status in STATUSES else "active"
    every = kept.list_memories(ask.connection)
    found = [
        one
        for one in every
        if one.status == status and given["type"] in ("", one.type) and given["project"] in ("", one.project or "*")
    ]
    found.sort(key=lambda one: (MEMORY_TYPES.index(one.type), -one.id) if status == "active" else (0, -one.id))
    start = min(parse_number(ask.query, "from") or 0, len(found))
    told = (
        {page.number: page for page in memories.list_approved_pages(ask.connection, ask.home)}
        if status == "active"
        else {}
    )
    files = _unapproved(ask)
    values = {
        "title": "Memory",
        "status": status,
        "counts": Counter(one.status for one in every),
        "given": given,
        "filtered": any(given.values()),
        "types": MEMORY_TYPES,
        "projects": sorted({one.project for one in every if one.project}),
        "memories": [_row(ask, one, told.get(one.id)) for one in found[start : start + PAGE_SIZE]],
        "further": start + PAGE_SIZE if len(found) > start + PAGE_SIZE else None,
        "files": files if status == "candidate" and not any(given.values()) else [],
        "unapproved": len(files),
    }
    return PageContent("memories.html", values)


def _row(ask: PageRequest, one: Memory, told: MemoryPage | None) -> dict[str, Any]:
    page = told or memories.read_page(ask.home, one)
    return {"memory": one, "text": page.text if page else one.text, "fault": "" if told else _fault(one, page)}


def _fault(one: Memory, page: MemoryPage | None) -> str:
    """Why an approved memory is not told."""
    if one.status != "active":
        return ""
    if page is None:
        return "its file is gone"
    return "edited since it was approved" if page.is_edited else "not approved here"


def _unapproved(ask: PageRequest) -> list[dict[str, Any]]:
    return [
        {"page": page, "project": one["id"], "name": os.path.basename(page.path)}
        for one in views.list_projects(ask.connection, limit=MAX_PROJECTS)
        for page in memories.list_unapproved_pages(ask.connection, ask.home, one["path"])
    ]


def show_memory(ask: PageRequest) -> PageContent:
    known = _known(ask)
    if known is None:
        return NOT_FOUND
    page, planned = memories.read_page(ask.home, known), file_changes.plan_approval(ask, known)
    is_edited = bool(page and page.is_edited)
    text = page.text if page else known.text
    values = {
        "title": to_printable_line(text, 100),
        "memory": known,
        "text": text,
        "page": page,
        "fault": "" if known.id in _told(ask, known) else _fault(known, page),
        "is_edited": is_edited,
        "words": file_changes.describe_changes([file_changes.FileChange("", known.text, text)]) if is_edited else [],
        "may_approve": page is None or not memories.is_approved(ask.connection, known, page),
        "changes": file_changes.describe_changes(planned),
        "seen": _print(ask, known),
        "session": views.find_session_number(ask.connection, known.session),
        **_around(ask, known),
    }
    return PageContent("memory.html", values)


def _told(ask: PageRequest, known: Memory) -> set[int]:
    return {page.number for page in memories.list_approved_pages(ask.connection, ask.home, known.project)}


def _around(ask: PageRequest, known: Memory) -> dict[str, int | None]:
    """The proposals before and behind this one, if it is one."""
    waiting = [one.id for one in kept.list_memories(ask.connection, "candidate")][::-1]
    if known.id not in waiting:
        return {"before": None, "behind": None}
    place = waiting.index(known.id)
    behind = waiting[place + 1 : place + 2]
    return {"before": waiting[place - 1] if place else None, "behind": behind[0] if behind else None}


def show_editor(ask: PageRequest) -> PageContent:
    known = _known(ask)
    return _editor(ask, known) if known and known.status in ("candidate", "active") else NOT_FOUND


def save_changes(ask: PageRequest) -> PageContent | Redirect:
    """Other words: of a proposal they are kept at once, of an approved one after a look at what that writes."""
    known, text = _seen(ask), ask.form.get("text", "").replace("\r\n", "\n")
    planned = file_changes.plan_rewording(ask, known, text) if known.status == "active" else []
    if planned and not file_changes.is_agreed(ask, known, planned):
        return _confirm(ask, known, planned, text)
    try:
        actions.reword_memory(ask.connection, ask.home, known, text, VIEWER, ask.now)
    except UserError as wrong:
        return _editor(ask, known, wrong)
    file_changes.refresh_brief(ask, known.project)
    said = "Changed, and told from now on." if planned else "Changed. It waits for you to approve it."
    return Redirect(f"/memory/{known.id}", said)


def approve(ask: PageRequest) -> Redirect:
    """Let it count: what that writes stood on the page that was agreed to."""
    known = _seen(ask)
    on = _next(ask, known)
    _, path = actions.approve_memory(ask.connection, ask.home, known, VIEWER, ask.now)
    file_changes.refresh_brief(ask, known.project)
    return Redirect(on, f"Approved as memory {known.id}: {path}")


def reject_or_retire(ask: PageRequest) -> Redirect:
    """Reject what waits, retire what counts."""
    known = _seen(ask)
    on = _next(ask, known)
    after = actions.reject_or_retire_memory(ask.connection, ask.home, known, ask.now)
    file_changes.refresh_brief(ask, known.project)
    where = ". Its file stays where it is" if known.file else ""
    return Redirect(on, f"{after.status.capitalize()}: memory {known.id}{where}.")


def show_file(ask: PageRequest) -> PageContent:
    """A file in a repository that nobody approved here."""
    found = _file(ask)
    if found is None:
        return NOT_FOUND
    values = {"title": os.path.basename(found.path), "page": found, "seen": file_changes.fingerprint_values(found)}
    return PageContent("memory_file.html", values)


def approve_file(ask: PageRequest) -> Redirect:
    found = _file(ask)
    if found is None or ask.form.get("seen") != file_changes.fingerprint_values(found):
        raise UserError("the file is gone or says something else by now", "look at it again before you decide")
    one = actions.adopt_memory_file(ask.connection, ask.home, found, VIEWER, ask.now)
    file_changes.refresh_brief(ask, found.project)
    return Redirect(f"/memory/{one.id}", f"Approved as memory {one.id}. It is told as it stands in its file.")


def _file(ask: PageRequest) -> MemoryPage | None:
    known = parse_number(ask.path_params, "project")
    names = {(one["project"], one["name"]): one["page"] for one in _unapproved(ask)}
    return names.get((known, ask.path_params["name"]))


def _known(ask: PageRequest) -> Memory | None:
    known = parse_number(ask.path_params, "number")
    return None if known is None else kept.get(ask.connection, known)


def _seen(ask: PageRequest) -> Memory:
    """The memory as the person saw it, with what its file says and what approving it would write."""
    known = _known(ask)
    if known is None or ask.form.get("seen") != _print(ask, known):
        raise UserError("the memory is gone or says something else by now", "look at it again before you decide")
    return known


def _print(ask: PageRequest, known: Memory) -> str:
    return file_changes.fingerprint_values(
        known, memories.read_page(ask.home, known), file_changes.plan_approval(ask, known)
    )


def _next(ask: PageRequest, known: Memory) -> str:
    """Where to go when this one is decided about."""
    around = _around(ask, known)
    left = around["behind"] or around["before"]
    if known.status != "candidate":
        return f"/memory/{known.id}"
    return f"/memory/{left}" if left else "/memory"


def _editor(ask: PageRequest, known: Memory, wrong: UserError | None = None) -> PageContent:
    page = memories.read_page(ask.home, known)
    values = {
        "title": f"Edit memory {known.id}",
        "label": "What to know",
        "hint": f"One thing, in a sentence or two; at most {memories.MAX_MEMORY_CHARS:,} characters.",
        "text": ask.form.get("text", page.text if page else known.text),
        "seen": _print(ask, known),
        "action": f"/memory/{known.id}/edit",
        "back": f"/memory/{known.id}",
        "done": "Show what changes" if known.status == "active" else "Save",
        "wrong": wrong,
    }
    return PageContent("text.html", values, 422 if wrong else 200)


def _confirm(ask: PageRequest, known: Memory, planned: list[file_changes.FileChange], text: str) -> PageContent:
    values = {
        "title": f"Change memory {known.id}",
        "changes": file_changes.describe_changes(planned),
        "says": [],
        "sent": {"seen": _print(ask, known), "agreed": file_changes.fingerprint_values(known, *planned)},
        "text": text,
        "action": f"/memory/{known.id}/edit",
        "back": f"/memory/{known.id}",
        "done": "Write it",
        "wrong": None,
    }
    return PageContent("confirm.html", values)
