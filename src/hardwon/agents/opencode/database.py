"""Read opencode's own database, or Kilo's, as transcripts: each session is one, and each of its messages a line.

A session's path is `…/opencode.db/SESSION`, a sub-agent's `…/opencode.db/SESSION/subagents/ITS-SESSION`: names that no
file has, so that whatever is stored of a transcript (the read position, where a quote stands) is stored of a session
too. A line is an export with one message. The last message counts once it is a finished answer, because opencode
changes it until then. The database is only read, and what is wrong with it is an OSError.
"""

from __future__ import annotations

import errno
import os
import re
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from typing import Any, NamedTuple

import orjson

from hardwon.agents.fields import get_object
from hardwon.store import db

# Readers wait only while opencode has the whole file locked, and a scan can come back later.
_BUSY_SECONDS = 0.5
_DATABASE_NAME = re.compile(r"(?:opencode|kilo)(?:-[\w.-]+)?\.db")
_SESSION_PATH = re.compile(rf"(.*/{_DATABASE_NAME.pattern})/(?:[\w-]+/subagents/)?([\w-]+)")
# An id becomes part of a path, so it must not hold a slash.
_SESSION_ID = re.compile(r"[\w-]+")
_PRIVATE_TAG = "%<private%"
_LAST_MESSAGE_TIME_SQL = "select max(time_updated) from message where session_id = session.id"
_CHANGED_TIME_SQL = f"cast(max(coalesce(time_updated, 0), coalesce(({_LAST_MESSAGE_TIME_SQL}), 0)) as integer)"


class DatabaseSession(NamedTuple):
    """A session: its path, the database's inode and when it changed, in milliseconds."""

    path: str
    inode: int
    changed_ms: int


class MessageLine(NamedTuple):
    """A message: its number in the session, its id, and an export that has it alone."""

    number: int
    id: str
    text: bytes


def is_database(path: str) -> bool:
    return _DATABASE_NAME.fullmatch(os.path.basename(path)) is not None


def get_agent(path: str) -> str:
    """Return the agent whose database this is, or whose session is in it."""
    database, _ = split_session_path(path) or (path, "")
    return "kilo" if os.path.basename(database).startswith("kilo") else "opencode"


def split_session_path(path: str) -> tuple[str, str] | None:
    """Return the database and the session that a path names; None if it is the path of a file."""
    match = _SESSION_PATH.fullmatch(path)
    if not match or os.path.isdir(match[1]):  # a folder of that name has plain files in it
        return None
    return match[1], match[2]


def list_sessions(database: str) -> list[DatabaseSession]:
    """Return the sessions of a database, those that changed last at the end."""
    with _open_snapshot(database) as connection:
        inode = os.stat(database).st_ino
        rows = connection.execute(f"select id, parent_id, {_CHANGED_TIME_SQL} from session order by 3, id").fetchall()
    return [
        DatabaseSession(_build_session_path(database, session_id, parent), inode, changed_ms)
        for session_id, parent, changed_ms in rows
        if _SESSION_ID.fullmatch(str(session_id))
    ]


def get_session(path: str) -> DatabaseSession:
    """Return a session as it is now; OSError if it is gone, or if the path names only a database."""
    database, session_id = split_session_path(path) or (path, "")
    with _open_snapshot(database) as connection:
        row = connection.execute(f"select {_CHANGED_TIME_SQL} from session where id = ?", (session_id,)).fetchone()
        if row is None and session_id:
            raise OSError(errno.ENOENT, "there is no such session any more")
        if row is None:
            # A scan is given the database itself when its sessions could not be listed; it can be opened now.
            raise OSError(errno.ENOENT, "it was busy; scan again")
        return DatabaseSession(path, os.stat(database).st_ino, row[0])


def list_subagents(path: str) -> list[str]:
    """Return the paths of the sessions that work for this one."""
    database, session_id = split_session_path(path) or (path, "")
    with _open_snapshot(database) as connection:
        rows = connection.execute("select id from session where parent_id = ? order by id", (session_id,)).fetchall()
    return [
        _build_session_path(database, subagent_id, session_id)
        for (subagent_id,) in rows
        if _SESSION_ID.fullmatch(str(subagent_id))
    ]


def find_session_path(folders: Iterable[str], session_id: str) -> str:
    """Return the path of a session that some database in these folders has; empty if none has it."""
    for folder in folders:
        names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        for name in names:
            if not _DATABASE_NAME.fullmatch(name):
                continue  # a database's log, or a file of another program
            database = os.path.realpath(os.path.join(folder, name))
            try:
                return get_session(_build_session_path(database, session_id, parent="")).path
            except OSError:
                continue  # the database does not have the session, or cannot be read
    return ""


def read_messages(path: str, after_id: str = "") -> Iterator[MessageLine]:
    """Yield the messages behind this one; none of a sub-agent whose session has anything marked as private."""
    database, session_id = split_session_path(path) or (path, "")
    with _open_snapshot(database) as connection:
        session = connection.execute(
            "select id, directory, parent_id from session where id = ?", (session_id,)
        ).fetchone()
        if session is None or (session["parent_id"] and _can_be_private(connection, session_id)):
            return
        count_query = "select count(*) from message where session_id = ? and id <= ?"
        number = connection.execute(count_query, (session_id, after_id)).fetchone()[0]
        pending = None
        rows = connection.execute(
            "select id, data from message where session_id = ? and id > ? order by id", (session_id, after_id)
        )
        # One behind, because the last message counts only once it is finished.
        for row in rows:
            if pending:
                yield _build_line(connection, number, session, pending)
            number += 1
            pending = row
        if pending and _is_finished(pending):
            yield _build_line(connection, number, session, pending)


def _build_line(connection: sqlite3.Connection, number: int, session: sqlite3.Row, message: sqlite3.Row) -> MessageLine:
    """Return a message as a line: an export that has this message alone."""
    rows = connection.execute("select id, data from part where message_id = ? order by id", (message["id"],))
    parts = [_parse_data(row) for row in rows]
    info = {"id": session["id"], "directory": session["directory"], "parentID": session["parent_id"]}
    export = {"info": info, "messages": [{"info": _parse_data(message), "parts": parts}]}
    return MessageLine(number, message["id"], orjson.dumps(export, default=str))


def _parse_data(row: sqlite3.Row) -> dict[str, Any]:
    """Parse a row's JSON and add its id; return only the id if the JSON is damaged."""
    try:
        data = orjson.loads(row["data"])
    except (orjson.JSONDecodeError, TypeError):
        data = None
    if not isinstance(data, dict):
        data = {}
    return {**data, "id": row["id"]}


def _is_finished(message: sqlite3.Row) -> bool:
    """Return whether opencode will not change this message any more."""
    data = _parse_data(message)
    is_damaged = data.keys() == {"id"}
    if is_damaged:
        return True  # waiting would not repair it
    if data.get("role") != "assistant":
        return False
    return bool(get_object(data, "time").get("completed"))


def _can_be_private(connection: sqlite3.Connection, session_id: str) -> bool:
    """Return whether anything is marked as private in the sessions above a sub-agent's."""
    query = """
        with recursive above (id) as (
            select parent_id from session where id = ?
            union select parent_id from session join above using (id))
        select 1 from part where session_id in (select id from above where id is not null) and data like ? limit 1
        """
    return connection.execute(query, (session_id, _PRIVATE_TAG)).fetchone() is not None


def _build_session_path(database: str, session_id: str, parent: str | None) -> str:
    """Return the path that stands for a session; `parent` is the session that a sub-agent works for, if any."""
    if parent:
        return os.path.join(database, parent, "subagents", session_id)
    return os.path.join(database, session_id)


@contextmanager
def _open_snapshot(database: str) -> Iterator[sqlite3.Connection]:
    """Open the database as it is at one moment."""
    os.stat(database)
    try:
        with closing(db.open_read_only(database, timeout_seconds=_BUSY_SECONDS)) as connection:
            # A tool's output may hold bytes that are no UTF-8.
            connection.text_factory = lambda text: text.decode("utf-8", "replace")
            connection.execute("begin")
            yield connection
    except sqlite3.Error as error:
        raise OSError(errno.EIO, f"{get_agent(database)}'s database cannot be read: {error}") from None
