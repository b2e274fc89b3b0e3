"""The values that reflecting on a session works with; those that the store knows too are in `core/reflected.py`."""

from __future__ import annotations

from hardwon.core.reflected import NOTHING_KNOWN, TARGETS, Earlier, Evidence, Finding, Handed, Noted, Past, Remembered
from hardwon.hosts.history import Step
from hardwon.words import word

__all__ = [
    "NOTHING_KNOWN",
    "TARGETS",
    "Earlier",
    "Evidence",
    "Exchange",
    "Finding",
    "Handed",
    "Noted",
    "Past",
    "Remembered",
    "Step",
    "Story",
]


@word
class Story:
    """One transcript, read whole and cleaned: private turns are not in it, nor what we said ourselves.

    `tokens` is an estimate of all that was said, called and answered; times are in seconds, 0 if the host tells none.
    """

    path: str
    host: str
    session: str
    project: str
    cwd: str
    steps: tuple[Step, ...]
    began: float
    ended: float
    tokens: int


@word
class Exchange:
    """What a person asked, None before they first did, and every step until they spoke again."""

    asked: Step | None
    steps: tuple[Step, ...]
