"""A sub-agent's transcript says nothing of the prompt it works for, so its session's transcript is asked."""

from __future__ import annotations

import os
from functools import lru_cache

_TAG = b"<private"
_BLOCK = 1 << 20


def may_be_private(path: str) -> bool:
    """Whether a sub-agent worked in a session in which anything was marked as private; then nothing of it is kept."""
    folder = os.path.dirname(path)
    if os.path.basename(folder) != "subagents":
        return False
    parent = f"{os.path.dirname(folder)}.jsonl"
    try:
        stat = os.stat(parent)
    except OSError:
        return False
    return _holds_tag(parent, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=1024)
def _holds_tag(path: str, modified: int, size: int) -> bool:
    kept = b""
    with open(path, "rb") as file:
        while block := file.read(_BLOCK):
            if _TAG in (kept + block).lower():
                return True
            kept = block[-len(_TAG) :]
    return False
