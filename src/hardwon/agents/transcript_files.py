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
from hardwon.agents.transcript_tail import Lines
from hardwon.paths import plain_file
from hardwon.types import Mark, replace

_HEAD = 4096


class Reading(NamedTuple):
    """A transcript that is open: what tells whether it changed, where reading goes on, and what comes from there."""

    stat: os.stat_result
    mark: Mark
    portions: Iterator[tuple[Lines, Mark]]


@contextmanager
def reading(path: str, known: Mark | None = None) -> Iterator[Reading]:
    """Read on behind a mark, or from the beginning if it does not hold; OSError if the transcript cannot be read."""
    if is_row(path):
        stat = _stat(database.session(path))
        mark = known if known and known.inode == stat.st_ino else Mark(inode=stat.st_ino)
        yield Reading(stat, mark, _messages(path, stat, mark))
        return
    with open(path, "rb", opener=plain_file) as file:
        stat, whole = os.fstat(file.fileno()), is_whole(path)
        mark = Mark(inode=stat.st_ino) if whole else transcript_tail.still(file, known)
        yield Reading(stat, mark, transcript_tail.portions(file, mark, whole=whole))


def is_whole(path: str) -> bool:
    """Whether it is one document, which is read again as a whole when it changes."""
    return path.endswith(".json")


def sessions(path: str, stat: os.stat_result) -> list[tuple[str, os.stat_result]]:
    """What a file holds: itself, or every session of opencode's database. One that cannot be read is itself, too: who
    opens it is told why."""
    if not database.is_database(path):
        return [(path, stat)]
    try:
        return [(one.path, _stat(one)) for one in database.sessions(path)]
    except OSError:
        return [(path, stat)]


def is_named(path: str, host: str) -> bool:
    """Whether a transcript of this host may have such a name."""
    return host == "opencode" if is_row(path) else transcript_steps.history(host).is_transcript(path)


def host_of(path: str) -> str:
    """The host that wrote it; empty if none did. OSError if it cannot be read."""
    if is_row(path):
        return "opencode"
    with open(path, "rb", opener=plain_file) as file:
        return transcript_steps.host_of(path, file.read(_HEAD))


def located(host: str, session: str) -> str:
    """The path of a session whose hooks do not tell it; empty if it is nowhere."""
    folders = transcript_steps.history(host).folders(os.environ, os.path.expanduser("~")) if host == "opencode" else ()
    return database.located(folders, session)


def subagents(path: str) -> list[str]:
    """The transcripts of the sub-agents that worked in a session."""
    if not is_row(path):
        return sorted(glob.glob(os.path.join(glob.escape(path.removesuffix(".jsonl")), "subagents", "*.jsonl")))
    try:
        return database.subagents(path)
    except OSError:
        return []


def inode(path: str) -> int:
    """What tells that it is still the same file, or in the same; -1 if it is gone."""
    found = database.place(path)
    try:
        return os.stat(found[0] if found else path).st_ino
    except OSError:
        return -1


def exists(path: str) -> bool:
    return os.path.isfile(path) or (database.place(path) is not None and inode(path) != -1)


def lines(path: str, first: int, most: int) -> list[tuple[int, bytes]]:
    """So many lines from this one on, counted from 1."""
    if is_row(path):
        numbered = ((line.number, line.text) for line in database.lines(path))
        return list(islice(numbered, first - 1, first - 1 + most))
    with open(path, "rb", opener=plain_file) as file:
        return list(enumerate(islice(file, first - 1, first - 1 + most), first))


def is_row(path: str) -> bool:
    """Whether it stands in a database."""
    return database.is_database(path) or database.place(path) is not None


def _stat(session: database.Session) -> os.stat_result:
    """As of a file of no size: how long a session is is known when it was read."""
    seconds, told = session.changed // 1000, {"st_mtime_ns": session.changed * 1_000_000}
    return os.stat_result((0, session.inode, 0, 0, 0, 0, 0, 0, seconds, 0), told)


def _messages(path: str, stat: os.stat_result, mark: Mark) -> Iterator[tuple[Lines, Mark]]:
    """As `tail.portions`; a mark's print is the id of the last message."""
    found: Lines = []
    start, mark = mark.offset, replace(mark, size=-1)
    for line in database.lines(path, mark.print):
        found.append((line.number, line.text))
        mark = replace(mark, offset=mark.offset + len(line.text), line=line.number, print=line.id)
        if mark.offset - start >= transcript_tail.PORTION:
            yield found, mark
            found, start = [], mark.offset
    yield found, replace(mark, size=stat.st_size, modified=stat.st_mtime_ns)
