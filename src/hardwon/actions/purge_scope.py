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
from hardwon.handoff.reflection import DRAFTS, END, LOGS
from hardwon.mining import scan as mining
from hardwon.sessions import text_search
from hardwon.store import db
from hardwon.store import purge as cutting
from hardwon.store.purge import Aim
from hardwon.store.reflections import RATIFIED
from hardwon.text import traces
from hardwon.text.traces import Piece
from hardwon.types import word

DRAFTED, LOGGED, QUEUED = "drafts", "logs", "queues"
_FRONT = 40  # lines in which a draft says whose it is


@word
class Search:
    """What goes, and what of it is looked for in files: pieces of a text, an id, or a path."""

    aim: Aim
    pieces: tuple[Piece, ...]
    sessions: frozenset[str]
    unapproved: Mapping[str, tuple[str, ...]]  # files that go whole, by kind
    ratified: tuple[str, ...]  # pages of what goes that a person approved
    transcripts: tuple[tuple[str, str], ...]  # path and host of those that still hold it
    dry: bool


def search(home: str, connection: db.Connection, aim: Aim, *, dry: bool) -> Search:
    exact = traces.exactly(aim.session or aim.project) if aim.before is None else ()
    pieces: tuple[Piece, ...] = aim.pieces or exact
    sessions = frozenset(cutting.sessions_of(connection, aim))
    return Search(
        aim,
        pieces,
        sessions,
        _unapproved(home, connection, aim, pieces, sessions),
        tuple(page for page, _, status in cutting.reflected(connection, aim) if status == RATIFIED),
        tuple(_transcripts(connection, aim, pieces)),
        dry,
    )


def _transcripts(connection: db.Connection, aim: Aim, pieces: tuple[Piece, ...]) -> Iterator[tuple[str, str]]:
    """The agents' transcripts that hold it, with their hosts: for a text wherever they are, else those that belong."""
    if aim.pieces:
        values = settings.resolve(settings.read_config(paths.home()))
        folders = mining.folders(os.environ, os.path.expanduser("~"), values["scanPaths"])
        for file in mining.find(folders, {}):
            if text_search.holds(file.path, pieces):
                yield file.path, file.host
        return
    for path in sorted(cutting.transcripts_of(connection, aim)):
        inner = glob.glob(os.path.join(glob.escape(path.removesuffix(".jsonl")), "**", "*.jsonl"), recursive=True)
        for one in (path, *(transcript_files.subagents(path) if transcript_files.is_row(path) else sorted(inner))):
            if transcript_files.exists(one) and (host := transcript_files.host_of(one)):
                yield one, host


def _unapproved(
    home: str, connection: db.Connection, aim: Aim, pieces: Sequence[Piece], sessions: Set[str]
) -> Mapping[str, tuple[str, ...]]:
    """The files that go, by their kind. Asked before the database forgets what it wrote where."""
    known = cutting.reflected(connection, aim)
    pages = {page for page, _, _ in known if is_draft(page)}
    drafts = {*pages, *filter(is_draft, text_search.below(os.path.join(home, DRAFTS)))}
    written = {os.path.basename(log) for _, log, _ in known}
    logs = list(text_search.below(os.path.join(home, LOGS)))
    if aim.pieces:
        waiting = text_search.below(memory_queue.folder())
        found = {DRAFTED: sorted(drafts), LOGGED: logs, QUEUED: list(waiting)}
        return {kind: tuple(one for one in places if text_search.holds(one, pieces)) for kind, places in found.items()}
    return {
        DRAFTED: tuple(one for one in sorted(drafts) if one in pages or is_of(one, sessions) or _is_old(one, aim)),
        LOGGED: tuple(
            one
            for one in logs
            if os.path.basename(one) in written or _is_old(one, aim) or (pieces and text_search.holds(one, pieces))
        ),
        QUEUED: tuple(
            sorted({one.path for one in memory_queue.read(memory_queue.folder()) if _waits(one, aim, sessions)})
        ),
    }


def is_draft(path: str) -> bool:
    """Whether it is there and is nobody's page yet."""
    return path.endswith(END) and os.path.isfile(path) and not os.path.islink(path)


def is_of(draft: str, sessions: Set[str]) -> bool:
    """Whether a draft says that it is of one of these sessions."""
    with open(draft, encoding="utf-8", errors="replace", opener=paths.plain_file) as file:
        said = next((line for line in islice(file, _FRONT) if line.startswith("session: ")), "")
    try:
        return json.loads(said.partition(": ")[2] or '""') in sessions
    except (ValueError, TypeError):
        return False


def _is_old(path: str, aim: Aim) -> bool:
    return aim.before is not None and os.path.getmtime(path) < aim.before


def _waits(one: memory_queue.Queued, aim: Aim, sessions: Set[str]) -> bool:
    if aim.before is not None:
        return "" < one.at < clock.iso(aim.before)
    return one.session in sessions or (aim.project != "" and one.project == aim.project)
