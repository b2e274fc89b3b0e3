"""Load the types and concepts of observations from `kinds.json`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib.resources import files

import msgspec

MAX_CONCEPTS = 5
_WORDS, _PATHS, _COMMANDS = r"\b(?:{})\b", "(?:{})", r"(?:^|\s)(?:{})(?:\s|$)"


class ObservationLabel(msgspec.Struct, frozen=True):
    """A type or concept; it fits if all of `when` hold and, if it has patterns, one of them matches."""

    name: str
    meaning: str
    when: frozenset[str] = frozenset()
    words: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()


class _Table(msgspec.Struct):
    types: tuple[ObservationLabel, ...]
    concepts: tuple[ObservationLabel, ...]


@lru_cache(maxsize=1)
def load_labels() -> tuple[tuple[ObservationLabel, ...], tuple[ObservationLabel, ...]]:
    """Return the types, of which the first that fits applies, and the concepts, of which several may apply."""
    table = msgspec.json.decode(files("hardwon.distil").joinpath("kinds.json").read_bytes(), type=_Table)
    return table.types, table.concepts


def classify_type(signs: frozenset[str], words: str) -> str:
    return next(label.name for label in load_labels()[0] if _is_match(label, signs, words, (), ()))


def find_concepts(signs: frozenset[str], words: str, paths: Sequence[str], commands: Sequence[str]) -> tuple[str, ...]:
    names = (label.name for label in load_labels()[1] if _is_match(label, signs, words, paths, commands))
    return tuple(names)[:MAX_CONCEPTS]


def _is_match(
    label: ObservationLabel, signs: frozenset[str], words: str, paths: Iterable[str], commands: Iterable[str]
) -> bool:
    if not label.when <= signs:
        return False
    if not (label.words or label.paths or label.commands):
        return True
    rows = ((label.words, _WORDS, (words,)), (label.paths, _PATHS, paths), (label.commands, _COMMANDS, commands))
    return any(
        _compile_any(patterns, frame).search(text) for patterns, frame, texts in rows if patterns for text in texts
    )


@lru_cache(maxsize=64)
def _compile_any(patterns: tuple[str, ...], frame: str) -> re.Pattern[str]:
    return re.compile(frame.format("|".join(patterns)), re.I)
