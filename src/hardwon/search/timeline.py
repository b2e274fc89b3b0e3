"""List prompts, observations and summaries before and after a record, in its project."""

from __future__ import annotations

from typing import Any

from hardwon.search import records, vectors
from hardwon.search.search import search_records
from hardwon.search.words import build_filter_word
from hardwon.store import documents
from hardwon.store.db import Connection
from hardwon.store.documents import EVERYWHERE, DocumentKind, read_source_rows
from hardwon.types import frozen

_TIMELINE_KINDS = (documents.OBSERVATION, documents.SUMMARY, documents.PROMPT, documents.HANDOFF)


@frozen
class Timeline:
    """Records in order of time, including the anchor; `note` says why there are none."""

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
    model: vectors.Model | None = None,
) -> Timeline:
    """Return the records around an id or around the best hit of a query; with neither, the latest."""
    if not anchor and query.strip():
        kinds = list(_TIMELINE_KINDS)
        result = search_records(connection, home, query, project=project, kinds=kinds, limit=1, now=now, model=model)
        if not result.hits:
            return Timeline(anchor="", records=(), note=f"nothing was found for {query!r}")
        anchor = result.hits[0].id
    if not anchor:
        return _build_latest(connection, home, project, record_type, depth_before, now)
    if anchor.isascii() and anchor.isdigit():
        anchor = f"O{anchor}"  # a bare number is an observation's, as in `fetch_records`
    scope_note = " in this project" if project else ""
    no_anchor = Timeline(anchor="", records=(), note=f"there is no {anchor}{scope_note}")
    parsed = records.parse_id(anchor)
    if not parsed:
        return no_anchor
    kind, row, name = parsed
    position = _find_position(connection, kind, row, name)
    if not position:
        return no_anchor
    number, at = position
    if project and number not in (*documents.find_project_numbers(connection, project), EVERYWHERE):
        return no_anchor
    anchor_id = records.format_id(kind.letter, row, name)
    earlier = _list_nearest(
        connection, home, number, at, anchor_id=anchor_id, record_type=record_type, limit=depth_before, is_before=True
    )
    later = _list_nearest(
        connection, home, number, at, anchor_id=anchor_id, record_type=record_type, limit=depth_after, is_before=False
    )
    return Timeline(anchor_id, (*reversed(earlier), *records.fetch_records(connection, home, [anchor_id]), *later))


def _find_position(connection: Connection, kind: DocumentKind, row: int, name: str) -> tuple[int, float] | None:
    """Return the project and the time of a record, even if it is not indexed; None if there is no such record."""
    if kind.table:
        rows = read_source_rows(connection, kind, [row])
        if not rows:
            return None
        return rows[0]["project_number"], rows[0]["at"]
    document = documents.find_by_source(connection, kind.letter, row, name)
    if not document:
        return None
    return document["project"], document["at"]


def _list_nearest(
    connection: Connection,
    home: str,
    project: int,
    at: float,
    *,
    anchor_id: str = "",
    record_type: str,
    limit: int,
    is_before: bool,
) -> list[dict[str, Any]]:
    """Return the records nearest to a time on one side of it, without the anchor itself."""
    match = documents.build_match_query([build_filter_word("t", record_type)]) if record_type else ""
    limit_with_anchor = limit + 1
    rows = documents.list_nearest_in_time(
        connection, project, at, kinds=_TIMELINE_KINDS, is_before=is_before, limit=limit_with_anchor, match=match
    )
    ids = [records.format_id(item["kind"], item["row"], item["name"]) for item in rows]
    fetched = records.fetch_records(connection, home, [record_id for record_id in ids if record_id != anchor_id])
    readable = [record for record in fetched if "error" not in record]
    if record_type:
        # The index only preselects, since different types may share a filter word.
        readable = [record for record in readable if record["type"].lower() == record_type.lower()]
    return readable[:limit]


def _build_latest(
    connection: Connection, home: str, project: str, record_type: str, limit: int, now: float
) -> Timeline:
    """Return the latest records of a project, which may have several numbers."""
    just_after_now = now + 1  # so that what happens now counts as before
    project_records = []
    for number in documents.find_project_numbers(connection, project):
        project_records += _list_nearest(
            connection, home, number, just_after_now, record_type=record_type, limit=limit, is_before=True
        )
    project_records.sort(key=lambda record: float(record["at"]))
    latest = project_records[-limit:] if limit else []  # [-0:] would be all
    note = ""
    if not latest and record_type:
        note = f"nothing of type {record_type[:80]!r} is recorded here"
    elif not latest:
        note = "nothing is recorded yet"
    return Timeline(anchor="", records=tuple(latest), note=note)
