"""Conversations with questions whose answers' places are known, read for the recall benchmarks.

The file is LoCoMo's: each conversation has sessions of turns, each question names the turns that hold its answer. The
fifth category asks about what was never said, so it has no place to find and is left out, and so is a question none of
whose named turns exists.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.normpath(os.path.join(HERE, "..", "..", "shared", "bench", "locomo-dev.json"))
CATEGORIES = (1, 2, 3, 4)
CUTS = (1, 5, 10, 20)

_PLACE = re.compile(r"D:?(\d+):(\d+)")
_SESSION = re.compile(r"session_(\d+)")


@dataclass(frozen=True)
class Turn:
    """One turn: its place, who said it, when its session was, the words, and what a picture sent along shows."""

    id: str
    session: int
    date: str
    speaker: str
    words: str
    picture: str

    @property
    def text(self) -> str:
        picture_note = f" [picture: {self.picture}]" if self.picture else ""
        return f"{self.speaker}: {self.words}{picture_note}"


@dataclass(frozen=True)
class Question:
    words: str
    category: int
    evidence: frozenset[str]


@dataclass(frozen=True)
class Conversation:
    """The turns in the order they were said, and what is asked about them."""

    name: str
    turns: tuple[Turn, ...]
    questions: tuple[Question, ...]


def read_conversations(path: str = "") -> list[Conversation]:
    """Every conversation of a file, by default the one named by DATA or else the shared half."""
    with open(path or os.environ.get("DATA") or DATA, encoding="utf-8") as file:
        return [_parse_conversation(sample) for sample in json.load(file)]


def compute_recall(found_ids: Sequence[str], evidence: frozenset[str], cut: int) -> float:
    """The share of the evidence among the first so many that were found."""
    return len(evidence.intersection(found_ids[:cut])) / len(evidence)


def _parse_conversation(sample: dict[str, Any]) -> Conversation:
    talk = sample["conversation"]
    numbers = sorted(int(match[1]) for key in talk if (match := _SESSION.fullmatch(key)))
    turns = tuple(
        Turn(
            id=_parse_places(turn["dia_id"])[0],
            session=number,
            date=talk.get(f"session_{number}_date_time", ""),
            speaker=turn["speaker"],
            words=turn["text"],
            picture=turn.get("blip_caption", ""),
        )
        for number in numbers
        for turn in talk[f"session_{number}"]
    )
    turn_ids = {turn.id for turn in turns}
    questions = (
        Question(row["question"], row["category"], frozenset(turn_ids & set(_parse_places(" ".join(row["evidence"])))))
        for row in sample["qa"]
        if row["category"] in CATEGORIES
    )
    return Conversation(sample["sample_id"], turns, tuple(row for row in questions if row.evidence))


def _parse_places(text: str) -> list[str]:
    """Places as `D8:6`; some in the file are written together, with a colon too many, or with leading zeros."""
    return [f"D{int(session)}:{int(turn)}" for session, turn in _PLACE.findall(text)]
