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
_MENDED = ("sessions", "projects", "transcripts", "candidates", "jobs", "runs", "events", "prompts", "approvals")
_WITHOUT_TEXT = ("deletions", "tombstones")  # counts and hashes: a text that looks like one of them is not in them
_AT = "cast(strftime('%s', at) as real)"
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
    before = _counts(connection)
    connection.execute("pragma defer_foreign_keys = on")
    signatures = _signatures(connection)
    if target.text_pieces:
        changed = _text(connection, target.text_pieces, at)
    else:
        changed = Counter({"transcripts (state)": _under_way(connection, target)})
        _rows(connection, target)
    _candidates(connection, signatures, target.text_pieces)
    for (session,) in connection.execute(
        "select id from sessions where prompts != (select count(*) from prompts where prompts.session = sessions.id)"
        " or (first_prompt = '' and prompts > 0)"
    ).fetchall():
        numbers = turns.read_prompt_numbers(connection, session)
        recount.recount_session(connection, session)
        turns.renumber_turns(connection, session, numbers)
    documents.delete_file_documents(connection)
    # The wordings of a memory are kept with its approvals, and go with it.
    connection.execute(
        "update approvals set body = '' where kind = 'memory' and body != ''"
        " and subject not in (select cast(id as text) from memories)"
    )
    gone = before - _counts(connection)
    return Counter({name: count for name, count in (gone + changed).items() if count})


def purge_target(
    connection: Connection, target: PurgeTarget, read_positions: Iterable[tuple[str, str, str, ReadPosition]], at: float
) -> Counter[str]:
    """Delete it in one transaction, with marks (purpose, path, host) set so that no scan brings it back."""
    connection.execute("pragma secure_delete = on").fetchall()
    with transaction(connection):
        _bury(connection, target, at)
        gone = delete_target(connection, target, at)
        deletions.record(connection, deletions.PURGE, _kind_of(target), gone, at)
        begin_epoch(connection)
        for purpose, path, host, mark in read_positions:
            transcripts.set_read_position(
                connection, purpose, path, host, replace(mark, reader="", watch=HIDDEN_STATE), at
            )
    return gone


def _kind_of(aim: PurgeTarget) -> str:
    if aim.text_pieces:
        return deletions.TEXT
    if aim.session:
        return deletions.SESSION
    return deletions.PROJECT if aim.project else "older-than"


def _bury(connection: Connection, aim: PurgeTarget, at: float) -> None:
    """Leave tombstones for what is about to go, so that no import brings it back."""
    if aim.text_pieces:
        deletions.bury_text(connection, aim.text_pieces, at)
    elif aim.older_than is not None:
        rows = connection.execute("select session from sessions where started_at < ?", (aim.older_than,)).fetchall()
        deletions.bury(connection, deletions.SESSION, [session for (session,) in rows], aim.older_than)
    else:
        deletions.bury(connection, deletions.SESSION, find_target_sessions(connection, aim), at)
        deletions.bury(connection, deletions.PROJECT, [aim.project] if aim.project else [], at)


def erase_deleted_pages(connection: Connection) -> bool:
    """Leave nothing of what was deleted in the file, in an index of words, or in the log; False if somebody reads."""
    for name in _indexes(connection):
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
            connection, file = sqlite3.connect(":memory:", isolation_level=None), connection
            connection.row_factory = sqlite3.Row
            file.backup(connection)
            file.close()
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


def _tables(connection: Connection) -> Iterator[tuple[str, list[str]]]:
    """Every table of ours with its columns that can hold text; not those in which an index of words keeps itself."""
    rows = connection.execute("select name, sql from sqlite_master where type = 'table'").fetchall()
    virtual = [name for name, sql in rows if str(sql).lower().startswith("create virtual")]
    for name, _ in rows:
        if name.startswith("sqlite_") or name in virtual or any(name.startswith(f"{one}_") for one in virtual):
            continue
        columns = connection.execute(f"select name from pragma_table_info('{name}') where type like '%text%'")
        yield name, [column for (column,) in columns]


def _indexes(connection: Connection) -> list[str]:
    """The indexes of words."""
    rows = connection.execute("select name from sqlite_master where sql like 'create virtual table%using fts5%'")
    return [name for (name,) in rows.fetchall()]


def _counts(connection: Connection) -> Counter[str]:
    names = [name for name, _ in _tables(connection) if name not in (*documents.INDEX_TABLES, *_WITHOUT_TEXT)]
    return Counter({name: connection.execute(f"select count(*) from {name}").fetchone()[0] for name in names})


def _signatures(connection: Connection) -> dict[str, int]:
    """How many signals each candidate has."""
    return dict(connection.execute("select signature, count(*) from signals group by signature").fetchall())


def _text(connection: Connection, pieces: Sequence[str], at: float) -> Counter[str]:
    def holds(value: object) -> bool:
        return isinstance(value, str) and traces.has_any_piece(value, pieces)

    connection.create_function("holds", 1, holds, deterministic=True)
    _told(connection, at)
    documents.queue_reindexing(
        connection, "holds(words)"
    )  # words may stand side by side that do not in what they are of
    rejections.store_memory_traces(connection, "(holds(text) or holds(project) or holds(session) or holds(evidence))")
    tables = [one for one in _tables(connection) if one[0] not in (*_MENDED, *_WITHOUT_TEXT)]
    for index in _indexes(connection):
        columns = connection.execute(f"select name from pragma_table_info('{index}')").fetchall()
        tables.append((index, [column for (column,) in columns]))
    for name, columns in tables:
        if columns:
            connection.execute(f"delete from {name} where {' or '.join(f'holds({column})' for column in columns)}")
    mended = Counter[str]()
    connection.execute(
        "update sessions set project = null where project in"
        " (select id from projects where holds(path) or holds(name) or holds(remote))"
    )
    connection.execute("delete from projects where holds(path) or holds(name) or holds(remote)")
    connection.execute("delete from sessions where holds(session)")
    mended["sessions (cut out)"] = _empty(connection, "sessions", ("cwd", "transcript", "reason", "first_prompt"))
    mended["transcripts (state)"] = connection.execute(
        "update transcripts set reader = '', watch = ? where holds(reader) or holds(watch)", (HIDDEN_STATE,)
    ).rowcount
    connection.execute("delete from transcripts where holds(path)")
    # The hash of what was approved stays, so that the lesson stays in force as its file says it.
    mended["approvals (cut out)"] = connection.execute("update approvals set body = '' where holds(body)").rowcount
    connection.execute("delete from approvals where holds(subject)")
    mended["jobs (why)"] = connection.execute("update jobs set why = '' where holds(why)").rowcount
    # A run stays and counts against its day's caps, whatever was said of it.
    of_runs = ("purpose", "provider", "model", "project", "outcome", "why")
    mended["runs (cut out)"] = _empty(connection, "runs", of_runs)
    return mended


def _empty(connection: Connection, table: str, columns: Sequence[str]) -> int:
    """Empty the columns that hold the text; gives how many rows had one."""
    changes = ", ".join(f"{column} = iif(holds({column}), '', {column})" for column in columns)
    where = " or ".join(f"holds({column})" for column in columns)
    return connection.execute(f"update {table} set {changes} where {where}").rowcount


def _told(connection: Connection, at: float) -> None:
    """The prompts and events that hold a text go with what was distilled from them; the rest is distilled again."""
    doomed: dict[str, list[tuple[str, int, int]]] = {}
    for table, number in (("prompts", "number"), ("events", "prompt")):
        columns = " or ".join(f"holds({column})" for column in dict(_tables(connection))[table])
        rows = connection.execute(f"select key, session, {number} from {table} where {columns}").fetchall()
        doomed[table] = [tuple(row) for row in rows]
        connection.executemany(f"delete from {table} where key = ?", [(key,) for key, _, _ in doomed[table]])
    asked = {(session, number) for _, session, number in doomed["prompts"]}
    events = {key for key, _, _ in doomed["events"]}
    connection.executemany(
        f"update turns set print = iif(print like '{turns.EXPIRED_PREFIX}%', '{turns.EXPIRED_PREFIX}', '')"
        " where session = ? and number = ?",
        {(session, number) for rows in doomed.values() for _, session, number in rows},
    )
    for session in {session for rows in doomed.values() for _, session, _ in rows}:
        for id, number, made_of in connection.execute(
            "select id, prompt, events from observations where session = ?", (session,)
        ).fetchall():
            if (session, number) in asked or not events.isdisjoint(parse_json_list(made_of)):
                connection.execute("delete from observations where id = ?", (id,))
        connection.execute("delete from summaries where session = ?", (session,))
        jobs.enqueue(connection, jobs.DISTIL, session, priority=jobs.HISTORY, now=at)


def _rows(connection: Connection, aim: PurgeTarget) -> None:
    """Everything of a session, a project or a time. What a session has goes with its row."""
    if aim.session:
        connection.execute(
            "update runs set why = '' where session in (select id from sessions where session = ?)", (aim.session,)
        )
        rejections.store_memory_traces(connection, "session = ?", (aim.session,))
        for table in ("injections", "calls", "signals", "memories", "reflections", "sessions"):
            connection.execute(f"delete from {table} where session = ?", (aim.session,))
    elif aim.project:
        connection.execute(
            f"delete from injections where (host, session) in (select host, session from sessions where {_IN_PROJECT})",
            (aim.project,),
        )
        connection.execute(
            f"update runs set project = '', why = '' where project = ?1 or session in"
            f" (select id from sessions where {_IN_PROJECT})",
            (aim.project,),
        )
        connection.execute(f"delete from sessions where {_IN_PROJECT}", (aim.project,))
        connection.execute("delete from projects where path = ?1", (aim.project,))
        connection.execute(f"delete from calls where {_BELOW}", (aim.project,))
        rejections.store_memory_traces(connection, "project = ?", (aim.project,))
        for table in ("signals", "memories", "reflections"):
            connection.execute(f"delete from {table} where project = ?1", (aim.project,))
    else:
        for table in ("injections", "prompts", "events", "observations", "summaries", "scans", "judgements"):
            connection.execute(f"delete from {table} where at < ?", (aim.older_than,))
        for table in ("calls", "signals"):
            connection.execute(f"delete from {table} where {_AT} < ?", (aim.older_than,))
        rejections.store_memory_traces(connection, "at < ?", (aim.older_than,))
        connection.execute("delete from memories where at < ? and status != 'active'", (aim.older_than,))
        for table in ("reflections", "kept"):
            connection.execute(f"delete from {table} where at < ?", (aim.older_than,))
        for table in ("runs", "refusals"):  # what was spent on the last day stays: caps count it
            connection.execute(
                f"delete from {table} where at < ? and day < (select max(day) from runs)", (aim.older_than,)
            )
        connection.execute("update runs set project = '', why = '' where at < ?", (aim.older_than,))
        connection.execute("delete from sessions where last_at < ?", (aim.older_than,))


def _under_way(connection: Connection, aim: PurgeTarget) -> int:
    """Forget what readers remember of the transcripts of what goes."""
    named = find_target_transcripts(connection, aim)
    return sum(
        connection.execute(
            "update transcripts set reader = '', watch = ? where path = ? and (reader != '' or watch != ?)",
            (HIDDEN_STATE, path, HIDDEN_STATE),
        ).rowcount
        for path in named
    )


def find_target_transcripts(connection: Connection, target: PurgeTarget) -> set[str]:
    """Where the agents wrote down what is to go; nothing for a text, which may stand anywhere, or for a time."""
    if target.session:
        asked = " union ".join(
            f"select {column} from {table} where session = ?1"
            for table, column in (("sessions", "transcript"), ("calls", "path"), ("signals", "path"))
        )
    elif target.project:
        asked = (
            f"select transcript from sessions where {_IN_PROJECT} union select path from calls where {_BELOW}"
            " union select path from signals where project = ?1"
        )
    else:
        return set()
    rows = connection.execute(asked, (target.session or target.project,)).fetchall()
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
    found = sorted(session for (session,) in rows)
    return [name] if name in found else found


def _candidates(connection: Connection, before: dict[str, int], pieces: Sequence[str]) -> None:
    """Candidates that lost signals, or hold the text: undecided they go, and what is left of them is weighed anew.

    What a person decided stays decided; but after a text has gone only if other signals still bear its signature,
    which is made of words.
    """
    left = _signatures(connection)
    for proposal in [one for status in _statuses(connection) for one in candidates.list_candidates(connection, status)]:
        words = json.dumps([proposal.slug, proposal.signature, proposal.record], ensure_ascii=False)
        tainted = bool(pieces) and traces.has_any_piece(words, pieces)
        if not tainted and before.get(proposal.signature, 0) == left.get(proposal.signature, 0):
            continue
        unborne = bool(pieces) and not left.get(proposal.signature)
        named = bool(pieces) and traces.has_any_piece(f"{proposal.slug} {proposal.signature}", pieces)
        if proposal.status == "candidate" or unborne or named:
            if proposal.status == "rejected":
                rejections.store_candidate_trace(connection, proposal.signature)
            connection.execute("delete from candidates where number = ?", (proposal.number,))
        else:
            if pieces or proposal.status == "rejected":
                _scrub(connection, proposal, pieces)
            recount.recount_candidate(connection, proposal.signature)
        connection.execute("update signals set fresh = 1 where signature = ?", (proposal.signature,))


def _statuses(connection: Connection) -> list[str]:
    return [status for (status,) in connection.execute("select distinct status from candidates").fetchall()]


def _scrub(connection: Connection, proposal: Candidate, pieces: Sequence[str]) -> None:
    """A decision without the words: those that hold the text, or all if no signal says them any more."""
    record = dict(proposal.record)
    said = [one.body for one in candidates.list_episodes(connection, proposal.signature)]
    if (record["problem"], record["solution"]) not in [(one["problem"], one["solution"]) for one in said]:
        record |= {"summary": "", "problem": "", "solution": "", "triggers": {}, "evidence": []}
    text = json.dumps({name: _without(value, pieces) for name, value in record.items()}, separators=(",", ":"))
    connection.execute("update candidates set record = ? where number = ?", (text, proposal.number))


def _without(value: Any, pieces: Sequence[str]) -> Any:
    if isinstance(value, str):
        return "" if traces.has_any_piece(value, pieces) else value
    if isinstance(value, dict):
        return {name: _without(inner, pieces) for name, inner in value.items()}
    return [_without(inner, pieces) for inner in value] if isinstance(value, list) else value
