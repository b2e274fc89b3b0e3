"""Text from outside, made fit to be shown: nothing in it moves a cursor, hides, or turns the writing around."""

from __future__ import annotations


def make_printable(text: str) -> str:
    """The text on its lines; each character that is not a visible one is shown as the sign for such."""
    if text.isprintable():
        return text
    return "".join(c if c == "\n" or c.isprintable() else "�" for c in _normalize_spaces(text))


def _normalize_spaces(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\xa0", " ").expandtabs(4)


def to_printable_line(text: str, max_length: int = 0) -> str:
    """The text on one line, cut to so many characters."""
    line = " ".join(make_printable(text).split())
    return line if not max_length or len(line) <= max_length else f"{line[: max_length - 1]}…"
