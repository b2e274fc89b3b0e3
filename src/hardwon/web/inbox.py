"""The inbox: everything that waits for a person's decision, in one list that the decisions lead through."""

from __future__ import annotations

from dataclasses import dataclass

from hardwon.actions.team_decisions import list_waiting, open_team
from hardwon.handoff.handoffs import read_page
from hardwon.lessons import manifest, review_queue
from hardwon.store.memories import list_memories
from hardwon.store.reflections import DRAFT, list_reflections
from hardwon.web.page_request import PageContent, PageRequest

_MAX_LISTED = 300


@dataclass(frozen=True, slots=True)
class InboxItem:
    """Something to decide, labelled as at the command line: L3 is a lesson, M3 a memory, H3 a handoff."""

    label: str
    kind: str
    path: str
    text: str
    detail: str = ""
    project: str = ""


@dataclass(frozen=True, slots=True)
class InboxPlace:
    """The place of an item in the inbox, and the pages of its neighbours; empty where there is none."""

    number: int
    total: int
    previous: str = ""
    following: str = ""


def show_inbox(request: PageRequest) -> PageContent:
    """Show everything that waits for a decision, and what somebody changed in lessons.json by hand."""
    items = list_inbox(request)
    values = {
        "title": "Inbox",
        "items": items[:_MAX_LISTED],
        "omitted": len(items[_MAX_LISTED:]),
        "changes": manifest.gather_lessons(request.home).waiting,
        "may_undo": bool(request.browser_session.decided_ids),
    }
    return PageContent("inbox.html", values)


def list_inbox(request: PageRequest) -> list[InboxItem]:
    """Return lessons first, those that would have stopped the most repeats before others, then the rest."""
    items = []
    for candidate in review_queue.list_waiting(request.home, request.connection):
        items.append(
            InboxItem(
                label=f"L{candidate.number}",
                kind="Lesson",
                path=f"/review/{candidate.number}",
                text=candidate.record["summary"],
                detail=candidate.record.get("solution", ""),
                project="".join(candidate.projects) if len(candidate.projects) == 1 else "",
            )
        )
    for memory in reversed(list_memories(request.connection, "candidate")):
        path = f"/memory/{memory.id}"
        items.append(InboxItem(f"M{memory.id}", "Memory", path, memory.text, project=memory.project))
    for reflection in list_reflections(request.connection, DRAFT, limit=_MAX_LISTED):
        source = read_page(reflection) or reflection
        path = f"/handoffs/{reflection.id}"
        items.append(InboxItem(f"H{reflection.id}", "Handoff", path, source.topic, project=reflection.project))
    if team := open_team(request.home, request.connection):
        for arrival in list_waiting(team):
            name = arrival.version.hash
            author = f"by {arrival.author}"
            items.append(InboxItem(name[:8], "Team", f"/team/{name}", arrival.title, detail=author))
    return items


def find_place(request: PageRequest, path: str) -> InboxPlace:
    """Return where the page of an item is in the inbox; number 0 if it is decided."""
    paths = [item.path for item in list_inbox(request)]
    if path not in paths:
        return InboxPlace(number=0, total=len(paths))
    position = paths.index(path)
    previous = paths[position - 1] if position else ""
    following = paths[position + 1] if position + 1 < len(paths) else ""
    return InboxPlace(position + 1, len(paths), previous, following)


def find_next_path(request: PageRequest, path: str) -> str:
    """Return the page to go to once this item is decided: the next one, or else the first that was skipped."""
    place = find_place(request, path)
    if place.following:
        return place.following
    for item in list_inbox(request):
        if item.path != path:
            return item.path
    return "/inbox"
