"""The documents of the index: what can be found, each with the words it is found by.

A document's number is its project, its time and how long it is, put together: what lies in a project is one range of
numbers, in which an index of words can be read without looking at any other, the latest first, in whatever order the
documents were indexed. Whatever is deleted elsewhere
takes its document along, by triggers; whatever comes or changes waits in `to_index`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from math import log2
from time import monotonic
from typing import Any

from hardwon.store.db import Connection, to_storable, transaction
from hardwon.types import frozen

EVERYWHERE = 1 << 22  # stands for a project: what counts in all of them
PROJECT_BITS, SIZE_BITS = 40, 4
SLOT_BITS = PROJECT_BITS - SIZE_BITS
SLOTS_PER_SECOND = 16  # 36 bits of these reach the year 2106
_SLOTS_PER_READ = 64  # neighbouring slots that are looked at together for a free one
_PAGES_PER_MERGE = 200  # of the index of words in one transaction
_VERSION_PATH = "words"  # stands for a file: how words are made
INDEX_TABLES = frozenset(
    {"documents", "vectors", "to_embed", "to_index", "indexed_files", "observation_files", "vectors_went"}
)


@frozen
class DocumentKind:
    """What can be found; `table` is empty for what people keep in files."""

    letter: str
    name: str
    table: str = ""
    is_embedded: bool = True
    weight: float = 1.0


# Calls are many and their words are noise to a vector, and what they meant is in an observation.
DOCUMENT_KINDS = {
    kind.letter: kind
    for kind in (
        DocumentKind("O", "observation", "observations"),
        DocumentKind("S", "summary", "summaries"),
        DocumentKind("P", "prompt", "prompts"),
        DocumentKind("E", "event", "events", is_embedded=False, weight=0.8),
        DocumentKind("L", "lesson"),
        DocumentKind("M", "memory"),
        DocumentKind("H", "handoff"),
    )
}


@frozen
class Document:
    """What the index is to know: `name` is for what has no row, and `times` how often it was put on the list."""

    kind: str
    row: int
    name: str
    session: int
    project: int
    at: float
    words: tuple[str, ...]
    times: int = 0


def compute_size_class(count: int) -> int:
    """How long a text is, in steps of the square root of two; 15 is 181 words and more."""
    return min(int(2 * log2(max(count, 1))), (1 << SIZE_BITS) - 1)


def compute_first_id(project: int) -> int:
    return project << PROJECT_BITS


# What carries meaning is indexed before the calls: those are many, and an observation says what they came to.
_MEANINGFUL_KINDS = ("P", "O", "S")
_WAITING_IN_TABLE = (
    "select to_index.kind as kind, to_index.row as row, to_index.times as times, source.at as at from to_index"
    " left join {table} as source on source.id = to_index.row where to_index.kind = '{letter}'"
)
_LAST_WORDS = " and source.kind in ('Stop', 'SubagentStop')"


def list_waiting_meaningful(connection: Connection, limit: int) -> list[tuple[str, int, int]]:
    """Prompts, observations, summaries and last words to be indexed, newest first: kind, row, and how often listed."""
    selects = [
        _WAITING_IN_TABLE.format(table=DOCUMENT_KINDS[letter].table, letter=letter) for letter in _MEANINGFUL_KINDS
    ]
    selects.append(_WAITING_IN_TABLE.format(table=DOCUMENT_KINDS["E"].table, letter="E") + _LAST_WORDS)
    return _list_newest(connection, " union all ".join(selects), limit)


def list_waiting_events(connection: Connection, limit: int) -> list[tuple[str, int, int]]:
    """Events to be indexed, newest first, in the same form; one whose row is gone comes last."""
    return _list_newest(connection, _WAITING_IN_TABLE.format(table=DOCUMENT_KINDS["E"].table, letter="E"), limit)


def _list_newest(connection: Connection, select: str, limit: int) -> list[tuple[str, int, int]]:
    rows = connection.execute(f"select kind, row, times from ({select}) order by at desc limit ?", (limit,))
    return [tuple(row) for row in rows]


def count_backlog(connection: Connection) -> tuple[int, int]:
    """How much waits for its words, and how much for its vector."""
    row = connection.execute("select (select count(*) from to_index), (select count(*) from to_embed)").fetchone()
    return int(row[0]), int(row[1])


def read_source_rows(connection: Connection, kind: DocumentKind, rows: Sequence[int]) -> list[dict[str, Any]]:
    """The rows with what is known of their sessions: `session` is the host's id, `session_number` ours."""
    source_rows = connection.execute(
        f"select {kind.table}.*, sessions.id as session_number, sessions.host, sessions.session as session_name,"
        " coalesce(sessions.project, 0) as project_number, coalesce(projects.path, '') as project"
        f" from {kind.table} join sessions on sessions.id = {kind.table}.session"
        " left join projects on projects.id = sessions.project"
        f" where {kind.table}.id in (select value from json_each(?))",
        (json.dumps(list(rows)),),
    )
    return [{**dict(row), "session": row["session_name"]} for row in source_rows]


def write_documents(connection: Connection, documents: Iterable[Document], *, max_seconds: float) -> int:
    """Write documents in one transaction, as many as there is time for; gives how many were looked at.

    One that was put on the list again meanwhile is left for the next time, one that is gone from it is not wanted.
    """
    processed, deadline = 0, monotonic() + max_seconds
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
                break
    return processed


def drop_waiting(connection: Connection, entries: Iterable[tuple[str, int, int]]) -> None:
    """Take from the list what has no row any more."""
    with transaction(connection):
        connection.executemany("delete from to_index where kind = ? and row = ? and times = ?", list(entries))


def write_document(connection: Connection, document: Document) -> None:
    """Put a document in its place, within the caller's transaction; without words there is none."""
    source = (document.kind, document.row, to_storable(document.name))
    words = to_storable(" ".join(document.words))
    existing = connection.execute(
        "select id, words, session, project, at from documents where kind = ? and row = ? and name = ?", source
    ).fetchone()
    if existing and tuple(existing)[1:] == (words, document.session, document.project, document.at):
        return
    if existing:
        connection.execute("delete from documents where id = ?", (existing["id"],))
    if not document.words:
        return
    document_id = _allocate_id(connection, document)
    connection.execute(
        "insert into documents (id, kind, row, name, session, project, at, words) values (?, ?, ?, ?, ?, ?, ?, ?)",
        (document_id, *source, document.session, document.project, document.at, words),
    )
    connection.execute("insert into document_words (rowid, words) values (?, ?)", (document_id, words))
    if DOCUMENT_KINDS[document.kind].is_embedded:
        connection.execute("insert or ignore into to_embed (document) values (?)", (document_id,))


def _allocate_id(connection: Connection, document: Document) -> int:
    slot = _find_free_slot(connection, document.project, document.at)
    return compute_first_id(document.project) | slot << SIZE_BITS | compute_size_class(len(document.words))


def _find_free_slot(connection: Connection, project: int, at: float) -> int:
    """Return the first free slot of a project from this time on; where many share a time, one not far behind it."""
    last_slot = (1 << SLOT_BITS) - 1
    slot = min(max(int(at * SLOTS_PER_SECOND), 0), last_slot - (1 << 20))  # a time far ahead leaves room behind it
    step = _SLOTS_PER_READ
    while True:
        low = compute_first_id(project) | slot << SIZE_BITS
        rows = connection.execute(
            "select id from documents where id between ? and ? order by id limit ?",
            (low, low + (_SLOTS_PER_READ << SIZE_BITS) - 1, _SLOTS_PER_READ),
        )
        used_slots = {(number - compute_first_id(project)) >> SIZE_BITS for (number,) in rows}
        free_slot = next(
            (candidate for candidate in range(slot, slot + _SLOTS_PER_READ) if candidate not in used_slots), None
        )
        if free_slot is not None:
            return free_slot
        slot += step
        step *= 2


def replace_file_documents(
    connection: Connection, kind: str, path: str, fingerprint: str, documents: Iterable[Document]
) -> bool:
    """Make a file's documents those given, all or none; False if they are of this print already."""
    with transaction(connection):
        indexed_file = connection.execute(
            "select print from indexed_files where path = ?", (to_storable(path),)
        ).fetchone()
        if indexed_file and indexed_file["print"] == fingerprint:
            return False
        documents_by_name = {document.name: document for document in documents}
        existing_rows = connection.execute("select id, name from documents where kind = ?", (kind,)).fetchall()
        connection.executemany(
            "delete from documents where id = ?",
            [(document_id,) for document_id, name in existing_rows if name not in documents_by_name],
        )
        for document in documents_by_name.values():
            write_document(connection, document)
        connection.execute(
            "insert or replace into indexed_files (path, print) values (?, ?)", (to_storable(path), fingerprint)
        )
    return True


def read_fingerprint(connection: Connection, path: str) -> str:
    row = connection.execute("select print from indexed_files where path = ?", (to_storable(path),)).fetchone()
    return str(row["print"]) if row else ""


def delete_file_documents(connection: Connection) -> None:
    """Leave out all that came from files, within the caller's transaction; the next refresh reads them again."""
    letters = ", ".join(f"'{kind.letter}'" for kind in DOCUMENT_KINDS.values() if not kind.table)
    connection.execute(f"delete from documents where kind in ({letters})")
    connection.execute("delete from indexed_files where path != ?", (_VERSION_PATH,))


def ensure_index_version(connection: Connection, version: str) -> None:
    """Look at every document anew if its words were made another way; those that stay the same are not written."""
    if read_fingerprint(connection, _VERSION_PATH) == version:
        return
    with transaction(connection):
        queue_reindexing(connection, "true")
        delete_file_documents(connection)
        connection.execute("insert or replace into indexed_files (path, print) values (?, ?)", (_VERSION_PATH, version))


def queue_reindexing(connection: Connection, condition: str) -> None:
    """Put documents of rows on the list, within the caller's transaction; a row that goes leaves it by its trigger."""
    letters = ", ".join(f"'{kind.letter}'" for kind in DOCUMENT_KINDS.values() if kind.table)
    connection.execute(
        f"insert into to_index (kind, row, times) select kind, row, 1 from documents where kind in ({letters})"
        f" and {condition} on conflict (kind, row) do update set times = times + 1"
    )


def merge_word_index(connection: Connection) -> bool:
    """Merge some of the index of words, by which what was deleted leaves it; False once there is nothing to merge."""
    earlier_changes = connection.total_changes
    # A negative number of pages merges all segments into one, in steps of this size.
    connection.execute("insert into document_words (document_words, rank) values ('merge', ?)", (-_PAGES_PER_MERGE,))
    return connection.total_changes - earlier_changes >= 2  # as the manual of FTS5 says


def rebuild_word_index(connection: Connection) -> None:
    """Build the index of words anew, so that nothing of what was deleted is left in its pages."""
    connection.execute("insert into document_words (document_words) values ('rebuild')")


def list_unembedded(connection: Connection, limit: int) -> list[tuple[int, str, int, str]]:
    """Documents that wait for a vector, what people keep in files first, then the newest: number, kind, row, name."""
    rows = connection.execute(
        "select id, kind, row, name from to_embed join documents on documents.id = to_embed.document"
        " order by row = 0 desc, at desc limit ?",
        (limit,),
    )
    return [tuple(row) for row in rows]


def store_vectors(connection: Connection, model: str, vectors: Iterable[tuple[int, bytes, bytes]]) -> int:
    """Keep (document, code, vector) in one transaction, of those documents that are still there."""
    stored_count = 0
    with transaction(connection):
        for document, code, vector in vectors:
            connection.execute("delete from to_embed where document = ?", (document,))
            stored_count += connection.execute(
                "insert or ignore into vectors (document, model, code, vector) select id, ?, ?, ? from documents"
                " where id = ?",
                (model, code, vector, document),
            ).rowcount
    return stored_count


def skip_embedding(connection: Connection, documents: Sequence[int]) -> None:
    """Let those wait no longer that have no text any more."""
    if documents:
        with transaction(connection):
            connection.executemany("delete from to_embed where document = ?", [(document,) for document in documents])


def drop_stale_vectors(connection: Connection, model: str, limit: int) -> int:
    """Drop some vectors that another model made; their documents wait for new ones."""
    with transaction(connection):
        return connection.execute(
            "delete from vectors where id in (select id from vectors where model < ?1 or model > ?1 limit ?2)",
            (model, limit),
        ).rowcount
