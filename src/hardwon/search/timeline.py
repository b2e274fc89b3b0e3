"""What happened around something: what was asked, observed and summed up before and after it, in its project."""

from __future__ import annotations

from typing import Any

from hardwon.search import embedding, records
from hardwon.search.search import search
from hardwon.store import search as index
from hardwon.store.db import Connection
from hardwon.store.documents import EVERYWHERE, Kind, rows_of
from hardwon.text.words import mark
from hardwon.types import word

KINDS = ("O", "S", "P", "H")


@word
class Timeline:
    """Records in the order of time, the anchor among them; `note` says why there are none."""

    anchor: str
    records: tuple[dict[str, Any], ...]
    note: str = ""


def timeline(
    connection: Connection,
    home: str,
    *,
    anchor: str = "",
    query: str = "",
    before: int = 10,
    after: int = 10,
    type: str = "",
    project: str = "",
    now: float,
    model: embedding.Model | None = None,
) -> Timeline:
    """What lies around an id, or around the best answer to a question, or else before now."""
    if not anchor and query.strip():
        kinds = list(KINDS)
        found = search(connection, home, query, project=project, kinds=kinds, limit=1, now=now, model=model)
        if not found.hits:
            return Timeline("", (), f"nothing was found for {query!r}")
        anchor = found.hits[0].id
    if not anchor:
        return _latest(connection, home, project, type, before, now)
    if anchor.isascii() and anchor.isdigit():
        anchor = f"O{anchor}"  # a number alone is an observation's, as it is when records are fetched
    parsed = records.parse_id(anchor)
    place = _place(connection, *parsed) if parsed else None
    if not parsed or not place or (project and place[0] not in (*index.numbers_of(connection, project), EVERYWHERE)):
        return Timeline("", (), f"there is no {anchor}" + (" in this project" if project else ""))
    own = records.id_of(parsed[0].letter, *parsed[1:])
    earlier = _side(connection, home, *place, own, type, before, is_before=True)
    later = _side(connection, home, *place, own, type, after, is_before=False)
    return Timeline(own, (*reversed(earlier), *records.fetch(connection, home, [own]), *later))


def _place(connection: Connection, kind: Kind, row: int, name: str) -> tuple[int, float] | None:
    """The project and the time of a record, also of one that is in no index."""
    if kind.table:
        return next(((one["project_number"], one["at"]) for one in rows_of(connection, kind, [row])), None)
    held = index.by_source(connection, kind.letter, row, name)
    return (held["project"], held["at"]) if held else None


def _side(
    connection: Connection, home: str, project: int, at: float, own: str, type: str, limit: int, *, is_before: bool
) -> list[dict[str, Any]]:
    """The nearest on one side of a time, without the anchor itself."""
    match = index.asked([mark("t", type)]) if type else ""
    rows = index.around(connection, project, at, kinds=KINDS, before=is_before, limit=limit + 1, match=match)
    ids = [records.id_of(one["kind"], one["row"], one["name"]) for one in rows]
    found = records.fetch(connection, home, [id for id in ids if id != own])
    return [one for one in found if "error" not in one and type.lower() in ("", one["type"].lower())][:limit]


def _latest(connection: Connection, home: str, project: str, type: str, limit: int, now: float) -> Timeline:
    numbers = index.numbers_of(connection, project) if project else index.all_projects(connection)
    each = [_side(connection, home, number, now + 1, "", type, limit, is_before=True) for number in numbers]
    found = sorted((one for side in each for one in side), key=lambda one: float(one["at"]))[-limit:] if limit else []
    nothing = f"nothing of type {type[:80]!r} is recorded here" if type else "nothing is recorded yet"
    return Timeline("", tuple(found), "" if found else nothing)
