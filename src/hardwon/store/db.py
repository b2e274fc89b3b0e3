"""The one SQLite file: opening it, migrating it, transactions. Several processes write it at the same time."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import quote

from hardwon import paths
from hardwon.errors import UserError
from hardwon.store.migrations import LATEST_VERSION, NEW_FILE_STATEMENTS, STEPS

Connection = sqlite3.Connection
StoreError = sqlite3.Error
Row = dict[str, Any]  # by the names of its columns
BUSY_MILLISECONDS = 5_000
_MIN_FREE_BYTES = 64 * 1024  # opening a database may write a page, its log and the log's index


class PurgeConflict(sqlite3.OperationalError):
    """A purge ran after this connection was opened, so what the connection read before must not be written."""

    def __init__(self) -> None:
        super().__init__("a purge ran meanwhile; what was read before it is not written")


class _Connection(sqlite3.Connection):
    """A connection that remembers the epoch it reads in, and accepts text that is not valid Unicode.

    Agents do send lone surrogates, which SQLite rejects. They are rare, so each statement is first tried unchanged.
    """

    epoch: int | None = None  # None if purges do not matter to this connection

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        """Execute a statement; with lone surrogates replaced if SQLite rejects its values."""
        try:
            return super().execute(sql, parameters)
        except UnicodeEncodeError:
            return super().execute(sql, _replace_surrogates(parameters))

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> sqlite3.Cursor:
        """Execute a statement for all rows or none; with lone surrogates replaced if SQLite rejects a value."""
        rows = list(parameters)
        super().execute("savepoint before_rows")
        try:
            cursor = super().executemany(sql, rows)
        except UnicodeEncodeError:
            super().execute("rollback to before_rows")
            cursor = super().executemany(sql, [_replace_surrogates(row) for row in rows])
        super().execute("release before_rows")
        return cursor


def _replace_surrogates(parameters: Sequence[object] | Mapping[str, object]) -> Any:
    """Return the values of a statement as they will be stored."""
    if isinstance(parameters, Mapping):
        return {name: to_storable(value) for name, value in parameters.items()}
    return [to_storable(value) for value in parameters]


def to_storable(value: object) -> object:
    """Return the value as it will be stored: lone surrogates become question marks."""
    if isinstance(value, str) and not value.isascii():
        return value.encode("utf-8", "replace").decode()
    return value


@contextmanager
def open(home: str) -> Iterator[sqlite3.Connection]:
    """Open the database of this home and close it at the end of the block."""
    connection = connect(home)
    try:
        yield connection
    finally:
        connection.close()


def connect(home: str, *, busy_milliseconds: int = BUSY_MILLISECONDS, ignore_epoch: bool = False) -> sqlite3.Connection:
    """Return a connection to the database of this home, created and migrated if needed; the caller closes it.

    A purge ends an epoch: the next transaction of an older connection fails with `PurgeConflict`, so that deleted text
    is not written back. `ignore_epoch` is for connections that write at once what they receive.
    """
    paths.make_private_folder(home)
    path = os.path.join(home, paths.DATABASE)
    if not os.path.exists(path):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    elif not os.path.isfile(path):  # SQLite would block on a pipe
        raise UserError(f"{path} is not a plain file", f"move it away, and a new one is made: mv {path} {path}.old")
    # Transactions are begun by `transaction` alone. The viewer and the API share one connection each among their
    # threads, one thread at a time.
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, factory=_Connection)
    connection.row_factory = sqlite3.Row
    try:
        connection.execute(f"pragma busy_timeout = {busy_milliseconds}")
        if fetch_value(connection, "pragma page_count") == 0:
            connection.execute("pragma auto_vacuum = incremental")  # possible only before the first page is written
        connection.execute("pragma journal_mode = wal")
        connection.execute("pragma synchronous = normal")
        connection.execute("pragma foreign_keys = on")
        migrate(connection, path)
        connection.epoch = None if ignore_epoch else read_epoch(connection)
    except sqlite3.DatabaseError as error:
        connection.close()
        if shutil.disk_usage(home).free < _MIN_FREE_BYTES:  # SQLite would report only an I/O error
            raise UserError(f"{path}: {os.strerror(errno.ENOSPC)}", "make room, then try again") from None
        raise UserError(f"{path}: {error}", "hardwon doctor; moving the file away starts a new one") from None
    except BaseException:
        connection.close()
        raise
    return connection


def open_unmigrated(path: str) -> sqlite3.Connection:
    """Open our database as it is, for a build of the manifest, which must neither create nor migrate it."""
    return sqlite3.connect(f"file:{quote(os.path.abspath(path))}?mode=rw", uri=True, timeout=BUSY_MILLISECONDS / 1000)


def open_read_only(path: str, *, timeout_seconds: float = 5.0) -> sqlite3.Connection:
    """Open a database of another program; the caller closes it."""
    # Without a write-ahead log nobody is writing, and SQLite need not even create a lock file.
    is_written = any(os.path.exists(f"{path}{suffix}") for suffix in ("-wal", "-journal"))
    mode = "mode=ro" if is_written else "mode=ro&immutable=1"
    connection = sqlite3.connect(f"file:{quote(os.path.abspath(path))}?{mode}", uri=True, timeout=timeout_seconds)
    connection.row_factory = sqlite3.Row
    return connection


def copy_database(path: str, copy_path: str) -> None:
    """Copy a database while others may be writing to it; the copy is one file, without a write-ahead log."""
    # SQLite's own copy sees the write-ahead log; a plain copy of the file would miss what is in it.
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy_path)) as copy:
        source.execute(f"pragma busy_timeout = {BUSY_MILLISECONDS}")
        source.backup(copy)
        copy.execute("pragma journal_mode = delete")


def read_schema_version(connection: sqlite3.Connection) -> int:
    return int(fetch_value(connection, "pragma user_version"))


def migrate(connection: sqlite3.Connection, path: str) -> None:
    """Bring an older file up to date, one transaction per step; leave a newer one alone."""
    version = read_schema_version(connection)
    if version > LATEST_VERSION:
        raise UserError(
            f"{path} was written by a newer hardwon (schema {version}, this one knows {LATEST_VERSION})",
            "upgrade hardwon, or point HARDWON_HOME elsewhere",
        )
    steps: Sequence[tuple[int, Sequence[str]]] = STEPS
    if version == 0:  # a new file is made in one step; if another process makes it meanwhile, the steps find it done
        steps = ((LATEST_VERSION, NEW_FILE_STATEMENTS), *STEPS)
    for step_version, statements in steps:
        if version >= step_version:
            continue
        with transaction(connection):
            if read_schema_version(connection) == version:  # else another process was faster
                for statement in statements:
                    connection.execute(statement)
                connection.execute(f"pragma user_version = {step_version}")
            version = read_schema_version(connection)


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit what the block writes, all or nothing; PurgeConflict if a purge ran since the connection was opened."""
    connection.execute("begin immediate")
    try:
        _check_epoch(connection)
        yield
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:  # after some errors SQLite has already rolled back
            connection.execute("rollback")
        raise


def read_epoch(connection: sqlite3.Connection) -> int:
    """Return the number that changes with every purge."""
    # The application id is a field of the file's header that SQLite leaves to applications.
    return int(fetch_value(connection, "pragma application_id"))


def begin_epoch(connection: sqlite3.Connection) -> None:
    """End the epoch of all other connections, within the transaction that purges."""
    # Random, not a counter: a restored backup brings its own epoch, which must never equal a later one.
    new_epoch = int.from_bytes(os.urandom(4), "big") >> 1
    connection.execute(f"pragma application_id = {new_epoch}")
    if isinstance(connection, _Connection) and connection.epoch is not None:
        connection.epoch = new_epoch


def _check_epoch(connection: sqlite3.Connection) -> None:
    """Raise `PurgeConflict`, once, if a purge ran since the connection was opened."""
    if not isinstance(connection, _Connection) or connection.epoch is None:
        return  # a connection without an epoch writes at once what it receives
    current_epoch = read_epoch(connection)
    if current_epoch != connection.epoch:
        connection.epoch = current_epoch  # everything read from here on is from after the purge
        raise PurgeConflict


def fetch_value(connection: sqlite3.Connection, query: str, *values: object) -> Any:
    """Return the first column of the first row; None if there is no row."""
    row = connection.execute(query, values).fetchone()
    return row[0] if row else None


def fetch_column(connection: sqlite3.Connection, query: str, *values: object) -> list[Any]:
    """Return the first column of every row."""
    return [row[0] for row in connection.execute(query, values).fetchall()]


def fetch_row(connection: sqlite3.Connection, query: str, *values: object) -> Row | None:
    """Return the first row by its column names; None if there is no row."""
    row = connection.execute(query, values).fetchone()
    return dict(row) if row else None


def fetch_dicts(connection: sqlite3.Connection, query: str, *values: object) -> list[Row]:
    """Return every row by its column names."""
    return [dict(row) for row in connection.execute(query, values).fetchall()]


def count_rows(connection: sqlite3.Connection, tables: Iterable[str]) -> dict[str, int]:
    """Return how many rows each of these tables has."""
    return {table: fetch_value(connection, f"select count(*) from {table}") for table in tables}


def insert_row(
    connection: sqlite3.Connection, table: str, row: Mapping[str, object], *, verb: str = "insert", clause: str = ""
) -> sqlite3.Cursor:
    """Insert a row given by its columns; `clause` follows the values, such as `on conflict`."""
    columns = ", ".join(row)
    qmarks = ", ".join("?" * len(row))
    query = f"{verb} into {table} ({columns}) values ({qmarks}) {clause}"
    return connection.execute(query, tuple(row.values()))


def parse_row_number(text: str) -> int:
    """Return the number of a row that a person or a program wrote; -1, which no row has, for any other text."""
    # `isdigit` alone accepts digits of other scripts, and SQLite refuses numbers beyond 64 bits.
    is_number = text.isascii() and text.isdigit() and len(text) < 10
    return int(text) if is_number else -1


def parse_json_or_text(text: str) -> Any:
    """Parse a JSON column; return the text itself if it is not JSON, and None for an empty one."""
    if not text:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
