"""Read what was added to a transcript since the last time, and leave out what may not be kept.

A transcript is a file of lines, a JSON document, or a session in a database; only this module knows which. A
file is the same as before if its inode is, it has not become shorter, and the bytes at its head and before the read
position are what they were; else it was rewritten and is read from the beginning, which is safe because every step has
an id. A line without an end may still be in the writing: it is taken only once it is whole JSON.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache, partial
from hashlib import blake2b
from itertools import islice
from typing import Any, BinaryIO, NamedTuple

import orjson

from hardwon import claims, projects
from hardwon.agents.opencode import database
from hardwon.agents.transcript_steps import Step, identify_agent, load_transcript_module, parse_timestamp
from hardwon.paths import open_plain_file
from hardwon.privacy.private_tags import is_wholly_private
from hardwon.store.deletions import SESSION, Tombstones
from hardwon.types import ReadPosition, replace

NumberedLines = list[tuple[int, bytes]]
Portions = Iterator[tuple[NumberedLines, ReadPosition]]  # lines, each time with the read position behind them
StepPredicate = Callable[[Step], bool]

# Bounds the memory that reading takes, and how much is read again after a crash.
PORTION_BYTES = 4 * 1024 * 1024
# A longer line is most likely an image; it is skipped and counted as malformed.
MAX_LINE_BYTES = 64 * 1024 * 1024
MAX_DOCUMENT_BYTES = 256 * 1024 * 1024
_HEAD_BYTES = 4096
# Enough to tell two sessions apart: a line has an id and a time.
_FINGERPRINT_BYTES = 1024
_PRIVATE_TAG = b"<private"
_SEARCH_BYTES = 1 << 20
_BUFFER_BYTES = 1 << 18  # most lines then come out of one read


class OpenTranscript(NamedTuple):
    """An open transcript: its stat, the position where reading continues, and the portions from there."""

    stat: os.stat_result
    position: ReadPosition
    portions: Portions


@contextmanager
def open_transcript(path: str, last_position: ReadPosition | None = None) -> Iterator[OpenTranscript]:
    """Open a transcript after the last read position; from the beginning if the file was replaced or cut since."""
    if is_database_session(path):
        yield _open_database_session(path, last_position)
        return
    with open(path, "rb", buffering=_BUFFER_BYTES, opener=open_plain_file) as file:
        stat = os.fstat(file.fileno())
        is_document = is_single_document(path)
        # A document is written anew as a whole, so there is no place in it to continue from.
        position = ReadPosition(inode=stat.st_ino) if is_document else _resume_position(file, last_position)
        yield OpenTranscript(stat, position, read_portions(file, position, is_single_document=is_document))


def _open_database_session(path: str, last_position: ReadPosition | None) -> OpenTranscript:
    # The inode is the database's: a database that was replaced is read from the beginning.
    stat = _build_stat(database.get_session(path))
    position = ReadPosition(inode=stat.st_ino)
    if last_position and last_position.inode == stat.st_ino:
        position = last_position
    return OpenTranscript(stat, position, _read_message_portions(path, stat, position))


def is_single_document(path: str) -> bool:
    """Return whether a transcript is one document, which is read again as a whole when it changes."""
    return path.endswith(".json")


def is_unchanged(stat: os.stat_result, position: ReadPosition) -> bool:
    """Return whether a file is as it was when it was read to this position."""
    return (stat.st_ino, stat.st_size, stat.st_mtime_ns) == (position.inode, position.size, position.modified)


def list_sessions(path: str, stat: os.stat_result) -> list[tuple[str, os.stat_result]]:
    """Return the sessions in a file: the file itself, or every session of a database.

    A database that cannot be read stands for itself: opening it then says why.
    """
    if not database.is_database(path):
        return [(path, stat)]
    try:
        return [(session.path, _build_stat(session)) for session in database.list_sessions(path)]
    except OSError:
        return [(path, stat)]


def is_agent_transcript_path(path: str, agent: str) -> bool:
    """Return whether a transcript of this agent may have such a name."""
    if is_database_session(path):
        return agent == database.get_agent(path)
    return load_transcript_module(agent).is_transcript_path(path)


def detect_agent(path: str) -> str:
    """Return the agent that wrote a transcript; empty if none did. OSError if it cannot be read."""
    if is_database_session(path):
        return database.get_agent(path)
    with open(path, "rb", opener=open_plain_file) as file:
        return identify_agent(path, file.read(_HEAD_BYTES))


def find_session_path(agent: str, session: str) -> str:
    """Return the path of a session whose hooks do not name it; empty if it is nowhere."""
    if agent not in ("opencode", "kilo"):
        return ""
    folders = load_transcript_module(agent).find_transcript_folders(os.environ, os.path.expanduser("~"))
    return database.find_session_path(folders, session)


def list_subagent_transcripts(path: str) -> list[str]:
    """Return the transcripts of the sub-agents that worked in a session."""
    if not is_database_session(path):
        session_folder = path.removesuffix(".jsonl")
        pattern = os.path.join(glob.escape(session_folder), "subagents", "*.jsonl")
        return sorted(glob.glob(pattern))
    try:
        return database.list_subagents(path)
    except OSError:
        return []


def get_inode(path: str) -> int:
    """Return the inode of the file, or of the database that holds the session; -1 if it is gone."""
    if database_session := database.split_session_path(path):
        path, _ = database_session
    try:
        return os.stat(path).st_ino
    except OSError:
        return -1


def exists(path: str) -> bool:
    """Return whether there is such a file, or a database for this path of a session."""
    if os.path.isfile(path):
        return True
    if database.split_session_path(path) is None:
        return False
    return get_inode(path) != -1  # the database has this session


def read_lines(path: str, first: int, limit: int) -> NumberedLines:
    """Return up to so many lines from this one on, counted from 1."""
    start = first - 1
    if is_database_session(path):
        lines = islice(database.read_messages(path), start, start + limit)
        return [(line.number, line.text) for line in lines]
    with open(path, "rb", opener=open_plain_file) as file:
        return list(enumerate(islice(file, start, start + limit), first))


def is_database_session(path: str) -> bool:
    """Return whether a path stands for a session in a database, or for the database."""
    return database.is_database(path) or database.split_session_path(path) is not None


def _build_stat(session: database.DatabaseSession) -> os.stat_result:
    """Return the state of a session as that of a file of no size: its length is known only when it was read."""
    seconds = session.changed_ms // 1000
    times = {"st_mtime_ns": session.changed_ms * 1_000_000}
    return os.stat_result((0, session.inode, 0, 0, 0, 0, 0, 0, seconds, 0), times)


def _read_message_portions(path: str, stat: os.stat_result, position: ReadPosition) -> Portions:
    """Yield the messages of a database session; the fingerprint of its position is the id of the last message."""
    lines: NumberedLines = []
    portion_start = position.offset
    position = replace(position, size=-1)
    for line in database.read_messages(path, position.print):
        lines.append((line.number, line.text))
        position = replace(position, offset=position.offset + len(line.text), line=line.number, print=line.id)
        if position.offset - portion_start >= PORTION_BYTES:
            yield lines, position
            lines = []
            portion_start = position.offset
    yield lines, _finish_position(stat, position)


def _resume_position(file: BinaryIO, position: ReadPosition | None) -> ReadPosition:
    """Return the position if it holds for this file, else one at its beginning."""
    stat = os.fstat(file.fileno())
    beginning = ReadPosition(inode=stat.st_ino)
    if not position or position.inode != stat.st_ino or position.offset > stat.st_size:
        return beginning
    if position.print != _compute_fingerprint(file, position.offset):
        return beginning  # the file was rewritten in place
    return position


def read_portions(file: BinaryIO, position: ReadPosition, *, is_single_document: bool) -> Portions:
    """Yield the lines behind the position, a few megabytes at a time.

    Only the last position has the file's size, so that a file that was read in part counts as changed. A document is
    one line, however many it has.
    """
    stat = os.fstat(file.fileno())
    if is_single_document:
        end_position = _move_position(file, position, offset=stat.st_size, line=1)
        yield [(1, _read_document(file, stat))], _finish_position(stat, end_position)
        return
    file.seek(position.offset)
    lines: NumberedLines = []
    offset = position.offset
    number = position.line
    is_unended = position.unended
    while line := file.readline(MAX_LINE_BYTES):
        is_ended = line.endswith(b"\n")
        if not is_ended and len(line) == MAX_LINE_BYTES:
            if not _skip_line(file):
                break  # a line that is too long and has no end yet is read again, and skipped, once it has one
            line = line[:_FINGERPRINT_BYTES]
            is_ended = True
            offset = file.tell()
        elif not is_ended and not _is_json(line):
            break  # the agent is still writing this line
        else:
            offset += len(line)
        # After a line without an end this is the rest of it, mostly just the newline.
        if not is_unended:
            number += 1
        if not is_unended or line.strip():
            lines.append((number, line))
        is_unended = not is_ended
        if offset - position.offset >= PORTION_BYTES:
            position = replace(_move_position(file, position, offset, number), unended=is_unended, size=-1)
            yield lines, position
            lines = []
    if offset != position.offset:
        position = replace(_move_position(file, position, offset, number), unended=is_unended)
    yield lines, _finish_position(stat, position)


def _read_document(file: BinaryIO, stat: os.stat_result) -> bytes:
    """Return the whole file; for one that is too large a text that is no JSON, so that it counts as malformed."""
    if stat.st_size > MAX_DOCUMENT_BYTES:
        return b"too large"
    file.seek(0)
    return file.read(MAX_DOCUMENT_BYTES)


def _finish_position(stat: os.stat_result, position: ReadPosition) -> ReadPosition:
    """Return the position with the file's size and time, by which `is_unchanged` knows it."""
    return replace(position, size=stat.st_size, modified=stat.st_mtime_ns)


def _skip_line(file: BinaryIO) -> bool:
    """Go behind the end of a line that is too long to read; False if it has none yet."""
    while rest := file.readline(PORTION_BYTES):
        if rest.endswith(b"\n"):
            return True
    return False


def _move_position(file: BinaryIO, position: ReadPosition, offset: int, line: int) -> ReadPosition:
    """Return the position moved to this offset and line, with the fingerprint there."""
    return replace(position, offset=offset, line=line, print=_compute_fingerprint(file, offset))


def _compute_fingerprint(file: BinaryIO, offset: int) -> str:
    """Return a hash of the file's first bytes and of those before the offset."""
    descriptor = file.fileno()
    head = os.pread(descriptor, min(_FINGERPRINT_BYTES, offset), 0)
    tail_start = max(offset - _FINGERPRINT_BYTES, 0)
    tail = os.pread(descriptor, offset - tail_start, tail_start)
    return blake2b(head + tail, digest_size=16).hexdigest()


def _is_json(line: bytes) -> bool:
    """Return whether a line is whole: a part of an object is not JSON."""
    try:
        orjson.loads(line)
    except ValueError:
        return False
    return True


def build_step_exclusion(home: str, values: Mapping[str, Any]) -> StepPredicate:
    """Return a predicate for steps to leave out: for their folder, a pause of their session, or a denied path."""
    # The steps of a session share their folder, so its links are resolved once.
    is_denied_folder = lru_cache(maxsize=512)(lambda cwd: projects.is_below(cwd, denied_projects))
    was_paused = lru_cache(maxsize=512)(partial(claims.has_been_paused, home))
    denied_projects = values["denyProjects"]
    denied_paths = values["denyPaths"]

    def is_denied(step: Step) -> bool:
        if denied_projects and is_denied_folder(step.cwd):
            return True
        if was_paused(step.session):
            return True
        if not denied_paths or step.kind != "call":
            return False  # only a call names paths
        return projects.has_denied_path(denied_paths, step.cwd, step.tool, step.command, step.content, [step.path])

    return is_denied


def denied_or_deleted(is_denied: StepPredicate, tombstones: Tombstones) -> StepPredicate:
    """Return a predicate for what is denied, or was deleted after it happened: an agent may rewrite its transcript."""
    if not tombstones:
        return is_denied

    def is_excluded(step: Step) -> bool:
        # A step without a time counts as old, so that nothing deleted comes back.
        at = parse_timestamp(step.at) or None
        if is_denied(step) or tombstones.covers(SESSION, step.session, at):
            return True
        text = "\n".join((step.command, step.path, step.content, step.text, step.refused))
        return tombstones.covers_text(text, at)

    return is_excluded


class PrivateTurnTracker:
    """Tracks whether the latest prompt of a transcript is private; everything up to the next prompt then is too.

    A sub-agent's own transcript does not have the prompt it works for, so its session's is searched. Where anything is
    marked as private there, or it is not found, nothing of the sub-agent is kept.
    """

    def __init__(self, path: str, state: Mapping[str, Any] | None = None) -> None:
        state = state or {}
        self._path = path
        self._prompt_session = str(state.get("prompted", ""))  # the session whose prompt it was
        self._hidden_subagents: dict[tuple[str, str], bool] = {}
        self.is_private = bool(state.get("hidden"))

    def dump_state(self) -> dict[str, Any]:
        return {"hidden": self.is_private, "prompted": self._prompt_session}

    def check_next_step(self, step: Step) -> bool:
        """Take in a transcript's next step; return whether it is or may be about a prompt that is wholly private."""
        if step.kind == "person":
            self.is_private = is_wholly_private(step.text)
            self._prompt_session = step.session
        if self.is_private or not step.subagent_id:
            return self.is_private
        # In a document, subagents come after all prompts, not after their own.
        if step.session == self._prompt_session and not is_single_document(self._path):
            return False
        key = step.session, step.subagent_id
        if key not in self._hidden_subagents:
            self._hidden_subagents[key] = _is_hidden_subagent(self._path, *key)
        return self._hidden_subagents[key]


def has_private_parent(path: str) -> bool:
    """Return whether a sub-agent worked in a session in which anything was marked as private."""
    return any(map(_has_private_tag, _find_parent_above(path)))


def _is_hidden_subagent(path: str, session: str, subagent_id: str) -> bool:
    """Return whether a sub-agent's steps must be left out, because a prompt above it may be private."""
    if not os.path.isfile(path):
        return False  # sessions in a database: `read_messages` already leaves these subagents out
    # A sub-agent that names no session cannot be traced to a prompt, so it is hidden.
    if session in ("", subagent_id):
        return True
    if is_single_document(path):
        return any(map(_has_private_tag, {path, *_find_session_nearby(path, session)}))
    parents = _find_parent_above(path) or _find_session_nearby(path, session)
    if path in parents:
        return False  # the prompts are in this very file, and `PrivateTurnTracker` has seen them
    return not parents or any(map(_has_private_tag, parents))


def _find_parent_above(path: str) -> list[str]:
    """Return the session's transcript, if this one is in its folder of sub-agents; else nothing."""
    folder = os.path.dirname(path)
    parent = f"{os.path.dirname(folder)}.jsonl"
    if os.path.basename(folder) == "subagents" and os.path.isfile(parent):
        return [parent]
    return []


def _find_session_nearby(path: str, session: str) -> list[str]:
    """Return the session's transcript in the same folder or, as Codex has a folder for each day, in another."""
    folders = [glob.escape(os.path.dirname(path))]
    for folder_name in ("sessions", "archived_sessions"):
        root, separator, _ = path.rpartition(f"/{folder_name}/")
        if separator:
            folders += [f"{glob.escape(root)}/sessions/*/*/*", f"{glob.escape(root)}/archived_sessions"]
    for folder in folders:
        if paths := glob.glob(f"{folder}/*{glob.escape(session)}.json*"):
            return paths
    return []


def _has_private_tag(path: str) -> bool:
    stat = os.stat(path)
    return _search_private_tag(path, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=1024)
def _search_private_tag(path: str, modified: int, size: int) -> bool:
    """Search a file for the tag; the time and the size are only there for the cache."""
    overlap = b""  # the end of the block before, in case the tag lies across two
    with open(path, "rb", opener=open_plain_file) as file:
        while block := file.read(_SEARCH_BYTES):
            if _PRIVATE_TAG in (overlap + block).lower():
                return True
            overlap = block[-len(_PRIVATE_TAG) :]
    return False
