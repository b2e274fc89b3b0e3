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
_NAME = 10
_BREAKS = re.compile(r"(\s+)|(?<=\w/)")  # a path is longer than a line, and is best broken where a folder ends


def is_interactive() -> bool:
    """Whether there is a person to ask."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def echo_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, wide_column: int = -1) -> None:
    """Print rows under their headings; the `wide` column takes what room is left, the others stay whole."""
    from rich.console import Console  # 80 ms that only a table pays
    from rich.table import Table
    from rich.text import Text

    console = Console(soft_wrap=False, highlight=False)
    shown = Table(box=None, pad_edge=False, header_style="" if _is_plain() else "dim")
    for number, name in enumerate(columns):
        flexible = number == wide_column % len(columns)
        shown.add_column(name, no_wrap=not flexible, overflow="fold" if flexible else "ellipsis")
    for row in rows:
        shown.add_row(*(Text(make_printable(cell)) for cell in row))
    console.print(shown)


def get_width() -> int:
    return max(min(shutil.get_terminal_size().columns, MAX_WIDTH), 40)


def echo_styled(text: str, *, err: bool = False, nl: bool = True, **style: Any) -> None:
    """A line in bold, dim or a colour, unless the person wants none of that."""
    click.echo(text if _is_plain() or not style else click.style(text, **style), err=err, nl=nl)


def _is_plain() -> bool:
    return bool(os.environ.get("NO_COLOR"))


def echo_field(name: str, text: str, *, indent: int = 3, **how: Any) -> None:
    """A name and what it stands for."""
    echo_indented(f"{' ' * indent}{name:<{_NAME}}", text, **how)


def echo_indented(lead: str, text: str, *, most: int = 0, **style: Any) -> None:
    """Text from outside behind words of ours, at most so many lines of it.

    Every further line is indented, so that it cannot look like words of ours.
    """
    room = get_width() - len(lead)
    wrapper = textwrap.TextWrapper(room, break_on_hyphens=False)
    wrapper.wordsep_simple_re = _BREAKS
    lines = [part for line in make_printable(text).split("\n") for part in wrapper.wrap(line) or [""]]
    if most and len(lines) > most:
        lines = [*lines[: most - 1], f"{lines[most - 1][: room - 1]}…"]
    echo_styled(lead + f"\n{' ' * len(lead)}".join(lines).rstrip(), **style)


def format_age(at: float) -> str:
    seconds = max(clock.now() - at, 0)
    for size, name in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {name} ago"
    return f"{seconds:.0f} s ago"
