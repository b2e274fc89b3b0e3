"""Projects: shown by their folder's name, told apart by its real path.

A repository that was moved is the same project if it has the same remote and its old place is gone. What was imported
may know a project by its name alone, until a session is in a folder of that name.
"""

from __future__ import annotations

import os
import sqlite3

from hardwon.store.db import Connection, to_storable


def find_or_create(connection: Connection, path: str, remote: str, at: float) -> int | None:
    """The project's number, within the caller's transaction; None for no path."""
    if not path:
        return None
    row = connection.execute("select id, remote from projects where path = ?", (to_storable(path),)).fetchone()
    if row is None and remote:
        row = _find_moved(connection, path, remote)
    if row is None:
        row = find_by_folder_name(connection, path)
        row = row and _move_project(connection, row, path)
    if row is None:
        name = _get_folder_name(path)
        connection.execute(
            "insert or ignore into projects (path, name, remote, at) values (?, ?, ?, ?)",
            (to_storable(path), to_storable(name), to_storable(remote), at),
        )
        row = connection.execute("select id, remote from projects where path = ?", (to_storable(path),)).fetchone()
    elif remote and remote != row["remote"]:
        connection.execute("update projects set remote = ? where id = ?", (to_storable(remote), row["id"]))
    project_id: int = row["id"]
    return project_id


def _get_folder_name(path: str) -> str:
    return os.path.basename(path.rstrip("/")) or path


def _find_moved(connection: Connection, path: str, remote: str) -> sqlite3.Row | None:
    rows = connection.execute(
        "select id, path, remote from projects where remote = ?", (to_storable(remote),)
    ).fetchall()
    missing = [row for row in rows if not os.path.exists(row["path"])]
    return _move_project(connection, missing[0], path) if len(missing) == 1 else None


def find_by_folder_name(connection: Connection, path: str) -> sqlite3.Row | None:
    """The project that is known by this folder's name and no place, if no other has that name."""
    rows = connection.execute(
        "select id, path, remote from projects where name = ?", (to_storable(_get_folder_name(path)),)
    ).fetchall()
    return rows[0] if len(rows) == 1 and rows[0]["path"] == to_storable(_get_folder_name(path)) else None


def _move_project(connection: Connection, row: sqlite3.Row, path: str) -> sqlite3.Row:
    """Say that a project is at this path from now on."""
    connection.execute(
        "update projects set path = ?, name = ? where id = ?",
        (to_storable(path), to_storable(_get_folder_name(path)), row["id"]),
    )
    connection.execute("update memories set project = ? where project = ?", (to_storable(path), row["path"]))
    return row
