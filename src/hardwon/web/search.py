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
_NAME_PART = r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W_A-Za-z0-9]+"  # of an identifier, split at humps and underscores


def show_search(request: PageRequest) -> PageContent:
    """Show the page; with `part`, only the results."""
    query_text = request.query.get("q", "").strip()
    filters = request.get_filters("project", "kind", "type", "concept", "host", "file", "since", "until")
    projects = views.list_projects(request.connection)
    project = next((row["path"] for row in projects if str(row["id"]) == filters["project"]), "")
    if filters["project"] and not project:
        raise PageNotFound
    result, is_searched = SearchResult(()), bool(query_text or any(filters.values()))
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
    title, text = hit.title[:_MAX_TITLE_CHARS], hit.text[:_MAX_TEXT_CHARS]
    spans = {"title": find_match_spans(title, words), "text": find_match_spans(text, words)}
    return {"hit": hit, "title": title, "text": text, "spans": spans}


def find_match_spans(text: str, words: Sequence[str]) -> list[tuple[int, int]]:
    """Return where a text has these words as the index has them: also as parts of identifiers, with other endings, and
    anywhere in scripts without spaces."""
    spans = list[tuple[int, int]]()
    stems = list[tuple[str, int]]()
    for word in words:
        if not word.isascii() and word.lower() == word.upper():  # such as Japanese
            spans += [match.span() for match in re.finditer(re.escape(word), text)]
        else:
            stems.append((word[: max(len(word) - 2, 3)], len(word)))
    for name in re.finditer(r"\w+", text):
        parts = [part.span() for part in re.finditer(_NAME_PART, name[0])]
        first_length = parts[0][1] if parts else 0
        lowered = name[0].replace("_", "").lower()
        if any(lowered.startswith(stem) and length > first_length for stem, length in stems):
            spans.append(name.span())
            continue
        for start, end in parts:
            if any(name[0][start:end].lower().startswith(stem) for stem, _ in stems):
                spans.append((name.start() + start, name.start() + end))
    return _merge_spans(sorted(spans))


def _merge_spans(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in spans:
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
