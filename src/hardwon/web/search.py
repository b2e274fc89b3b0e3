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
_FILTERS = ("project", "kind", "type", "concept", "host", "file", "since", "until")
_PLACES = {"L": "lessons", "M": "memory", "H": "handoffs"}  # of what people keep in files
_TITLE, _TEXT = 300, 600  # characters shown of a hit
_BEFORE = 0.000_01  # seconds: a timeline begins just before what is looked for
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W_A-Za-z0-9]+")  # of a name, which humps or signs part


def show_search(ask: PageRequest) -> PageContent:
    """The page; with `part`, only what was found."""
    asked = ask.query.get("q", "").strip()
    given = {name: ask.query.get(name, "") for name in _FILTERS}
    projects, found = views.list_projects(ask.connection), SearchResult(())
    project = next((one["path"] for one in projects if str(one["id"]) == given["project"]), "")
    if given["project"] and not project:
        return NOT_FOUND
    if asked or any(given.values()):
        since, until = parse_day_range(given)
        found = search_records(
            ask.connection,
            ask.home,
            asked,
            project=project,
            kinds=(given["kind"],) if given["kind"] else (),
            type=given["type"],
            concept=given["concept"],
            host=given["host"],
            file=given["file"],
            since=since or 0.0,
            until=until or 0.0,
            limit=PAGE_SIZE,
            now=ask.now,
            model=indexing.load_model_or_none(),
        )
    words = extract_words(asked, is_query=True)
    values = {
        "title": "Search",
        "asked": asked,
        "given": given,
        "searched": bool(asked or any(given.values())),
        "hits": [_marked(hit, words) for hit in found.hits],
        "close": [_marked(hit, words) for hit in found.close],
        "note": found.note,
        "projects": projects,
        "hosts": views.list_agents(ask.connection),
        "kinds": [kind.name for kind in DOCUMENT_KINDS.values()],
    }
    return PageContent("_hits.html" if "part" in ask.query else "search.html", values)


def redirect_to_record(ask: PageRequest) -> PageContent | Redirect:
    """Where something that was found stands."""
    parsed = records.parse_id(ask.path_params["id"])
    if parsed is None:
        return NOT_FOUND
    kind, row, name = parsed
    if not kind.table:
        return Redirect(f"/{_PLACES[kind.letter]}/{name}")
    held = views.find_session_and_time(ask.connection, kind.table, row)
    if held is None:
        return NOT_FOUND
    session, at = held
    if kind.letter == "S":
        return Redirect(f"/sessions/{session}")
    return Redirect(f"/sessions/{session}?after={max(at - _BEFORE, 0):.7f}-0-0#{kind.letter}{row}")


def _marked(hit: Hit, words: Sequence[str]) -> dict[str, object]:
    """A hit, and of its title and text what is shown, with the stretches that were asked for."""
    title, text = hit.title[:_TITLE], hit.text[:_TEXT]
    spanned = {"title": find_match_spans(title, words), "text": find_match_spans(text, words)}
    return {"hit": hit, "title": title, "text": text, "spans": spanned}


def find_match_spans(text: str, words: Sequence[str]) -> list[tuple[int, int]]:
    """Where a text has these words, as the index has them: the parts of a name, and signs of scripts without blanks
    wherever they stand."""
    signs = [word for word in words if not word.isascii() and word.lower() == word.upper()]
    found = [
        (it.start(), it.start() + len(word)) for word in signs for it in re.finditer(f"(?={re.escape(word)})", text)
    ]
    stems = [(word[: max(len(word) - 2, 3)], len(word)) for word in words if word not in signs]
    for run in re.finditer(r"\w+", text):
        low, parts = run[0].replace("_", "").lower(), [it.span() for it in _PART.finditer(text, *run.span())]
        first = parts[0][1] - parts[0][0] if parts else 0
        if any(low.startswith(stem) and length > first for stem, length in stems):
            found.append(run.span())
        else:
            found += [it for it in parts if any(text[slice(*it)].lower().startswith(stem) for stem, _ in stems)]
    return _joined(sorted(found))


def _joined(found: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Stretches, those that touch as one."""
    joined: list[tuple[int, int]] = []
    for start, end in found:
        if joined and start <= joined[-1][1]:
            first, before = joined.pop()
            joined.append((first, max(end, before)))
        else:
            joined.append((start, end))
    return joined
