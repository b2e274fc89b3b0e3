"""How far an import of transcripts in the background is."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hardwon import paths

PROGRESS_FILE = "logs/import.json"


@contextmanager
def note_progress(home: str, total_bytes: int) -> Iterator[Callable[[int], None]]:
    """Write how much of the transcripts is read to a file, for `hardwon status`; it is gone when the import ends."""
    os.nice(10)  # a person may be waiting for an agent
    path = os.path.join(home, PROGRESS_FILE)
    read_bytes = 0

    def report_progress(byte_count: int) -> None:
        nonlocal read_bytes
        read_bytes += byte_count
        report = {"pid": os.getpid(), "read": read_bytes, "total": total_bytes}
        paths.write_private(path, json.dumps(report).encode())

    report_progress(0)
    try:
        yield report_progress
    finally:
        os.unlink(path)


def describe_import(home: str) -> str:
    """Return how far an import in the background is; empty if none runs."""
    try:
        with open(os.path.join(home, PROGRESS_FILE), encoding="utf-8") as file:
            report = json.load(file)
        os.kill(report["pid"], 0)
    except (OSError, ValueError):
        return ""
    share = report["read"] / max(report["total"], 1)
    return f"importing transcripts, {share:.0%} of {report['total'] / 1e6:.0f} MB read"
