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

_HEAD_BYTES = 4096


class OpenTranscript(NamedTuple):
    """A transcript that is open: what tells whether it changed, where reading goes on, and what comes from there."""

    stat: os.stat_result
    position: ReadPosition
    portions: Iterator[tuple[NumberedLines, ReadPosition]]


@contextmanager
def open_transcript(path: str, last_position: ReadPosition | None = None) -> Iterator[OpenTranscript]:
    """Read on behind a mark, or from the beginning if it does not hold; OSError if the transcript cannot be read."""
    if is_database_session(path):
        stat = _build_stat(database.get_session(path))
        position = (
            last_position if last_position and last_position.inode == stat.st_ino else ReadPosition(inode=stat.st_ino)
        )
        yield OpenTranscript(stat, position, _read_message_portions(path, stat, position))
        return
    with open(path, "rb", opener=open_plain_file) as file:
        stat, is_document = os.fstat(file.fileno()), is_single_document(path)
        position = (
            ReadPosition(inode=stat.st_ino) if is_document else transcript_tail.resume_position(file, last_position)
        )
        yield OpenTranscript(
            stat, position, transcript_tail.read_portions(file, position, is_single_document=is_document)
        )


def is_single_document(path: str) -> bool:
    """Whether it is one document, which is read again as a whole when it changes."""
    return path.endswith(".json")


def list_sessions(path: str, stat: os.stat_result) -> list[tuple[str, os.stat_result]]:
    """What a file holds: itself, or every session of opencode's database. One that cannot be read is itself, too: who
    opens it is told why."""
    if not database.is_database(path):
        return [(path, stat)]
    try:
        return [(session.path, _build_stat(session)) for session in database.list_sessions(path)]
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
        return transcript_steps.identify_agent(path, file.read(_HEAD_BYTES))


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
    database_session = database.split_session_path(path)
    try:
        return os.stat(database_session[0] if database_session else path).st_ino
    except OSError:
        return -1


def exists(path: str) -> bool:
    return os.path.isfile(path) or (database.split_session_path(path) is not None and get_inode(path) != -1)


def read_lines(path: str, first: int, limit: int) -> list[tuple[int, bytes]]:
    """So many lines from this one on, counted from 1."""
    if is_database_session(path):
        numbered_lines = ((line.number, line.text) for line in database.read_messages(path))
        return list(islice(numbered_lines, first - 1, first - 1 + limit))
    with open(path, "rb", opener=open_plain_file) as file:
        return list(enumerate(islice(file, first - 1, first - 1 + limit), first))


def is_database_session(path: str) -> bool:
    """Whether it stands in a database."""
    return database.is_database(path) or database.split_session_path(path) is not None


def _build_stat(session: database.DatabaseSession) -> os.stat_result:
    """As of a file of no size: how long a session is is known when it was read."""
    seconds, times = session.changed_ms // 1000, {"st_mtime_ns": session.changed_ms * 1_000_000}
    return os.stat_result((0, session.inode, 0, 0, 0, 0, 0, 0, seconds, 0), times)


def _read_message_portions(
    path: str, stat: os.stat_result, position: ReadPosition
) -> Iterator[tuple[NumberedLines, ReadPosition]]:
    """As `tail.portions`; a mark's print is the id of the last message."""
    lines: NumberedLines = []
    portion_start, position = position.offset, replace(position, size=-1)
    for line in database.read_messages(path, position.print):
        lines.append((line.number, line.text))
        position = replace(position, offset=position.offset + len(line.text), line=line.number, print=line.id)
        if position.offset - portion_start >= transcript_tail.PORTION_BYTES:
            yield lines, position
            lines, portion_start = [], position.offset
    yield lines, replace(position, size=stat.st_size, modified=stat.st_mtime_ns)
