"""Projects: shown by their folder's name, told apart by its real path.

A repository that was moved is the same project if it has the same remote and its old place is gone. What was imported
may know a project by its name alone, until a session is in a folder of that name.
"""

from __future__ import annotations

import os
import sqlite3

from hardwon.store.db import Connection, storable


def resolve(connection: Connection, path: str, remote: str, at: float) -> int | None:
    """The project's number, within the caller's transaction; None for no path."""
    if not path:
        return None
    row = connection.execute("select id, remote from projects where path = ?", (storable(path),)).fetchone()
    if row is None and remote:
        row = _moved(connection, path, remote)
    if row is None:
        row = only_named(connection, path)
        row = row and _put(connection, row, path)
    if row is None:
        name = _name(path)
        connection.execute(
            "insert or ignore into projects (path, name, remote, at) values (?, ?, ?, ?)",
            (storable(path), storable(name), storable(remote), at),
        )
        row = connection.execute("select id, remote from projects where path = ?", (storable(path),)).fetchone()
    elif remote and remote != row["remote"]:
        connection.execute("update projects set remote = ? where id = ?", (storable(remote), row["id"]))
    found: int = row["id"]
    return found


def _name(path: str) -> str:
    return os.path.basename(path.rstrip("/")) or path


def _moved(connection: Connection, path: str, remote: str) -> sqlite3.Row | None:
    rows = connection.execute("select id, path, remote from projects where remote = ?", (storable(remote),)).fetchall()
    gone = [row for row in rows if not os.path.exists(row["path"])]
    return _put(connection, gone[0], path) if len(gone) == 1 else None


def only_named(connection: Connection, path: str) -> sqlite3.Row | None:
    """The project that is known by this folder's name and no place, if no other has that name."""
    rows = connection.execute(
        "select id, path, remote from projects where name = ?", (storable(_name(path)),)
    ).fetchall()
    return rows[0] if len(rows) == 1 and rows[0]["path"] == storable(_name(path)) else None


def _put(connection: Connection, row: sqlite3.Row, path: str) -> sqlite3.Row:
    """Say that a project is at this path from now on."""
    connection.execute(
        "update projects set path = ?, name = ? where id = ?", (storable(path), storable(_name(path)), row["id"])
    )
    connection.execute("update memories set project = ? where project = ?", (storable(path), row["path"]))
    return row
