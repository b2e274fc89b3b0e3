"""What a transcript has of private prompts: what follows one is private up to the next.

A sub-agent's own transcript says nothing of the prompt it works for, so its session's is asked. Where anything is
marked there, or it is not there to be asked, nothing is kept of the sub-agent.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from hardwon.agents.transcript_steps import Step
from hardwon.paths import open_plain_file
from hardwon.privacy.private_tags import is_wholly_private

_TAG = b"<private"
_BLOCK = 1 << 20


class PrivateTurnTracker:
    """Owns what one transcript has said of the latest prompt."""

    def __init__(self, path: str, state: Mapping[str, Any] | None = None) -> None:
        state = state or {}
        self._path = path
        self._prompted = str(state.get("prompted", ""))  # the session whose prompt it was
        self._shut: dict[tuple[str, str], bool] = {}
        self.is_private = bool(state.get("hidden"))

    def dump_state(self) -> dict[str, Any]:
        return {"hidden": self.is_private, "prompted": self._prompted}

    def should_hide(self, step: Step) -> bool:
        """Whether a step, each in its turn, is or may be about a prompt that is private as a whole."""
        if step.kind == "person":
            self.is_private, self._prompted = is_wholly_private(step.text), step.session
        if self.is_private or not step.agent:
            return self.is_private
        # In a document the sub-agents come behind all prompts, not behind their own.
        if step.session == self._prompted and not self._path.endswith(".json"):
            return False
        key = step.session, step.agent
        if key not in self._shut:
            self._shut[key] = _is_shut(self._path, *key)
        return self._shut[key]


def has_private_parent(path: str) -> bool:
    """Whether a sub-agent worked in a session in which anything was marked as private; then nothing of it is kept."""
    return any(map(_holds_tag, _above(path)))


def _is_shut(path: str, session: str, agent: str) -> bool:
    if not os.path.isfile(path):
        return False  # in a database, which hands over nothing of those
    known = session not in ("", agent)
    if path.endswith(".json") and known:
        return any(map(_holds_tag, {path, *_beside(path, session)}))
    parents = (_above(path) or _beside(path, session)) if known else []
    return path not in parents and (not parents or any(map(_holds_tag, parents)))


def _above(path: str) -> list[str]:
    folder = os.path.dirname(path)
    parent = f"{os.path.dirname(folder)}.jsonl"
    return [parent] if os.path.basename(folder) == "subagents" and os.path.isfile(parent) else []


def _beside(path: str, session: str) -> list[str]:
    """The session's transcript in the same folder, or, as Codex has a folder for each day, in another."""
    places = [glob.escape(os.path.dirname(path))]
    for kind in ("sessions", "archived_sessions"):
        root, found, _ = path.rpartition(f"/{kind}/")
        if found:
            places += [f"{glob.escape(root)}/sessions/*/*/*", f"{glob.escape(root)}/archived_sessions"]
    found_in = (glob.glob(f"{place}/*{glob.escape(session)}.json*") for place in places)
    return next(filter(None, found_in), [])


def _holds_tag(path: str) -> bool:
    stat = os.stat(path)
    return _reads_tag(path, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=1024)
def _reads_tag(path: str, modified: int, size: int) -> bool:
    kept = b""
    with open(path, "rb", opener=open_plain_file) as file:
        while block := file.read(_BLOCK):
            if _TAG in (kept + block).lower():
                return True
            kept = block[-len(_TAG) :]
    return False
