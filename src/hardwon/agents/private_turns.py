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

_PRIVATE_TAG = b"<private"
_BLOCK_BYTES = 1 << 20


class PrivateTurnTracker:
    """Owns what one transcript has said of the latest prompt."""

    def __init__(self, path: str, state: Mapping[str, Any] | None = None) -> None:
        state = state or {}
        self._path = path
        self._prompt_session = str(state.get("prompted", ""))  # the session whose prompt it was
        self._hidden_agents: dict[tuple[str, str], bool] = {}
        self.is_private = bool(state.get("hidden"))

    def dump_state(self) -> dict[str, Any]:
        return {"hidden": self.is_private, "prompted": self._prompt_session}

    def should_hide(self, step: Step) -> bool:
        """Whether a step, each in its turn, is or may be about a prompt that is private as a whole."""
        if step.kind == "person":
            self.is_private, self._prompt_session = is_wholly_private(step.text), step.session
        if self.is_private or not step.agent:
            return self.is_private
        # In a document the sub-agents come behind all prompts, not behind their own.
        if step.session == self._prompt_session and not self._path.endswith(".json"):
            return False
        key = step.session, step.agent
        if key not in self._hidden_agents:
            self._hidden_agents[key] = _is_hidden_subagent(self._path, *key)
        return self._hidden_agents[key]


def has_private_parent(path: str) -> bool:
    """Whether a sub-agent worked in a session in which anything was marked as private; then nothing of it is kept."""
    return any(map(_has_private_tag, _find_parent_above(path)))


def _is_hidden_subagent(path: str, session: str, agent: str) -> bool:
    if not os.path.isfile(path):
        return False  # in a database, which hands over nothing of those
    has_session = session not in ("", agent)
    if path.endswith(".json") and has_session:
        return any(map(_has_private_tag, {path, *_find_session_nearby(path, session)}))
    parents = (_find_parent_above(path) or _find_session_nearby(path, session)) if has_session else []
    return path not in parents and (not parents or any(map(_has_private_tag, parents)))


def _find_parent_above(path: str) -> list[str]:
    folder = os.path.dirname(path)
    parent = f"{os.path.dirname(folder)}.jsonl"
    return [parent] if os.path.basename(folder) == "subagents" and os.path.isfile(parent) else []


def _find_session_nearby(path: str, session: str) -> list[str]:
    """The session's transcript in the same folder, or, as Codex has a folder for each day, in another."""
    folders = [glob.escape(os.path.dirname(path))]
    for folder_name in ("sessions", "archived_sessions"):
        root, separator, _ = path.rpartition(f"/{folder_name}/")
        if separator:
            folders += [f"{glob.escape(root)}/sessions/*/*/*", f"{glob.escape(root)}/archived_sessions"]
    matches = (glob.glob(f"{folder}/*{glob.escape(session)}.json*") for folder in folders)
    return next(filter(None, matches), [])


def _has_private_tag(path: str) -> bool:
    stat = os.stat(path)
    return _scan_for_tag(path, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=1024)
def _scan_for_tag(path: str, modified: int, size: int) -> bool:
    overlap = b""
    with open(path, "rb", opener=open_plain_file) as file:
        while block := file.read(_BLOCK_BYTES):
            if _PRIVATE_TAG in (overlap + block).lower():
                return True
            overlap = block[-len(_PRIVATE_TAG) :]
    return False
