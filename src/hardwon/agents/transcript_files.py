"""A transcript by its path, whatever it is: a file of lines, a document, or a session in opencode's database.

Whoever reads one gets the lines behind a mark and the mark behind them, so that nobody but this module knows which of
the three it is.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import NamedTuple

from hardwon.agents import transcript_steps, transcript_tail
from hardwon.agents.opencode import database
from hardwon.agents.transcript_tail import NumberedLines
from hardwon.paths import open_plain_file
from hardwon.types import ReadPosition, replace

_HEAD = 4096


class OpenTranscript(NamedTuple):
    """A transcript that is open: what tells whether it changed, where reading goes on, and what comes from there."""

    stat: os.stat_result
    position: ReadPosition
    portions: Iterator[tuple[NumberedLines, ReadPosition]]


@contextmanager
def open_transcript(path: str, last_position: ReadPosition | None = None) -> Iterator[OpenTranscript]:
    """Read on behind a mark, or from the beginning if it does not hold; OSError if the transcript cannot be read."""
    if is_database_session(path):
        stat = _stat(database.get_session(path))
        mark = (
            last_position if last_position and last_position.inode == stat.st_ino else ReadPosition(inode=stat.st_ino)
        )
        yield OpenTranscript(stat, mark, _messages(path, stat, mark))
        return
    with open(path, "rb", opener=open_plain_file) as file:
        stat, whole = os.fstat(file.fileno()), is_single_document(path)
        mark = ReadPosition(inode=stat.st_ino) if whole else transcript_tail.resume_position(file, last_position)
        yield OpenTranscript(stat, mark, transcript_tail.read_portions(file, mark, is_single_document=whole))


def is_single_document(path: str) -> bool:
    """Whether it is one document, which is read again as a whole when it changes."""
    return path.endswith(".json")


def list_sessions(path: str, stat: os.stat_result) -> list[tuple[str, os.stat_result]]:
    """What a file holds: itself, or every session of opencode's database. One that cannot be read is itself, too: who
    opens it is told why."""
    if not database.is_database(path):
        return [(path, stat)]
    try:
        return [(one.path, _stat(one)) for one in database.list_sessions(path)]
    except OSError:
        return [(path, stat)]


def is_agent_transcript_path(path: str, agent: str) -> bool:
    """Whether a transcript of this host may have such a name."""
    return (
        agent == "opencode"
        if is_database_session(path)
        else transcript_steps.load_transcript_module(agent).is_transcript_path(path)
    )


def detect_agent(path: str) -> str:
    """The host that wrote it; empty if none did. OSError if it cannot be read."""
    if is_database_session(path):
        return "opencode"
    with open(path, "rb", opener=open_plain_file) as file:
        return transcript_steps.identify_agent(path, file.read(_HEAD))


def find_session_path(agent: str, session: str) -> str:
    """The path of a session whose hooks do not tell it; empty if it is nowhere."""
    folders = (
        transcript_steps.load_transcript_module(agent).find_transcript_folders(os.environ, os.path.expanduser("~"))
        if agent == "opencode"
        else ()
    )
    return database.find_session_path(folders, session)


def list_subagent_transcripts(path: str) -> list[str]:
    """The transcripts of the sub-agents that worked in a session."""
    if not is_database_session(path):
        return sorted(glob.glob(os.path.join(glob.escape(path.removesuffix(".jsonl")), "subagents", "*.jsonl")))
    try:
        return database.list_subagents(path)
    except OSError:
        return []


def get_inode(path: str) -> int:
    """What tells that it is still the same file, or in the same; -1 if it is gone."""
    found = database.split_session_path(path)
    try:
        return os.stat(found[0] if found else path).st_ino
    except OSError:
        return -1


def exists(path: str) -> bool:
    return os.path.isfile(path) or (database.split_session_path(path) is not None and get_inode(path) != -1)


def read_lines(path: str, first: int, limit: int) -> list[tuple[int, bytes]]:
    """So many lines from this one on, counted from 1."""
    if is_database_session(path):
        numbered = ((line.number, line.text) for line in database.read_messages(path))
        return list(islice(numbered, first - 1, first - 1 + limit))
    with open(path, "rb", opener=open_plain_file) as file:
        return list(enumerate(islice(file, first - 1, first - 1 + limit), first))


def is_database_session(path: str) -> bool:
    """Whether it stands in a database."""
    return database.is_database(path) or database.split_session_path(path) is not None


def _stat(session: database.DatabaseSession) -> os.stat_result:
    """As of a file of no size: how long a session is is known when it was read."""
    seconds, told = session.changed_ms // 1000, {"st_mtime_ns": session.changed_ms * 1_000_000}
    return os.stat_result((0, session.inode, 0, 0, 0, 0, 0, 0, seconds, 0), told)


def _messages(path: str, stat: os.stat_result, mark: ReadPosition) -> Iterator[tuple[NumberedLines, ReadPosition]]:
    """As `tail.portions`; a mark's print is the id of the last message."""
    found: NumberedLines = []
    start, mark = mark.offset, replace(mark, size=-1)
    for line in database.read_messages(path, mark.print):
        found.append((line.number, line.text))
        mark = replace(mark, offset=mark.offset + len(line.text), line=line.number, print=line.id)
        if mark.offset - start >= transcript_tail.PORTION_BYTES:
            yield found, mark
            found, start = [], mark.offset
    yield found, replace(mark, size=stat.st_size, modified=stat.st_mtime_ns)
