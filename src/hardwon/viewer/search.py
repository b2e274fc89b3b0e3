"""Search: as one types, with filters, and why each is found."""

from __future__ import annotations

import re
from functools import cache

from hardwon.core.words_of import words_of
from hardwon.recall import embed, indexing, records
from hardwon.recall.search import Found, Hit, search
from hardwon.store import views
from hardwon.store.documents import KINDS
from hardwon.viewer.ask import GONE, Ask, Moved, Shown, number

PAGE = 40
_FILTERS = ("project", "kind", "type", "host", "file")
_PLACES = {"L": "lessons", "M": "memory", "H": "handoffs"}  # of what people keep in files
_BEFORE = 0.000_01  # seconds: a timeline begins just before what is looked for


def page(ask: Ask) -> Shown:
    """The page; with `part`, only what was found."""
    asked = ask.query.get("q", "").strip()
    given = {name: ask.query.get(name, "") for name in _FILTERS}
    found = Found(())
    if asked or any(given.values()):
        found = search(
            ask.connection, ask.home, asked, project=_path(ask, given["project"]),
            kinds=(given["kind"],) if given["kind"] else (), type=given["type"], host=given["host"],
            file=given["file"], limit=PAGE, now=ask.now, model=_model(),
        )  # fmt: skip
    values = {
        "title": "Search",
        "asked": asked,
        "given": given,
        "searched": bool(asked or any(given.values())),
        "hits": [_marked(hit, asked) for hit in found.hits],
        "close": [_marked(hit, asked) for hit in found.close],
        "note": found.note,
        "projects": views.projects(ask.connection),
        "hosts": views.hosts(ask.connection),
        "kinds": [kind.name for kind in KINDS.values()],
    }
    return Shown("_hits.html" if "part" in ask.query else "search.html", values)


def place(ask: Ask) -> Shown | Moved:
    """Where something that was found stands."""
    parsed = records.parse_id(ask.path["id"])
    if parsed is None:
        return GONE
    kind, row, name = parsed
    if not kind.table:
        return Moved(f"/{_PLACES[kind.letter]}/{name}")
    held = views.place_of(ask.connection, kind.table, row)
    if held is None:
        return GONE
    session, at = held
    if kind.letter == "S":
        return Moved(f"/sessions/{session}")
    return Moved(f"/sessions/{session}?after={max(at - _BEFORE, 0):.7f}-0-0#{kind.letter}{row}")


def _path(ask: Ask, given: str) -> str:
    known = number({"id": given}, "id")
    return next((one["path"] for one in views.projects(ask.connection) if one["id"] == known), "")


@cache
def _model() -> embed.Model | None:
    return indexing.model_or_none()


def _marked(hit: Hit, asked: str) -> dict[str, object]:
    """A hit with the stretches of its title and text that were asked for."""
    words = [re.escape(word[: max(len(word) - 2, 3)]) for word in words_of(asked, asked=True)]
    pattern = re.compile(rf"(?<!\w)(?:{'|'.join(words)})\w*", re.I) if words else None
    spans = {
        name: [found.span() for found in pattern.finditer(text)] if pattern else []
        for name, text in (("title", hit.title), ("text", hit.text))
    }
    return {"hit": hit, "spans": spans}
