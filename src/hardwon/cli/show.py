"""How things look in a terminal: colours only there, JSON when asked, times as people say them."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from hardwon import clock


def at_terminal() -> bool:
    """Whether there is a person to ask."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, wide: int = -1) -> None:
    """Print rows under their headings; the `wide` column takes what room is left, the others stay whole."""
    from rich.console import Console  # 80 ms that only a table pays
    from rich.table import Table
    from rich.text import Text

    console = Console(soft_wrap=False, highlight=False)
    shown = Table(box=None, pad_edge=False, header_style="dim")
    for number, name in enumerate(columns):
        flexible = number == wide % len(columns)
        shown.add_column(name, no_wrap=not flexible, overflow="fold" if flexible else "ellipsis")
    for row in rows:
        shown.add_row(*(Text(printable(cell)) for cell in row))
    console.print(shown)


def printable(text: str) -> str:
    """Text from outside without the characters that move a terminal's cursor or turn its writing around."""
    return "".join(c if c == "\n" or (c.isprintable() and not 0x2066 <= ord(c) <= 0x2069) else "�" for c in text)


def ago(at: float) -> str:
    seconds = max(clock.now() - at, 0)
    for size, name in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {name} ago"
    return f"{seconds:.0f} s ago"
