"""Find what a purge deletes or reports in files: the agents' transcripts, and files that no person approved.

The latter are drafts of handoffs, the raw logs of how they were made, and queued memories; they are deleted whole.
"""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import islice

from hardwon import clock, paths, settings
from hardwon.agents import transcript_files
from hardwon.handoff import memory_queue
from hardwon.handoff.reflection import DRAFT_SUFFIX, DRAFTS_FOLDER, LOGS_FOLDER
from hardwon.mining.scan import find_changed_transcripts, find_transcript_folders
from hardwon.sessions import text_search
from hardwon.store import db, purge
from hardwon.store.purge import PurgeTarget
from hardwon.store.reflections import RATIFIED
from hardwon.text import traces
from hardwon.text.traces import SearchPiece

DRAFT_FILES, LOG_FILES, QUEUE_FILES = "drafts", "logs", "queues"
_FRONT_LINES = 40  # lines in which a draft says whose it is


@dataclass(frozen=True, slots=True)
class PurgeScope:
    """What a purge deletes, and what is searched for in files: pieces of a text, an id, or a path."""

    target: PurgeTarget
    text_pieces: tuple[SearchPiece, ...]
    sessions: frozenset[str]
    unapproved_files: Mapping[str, tuple[str, ...]]  # files that go whole, by kind
    ratified_pages: tuple[str, ...]  # pages of what goes that a person approved
    transcripts: tuple[tuple[str, str], ...]  # path and host of those that still hold it
    dry_run: bool


def find_purge_scope(home: str, connection: db.Connection, target: PurgeTarget, *, dry_run: bool) -> PurgeScope:
    exact = traces.build_exact_pieces(target.session or target.project) if target.older_than is None else ()
    pieces: tuple[SearchPiece, ...] = target.text_pieces or exact
    sessions = frozenset(purge.find_target_sessions(connection, target))
    return PurgeScope(
        target,
        pieces,
        sessions,
        _find_unapproved(home, connection, target, pieces, sessions),
        tuple(page for page, _, status in purge.find_target_reflections(connection, target) if status == RATIFIED),
        tuple(_find_transcripts(connection, target, pieces)),
        dry_run,
    )


def _find_transcripts(
    connection: db.Connection, target: PurgeTarget, pieces: tuple[SearchPiece, ...]
) -> Iterator[tuple[str, str]]:
    """Yield the transcripts that contain the target, with their agents: for a text any, else those of its sessions."""
    if target.text_pieces:
        values = settings.resolve_settings(settings.read_config(paths.get_home()))
        folders = find_transcript_folders(os.environ, os.path.expanduser("~"), values["scanPaths"])
        for file in find_changed_transcripts(folders, {}):
            if text_search.has_piece_in_file(file.path, pieces):
                yield file.path, file.agent
        return
    for path in sorted(purge.find_target_transcripts(connection, target)):
        subagent_paths = glob.glob(
            os.path.join(glob.escape(path.removesuffix(".jsonl")), "**", "*.jsonl"), recursive=True
        )
        for transcript in (
            path,
            *(
                transcript_files.list_subagent_transcripts(path)
                if transcript_files.is_database_session(path)
                else sorted(subagent_paths)
            ),
        ):
            if transcript_files.exists(transcript) and (host := transcript_files.detect_agent(transcript)):
                yield transcript, host


def _find_unapproved(
    home: str, connection: db.Connection, target: PurgeTarget, pieces: Sequence[SearchPiece], sessions: Set[str]
) -> Mapping[str, tuple[str, ...]]:
    """Return the files to delete, by kind; called before the database forgets where it wrote them."""
    reflection_rows = purge.find_target_reflections(connection, target)
    pages = {page for page, _, _ in reflection_rows if is_draft(page)}
    drafts = {*pages, *filter(is_draft, text_search.list_files_below(os.path.join(home, DRAFTS_FOLDER)))}
    log_names = {os.path.basename(log) for _, log, _ in reflection_rows}
    logs = list(text_search.list_files_below(os.path.join(home, LOGS_FOLDER)))
    if target.text_pieces:
        queue_files = text_search.list_files_below(memory_queue.get_queue_folder())
        files_by_kind = {DRAFT_FILES: sorted(drafts), LOG_FILES: logs, QUEUE_FILES: list(queue_files)}
        return {
            kind: tuple(item for item in files if text_search.has_piece_in_file(item, pieces))
            for kind, files in files_by_kind.items()
        }
    return {
        DRAFT_FILES: tuple(
            item for item in sorted(drafts) if item in pages or is_draft_of(item, sessions) or _is_old(item, target)
        ),
        LOG_FILES: tuple(
            item
            for item in logs
            if os.path.basename(item) in log_names
            or _is_old(item, target)
            or (pieces and text_search.has_piece_in_file(item, pieces))
        ),
        QUEUE_FILES: tuple(
            sorted(
                {
                    item.path
                    for item in memory_queue.read_queue(memory_queue.get_queue_folder())
                    if _is_queued_for(item, target, sessions)
                }
            )
        ),
    }


def is_draft(path: str) -> bool:
    """Return whether this is a draft that no person has approved."""
    return path.endswith(DRAFT_SUFFIX) and os.path.isfile(path) and not os.path.islink(path)


def is_draft_of(draft: str, sessions: Set[str]) -> bool:
    """Return whether a draft names one of these sessions as its own."""
    with open(draft, encoding="utf-8", errors="replace", opener=paths.open_plain_file) as file:
        session_line = next((line for line in islice(file, _FRONT_LINES) if line.startswith("session: ")), "")
    try:
        return json.loads(session_line.partition(": ")[2] or '""') in sessions
    except (ValueError, TypeError):
        return False


def _is_old(path: str, target: PurgeTarget) -> bool:
    return target.older_than is not None and os.path.getmtime(path) < target.older_than


def _is_queued_for(statement: memory_queue.QueuedStatement, target: PurgeTarget, sessions: Set[str]) -> bool:
    if target.older_than is not None:
        return "" < statement.at < clock.format_iso(target.older_than)
    return statement.session in sessions or (target.project != "" and statement.project == target.project)
