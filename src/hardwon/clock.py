"""The clock and random ids. Callers pass the values down, so that code can be tested without waiting."""

from __future__ import annotations

from os import urandom
from time import gmtime, strftime, time

now = time
DUPLICATE_SECONDS = 2.0  # two hooks report the same event within this time, even on a busy machine
# Base 32 after Crockford: each character has five bits, and none is easily taken for another.
_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def format_iso(at: float) -> str:
    """Return the time in the form 2026-03-29T00:00:00Z."""
    return strftime("%Y-%m-%dT%H:%M:%SZ", gmtime(at))


def create_ulid(at: float) -> str:
    """Return a ULID: 26 characters that sort by time and do not collide."""
    milliseconds = int(at * 1000)
    number = (milliseconds << 80) | int.from_bytes(urandom(10), "big")
    # Five bits a character, the highest first, so that the texts sort as the numbers do.
    return "".join(_CROCKFORD[(number >> shift) & 31] for shift in range(125, -1, -5))


def create_suffix(length: int = 4) -> str:
    """Return a few random characters that make a slug unique."""
    return "".join(_CROCKFORD[byte & 31] for byte in urandom(length)).lower()
