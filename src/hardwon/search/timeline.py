"""What happened around something: what was asked, observed and summed up before and after it, in its project."""

from __future__ import annotations

from typing import Any

from hardwon.search import embedding, records
from hardwon.search.search import search_records
from hardwon.store import search as index
from hardwon.store.db import Connection
from hardwon.store.documents import EVERYWHERE, DocumentKind, read_source_rows
from hardwon.text.words import build_filter_word
from hardwon.types import frozen

TIMELINE_KINDS = ("O", "S", "P", "H")


@frozen
class Timeline:
    """Records in the order of time, the anchor among them; `note` says why there are none."""

    anchor: str
    records: tuple[dict[str, Any], ...]
    note: str = ""


def build_timeline(
    connection: Connection,
    home: str,
    *,
    anchor: str = "",
    query: str = "",
    depth_before: int = 10,
    depth_after: int = 10,
    record_type: str = "",
    project: str = "",
    now: float,
    model: embedding.Model | None = None,
) -> Timeline:
    """What lies around an id, or around the best answer to a question, or else before now."""
    if not anchor and query.strip():
        kinds = list(TIMELINE_KINDS)
        found = search_records(connection, home, query, project=project, kinds=kinds, limit=1, now=now, model=model)
        if not found.hits:
            return Timeline("", (), f"nothing was found for {query!r}")
        anchor = found.hits[0].id
    if not anchor:
        return _latest(connection, home, project, record_type, depth_before, now)
    if anchor.isascii() and anchor.isdigit():
        anchor = f"O{anchor}"  # a number alone is an observation's, as it is when records are fetched
    parsed = records.parse_id(anchor)
    place = _place(connection, *parsed) if parsed else None
    if (
        not parsed
        or not place
        or (project and place[0] not in (*index.find_project_numbers(connection, project), EVERYWHERE))
    ):
        return Timeline("", (), f"there is no {anchor}" + (" in this project" if project else ""))
    own = records.format_id(parsed[0].letter, *parsed[1:])
    earlier = _side(connection, home, *place, own, record_type, depth_before, is_before=True)
    later = _side(connection, home, *place, own, record_type, depth_after, is_before=False)
    return Timeline(own, (*reversed(earlier), *records.fetch_records(connection, home, [own]), *later))


def _place(connection: Connection, kind: DocumentKind, row: int, name: str) -> tuple[int, float] | None:
    """The project and the time of a record, also of one that is in no index."""
    if kind.table:
        return next(((one["project_number"], one["at"]) for one in read_source_rows(connection, kind, [row])), None)
    held = index.find_by_source(connection, kind.letter, row, name)
    return (held["project"], held["at"]) if held else None


def _side(
    connection: Connection, home: str, project: int, at: float, own: str, type: str, limit: int, *, is_before: bool
) -> list[dict[str, Any]]:
    """The nearest on one side of a time, without the anchor itself."""
    match = index.build_match_query([build_filter_word("t", type)]) if type else ""
    rows = index.list_nearest_in_time(
        connection, project, at, kinds=TIMELINE_KINDS, is_before=is_before, limit=limit + 1, match=match
    )
    ids = [records.format_id(one["kind"], one["row"], one["name"]) for one in rows]
    found = records.fetch_records(connection, home, [id for id in ids if id != own])
    return [one for one in found if "error" not in one and type.lower() in ("", one["type"].lower())][:limit]


def _latest(connection: Connection, home: str, project: str, type: str, limit: int, now: float) -> Timeline:
    numbers = index.find_project_numbers(connection, project) if project else index.list_indexed_projects(connection)
    each = [_side(connection, home, number, now + 1, "", type, limit, is_before=True) for number in numbers]
    found = sorted((one for side in each for one in side), key=lambda one: float(one["at"]))[-limit:] if limit else []
    nothing = f"nothing of type {type[:80]!r} is recorded here" if type else "nothing is recorded yet"
    return Timeline("", tuple(found), "" if found else nothing)
