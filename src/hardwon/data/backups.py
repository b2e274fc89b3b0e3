"""Backups, each a folder with the database and the person's files, made while others may write.

A folder gets its final name when it is complete. Its database is one file, without a write-ahead log.
"""

from __future__ import annotations

import glob
import json
import os
import re
import shutil
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing

from hardwon import clock, paths
from hardwon.errors import UserError
from hardwon.lessons import lessons_file
from hardwon.store import db
from hardwon.store.migrations import LATEST_VERSION, STEPS
from hardwon.store.purge import hold_copy_lock
from hardwon.types import frozen

BACKUPS_FOLDER = "backups"
_COPIED_FILES = (paths.LESSONS, paths.CONFIG, paths.TRUSTED_PROJECTS)
MEMORY_FOLDER, DRAFTS_FOLDER = "memory", "drafts"
# Copies of agents' settings files lie in the same folder under other names.
_BACKUP_NAME = re.compile(r"\d{4}-\d\d-\d\dT\d{6}Z(-\d+)?")


def list_copied_files(folder: str) -> tuple[str, ...]:
    """Return the files of a home or a backup that are copied besides the database, relative to it."""
    pages: list[str] = []
    for subfolder in (MEMORY_FOLDER, DRAFTS_FOLDER):
        pages += sorted(glob.glob(os.path.join(subfolder, "*.md"), root_dir=folder, include_hidden=True))
    return (*_COPIED_FILES, *pages)


@frozen
class Backup:
    """A backup; schema is 0 if it has no database, None if its database cannot be read."""

    name: str
    path: str
    schema: int | None
    bytes: int
    files: tuple[str, ...]


def create_backup(home: str, now: float) -> Backup:
    """Copy the database as it is now, and the files."""
    backups_folder = paths.make_private_folder(os.path.join(home, BACKUPS_FOLDER))
    stamp = clock.format_iso(now).replace(":", "")
    name = stamp
    number = 1
    while os.path.exists(os.path.join(backups_folder, name)):  # a second one within this second
        number += 1
        name = f"{stamp}-{number}"
    unfinished_path = os.path.join(backups_folder, f".{name}.{os.getpid()}.new")
    try:
        # A purge that ran between the copy and the rename would miss the copy.
        with hold_copy_lock(home):
            # `remove_unfinished_files` of a purge recognises this name if the process is killed.
            os.mkdir(unfinished_path, 0o700)
            if paths.has_database(home):
                _copy_database(home, unfinished_path)
            for file in list_copied_files(home):
                if (content := _read_file(os.path.join(home, file))) is not None:
                    paths.write_private(os.path.join(unfinished_path, file), content)
            os.rename(unfinished_path, os.path.join(backups_folder, name))
    except BaseException:
        shutil.rmtree(unfinished_path, ignore_errors=True)
        raise
    return _read_backup(os.path.join(backups_folder, name))


def _copy_database(home: str, target_folder: str) -> None:
    """Copy the database with SQLite's backup, so that it is consistent; copy the bytes if SQLite cannot read it."""
    source_path = os.path.join(home, paths.DATABASE)
    copy_path = os.path.join(target_folder, paths.DATABASE)
    os.close(os.open(copy_path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        db.copy_database(source_path, copy_path)
    except sqlite3.DatabaseError:
        for suffix in ("", "-wal"):
            if (content := _read_file(source_path + suffix)) is not None:
                paths.write_private(copy_path + suffix, content)


def _read_file(path: str) -> bytes | None:
    """Return the content of a file; None if there is no such file."""
    try:
        with open(path, "rb", opener=paths.open_plain_file) as file:
            return file.read()
    except FileNotFoundError:
        return None


def list_backups(home: str) -> list[Backup]:
    """Return the backups, the newest first."""
    backups_folder = os.path.join(home, BACKUPS_FOLDER)
    names = os.listdir(backups_folder) if os.path.isdir(backups_folder) else []
    backup_names = [name for name in names if _BACKUP_NAME.fullmatch(name)]
    backup_names.sort(key=_get_sort_key, reverse=True)
    return [_read_backup(os.path.join(backups_folder, name)) for name in backup_names]


def _get_sort_key(name: str) -> tuple[str, int]:
    """Return the time of a backup's name and its number among those of that second; the first has none."""
    stamp, _, number = name.partition("Z-")
    return stamp.removesuffix("Z"), int(number or 1)


def _read_backup(path: str) -> Backup:
    """Describe the backup in a folder, from the folder itself: there is no list of backups."""
    files = tuple(sorted(os.listdir(path)))
    size = sum(os.lstat(os.path.join(path, file)).st_size for file in files)
    database = os.path.join(path, paths.DATABASE)
    schema = _read_schema(database) if paths.DATABASE in files else 0
    return Backup(os.path.basename(path), path, schema, size, files)


def _read_schema(path: str) -> int | None:
    """Return the schema version of a database; None if it is damaged, or not a plain file."""
    if os.path.islink(path) or not os.path.isfile(path):
        return None
    try:
        with closing(sqlite3.connect(path)) as connection:
            # A damaged page may be far from the header that tells the version.
            is_intact = db.fetch_value(connection, "pragma quick_check(1)") == "ok"
            return db.read_schema_version(connection) if is_intact else None
    except sqlite3.DatabaseError:
        return None


def rotate(home: str, keep: int) -> list[str]:
    """Delete the oldest backups beyond the limit; return their names."""
    expired_backups = list_backups(home)[keep:]
    for backup in expired_backups:
        shutil.rmtree(backup.path)
    return [backup.name for backup in expired_backups]


def find_backup(home: str, name: str) -> Backup:
    """Return the backup of this name; raise UserError if it cannot be restored."""
    backup = next((candidate for candidate in list_backups(home) if candidate.name == name), None)
    if backup is None:
        raise UserError(f"there is no backup {name!r}", "hardwon restore")
    if backup.schema is None:
        raise UserError(f"the database of the backup {name} cannot be read", "hardwon restore lists the others")
    # An older version is migrated after it is put in place; a newer one cannot be read.
    if backup.schema > LATEST_VERSION:
        versions = f"schema {backup.schema}, this one knows {LATEST_VERSION}"
        raise UserError(f"the backup {name} was made by a newer hardwon ({versions})", "upgrade hardwon")
    if fault := _find_fault(backup):
        raise UserError(f"the backup {name} is not put in place: {fault}", "hardwon restore lists the others")
    return backup


def _find_fault(backup: Backup) -> str:
    """Return why a backup must not be restored; empty if it is sound."""
    for folder, folder_names, file_names in os.walk(backup.path):
        for name in (*folder_names, *file_names):
            path = os.path.join(folder, name)
            is_folder_or_file = os.path.isdir(path) or os.path.isfile(path)
            # A link in a backup from elsewhere could have any file overwritten or read.
            if os.path.islink(path) or not is_folder_or_file:
                return f"{os.path.relpath(path, backup.path)} in it is not a plain file"
    for name in _COPIED_FILES:
        content = _read_file(os.path.join(backup.path, name))
        if content is not None and (fault := _find_json_fault(content)):
            return f"its {name} {fault}"
    try:
        if content := _read_file(os.path.join(backup.path, paths.LESSONS)):
            lessons_file.parse_content(paths.LESSONS, content)
    except UserError as error:
        return f"its {error.message}"
    return _find_schema_fault(os.path.join(backup.path, paths.DATABASE), backup.schema or 0)


def _find_json_fault(content: bytes) -> str:
    """Return what is wrong with a file's content; empty if it is an object, a list, or nothing."""
    if not content.strip():
        return ""
    try:
        document = json.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        return f"cannot be read: {error}"
    if not isinstance(document, dict | list):
        return f"holds {type(document).__name__}, not an object"
    return ""


def _find_schema_fault(path: str, version: int) -> str:
    """Name the first trigger or view that no migration creates; empty if there is none.

    A foreign trigger would run whenever we write.
    """
    if not version:
        return ""  # a backup without a database
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as fresh, closing(sqlite3.connect(path)) as copy:
        for step_version, statements in STEPS:
            if step_version <= version:
                for statement in statements:
                    fresh.execute(statement)
        expected = _read_triggers_and_views(fresh)
        for (kind, name), sql in _read_triggers_and_views(copy).items():
            if expected.get((kind, name)) != sql:
                return f"its database has a {kind} {name!r} that hardwon did not make"
    return ""


def _read_triggers_and_views(connection: sqlite3.Connection) -> dict[tuple[str, str], str]:
    """Return the SQL of each trigger and view by its kind and name, without regard to line breaks."""
    rows = connection.execute("select type, name, sql from sqlite_master where type in ('trigger', 'view')").fetchall()
    return {(kind, name): " ".join(str(sql).split()) for kind, name, sql in rows}


def restore(home: str, backup: Backup, fallback: Backup) -> None:
    """Replace the home's data by a backup; if that fails, restore `fallback`, a backup of the data before."""
    # Files that only the home has go as well: the backup is from before they were written.
    files = dict.fromkeys((*list_copied_files(home), *list_copied_files(backup.path)))
    contents = {file: _read_file(os.path.join(backup.path, file)) for file in files}
    database_path = os.path.join(home, paths.DATABASE)
    try:
        _restore_database(database_path, os.path.join(backup.path, paths.DATABASE))
    except sqlite3.Error as error:
        raise UserError(
            f"{database_path}: {error}; nothing was changed", "close what uses it, then try again"
        ) from None
    try:
        _restore_files(home, contents)
    except OSError:  # such as a full disk: all as it was is better than half of each
        _restore_database(database_path, os.path.join(fallback.path, paths.DATABASE))
        _restore_files(home, {file: _read_file(os.path.join(fallback.path, file)) for file in files})
        raise


def _restore_files(home: str, contents: Mapping[str, bytes | None]) -> None:
    """Write each file with its content, and delete those whose content is None: the backup did not have them."""
    for file, content in contents.items():
        path = os.path.join(home, file)
        if content is not None:
            paths.write_private(path, content)
        elif os.path.exists(path):
            os.unlink(path)


def _restore_database(path: str, source: str) -> None:
    """Replace the database in one SQLite transaction, so that other processes see all of it or nothing."""
    if not os.path.exists(source):
        _remove_database(path)
        return
    with closing(sqlite3.connect(source)) as copy:
        try:
            _overwrite_database(path, copy)
        except sqlite3.OperationalError:  # locked or disk full; the current database is still sound
            raise
        except sqlite3.DatabaseError:  # the current one is damaged, or no database at all
            _remove_database(path)
            _overwrite_database(path, copy)


def _overwrite_database(path: str, copy: sqlite3.Connection) -> None:
    """Put a copy's content into the database file, which is created if it is missing."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    with closing(sqlite3.connect(path)) as target:
        target.execute(f"pragma busy_timeout = {db.BUSY_MILLISECONDS}")
        copy.backup(target)
        target.execute("pragma journal_mode = wal")
        # What was in the log of the replaced database must not stay on the disk.
        target.execute("pragma wal_checkpoint(truncate)")


def _remove_database(path: str) -> None:
    for suffix in ("", "-wal", "-shm"):
        if os.path.exists(path + suffix):
            os.unlink(path + suffix)


def remove_matching_lessons(content: bytes, should_remove: Callable[[str], bool]) -> bytes | None:
    """Return a copy of lessons.json without some of its records; None if it cannot be read."""
    try:
        document = json.loads(content)
        records = document["lessons"]
    except (ValueError, KeyError, TypeError):
        return None
    document["lessons"] = [record for record in records if not should_remove(json.dumps(record, ensure_ascii=False))]
    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()
