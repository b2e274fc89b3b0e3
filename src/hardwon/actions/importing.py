"""Importing transcripts and exported records, and restoring backups."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from hardwon import clock, paths
from hardwon.actions import approvals
from hardwon.actions.lessons import import_exported_lessons
from hardwon.data import backups, imports
from hardwon.data.backups import Backup
from hardwon.data.imports import NumberedRecord
from hardwon.lessons import compiled_brief, manifest
from hardwon.mining.scan import TranscriptFile
from hardwon.sessions.transcript_import import CAPTURE_PURPOSE, import_transcript
from hardwon.store import db, deletions, retention, sessions
from hardwon.store.db import Connection
from hardwon.store.transcripts import find_read_position

MEGABYTE = 1024 * 1024
STORED_SHARE = 0.5  # of a transcript's bytes, index included; 0.37 on 94 MB of transcripts, before distilling
ENDED_SECONDS = 86_400.0  # a session whose transcript was not written for a day counts as completed


@dataclass(frozen=True, slots=True)
class ImportReport:
    """The records that an import added, the number of deleted ones it left out, and the faults by line."""

    counts: dict[str, int]
    deleted: int
    faults: list[tuple[int, str]]


def measure_import_megabytes(
    connection: Connection, files: Sequence[TranscriptFile], max_megabytes: int
) -> tuple[float, float]:
    """Return the megabytes that importing transcripts needs, and those that are free."""
    unread_bytes = 0
    for file in files:
        position = find_read_position(connection, os.path.realpath(file.path), CAPTURE_PURPOSE)
        unread_bytes += max(0, file.unread_bytes - (position.offset if position else 0))
    free_bytes = max(0, max_megabytes * MEGABYTE - retention.measure_used_bytes(connection))
    return unread_bytes * STORED_SHARE / MEGABYTE, free_bytes / MEGABYTE


def import_transcripts(
    home: str,
    connection: Connection,
    files: Sequence[TranscriptFile],
    values: Mapping[str, Any],
    report_progress: Callable[[int], None],
) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Record the sessions in transcripts; return what was added and which files could not be read."""
    faults: list[tuple[str, str]] = []
    old_counts = sessions.count_recorded(connection)
    for file in files:
        try:
            import_transcript(home, connection, file.agent, file.path, values)
        except OSError as error:
            faults.append((file.path, error.strerror or str(error)))
        report_progress(file.unread_bytes)
    # History has no SessionEnd, and a session that is still open must not be closed.
    idle_since = clock.now() - ENDED_SECONDS
    ended_paths = {file.path for file in files if file.modified_at < idle_since}
    idle_sessions = sessions.list_idle_sessions(connection, idle_since)
    ended_sessions = [number for number, path in idle_sessions if os.path.realpath(path) in ended_paths]
    sessions.mark_completed(connection, ended_sessions)
    new_counts = sessions.count_recorded(connection)
    return {name: new_counts[name] - old_counts[name] for name in new_counts}, faults


def import_records(
    home: str,
    connection: Connection,
    numbered_records: Iterable[NumberedRecord],
    faults: list[tuple[int, str]],
    path: str,
    *,
    is_person: bool,
    restore_deleted: bool,
) -> ImportReport:
    """Import exported records; what a person imports as active is approved, what an agent imports is proposed."""
    now = clock.now()
    approvals.ensure_upgraded(home, connection, now)
    outcome = imports.import_records(
        connection, numbered_records, faults, is_approved=is_person, restore_deleted=restore_deleted
    )
    approvals.record_imported(connection, outcome.new_memory_keys, outcome.new_reflection_keys, path, now)
    lesson_count, refused = import_exported_lessons(home, connection, outcome.lesson_records, path, is_person=is_person)
    counts = {kind: count for kind, count in outcome.imported_counts.items() if count}
    if lesson_count:
        counts["lesson"] = lesson_count
    return ImportReport(counts, outcome.deleted, sorted([*outcome.faults, *refused]))


def restore_backup(home: str, chosen: Backup, *, restore_deleted: bool) -> tuple[Backup, int]:
    """Replace the home's data by a backup, with the worker stopped.

    Return a backup of the data before, and how many restored sessions stay deleted because they were deleted since.
    """
    previous_backup = backups.create_backup(home, clock.now())
    backups.restore(home, chosen, previous_backup)
    compiled_brief.delete_all(home)
    deleted_sessions: list[int] = []
    with closing(db.connect(home)) as connection:
        approvals.ensure_upgraded(home, connection, clock.now(), is_restored=True)
        previous_database = os.path.join(previous_backup.path, paths.DATABASE)
        # What was deleted since the backup stays deleted, unless the person asks for it.
        if not restore_deleted and os.path.exists(previous_database):
            deleted_sessions = deletions.carry_over(connection, previous_database)
        for number in deleted_sessions:
            sessions.delete(connection, number)
    manifest.build(home, clock.now())
    return previous_backup, len(deleted_sessions)
