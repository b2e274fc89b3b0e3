"""The log of deletions, and tombstones that stop imports from bringing deleted data back.

A line of the log has the time, the command, the kind and the number of rows, but no content. Tombstones are salted
hashes of deleted sessions and projects and of purged texts. A tombstone covers only what happened before the deletion;
the same words said again later are new.

What a person rejected before it was purged stays rejected, by hashes too: of a memory those of its words, since one
that says nearly the same counts as rejected, of a candidate that of its signature.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

from hardwon.store.db import (
    Connection,
    fetch_column,
    fetch_dicts,
    fetch_value,
    insert_row,
    open_read_only,
    transaction,
)
from hardwon.text import traces
from hardwon.text.similarity import TextFingerprint, fingerprint_text, is_same_as_fingerprint
from hardwon.types import frozen

PURGE, SESSIONS_DELETE, RETENTION = "purge", "sessions delete", "retention"
SESSION, PROJECT, TEXT = "session", "project", "text"
_MEMORY, _CANDIDATE = "memory", "candidate"
_CARRIED_TABLES = ("deletions", "tombstones", "rejections")
_CHECKSUM_BASE = 40_503  # odd, so that no power of it is zero modulo 2 ** 16
# One position in 65,000 is hashed in vain, which costs nothing beside the search.
_CHECKSUM_MASK = 0xFFFF


@frozen
class Deletion:
    """One line of the log."""

    at: float
    path: str
    kind: str
    rows: dict[str, int]


@dataclass(frozen=True, slots=True)
class PurgedText:
    """A piece of a purged text, by its keyed hash.

    The checksum selects the positions worth hashing. Its 16 bits are too few to reveal anything about the text.
    """

    digest: bytes
    length: int
    checksum: int
    deleted_before: float


def record(connection: Connection, path: str, kind: str, rows: Mapping[str, int], at: float) -> None:
    """Add a line to the log, within the caller's transaction if there is one."""
    counts = {table: count for table, count in rows.items() if count}
    insert_row(connection, "deletions", {"at": at, "path": path, "kind": kind, "rows": json.dumps(counts)})


def list_newest(connection: Connection, limit: int) -> list[Deletion]:
    """Return the newest lines of the log, newest first."""
    rows = fetch_dicts(connection, "select at, path, kind, rows from deletions order by id desc limit ?", limit)
    return [Deletion(**row | {"rows": json.loads(row["rows"])}) for row in rows]


def add_tombstones(connection: Connection, kind: str, names: Iterable[str], deleted_before: float) -> None:
    """Leave a tombstone for each session or project of these names, within the caller's transaction."""
    salt = _read_salt(connection)
    for name in names:
        digest = _compute_digest(salt, name)
        purged_name = PurgedText(digest, length=0, checksum=0, deleted_before=deleted_before)
        _insert_tombstone(connection, kind, salt, purged_name)


def add_text_tombstones(connection: Connection, pieces: Sequence[str], deleted_before: float) -> None:
    """Leave a tombstone for each piece of a text (`traces.split_into_pieces`), within the caller's transaction."""
    salt = _read_salt(connection)
    for piece in pieces:
        digest = _compute_digest(salt, piece)
        checksum = _compute_checksum(piece)
        _insert_tombstone(connection, TEXT, salt, PurgedText(digest, len(piece), checksum, deleted_before))


def _insert_tombstone(connection: Connection, kind: str, salt: bytes, tombstone: PurgedText) -> None:
    """Store a tombstone; an earlier one of the same name or text is widened."""
    row = {
        "kind": kind,
        "salt": salt,
        "hash": tombstone.digest,
        "length": tombstone.length,
        "checksum": tombstone.checksum,
        "before": tombstone.deleted_before,
    }
    # A session may be deleted twice; the later time covers more.
    clause = "on conflict (kind, hash) do update set before = max(before, excluded.before)"
    insert_row(connection, "tombstones", row, clause=clause)


def _read_salt(connection: Connection) -> bytes:
    """Return the salt of this database; all tombstones share it, so that a name is hashed only once per lookup."""
    return bytes(fetch_value(connection, "select salt from tombstones limit 1") or os.urandom(16))


def _compute_digest(salt: bytes, text: str) -> bytes:
    """Return the hash by which a name or text is recognised; without the salt it cannot be looked up in a list."""
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16, key=salt).digest()


def _compute_checksum(text: str) -> int:
    """Return a checksum that `_find_checksum` can compute for every part of a text at once."""
    total, power = 0, 1
    # The sum of code * base ** position, modulo 2 ** 16.
    for character in text:
        total = (total + ord(character) * power) & _CHECKSUM_MASK
        power = power * _CHECKSUM_BASE & _CHECKSUM_MASK
    return total


class Tombstones:
    """Tells whether a session, project or text was deleted."""

    def __init__(self, salt: bytes, names: Mapping[tuple[str, bytes], float], texts: Sequence[PurgedText]) -> None:
        self._salt = salt
        self._names = names
        self._texts = texts
        self._deleted_before: dict[tuple[str, str], float | None] = {}

    def __bool__(self) -> bool:
        return bool(self._names or self._texts)

    def covers(self, kind: str, name: str, at: float | None) -> bool:
        """Return whether a session or project of this name was deleted.

        `at` is when it was active: only a later deletion counts. None is unknown, and then any deletion does.
        """
        if not name or not self._names:
            return False
        if (kind, name) not in self._deleted_before:  # names repeat on every line of an import
            self._deleted_before[kind, name] = self._names.get((kind, _compute_digest(self._salt, name)))
        deleted_before = self._deleted_before[kind, name]
        if deleted_before is None:
            return False
        return at is None or at < deleted_before

    def covers_text(self, text: str, at: float | None) -> bool:
        """Return whether the text contains a text that was purged; `at` is when it was written, None is unknown.

        What was written after a purge stays: the purge was not about it. A text of unknown time does not stay.
        """
        tombstones = [tombstone for tombstone in self._texts if at is None or at < tombstone.deleted_before]
        if not tombstones:
            return False
        # In the form in which the pieces were hashed.
        normalized = traces.normalize_for_search(text)
        return any(self._is_in_text(normalized, tombstone) for tombstone in tombstones)

    def _is_in_text(self, normalized: str, tombstone: PurgedText) -> bool:
        """Return whether the purged text stands somewhere in a normalized text."""
        for start in _find_checksum(normalized, tombstone.length, tombstone.checksum):
            if _compute_digest(self._salt, normalized[start : start + tombstone.length]) == tombstone.digest:
                return True
        return False


def _find_checksum(text: str, length: int, checksum: int) -> list[int]:
    """Return the positions where a part of this length has this checksum, about one in 65,000 by chance."""
    import numpy  # takes a tenth of a second, and homes without purged texts do not need it

    if len(text) < length:
        return []
    codes = numpy.frombuffer(text.encode("utf-32-le", "replace"), dtype="<u4").astype(numpy.uint64)
    powers = numpy.full(len(codes), _CHECKSUM_BASE, dtype=numpy.uint64)
    powers[0] = 1
    powers = numpy.cumprod(powers)  # modulo 2 ** 64, and so modulo 2 ** 16 as well
    # sums[n] is the sum over the first n characters, so each difference is that over one part of this length.
    sums = numpy.concatenate([numpy.zeros(1, dtype=numpy.uint64), numpy.cumsum(codes * powers)])
    stretches = sums[length:] - sums[:-length]
    # A part that begins at n has powers that are larger by powers[n] than those in its checksum.
    expected = powers[: len(stretches)] * numpy.uint64(checksum)
    is_equal = (stretches & numpy.uint64(_CHECKSUM_MASK)) == (expected & numpy.uint64(_CHECKSUM_MASK))
    return [int(start) for start in numpy.flatnonzero(is_equal)]


def read_tombstones(connection: Connection) -> Tombstones:
    """Return the tombstones of this database as they are now."""
    names: dict[tuple[str, bytes], float] = {}
    texts: list[PurgedText] = []
    salt = b""
    for row in connection.execute("select kind, salt, hash, length, checksum, before from tombstones"):
        salt = bytes(row["salt"])
        if row["kind"] == TEXT:
            texts.append(PurgedText(bytes(row["hash"]), row["length"], row["checksum"], row["before"]))
        else:
            names[row["kind"], bytes(row["hash"])] = row["before"]
    return Tombstones(salt, names, texts)


def carry_over(connection: Connection, earlier_path: str) -> list[int]:
    """Copy the log, tombstones and rejections from the database that a restored backup replaced.

    Return the numbers of the restored sessions that had been deleted there. Nothing is copied from a damaged database.
    """
    with closing(open_read_only(earlier_path)) as source:
        try:
            tables = set(fetch_column(source, "select name from sqlite_master where type = 'table'"))
            carried = {}
            for table in _CARRIED_TABLES:
                if table in tables:
                    carried[table] = fetch_dicts(source, f"select * from {table}")
        except sqlite3.DatabaseError:
            return []
    with transaction(connection):
        for table, rows in carried.items():
            # Replace all tombstones: those of the old database are newer, and all must have the same salt.
            connection.execute(f"delete from {table}")
            for row in rows:
                insert_row(connection, table, row)
    tombstones = read_tombstones(connection)
    sessions = connection.execute("select id, session, last_at from sessions").fetchall()
    return [number for number, session, last_at in sessions if tombstones.covers(SESSION, session, last_at)]


def store_memory_traces(connection: Connection, where: str, values: tuple[object, ...] = ()) -> None:
    """Store a trace of the rejected memories that are about to be deleted; within the caller's transaction."""
    rows = connection.execute(f"select text, project from memories where status = 'rejected' and {where}", values)
    for text, project in rows.fetchall():
        _store_trace(connection, _MEMORY, text, project)


def store_candidate_trace(connection: Connection, signature: str) -> None:
    """Store a trace of a rejected candidate that is about to be deleted; within the caller's transaction."""
    _store_trace(connection, _CANDIDATE, signature, project="")


def _store_trace(connection: Connection, kind: str, text: str, project: str) -> None:
    """Store salted hashes of a rejected text, of which nothing can be read."""
    salt = os.urandom(8).hex()
    trace = fingerprint_text(text, salt)
    row = {
        "kind": kind,
        "salt": salt,
        "project": fingerprint_text(project, salt).normal_hash if project else "",
        "normal": trace.normal_hash,
        "words": "[]",
        "denied": "[]",
    }
    if kind == _MEMORY:  # only memories are also recognised in other words
        row["words"] = json.dumps(sorted(trace.word_hashes))
        row["denied"] = json.dumps(sorted(trace.negated_hashes))
    insert_row(connection, "rejections", row)


def is_rejected_memory(connection: Connection, text: str, project: str) -> bool:
    """Return whether a person rejected nearly this, in the project or everywhere, before it was purged."""
    rows = connection.execute("select salt, project, normal, words, denied from rejections where kind = ?", (_MEMORY,))
    for salt, project_hash, normal_hash, words_json, negated_json in rows.fetchall():
        if project_hash and fingerprint_text(project, salt).normal_hash != project_hash:
            continue  # rejected in another project
        rejected_memory = TextFingerprint(
            salt=salt,
            normal_hash=normal_hash,
            word_hashes=frozenset(json.loads(words_json)),
            negated_hashes=frozenset(json.loads(negated_json)),
        )
        if is_same_as_fingerprint(text, rejected_memory):
            return True
    return False


def is_rejected_candidate(connection: Connection, signature: str) -> bool:
    """Return whether a person rejected a candidate of this signature before it was purged."""
    rows = connection.execute("select salt, normal from rejections where kind = ?", (_CANDIDATE,))
    return any(fingerprint_text(signature, salt).normal_hash == normal_hash for salt, normal_hash in rows.fetchall())
