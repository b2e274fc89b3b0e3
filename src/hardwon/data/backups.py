"""Backups: a folder each, with the database and what a person has written. Made while others write.

A folder gets its name when it is complete. The database in it is one file, without a log beside it.
"""

from __future__ import annotations

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
from hardwon.store.migrations import MIGRATIONS
from hardwon.store.purge_lock import hold_copy_lock
from hardwon.types import frozen

BACKUPS_FOLDER = "backups"
COPIED_FILES = (paths.LESSONS, paths.CONFIG, paths.TRUSTED_PROJECTS)
MEMORY_FOLDER, DRAFTS_FOLDER = "memory", "drafts"
_NAME = re.compile(r"\d{4}-\d\d-\d\dT\d{6}Z(-\d+)?")


def list_copied_files(folder: str) -> tuple[str, ...]:
    """What is copied of a home beside the database, or lies in a backup: a person's files."""
    pages = (name for below in (MEMORY_FOLDER, DRAFTS_FOLDER) for name in _pages(folder, below))
    return (*COPIED_FILES, *pages)


def _pages(folder: str, below: str) -> list[str]:
    try:
        names = sorted(os.listdir(os.path.join(folder, below)))
    except OSError:
        return []
    return [os.path.join(below, name) for name in names if name.endswith(".md")]


@frozen
class Backup:
    """One backup; schema is 0 if it has no database, None if its database cannot be read."""

    name: str
    path: str
    schema: int | None
    bytes: int
    files: tuple[str, ...]


def create_backup(home: str, now: float) -> Backup:
    """Copy the database as it is at this moment, and the files."""
    above = paths.make_private_folder(os.path.join(home, BACKUPS_FOLDER))
    name = _free_name(above, clock.format_iso(now).replace(":", ""))
    half = os.path.join(above, f".{name}.{os.getpid()}.new")
    try:
        with hold_copy_lock(home):
            os.mkdir(half, 0o700)
            if os.path.exists(os.path.join(home, paths.DATABASE)):
                _copy_database(home, half)
            for file in list_copied_files(home):
                if (content := _read(os.path.join(home, file))) is not None:
                    paths.write_private(os.path.join(half, file), content)
            os.rename(half, os.path.join(above, name))
    except BaseException:
        shutil.rmtree(half, ignore_errors=True)
        raise
    return _look(os.path.join(above, name))


def _free_name(above: str, stamp: str) -> str:
    names = [stamp, *(f"{stamp}-{number}" for number in range(2, 100))]
    return next(name for name in names if not os.path.exists(os.path.join(above, name)))


def _copy_database(home: str, to: str) -> None:
    """By SQLite, so that it is whole; one that SQLite cannot read is copied as it lies there."""
    here, there = os.path.join(home, paths.DATABASE), os.path.join(to, paths.DATABASE)
    os.close(os.open(there, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    source, copy = sqlite3.connect(here), sqlite3.connect(there)
    try:
        source.execute(f"pragma busy_timeout = {db.BUSY_MILLISECONDS}")
        source.backup(copy)
        copy.execute("pragma journal_mode = delete")
    except sqlite3.DatabaseError:
        for end in ("", "-wal"):
            if (content := _read(here + end)) is not None:
                paths.write_private(there + end, content)
    finally:
        source.close()
        copy.close()


def _read(path: str) -> bytes | None:
    try:
        with open(path, "rb", opener=paths.open_plain_file) as file:
            return file.read()
    except FileNotFoundError:
        return None


def list_backups(home: str) -> list[Backup]:
    """The backups, the newest first."""
    above = os.path.join(home, BACKUPS_FOLDER)
    names = os.listdir(above) if os.path.isdir(above) else []
    return [
        _look(os.path.join(above, name)) for name in sorted(names, key=_order, reverse=True) if _NAME.fullmatch(name)
    ]


def _order(name: str) -> tuple[str, int]:
    stamp, _, number = name.partition("Z-")
    return stamp.rstrip("Z"), int(number) if number.isdigit() else 1


def _look(path: str) -> Backup:
    files = tuple(sorted(os.listdir(path)))
    size = sum(os.lstat(os.path.join(path, file)).st_size for file in files)
    database = os.path.join(path, paths.DATABASE)
    schema = _schema(database) if paths.DATABASE in files else 0
    return Backup(os.path.basename(path), path, schema, size, files)


def _schema(path: str) -> int | None:
    if os.path.islink(path) or not os.path.isfile(path):
        return None
    connection = sqlite3.connect(path)
    try:
        found = db.read_schema_version(connection)
        whole = connection.execute("pragma quick_check(1)").fetchone()[0] == "ok"
        return found if whole else None
    except sqlite3.DatabaseError:
        return None
    finally:
        connection.close()


def rotate(home: str, keep: int) -> list[str]:
    """Remove the oldest beyond so many; gives their names."""
    gone = list_backups(home)[keep:]
    for one in gone:
        shutil.rmtree(one.path)
    return [one.name for one in gone]


def find_backup(home: str, name: str) -> Backup:
    """The backup of this name, fit to be restored."""
    found = next((one for one in list_backups(home) if one.name == name), None)
    if found is None:
        raise UserError(f"there is no backup {name!r}", "hardwon restore")
    if found.schema is None:
        raise UserError(f"the database of the backup {name} cannot be read", "hardwon restore lists the others")
    if found.schema > len(MIGRATIONS):
        say = f"the backup {name} was made by a newer hardwon (schema {found.schema}, this one knows {len(MIGRATIONS)})"
        raise UserError(say, "upgrade hardwon")
    if fault := _fault_of(found):
        raise UserError(f"the backup {name} is not put in place: {fault}", "hardwon restore lists the others")
    return found


def _fault_of(backup: Backup) -> str:
    """Return what is wrong with a backup, so that nothing is replaced by it; nothing if it is sound."""
    for folder, names, pages in os.walk(backup.path):
        for name in (*names, *pages):
            path = os.path.join(folder, name)
            is_expected = os.path.isdir(path) or os.path.isfile(path)
            if os.path.islink(path) or not is_expected:
                return f"{os.path.relpath(path, backup.path)} in it is not a plain file"
    for name in COPIED_FILES:
        content = _read(os.path.join(backup.path, name))
        fault = _fault_in_json(content) if content is not None else ""
        if fault:
            return f"its {name} {fault}"
    try:
        if content := _read(os.path.join(backup.path, paths.LESSONS)):
            lessons_file.parse_content(paths.LESSONS, content)
    except UserError as wrong:
        return f"its {wrong.say}"
    return _fault_in_schema(os.path.join(backup.path, paths.DATABASE), backup.schema or 0)


def _fault_in_json(content: bytes) -> str:
    try:
        document = json.loads(content.decode("utf-8-sig")) if content.strip() else {}
    except (ValueError, RecursionError) as wrong:
        return f"cannot be read: {wrong}"
    return "" if isinstance(document, dict | list) else f"holds {type(document).__name__}, not an object"


def _fault_in_schema(path: str, version: int) -> str:
    """Return the first trigger or view that no migration of ours makes: a trigger runs whenever we write."""
    if not version:
        return ""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as fresh, closing(sqlite3.connect(path)) as copy:
        for statements in MIGRATIONS[:version]:
            for statement in statements:
                fresh.execute(statement)
        ours = _programs(fresh)
        odd = [kind_and_name for kind_and_name, sql in _programs(copy).items() if ours.get(kind_and_name) != sql]
    return f"its database has a {odd[0][0]} {odd[0][1]!r} that hardwon did not make" if odd else ""


def _programs(connection: sqlite3.Connection) -> dict[tuple[str, str], str]:
    rows = connection.execute("select type, name, sql from sqlite_master where type in ('trigger', 'view')").fetchall()
    return {(kind, name): " ".join(str(sql).split()) for kind, name, sql in rows}


def restore(home: str, backup: Backup, fallback: Backup) -> None:
    """Put a backup in the place of what is there; if that fails, put back what was there `fallback`."""
    names = dict.fromkeys((*list_copied_files(home), *list_copied_files(backup.path)))
    contents = {file: _read(os.path.join(backup.path, file)) for file in names}
    place = os.path.join(home, paths.DATABASE)
    try:
        _put_database(place, os.path.join(backup.path, paths.DATABASE))
    except sqlite3.Error as wrong:
        raise UserError(f"{place}: {wrong}; nothing was changed", "close what uses it, then try again") from None
    try:
        _put_files(home, contents)
    except OSError:
        _put_database(place, os.path.join(fallback.path, paths.DATABASE))
        _put_files(home, {file: _read(os.path.join(fallback.path, file)) for file in names})
        raise


def _put_files(home: str, contents: Mapping[str, bytes | None]) -> None:
    for file, content in contents.items():
        place = os.path.join(home, file)
        if content is not None:
            paths.write_private(place, content)
        elif os.path.exists(place):
            os.unlink(place)


def _put_database(place: str, source: str) -> None:
    """In one transaction of SQLite, so that whoever has it open sees all of it or nothing."""
    if not os.path.exists(source):
        _remove(place)
        return
    copy = sqlite3.connect(source)
    try:
        try:
            _overwrite(place, copy)
        except sqlite3.DatabaseError as wrong:
            if isinstance(wrong, sqlite3.OperationalError):  # locked, or no room: what is there is sound
                raise
            _remove(place)
            _overwrite(place, copy)
    finally:
        copy.close()


def _overwrite(place: str, copy: sqlite3.Connection) -> None:
    os.close(os.open(place, os.O_RDWR | os.O_CREAT, 0o600))
    target = sqlite3.connect(place)
    try:
        target.execute(f"pragma busy_timeout = {db.BUSY_MILLISECONDS}")
        copy.backup(target)
        target.execute("pragma journal_mode = wal")
        target.execute("pragma wal_checkpoint(truncate)")
    finally:
        target.close()


def _remove(place: str) -> None:
    for end in ("", "-wal", "-shm"):
        if os.path.exists(place + end):
            os.unlink(place + end)


def remove_matching_lessons(content: bytes, is_gone: Callable[[str], bool]) -> bytes | None:
    """A copy of lessons.json without some of its records; None if it cannot be read."""
    try:
        document = json.loads(content)
        records = document["lessons"]
    except (ValueError, KeyError, TypeError):
        return None
    document["lessons"] = [one for one in records if not is_gone(json.dumps(one, ensure_ascii=False))]
    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()
