"""Projects: shown by their folder's name, told apart by its real path.

A repository that was moved is the same project if it has the same remote and its old folder is gone. An import may know
a project by its name alone, until a session is in a folder of that name.
"""

from __future__ import annotations

import os
import sqlite3

from hardwon.store.db import Connection, insert_row, to_storable


def find_or_create(connection: Connection, path: str, remote: str, at: float) -> int | None:
    """Return the project's number, within the caller's transaction; None for no path."""
    if not path:
        return None
    row = connection.execute("select id, path, remote from projects where path = ?", (path,)).fetchone()
    if row is None:
        row = _find_moved(connection, remote) or find_by_folder_name(connection, path)
        if row is not None:
            _move_project(connection, row, path)
    if row is None:
        cursor = insert_row(
            connection, "projects", {"path": path, "name": _get_folder_name(path), "remote": remote, "at": at}
        )
        return cursor.lastrowid
    if remote and remote != row["remote"]:
        connection.execute("update projects set remote = ? where id = ?", (remote, row["id"]))
    return int(row["id"])


def _get_folder_name(path: str) -> str:
    return os.path.basename(path.rstrip("/")) or path


def _find_moved(connection: Connection, remote: str) -> sqlite3.Row | None:
    """Return the only project of this remote whose folder is gone."""
    rows = connection.execute("select id, path, remote from projects where remote = ?", (remote,)).fetchall()
    missing = [row for row in rows if remote and not os.path.exists(row["path"])]
    return missing[0] if len(missing) == 1 else None


def find_by_folder_name(connection: Connection, path: str) -> sqlite3.Row | None:
    """Return the project that is known by this folder's name and no path, if no other has that name."""
    name = to_storable(_get_folder_name(path))
    rows = connection.execute("select id, path, remote from projects where name = ?", (name,)).fetchall()
    return rows[0] if len(rows) == 1 and rows[0]["path"] == name else None


def _move_project(connection: Connection, row: sqlite3.Row, path: str) -> None:
    connection.execute("update projects set path = ?, name = ? where id = ?", (path, _get_folder_name(path), row["id"]))
    connection.execute("update memories set project = ? where project = ?", (path, row["path"]))


def read_paths_by_remote(connection: Connection) -> dict[str, str]:
    """Return the folder of each repository that is known by its remote; of several clones the one used last."""
    rows = connection.execute("select remote, path from projects where remote != '' order by at")
    return {row["remote"]: row["path"] for row in rows if os.path.isabs(row["path"])}
