"""What a purge is after, in which files: the agents' transcripts, and what was written and no person approved.

That is drafts of handoffs, the raw logs of how they were made, and queued memories. They go whole.
"""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import islice

from hardwon import clock, paths, settings
from hardwon.agents import transcript_files
from hardwon.handoff import memory_queue
from hardwon.handoff.reflection import DRAFT_SUFFIX, DRAFTS_FOLDER, LOGS_FOLDER
from hardwon.mining import scan as mining
from hardwon.sessions import text_search
from hardwon.store import db
from hardwon.store import purge as cutting
from hardwon.store.purge import PurgeTarget
from hardwon.store.reflections import RATIFIED
from hardwon.text import traces
from hardwon.text.traces import SearchPiece
from hardwon.types import frozen

DRAFT_FILES, LOG_FILES, QUEUE_FILES = "drafts", "logs", "queues"
_FRONT = 40  # lines in which a draft says whose it is


@frozen
class PurgeScope:
    """What goes, and what of it is looked for in files: pieces of a text, an id, or a path."""

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
    sessions = frozenset(cutting.find_target_sessions(connection, target))
    return PurgeScope(
        target,
        pieces,
        sessions,
        _unapproved(home, connection, target, pieces, sessions),
        tuple(page for page, _, status in cutting.find_target_reflections(connection, target) if status == RATIFIED),
        tuple(_transcripts(connection, target, pieces)),
        dry_run,
    )


def _transcripts(
    connection: db.Connection, aim: PurgeTarget, pieces: tuple[SearchPiece, ...]
) -> Iterator[tuple[str, str]]:
    """The agents' transcripts that hold it, with their hosts: for a text wherever they are, else those that belong."""
    if aim.text_pieces:
        values = settings.resolve_settings(settings.read_config(paths.get_home()))
        folders = mining.find_transcript_folders(os.environ, os.path.expanduser("~"), values["scanPaths"])
        for file in mining.find_changed_transcripts(folders, {}):
            if text_search.has_piece_in_file(file.path, pieces):
                yield file.path, file.agent
        return
    for path in sorted(cutting.find_target_transcripts(connection, aim)):
        inner = glob.glob(os.path.join(glob.escape(path.removesuffix(".jsonl")), "**", "*.jsonl"), recursive=True)
        for one in (
            path,
            *(
                transcript_files.list_subagent_transcripts(path)
                if transcript_files.is_database_session(path)
                else sorted(inner)
            ),
        ):
            if transcript_files.exists(one) and (host := transcript_files.detect_agent(one)):
                yield one, host


def _unapproved(
    home: str, connection: db.Connection, aim: PurgeTarget, pieces: Sequence[SearchPiece], sessions: Set[str]
) -> Mapping[str, tuple[str, ...]]:
    """The files that go, by their kind. Asked before the database forgets what it wrote where."""
    known = cutting.find_target_reflections(connection, aim)
    pages = {page for page, _, _ in known if is_draft(page)}
    drafts = {*pages, *filter(is_draft, text_search.list_files_below(os.path.join(home, DRAFTS_FOLDER)))}
    written = {os.path.basename(log) for _, log, _ in known}
    logs = list(text_search.list_files_below(os.path.join(home, LOGS_FOLDER)))
    if aim.text_pieces:
        waiting = text_search.list_files_below(memory_queue.get_queue_folder())
        found = {DRAFT_FILES: sorted(drafts), LOG_FILES: logs, QUEUE_FILES: list(waiting)}
        return {
            kind: tuple(one for one in places if text_search.has_piece_in_file(one, pieces))
            for kind, places in found.items()
        }
    return {
        DRAFT_FILES: tuple(
            one for one in sorted(drafts) if one in pages or is_draft_of(one, sessions) or _is_old(one, aim)
        ),
        LOG_FILES: tuple(
            one
            for one in logs
            if os.path.basename(one) in written
            or _is_old(one, aim)
            or (pieces and text_search.has_piece_in_file(one, pieces))
        ),
        QUEUE_FILES: tuple(
            sorted(
                {
                    one.path
                    for one in memory_queue.read_queue(memory_queue.get_queue_folder())
                    if _waits(one, aim, sessions)
                }
            )
        ),
    }


def is_draft(path: str) -> bool:
    """Whether it is there and is nobody's page yet."""
    return path.endswith(DRAFT_SUFFIX) and os.path.isfile(path) and not os.path.islink(path)


def is_draft_of(draft: str, sessions: Set[str]) -> bool:
    """Whether a draft says that it is of one of these sessions."""
    with open(draft, encoding="utf-8", errors="replace", opener=paths.open_plain_file) as file:
        said = next((line for line in islice(file, _FRONT) if line.startswith("session: ")), "")
    try:
        return json.loads(said.partition(": ")[2] or '""') in sessions
    except (ValueError, TypeError):
        return False


def _is_old(path: str, aim: PurgeTarget) -> bool:
    return aim.older_than is not None and os.path.getmtime(path) < aim.older_than


def _waits(one: memory_queue.QueuedStatement, aim: PurgeTarget, sessions: Set[str]) -> bool:
    if aim.older_than is not None:
        return "" < one.at < clock.format_iso(aim.older_than)
    return one.session in sessions or (aim.project != "" and one.project == aim.project)
