"""The page Search: results as one types, with filters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hardwon.search import indexing, recalled_text, records
from hardwon.search.search import Hit, search_records
from hardwon.search.words import find_marks, split_query
from hardwon.store import views
from hardwon.store.documents import DOCUMENT_KINDS, HANDOFF, LESSON, MEMORY, SUMMARY
from hardwon.text.excerpts import ELLIPSIS, shorten_line
from hardwon.web.page_request import PageContent, PageNotFound, PageRequest, Redirect, parse_day_range

_PAGE_SIZE = 40
_FILE_PAGES = {LESSON: "lessons", MEMORY: "memory", HANDOFF: "handoffs"}  # the records that are files, not rows
_MAX_TITLE_CHARS = 160
_TIMELINE_MARGIN = 0.000_01  # seconds before a record, so that the timeline begins with it


def show_search(request: PageRequest) -> PageContent:
    """Show the form, then the results; with `part`, only the results."""
    query_text = request.query.get("q", "").strip()
    filters = request.get_filters("project", "kind", "type", "concept", "host", "file", "since", "until")
    projects = views.list_projects(request.connection)
    project = ""  # every project
    if filters["project"]:
        paths = [row["path"] for row in projects if str(row["id"]) == filters["project"]]
        project = paths[0] if paths else ""
        if not project:
            raise PageNotFound

    def read_results() -> PageContent:
        return _read_results(request, query_text, filters, project)

    if "part" in request.query:
        return read_results()
    is_searched = bool(query_text or any(filters.values()))
    values = {
        "title": "Search",
        "query_text": query_text,
        "filters": filters,
        "is_searched": is_searched,
        "projects": projects,
        "hosts": views.list_agents(request.connection),
        "kinds": [kind.name for kind in DOCUMENT_KINDS.values()],
    }
    # At 100,000 events the results take 240 ms; the page is painted before them, as fast as an empty one.
    return PageContent("search.html", values, read_late_part=read_results if is_searched else None)


def _read_results(request: PageRequest, query_text: str, filters: Mapping[str, str], project: str) -> PageContent:
    """Return the results as the part of a page; an empty part if nothing was asked."""
    if not query_text and not any(filters.values()):
        return PageContent("_hits.html", {"is_searched": False})
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
        limit=_PAGE_SIZE,
        now=request.now,
        model=indexing.load_model_or_none(),
    )
    words = split_query(query_text)
    notes = (result.note, recalled_text.format_unmatched(result.unmatched))
    values = {
        "is_searched": True,
        "hits": [_highlight_hit(hit, words) for hit in result.hits],
        "period": result.period,
        "note": "; ".join(note for note in notes if note),
    }
    return PageContent("_hits.html", values)


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
    if kind.letter == SUMMARY:
        return Redirect(f"/sessions/{session}")
    return Redirect(f"/sessions/{session}?after={max(at - _TIMELINE_MARGIN, 0):.7f}-0-0#{kind.letter}{row}")


def _highlight_hit(hit: Hit, words: Sequence[str]) -> dict[str, object]:
    """Return a hit as the page shows it: the title ends with a word, and the text goes on where the title ends."""
    title = shorten_line(hit.title, _MAX_TITLE_CHARS)
    text = hit.text
    marks = hit.marks
    beginning = title.removesuffix(ELLIPSIS).rstrip()
    if text.startswith(beginning):
        offset = len(beginning)
        text = text[offset:]
        marks = tuple((start - offset, end - offset) for start, end in marks if start >= offset)
    elif " ".join(text.split()) == title:
        text = ""
        marks = ()
    return {
        "hit": hit,
        "title": title,
        "title_marks": find_marks(title, words),
        "text": text,
        "text_marks": marks,
        "label": records.get_type_label(hit.kind, hit.type),
    }
