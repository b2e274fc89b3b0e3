"""Projects: shown by their folder's name, told apart by its real path.

A repository that was moved is the same project if it has the same remote and its old place is gone.
"""

from __future__ import annotations

import os

from hardwon.store.db import Connection, storable


def resolve(connection: Connection, path: str, remote: str, at: float) -> int | None:
    """The project's number, within the caller's transaction; None for no path."""
    if not path:
        return None
    row = connection.execute("select id, remote from projects where path = ?", (storable(path),)).fetchone()
    if row is None and remote:
        row = _moved(connection, path, remote)
    if row is None:
        name = os.path.basename(path.rstrip("/")) or path
        connection.execute(
            "insert or ignore into projects (path, name, remote, at) values (?, ?, ?, ?)",
            (storable(path), storable(name), storable(remote), at),
        )
        row = connection.execute("select id, remote from projects where path = ?", (storable(path),)).fetchone()
    elif remote and remote != row["remote"]:
        connection.execute("update projects set remote = ? where id = ?", (storable(remote), row["id"]))
    found: int = row["id"]
    return found


def _moved(connection: Connection, path: str, remote: str) -> dict[str, object] | None:
    rows = connection.execute("select id, path, remote from projects where remote = ?", (storable(remote),)).fetchall()
    gone = [row for row in rows if not os.path.exists(row["path"])]
    if len(gone) != 1:
        return None
    name = os.path.basename(path.rstrip("/")) or path
    connection.execute(
        "update projects set path = ?, name = ? where id = ?", (storable(path), storable(name), gone[0]["id"])
    )
    connection.execute("update memories set project = ? where project = ?", (storable(path), gone[0]["path"]))
    return dict(gone[0])
