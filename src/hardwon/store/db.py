"""The one SQLite file. Several processes write it, so a writer says so at once and waits its turn."""

from __future__ import annotations

import errno
import json
import os
import shutil
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
    "PurgeConflict",
    "StoreError",
    "begin_epoch",
    "check_epoch",
    "connect",
    "copy_database",
    "migrate",
    "open_read_only",
    "parse_json_or_text",
    "read_epoch",
    "read_schema_version",
    "to_storable",
    "transaction",
]

BUSY_MILLISECONDS = 5_000
MIN_FREE_BYTES = 64 * 1024  # what opening a database may write: a page, its log and the log's index


class PurgeConflict(sqlite3.OperationalError):
    """Something was purged after this connection was opened, so what was read by it must not be written."""

    def __init__(self) -> None:
        super().__init__("something was purged meanwhile; what was read before that is not written")


class _Connection(sqlite3.Connection):
    """A connection that knows the epoch in which it began to read; None if that does not matter to it."""

    epoch: int | None = None


def connect(home: str, *, busy_milliseconds: int = BUSY_MILLISECONDS, ignore_epoch: bool = False) -> sqlite3.Connection:
    """The database of this home, made and brought up to date if need be.

    A purge ends an epoch: from then on the first transaction of a connection from before fails with `Purged`, so that
    no text that is gone is written again. `ignore_epoch` is for connections that write only what they are told, at
    once.
    """
    paths.make_private_folder(home)
    path = os.path.join(home, paths.DATABASE)
    if not os.path.exists(path):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    elif not os.path.isfile(path):  # SQLite would wait for a pipe
        raise UserError(f"{path} is not a plain file", f"move it away, and a new one is made: mv {path} {path}.old")
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, factory=_Connection)
    connection.row_factory = sqlite3.Row
    try:
        connection.execute(f"pragma busy_timeout = {busy_milliseconds}")
        if connection.execute("pragma page_count").fetchone()[0] == 0:
            connection.execute("pragma auto_vacuum = incremental")  # possible only before the first page is written
        connection.execute("pragma journal_mode = wal")
        connection.execute("pragma synchronous = normal")
        connection.execute("pragma foreign_keys = on")
        migrate(connection, path)
        connection.epoch = None if ignore_epoch else read_epoch(connection)
    except sqlite3.DatabaseError as error:
        connection.close()
        if shutil.disk_usage(home).free < MIN_FREE_BYTES:  # SQLite calls it an I/O error
            raise UserError(f"{path}: {os.strerror(errno.ENOSPC)}", "make room, then try again") from None
        raise UserError(f"{path}: {error}", "hardwon doctor; moving the file away starts a new one") from None
    except BaseException:
        connection.close()
        raise
    return connection


def open_read_only(path: str, *, timeout_seconds: float = 5.0) -> sqlite3.Connection:
    """Somebody else's database, to be read and nothing else."""
    # Without a log beside it nobody is writing, and then not even a lock file is made.
    is_written = any(os.path.exists(f"{path}{suffix}") for suffix in ("-wal", "-journal"))
    mode = "mode=ro" if is_written else "mode=ro&immutable=1"
    connection = sqlite3.connect(f"file:{quote(os.path.abspath(path))}?{mode}", uri=True, timeout=timeout_seconds)
    connection.row_factory = sqlite3.Row
    return connection


def copy_database(home: str, target_home: str) -> None:
    """Copy the database of one home into another, while others may be writing to it; nothing if there is none."""
    path = os.path.join(home, paths.DATABASE)
    if os.path.exists(path):
        source, target = sqlite3.connect(path), sqlite3.connect(os.path.join(target_home, paths.DATABASE))
        source.backup(target)
        source.close()
        target.close()


def read_schema_version(connection: sqlite3.Connection) -> int:
    version: int = connection.execute("pragma user_version").fetchone()[0]
    return version


def migrate(connection: sqlite3.Connection, path: str) -> None:
    """Bring an older file up to date, one transaction per step; leave a newer one alone."""
    if read_schema_version(connection) > len(MIGRATIONS):
        raise UserError(
            f"{path} was written by a newer hardwon (schema {read_schema_version(connection)}, this one knows "
            f"{len(MIGRATIONS)})",
            "upgrade hardwon, or point HARDWON_HOME elsewhere",
        )
    while read_schema_version(connection) < len(MIGRATIONS):
        with transaction(connection):
            step = read_schema_version(connection)
            if step < len(MIGRATIONS):
                for statement in MIGRATIONS[step]:
                    connection.execute(statement)
                connection.execute(f"pragma user_version = {step + 1}")


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("begin immediate")
    try:
        check_epoch(connection)
        yield
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:  # some errors have rolled back already
            connection.execute("rollback")
        raise


def read_epoch(connection: sqlite3.Connection) -> int:
    """Return the number that tells what was read before a purge from what was read after it.

    It is kept in a field of the file's header that SQLite leaves to applications.
    """
    epoch: int = connection.execute("pragma application_id").fetchone()[0]
    return epoch


def begin_epoch(connection: sqlite3.Connection) -> None:
    """End the epoch of everybody else, within the transaction that purges. A random number, since the file may be
    replaced by a backup, which has one of its own."""
    new_epoch = int.from_bytes(os.urandom(4), "big") >> 1
    connection.execute(f"pragma application_id = {new_epoch}")
    if isinstance(connection, _Connection) and connection.epoch is not None:
        connection.epoch = new_epoch


def check_epoch(connection: sqlite3.Connection) -> None:
    """Raise `Purged`, once, if something was purged since the connection was opened."""
    if not isinstance(connection, _Connection) or connection.epoch is None:
        return
    current_epoch = read_epoch(connection)
    if current_epoch != connection.epoch:
        connection.epoch = current_epoch  # what is read from here on is from after the purge
        raise PurgeConflict


def to_storable(value: object) -> object:
    """SQLite takes no lone surrogates, and hosts do send them."""
    if isinstance(value, str) and not value.isascii():
        return value.encode("utf-8", "replace").decode()
    return value


def parse_json_or_text(text: str) -> Any:
    """What a column of JSON holds; the text itself if it is none."""
    try:
        return json.loads(text) if text else None
    except (ValueError, RecursionError):
        return text
