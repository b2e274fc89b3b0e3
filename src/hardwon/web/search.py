"""Search: as one types, with filters, and why each is found."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hardwon.search import indexing, records
from hardwon.search.search import Hit, SearchResult, search_records
from hardwon.store import views
from hardwon.store.documents import DOCUMENT_KINDS
from hardwon.text.words import extract_words
from hardwon.web.page_request import NOT_FOUND, PageContent, PageRequest, Redirect, parse_day_range

PAGE_SIZE = 40
_FILTER_NAMES = ("project", "kind", "type", "concept", "host", "file", "since", "until")
_KIND_PATHS = {"L": "lessons", "M": "memory", "H": "handoffs"}  # of what people keep in files
_MAX_TITLE_CHARS, _MAX_TEXT_CHARS = 300, 600  # characters shown of a hit
_TIMELINE_MARGIN = 0.000_01  # seconds: a timeline begins just before what is looked for
_NAME_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W_A-Za-z0-9]+")  # of a name, which humps or signs part


def show_search(request: PageRequest) -> PageContent:
    """The page; with `part`, only what was found."""
    query_text = request.query.get("q", "").strip()
    filters = {name: request.query.get(name, "") for name in _FILTER_NAMES}
    projects, result = views.list_projects(request.connection), SearchResult(())
    project = next((row["path"] for row in projects if str(row["id"]) == filters["project"]), "")
    if filters["project"] and not project:
        return NOT_FOUND
    if query_text or any(filters.values()):
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
        "asked": query_text,
        "given": filters,
        "searched": bool(query_text or any(filters.values())),
        "hits": [_highlight_hit(hit, words) for hit in result.hits],
        "close": [_highlight_hit(hit, words) for hit in result.close],
        "note": result.note,
        "projects": projects,
        "hosts": views.list_agents(request.connection),
        "kinds": [kind.name for kind in DOCUMENT_KINDS.values()],
    }
    return PageContent("_hits.html" if "part" in request.query else "search.html", values)


def redirect_to_record(request: PageRequest) -> PageContent | Redirect:
    """Where something that was found stands."""
    parsed = records.parse_id(request.path_params["id"])
    if parsed is None:
        return NOT_FOUND
    kind, row, name = parsed
    if not kind.table:
        return Redirect(f"/{_KIND_PATHS[kind.letter]}/{name}")
    location = views.find_session_and_time(request.connection, kind.table, row)
    if location is None:
        return NOT_FOUND
    session, at = location
    if kind.letter == "S":
        return Redirect(f"/sessions/{session}")
    return Redirect(f"/sessions/{session}?after={max(at - _TIMELINE_MARGIN, 0):.7f}-0-0#{kind.letter}{row}")


def _highlight_hit(hit: Hit, words: Sequence[str]) -> dict[str, object]:
    """A hit, and of its title and text what is shown, with the stretches that were asked for."""
    title, text = hit.title[:_MAX_TITLE_CHARS], hit.text[:_MAX_TEXT_CHARS]
    spans = {"title": find_match_spans(title, words), "text": find_match_spans(text, words)}
    return {"hit": hit, "title": title, "text": text, "spans": spans}


def find_match_spans(text: str, words: Sequence[str]) -> list[tuple[int, int]]:
    """Where a text has these words, as the index has them: the parts of a name, and signs of scripts without blanks
    wherever they stand."""
    unspaced_words = [word for word in words if not word.isascii() and word.lower() == word.upper()]
    spans = [
        (piece.start(), piece.start() + len(word))
        for word in unspaced_words
        for piece in re.finditer(f"(?={re.escape(word)})", text)
    ]
    stems = [(word[: max(len(word) - 2, 3)], len(word)) for word in words if word not in unspaced_words]
    for word_match in re.finditer(r"\w+", text):
        lowered, parts = (
            word_match[0].replace("_", "").lower(),
            [piece.span() for piece in _NAME_PART.finditer(text, *word_match.span())],
        )
        first_length = parts[0][1] - parts[0][0] if parts else 0
        if any(lowered.startswith(stem) and length > first_length for stem, length in stems):
            spans.append(word_match.span())
        else:
            spans += [
                piece for piece in parts if any(text[slice(*piece)].lower().startswith(stem) for stem, _ in stems)
            ]
    return _merge_spans(sorted(spans))


def _merge_spans(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Stretches, those that touch as one."""
    merged: list[tuple[int, int]] = []
    for start, end in spans:
        if merged and start <= merged[-1][1]:
            previous_start, previous_end = merged.pop()
            merged.append((previous_start, max(end, previous_end)))
        else:
            merged.append((start, end))
    return merged
