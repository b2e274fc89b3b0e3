"""The page Search: results as one types, with filters and the reason why each was found."""

from __future__ import annotations

from collections.abc import Sequence

from hardwon.search import indexing, records
from hardwon.search.matches import find_marks, split_query
from hardwon.search.search import Hit, SearchResult, search_records
from hardwon.store import views
from hardwon.store.documents import DOCUMENT_KINDS
from hardwon.web.page_request import PageContent, PageNotFound, PageRequest, Redirect, parse_day_range

PAGE_SIZE = 40
_FILE_PAGES = {"L": "lessons", "M": "memory", "H": "handoffs"}  # the records that are files, not rows
_MAX_TITLE_CHARS = 300
_TIMELINE_MARGIN = 0.000_01  # seconds before a record, so that the timeline begins with it


def show_search(request: PageRequest) -> PageContent:
    """Show the page; with `part`, only the results."""
    query_text = request.query.get("q", "").strip()
    filters = request.get_filters("project", "kind", "type", "concept", "host", "file", "since", "until")
    projects = views.list_projects(request.connection)
    project = next((row["path"] for row in projects if str(row["id"]) == filters["project"]), "")
    if filters["project"] and not project:
        raise PageNotFound
    result = SearchResult(())
    is_searched = bool(query_text or any(filters.values()))
    if is_searched:
        since, until = parse_day_range(filters)
        result = search_records(
            request.connection,
            request.home,
            query_text,
            project=project,
            kinds=(filters["kind"],) if filters["kind"] else (),
            type=filters["type"],
            concept=filters["concept"],
            host=filters["host"],
            file=filters["file"],
            since=since or 0.0,
            until=until or 0.0,
            limit=PAGE_SIZE,
            now=request.now,
            model=indexing.load_model_or_none(),
        )
    words = split_query(query_text)
    values = {
        "title": "Search",
        "query_text": query_text,
        "filters": filters,
        "is_searched": is_searched,
        "hits": [_highlight_hit(hit, words) for hit in result.hits],
        "period": result.period,
        "note": result.note,
        "projects": projects,
        "hosts": views.list_agents(request.connection),
        "kinds": [kind.name for kind in DOCUMENT_KINDS.values()],
    }
    return PageContent("_hits.html" if "part" in request.query else "search.html", values)


def redirect_to_record(request: PageRequest) -> Redirect:
    """Go to the page that shows a record."""
    parsed = records.parse_id(request.path_params["id"])
    if parsed is None:
        raise PageNotFound
    kind, row, name = parsed
    if not kind.table:
        return Redirect(f"/{_FILE_PAGES[kind.letter]}/{name}")
    location = views.find_session_and_time(request.connection, kind.table, row)
    if location is None:
        raise PageNotFound
    session, at = location
    if kind.letter == "S":
        return Redirect(f"/sessions/{session}")
    return Redirect(f"/sessions/{session}?after={max(at - _TIMELINE_MARGIN, 0):.7f}-0-0#{kind.letter}{row}")


def _highlight_hit(hit: Hit, words: Sequence[str]) -> dict[str, object]:
    title = hit.title[:_MAX_TITLE_CHARS]
    spans = {"title": find_marks(title, words), "text": hit.marks}
    return {"hit": hit, "title": title, "spans": spans, "label": records.get_type_label(hit.kind, hit.type)}
