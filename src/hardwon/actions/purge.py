"""Delete a text, session, project or period wherever hardwon keeps it, then search for what remains.

Files that a person approved, and agents' transcripts, are reported and left alone.
"""

from __future__ import annotations

import glob
import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from hardwon import claims, clock, paths, projects, settings
from hardwon.actions import approvals
from hardwon.agents import transcript_files
from hardwon.agents.opencode import database
from hardwon.data import backups, exports
from hardwon.errors import UserError
from hardwon.handoff import memory_queue
from hardwon.handoff.reflection import DRAFT_SUFFIX, DRAFTS_FOLDER, LOGS_FOLDER
from hardwon.lessons import compiled_brief, session_replies
from hardwon.mining import proposals, scan
from hardwon.sessions import transcript_import
from hardwon.store import db, purge, transcripts
from hardwon.store.purge import PurgeTarget
from hardwon.store.reflections import RATIFIED
from hardwon.text.traces import (
    MIN_SEARCH_LENGTH,
    SearchPiece,
    build_byte_hints,
    build_exact_pieces,
    has_any_piece,
    split_into_pieces,
)
from hardwon.types import MINED_TIER, TAG_TIER

ACROSS_LINES = [0]  # in place of line numbers, for a text that begins in one line and ends in another
_FRONT_LINES = 40  # lines in which a draft names its session
_BLOCK_BYTES = 8 * 1024 * 1024  # of a file, read at a time
_OVERLAP_BYTES = 64 * 1024  # of two blocks, so that a text across their border is found
# A year is 365 days: for deleting old data nobody counts leap days.
_UNIT_SECONDS = {"h": 3600.0, "d": 86_400.0, "w": 7 * 86_400.0, "y": 365 * 86_400.0}
_APPROVED_FILES = (
    paths.LESSONS,
    paths.CONFIG,
    paths.TRUSTED_PROJECTS,
    paths.INSTALL_LEDGER,
    paths.PAUSES,
    "memory/*.md",
    "drafts/*.md",
)
_APPROVED_PROJECT_FILES = (".hardwon/lessons.json", ".claude/memory/*.md", "docs/sessions/*.md")


@dataclass(frozen=True, slots=True)
class PurgeReport:
    """The counts of what a purge removed, or would remove, and the files that still contain the target."""

    removed: Mapping[str, Mapping[str, int]]  # counts by location
    approved: Mapping[str, list[int]]  # a person's files and the lines that hold it, or ACROSS_LINES
    transcripts: list[str]
    remaining: list[str]


@dataclass(frozen=True, slots=True)
class _Scope:
    """What one purge is about, and how its traces in files are recognised."""

    home: str
    target: PurgeTarget
    pieces: tuple[SearchPiece, ...]  # pieces of a text, an id or a path; none for a period
    sessions: frozenset[str]
    dry_run: bool

    def matches(self, path: str) -> bool:
        """Return whether a file holds the text, id or path, or is older than the period's end."""
        # A period has no words to search for: files count by their age.
        if self.target.older_than is not None:
            return os.path.getmtime(path) < self.target.older_than
        return _has_piece_in_file(path, self.pieces)

    def owns_draft(self, path: str) -> bool:
        """Return whether an unratified draft says that it is of one of the sessions that go."""
        if not self.sessions or not _is_draft(path):
            return False
        with open(path, encoding="utf-8", errors="replace", opener=paths.open_plain_file) as file:
            front_lines = {line.rstrip("\n") for line in islice(file, _FRONT_LINES)}
        return any(f"session: {json.dumps(session)}" in front_lines for session in self.sessions)

    def find_matches(self, folder: str) -> list[str]:
        return [path for path in _list_files_below(folder) if self.matches(path)]


class _Transcript(NamedTuple):
    path: str
    agent: str


def parse_target(
    connection: db.Connection, text: str | None, session: str | None, project: str | None, older_than: str | None
) -> PurgeTarget:
    """Return the target that one of the four options names."""
    if text is not None:
        pieces = split_into_pieces(text)
        if not pieces:
            raise UserError(f"the text has fewer than {MIN_SEARCH_LENGTH} letters and digits", "give more of it")
        return PurgeTarget(text_pieces=pieces)
    if session is not None:
        session_ids = purge.find_session_ids(connection, session) if session else []
        if not session_ids:
            raise UserError(f"there is no session {session!r}", "hardwon sessions list")
        if len(session_ids) > 1:
            raise UserError(f"{session!r} could be {', '.join(session_ids[:5])}", "write more of it")
        return PurgeTarget(session=session_ids[0])
    if project is not None:
        folder = projects.find_project_path(os.path.abspath(os.path.expanduser(project)))
        return PurgeTarget(project=exports.resolve_project_name(connection, project, folder))
    return PurgeTarget(older_than=clock.now() - _parse_period(str(older_than)))


def _parse_period(period: str) -> float:
    """Return a period such as `30d` in seconds; UserError if it is not one."""
    number = period[:-1]
    unit = period[-1:]
    # `isdigit` alone accepts digits of other scripts, and a huge number overflows a date.
    if not (number.isascii() and number.isdigit() and len(number) <= 6 and unit in _UNIT_SECONDS):
        raise UserError(f"--older-than {period!r} is not a period", "write it as 30d, 12h, 4w or 1y")
    return int(number) * _UNIT_SECONDS[unit]


def purge_everywhere(home: str, connection: db.Connection, target: PurgeTarget, *, dry_run: bool) -> PurgeReport:
    """Delete the target from the database, the backups and every file of the home; with a dry run only count."""
    pieces: tuple[SearchPiece, ...] = target.text_pieces
    # For a period there is nothing to search: files count by their time.
    if not pieces and target.older_than is None:
        pieces = build_exact_pieces(target.session or target.project)
    sessions = frozenset(purge.find_target_sessions(connection, target))
    scope = _Scope(home, target, pieces, sessions, dry_run)
    # All of this is found first, because the database forgets which file belongs to which session.
    held_transcripts = list(_find_transcripts(connection, scope))
    files = _find_unapproved_files(connection, scope)
    approved = _find_approved_files(connection, scope, files["drafts"])

    removed = {"database": _purge_database(connection, scope, held_transcripts)}
    for location, file_paths in files.items():
        removed[location] = Counter(files=len(file_paths))
        if dry_run:
            continue
        for path in file_paths:
            with suppress(OSError):  # a draft may lie in a read-only repository; it is reported as remaining
                os.unlink(path)
    # The logs of reflections went whole; from the worker's and the hooks' logs single lines go.
    removed["logs"] += _purge_log_lines(scope)
    removed.update(_purge_backups(scope, {os.path.basename(path) for path in files["drafts"]}))
    remaining: list[str] = []
    if not dry_run:
        _remove_derived_files(scope)
        # Asked of the disk and not of the steps above, so that the report is true whatever failed.
        undeleted = [path for file_paths in files.values() for path in file_paths if os.path.exists(path)]
        remaining = list(dict.fromkeys([*undeleted, *_find_remaining(scope, approved)]))
    return PurgeReport(
        {location: dict(+counts) for location, counts in removed.items() if +counts},
        approved,
        [transcript.path for transcript in held_transcripts],
        remaining,
    )


def _remove_derived_files(scope: _Scope) -> None:
    """Remove the sessions' claims and half-written files, and compile anew without the target what is compiled."""
    for folder in _list_claim_folders(scope):
        shutil.rmtree(folder, ignore_errors=True)
    remove_unfinished_files(scope.home)
    compiled_brief.delete_all(scope.home)  # the next one is made from what is left in the database
    with suppress(UserError):  # lessons.json is broken, so the manifest built before stays in force
        approvals.compile_manifest(scope.home, clock.now())


def _find_transcripts(connection: db.Connection, scope: _Scope) -> Iterator[_Transcript]:
    """Yield each transcript that holds a text, or belongs to the session or project."""
    if scope.target.text_pieces:
        values = settings.load_settings(scope.home)
        folders = scan.find_transcript_folders(os.environ, os.path.expanduser("~"), values["scanPaths"])
        for file in scan.find_changed_transcripts(folders, read_positions={}):
            if scope.matches(file.path):
                yield _Transcript(file.path, file.agent)
        return
    for path in sorted(purge.find_target_transcripts(connection, scope.target)):
        if transcript_files.is_database_session(path):
            # Sub-agents work on what the session was about, so their transcripts hold it too.
            subagent_paths = list(transcript_files.list_subagent_transcripts(path))
        else:
            pattern = os.path.join(glob.escape(path.removesuffix(".jsonl")), "**", "*.jsonl")
            subagent_paths = sorted(glob.glob(pattern, recursive=True))
        for transcript_path in (path, *subagent_paths):
            if transcript_files.exists(transcript_path) and (agent := transcript_files.detect_agent(transcript_path)):
                yield _Transcript(transcript_path, agent)


def _find_unapproved_files(connection: db.Connection, scope: _Scope) -> dict[str, list[str]]:
    """Return the files to delete whole, by location."""
    is_text = bool(scope.target.text_pieces)
    is_period = scope.target.older_than is not None
    reflections = purge.find_target_reflections(connection, scope.target)
    reflected_drafts = {reflection.page for reflection in reflections if _is_draft(reflection.page)}
    drafts_folder = os.path.join(scope.home, DRAFTS_FOLDER)
    # A draft may lie in a repository, where only its row tells of it, or in the home without a row.
    drafts = reflected_drafts | set(filter(_is_draft, _list_files_below(drafts_folder)))
    # For a text, every reflection is listed, whether or not its files hold the text.
    log_names = set() if is_text else {os.path.basename(reflection.log) for reflection in reflections}
    queue_folder = memory_queue.get_queue_folder()
    # Other tools may put files into the queue folder; those that can be read as statements are hardwon's.
    queued_files = {statement.path for statement in memory_queue.read_queue(queue_folder)}

    def is_doomed_draft(path: str) -> bool:
        if is_text:
            return scope.matches(path)
        # A draft of another session may mention this one, so a session's drafts are known by their rows and heads.
        if path in reflected_drafts or scope.owns_draft(path):
            return True
        return is_period and scope.matches(path)

    if is_text:
        claim_files = scope.find_matches(os.path.join(scope.home, "claims"))
        queue_files = scope.find_matches(queue_folder)
    else:
        claim_files = list(_list_files_below(*_list_claim_folders(scope)))
        queue_files = [path for path in sorted(queued_files) if scope.matches(path)]
    reflection_logs = _list_files_below(os.path.join(scope.home, LOGS_FOLDER))
    return {
        "spool": scope.find_matches(os.path.join(scope.home, "spool")),
        "claims": claim_files,
        "logs": [path for path in reflection_logs if os.path.basename(path) in log_names or scope.matches(path)],
        "drafts": [path for path in sorted(drafts) if is_doomed_draft(path)],
        "queues": queue_files,
    }


def _list_claim_folders(scope: _Scope) -> list[str]:
    """Return the sessions' claim folders, except the one that says which part of a session was paused.

    That one keeps later imports away from the paused part of the transcript.
    """
    folders = []
    for session in scope.sessions:
        folders += [
            claims.get_claim_folder(scope.home, session),
            claims.get_claim_folder(scope.home, session, claims.PRIVATE_PREFIX),
            claims.get_claim_folder(scope.home, session, claims.HARDWON_TURN_PREFIX),
            claims.get_claim_folder(scope.home, session_replies.DUPLICATE_PREFIX + session),
        ]
    return folders


def _is_draft(path: str) -> bool:
    return path.endswith(DRAFT_SUFFIX) and os.path.isfile(path) and not os.path.islink(path)


def _find_approved_files(connection: db.Connection, scope: _Scope, drafts: list[str]) -> dict[str, list[int]]:
    """Return a person's files that hold the target, each with the lines."""
    if not scope.pieces:
        return {}
    file_paths: list[str] = []
    for pattern in _APPROVED_FILES:
        file_paths += glob.glob(os.path.join(glob.escape(scope.home), pattern))
    for reflection in purge.find_target_reflections(connection, scope.target):
        if reflection.status == RATIFIED:
            file_paths.append(reflection.page)
    if scope.target.text_pieces:
        for project in exports.list_project_paths(connection):
            for pattern in _APPROVED_PROJECT_FILES:
                file_paths += glob.glob(os.path.join(glob.escape(project), pattern))
    else:
        # A text is removed from backups too; approved files of a session or project stay there.
        draft_names = {os.path.basename(path) for path in drafts}
        for path in _list_files_below(os.path.join(scope.home, backups.BACKUPS_FOLDER)):
            name = os.path.basename(path)
            if paths.DATABASE not in name and name not in draft_names and not scope.owns_draft(path):
                file_paths.append(path)
    approved = {}
    for path in dict.fromkeys(file_paths):
        if os.path.isfile(path) and path not in drafts and scope.matches(path):
            approved[path] = _find_matching_lines(path, scope.pieces)
    return approved


def _purge_database(connection: db.Connection, scope: _Scope, held_transcripts: list[_Transcript]) -> Counter[str]:
    """Delete the target from the database and from its free pages; return the counts of rows by table."""
    if scope.dry_run:
        return purge.preview_purge(connection, scope.target)
    end_positions = list(_find_end_positions(connection, scope, held_transcripts))
    removed = purge.purge_target(connection, scope.target, end_positions, clock.now())
    # Candidates that lost episodes are weighed again by those that are left.
    values = settings.load_settings(scope.home)
    proposals.refresh_candidates(connection, values, tiers=(TAG_TIER, MINED_TIER), now=clock.now())
    # While another process reads, the old pages stay in the write-ahead log.
    if not purge.erase_deleted_pages(connection):
        raise UserError("another program has the database open", "close it, then purge again")
    return removed


def _find_end_positions(
    connection: db.Connection, scope: _Scope, held_transcripts: list[_Transcript]
) -> Iterator[purge.EndPosition]:
    """Yield each transcript as read to its end, so that neither a scan nor an import brings the target back."""
    for path, agent in held_transcripts:
        if scope.target.text_pieces and has_any_piece(path, scope.pieces):
            continue  # the read position itself would hold the text
        for purpose in (transcripts.SCAN_PURPOSE, transcript_import.CAPTURE_PURPOSE):
            read_position = transcripts.find_read_position(connection, path, purpose)
            with transcript_files.open_transcript(path, read_position) as transcript:
                position = transcript.position
                # Only reading tells where the last whole line ends.
                for _, next_position in transcript.portions:
                    position = next_position
            yield purge.EndPosition(purpose, path, agent, position)


def _purge_log_lines(scope: _Scope) -> Counter[str]:
    """Remove matching lines from the logs; delete a log that still has the text, because it spans lines."""
    oldest_kept_time = clock.format_iso(scope.target.older_than or 0.0)

    def should_remove(line: str) -> bool:
        if scope.pieces:
            return has_any_piece(line, scope.pieces)
        # Lines begin with their time, which sorts as text; a line that continues another has none.
        time_text, _, _ = line.partition(" ")
        begins_with_year = line[:4].isdigit()
        return begins_with_year and time_text < oldest_kept_time

    removed = Counter[str]()
    reflection_logs_prefix = os.path.join(scope.home, LOGS_FOLDER, "")  # with a slash at its end
    for path in _list_files_below(os.path.join(scope.home, os.path.dirname(paths.WORKER_LOG))):
        if path.startswith(reflection_logs_prefix):
            continue  # the logs of reflections are deleted whole, as files that match
        with open(path, encoding="utf-8", errors="replace", newline="", opener=paths.open_plain_file) as file:
            lines = file.readlines()
        remaining_lines = [line for line in lines if not should_remove(line)]
        removed["lines"] += len(lines) - len(remaining_lines)
        if scope.dry_run:
            continue
        if len(remaining_lines) < len(lines):
            paths.write_private(path, "".join(remaining_lines).encode("utf-8", "replace"))
        # The text may continue on the next line, as in a traceback: then no single line has it, but the file does.
        if scope.pieces and scope.matches(path):
            removed["files"] += 1
            os.unlink(path)
    return removed


def _purge_backups(scope: _Scope, draft_names: set[str]) -> dict[str, Counter[str]]:
    """Purge each backup, and for a text the copies of agents' settings that lie beside them."""
    removed: dict[str, Counter[str]] = {}
    existing_backups = backups.list_backups(scope.home)
    for backup in existing_backups:
        removed[f"backups/{backup.name}"] = _purge_backup(backup, scope, draft_names)
    if scope.target.text_pieces:
        # Copies of agents' settings files lie in the same folder.
        backup_prefixes = tuple(backup.path + os.sep for backup in existing_backups)
        for path in _list_files_below(os.path.join(scope.home, backups.BACKUPS_FOLDER)):
            if not path.startswith(backup_prefixes) and scope.matches(path):
                removed[os.path.relpath(path, scope.home)] = Counter(files=1)
                if not scope.dry_run:
                    os.unlink(path)
    return removed


def _purge_backup(backup: backups.Backup, scope: _Scope, draft_names: set[str]) -> Counter[str]:
    """Purge the database and the files of a backup; one that cannot be opened goes whole."""
    removed = Counter[str]()
    try:
        if backup.schema is None:
            raise UserError("the backup cannot be opened")
        if backup.schema:
            database_path = os.path.join(backup.path, paths.DATABASE)
            with closing(purge.open_backup(database_path, dry_run=scope.dry_run)) as connection:
                if scope.dry_run:
                    removed = purge.preview_purge(connection, scope.target)
                else:
                    removed = purge.purge_target(connection, scope.target, end_positions=(), at=clock.now())
                    purge.erase_deleted_pages(connection)
    # Nobody can tell what such a backup holds, so it goes whole.
    except (db.StoreError, UserError):
        if not scope.dry_run:
            shutil.rmtree(backup.path)
        return Counter({"whole backups that cannot be opened": 1})
    copied_files = backups.list_copied_files(backup.path)
    for path in _list_files_below(backup.path):
        if os.path.relpath(path, backup.path) not in copied_files:
            continue
        if scope.target.text_pieces:
            is_doomed = scope.matches(path)
        else:
            is_doomed = os.path.basename(path) in draft_names or scope.owns_draft(path)
        if is_doomed:
            removed[os.path.basename(path)] += 1
            if not scope.dry_run:
                _purge_backup_file(path, scope)
    return removed


def _purge_backup_file(path: str, scope: _Scope) -> None:
    """Remove the lessons that hold the text from a copy of lessons.json; any other file goes whole."""
    if os.path.basename(path) == paths.LESSONS:
        with open(path, "rb", opener=paths.open_plain_file) as file:
            content = file.read()
        remaining_content = backups.remove_matching_lessons(content, lambda text: has_any_piece(text, scope.pieces))
        if remaining_content is not None and not has_any_piece(remaining_content.decode(), scope.pieces):
            paths.write_private(path, remaining_content)
            return
    os.unlink(path)


def _find_remaining(scope: _Scope, approved: Mapping[str, list[int]]) -> list[str]:
    """Return the home's files that still hold the target, other than approved files and what is built from them."""
    if not scope.pieces:
        return []
    exempt_files = set(approved)
    if any(os.path.join(scope.home, name) in approved for name in (paths.LESSONS, paths.CONFIG)):
        exempt_files |= {os.path.join(scope.home, name) for name in (paths.MANIFEST, paths.LESSON_INDEX)}
    # Read positions and tombstones in a database name the session or project, so that nothing brings it back.
    skips_databases = not scope.target.text_pieces
    remaining = []
    for path in scope.find_matches(scope.home):
        is_skipped_database = skips_databases and os.path.basename(path) == paths.DATABASE
        if path not in exempt_files and not is_skipped_database:
            remaining.append(path)
    return remaining


def _list_files_below(*roots: str) -> Iterator[str]:
    """Yield every file at or below these paths; links are not followed."""
    for root in roots:
        if os.path.isfile(root) and not os.path.islink(root):
            yield root
        for folder, folder_names, file_names in os.walk(root):
            folder_names.sort()
            for file_name in sorted(file_names):
                path = os.path.join(folder, file_name)
                if os.path.isfile(path) and not os.path.islink(path):
                    yield path


def remove_unfinished_files(home: str) -> None:
    """Remove incomplete files and backups of processes that have ended, whatever is in them."""
    for folder, folder_names, file_names in os.walk(home):
        for name in [*folder_names, *file_names]:
            path = os.path.join(folder, name)
            _, _, number = name.removesuffix(".new").rpartition(".")
            # A file NAME.PID.new is being written by the process PID; a living one will rename it.
            if not name.endswith(".new") or not number.isdecimal() or _is_alive(int(number[:10])):
                continue
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path, ignore_errors=True)
            else:
                with suppress(FileNotFoundError):
                    os.unlink(path)


def _is_alive(process_id: int) -> bool:
    """Return whether another process with this id runs."""
    try:
        os.kill(process_id, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # somebody else's
        return True
    return process_id != os.getpid()


def _has_piece_in_file(path: str, pieces: Sequence[SearchPiece]) -> bool:
    """Return whether the file or its name holds a piece; one that cannot be read does not."""
    if has_any_piece(os.path.basename(path), pieces):
        return True
    byte_hints = build_byte_hints(pieces)
    window = b""
    try:
        for block in _read_blocks(path):
            window += block
            # Searching the bytes first is a hundred times as fast, and most files hold no word of the text.
            is_possible = not byte_hints or any(map(window.lower().__contains__, byte_hints))
            if is_possible and has_any_piece(window.decode("utf-8", "replace"), pieces):
                return True
            # A text may lie across the border of two blocks.
            window = window[-_OVERLAP_BYTES:]
    except OSError:
        return False
    return False


def _read_blocks(path: str) -> Iterator[bytes]:
    """Yield the content of a file, or of a session in a database."""
    if database.split_session_path(path):
        yield from (line.text for line in database.read_messages(path))
        return
    with open(path, "rb", opener=paths.open_plain_file) as file:
        while block := file.read(_BLOCK_BYTES):
            yield block


def _find_matching_lines(path: str, pieces: Sequence[SearchPiece]) -> list[int]:
    """Return the numbers of the lines that hold a piece; ACROSS_LINES if none does alone."""
    line_numbers = []
    with open(path, encoding="utf-8", errors="replace", opener=paths.open_plain_file) as file:
        for number, line in enumerate(file, 1):
            if has_any_piece(line, pieces):
                line_numbers.append(number)
    return line_numbers or ACROSS_LINES
