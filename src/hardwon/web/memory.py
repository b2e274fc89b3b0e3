"""The page Memory: what agents are told to know, what was proposed, and what is no longer told."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from typing import Any

from hardwon.actions.memories import adopt_memory_file, approve_memory, reject_or_retire_memory, reword_memory
from hardwon.errors import UserError
from hardwon.memories import memories
from hardwon.memories.memory_files import MemoryPage
from hardwon.search import brief
from hardwon.store import views
from hardwon.store.memories import get_memory, list_memories
from hardwon.text.characters import to_printable_line
from hardwon.types import MEMORY_TYPES, STATUSES, Memory
from hardwon.web.file_changes import (
    FileChange,
    build_confirmation,
    describe_changes,
    is_agreed,
    plan_approval,
    plan_rewording,
)
from hardwon.web.inbox import find_next_path, find_place
from hardwon.web.page_request import (
    PageContent,
    PageNotFound,
    PageRequest,
    Redirect,
    fingerprint_values,
    parse_number,
)

MAX_LISTED = 100  # rows of a page; five hundred take a browser 200 ms longer to paint
_MAX_PROJECTS = 50  # whose repositories are searched for unapproved files


def show_memory_list(request: PageRequest) -> PageContent:
    """Show the memories of one status; beside proposals also the files in repositories that nobody approved here."""
    filters = request.get_filters("type", "project")
    status = request.choose("status", ("active", *STATUSES))
    all_memories = list_memories(request.connection)
    listed_memories = []
    for memory in reversed(all_memories):  # newest first
        has_type = filters["type"] in ("", memory.type)
        has_project = filters["project"] in ("", memory.project or "*")
        if memory.status == status and has_type and has_project:
            listed_memories.append(memory)
    if status == "active":
        listed_memories.sort(key=lambda memory: MEMORY_TYPES.index(memory.type))
    first = parse_number(request.query, "from") or 0
    files = _list_unapproved_files(request)
    is_filtered = any(filters.values())
    values = {
        "title": "Memory",
        "status": status,
        "counts": Counter(memory.status for memory in all_memories),
        "filters": filters,
        "filtered": is_filtered,
        "types": MEMORY_TYPES,
        "projects": sorted({memory.project for memory in all_memories if memory.project}),
        "memories": _build_rows(request, status, listed_memories[first : first + MAX_LISTED]),
        "next_first": first + MAX_LISTED if len(listed_memories) > first + MAX_LISTED else 0,
        "listed_count": len(listed_memories),
        "files": files if status == "candidate" and not is_filtered else [],
        "unapproved": len(files),
    }
    return PageContent("memories.html", values)


def _build_rows(request: PageRequest, status: str, listed_memories: Sequence[Memory]) -> list[dict[str, Any]]:
    """Return each memory with the text of its file, and why agents are not told it."""
    approved_pages = dict[int, MemoryPage]()
    if status == "active":
        approved_pages = {page.number: page for page in memories.list_approved_pages(request.connection, request.home)}
    rows = []
    for memory in listed_memories:
        page = approved_pages.get(memory.id)
        fault = ""
        if page is None:
            page = memories.read_page(request.home, memory)
            fault = memories.find_untold_reason(request.connection, memory, page)
        rows.append({"memory": memory, "text": page.text if page else memory.text, "fault": fault})
    return rows


def _list_unapproved_files(request: PageRequest) -> list[dict[str, Any]]:
    """Return the memory files in the latest projects' repositories that nobody approved here."""
    files = []
    for project in views.list_projects(request.connection, limit=_MAX_PROJECTS):
        for page in memories.list_unapproved_pages(request.connection, request.home, project["path"]):
            files.append({"page": page, "project": project["id"], "name": os.path.basename(page.path)})
    return files


def show_memory(request: PageRequest) -> PageContent:
    """Show a memory as its file says it, how that differs from what was approved, and what approving would write.

    Without a file only the words in the database are shown.
    """
    memory = _find_memory(request)
    page = memories.read_page(request.home, memory)
    text = page.text if page else memory.text
    is_edited = page is not None and page.is_edited
    values = {
        "title": to_printable_line(text, 100),
        "memory": memory,
        "text": text,
        "page": page,
        "fault": memories.find_untold_reason(request.connection, memory, page),
        "edits": describe_changes([FileChange(path="", old_text=memory.text, new_text=text)]) if is_edited else [],
        "may_approve": page is None or not memories.is_approved(request.connection, memory, page),
        "changes": describe_changes(plan_approval(request, memory)),
        "seen": _fingerprint_memory(request, memory),
        "session": views.find_session_number(request.connection, memory.session),
        "place": find_place(request, f"/memory/{memory.id}"),
    }
    return PageContent("memory.html", values)


def show_editor(request: PageRequest) -> PageContent:
    memory = _find_memory(request)
    if memory.status not in ("candidate", "active"):
        raise PageNotFound
    return _build_editor(request, memory)


def save_changes(request: PageRequest) -> PageContent | Redirect:
    """Reword a proposal at once, and an approved memory once the person has seen the changes to files and agreed."""
    memory = _require_seen_memory(request)
    text = request.form.get("text", "").replace("\r\n", "\n")
    location = f"/memory/{memory.id}"
    changes = plan_rewording(request, memory, text) if memory.status == "active" else []
    if changes and not is_agreed(request, memory, changes):
        return build_confirmation(
            request,
            memory,
            changes,
            title=f"Change memory M{memory.id}",
            action=f"{location}/edit",
            button="Write it",
            text=text,
            fingerprint=_fingerprint_memory(request, memory),
        )
    try:
        reword_memory(request.open_decider(), memory, text)
    except UserError as error:
        return _build_editor(request, memory, error)
    brief.renew_briefs(request.connection, request.home, memory.project)
    return Redirect(location, "Changed and in use." if changes else "Changed. It still needs your approval.")


def approve(request: PageRequest) -> Redirect:
    """Approve a memory; its page showed what that writes."""
    memory = _require_seen_memory(request)
    location = _find_next_location(request, memory)  # before it leaves the queue
    _, path = approve_memory(request.open_decider(), memory)
    brief.renew_briefs(request.connection, request.home, memory.project)
    return Redirect(location, f"Approved as memory M{memory.id}: {path}")


def reject_or_retire(request: PageRequest) -> Redirect:
    """Reject a proposal, or retire an approved memory."""
    memory = _require_seen_memory(request)
    location = _find_next_location(request, memory)
    changed_memory = reject_or_retire_memory(request.open_decider(), memory)
    brief.renew_briefs(request.connection, request.home, memory.project)
    file_note = " Its file stays where it is." if memory.file else ""
    return Redirect(location, f"{changed_memory.status.capitalize()}: memory M{memory.id}.{file_note}")


def show_file(request: PageRequest) -> PageContent:
    """Show a file in a repository that nobody approved here."""
    page = _find_file(request)
    values = {"title": os.path.basename(page.path), "page": page, "seen": fingerprint_values(page)}
    return PageContent("memory_file.html", values)


def approve_file(request: PageRequest) -> Redirect:
    """Approve a file of a repository as a memory, with the text that the page showed."""
    page = _find_file(request)
    request.require_seen(fingerprint_values(page), "file")
    memory = adopt_memory_file(request.open_decider(), page)
    brief.renew_briefs(request.connection, request.home, page.project)
    return Redirect(f"/memory/{memory.id}", f"Approved as memory M{memory.id}, as its file says it.")


def _find_file(request: PageRequest) -> MemoryPage:
    """Return the unapproved file that the path names; only listed ones, so that no other file can be named."""
    project_id = parse_number(request.path_params, "project")
    for file in _list_unapproved_files(request):
        if file["project"] == project_id and file["name"] == request.path_params["name"]:
            page: MemoryPage = file["page"]
            return page
    raise PageNotFound


def _find_memory(request: PageRequest) -> Memory:
    memory = get_memory(request.connection, request.get_number())
    if memory is None:
        raise PageNotFound
    return memory


def _require_seen_memory(request: PageRequest) -> Memory:
    """Return the memory; refuse if it is no longer as the person's page showed it."""
    memory = _find_memory(request)
    request.require_seen(_fingerprint_memory(request, memory), "memory")
    return memory


def _fingerprint_memory(request: PageRequest, memory: Memory) -> str:
    """Return a fingerprint of a memory, its file and what approving it would write."""
    return fingerprint_values(memory, memories.read_page(request.home, memory), plan_approval(request, memory))


def _find_next_location(request: PageRequest, memory: Memory) -> str:
    """Return the page to go to when this memory is decided."""
    path = f"/memory/{memory.id}"
    return find_next_path(request, path) if memory.status == "candidate" else path


def _build_editor(request: PageRequest, memory: Memory, error: UserError | None = None) -> PageContent:
    """Build the form for a memory's text, with what was typed before if that was refused with this error."""
    page = memories.read_page(request.home, memory)
    values = {
        "title": f"Edit memory M{memory.id}",
        "label": "What to know",
        "hint": f"One thing, in a sentence or two; at most {memories.MAX_MEMORY_CHARS:,} characters.",
        "text": request.form.get("text", page.text if page else memory.text),
        "seen": _fingerprint_memory(request, memory),
        "action": f"/memory/{memory.id}/edit",
        "back": f"/memory/{memory.id}",
        "done": "Show changes" if memory.status == "active" else "Save",
        "wrong": error,
    }
    return PageContent("text.html", values, 422 if error else 200)
