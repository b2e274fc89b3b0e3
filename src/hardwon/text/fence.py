"""The fence around hardwon's text for agents, which tells it from a person's words and keeps it from being recorded."""

from __future__ import annotations

FENCE_OPEN = "<hardwon-context>"
FENCE_CLOSE = "</hardwon-context>"
SECTION_SEPARATOR = "\n\n"  # between lessons, and between the sections of a brief
_ASCII_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}
_FENCE_TAGS = ("<hardwon-context", "</hardwon-context")
# Characters that hide or reverse text or control a terminal: controls except tab and newline, direction marks,
# zero-width spaces, and the invisible tag characters that smuggle text into prompts. Joiners stay, because scripts and
# emoji use them.
_INVISIBLE_RANGES = (
    (0x00, 0x08),
    (0x0B, 0x0C),
    (0x0E, 0x1F),
    (0x7F, 0x84),
    (0x86, 0x9F),
    (0x061C, 0x061C),
    (0x180E, 0x180E),
    (0x200B, 0x200B),
    (0x200E, 0x200F),
    (0x202A, 0x202E),
    (0x2060, 0x2064),
    (0x2066, 0x206F),
    (0xFEFF, 0xFEFF),
    (0xFFF9, 0xFFFB),
    (0xE0000, 0xE007F),
)
_STRIP_TABLE = dict.fromkeys([code for first, last in _INVISIBLE_RANGES for code in range(first, last + 1)])
_STRIP_TABLE |= {0x0D: "\n", 0x85: "\n", 0x2028: "\n", 0x2029: "\n"}  # other line ends


def strip_invisible(text: str) -> str:
    """Remove invisible characters, and turn every line end into a newline."""
    return text if text.isprintable() and text.isascii() else text.replace("\r\n", "\n").translate(_STRIP_TABLE)


def fence_text(text: str) -> str:
    """Return the text inside the fence, with fence tags in it escaped."""
    # Invisible characters go first: removing them later could leave a tag that closes the fence.
    return f"{FENCE_OPEN}\n{_escape_fence_tags(strip_invisible(text))}\n{FENCE_CLOSE}"


def fence_denial(text: str) -> str:
    """Return the text inside the fence, its first line beside the tag: agents show the person only that line."""
    return fence_text(text).replace(f"{FENCE_OPEN}\n", f"{FENCE_OPEN} ", 1)


def _escape_fence_tags(text: str) -> str:
    lowered = text.translate(_ASCII_LOWER)  # `str.lower` may change the length, and positions must match
    for fence_tag in _FENCE_TAGS:
        position = lowered.find(fence_tag)
        while position >= 0:
            text = f"{text[:position]}‹{text[position + 1 :]}"
            lowered = f"{lowered[:position]}‹{lowered[position + 1 :]}"
            position = lowered.find(fence_tag, position)
    return text


def remove_between(text: str, start: str, end: str) -> str:
    """Remove the marks and everything between them; without an end mark, remove the rest of the text."""
    position = text.find(start)
    if position < 0:
        return text
    parts, read_position = [], 0
    while position >= 0:
        parts.append(text[read_position:position])
        end_position = text.find(end, position)
        if end_position < 0:
            return "".join(parts)
        read_position = end_position + len(end)
        position = text.find(start, read_position)
    return "".join([*parts, text[read_position:]])
