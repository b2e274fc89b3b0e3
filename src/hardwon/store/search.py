"""Looking things up in the index: by words, by vectors, by their place in a session, by time.

A scope is a row of ranges of document numbers. What is asked of the index of words is made here from plain words, each
in quotes of its own, so that nothing a person types is read as a query.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from hardwon.store import projects
from hardwon.store.db import Connection, to_storable
from hardwon.store.documents import EVERYWHERE, PROJECT_BITS, compute_first_id

CODES_PER_READ = 10_000
Scope = list[tuple[int, int]]


def find_project_numbers(connection: Connection, project: str) -> list[int]:
    """The projects of this path, or else of this name."""
    for column in ("path", "name"):
        rows = connection.execute(f"select id from projects where {column} = ?", (to_storable(project),)).fetchall()
        if rows:
            return [number for (number,) in rows]
    row = projects.find_by_folder_name(connection, project)
    return [row["id"]] if row else []


def find_project_paths(connection: Connection, project: str) -> list[str]:
    """The folders of the projects of this path or name."""
    rows = connection.execute("select path from projects where ?1 in (path, name)", (to_storable(project),))
    return [path for (path,) in rows]


def list_indexed_projects(connection: Connection) -> list[int]:
    """Every project that has a document, by jumping from one range of numbers to the next."""
    project_numbers: list[int] = []
    after_id = -1
    while True:
        (document_id,) = connection.execute("select min(id) from documents where id > ?", (after_id,)).fetchone()
        if document_id is None:
            return project_numbers
        project_numbers.append(document_id >> PROJECT_BITS)
        after_id = compute_first_id(project_numbers[-1] + 1) - 1


def build_scope(project_numbers: Sequence[int]) -> Scope:
    """The documents of these projects, and those that count everywhere."""
    return [
        (compute_first_id(number), compute_first_id(number + 1) - 1)
        for number in dict.fromkeys([*project_numbers, EVERYWHERE])
    ]


def count_documents(connection: Connection, scope: Scope) -> int:
    """Return how many documents a scope has; counted in the index by project and time, which is small."""
    total = 0
    for low, high in scope:
        (count,) = connection.execute(
            "select count(*) from documents where project between ? and ?", (low >> PROJECT_BITS, high >> PROJECT_BITS)
        ).fetchone()
        total += count
    return total


def build_match_query(*groups: Sequence[str], by_prefix: bool = False) -> str:
    """What the index is asked for: of each group of words any one; with `by_prefix` words that begin so."""
    suffix = " *" if by_prefix else ""
    return " AND ".join("(" + " OR ".join(f'"{word}"{suffix}' for word in group) + ")" for group in groups if group)


def count_matches(connection: Connection, match: str, scope: Scope, limit: int) -> int:
    """How many documents of the scope match, counted up to a limit."""
    total = 0
    for low, high in scope:
        (count,) = connection.execute(
            "select count(*) from (select 1 from document_words where document_words match ?"
            " and rowid between ? and ? limit ?)",
            (match, low, high, limit - total),
        ).fetchone()
        total += count
    return total


def find_matches(connection: Connection, match: str, scope: Scope, limit: int) -> list[int]:
    """The documents of the scope that match, so many at most, in each range the latest first."""
    document_ids: list[int] = []
    for low, high in scope:
        rows = connection.execute(
            "select rowid from document_words where document_words match ? and rowid between ? and ?"
            " order by rowid desc limit ?",
            (match, low, high, limit - len(document_ids)),
        )
        document_ids += [document_id for (document_id,) in rows]
    return document_ids


def iter_latest_matches(
    connection: Connection, project: int, match: str, since: float, until: float
) -> Iterator[dict[str, Any]]:
    """A project's documents that match, of a stretch of time, the latest first, read as they are asked for."""
    condition, match_values = _build_match_condition(match, project)
    rows = connection.execute(
        f"select id, kind, row, name, session, project, at from documents where project = ? and at >= ? and at < ?"
        f"{condition} order by at desc, id desc",
        (project, since, until, *match_values),
    )
    return (dict(row) for row in rows)


def _build_match_condition(match: str, project: int) -> tuple[str, tuple[str | int, ...]]:
    """The condition that a project's document matches, and its values; nothing where nothing is asked for."""
    condition = " and +id in (select rowid from document_words where document_words match ? and rowid between ? and ?)"
    return (condition, (match, compute_first_id(project), compute_first_id(project + 1) - 1)) if match else ("", ())


def find_in_time_range(connection: Connection, scope: Scope, since: float, until: float) -> list[int]:
    document_ids: list[int] = []
    for low, high in scope:
        rows = connection.execute(
            "select id from documents where project between ? and ? and at >= ? and at < ? order by at",
            (low >> PROJECT_BITS, high >> PROJECT_BITS, since, until),
        )
        document_ids += [document_id for (document_id,) in rows]
    return document_ids


def read_documents(connection: Connection, ids: Sequence[int]) -> dict[int, dict[str, Any]]:
    rows = connection.execute(
        "select id, kind, row, name, session, project, at from documents where id in (select value from json_each(?))",
        (json.dumps(list(ids)),),
    )
    return {row["id"]: dict(row) for row in rows}


def read_words(connection: Connection, ids: Sequence[int]) -> dict[int, set[str]]:
    """The words and marks of documents."""
    rows = connection.execute(
        "select id, words from documents where id in (select value from json_each(?))", (json.dumps(list(ids)),)
    )
    return {document_id: set(words.split()) for document_id, words in rows}


def find_by_source(connection: Connection, kind: str, row: int, name: str) -> dict[str, Any] | None:
    document = connection.execute(
        "select id, kind, row, name, session, project, at from documents where kind = ? and row = ? and name = ?",
        (kind, row, to_storable(name)),
    ).fetchone()
    return dict(document) if document else None


_NEIGHBOUR_QUERY = (
    "(select id from documents as beside where beside.session = one.session and beside.kind = one.kind and"
    " (beside.at, beside.id) {than} (one.at, one.id) order by beside.at {order}, beside.id {order} limit 1{offset})"
)
_NEIGHBOURS = ", ".join(
    _NEIGHBOUR_QUERY.format(than=than, order=order, offset=offset)
    for offset in ("", " offset 1")
    for than, order in (("<", "desc"), (">", "asc"))
)


def find_neighbours(connection: Connection, ids: Sequence[int]) -> dict[int, tuple[int | None, ...]]:
    """For documents of sessions those of the same kind beside them: before, after, and once more on."""
    rows = connection.execute(
        f"select id, {_NEIGHBOURS} from documents as one where session and id in (select value from json_each(?))",
        (json.dumps(list(ids)),),
    )
    return {document_id: tuple(neighbours) for document_id, *neighbours in rows}


def read_vectors(connection: Connection, ids: Sequence[int], model: str) -> list[tuple[int, bytes]]:
    rows = connection.execute(
        "select document, vector from vectors where document in (select value from json_each(?)) and +model = ?",
        (json.dumps(list(ids)), model),
    )
    return [tuple(row) for row in rows]


def iter_codes(
    connection: Connection, project: int, model: str, *, after_id: int, last_id: int
) -> Iterator[list[tuple[int, int, bytes]]]:
    """What a project's vectors were boiled down to, those that came between two numbers, in portions.

    Each with its own number, which is never given twice, and its document's, which may be.
    """
    # Without a sign the planner does not know that the project is the better half at first, and the worse one later.
    first, second = ("+", "") if after_id == 0 else ("", "+")
    cursor = connection.execute(
        f"select id, document, code from vectors where {first}id > ? and {first}id <= ?"
        f" and {second}document between ? and ? and +model = ?",
        (after_id, last_id, compute_first_id(project), compute_first_id(project + 1) - 1, model),
    )
    while rows := cursor.fetchmany(CODES_PER_READ):
        yield [tuple(row) for row in rows]


def read_vectors_version(connection: Connection, project: int) -> tuple[int, int]:
    """How many vectors of a project went, and the last number given to any: what comes or goes changes one of them."""
    row = connection.execute(
        "select coalesce((select times from vectors_went where project = ?), 0),"
        " coalesce((select seq from sqlite_sequence where name = 'vectors'), 0)",
        (project,),
    ).fetchone()
    return int(row[0]), int(row[1])


def list_vector_numbers(connection: Connection, project: int) -> list[int]:
    rows = connection.execute(
        "select id from vectors where document between ? and ?",
        (compute_first_id(project), compute_first_id(project + 1) - 1),
    )
    return [number for (number,) in rows]


def list_nearest_in_time(
    connection: Connection,
    project: int,
    at: float,
    *,
    kinds: Sequence[str],
    is_before: bool,
    limit: int,
    match: str = "",
) -> Iterator[dict[str, Any]]:
    """A project's documents before or after a time, the nearest first; those of that very time come after it."""
    comparison, order = ("<", "desc") if is_before else (">=", "asc")
    condition, match_values = _build_match_condition(match, project)
    rows = connection.execute(
        f"select id, kind, row, name, session, project, at from documents where project = ? and at {comparison} ?"
        f" and kind in (select value from json_each(?)){condition} order by at {order}, id {order} limit ?",
        (project, at, json.dumps(list(kinds)), *match_values, limit),
    )
    return (dict(row) for row in rows.fetchall())
