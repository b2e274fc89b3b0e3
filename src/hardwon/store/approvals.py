"""The approvals table: what a person approved, by which path, and the hash of the approved content.

A row is added for every approval and never deleted: undoing sets a time. A subject may so have several rows; the newest
that was not undone is live. `upgrades` names the one-time steps that are done: homes older than this table had their
lessons approved once. Only `actions/approvals.py` writes here, so that there is one place where something can come into
force.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass

from hardwon import paths
from hardwon.errors import UserError
from hardwon.store.db import Connection, fetch_value, insert_row, open_unmigrated

LESSON, MEMORY, HANDOFF, TRUST = "lesson", "memory", "handoff", "trust"  # kinds
COMMAND_LINE, VIEWER, PROMPT, TRUSTED = "command-line", "viewer", "prompt", "trust"  # paths
RATIFY_AFTER_DAYS, UPGRADE, TEAM = "ratifyAfterDays", "upgrade", "team"
_UPGRADE_STEP = "approvals"  # the name of the one-time step in the table `upgrades`
_COLUMNS = "id, kind, subject, hash, body, path, approved_at, undone_at, announced_at"


@dataclass(frozen=True, slots=True)
class Approval:
    """One recorded approval; `body` is the lesson as JSON or the memory's text, else empty, also after a purge."""

    id: int
    kind: str
    subject: str
    hash: str
    body: str
    path: str
    approved_at: float
    undone_at: float | None
    announced_at: float | None


@dataclass(frozen=True, slots=True)
class ApprovedLesson:
    """The part of a lesson's approval that a manifest build needs; the body is read only where the file differs."""

    approval_id: int
    hash: str
    confidence: float | None


@dataclass(frozen=True, slots=True)
class LiveApprovals:
    """The live approvals that decide which lessons count: personal ones by id, trusted repositories by project."""

    lessons: dict[str, ApprovedLesson]
    trusted_hashes: dict[str, str]


def insert(connection: Connection, kind: str, subject: str, content_hash: str, body: str, path: str, at: float) -> int:
    """Add an approval within the caller's transaction; return its number."""
    row = {"kind": kind, "subject": subject, "hash": content_hash, "body": body, "path": path, "approved_at": at}
    return int(insert_row(connection, "approvals", row).lastrowid or 0)


def undo(connection: Connection, number: int, at: float) -> bool:
    """Mark one approval undone within the caller's transaction; False if it was undone before."""
    changed = connection.execute(
        "update approvals set undone_at = ? where id = ? and undone_at is null", (at, number)
    ).rowcount
    return changed > 0


def undo_subject(connection: Connection, kind: str, subject: str, at: float) -> int:
    """Mark every live approval of a subject undone within the caller's transaction; return how many there were."""
    return connection.execute(
        "update approvals set undone_at = ? where kind = ? and subject = ? and undone_at is null",
        (at, kind, subject),
    ).rowcount


def get(connection: Connection, number: int) -> Approval | None:
    """Return an approval by its number, undone or not; None if there is none."""
    return next(iter(_select(connection, "id = ?", number)), None)


def find_live(connection: Connection, kind: str, subject: str) -> Approval | None:
    """Return the newest approval of a subject that was not undone."""
    approvals = _select(connection, "kind = ? and subject = ? and undone_at is null", kind, subject)
    return approvals[-1] if approvals else None


def list_of_subject(connection: Connection, kind: str, subject: str) -> list[Approval]:
    """Return every approval that a subject ever had, oldest first, including undone ones."""
    return _select(connection, "kind = ? and subject = ?", kind, subject)


def _select(connection: Connection, condition: str, *values: object) -> list[Approval]:
    """Return the approvals that meet a condition, oldest first; `values` fill its placeholders."""
    rows = connection.execute(f"select {_COLUMNS} from approvals where {condition} order by id", values)
    return [Approval(*row) for row in rows]


def read_live_hashes(connection: Connection, kind: str) -> dict[str, str]:
    """Return the approved hash of each subject of a kind."""
    # SQLite takes the other columns from the row that has the maximum.
    rows = connection.execute(
        "select subject, hash, max(id) from approvals where kind = ? and undone_at is null group by subject", (kind,)
    )
    return {subject: content_hash for subject, content_hash, _ in rows}


def read_version(connection: Connection) -> tuple[int, int]:
    """Return a version that changes whenever an approval is added or undone."""
    # `count` of a column leaves out the rows in which it is null.
    query = "select coalesce(max(id), 0), count(undone_at) from approvals"
    last_id, undone_count = connection.execute(query).fetchone()
    return last_id, undone_count


def list_approvals(connection: Connection, limit: int) -> list[Approval]:
    """Return the newest approvals, newest first, including undone ones."""
    rows = connection.execute(f"select {_COLUMNS} from approvals order by id desc limit ?", (limit,))
    return [Approval(*row) for row in rows]


def list_unannounced(connection: Connection) -> list[Approval]:
    """Return the live approvals that no session start has listed yet, oldest first."""
    return _select(connection, "announced_at is null and undone_at is null")


def mark_announced(connection: Connection, numbers: Sequence[int], at: float) -> None:
    """Record that these approvals were listed at a session start."""
    connection.executemany(
        "update approvals set announced_at = ? where id = ? and announced_at is null",
        [(at, number) for number in numbers],
    )


def is_upgraded(connection: Connection) -> bool:
    """Return whether everything that was in force before this table existed has been approved."""
    return bool(fetch_value(connection, "select 1 from upgrades where name = ?", _UPGRADE_STEP))


def mark_upgraded(connection: Connection, at: float) -> None:
    """Record that the one-time step is done, so that it is not repeated."""
    connection.execute("insert or ignore into upgrades (name, done_at) values (?, ?)", (_UPGRADE_STEP, at))


def read_live_approvals(home: str) -> LiveApprovals | None:
    """Return the approvals that decide which lessons count, without migrating the database.

    None if there is no database, or if it is from before approvals and not upgraded yet; UserError if it cannot be
    read.
    """
    path = os.path.join(home, paths.DATABASE)
    if not os.path.exists(path):
        return None
    try:
        with closing(open_unmigrated(path)) as connection:
            has_tables = fetch_value(connection, "select 1 from sqlite_master where name = 'upgrades'")
            if not has_tables or not is_upgraded(connection):
                return None
            # The live approval of each lesson. SQLite takes the other columns from the row that has the maximum; a
            # purge has emptied the body of some.
            rows = connection.execute(
                """
                select subject, max(id), hash, iif(body = '', null, json_extract(body, '$.confidence'))
                from approvals where kind = ? and undone_at is null group by subject
                """,
                (LESSON,),
            )
            lessons = {}
            for subject, approval_id, content_hash, confidence in rows:
                lessons[subject] = ApprovedLesson(approval_id, content_hash, confidence)
            return LiveApprovals(lessons, read_live_hashes(connection, TRUST))
    except sqlite3.DatabaseError as error:
        message = f"{path} cannot be read, so nobody can tell what is approved: {error}"
        raise UserError(message, "hardwon restore lists backups; moving the file away starts a new one") from None


def read_bodies(home: str, numbers: Iterable[int]) -> dict[int, str]:
    """Return the approved records of these approvals as JSON."""
    approval_ids = list(numbers)
    if not approval_ids:
        return {}  # without opening the database, which may not exist yet
    query = "select body from approvals where id = ?"
    with closing(open_unmigrated(os.path.join(home, paths.DATABASE))) as connection:
        return {number: fetch_value(connection, query, number) or "" for number in approval_ids}
