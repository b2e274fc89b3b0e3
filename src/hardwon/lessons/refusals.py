"""Log refused lessons: time, source and broken rules, but nothing of their text."""

from __future__ import annotations

import os
from collections.abc import Sequence

from hardwon import clock, paths
from hardwon.privacy.cleaning import clean_text
from hardwon.text.printable import to_printable_line

LOG = os.path.join("logs", "refusals.log")
LOG_BYTES = 1_000_000
_MAX_LINE_CHARS = 300


def note_refused_lesson(home: str, source: str, faults: Sequence[str]) -> None:
    """Append a line to the log; one previous file is kept, so that the log cannot fill the disk."""
    path = os.path.join(home, LOG)
    # A fault may quote a pattern, so it is redacted like everything that is written.
    reasons = to_printable_line(clean_text("; ".join(faults)), _MAX_LINE_CHARS)
    try:
        paths.make_private_folder(os.path.dirname(path))
        if os.path.exists(path) and os.path.getsize(path) > LOG_BYTES:
            os.replace(path, path + ".old")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a", errors="replace") as file:
            file.write(f"{clock.format_iso(clock.now())} lesson from {source} refused: {reasons}\n")
    except OSError:
        pass  # the lesson is refused even if the log cannot be written
