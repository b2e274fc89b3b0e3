"""Kilo: the sessions in `kilo.db`, which has opencode's tables; `opencode.database` reads both."""

from __future__ import annotations

import os
from collections.abc import Mapping

from hardwon.agents.opencode.transcript import Reader
from hardwon.agents.transcript_steps import JsonObject

__all__ = ["Reader"]


def find_transcript_folders(environment: Mapping[str, str], home: str) -> list[str]:
    data = environment.get("XDG_DATA_HOME") or os.path.join(home, ".local", "share")
    return [os.path.join(data, "kilo")]


def is_transcript_path(path: str) -> bool:
    return False  # a saved session cannot be told from one of opencode's


def is_opening_object(wire: JsonObject) -> bool:
    return False
