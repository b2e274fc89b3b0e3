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


def show_memory_list(request: PageRequest) -> PageContent:
    """The memories of one status, by type and project; with the proposals the files that nobody approved here."""
    filters = {name: request.query.get(name, "") for name in ("type", "project")}
    status = request.query.get("status", "active")
    status = status if status in STATUSES else "active"
    all_memories = kept.list_memories(request.connection)
    matched_memories = [
        memory
        for memory in all_memories
        if memory.status == status
        and filters["type"] in ("", memory.type)
        and filters["project"] in ("", memory.project or "*")
    ]
    matched_memories.sort(
        key=lambda memory: (MEMORY_TYPES.index(memory.type), -memory.id) if status == "active" else (0, -memory.id)
    )
    start = min(parse_number(request.query, "from") or 0, len(matched_memories))
    approved_pages = (
        {page.number: page for page in memories.list_approved_pages(request.connection, request.home)}
        if status == "active"
        else {}
    )
    files = _list_unapproved_files(request)
    values = {
        "title": "Memory",
        "status": status,
        "counts": Counter(memory.status for memory in all_memories),
        "given": filters,
        "filtered": any(filters.values()),
        "types": MEMORY_TYPES,
        "projects": sorted({memory.project for memory in all_memories if memory.project}),
        "memories": [
            _build_row(request, memory, approved_pages.get(memory.id))
            for memory in matched_memories[start : start + PAGE_SIZE]
        ],
        "further": start + PAGE_SIZE if len(matched_memories) > start + PAGE_SIZE else None,
        "files": files if status == "candidate" and not any(filters.values()) else [],
        "unapproved": len(files),
    }
    return PageContent("memories.html", values)


def _build_row(request: PageRequest, memory: Memory, approved_page: MemoryPage | None) -> dict[str, Any]:
    page = approved_page or memories.read_page(request.home, memory)
    return {
        "memory": memory,
        "text": page.text if page else memory.text,
        "fault": "" if approved_page else _describe_fault(memory, page),
    }


def _describe_fault(memory: Memory, page: MemoryPage | None) -> str:
    """Why an approved memory is not told."""
    if memory.status != "active":
        return ""
    if page is None:
        return "its file is gone"
    return "edited since it was approved" if page.is_edited else "not approved here"


def _list_unapproved_files(request: PageRequest) -> list[dict[str, Any]]:
    return [
        {"page": page, "project": project["id"], "name": os.path.basename(page.path)}
        for project in views.list_projects(request.connection, limit=MAX_PROJECTS)
        for page in memories.list_unapproved_pages(request.connection, request.home, project["path"])
    ]


def show_memory(request: PageRequest) -> PageContent:
    memory = _find_memory(request)
    if memory is None:
        return NOT_FOUND
    page, changes = memories.read_page(request.home, memory), file_changes.plan_approval(request, memory)
    is_edited = bool(page and page.is_edited)
    text = page.text if page else memory.text
    values = {
        "title": to_printable_line(text, 100),
        "memory": memory,
        "text": text,
        "page": page,
        "fault": "" if memory.id in _list_approved_numbers(request, memory) else _describe_fault(memory, page),
        "is_edited": is_edited,
        "words": file_changes.describe_changes([file_changes.FileChange("", memory.text, text)]) if is_edited else [],
        "may_approve": page is None or not memories.is_approved(request.connection, memory, page),
        "changes": file_changes.describe_changes(changes),
        "seen": _fingerprint_memory(request, memory),
        "session": views.find_session_number(request.connection, memory.session),
        **_find_neighbours(request, memory),
    }
    return PageContent("memory.html", values)


def _list_approved_numbers(request: PageRequest, memory: Memory) -> set[int]:
    return {page.number for page in memories.list_approved_pages(request.connection, request.home, memory.project)}


def _find_neighbours(request: PageRequest, memory: Memory) -> dict[str, int | None]:
    """The proposals before and behind this one, if it is one."""
    waiting_ids = [proposal.id for proposal in kept.list_memories(request.connection, "candidate")][::-1]
    if memory.id not in waiting_ids:
        return {"before": None, "behind": None}
    position = waiting_ids.index(memory.id)
    following_ids = waiting_ids[position + 1 : position + 2]
    return {
        "before": waiting_ids[position - 1] if position else None,
        "behind": following_ids[0] if following_ids else None,
    }


def show_editor(request: PageRequest) -> PageContent:
    memory = _find_memory(request)
    return _build_editor(request, memory) if memory and memory.status in ("candidate", "active") else NOT_FOUND


def save_changes(request: PageRequest) -> PageContent | Redirect:
    """Other words: of a proposal they are kept at once, of an approved one after a look at what that writes."""
    memory, text = _require_seen_memory(request), request.form.get("text", "").replace("\r\n", "\n")
    changes = file_changes.plan_rewording(request, memory, text) if memory.status == "active" else []
    if changes and not file_changes.is_agreed(request, memory, changes):
        return _build_confirmation(request, memory, changes, text)
    try:
        actions.reword_memory(request.connection, request.home, memory, text, VIEWER, request.now)
    except UserError as error:
        return _build_editor(request, memory, error)
    file_changes.refresh_brief(request, memory.project)
    message = "Changed, and told from now on." if changes else "Changed. It waits for you to approve it."
    return Redirect(f"/memory/{memory.id}", message)


def approve(request: PageRequest) -> Redirect:
    """Let it count: what that writes stood on the page that was agreed to."""
    memory = _require_seen_memory(request)
    next_location = _find_next_location(request, memory)
    _, path = actions.approve_memory(request.connection, request.home, memory, VIEWER, request.now)
    file_changes.refresh_brief(request, memory.project)
    return Redirect(next_location, f"Approved as memory {memory.id}: {path}")


def reject_or_retire(request: PageRequest) -> Redirect:
    """Reject what waits, retire what counts."""
    memory = _require_seen_memory(request)
    next_location = _find_next_location(request, memory)
    changed_memory = actions.reject_or_retire_memory(request.connection, request.home, memory, request.now)
    file_changes.refresh_brief(request, memory.project)
    file_note = ". Its file stays where it is" if memory.file else ""
    return Redirect(next_location, f"{changed_memory.status.capitalize()}: memory {memory.id}{file_note}.")


def show_file(request: PageRequest) -> PageContent:
    """A file in a repository that nobody approved here."""
    page = _find_file(request)
    if page is None:
        return NOT_FOUND
    values = {"title": os.path.basename(page.path), "page": page, "seen": file_changes.fingerprint_values(page)}
    return PageContent("memory_file.html", values)


def approve_file(request: PageRequest) -> Redirect:
    page = _find_file(request)
    if page is None or request.form.get("seen") != file_changes.fingerprint_values(page):
        raise UserError("the file is gone or says something else by now", "look at it again before you decide")
    memory = actions.adopt_memory_file(request.connection, request.home, page, VIEWER, request.now)
    file_changes.refresh_brief(request, page.project)
    return Redirect(f"/memory/{memory.id}", f"Approved as memory {memory.id}. It is told as it stands in its file.")


def _find_file(request: PageRequest) -> MemoryPage | None:
    project_id = parse_number(request.path_params, "project")
    pages = {(entry["project"], entry["name"]): entry["page"] for entry in _list_unapproved_files(request)}
    return pages.get((project_id, request.path_params["name"]))


def _find_memory(request: PageRequest) -> Memory | None:
    number = parse_number(request.path_params, "number")
    return None if number is None else kept.get(request.connection, number)


def _require_seen_memory(request: PageRequest) -> Memory:
    """The memory as the person saw it, with what its file says and what approving it would write."""
    memory = _find_memory(request)
    if memory is None or request.form.get("seen") != _fingerprint_memory(request, memory):
        raise UserError("the memory is gone or says something else by now", "look at it again before you decide")
    return memory


def _fingerprint_memory(request: PageRequest, memory: Memory) -> str:
    return file_changes.fingerprint_values(
        memory, memories.read_page(request.home, memory), file_changes.plan_approval(request, memory)
    )


def _find_next_location(request: PageRequest, memory: Memory) -> str:
    """Where to go when this one is decided about."""
    neighbours = _find_neighbours(request, memory)
    next_id = neighbours["behind"] or neighbours["before"]
    if memory.status != "candidate":
        return f"/memory/{memory.id}"
    return f"/memory/{next_id}" if next_id else "/memory"


def _build_editor(request: PageRequest, memory: Memory, error: UserError | None = None) -> PageContent:
    page = memories.read_page(request.home, memory)
    values = {
        "title": f"Edit memory {memory.id}",
        "label": "What to know",
        "hint": f"One thing, in a sentence or two; at most {memories.MAX_MEMORY_CHARS:,} characters.",
        "text": request.form.get("text", page.text if page else memory.text),
        "seen": _fingerprint_memory(request, memory),
        "action": f"/memory/{memory.id}/edit",
        "back": f"/memory/{memory.id}",
        "done": "Show what changes" if memory.status == "active" else "Save",
        "wrong": error,
    }
    return PageContent("text.html", values, 422 if error else 200)


def _build_confirmation(
    request: PageRequest, memory: Memory, changes: list[file_changes.FileChange], text: str
) -> PageContent:
    values = {
        "title": f"Change memory {memory.id}",
        "changes": file_changes.describe_changes(changes),
        "says": [],
        "sent": {
            "seen": _fingerprint_memory(request, memory),
            "agreed": file_changes.fingerprint_values(memory, *changes),
        },
        "text": text,
        "action": f"/memory/{memory.id}/edit",
        "back": f"/memory/{memory.id}",
        "done": "Write it",
        "wrong": None,
    }
    return PageContent("confirm.html", values)
