"""Printing: tables, indented text, JSON, ages and progress. Colours appear only in terminals."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import zip_longest
from time import monotonic
from typing import Any

import click

from hardwon import clock, paths
from hardwon.text.characters import make_printable

_MAX_WIDTH = 100  # columns that are still easy to read
_MIN_WIDE_COLUMN = 20
_NAME_WIDTH = 10
_COLUMN_GAP = "  "
_BREAK_PATTERN = re.compile(r"(\s+)|(?<=\w/)")  # breaks a path that is longer than a line after a folder
_PROGRESS_FILE = "logs/import.json"
_SECONDS_BETWEEN_REFRESHES = 0.1


def echo_text(text: str, *, err: bool = False) -> None:
    """Print text that may come from outside, with control characters made visible."""
    click.echo(make_printable(text), err=err)


def echo_json(value: object) -> None:
    """Print a value as JSON, indented for people."""
    click.echo(json.dumps(value, indent=2))


# Our own, because importing rich's tables takes 45 ms, which every list command would pay.
def echo_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, wide_column: int = -1) -> None:
    """Print rows under their headings; the wide column wraps, the others stay whole."""
    from rich.cells import cell_len, set_cell_size

    wide_column %= len(columns)  # -1 is the last
    cells = []  # of each row, the lines of each cell
    widths = [cell_len(heading) for heading in columns]
    for row in rows:
        cell_lines = [make_printable(cell).split("\n") for cell in row]
        cells.append(cell_lines)
        for number, lines in enumerate(cell_lines):
            widths[number] = max(widths[number], *map(cell_len, lines))
    gaps = len(_COLUMN_GAP) * (len(columns) - 1)
    other_columns = sum(widths) - widths[wide_column]
    room = shutil.get_terminal_size().columns - gaps - other_columns
    widths[wide_column] = max(min(widths[wide_column], room), _MIN_WIDE_COLUMN)
    headings = _COLUMN_GAP.join(set_cell_size(heading, width) for heading, width in zip(columns, widths, strict=True))
    echo_styled(headings.rstrip(), dim=True)
    for cell_lines in cells:
        wide_lines = []
        for line in cell_lines[wide_column]:
            wide_lines += wrap_cells(line, widths[wide_column])
        cell_lines[wide_column] = wide_lines
        for parts in zip_longest(*cell_lines, fillvalue=""):
            line = _COLUMN_GAP.join(set_cell_size(part, width) for part, width in zip(parts, widths, strict=True))
            click.echo(line.rstrip())


@contextmanager
def show_activity(label: str) -> Iterator[None]:
    """Show at a terminal that a long step goes on; the line is gone when it ends."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(label):
        yield


@contextmanager
def show_progress(total_bytes: int, *, is_silent: bool = False) -> Iterator[Callable[[int], None]]:
    """Yield a function that moves a bar at a terminal by so many bytes."""
    if is_silent or not total_bytes or not sys.stderr.isatty():
        yield lambda byte_count: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("reading transcripts"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    # No thread draws the bar, because the scan forks, and a fork of a process with threads may wait for their locks.
    with Progress(*columns, console=Console(stderr=True), transient=True, auto_refresh=False) as progress:
        task = progress.add_task("", total=total_bytes)
        last_refresh = 0.0

        def report_progress(byte_count: int) -> None:
            nonlocal last_refresh
            progress.advance(task, byte_count)
            if monotonic() - last_refresh >= _SECONDS_BETWEEN_REFRESHES:
                progress.refresh()
                last_refresh = monotonic()

        progress.refresh()
        yield report_progress


def get_width() -> int:
    """Return the width to print at: the terminal's, but no wider than is easy to read."""
    # Below 40 columns nothing would be left for the text of a table.
    return max(min(shutil.get_terminal_size().columns, _MAX_WIDTH), 40)


def echo_styled(text: str, *, err: bool = False, nl: bool = True, **style: Any) -> None:
    """Print text in bold, dim or a colour, unless NO_COLOR is set."""
    if style and not os.environ.get("NO_COLOR"):
        text = click.style(text, **style)
    click.echo(text, err=err, nl=nl)


def echo_field(name: str, text: str, *, indent: int = 3, **style: Any) -> None:
    """Print a text behind its name, such as `solution  …`."""
    echo_indented(f"{' ' * indent}{name:<{_NAME_WIDTH}}", text, **style)


def echo_indented(prefix: str, text: str, *, max_lines: int = 0, **style: Any) -> None:
    """Print text from outside behind a prefix of ours.

    Further lines are indented, so that they cannot pass for lines of ours.
    """
    lines = wrap_text(make_printable(text), get_width() - len(prefix), max_lines)
    indent = " " * len(prefix)
    indented_text = f"\n{indent}".join(lines).rstrip()
    echo_styled(prefix + indented_text, **style)


def wrap_text(text: str, width: int, max_lines: int = 0) -> list[str]:
    """Wrap each line of a text; beyond `max_lines`, if set, cut it with an ellipsis."""
    # A hyphen is often part of an option, which must stay in one piece.
    wrapper = textwrap.TextWrapper(width, break_on_hyphens=False)
    wrapper.wordsep_simple_re = _BREAK_PATTERN
    lines: list[str] = []
    for line in text.split("\n"):
        lines += wrapper.wrap(line) or [""]
    if max_lines and len(lines) > max_lines:
        del lines[max_lines:]
        lines[-1] = f"{lines[-1][: width - 1]}…"
    return lines


def wrap_cells(text: str, width: int) -> list[str]:
    """Return the words of a text as lines of at most so many columns; some characters take two."""
    from rich.cells import cell_len, chop_cells

    lines = [""]
    for word in text.split():
        pieces = chop_cells(word, width) if cell_len(word) > width else [word]
        for piece in pieces:
            if not lines[-1]:
                lines[-1] = piece
            elif cell_len(lines[-1]) + 1 + cell_len(piece) <= width:
                lines[-1] += f" {piece}"
            else:
                lines.append(piece)
    return lines


def format_duration(seconds: float) -> str:
    """Return a length of time in its largest unit, such as `3 h`."""
    for size, name in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {name}"
    return f"{seconds:.0f} s"


def format_time(timestamp: float, pattern: str = "%Y-%m-%d %H:%M") -> str:
    """Return a time in the person's own time zone; empty for 0, which stands for none."""
    return datetime.fromtimestamp(timestamp).strftime(pattern) if timestamp else ""


def format_age(timestamp: float) -> str:
    """Return how long ago a time was."""
    return f"{format_duration(max(clock.now() - timestamp, 0))} ago"


def format_times(fields: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return a record with these timestamps as ISO text; a missing one is null."""
    formatted = dict(fields)
    for name in names:
        formatted[name] = clock.format_iso(fields[name]) if fields[name] else None
    return formatted


@contextmanager
def note_progress(home: str, total_bytes: int) -> Iterator[Callable[[int], None]]:
    """Write how much of the transcripts is read to a file, for `hardwon status`; it is gone when the import ends."""
    os.nice(10)  # a person may be waiting for an agent
    path = os.path.join(home, _PROGRESS_FILE)
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
        with open(os.path.join(home, _PROGRESS_FILE), encoding="utf-8") as file:
            report = json.load(file)
        os.kill(report["pid"], 0)
    except (OSError, ValueError):
        return ""
    share = report["read"] / max(report["total"], 1)
    return f"importing transcripts, {share:.0%} of {report['total'] / 1e6:.0f} MB read"
