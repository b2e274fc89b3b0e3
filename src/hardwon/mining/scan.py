"""Mine transcripts: read what is new in each, and store episodes together with the read position.

A file is read in portions and each is committed whole, so a scan may be killed at any point, repeated, or run several
times at once. Nothing read here is trusted: it is only proposed.
"""

from __future__ import annotations

import fcntl
import gc
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

from hardwon import clock, paths
from hardwon.agents import TRANSCRIPT_AGENTS, transcript_files
from hardwon.agents.transcript_files import StepPredicate, build_step_exclusion, denied_or_deleted
from hardwon.agents.transcript_steps import load_transcript_module
from hardwon.errors import UserError
from hardwon.mining import gate, proposals
from hardwon.mining.reading_processes import ReadTranscript, choose_process_count, read_in_processes
from hardwon.mining.transcript_reading import MeasuredPortion, TranscriptFile, read_transcript
from hardwon.store import candidates, deletions, transcripts
from hardwon.store.candidates import Candidate, Scan
from hardwon.store.db import Connection
from hardwon.types import MINED_TIER, TAG_TIER, ReadPosition, frozen

COMPLETE_SCAN_KINDS = ("full", "new", "auto")  # other kinds read only some of the transcripts
_NEW_OBJECTS_BEFORE_COLLECTION = 50_000  # Python's default is 700
BATCH_SIZE = 2_000  # calls and episodes per transaction
ProgressBar = Callable[[int], AbstractContextManager[Callable[[int], None]]]  # called with the number of bytes to read


@frozen
class ScanRequest:
    """The transcripts to read: all of an agent, or those at some paths, changed since a time."""

    full: bool = False
    scan_paths: Sequence[str] = ()
    agent: str = ""
    since: float = 0.0
    tiers: Sequence[int] = (TAG_TIER, MINED_TIER)


@frozen
class ScanResult:
    """The counts, new candidates and faults of a scan."""

    file_count: int
    byte_count: int
    malformed_lines: int
    episode_count: int
    new_candidates: tuple[Candidate, ...]
    faults: tuple[tuple[str, str], ...]
    retired_lines: tuple[str, ...] = ()  # a line for each retired lesson


def run_scan(
    home: str,
    connection: Connection,
    values: Mapping[str, Any],
    request: ScanRequest,
    show_progress: ProgressBar,
    *,
    is_automatic: bool = False,
) -> ScanResult:
    """Scan new transcripts, or all of them for a full scan."""
    read_positions = transcripts.list_read_positions(connection)
    files = find_transcripts(request, values, {} if request.full else read_positions)
    reread_paths = [*find_vanished_transcripts(read_positions), *(file.path for file in files if request.full)]
    if reread_paths:
        transcripts.forget_transcripts(connection, reread_paths)
    if request.scan_paths or request.agent or request.since:
        kind = "part"
    elif request.full or not read_positions:
        kind = "full"
    else:
        kind = "auto" if is_automatic else "new"
    with show_progress(sum(file.unread_bytes for file in files)) as report_progress:
        return scan_transcripts(
            home, connection, files, values, kind=kind, tiers=request.tiers, report_progress=report_progress
        )


def scan_transcripts(
    home: str,
    connection: Connection,
    files: Sequence[TranscriptFile],
    values: Mapping[str, Any],
    *,
    kind: str,
    tiers: Sequence[int] = (TAG_TIER, MINED_TIER),
    report_progress: Callable[[int], None] = lambda size: None,
) -> ScanResult:
    """Read the files, refresh the candidates, and record the scan.

    `report_progress` is called with the bytes of each finished file.
    """
    faults: list[tuple[str, str]] = []
    transcripts.enlarge_cache(connection)
    is_excluded = denied_or_deleted(build_step_exclusion(home, values), deletions.read_tombstones(connection))
    # Nobody waits for a scan in the background, so it leaves the other cores alone.
    process_count = 1 if kind == "auto" else choose_process_count(files)
    portions = _read_all_portions(
        connection, files, int(values["scanWindow"]), is_excluded, process_count, faults, report_progress
    )
    byte_count = episode_count = malformed_lines = 0
    with _collect_garbage_rarely():
        for batch in _batch_portions(portions):
            episode_count += transcripts.store_portions(connection, [portion for portion, _, _ in batch], clock.now())
            for _, portion_bytes, portion_malformed_lines in batch:
                byte_count += portion_bytes
                malformed_lines += portion_malformed_lines
    transcripts.prune_calls(connection)
    now = clock.now()
    new_candidates: list[Candidate] = []
    if byte_count or candidates.list_fresh_signatures(connection):
        new_candidates = proposals.refresh_candidates(connection, values, tiers=tiers, now=now)
    # Only new calls can speak against a lesson.
    retired_lines = (
        gate.retire_disproved_lessons(home, connection, float(values["minTriggerPrecision"])) if byte_count else []
    )
    candidates.add_scan(
        connection, Scan(now, kind, len(files), byte_count, malformed_lines, episode_count, len(new_candidates))
    )
    return ScanResult(
        file_count=len(files),
        byte_count=byte_count,
        malformed_lines=malformed_lines,
        episode_count=episode_count,
        new_candidates=tuple(new_candidates),
        faults=tuple(faults),
        retired_lines=tuple(retired_lines),
    )


@contextmanager
def _collect_garbage_rarely() -> Iterator[None]:
    """Search less often for objects that refer to each other: steps do not, and the search is 4 % of a scan."""
    thresholds = gc.get_threshold()
    gc.set_threshold(_NEW_OBJECTS_BEFORE_COLLECTION, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)


def _batch_portions(portions: Iterable[MeasuredPortion]) -> Iterator[list[MeasuredPortion]]:
    """Batch the portions of small files into one transaction, since each has a cost.

    `BATCH_SIZE` keeps a transaction within some tens of milliseconds.
    """
    batch: list[MeasuredPortion] = []
    for portion in portions:
        batch.append(portion)
        if sum(len(batched.calls) + len(batched.episodes) for batched, _, _ in batch) >= BATCH_SIZE:
            yield batch
            batch = []
    if batch:
        yield batch


def find_transcripts(
    request: ScanRequest, values: Mapping[str, Any], read_positions: Mapping[str, Any]
) -> list[TranscriptFile]:
    """Return the transcripts with unread content, at the requested paths or in the agents' own folders."""
    fix = "give --path a transcript or a folder of them"
    for scan_path in request.scan_paths:
        path = os.path.expanduser(scan_path)
        if not os.path.exists(path):
            raise UserError(f"there is nothing at {scan_path}", fix)
        if not os.path.isdir(path) and not any(find_changed_transcripts({request.agent: [path]}, {})):
            raise UserError(f"{scan_path} is not a transcript of {request.agent or 'a supported agent'}", fix)
    scan_paths = request.scan_paths or values["scanPaths"]
    folders = find_transcript_folders(os.environ, os.path.expanduser("~"), scan_paths, request.agent)
    return [file for file in find_changed_transcripts(folders, read_positions) if file.modified_at >= request.since]


def find_transcript_folders(
    environment: Mapping[str, str], home: str, scan_paths: Sequence[str], agent: str = ""
) -> dict[str, list[str]]:
    """Return the paths to search, by the name of the agent that wrote what is there.

    They are `scan_paths`, under the given agent, where "" means that any agent may have written them. Without paths
    they are the folders of that agent, or of all agents if none is given.
    """
    if scan_paths:
        return {agent: list(scan_paths)}
    return {
        name: load_transcript_module(name).find_transcript_folders(environment, home)
        for name in TRANSCRIPT_AGENTS
        if agent in ("", name)
    }


def is_due(connection: Connection, values: Mapping[str, Any], now: float) -> bool:
    """Return whether a background scan is due; never if `autoScanIntervalHours` is negative."""
    hours = float(values["autoScanIntervalHours"])
    if hours < 0:
        return False
    last = candidates.find_last_scan_time(connection, *COMPLETE_SCAN_KINDS)
    if last is None or last > now:  # in the future: the clock was set back since
        return True
    return now - last >= hours * 3600


@contextmanager
def hold_scan_lock(home: str, *, wait: bool) -> Iterator[bool]:
    """Take the scan lock and yield True; without `wait`, yield False if another scan holds it."""
    paths.make_private_folder(home)
    with open(os.open(os.path.join(home, "scan.lock"), os.O_RDWR | os.O_CREAT, 0o600), "r+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
            return
        yield True


def find_vanished_transcripts(read_positions: Mapping[str, ReadPosition]) -> list[str]:
    """Return transcripts that were deleted or replaced by another file of the same name."""
    return [
        path
        for path, read_position in read_positions.items()
        if transcript_files.get_inode(path) != read_position.inode
    ]


def find_changed_transcripts(
    folders: Mapping[str, Iterable[str]], read_positions: Mapping[str, ReadPosition]
) -> Iterator[TranscriptFile]:
    """Yield transcripts in the folders, which are given by agent, that changed since they were read.

    Under the key "" each file may be of any agent. A file that lies in two of the folders is yielded once.
    """
    visited_paths: set[str] = set()
    for agent, agent_folders in folders.items():
        for folder in agent_folders:
            for path, stat in _find_transcripts(os.path.realpath(os.path.expanduser(folder))):
                read_position = read_positions.get(path)
                if path in visited_paths or (read_position and transcript_files.is_unchanged(stat, read_position)):
                    continue
                visited_paths.add(path)
                file_agent = _detect_agent(path, agent)
                if not file_agent:
                    continue
                read_bytes = read_position.offset if read_position else 0
                unread_bytes = max(stat.st_size - read_bytes, 0)
                yield TranscriptFile(path, file_agent, unread_bytes, stat.st_mtime)


def _find_transcripts(root: str) -> Iterator[tuple[str, os.stat_result]]:
    for path, stat in _walk_files(root):
        yield from transcript_files.list_sessions(path, stat)


def _walk_files(root: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield every file at or below a path; unreadable ones are skipped and links not followed."""
    try:
        if not os.path.isdir(root):
            yield root, os.stat(root)
            return
        with os.scandir(root) as entries:
            sorted_entries = sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return
    for entry in sorted_entries:
        try:
            if entry.is_dir(follow_symlinks=False):
                yield from _walk_files(entry.path)
            elif entry.is_file(follow_symlinks=False):
                yield entry.path, entry.stat(follow_symlinks=False)
        except OSError:
            continue


def _detect_agent(path: str, expected_agent: str) -> str:
    """Return the agent that wrote the file; "" if that is unknown or not the expected one ("" for any)."""
    if expected_agent and not transcript_files.is_agent_transcript_path(path, expected_agent):
        return ""
    try:
        detected_agent = transcript_files.detect_agent(path)
    except OSError:
        return ""
    return detected_agent if expected_agent in ("", detected_agent) else ""


def _read_all_portions(
    connection: Connection,
    files: Sequence[TranscriptFile],
    window: int,
    is_excluded: StepPredicate,
    process_count: int,
    faults: list[tuple[str, str]],
    report_progress: Callable[[int], None],
) -> Iterator[MeasuredPortion]:
    """Yield the new portions of all files; an unreadable file is added to `faults` and skipped."""
    positions = {}
    for file in files:
        if position := transcripts.find_read_position(connection, file.path):
            positions[file.path] = position
    read_file = partial(read_transcript, window=window, is_excluded=is_excluded)
    for file, portions in _open_files(files, positions, read_file, process_count):
        try:
            yield from portions
        except OSError as error:
            faults.append((file.path, error.strerror or str(error)))
        report_progress(file.unread_bytes)


def _open_files(
    files: Sequence[TranscriptFile],
    positions: Mapping[str, ReadPosition],
    read_file: ReadTranscript,
    process_count: int,
) -> Iterable[tuple[TranscriptFile, Iterator[MeasuredPortion]]]:
    """Return each file with its portions, read here or by several processes."""
    if process_count > 1:
        return read_in_processes(files, positions, read_file, process_count)
    return ((file, read_file(file, positions.get(file.path))) for file in files)
