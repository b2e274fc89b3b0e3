"""Delete a text, a session, a project, or everything older than a time from the database for good.

For a text every table of the schema is searched, so that new tables are covered too, and rows that contain it are
deleted. In rows that others depend on the text is cleared instead. Read positions of transcripts stay, so that deleted
text is not read again. Finally the file is rewritten, since deleted rows stay in its pages.
"""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BufferedRandom
from typing import Any, NamedTuple

from hardwon import paths
from hardwon.store import candidates, db, deletions, documents, events, jobs, transcripts, turns
from hardwon.store.candidates import Candidate
from hardwon.store.db import (
    Connection,
    begin_epoch,
    fetch_column,
    fetch_value,
    migrate,
    read_schema_version,
    transaction,
)
from hardwon.store.migrations import LATEST_VERSION
from hardwon.store.observations import parse_json_list
from hardwon.store.transcripts import HIDDEN_STATE
from hardwon.text import traces
from hardwon.types import ReadPosition, replace

LOCK_FILE = "purge.lock"
# A text is cleared from these columns and the row stays, because other rows refer to it, a decision or a daily cap
# counts it, or its hash keeps a lesson in force.
_CLEARED_COLUMNS = {
    "sessions": ("cwd", "transcript", "reason", "first_prompt"),
    "approvals": ("body",),
    "jobs": ("why",),
    "runs": ("purpose", "provider", "model", "project", "outcome", "why"),
}
_SPECIAL_TABLES = frozenset({*_CLEARED_COLUMNS, "projects", "transcripts", "candidates", "events", "prompts"})
_HASH_TABLES = frozenset({"deletions", "tombstones"})  # only counts and hashes, so a match would be a coincidence
_IS_BELOW_SQL = "(cwd = ?1 or substr(cwd, 1, length(?1) + 1) = ?1 || '/')"
_IN_PROJECT_SQL = f"(project in (select id from projects where path = ?1) or (project is null and {_IS_BELOW_SQL}))"
_AT_SECONDS_SQL = "cast(strftime('%s', at) as real)"
# Prompts, events and other rows that refer to a session are deleted with its row. Of each list the statements run in
# this order: first what is found by way of a session, then the sessions.
_DELETE_SESSION_SQL: tuple[str, ...] = (
    "update runs set why = '' where session in (select id from sessions where session = ?1)",
    "delete from injections where session = ?1",
    "delete from ignored_denials where session = ?1",
    "delete from calls where session = ?1",
    "delete from signals where session = ?1",
    "delete from memories where session = ?1",
    "delete from reflections where session = ?1",
    "delete from sessions where session = ?1",
)
_PROJECT_SESSIONS_SQL = f"(select host, session from sessions where {_IN_PROJECT_SQL})"
_DELETE_PROJECT_SQL = (
    f"delete from injections where (host, session) in {_PROJECT_SESSIONS_SQL}",
    f"delete from ignored_denials where (host, session) in {_PROJECT_SESSIONS_SQL}",
    f"""
    update runs set project = '', why = '' where project = ?1
    or session in (select id from sessions where {_IN_PROJECT_SQL})
    """,
    f"delete from sessions where {_IN_PROJECT_SQL}",
    "delete from projects where path = ?1",
    "delete from anchors where substr(path, 1, length(?1) + 1) = ?1 || '/'",
    f"delete from calls where {_IS_BELOW_SQL}",
    "delete from signals where project = ?1",
    "delete from memories where project = ?1",
    "delete from reflections where project = ?1",
)
_DELETE_OLDER_SQL = (
    "delete from injections where at < ?1",
    "delete from prompts where at < ?1",
    "delete from events where at < ?1",
    "delete from observations where at < ?1",
    "delete from summaries where at < ?1",
    "delete from scans where at < ?1",
    "delete from judgements where at < ?1",
    "delete from reflections where at < ?1",
    "delete from kept where at < ?1",
    "delete from ignored_denials where at < ?1",
    f"delete from calls where {_AT_SECONDS_SQL} < ?1",
    f"delete from signals where {_AT_SECONDS_SQL} < ?1",
    "delete from memories where at < ?1 and status != 'active'",
    # Runs of the last day stay, since caps count them.
    "delete from runs where at < ?1 and day < (select max(day) from runs)",
    "delete from refusals where at < ?1 and day < (select max(day) from runs)",
    "update runs set project = '', why = '' where at < ?1",
    "delete from sessions where last_at < ?1",
)


@dataclass(frozen=True, slots=True)
class PurgeTarget:
    """The text, session, project or time to purge; `text_pieces` are what is searched for of a text."""

    text_pieces: tuple[str, ...] = ()
    session: str = ""
    project: str = ""
    older_than: float | None = None


class EndPosition(NamedTuple):
    """A transcript as one of its readers would have read it to the end."""

    purpose: str
    path: str
    agent: str
    position: ReadPosition


class TargetReflection(NamedTuple):
    """A reflection that is deleted: the path of its page, the path of its raw log, and its status."""

    page: str
    log: str
    status: str


def purge_target(
    connection: Connection, target: PurgeTarget, end_positions: Iterable[EndPosition], at: float
) -> Counter[str]:
    """Delete the target in one transaction; move the transcripts' readers to the end so that no scan restores it."""
    # Deleted rows are overwritten with zeros at once, not only when the file is rewritten.
    connection.execute("pragma secure_delete = on").fetchall()
    with transaction(connection):
        target_kind = _add_target_tombstones(connection, target, at)
        deleted_counts = _delete_target(connection, target, at)
        deletions.record(connection, deletions.PURGE, target_kind, deleted_counts, at)
        # Every process that read the database before this refuses to write what it read.
        begin_epoch(connection)
        for end in end_positions:
            hidden = replace(end.position, reader="", watch=HIDDEN_STATE)
            transcripts.set_read_position(connection, end.purpose, end.path, end.agent, hidden, at)
    return deleted_counts


def preview_purge(connection: Connection, target: PurgeTarget) -> Counter[str]:
    """Return what would be deleted, and change nothing."""
    # Uncommitted changes stay in memory: a preview must not write even one byte to the disk.
    connection.execute("pragma cache_spill = off").fetchall()
    connection.execute("begin immediate")
    try:
        return _delete_target(connection, target, at=0.0)  # rolled back, so the time does not matter
    finally:
        connection.execute("rollback")


def _add_target_tombstones(connection: Connection, target: PurgeTarget, at: float) -> str:
    """Leave tombstones for what is about to be deleted, so that no import brings it back; return its kind."""
    if target.text_pieces:
        deletions.add_text_tombstones(connection, target.text_pieces, at)
        return deletions.TEXT
    if target.older_than is not None:
        # A session that began earlier may go on, so only its part from before the time is covered.
        names = fetch_column(connection, "select session from sessions where started_at < ?", target.older_than)
        deletions.add_tombstones(connection, deletions.SESSION, names, target.older_than)
        return "older-than"
    deletions.add_tombstones(connection, deletions.SESSION, find_target_sessions(connection, target), at)
    if target.session:
        return deletions.SESSION
    deletions.add_tombstones(connection, deletions.PROJECT, [target.project], at)
    return deletions.PROJECT


def _delete_target(connection: Connection, target: PurgeTarget, at: float) -> Counter[str]:
    """Delete the target within the caller's transaction; return the deleted rows by table, and how many changed."""
    counts_before = _count_rows(connection)
    # Tables are deleted from in any order; the references must hold at the end.
    connection.execute("pragma defer_foreign_keys = on")
    signal_counts = _count_signals(connection)
    if target.text_pieces:
        changed_counts = _delete_text(connection, target.text_pieces, at)
    else:
        changed_counts = Counter({"transcripts (state)": _reset_reader_state(connection, target)})
        _delete_rows(connection, target)
    _purge_candidates(connection, signal_counts, target.text_pieces)
    sessions_that_lost_prompts = fetch_column(
        connection,
        """
        select id from sessions where prompts != (select count(*) from prompts where prompts.session = sessions.id)
        or (first_prompt = '' and prompts > 0)
        """,
    )
    for session in sessions_that_lost_prompts:
        old_numbers = turns.read_prompt_numbers(connection, session)
        events.recount_session(connection, session)
        turns.renumber_turns(connection, session, old_numbers)
    documents.delete_file_documents(connection)
    # The earlier wordings of a memory are stored with its approvals, and are deleted with it.
    connection.execute(
        """
        update approvals set body = '' where kind = 'memory' and body != ''
        and subject not in (select cast(id as text) from memories)
        """
    )
    deleted_counts = counts_before - _count_rows(connection)
    return deleted_counts + changed_counts


def erase_deleted_pages(connection: Connection) -> bool:
    """Rewrite the file so that nothing deleted is left in its pages, its word indexes or its log.

    Return False if another process is reading it.
    """
    for name in _list_word_indexes(connection):
        with suppress(sqlite3.OperationalError):  # a contentless index cannot be rebuilt, and holds only words
            connection.execute(f"insert into {name} ({name}) values ('rebuild')")
    connection.execute("vacuum")
    return not fetch_value(connection, "pragma wal_checkpoint(truncate)")


def open_backup(path: str, *, dry_run: bool) -> Connection:
    """Open the database of a backup, migrated so that it can be purged like our own; the caller closes it.

    For a dry run an older one is copied to memory, since nothing may be changed.
    """
    connection = sqlite3.connect(path, isolation_level=None)
    connection.row_factory = sqlite3.Row
    try:
        if dry_run and read_schema_version(connection) < LATEST_VERSION:
            connection, disk_connection = sqlite3.connect(":memory:", isolation_level=None), connection
            connection.row_factory = sqlite3.Row
            disk_connection.backup(connection)
            disk_connection.close()
        for pragma in ("foreign_keys = on", "secure_delete = on", "cache_spill = off"):
            connection.execute(f"pragma {pragma}").fetchall()
        migrate(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _iter_tables(connection: Connection) -> Iterator[tuple[str, list[str]]]:
    """Yield every table with its text columns, except the shadow tables of a word index."""
    virtual_tables = fetch_column(
        connection, "select name from sqlite_master where type = 'table' and sql like 'create virtual%'"
    )
    for name in fetch_column(connection, "select name from sqlite_master where type = 'table'"):
        is_shadow = any(name == table or name.startswith(f"{table}_") for table in virtual_tables)
        if not is_shadow and not name.startswith("sqlite_"):
            query = f"select name from pragma_table_info('{name}') where type like '%text%'"
            yield name, fetch_column(connection, query)


def _list_word_indexes(connection: Connection) -> list[str]:
    """Return the names of the full-text tables, of which there is one."""
    return fetch_column(connection, "select name from sqlite_master where sql like 'create virtual table%using fts5%'")


def _count_rows(connection: Connection) -> Counter[str]:
    """Return how many rows each table has, without those that are derived and those of tombstones."""
    names = [name for name, _ in _iter_tables(connection) if name not in documents.INDEX_TABLES | _HASH_TABLES]
    return Counter(db.count_rows(connection, names))


def _count_signals(connection: Connection) -> dict[str, int]:
    """Return how many signals each signature has."""
    return dict(connection.execute("select signature, count(*) from signals group by signature").fetchall())


def _delete_text(connection: Connection, pieces: Sequence[str], at: float) -> Counter[str]:
    """Delete or clear what holds these pieces in every table; return how many rows were changed, by table."""

    def has_piece(value: object) -> bool:
        return isinstance(value, str) and traces.has_any_piece(value, pieces)

    # SQLite cannot ignore punctuation and escapes, so each value is judged in Python.
    connection.create_function("holds", 1, has_piece, deterministic=True)
    tables = dict(_iter_tables(connection))
    _delete_prompts_and_events(connection, tables, at)
    # A document's words may be adjacent where its source has text between them, so the source need not be deleted.
    documents.queue_reindexing(connection, "holds(words)")
    deletions.store_memory_traces(connection, _build_condition(("text", "project", "session", "evidence")))
    for index in _list_word_indexes(connection):
        tables[index] = fetch_column(connection, f"select name from pragma_table_info('{index}')")
    for name, columns in tables.items():
        if columns and name not in _SPECIAL_TABLES | _HASH_TABLES:
            connection.execute(f"delete from {name} where {_build_condition(columns)}")
    project_condition = _build_condition(("path", "name", "remote"))
    connection.execute(
        f"update sessions set project = null where project in (select id from projects where {project_condition})"
    )
    connection.execute(f"delete from projects where {project_condition}")
    for table, column in (("sessions", "session"), ("transcripts", "path"), ("approvals", "subject")):
        connection.execute(f"delete from {table} where holds({column})")
    changed_counts = Counter[str]()
    for table, cleared_columns in _CLEARED_COLUMNS.items():
        changes = ", ".join(f"{column} = iif(holds({column}), '', {column})" for column in cleared_columns)
        changed_counts[f"{table} (cut out)"] = connection.execute(
            f"update {table} set {changes} where {_build_condition(cleared_columns)}"
        ).rowcount
    changed_counts["transcripts (state)"] = connection.execute(
        "update transcripts set reader = '', watch = ? where holds(reader) or holds(watch)", (HIDDEN_STATE,)
    ).rowcount
    return changed_counts


def _build_condition(columns: Iterable[str]) -> str:
    """Return the SQL condition that one of these columns holds the text."""
    return "(" + " or ".join(f"holds({column})" for column in columns) + ")"


def _delete_prompts_and_events(connection: Connection, tables: Mapping[str, Sequence[str]], at: float) -> None:
    """Delete the prompts and events that hold a text with what was distilled from them, and distil the rest again."""
    prompt_rows = connection.execute(
        f"delete from prompts where {_build_condition(tables['prompts'])} returning session, number"
    ).fetchall()
    event_rows = connection.execute(
        f"delete from events where {_build_condition(tables['events'])} returning key, session, prompt"
    ).fetchall()
    turns_without_prompt = {(session, number) for session, number in prompt_rows}
    deleted_events = {key for key, _, _ in event_rows}
    changed_turns = turns_without_prompt | {(session, number) for _, session, number in event_rows}
    # An empty fingerprint, so that the turn counts as changed; one that expired must not be distilled again.
    connection.executemany(
        f"""
        update turns set print = iif(print like '{turns.EXPIRED_PREFIX}%', '{turns.EXPIRED_PREFIX}', '')
        where session = ? and number = ?
        """,
        changed_turns,
    )
    for session in {session for session, _ in changed_turns}:
        observation_rows = connection.execute(
            "select id, prompt, events from observations where session = ?", (session,)
        ).fetchall()
        for observation_id, number, source_events in observation_rows:
            has_lost_source = not deleted_events.isdisjoint(parse_json_list(source_events))
            if has_lost_source or (session, number) in turns_without_prompt:
                connection.execute("delete from observations where id = ?", (observation_id,))
        # A summary may repeat what any of the session's turns said.
        connection.execute("delete from summaries where session = ?", (session,))
        jobs.enqueue(connection, jobs.DISTIL, session, priority=jobs.HISTORY, now=at)


def _delete_rows(connection: Connection, target: PurgeTarget) -> None:
    """Delete everything of a session, of a project, or from before a time."""
    value: object = target.session or target.project or target.older_than
    if target.session:
        memory_condition = "session = ?"
        statements = _DELETE_SESSION_SQL
    elif target.project:
        memory_condition = "project = ?"
        statements = _DELETE_PROJECT_SQL
    else:
        memory_condition = "at < ?"
        statements = _DELETE_OLDER_SQL
    deletions.store_memory_traces(connection, memory_condition, (value,))
    for statement in statements:
        connection.execute(statement, (value,))


def _reset_reader_state(connection: Connection, target: PurgeTarget) -> int:
    """Clear the reader states of the target's transcripts; return how many held something."""
    query = "update transcripts set reader = '', watch = ?1 where path = ?2 and (reader != '' or watch != ?1)"
    count = 0
    for path in find_target_transcripts(connection, target):
        count += connection.execute(query, (HIDDEN_STATE, path)).rowcount
    return count


def find_target_transcripts(connection: Connection, target: PurgeTarget) -> set[str]:
    """Return the transcripts of a session or project; none for a text, which may be in any, or for a time."""
    if not target.session and not target.project:
        return set()
    if target.session:
        query = """
            select transcript from sessions where session = ?1 union select path from calls where session = ?1
            union select path from signals where session = ?1
            """
    else:
        query = f"""
            select transcript from sessions where {_IN_PROJECT_SQL} union select path from calls where {_IS_BELOW_SQL}
            union select path from signals where project = ?1
            """
    paths = fetch_column(connection, query, target.session or target.project)
    return {os.path.realpath(path) for path in paths if path}


def find_target_reflections(connection: Connection, target: PurgeTarget) -> list[TargetReflection]:
    """Return the reflections that are deleted; all of them for a text."""
    rows = connection.execute(
        """
        select draft, log, status from reflections where iif(?1 != '', session = ?1, ?2 = '' or project = ?2)
        and (?3 is null or at < ?3)
        """,
        (target.session, target.project, target.older_than),
    )
    return [TargetReflection(*row) for row in rows.fetchall()]


def find_target_sessions(connection: Connection, target: PurgeTarget) -> set[str]:
    """Return the agents' ids of the sessions that are deleted whole."""
    if target.session:
        return {target.session}
    query = f"select session from sessions where (?1 != '' and {_IN_PROJECT_SQL}) or last_at < ?2"
    return set(fetch_column(connection, query, target.project, target.older_than))


def find_session_ids(connection: Connection, name: str) -> list[str]:
    """Return the sessions whose id is this or begins so, or whose number it is, in whichever table they are."""
    tables = ("sessions", "signals", "calls", "injections", "reflections")
    queries = [f"select session from {table} where substr(session, 1, length(?1)) = ?1" for table in tables]
    queries.append("select session from sessions where cast(id as text) = ?1")
    session_ids = sorted(fetch_column(connection, " union ".join(queries), name))
    if name in session_ids:
        return [name]  # a whole id is meant, even if others begin with it
    return session_ids


def _purge_candidates(connection: Connection, old_counts: Mapping[str, int], pieces: Sequence[str]) -> None:
    """Delete or scrub the candidates that lost signals or hold the text, and have their signatures weighed again.

    An undecided candidate is deleted. What a person decided stays decided; after a text was purged, only if other
    signals still have its signature, which is made of words.
    """
    new_counts = _count_signals(connection)

    def has_text(value: str) -> bool:
        return bool(pieces) and traces.has_any_piece(value, pieces)

    for candidate in candidates.list_all(connection):
        signature = candidate.signature
        all_text = json.dumps([candidate.slug, signature, candidate.record], ensure_ascii=False)
        has_lost_signals = old_counts.get(signature, 0) != new_counts.get(signature, 0)
        if not has_lost_signals and not has_text(all_text):
            continue  # the purge does not concern it
        is_undecided = candidate.status in candidates.UNDECIDED_STATUSES
        # The signature is made of words, so only signals that are left may keep it.
        is_unsupported = bool(pieces) and not new_counts.get(signature)
        if is_undecided or is_unsupported or has_text(f"{candidate.slug} {signature}"):
            if candidate.status == "rejected":
                deletions.store_candidate_trace(connection, signature)
            candidates.remove(connection, candidate.number)
        else:
            _scrub_candidate(connection, candidate, pieces)
        connection.execute("update signals set fresh = 1 where signature = ?", (signature,))


def _scrub_candidate(connection: Connection, candidate: Candidate, pieces: Sequence[str]) -> None:
    """Keep a decision, but remove the fields that contain the text and the places of deleted signals.

    If no signal supports the wording any more, remove all of it.
    """
    record: dict[str, Any] = dict(candidate.record)
    episodes = candidates.list_episodes(connection, candidate.signature)
    if pieces or candidate.status == "rejected":
        wordings = [(episode.body["problem"], episode.body["solution"]) for episode in episodes]
        if (record["problem"], record["solution"]) not in wordings:
            record |= {"summary": "", "problem": "", "solution": "", "triggers": {}, "evidence": []}
        record = _remove_pieces(record, pieces)
    occurrences = candidates.read_occurrences(connection, candidate.signature)
    remaining_paths = {episode.path for episode in episodes}
    record["evidence"] = [quote for quote in record.get("evidence", ()) if quote.get("path") in remaining_paths]
    record["sourceSessionIds"] = [name for name in record.get("sourceSessionIds", ()) if name in occurrences.sessions]
    record["occurrenceCount"] = occurrences.times
    json_values = (occurrences.sessions, occurrences.projects, record)
    columns = [json.dumps(value, separators=(",", ":")) for value in json_values]
    connection.execute(
        "update candidates set occurrences = ?, sessions = ?, projects = ?, record = ? where number = ?",
        (occurrences.times, *columns, candidate.number),
    )


def _remove_pieces(value: Any, pieces: Sequence[str]) -> Any:
    """Return a JSON value with each string that holds the text emptied."""
    if isinstance(value, str):
        return "" if traces.has_any_piece(value, pieces) else value
    if isinstance(value, dict):
        return {name: _remove_pieces(item, pieces) for name, item in value.items()}
    if isinstance(value, list):
        return [_remove_pieces(item, pieces) for item in value]
    return value


# The lock is for files made from the database: shared by their writers, exclusive for a purge. A transaction notices by
# the epoch that a purge ran between reading and writing. A file has no epoch, so it is written under this lock: either
# the purge comes later and finds the file, or it came before and the file is not written.


@contextmanager
def hold_write_lock(home: str, connection: db.Connection, epoch: int, *, wait: bool = True) -> Iterator[None]:
    """Hold off purges while files are written; raise `PurgeConflict` if one ran since the epoch.

    Without `wait`, a running purge raises it too, for callers that cannot wait.
    """
    with _open_lock(home) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise db.PurgeConflict from None
        if db.read_epoch(connection) != epoch:
            raise db.PurgeConflict
        yield


@contextmanager
def hold_copy_lock(home: str) -> Iterator[None]:
    """Hold off purges while the database is copied, so that they also find the copy."""
    with _open_lock(home) as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        yield


@contextmanager
def hold_purge_lock(home: str) -> Iterator[None]:
    """Wait for writers of files to finish, and hold off new ones during the block."""
    with _open_lock(home) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _open_lock(home: str) -> BufferedRandom:
    """Open the lock file; closing it releases the lock."""
    path = os.path.join(paths.make_private_folder(home), LOCK_FILE)
    return open(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b")
