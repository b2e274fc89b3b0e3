"""Delete reported events that are too old or take too much room; what was distilled from them stays.

Calls and their results go first. Prompts and agents' last words have a limit of their own: they are 4 % of the text,
and most questions about past work are answered by them.

Imported history is as old as its import. Age is counted from the latest event, not from the clock, so that a clock that
is wrong for an hour does not empty the store. If the latest events follow a gap longer than the retention time, their
times are trusted only once they span a day.
"""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Callable, Sequence
from time import monotonic

from hardwon import paths
from hardwon.store import deletions, documents
from hardwon.store.db import Connection, fetch_value, transaction
from hardwon.store.observations import ORPHAN_TURN
from hardwon.store.sessions import HAS_CONTENT_SQL
from hardwon.store.turns import EXPIRED_PREFIX
from hardwon.types import frozen

DAY_SECONDS = 86_400.0
LEDGER_DAYS = 400.0  # for which runs, refusals and decisions about reflections are kept
SLICE_SECONDS = 0.01  # per transaction, since hooks that write must wait for it
_PAGES_PER_TRANSACTION = 100  # given back to the file system in one transaction
_ROWS_PER_READ = 5_000
_MIN_PORTION_ROWS = 200  # deleted between two merges of the word index
_MAX_PORTIONS = 20  # in which all events would be deleted; the index is merged after each
_INCREMENTAL_VACUUM = 2  # as SQLite reports `auto_vacuum`
# A turn that lost events must not be distilled again, because its observations hold more than the remaining events.
_MARK_EXPIRED_SQL = f"""
    update turns set print = '{EXPIRED_PREFIX}' || print where print not like '{EXPIRED_PREFIX}%'
    and (session, number) = (select session, prompt from events where id = ?)
    """
_TO_DISTIL_SQL = "(select session from jobs where kind = 'distil' and state != 'dead')"
# Calls store the transcript's time as text; those without a time never become too old.
_CALL_AT_SQL = "cast(strftime('%s', at) as real)"
_SESSION_KEPT_SINCE_SQL = "max(last_at, coalesce(taken_at, 0))"
_IS_MESSAGE_SQL = "kind in ('Stop', 'SubagentStop') and response != ''"
_MESSAGES_LAST = 1e12  # seconds added to the time of a message, so that it is deleted after everything else
_EXPIRED_ROWS_SQL = f"""
    select 'events', id from events where at < ?1 and coalesce(taken_at, at) < ?1 and session not in {_TO_DISTIL_SQL}
        and not ({_IS_MESSAGE_SQL} and max(at, coalesce(taken_at, at)) >= ?2)
    union all select 'calls', id from calls where {_CALL_AT_SQL} < ?1 and coalesce(taken_at, 0) < ?1
    union all select 'injections', id from injections where at < ?1 and arm = 'told' limit ?3
    """
# Each table has its own limit, so that its index by time is read only as far as needed.
_OLDEST_ROWS_SQL = f"""
    select name, id from (
        select * from (
            select 'events' as name, id, at from events where not ({_IS_MESSAGE_SQL}) order by at, id limit ?1)
        union all select * from (
            select 'events', id, at + {_MESSAGES_LAST} from events where {_IS_MESSAGE_SQL} order by at, id limit ?1)
        union all select * from (
            select 'calls', id, coalesce({_CALL_AT_SQL}, 1e18) as at from calls order by at, id limit ?1)
        union all select * from (select 'injections', id, at from injections order by at, id limit ?1))
    order by at, name, id limit ?1
    """


@frozen
class StoreTotals:
    """Counts of what the database holds."""

    events: int
    prompts: int
    sessions: int
    oldest: float | None


def read_store_totals(connection: Connection) -> StoreTotals:
    """Return how much the database holds, and since when."""
    row = connection.execute(
        f"""
        select (select count(*) from events), (select count(*) from prompts),
            (select count(*) from sessions where {HAS_CONTENT_SQL}), (select min(at) from events)
        """
    ).fetchone()
    return StoreTotals(*row)


def measure_file_bytes(home: str) -> int:
    """Return the size of the database on disk, including its log; 0 if there is none."""
    path = os.path.join(home, paths.DATABASE)
    existing_paths = [file_path for file_path in (path, f"{path}-wal") if os.path.exists(file_path)]
    return sum(os.path.getsize(file_path) for file_path in existing_paths)


def compute_cutoff(newest: float | None, previous: float | None, days: float) -> float | None:
    """Return the time before which events are too old; None if none are.

    `previous` is the latest event that is more than a day older than the newest.
    """
    if newest is None or days <= 0:
        return None
    # After such a gap the clock may be wrong, so the event before it counts as the latest.
    if previous is not None and newest - previous > (days + 1) * DAY_SECONDS:
        return previous - days * DAY_SECONDS
    return newest - days * DAY_SECONDS


def enforce_limits(
    connection: Connection,
    *,
    days: float,
    message_days: float | None = None,
    max_bytes: int,
    now: float,
    should_continue: Callable[[], bool],
) -> tuple[Counter[str], int]:
    """Delete rows that are too old, then the oldest of the rest until all fits in `max_bytes`, and free the space.

    Prompts and last words are deleted after `message_days` but not before other events, never if that is 0, and by
    default with the other events. The ledger of our own runs and refusals has a limit of its own.
    It checks whether to continue between its short transactions. Return the deleted rows by table, and the bytes used.
    """
    deleted_counts: Counter[str] = Counter()
    latest_times = _find_latest_times(connection, now)
    cutoff = compute_cutoff(*latest_times, days)
    ledger_cutoff = compute_cutoff(*latest_times, LEDGER_DAYS)
    if message_days is None:
        message_cutoff = cutoff
    elif message_days == 0:
        message_cutoff = None  # never
    else:
        message_cutoff = compute_cutoff(*latest_times, max(message_days, days))
    if cutoff is not None:
        deleted_counts += _delete_expired_rows(connection, cutoff, message_cutoff, should_continue)
    if message_cutoff is not None:
        deleted_counts += _delete_sessions(connection, message_cutoff, should_continue)
    if ledger_cutoff is not None:
        deleted_counts += _delete_ledger_rows(connection, ledger_cutoff)
    deleted_counts += _delete_until_it_fits(connection, max_bytes, should_continue)
    if +deleted_counts:
        deletions.record(connection, deletions.RETENTION, "age or size", deleted_counts, now)
    release_free_pages(connection, should_continue)
    return +deleted_counts, measure_used_bytes(connection)


def _delete_expired_rows(
    connection: Connection, cutoff: float, message_cutoff: float | None, should_continue: Callable[[], bool]
) -> Counter[str]:
    """Delete rows from before the cutoff, messages only from before theirs, and none if that is None."""
    deleted_counts: Counter[str] = Counter()
    messages_kept_since = -1.0 if message_cutoff is None else message_cutoff  # before every message
    while rows := connection.execute(_EXPIRED_ROWS_SQL, (cutoff, messages_kept_since, _ROWS_PER_READ)).fetchall():
        portion_counts = _delete_rows(connection, rows, should_continue)
        deleted_counts += portion_counts
        if portion_counts.total() < len(rows):  # `should_continue` stopped it
            break
    return deleted_counts


def _delete_ledger_rows(connection: Connection, cutoff: float) -> Counter[str]:
    """Delete our own runs, refusals and finished reflections from before the cutoff."""
    deleted_counts: Counter[str] = Counter()
    for table in ("runs", "refusals", "kept"):
        deleted_counts[table] += connection.execute(f"delete from {table} where at < ?", (cutoff,)).rowcount
    deleted_counts["reflections"] += connection.execute(
        "delete from reflections where at < ? and status in ('discarded', 'moot')", (cutoff,)
    ).rowcount
    return deleted_counts


def _delete_until_it_fits(connection: Connection, max_bytes: int, should_continue: Callable[[], bool]) -> Counter[str]:
    """Delete the oldest rows in portions, and merge the word index after each.

    Deleting from a word index first makes it larger, so without merging no deletion would seem to be enough.
    """
    deleted_counts: Counter[str] = Counter()
    portion_rows = max(_MIN_PORTION_ROWS, read_store_totals(connection).events // _MAX_PORTIONS)
    while measure_used_bytes(connection) > max_bytes and should_continue():
        oldest_rows = connection.execute(_OLDEST_ROWS_SQL, (portion_rows,)).fetchall()
        if not oldest_rows:
            break
        deleted_counts += _delete_rows(
            connection, oldest_rows, lambda: measure_used_bytes(connection) > max_bytes and should_continue()
        )
        while documents.merge_word_index(connection) and should_continue():
            pass
    return deleted_counts


def _find_latest_times(connection: Connection, now: float) -> tuple[float | None, float | None]:
    """Return the newest event, and the newest that is more than a day older; none of them from the future."""
    newest: float | None = fetch_value(connection, "select max(at) from events where at <= ?", now)
    if newest is None:
        return None, None
    return newest, fetch_value(connection, "select max(at) from events where at < ?", newest - DAY_SECONDS)


def _delete_rows(
    connection: Connection, rows: Sequence[tuple[str, int]], should_continue: Callable[[], bool]
) -> Counter[str]:
    """Delete rows, given by table and id, in short transactions."""
    deleted_counts: Counter[str] = Counter()
    remaining = deque(rows)
    while remaining and should_continue():
        with transaction(connection):
            deadline = monotonic() + SLICE_SECONDS
            while remaining and monotonic() < deadline:
                table, row_id = remaining.popleft()
                if table == "events":
                    connection.execute(_MARK_EXPIRED_SQL, (row_id,))
                deleted_counts[table] += connection.execute(f"delete from {table} where id = ?", (row_id,)).rowcount
    return deleted_counts


def _delete_sessions(connection: Connection, cutoff: float, should_continue: Callable[[], bool]) -> Counter[str]:
    """Delete the prompts of old sessions that have no event left, and those sessions of which nothing was distilled.

    Prompts are deleted only after their session has ended, since a new prompt's number depends on the existing ones. If
    the session is resumed anyway, numbers start at 1 again, so its observations must lose theirs.
    """
    deleted_counts: Counter[str] = Counter()
    # Each of these conditions has one parameter, the cutoff.
    has_no_event = "not exists (select 1 from events where events.session = sessions.id)"
    is_over = f"{_SESSION_KEPT_SINCE_SQL} < ? and id not in {_TO_DISTIL_SQL} and {has_no_event}"
    is_empty = " and ".join([is_over, *_build_no_rows_conditions(connection)])
    has_prompts = "exists (select 1 from prompts where prompts.session = sessions.id)"
    rows = connection.execute(
        f"select id from sessions where ({is_empty}) or ({is_over} and {has_prompts})", (cutoff, cutoff)
    )
    for (session_id,) in rows.fetchall():
        if not should_continue():
            break
        with transaction(connection):
            # The conditions are repeated here, because a hook may have reported on the session since it was selected.
            deleted_prompts = connection.execute(
                f"delete from prompts where session = (select id from sessions where id = ? and {is_over})",
                (session_id, cutoff),
            ).rowcount
            if deleted_prompts:
                connection.execute("delete from turns where session = ?", (session_id,))
                connection.execute(f"update observations set prompt = {ORPHAN_TURN} where session = ?", (session_id,))
            deleted_sessions = connection.execute(
                f"delete from sessions where id = ? and {is_empty}", (session_id, cutoff)
            ).rowcount
        deleted_counts += Counter({"sessions": deleted_sessions, "prompts": deleted_prompts})
    return deleted_counts


def _build_no_rows_conditions(connection: Connection) -> list[str]:
    """Return a condition for each table whose rows must stay but would be deleted with their session."""
    rows = connection.execute(
        """
        select tables.name, key.'from' from sqlite_master as tables, pragma_foreign_key_list(tables.name) as key
        where tables.type = 'table' and key.'table' = 'sessions' and key.on_delete = 'CASCADE'
        and tables.name not in ('events', 'prompts', 'turns', 'jobs')
        """
    )
    return [f"not exists (select 1 from {table} where {table}.{column} = sessions.id)" for table, column in rows]


def measure_used_bytes(connection: Connection) -> int:
    """Return the bytes in use, which is the size of the file once free pages are given back."""
    used_pages = _read_pragma(connection, "page_count") - _read_pragma(connection, "freelist_count")
    return used_pages * _read_pragma(connection, "page_size")


def release_free_pages(connection: Connection, should_continue: Callable[[], bool]) -> None:
    """Give free pages back to the file system, a few at a time, and empty the log."""
    free_pages = _read_pragma(connection, "freelist_count")
    while free_pages and can_release_pages(connection) and should_continue():
        # `execute` would stop after the first page.
        connection.executescript(f"pragma incremental_vacuum({_PAGES_PER_TRANSACTION})")
        free_pages = _read_pragma(connection, "freelist_count")
    busy_timeout = _read_pragma(connection, "busy_timeout")
    connection.execute("pragma wal_checkpoint(passive)").fetchall()
    connection.execute("pragma busy_timeout = 20")  # the rest is small, and waiting would block writers
    connection.execute("pragma wal_checkpoint(truncate)").fetchall()
    connection.execute(f"pragma busy_timeout = {busy_timeout}")


def can_release_pages(connection: Connection) -> bool:
    """Return whether the file was created with incremental vacuum."""
    _read_pragma(connection, "page_count")  # reads the file: the connection may remember it from before a rebuild
    return _read_pragma(connection, "auto_vacuum") == _INCREMENTAL_VACUUM


def rebuild_database(connection: Connection) -> None:
    """Rewrite the whole file with incremental vacuum; meanwhile other processes wait or use the spool."""
    connection.execute("pragma auto_vacuum = incremental")
    connection.execute("vacuum")


def _read_pragma(connection: Connection, name: str) -> int:
    return int(fetch_value(connection, f"pragma {name}"))
