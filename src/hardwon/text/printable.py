"""Make untrusted text safe to print: nothing in it moves the cursor, hides, or reverses the text direction."""

from __future__ import annotations


def make_printable(text: str) -> str:
    """Replace each character that is not printable by U+FFFD; newlines stay."""
    if text.isprintable():
        return text
    return "".join(c if c == "\n" or c.isprintable() else "�" for c in _normalize_spaces(text))


def _normalize_spaces(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\xa0", " ").expandtabs(4)


def to_printable_line(text: str, max_length: int = 0) -> str:
    """Return the text on one line, cut to `max_length` unless that is 0."""
    line = " ".join(make_printable(text).split())
    return line if not max_length or len(line) <= max_length else f"{line[: max_length - 1]}…"
