"""How things look in a terminal: colours only there, JSON when asked, times as people say them."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import Any

import click

from hardwon import clock
from hardwon.text.printable import make_printable as make_printable
from hardwon.text.printable import to_printable_line as to_printable_line

MAX_WIDTH = 100  # columns that are still easy to read
_NAME_WIDTH = 10
_BREAK_PATTERN = re.compile(r"(\s+)|(?<=\w/)")  # a path is longer than a line, and is best broken where a folder ends


def is_interactive() -> bool:
    """Whether there is a person to ask."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def echo_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, wide_column: int = -1) -> None:
    """Print rows under their headings; the `wide` column takes what room is left, the others stay whole."""
    from rich.console import Console  # 80 ms that only a table pays
    from rich.table import Table
    from rich.text import Text

    console = Console(soft_wrap=False, highlight=False)
    table = Table(box=None, pad_edge=False, header_style="" if _is_plain() else "dim")
    for number, heading in enumerate(columns):
        is_wide = number == wide_column % len(columns)
        table.add_column(heading, no_wrap=not is_wide, overflow="fold" if is_wide else "ellipsis")
    for row in rows:
        table.add_row(*(Text(make_printable(cell)) for cell in row))
    console.print(table)


def get_width() -> int:
    return max(min(shutil.get_terminal_size().columns, MAX_WIDTH), 40)


def echo_styled(text: str, *, err: bool = False, nl: bool = True, **style: Any) -> None:
    """A line in bold, dim or a colour, unless the person wants none of that."""
    click.echo(text if _is_plain() or not style else click.style(text, **style), err=err, nl=nl)


def _is_plain() -> bool:
    return bool(os.environ.get("NO_COLOR"))


def echo_field(name: str, text: str, *, indent: int = 3, **style: Any) -> None:
    """A name and what it stands for."""
    echo_indented(f"{' ' * indent}{name:<{_NAME_WIDTH}}", text, **style)


def echo_indented(prefix: str, text: str, *, max_lines: int = 0, **style: Any) -> None:
    """Text from outside behind words of ours, at most so many lines of it.

    Every further line is indented, so that it cannot look like words of ours.
    """
    text_width = get_width() - len(prefix)
    wrapper = textwrap.TextWrapper(text_width, break_on_hyphens=False)
    wrapper.wordsep_simple_re = _BREAK_PATTERN
    lines = [part for line in make_printable(text).split("\n") for part in wrapper.wrap(line) or [""]]
    if max_lines and len(lines) > max_lines:
        lines = [*lines[: max_lines - 1], f"{lines[max_lines - 1][: text_width - 1]}…"]
    echo_styled(prefix + f"\n{' ' * len(prefix)}".join(lines).rstrip(), **style)


def format_age(timestamp: float) -> str:
    seconds = max(clock.now() - timestamp, 0)
    for size, name in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {name} ago"
    return f"{seconds:.0f} s ago"
