"""Import transcripts, exported records and rules from notes; restore backups; write notes for agents without hooks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hardwon import clock, paths, projects
from hardwon.actions import approvals
from hardwon.actions.approvals import Decider
from hardwon.actions.lessons import import_exported_lessons
from hardwon.agents.settings_files import read_text_file
from hardwon.data import backups, imports
from hardwon.data.backups import Backup
from hardwon.data.imports import NumberedRecord
from hardwon.errors import UserError
from hardwon.lessons import compiled_brief, manifest, notes_block
from hardwon.memories import memories
from hardwon.mining.transcript_reading import TranscriptFile
from hardwon.privacy.cleaning import clean_text
from hardwon.search.brief import MAX_FIELD
from hardwon.search.records import list_active_lessons
from hardwon.sessions.transcript_import import CAPTURE_PURPOSE, import_transcript
from hardwon.store import db, deletions, retention, sessions
from hardwon.store.db import Connection
from hardwon.store.transcripts import find_read_position
from hardwon.text.brief_layout import sanitize_line

_MEGABYTE = 1024 * 1024
_STORED_SHARE = 0.5  # of a transcript's bytes, index included; 0.37 on 94 MB of transcripts, before distilling
_ENDED_SECONDS = 86_400.0  # a session whose transcript was not written for a day counts as completed


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
        # An earlier import may have read part of the file.
        unread_bytes += max(0, file.unread_bytes - (position.offset if position else 0))
    free_bytes = max(0, max_megabytes * _MEGABYTE - retention.measure_used_bytes(connection))
    return unread_bytes * _STORED_SHARE / _MEGABYTE, free_bytes / _MEGABYTE


def import_transcripts(
    home: str,
    connection: Connection,
    files: Sequence[TranscriptFile],
    values: Mapping[str, Any],
    report_progress: Callable[[int], None],
) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Record the sessions in transcripts; return what was added and which files could not be read."""
    faults: list[tuple[str, str]] = []
    old_totals = retention.read_store_totals(connection)
    for file in files:
        try:
            import_transcript(home, connection, file.agent, file.path, values)
        except OSError as error:
            faults.append((file.path, error.strerror or str(error)))
        report_progress(file.unread_bytes)
    _complete_idle_sessions(connection, files)
    new_totals = retention.read_store_totals(connection)
    names = ("sessions", "prompts", "events")
    return {name: getattr(new_totals, name) - getattr(old_totals, name) for name in names}, faults


def _complete_idle_sessions(connection: Connection, files: Sequence[TranscriptFile]) -> None:
    """Close the sessions of imported files: history has no SessionEnd. One that is still open must not be closed."""
    idle_since = clock.now() - _ENDED_SECONDS
    ended_paths = {file.path for file in files if file.modified_at < idle_since}
    idle_sessions = sessions.list_idle_sessions(connection, idle_since)
    ended_sessions = [number for number, path in idle_sessions if os.path.realpath(path) in ended_paths]
    sessions.mark_completed(connection, ended_sessions)


def import_records(
    decider: Decider,
    numbered_records: Iterable[NumberedRecord],
    faults: list[tuple[int, str]],
    *,
    is_person: bool,
    restore_deleted: bool,
) -> ImportReport:
    """Import exported records; what a person imports as active is approved, what an agent imports is proposed."""
    outcome = imports.import_records(
        decider.connection, numbered_records, faults, is_approved=is_person, restore_deleted=restore_deleted
    )
    approvals.record_imported(decider, outcome.new_memory_keys, outcome.new_reflection_keys)
    lesson_count, refused = import_exported_lessons(decider, outcome.lesson_records, is_person=is_person)
    counts = {kind: count for kind, count in outcome.imported_counts.items() if count}
    if lesson_count:
        counts["lesson"] = lesson_count
    return ImportReport(counts, outcome.deleted, sorted([*outcome.faults, *refused]))


def restore_backup(home: str, chosen: Backup, *, restore_deleted: bool) -> tuple[Backup, int]:
    """Replace the home's data by a backup, with the worker stopped.

    Return a backup of the data before, and how many restored sessions stay deleted because they were deleted since.
    """
    previous_backup = backups.create_backup(home, clock.now())
    # The backup made just before is what `restore` falls back on if the disk fails half-way.
    backups.restore(home, chosen, previous_backup)
    compiled_brief.delete_all(home)
    deleted_sessions: list[int] = []
    with db.open(home) as connection:
        approvals.ensure_upgraded(home, connection, clock.now(), is_restored=True)
        previous_database = os.path.join(previous_backup.path, paths.DATABASE)
        # What was deleted since the backup stays deleted, unless the person asks for it.
        if not restore_deleted and os.path.exists(previous_database):
            deleted_sessions = deletions.carry_over(connection, previous_database)
        for number in deleted_sessions:
            sessions.delete(connection, number)
    manifest.build(home, clock.now())
    return previous_backup, len(deleted_sessions)


@dataclass(frozen=True, slots=True)
class ProposedRules:
    """The memories proposed from a file, and the lines that were refused with the reasons."""

    rule_count: int
    memory_ids: list[int]
    refused: list[tuple[int, str]]


def build_notes_block(
    connection: Connection, home: str, root: str, max_chars: int, *, only_here: bool
) -> tuple[str, int]:
    """Return the block of approved memories and lessons in force, and how many did not fit."""
    memory_lines = []
    for page in memories.list_approved_pages(connection, home, projects.find_project_path(root)):
        if page.project or not only_here:
            memory_lines.append(f"- {_clean_line(page.text)}")
    sections = (
        ("## What to know here", memory_lines),
        ("## Learned here the hard way", list(_list_lesson_lines(home, root, only_here))),
    )
    return notes_block.build_block(sections, max_chars)


def _list_lesson_lines(home: str, root: str, only_here: bool) -> Iterator[str]:
    """Yield each lesson, the summary on a line of its own because a brief recognises the lesson by it."""
    # A linked worktree and its main repository are one project.
    folders = projects.list_equivalent_folders(root)
    lessons = sorted(list_active_lessons(home), key=lambda lesson: (-lesson.priority, lesson.slug))
    for lesson in lessons:
        if lesson.needs_review or not projects.is_in_scope(lesson.project, folders):
            continue
        if lesson.project or not only_here:
            yield f"- {_clean_line(lesson.summary)}\n  Instead: {_clean_line(lesson.solution)} (lesson {lesson.slug})"


def _clean_line(text: str) -> str:
    return sanitize_line(clean_text(text), MAX_FIELD)


def replace_block(path: str, old_text: str, block: str) -> str:
    """Return the notes with this block in place of the old one; an empty block removes it."""
    try:
        return notes_block.insert_block(old_text, block) if block else notes_block.remove_block(old_text)
    except notes_block.MisplacedMarkers as error:
        raise UserError(f"{path}: {error}", "repair or delete them, then try again") from None


def propose_rules(connection: Connection, home: str, file: str, memory_type: str, now: float) -> ProposedRules:
    """Propose each rule in a file of notes as a memory."""
    project = projects.find_project_path(os.path.dirname(os.path.abspath(file)))
    try:
        rules = list(notes_block.find_rules(read_text_file(file)))
    except notes_block.MisplacedMarkers as error:
        raise UserError(f"{file}: {error}", "repair or delete them, then try again") from None
    proposed = ProposedRules(len(rules), memory_ids=[], refused=[])
    for rule in rules:
        evidence = [f"{os.path.basename(file)}:{rule.line_number}"]
        try:
            memory = memories.propose(
                connection, home, memory_type, rule.text, project=project, source="notes", evidence=evidence, now=now
            )
            proposed.memory_ids.append(memory.id)
        except UserError as error:
            proposed.refused.append((rule.line_number, error.message))
    return proposed
