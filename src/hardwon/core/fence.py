"""The fence around everything we say to an agent, so that it can be told from a person's words and never comes back
to us as if it were new."""

from __future__ import annotations

OPEN = "<hardwon-context>"
CLOSE = "</hardwon-context>"
_ASCII_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}
_INNER = ("<hardwon-context", "</hardwon-context")


def fenced(text: str) -> str:
    """The text inside the fence, unable to close it."""
    return f"{OPEN}\n{_harmless(text)}\n{CLOSE}"


def _harmless(text: str) -> str:
    lowered = text.translate(_ASCII_LOWER)  # `lower` may change the length, and positions must agree
    for mark in _INNER:
        at = lowered.find(mark)
        while at >= 0:
            text = f"{text[:at]}‹{text[at + 1 :]}"
            lowered = f"{lowered[:at]}‹{lowered[at + 1 :]}"
            at = lowered.find(mark, at)
    return text


def outside(text: str, start: str, end: str) -> str:
    """The text without what stands between the marks; an open end reaches to the end."""
    at = text.find(start)
    if at < 0:
        return text
    parts, past = [], 0
    while at >= 0:
        parts.append(text[past:at])
        close = text.find(end, at)
        if close < 0:
            return "".join(parts)
        past = close + len(end)
        at = text.find(start, past)
    return "".join([*parts, text[past:]])
