"""The one SQLite file. Several processes write it, so a writer says so at once and waits its turn."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from sqlite3 import Connection as Connection
from sqlite3 import Error as StoreError
from typing import Any
from urllib.parse import quote

from hardwon import paths
from hardwon.errors import UserError
from hardwon.store.migrations import MIGRATIONS

__all__ = [
    "Connection",
    "StoreError",
    "connect",
    "copy",
    "migrate",
    "reading",
    "storable",
    "transaction",
    "value_of",
    "version",
]

BUSY_MILLISECONDS = 5_000


def connect(home: str, *, busy_milliseconds: int = BUSY_MILLISECONDS) -> sqlite3.Connection:
    """The database of this home, made and brought up to date if need be."""
    paths.private_folder(home)
    path = os.path.join(home, paths.DATABASE)
    if not os.path.exists(path):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.row_factory = sqlite3.Row
    try:
        connection.execute(f"pragma busy_timeout = {busy_milliseconds}")
        if connection.execute("pragma page_count").fetchone()[0] == 0:
            connection.execute("pragma auto_vacuum = incremental")  # possible only before the first page is written
        connection.execute("pragma journal_mode = wal")
        connection.execute("pragma synchronous = normal")
        connection.execute("pragma foreign_keys = on")
        migrate(connection, path)
    except sqlite3.DatabaseError as wrong:
        connection.close()
        raise UserError(f"{path}: {wrong}", "hardwon doctor; moving the file away starts a new one") from None
    except BaseException:
        connection.close()
        raise
    return connection


def reading(path: str, *, seconds: float = 5.0) -> sqlite3.Connection:
    """Somebody else's database, to be read and nothing else."""
    # Without a log beside it nobody is writing, and then not even a lock file is made.
    is_written = any(os.path.exists(f"{path}{log}") for log in ("-wal", "-journal"))
    how = "mode=ro" if is_written else "mode=ro&immutable=1"
    connection = sqlite3.connect(f"file:{quote(os.path.abspath(path))}?{how}", uri=True, timeout=seconds)
    connection.row_factory = sqlite3.Row
    return connection


def copy(home: str, to: str) -> None:
    """Copy the database of one home into another, while others may be writing to it; nothing if there is none."""
    path = os.path.join(home, paths.DATABASE)
    if os.path.exists(path):
        here, there = sqlite3.connect(path), sqlite3.connect(os.path.join(to, paths.DATABASE))
        here.backup(there)
        here.close()
        there.close()


def version(connection: sqlite3.Connection) -> int:
    found: int = connection.execute("pragma user_version").fetchone()[0]
    return found


def migrate(connection: sqlite3.Connection, path: str) -> None:
    """Bring an older file up to date, one transaction per step; leave a newer one alone."""
    if version(connection) > len(MIGRATIONS):
        raise UserError(
            f"{path} was written by a newer hardwon (schema {version(connection)}, this one knows {len(MIGRATIONS)})",
            "upgrade hardwon, or point HARDWON_HOME elsewhere",
        )
    while version(connection) < len(MIGRATIONS):
        with transaction(connection):
            step = version(connection)
            if step < len(MIGRATIONS):
                for statement in MIGRATIONS[step]:
                    connection.execute(statement)
                connection.execute(f"pragma user_version = {step + 1}")


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("begin immediate")
    try:
        yield
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:  # some errors have rolled back already
            connection.execute("rollback")
        raise


def storable(value: object) -> object:
    """SQLite takes no lone surrogates, and hosts do send them."""
    if isinstance(value, str) and not value.isascii():
        return value.encode("utf-8", "replace").decode()
    return value


def value_of(text: str) -> Any:
    """What a column of JSON holds; the text itself if it is none."""
    try:
        return json.loads(text) if text else None
    except (ValueError, RecursionError):
        return text
