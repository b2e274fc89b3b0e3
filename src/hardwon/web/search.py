"""The page Search: results as one types, with filters and the reason why each was found."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hardwon.search import indexing, records
from hardwon.search.search import Hit, SearchResult, search_records
from hardwon.store import views
from hardwon.store.documents import DOCUMENT_KINDS
from hardwon.text.words import extract_words
from hardwon.web.page_request import PageContent, PageNotFound, PageRequest, Redirect, parse_day_range

PAGE_SIZE = 40
_FILE_PAGES = {"L": "lessons", "M": "memory", "H": "handoffs"}  # the records that are files, not rows
_MAX_TITLE_CHARS, _MAX_TEXT_CHARS = 300, 600
_TIMELINE_MARGIN = 0.000_01  # seconds before a record, so that the timeline begins with it
_NAME_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W_A-Za-z0-9]+")  # of a camelCase or snake_case name


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
    words = extract_words(query_text, is_query=True)
    values = {
        "title": "Search",
        "query_text": query_text,
        "filters": filters,
        "is_searched": is_searched,
        "hits": [_highlight_hit(hit, words) for hit in result.hits],
        "close": [_highlight_hit(hit, words) for hit in result.close],
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
    text = hit.text[:_MAX_TEXT_CHARS]
    spans = {"title": find_match_spans(title, words), "text": find_match_spans(text, words)}
    return {"hit": hit, "title": title, "text": text, "spans": spans}


def find_match_spans(text: str, words: Sequence[str]) -> list[tuple[int, int]]:
    """Return the spans of these words in a text, to highlight them.

    Words match as in the index: also as parts of identifiers, with other endings, and anywhere in scripts without
    spaces.
    """
    unspaced_words = [word for word in words if not word.isascii() and word.lower() == word.upper()]
    stems = tuple(word[: max(len(word) - 2, 3)] for word in words if word not in unspaced_words)
    spans = list[tuple[int, int]]()
    for word in unspaced_words:  # they are pairs of characters, which overlap
        spans += [(match.start(), match.start() + len(word)) for match in re.finditer(f"(?={re.escape(word)})", text)]
    for name in re.finditer(r"\w+", text):
        if name[0].replace("_", "").lower().startswith(stems):
            spans.append(name.span())
        else:
            parts = _NAME_PART.finditer(text, *name.span())
            spans += [part.span() for part in parts if part[0].lower().startswith(stems)]
    return _merge_spans(sorted(spans))


def _merge_spans(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in spans:
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
