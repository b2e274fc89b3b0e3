"""Taking something out of the database for good: a text, a session, a project, or all that is older than a time.

For a text every table is looked through, also those that came after this was written: a row that holds it goes. Only
what other rows hang on is mended instead. Marks of transcripts stay where they are, so that what went is not read
again; what was under way there is forgotten. Then the file is written anew, since a deleted row stays in its pages.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from hardwon.store import candidates, deletions, documents, jobs, recount, rejections, transcripts, turns
from hardwon.store.candidates import Candidate
from hardwon.store.db import Connection, begin_epoch, migrate, read_schema_version, transaction
from hardwon.store.migrations import MIGRATIONS
from hardwon.store.observations import parse_json_list
from hardwon.text import traces
from hardwon.types import ReadPosition, frozen, replace

HIDDEN_STATE = '{"hidden":true}'  # what follows in a transcript counts as private until the next prompt
_MENDED_TABLES = ("sessions", "projects", "transcripts", "candidates", "jobs", "runs", "events", "prompts", "approvals")
_TABLES_WITHOUT_TEXT = (
    "deletions",
    "tombstones",
)  # counts and hashes: a text that looks like one of them is not in them
_AT_SECONDS = "cast(strftime('%s', at) as real)"
_BELOW = "(cwd = ?1 or substr(cwd, 1, length(?1) + 1) = ?1 || '/')"
_IN_PROJECT = f"(project in (select id from projects where path = ?1) or (project is null and {_BELOW}))"


@frozen
class PurgeTarget:
    """What is to go, by one of these; pieces are what is looked for of a text."""

    text_pieces: tuple[str, ...] = ()
    session: str = ""
    project: str = ""
    older_than: float | None = None


def delete_target(connection: Connection, target: PurgeTarget, at: float = 0.0) -> Counter[str]:
    """Delete it within the caller's transaction; gives the rows by table, and what was mended."""
    counts_before = _count_rows(connection)
    connection.execute("pragma defer_foreign_keys = on")
    signal_counts = _count_signals(connection)
    if target.text_pieces:
        changed_counts = _delete_text(connection, target.text_pieces, at)
    else:
        changed_counts = Counter({"transcripts (state)": _reset_reader_state(connection, target)})
        _delete_rows(connection, target)
    _purge_candidates(connection, signal_counts, target.text_pieces)
    for (session,) in connection.execute(
        "select id from sessions where prompts != (select count(*) from prompts where prompts.session = sessions.id)"
        " or (first_prompt = '' and prompts > 0)"
    ).fetchall():
        old_numbers = turns.read_prompt_numbers(connection, session)
        recount.recount_session(connection, session)
        turns.renumber_turns(connection, session, old_numbers)
    documents.delete_file_documents(connection)
    # The wordings of a memory are kept with its approvals, and go with it.
    connection.execute(
        "update approvals set body = '' where kind = 'memory' and body != ''"
        " and subject not in (select cast(id as text) from memories)"
    )
    deleted_counts = counts_before - _count_rows(connection)
    return Counter({name: count for name, count in (deleted_counts + changed_counts).items() if count})


def purge_target(
    connection: Connection, target: PurgeTarget, read_positions: Iterable[tuple[str, str, str, ReadPosition]], at: float
) -> Counter[str]:
    """Delete it in one transaction, with marks (purpose, path, host) set so that no scan brings it back."""
    connection.execute("pragma secure_delete = on").fetchall()
    with transaction(connection):
        _bury_target(connection, target, at)
        deleted_counts = delete_target(connection, target, at)
        deletions.record(connection, deletions.PURGE, _get_target_kind(target), deleted_counts, at)
        begin_epoch(connection)
        for purpose, path, agent, position in read_positions:
            transcripts.set_read_position(
                connection, purpose, path, agent, replace(position, reader="", watch=HIDDEN_STATE), at
            )
    return deleted_counts


def _get_target_kind(target: PurgeTarget) -> str:
    if target.text_pieces:
        return deletions.TEXT
    if target.session:
        return deletions.SESSION
    return deletions.PROJECT if target.project else "older-than"


def _bury_target(connection: Connection, target: PurgeTarget, at: float) -> None:
    """Leave tombstones for what is about to go, so that no import brings it back."""
    if target.text_pieces:
        deletions.bury_text(connection, target.text_pieces, at)
    elif target.older_than is not None:
        rows = connection.execute("select session from sessions where started_at < ?", (target.older_than,)).fetchall()
        deletions.bury(connection, deletions.SESSION, [session for (session,) in rows], target.older_than)
    else:
        deletions.bury(connection, deletions.SESSION, find_target_sessions(connection, target), at)
        deletions.bury(connection, deletions.PROJECT, [target.project] if target.project else [], at)


def erase_deleted_pages(connection: Connection) -> bool:
    """Leave nothing of what was deleted in the file, in an index of words, or in the log; False if somebody reads."""
    for name in _list_word_indexes(connection):
        with suppress(sqlite3.OperationalError):  # one without content cannot be built anew, and holds words only
            connection.execute(f"insert into {name} ({name}) values ('rebuild')")
    connection.execute("vacuum")
    busy, _, _ = connection.execute("pragma wal_checkpoint(truncate)").fetchone()
    return not busy


def open_backup(path: str, *, dry_run: bool) -> Connection:
    """The database of a backup, brought up to date so that it can be purged like our own; an error if it cannot be.

    One that is older is looked at in memory if nothing may be changed.
    """
    connection = sqlite3.connect(path, isolation_level=None)
    connection.row_factory = sqlite3.Row
    try:
        if dry_run and read_schema_version(connection) < len(MIGRATIONS):
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


def preview_purge(connection: Connection, target: PurgeTarget) -> Counter[str]:
    """What would go, with nothing changed."""
    connection.execute("pragma cache_spill = off").fetchall()
    connection.execute("begin immediate")
    try:
        return delete_target(connection, target)
    finally:
        connection.execute("rollback")


def _iter_tables(connection: Connection) -> Iterator[tuple[str, list[str]]]:
    """Every table of ours with its columns that can hold text; not those in which an index of words keeps itself."""
    rows = connection.execute("select name, sql from sqlite_master where type = 'table'").fetchall()
    virtual_tables = [name for name, sql in rows if str(sql).lower().startswith("create virtual")]
    for name, _ in rows:
        if (
            name.startswith("sqlite_")
            or name in virtual_tables
            or any(name.startswith(f"{virtual_table}_") for virtual_table in virtual_tables)
        ):
            continue
        columns = connection.execute(f"select name from pragma_table_info('{name}') where type like '%text%'")
        yield name, [column for (column,) in columns]


def _list_word_indexes(connection: Connection) -> list[str]:
    """The indexes of words."""
    rows = connection.execute("select name from sqlite_master where sql like 'create virtual table%using fts5%'")
    return [name for (name,) in rows.fetchall()]


def _count_rows(connection: Connection) -> Counter[str]:
    names = [
        name for name, _ in _iter_tables(connection) if name not in (*documents.INDEX_TABLES, *_TABLES_WITHOUT_TEXT)
    ]
    return Counter({name: connection.execute(f"select count(*) from {name}").fetchone()[0] for name in names})


def _count_signals(connection: Connection) -> dict[str, int]:
    """How many signals each candidate has."""
    return dict(connection.execute("select signature, count(*) from signals group by signature").fetchall())


def _delete_text(connection: Connection, pieces: Sequence[str], at: float) -> Counter[str]:
    def has_piece(value: object) -> bool:
        return isinstance(value, str) and traces.has_any_piece(value, pieces)

    connection.create_function("holds", 1, has_piece, deterministic=True)
    _delete_prompts_and_events(connection, at)
    documents.queue_reindexing(
        connection, "holds(words)"
    )  # words may stand side by side that do not in what they are of
    rejections.store_memory_traces(connection, "(holds(text) or holds(project) or holds(session) or holds(evidence))")
    tables = [table for table in _iter_tables(connection) if table[0] not in (*_MENDED_TABLES, *_TABLES_WITHOUT_TEXT)]
    for index in _list_word_indexes(connection):
        columns = connection.execute(f"select name from pragma_table_info('{index}')").fetchall()
        tables.append((index, [column for (column,) in columns]))
    for name, columns in tables:
        if columns:
            connection.execute(f"delete from {name} where {' or '.join(f'holds({column})' for column in columns)}")
    mended_counts = Counter[str]()
    connection.execute(
        "update sessions set project = null where project in"
        " (select id from projects where holds(path) or holds(name) or holds(remote))"
    )
    connection.execute("delete from projects where holds(path) or holds(name) or holds(remote)")
    connection.execute("delete from sessions where holds(session)")
    mended_counts["sessions (cut out)"] = _clear_columns(
        connection, "sessions", ("cwd", "transcript", "reason", "first_prompt")
    )
    mended_counts["transcripts (state)"] = connection.execute(
        "update transcripts set reader = '', watch = ? where holds(reader) or holds(watch)", (HIDDEN_STATE,)
    ).rowcount
    connection.execute("delete from transcripts where holds(path)")
    # The hash of what was approved stays, so that the lesson stays in force as its file says it.
    mended_counts["approvals (cut out)"] = connection.execute(
        "update approvals set body = '' where holds(body)"
    ).rowcount
    connection.execute("delete from approvals where holds(subject)")
    mended_counts["jobs (why)"] = connection.execute("update jobs set why = '' where holds(why)").rowcount
    # A run stays and counts against its day's caps, whatever was said of it.
    run_columns = ("purpose", "provider", "model", "project", "outcome", "why")
    mended_counts["runs (cut out)"] = _clear_columns(connection, "runs", run_columns)
    return mended_counts


def _clear_columns(connection: Connection, table: str, columns: Sequence[str]) -> int:
    """Empty the columns that hold the text; gives how many rows had one."""
    changes = ", ".join(f"{column} = iif(holds({column}), '', {column})" for column in columns)
    where = " or ".join(f"holds({column})" for column in columns)
    return connection.execute(f"update {table} set {changes} where {where}").rowcount


def _delete_prompts_and_events(connection: Connection, at: float) -> None:
    """The prompts and events that hold a text go with what was distilled from them; the rest is distilled again."""
    deleted_rows: dict[str, list[tuple[str, int, int]]] = {}
    for table, number in (("prompts", "number"), ("events", "prompt")):
        columns = " or ".join(f"holds({column})" for column in dict(_iter_tables(connection))[table])
        rows = connection.execute(f"select key, session, {number} from {table} where {columns}").fetchall()
        deleted_rows[table] = [tuple(row) for row in rows]
        connection.executemany(f"delete from {table} where key = ?", [(key,) for key, _, _ in deleted_rows[table]])
    deleted_turns = {(session, number) for _, session, number in deleted_rows["prompts"]}
    deleted_events = {key for key, _, _ in deleted_rows["events"]}
    connection.executemany(
        f"update turns set print = iif(print like '{turns.EXPIRED_PREFIX}%', '{turns.EXPIRED_PREFIX}', '')"
        " where session = ? and number = ?",
        {(session, number) for rows in deleted_rows.values() for _, session, number in rows},
    )
    for session in {session for rows in deleted_rows.values() for _, session, _ in rows}:
        for observation_id, number, source_events in connection.execute(
            "select id, prompt, events from observations where session = ?", (session,)
        ).fetchall():
            if (session, number) in deleted_turns or not deleted_events.isdisjoint(parse_json_list(source_events)):
                connection.execute("delete from observations where id = ?", (observation_id,))
        connection.execute("delete from summaries where session = ?", (session,))
        jobs.enqueue(connection, jobs.DISTIL, session, priority=jobs.HISTORY, now=at)


def _delete_rows(connection: Connection, target: PurgeTarget) -> None:
    """Everything of a session, a project or a time. What a session has goes with its row."""
    if target.session:
        connection.execute(
            "update runs set why = '' where session in (select id from sessions where session = ?)", (target.session,)
        )
        rejections.store_memory_traces(connection, "session = ?", (target.session,))
        for table in ("injections", "calls", "signals", "memories", "reflections", "sessions"):
            connection.execute(f"delete from {table} where session = ?", (target.session,))
    elif target.project:
        connection.execute(
            f"delete from injections where (host, session) in (select host, session from sessions where {_IN_PROJECT})",
            (target.project,),
        )
        connection.execute(
            f"update runs set project = '', why = '' where project = ?1 or session in"
            f" (select id from sessions where {_IN_PROJECT})",
            (target.project,),
        )
        connection.execute(f"delete from sessions where {_IN_PROJECT}", (target.project,))
        connection.execute("delete from projects where path = ?1", (target.project,))
        connection.execute(f"delete from calls where {_BELOW}", (target.project,))
        rejections.store_memory_traces(connection, "project = ?", (target.project,))
        for table in ("signals", "memories", "reflections"):
            connection.execute(f"delete from {table} where project = ?1", (target.project,))
    else:
        for table in ("injections", "prompts", "events", "observations", "summaries", "scans", "judgements"):
            connection.execute(f"delete from {table} where at < ?", (target.older_than,))
        for table in ("calls", "signals"):
            connection.execute(f"delete from {table} where {_AT_SECONDS} < ?", (target.older_than,))
        rejections.store_memory_traces(connection, "at < ?", (target.older_than,))
        connection.execute("delete from memories where at < ? and status != 'active'", (target.older_than,))
        for table in ("reflections", "kept"):
            connection.execute(f"delete from {table} where at < ?", (target.older_than,))
        for table in ("runs", "refusals"):  # what was spent on the last day stays: caps count it
            connection.execute(
                f"delete from {table} where at < ? and day < (select max(day) from runs)", (target.older_than,)
            )
        connection.execute("update runs set project = '', why = '' where at < ?", (target.older_than,))
        connection.execute("delete from sessions where last_at < ?", (target.older_than,))


def _reset_reader_state(connection: Connection, target: PurgeTarget) -> int:
    """Forget what readers remember of the transcripts of what goes."""
    transcript_paths = find_target_transcripts(connection, target)
    return sum(
        connection.execute(
            "update transcripts set reader = '', watch = ? where path = ? and (reader != '' or watch != ?)",
            (HIDDEN_STATE, path, HIDDEN_STATE),
        ).rowcount
        for path in transcript_paths
    )


def find_target_transcripts(connection: Connection, target: PurgeTarget) -> set[str]:
    """Where the agents wrote down what is to go; nothing for a text, which may stand anywhere, or for a time."""
    if target.session:
        query = " union ".join(
            f"select {column} from {table} where session = ?1"
            for table, column in (("sessions", "transcript"), ("calls", "path"), ("signals", "path"))
        )
    elif target.project:
        query = (
            f"select transcript from sessions where {_IN_PROJECT} union select path from calls where {_BELOW}"
            " union select path from signals where project = ?1"
        )
    else:
        return set()
    rows = connection.execute(query, (target.session or target.project,)).fetchall()
    return {os.path.realpath(path) for (path,) in rows if path}


def find_target_reflections(connection: Connection, target: PurgeTarget) -> list[tuple[str, str, str]]:
    """The page, the raw log and the status of each reflection that goes; of every one for a text."""
    rows = connection.execute(
        "select draft, log, status from reflections where iif(?1 != '', session = ?1, ?2 = '' or project = ?2)"
        " and (?3 is null or at < ?3)",
        (target.session, target.project, target.older_than),
    ).fetchall()
    return [(draft, log, status) for draft, log, status in rows]


def find_target_sessions(connection: Connection, target: PurgeTarget) -> set[str]:
    """The sessions that go whole, by the host's ids."""
    if target.session:
        return {target.session}
    rows = connection.execute(
        f"select session from sessions where (?1 != '' and {_IN_PROJECT}) or last_at < ?2",
        (target.project, target.older_than),
    ).fetchall()
    return {session for (session,) in rows}


def find_session_ids(connection: Connection, name: str) -> list[str]:
    """The sessions whose id is this or begins so, or whose number it is, wherever they are mentioned."""
    rows = connection.execute(
        "select session from sessions where cast(id as text) = ?1 or substr(session, 1, length(?1)) = ?1"
        " union select session from signals where substr(session, 1, length(?1)) = ?1"
        " union select session from calls where substr(session, 1, length(?1)) = ?1"
        " union select session from injections where substr(session, 1, length(?1)) = ?1"
        " union select session from reflections where substr(session, 1, length(?1)) = ?1",
        (name,),
    ).fetchall()
    session_ids = sorted(session for (session,) in rows)
    return [name] if name in session_ids else session_ids


def _purge_candidates(connection: Connection, old_counts: dict[str, int], pieces: Sequence[str]) -> None:
    """Candidates that lost signals, or hold the text: undecided they go, and what is left of them is weighed anew.

    What a person decided stays decided; but after a text has gone only if other signals still bear its signature,
    which is made of words.
    """
    new_counts = _count_signals(connection)
    for candidate in [
        item for status in _list_statuses(connection) for item in candidates.list_candidates(connection, status)
    ]:
        text = json.dumps([candidate.slug, candidate.signature, candidate.record], ensure_ascii=False)
        has_text = bool(pieces) and traces.has_any_piece(text, pieces)
        if not has_text and old_counts.get(candidate.signature, 0) == new_counts.get(candidate.signature, 0):
            continue
        is_unsupported = bool(pieces) and not new_counts.get(candidate.signature)
        is_named_by_text = bool(pieces) and traces.has_any_piece(f"{candidate.slug} {candidate.signature}", pieces)
        if candidate.status in ("candidate", "open") or is_unsupported or is_named_by_text:
            if candidate.status == "rejected":
                rejections.store_candidate_trace(connection, candidate.signature)
            connection.execute("delete from candidates where number = ?", (candidate.number,))
        else:
            if pieces or candidate.status == "rejected":
                _scrub_candidate(connection, candidate, pieces)
            recount.recount_candidate(connection, candidate.signature)
        connection.execute("update signals set fresh = 1 where signature = ?", (candidate.signature,))


def _list_statuses(connection: Connection) -> list[str]:
    return [status for (status,) in connection.execute("select distinct status from candidates").fetchall()]


def _scrub_candidate(connection: Connection, candidate: Candidate, pieces: Sequence[str]) -> None:
    """A decision without the words: those that hold the text, or all if no signal says them any more."""
    record = dict(candidate.record)
    bodies = [item.body for item in candidates.list_episodes(connection, candidate.signature)]
    if (record["problem"], record["solution"]) not in [(item["problem"], item["solution"]) for item in bodies]:
        record |= {"summary": "", "problem": "", "solution": "", "triggers": {}, "evidence": []}
    text = json.dumps({name: _remove_pieces(value, pieces) for name, value in record.items()}, separators=(",", ":"))
    connection.execute("update candidates set record = ? where number = ?", (text, candidate.number))


def _remove_pieces(value: Any, pieces: Sequence[str]) -> Any:
    if isinstance(value, str):
        return "" if traces.has_any_piece(value, pieces) else value
    if isinstance(value, dict):
        return {name: _remove_pieces(item, pieces) for name, item in value.items()}
    return [_remove_pieces(item, pieces) for item in value] if isinstance(value, list) else value
