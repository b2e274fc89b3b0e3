"""Store the compiled brief of each project, which opens sessions while the worker is not running.

A file has one line of text per line of the brief. Dates in it are absolute, so that it does not become wrong with time.
Code that deletes from the database calls `delete_all`, and the briefs are compiled again from the rest.
"""

from __future__ import annotations

import os

from hardwon import paths
from hardwon.text.brief_layout import BriefLine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

BRIEFS_FOLDER = "briefs"
_HEADER = "hardwon-brief-1"  # a file with another number is ignored
_FILE_SUFFIX = ".txt"
_FIELD_COUNT = 4  # of a row: section, text, statement, heading rank


def get_brief_path(home: str, project: str) -> str:
    return os.path.join(home, BRIEFS_FOLDER, paths.to_safe_name(f"{project}/") + _FILE_SUFFIX)


def read(home: str, project: str) -> list[BriefLine]:
    """Return the last compiled lines without damaged rows; none if there are none or another version wrote them."""
    if not project:
        return []
    header, *rows = _read_text(get_brief_path(home, project)).split("\n")
    if header != _HEADER:
        return []
    lines = []
    for row in rows:
        fields = row.split("\t")
        if len(fields) == _FIELD_COUNT and fields[-1].isdigit():
            section, line_text, statement, heading_rank = fields
            lines.append(BriefLine(section, line_text, statement, int(heading_rank)))
    return lines


def write(home: str, project: str, lines: Sequence[BriefLine]) -> None:
    """Write the lines if they changed; a project that never had any gets no file."""
    if not project:
        return
    rows = [f"{line.section}\t{line.text}\t{line.statement}\t{line.heading_rank}\n" for line in lines]
    text = f"{_HEADER}\n{''.join(rows)}"
    path = get_brief_path(home, project)
    if text != _read_text(path) and (lines or os.path.exists(path)):
        paths.write_private(path, text.encode("utf-8", "replace"))


def _read_text(path: str) -> str:
    """Return the content of a brief's file; empty if it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace", newline="\n", opener=paths.open_plain_file) as file:
            return file.read()
    except OSError:
        return ""


def delete_all(home: str) -> int:
    """Delete every compiled brief; return how many there were."""
    folder = os.path.join(home, BRIEFS_FOLDER)
    try:
        names = [name for name in os.listdir(folder) if name.endswith(_FILE_SUFFIX)]
    except FileNotFoundError:
        return 0
    for name in names:
        try:
            os.unlink(os.path.join(folder, name))
        except FileNotFoundError:
            continue
    return len(names)
