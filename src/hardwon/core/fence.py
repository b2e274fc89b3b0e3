"""The fence around everything we say to an agent, so that it can be told from a person's words and never comes back
to us as if it were new."""

from __future__ import annotations

OPEN = "<hardwon-context>"
CLOSE = "</hardwon-context>"
_INNER = ("<hardwon-context", "</hardwon-context")


def fenced(text: str) -> str:
    """The text inside the fence, unable to close it."""
    return f"{OPEN}\n{_harmless(text)}\n{CLOSE}"


def _harmless(text: str) -> str:
    lowered = text.lower()
    if len(lowered) != len(text):  # a letter whose lower case is longer: positions would not agree
        lowered = text
    for mark in _INNER:
        at = lowered.find(mark)
        while at >= 0:
            text = f"{text[:at]}‹{text[at + 1 :]}"
            lowered = f"{lowered[:at]}‹{lowered[at + 1 :]}"
            at = lowered.find(mark, at)
    return text
