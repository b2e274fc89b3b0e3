"""Case, printable characters and the size of a text. The hook uses these for every call, so nothing is imported."""

from __future__ import annotations

_BYTES_PER_TOKEN = 4  # about right for English and code
_EQUIVALENT_LETTERS = (("ı", "i"), ("İ", "i"), ("ſ", "s"), ("\u212a", "k"), ("Σ", "σ"), ("ς", "σ"))


def format_count(count: int, noun: str) -> str:
    """Format a count with its noun: `1 memory`, `1,200 memories`, `2 lessons`."""
    if count == 1:
        return f"1 {noun}"
    return f"{count:,} {noun[:-1]}ies" if noun.endswith("y") else f"{count:,} {noun}s"


def fold_case(text: str) -> str:
    """Lower a text so that a plain `in` can replace a case-insensitive regex search.

    `re.IGNORECASE` treats four characters beyond ASCII as ASCII letters. `str.lower` turns one of them into two
    characters, and lowers a capital sigma depending on its neighbours. Replacing these first makes each character fold
    by itself, so a literal that occurs in a text also occurs in the folded text.
    """
    if not text.isascii():
        for variant, letter in _EQUIVALENT_LETTERS:
            text = text.replace(variant, letter)
    return text.lower()


def make_printable(text: str) -> str:
    """Replace each character that is not printable by U+FFFD; newlines stay.

    So nothing in an untrusted text moves the cursor, hides, or reverses the text direction.
    """
    if text.isprintable():
        return text
    # Spaces that are not printable but harmless become plain ones first.
    text = text.replace("\r\n", "\n").replace("\xa0", " ").expandtabs(4)
    return "".join(char if char == "\n" or char.isprintable() else "�" for char in text)


def to_printable_line(text: str, max_length: int = 0) -> str:
    """Return the text on one line, cut to `max_length` unless that is 0."""
    line = " ".join(make_printable(text).split())
    return shorten_text(line, max_length) if max_length else line


def shorten_text(text: str, max_length: int) -> str:
    """Return the text, or as much of it as fits into `max_length` with an ellipsis at its end."""
    return text if len(text) <= max_length else f"{text[: max_length - 1]}…"


def estimate_tokens(text: str) -> int:
    """Estimate a text's tokens without a tokenizer, rounded up."""
    byte_count = len(text.encode("utf-8", "replace"))
    return (byte_count + _BYTES_PER_TOKEN - 1) // _BYTES_PER_TOKEN
