"""The search index: documents with their words and vectors, the queue of rows to index, and lookups.

Triggers delete the document of a deleted row, and queue new and changed rows in `to_index`; what is kept in files is
known by `indexed_files`. A row becomes a document, whose words are also in `document_words`, a full-text table without
a text of its own. A document that is no tool call waits in `to_embed` for its row in `vectors`.

Queries of the word index consist of plain words, each in quotes, so nothing a person types is read as query syntax.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any, NamedTuple

from hardwon.store import events
from hardwon.store.db import (
    Connection,
    Row,
    fetch_column,
    fetch_dicts,
    fetch_row,
    fetch_value,
    insert_row,
    to_storable,
    transaction,
)

# A document's id packs its project, its time slot, whether it is a tool call, and its size class, from the highest bit
# to the lowest. So a project is one range of ids that the word index can read by itself, latest first, in whatever
# order documents were indexed. And ranking can weigh a match by its text's length and kind without reading it. Only
# `_pack_id`, the functions after it and the trigger `vectors_count_what_went` know the layout.
_SLOT_BITS, _CALL_BITS, _SIZE_BITS = 36, 1, 3
_CLASS_BITS = _CALL_BITS + _SIZE_BITS
_PROJECT_BITS = _SLOT_BITS + _CLASS_BITS
_SLOTS_PER_SECOND = 16  # 36 bits of slots last until 2106
EVERYWHERE = 1 << 22  # the project number of documents that apply to all projects
Scope = list[tuple[int, int]]  # ranges of document ids, both ends included
FULL_SCOPE: Scope = [(0, (1 << 63) - 1)]
_CODES_PER_READ = 10_000
_MAX_SLOT_DELAY = 5.0  # seconds between a document's time and its slot
_SLOTS_PER_READ = 64  # slots read at once when looking for a free one
_PAGES_PER_MERGE = 200  # of the word index in one transaction
_VERSION_PATH = "words"  # a row of `indexed_files` that holds the version of the word splitting
INDEX_TABLES = frozenset(
    {"documents", "vectors", "to_embed", "to_index", "indexed_files", "observation_files", "vectors_went"}
)


def _pack_id(project: int, slot: int, *, is_call: bool = False, size_class: int = 0) -> int:
    return project << _PROJECT_BITS | slot << _CLASS_BITS | is_call << _SIZE_BITS | size_class


def _compute_first_id(project: int) -> int:
    return _pack_id(project, 0)


def _compute_last_id(project: int) -> int:
    return _compute_first_id(project + 1) - 1


def _unpack_project(document_id: int) -> int:
    return document_id >> _PROJECT_BITS


def _unpack_slot(document_id: int) -> int:
    return (document_id >> _CLASS_BITS) & ((1 << _SLOT_BITS) - 1)


def unpack_is_call(document_ids: Any) -> Any:
    """Return 1 for the id of a tool call and 0 for another, or that of each id in an array."""
    return (document_ids >> _SIZE_BITS) & 1


def unpack_size_class(document_ids: Any) -> Any:
    """Return the size class of an id, or of each id in an array."""
    return document_ids & ((1 << _SIZE_BITS) - 1)


def _compute_size_class(word_count: int) -> int:
    """Return the class of a text's length: class 0 has up to 15 words, and each further class twice as many."""
    return min(max(word_count.bit_length() - 4, 0), (1 << _SIZE_BITS) - 1)


@dataclass(frozen=True, slots=True)
class DocumentKind:
    """A kind of record that search finds; `table` is empty for kinds that are kept in files."""

    letter: str
    name: str
    table: str = ""
    weight: float = 1.0


OBSERVATION, SUMMARY, PROMPT, EVENT = "O", "S", "P", "E"
LESSON, MEMORY, HANDOFF = "L", "M", "H"
# Most questions about past sessions are answered by an agent's last words, about a third by a prompt, a call or its
# result. Observations and summaries are digests of last words, so the original ranks before them. What a person
# approved ranks highest.
DOCUMENT_KINDS = {
    kind.letter: kind
    for kind in (
        DocumentKind(OBSERVATION, "observation", "observations", weight=0.6),
        DocumentKind(SUMMARY, "summary", "summaries", weight=0.6),
        DocumentKind(PROMPT, "prompt", "prompts", weight=0.8),
        DocumentKind(EVENT, "event", "events"),  # for last words; CALL_WEIGHT and MESSAGE_WEIGHT are for other events
        DocumentKind(LESSON, "lesson", weight=1.2),
        DocumentKind(MEMORY, "memory", weight=1.2),
        DocumentKind(HANDOFF, "handoff", weight=1.2),
    )
}
CALL_WEIGHT = 0.8
# What an agent says between two calls is often repeated, and corrected, in its last words. With the weight of those the
# answer was first for 50 of 93 tuning questions instead of 58.
MESSAGE_WEIGHT = 0.8
_ROW_KINDS = ", ".join(f"'{kind.letter}'" for kind in DOCUMENT_KINDS.values() if kind.table)
_IS_FROM_FILE_SQL = "row = 0"
_FILE_KINDS = ", ".join(f"'{kind.letter}'" for kind in DOCUMENT_KINDS.values() if not kind.table)


@dataclass(frozen=True, slots=True)
class Document:
    """A record to index; `name` is for records without a row, whose `row` is 0; `times` is how often it was queued.

    A tool call gets no vector: there are many calls, and their text is noise to a vector.
    """

    kind: str
    row: int
    name: str
    session: int
    project: int
    at: float
    words: tuple[str, ...]
    times: int = 0
    is_call: bool = False


class QueuedRow(NamedTuple):
    """A row that waits to be indexed; one that is queued again meanwhile has a higher number of times."""

    kind: str
    row: int
    times: int


class UnembeddedDocument(NamedTuple):
    """A document that waits for a vector; see `Document` for `row` and `name`."""

    id: int
    kind: str
    row: int
    name: str


# What waits to be indexed.

_WAITING_SQL = """
    select to_index.kind as kind, to_index.row as row, to_index.times as times, source.at as at from to_index
    left join {table} as source on source.id = to_index.row where to_index.kind = '{letter}'
    """
_WAITING_EVENTS_SQL = _WAITING_SQL.format(table="events", letter=EVENT)


def list_waiting_meaningful(connection: Connection, limit: int) -> list[QueuedRow]:
    """Return prompts, observations, summaries and agents' words to index, newest first.

    They are indexed before calls, which are many and whose results the observations have.
    """
    kinds = [DOCUMENT_KINDS[letter] for letter in (PROMPT, OBSERVATION, SUMMARY)]
    selects = [_WAITING_SQL.format(table=kind.table, letter=kind.letter) for kind in kinds]
    selects.append(_WAITING_EVENTS_SQL + " and source.kind in ('Stop', 'SubagentStop', 'AgentMessage')")
    return _list_newest(connection, " union all ".join(selects), limit)


def list_waiting_events(connection: Connection, limit: int) -> list[QueuedRow]:
    """Return events to index, newest first; one whose row is gone comes last."""
    return _list_newest(connection, _WAITING_EVENTS_SQL, limit)


def _list_newest(connection: Connection, select: str, limit: int) -> list[QueuedRow]:
    """Return the rows of a select of waiting ones, newest first."""
    rows = connection.execute(f"select kind, row, times from ({select}) order by at desc limit ?", (limit,))
    return [QueuedRow(*row) for row in rows]


def count_backlog(connection: Connection) -> tuple[int, int]:
    """Return how many rows wait to be indexed, and how many documents wait for a vector."""
    query = "select (select count(*) from to_index), (select count(*) from to_embed)"
    unindexed, unembedded = connection.execute(query).fetchone()
    return unindexed, unembedded


def read_source_rows(connection: Connection, kind: DocumentKind, rows: Sequence[int]) -> list[Row]:
    """Return the rows with what is known of their sessions: `session` is the agent's id, `session_number` ours."""
    source_rows = fetch_dicts(
        connection,
        f"""
        select {kind.table}.*, sessions.id as session_number, sessions.host, sessions.session as session_name,
            coalesce(sessions.project, 0) as project_number, coalesce(projects.path, '') as project
        from {kind.table} join sessions on sessions.id = {kind.table}.session
        left join projects on projects.id = sessions.project
        where {kind.table}.id in (select value from json_each(?))
        """,
        json.dumps(list(rows)),
    )
    return [row | {"session": row["session_name"]} for row in source_rows]


def drop_waiting(connection: Connection, entries: Iterable[tuple[str, int, int]]) -> None:
    """Remove queue entries whose rows no longer exist."""
    with transaction(connection):
        connection.executemany("delete from to_index where kind = ? and row = ? and times = ?", entries)


def queue_reindexing(connection: Connection, condition: str) -> None:
    """Queue rows again within the caller's transaction; a trigger removes deleted rows from the queue."""
    connection.execute(
        f"""
        insert into to_index (kind, row, times) select kind, row, 1 from documents where kind in ({_ROW_KINDS})
        and {condition} on conflict (kind, row) do update set times = times + 1
        """
    )


def ensure_index_version(connection: Connection, version: str) -> None:
    """Queue everything again if the word splitting changed; documents that stay the same are not rewritten."""
    if read_fingerprint(connection, _VERSION_PATH) == version:
        return  # everything was indexed with this version
    with transaction(connection):
        queue_reindexing(connection, "true")
        delete_file_documents(connection)
        connection.execute("insert or replace into indexed_files (path, print) values (?, ?)", (_VERSION_PATH, version))


# Writing documents.


def write_documents(connection: Connection, documents: Iterable[Document], *, max_seconds: float) -> int:
    """Write as many documents as time allows in one transaction; return how many were handled.

    A row that was queued again meanwhile stays in the queue.
    """
    processed = 0
    deadline = monotonic() + max_seconds
    with transaction(connection):
        for document in documents:
            removed = connection.execute(
                "delete from to_index where kind = ? and row = ? and times = ?",
                (document.kind, document.row, document.times),
            ).rowcount
            if removed:
                write_document(connection, document)
            processed += 1
            if monotonic() > deadline:
                break  # the rest waits for the next transaction
    return processed


def write_document(connection: Connection, document: Document) -> None:
    """Write a document in place of an earlier one, within the caller's transaction; one without words is deleted."""
    row = {
        "kind": document.kind,
        "row": document.row,
        "name": document.name,
        "session": document.session,
        "project": document.project,
        "at": document.at,
        "words": to_storable(" ".join(document.words)),
    }
    size_class = _compute_size_class(len(document.words))
    existing = connection.execute(
        "select id, session, project, at, words from documents where kind = ? and row = ? and name = ?",
        (document.kind, document.row, document.name),
    ).fetchone()
    if existing:
        existing_id, *existing_values = existing
        has_same_values = existing_values == [document.session, document.project, document.at, row["words"]]
        packed_values = (unpack_is_call(existing_id), unpack_size_class(existing_id))
        if has_same_values and packed_values == (document.is_call, size_class):
            return  # writing it again would cost a new vector
        connection.execute("delete from documents where id = ?", (existing_id,))
    if not document.words:
        return  # no word of a search could find the document
    slot = _find_free_slot(connection, document.project, document.at)
    document_id = _pack_id(document.project, slot, is_call=document.is_call, size_class=size_class)
    insert_row(connection, "documents", {"id": document_id, **row})
    connection.execute("insert into document_words (rowid, words) values (?, ?)", (document_id, row["words"]))
    if not document.is_call:
        connection.execute("insert or ignore into to_embed (document) values (?)", (document_id,))


def _find_free_slot(connection: Connection, project: int, at: float) -> int:
    """Return the first free slot of a project at or soon after this time."""
    last_slot = (1 << _SLOT_BITS) - 1
    # A time in the far future must leave free slots after it.
    slot = min(max(int(at * _SLOTS_PER_SECOND), 0), last_slot - (1 << 20))
    step = _SLOTS_PER_READ
    while True:
        # The documents in the next slots, whatever their kind and size.
        ids = fetch_column(
            connection,
            "select id from documents where id between ? and ? order by id",
            _pack_id(project, slot),
            _pack_id(project, slot + _SLOTS_PER_READ) - 1,
        )
        free_slots = set(range(slot, slot + _SLOTS_PER_READ)) - {_unpack_slot(document_id) for document_id in ids}
        if free_slots:
            return min(free_slots)
        slot += step
        step *= 2  # thousands of documents may have the same time, such as after an import


def replace_file_documents(
    connection: Connection, kind: str, path: str, fingerprint: str, documents: Iterable[Document]
) -> bool:
    """Replace a file's documents, all or none; return False if they already have this fingerprint."""
    with transaction(connection):
        if read_fingerprint(connection, path) == fingerprint:
            return False
        documents_by_name = {document.name: document for document in documents}
        connection.execute(
            "delete from documents where kind = ? and name not in (select value from json_each(?))",
            (kind, json.dumps(list(documents_by_name))),
        )
        for document in documents_by_name.values():
            write_document(connection, document)
        connection.execute("insert or replace into indexed_files (path, print) values (?, ?)", (path, fingerprint))
    return True


def read_fingerprint(connection: Connection, path: str) -> str:
    """Return the fingerprint of a file as it was indexed; empty if it was not."""
    return str(fetch_value(connection, "select print from indexed_files where path = ?", path) or "")


def delete_file_documents(connection: Connection) -> None:
    """Delete all documents from files within the caller's transaction; the next refresh reads the files again."""
    connection.execute(f"delete from documents where kind in ({_FILE_KINDS})")
    connection.execute("delete from indexed_files where path != ?", (_VERSION_PATH,))


def merge_word_index(connection: Connection) -> bool:
    """Merge part of the word index, which removes deleted words; return False once nothing is left to merge."""
    earlier_changes = connection.total_changes
    # A negative number of pages merges all segments into one, in steps of this size.
    connection.execute("insert into document_words (document_words, rank) values ('merge', ?)", (-_PAGES_PER_MERGE,))
    return connection.total_changes - earlier_changes >= 2  # the FTS5 manual defines this as the sign of progress


def rebuild_word_index(connection: Connection) -> None:
    """Rebuild the word index, so that nothing deleted is left in its pages."""
    connection.execute("insert into document_words (document_words) values ('rebuild')")


# Vectors.


def list_unembedded(connection: Connection, limit: int) -> list[UnembeddedDocument]:
    """Return documents that wait for a vector, those from files first, then the newest."""
    rows = connection.execute(
        f"""
        select id, kind, row, name from to_embed join documents on documents.id = to_embed.document
        order by {_IS_FROM_FILE_SQL} desc, at desc limit ?
        """,
        (limit,),
    )
    return [UnembeddedDocument(*row) for row in rows]


def store_vectors(connection: Connection, model: str, vectors: Iterable[tuple[int, bytes, bytes]]) -> int:
    """Store (document, code, vector) in one transaction, of those documents that are still there."""
    stored_count = 0
    with transaction(connection):
        for document, code, vector in vectors:
            connection.execute("delete from to_embed where document = ?", (document,))
            stored_count += connection.execute(
                """
                insert or ignore into vectors (document, model, code, vector)
                select id, ?, ?, ? from documents where id = ?
                """,
                (model, code, vector, document),
            ).rowcount
    return stored_count


def skip_embedding(connection: Connection, documents: Sequence[int]) -> None:
    """Remove documents that have no text any more from the queue for vectors."""
    if documents:
        with transaction(connection):
            connection.executemany("delete from to_embed where document = ?", [(document,) for document in documents])


def drop_stale_vectors(connection: Connection, model: str, limit: int) -> int:
    """Delete some vectors that another model made; their documents wait for new ones."""
    with transaction(connection):
        return connection.execute(
            "delete from vectors where id in (select id from vectors where model < ?1 or model > ?1 limit ?2)",
            (model, limit),
        ).rowcount


def read_vectors(connection: Connection, ids: Sequence[int], model: str) -> list[tuple[int, bytes]]:
    """Return the vectors that this model made of these documents."""
    rows = connection.execute(
        "select document, vector from vectors where document in (select value from json_each(?)) and +model = ?",
        (json.dumps(list(ids)), model),
    )
    return [tuple(row) for row in rows]


def iter_codes(
    connection: Connection, project: int, model: str, *, after_id: int, last_id: int
) -> Iterator[list[tuple[int, int, bytes]]]:
    """Yield the codes of a project's vectors between two numbers, in portions: number, document, code.

    Vectors go by their own numbers, because a document's id may be reused and a vector's number is not.
    """
    # The unary plus keeps the planner from using an index on that column. The first load reads by project; later loads
    # read only the few vectors with higher numbers.
    id_column, document_column = "id", "+document"
    if after_id == 0:
        id_column, document_column = "+id", "document"
    cursor = connection.execute(
        f"""
        select id, document, code from vectors where {id_column} > ? and {id_column} <= ?
        and {document_column} between ? and ? and +model = ?
        """,
        (after_id, last_id, _compute_first_id(project), _compute_last_id(project), model),
    )
    while rows := cursor.fetchmany(_CODES_PER_READ):
        yield [tuple(row) for row in rows]


def read_vectors_version(connection: Connection, project: int) -> tuple[int, int]:
    """Return how many vectors of a project were deleted, and the last number given; any change alters one of them."""
    # A trigger counts what is deleted, because counting the rows took 5 of the 19 ms of a search.
    deleted_count, last_number = connection.execute(
        """
        select coalesce((select times from vectors_went where project = ?), 0),
            coalesce((select seq from sqlite_sequence where name = 'vectors'), 0)
        """,
        (project,),
    ).fetchone()
    return deleted_count, last_number


def list_vector_numbers(connection: Connection, project: int) -> list[int]:
    """Return the numbers of all vectors of a project."""
    query = "select id from vectors where document between ? and ?"
    return fetch_column(connection, query, _compute_first_id(project), _compute_last_id(project))


# Looking things up.

_COLUMNS = "id, kind, row, name, session, project, at"


def find_project_numbers(connection: Connection, project: str) -> list[int]:
    """Return the projects of this path, or else of this name; every indexed one if it is empty."""
    if not project:
        return list_indexed_projects(connection)
    for column in ("path", "name"):
        numbers = fetch_column(connection, f"select id from projects where {column} = ?", project)
        if numbers:
            return numbers
    row = events.find_project_by_folder_name(connection, project)
    return [row["id"]] if row else []


def find_project_paths(connection: Connection, project: str) -> list[str]:
    """Return the folders of the projects of this path or name."""
    return fetch_column(connection, "select path from projects where ?1 in (path, name)", project)


def list_indexed_projects(connection: Connection) -> list[int]:
    """Return every project that has a document, by jumping from one range of ids to the next."""
    project_numbers: list[int] = []
    after_id = -1
    while (document_id := fetch_value(connection, "select min(id) from documents where id > ?", after_id)) is not None:
        project_numbers.append(_unpack_project(document_id))
        after_id = _compute_last_id(project_numbers[-1])
    return project_numbers


def build_scope(project_numbers: Sequence[int], since: float = 0.0, until: float = 0.0) -> Scope:
    """Return the id ranges of these projects and of documents that apply everywhere.

    Ids grow with time, so a range of time is one of ids. If many documents have the same time, some have later slots,
    so the ranges end a little late, and the caller checks the exact times.
    """
    last_slot = (1 << _SLOT_BITS) - 1
    first = min(int(max(since, 0.0) * _SLOTS_PER_SECOND), last_slot)
    last = last_slot
    if until:
        last = min(int((until + _MAX_SLOT_DELAY) * _SLOTS_PER_SECOND), last_slot)
    all_class_bits = (1 << _CLASS_BITS) - 1  # so that the last slot is in the range whatever its document is
    scope = []
    for number in dict.fromkeys([*project_numbers, EVERYWHERE]):
        scope.append((_pack_id(number, first), _pack_id(number, last) | all_class_bits))
    return scope


def is_whole_project(project: int, scope: Scope) -> bool:
    """Return whether a range of the scope has every document that the project can have."""
    return any(low <= _compute_first_id(project) and high >= _compute_last_id(project) for low, high in scope)


def drop_empty_ranges(connection: Connection, scope: Scope) -> Scope:
    """Return the ranges that have a document: most homes have none that apply everywhere, and each costs a query."""
    query = "select exists (select 1 from documents where id between ? and ?)"
    return [bounds for bounds in scope if fetch_value(connection, query, *bounds)]


def count_documents(connection: Connection, scope: Scope, limit: int) -> int:
    """Return how many documents the projects of a scope have, counted up to a limit in the index by project."""
    query = "select count(*) from (select 1 from documents where project between ? and ? limit ?)"
    total = 0
    # A range of ids lies within one project, or is all of them.
    for low, high in scope:
        total += fetch_value(connection, query, _unpack_project(low), _unpack_project(high), limit - total)
    return total


def build_match_query(*groups: Sequence[str], by_prefix: bool = False) -> str:
    """Return a query for documents with at least one word of each group; with `by_prefix`, words are prefixes."""
    suffix = " *" if by_prefix else ""
    conditions = []
    for group in groups:
        if group:
            alternatives = " OR ".join(f'"{word}"{suffix}' for word in group)
            conditions.append(f"({alternatives})")
    return " AND ".join(conditions)


def find_matches(connection: Connection, match: str, scope: Scope, limit: int) -> list[int]:
    """Return the documents of the scope that match, so many at most, in each range the latest first."""
    document_ids: list[int] = []
    for low, high in scope:
        document_ids += fetch_column(
            connection,
            """
            select rowid from document_words where document_words match ? and rowid between ? and ?
            order by rowid desc limit ?
            """,
            *(match, low, high, limit - len(document_ids)),
        )
    return document_ids


def iter_latest_matches(connection: Connection, project: int, match: str, since: float, until: float) -> Iterator[Row]:
    """Yield a project's matching documents of a time span, latest first, reading rows only as needed."""
    condition, match_values = _build_match_condition(match, project)
    rows = connection.execute(
        f"""
        select {_COLUMNS} from documents where project = ? and at >= ? and at < ? {condition}
        order by at desc, id desc
        """,
        (project, since, until, *match_values),
    )
    return (dict(row) for row in rows)


def list_nearest_in_time(
    connection: Connection,
    project: int,
    at: float,
    *,
    kinds: Sequence[str],
    is_before: bool,
    limit: int,
    match: str = "",
) -> list[Row]:
    """Return a project's documents before or after a time, the nearest first; those of that very time come after it."""
    comparison, order = ("<", "desc") if is_before else (">=", "asc")
    condition, match_values = _build_match_condition(match, project)
    query = f"""
        select {_COLUMNS} from documents where project = ? and at {comparison} ?
        and kind in (select value from json_each(?)) {condition} order by at {order}, id {order} limit ?
        """
    return fetch_dicts(connection, query, project, at, json.dumps(list(kinds)), *match_values, limit)


def _build_match_condition(match: str, project: int) -> tuple[str, tuple[str | int, ...]]:
    """Return the condition that a project's document matches, and its values; nothing without a query."""
    if not match:
        return "", ()
    # The unary plus keeps SQLite from looking up one match after the other: the rows are read by time, and few are
    # needed. The range keeps the word index from reading other projects' matches.
    condition = "and +id in (select rowid from document_words where document_words match ? and rowid between ? and ?)"
    return condition, (match, _compute_first_id(project), _compute_last_id(project))


def read_documents(connection: Connection, ids: Sequence[int]) -> dict[int, Row]:
    """Return these documents by their ids; those that are gone are missing."""
    query = f"select {_COLUMNS} from documents where id in (select value from json_each(?))"
    return {row["id"]: row for row in fetch_dicts(connection, query, json.dumps(list(ids)))}


def read_words(connection: Connection, ids: Sequence[int]) -> dict[int, set[str]]:
    """Return the words and filter words of documents."""
    rows = connection.execute(
        "select id, words from documents where id in (select value from json_each(?))", (json.dumps(list(ids)),)
    )
    return {document_id: set(words.split()) for document_id, words in rows}


def find_by_source(connection: Connection, kind: str, row: int, name: str) -> Row | None:
    """Return the document of a row, or of a record in a file by its name; None if it is not indexed."""
    query = f"select {_COLUMNS} from documents where kind = ? and row = ? and name = ?"
    return fetch_row(connection, query, kind, row, name)


_NEIGHBOUR_SQL = """
    (select id from documents as beside where beside.session = found.session and beside.kind = '{letter}' and
    (beside.at, beside.id) {than} (found.at, found.id) order by beside.at {order}, beside.id {order} limit 1 {offset})
    """
_NEIGHBOURS_SQL = ", ".join(
    _NEIGHBOUR_SQL.format(letter=PROMPT, than=than, order=order, offset=offset)
    for offset in ("", "offset 1")
    for than, order in (("<", "desc"), (">", "asc"))
)


def find_neighbours(connection: Connection, ids: Sequence[int]) -> dict[int, tuple[int | None, ...]]:
    """Return the prompts beside prompts in their session: before, after, second before and after.

    Of last words only the prompt before is returned, which they answer; calls and others have no neighbours.
    """
    rows = connection.execute(
        f"""
        select id, kind, {_NEIGHBOURS_SQL} from documents as found
        where session and kind in ('{PROMPT}', '{EVENT}') and id in (select value from json_each(?))
        """,
        (json.dumps([document_id for document_id in ids if not unpack_is_call(document_id)]),),
    )
    neighbours: dict[int, tuple[int | None, ...]] = {}
    for document_id, kind, *prompts in rows:
        prompt_before = prompts[:1]
        neighbours[document_id] = tuple(prompts if kind == PROMPT else prompt_before)
    return neighbours
