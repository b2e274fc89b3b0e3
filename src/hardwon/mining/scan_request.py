"""Choose which transcripts a scan or an import reads, and scan them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from hardwon.errors import UserError
from hardwon.mining.scan import (
    ScanResult,
    find_changed_transcripts,
    find_transcript_folders,
    find_vanished_transcripts,
    scan_transcripts,
)
from hardwon.mining.transcript_reading import TranscriptFile
from hardwon.store import transcripts
from hardwon.store.db import Connection
from hardwon.types import MINED_TIER, TAG_TIER

ProgressBar = Callable[[int], AbstractContextManager[Callable[[int], None]]]  # called with the number of bytes to read


@dataclass(frozen=True, slots=True)
class ScanRequest:
    """The transcripts to read: all of an agent, or those at some paths, changed since a time."""

    full: bool = False
    scan_paths: Sequence[str] = ()
    agent: str = ""
    since: float = 0.0
    tiers: Sequence[int] = (TAG_TIER, MINED_TIER)


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
    kind = "auto" if is_automatic else "new"
    if request.scan_paths or request.agent or request.since:
        kind = "part"
    elif request.full or not read_positions:
        kind = "full"
    with show_progress(sum(file.unread_bytes for file in files)) as report_progress:
        return scan_transcripts(
            home, connection, files, values, kind=kind, tiers=request.tiers, report_progress=report_progress
        )


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
