"""The types of observations and the concepts they are about, read from `kinds.json` with the signs that tell them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib.resources import files

from hardwon.types import frozen

MAX_CONCEPTS = 5


@frozen
class ObservationLabel:
    """A type or concept. It fits if all of `when` hold and, where it names signs, one of them is found."""

    name: str
    meaning: str
    required_signs: frozenset[str]
    word_pattern: re.Pattern[str] | None
    path_pattern: re.Pattern[str] | None
    command_pattern: re.Pattern[str] | None


@lru_cache(maxsize=1)
def load_labels() -> tuple[tuple[ObservationLabel, ...], tuple[ObservationLabel, ...]]:
    """The types, the first that fits counts, and the concepts, of which several may fit."""
    table = json.loads(files("hardwon.distil").joinpath("kinds.json").read_text("utf-8"))
    return tuple(map(_kind, table["types"])), tuple(map(_kind, table["concepts"]))


def _kind(row: dict[str, object]) -> ObservationLabel:
    when = row.get("when")
    return ObservationLabel(
        name=str(row["name"]),
        meaning=str(row["meaning"]),
        required_signs=frozenset(when if isinstance(when, list) else ()),
        word_pattern=_any(row.get("words"), r"\b(?:{})\b"),
        path_pattern=_any(row.get("paths"), "(?:{})"),
        command_pattern=_any(row.get("commands"), r"(?:^|\s)(?:{})(?:\s|$)"),
    )


def _any(signs: object, frame: str) -> re.Pattern[str] | None:
    return re.compile(frame.format("|".join(signs)), re.I) if isinstance(signs, list) else None


def classify_type(what: frozenset[str], words: str) -> str:
    return next(kind.name for kind in load_labels()[0] if _fits(kind, what, words, (), ()))


def find_concepts(what: frozenset[str], words: str, paths: Sequence[str], commands: Sequence[str]) -> tuple[str, ...]:
    found = (kind.name for kind in load_labels()[1] if _fits(kind, what, words, paths, commands))
    return tuple(found)[:MAX_CONCEPTS]


def _fits(
    kind: ObservationLabel, what: frozenset[str], words: str, paths: Iterable[str], commands: Iterable[str]
) -> bool:
    if not kind.required_signs <= what:
        return False
    if not (kind.word_pattern or kind.path_pattern or kind.command_pattern):
        return True
    return bool(
        (kind.word_pattern and kind.word_pattern.search(words))
        or (kind.path_pattern and any(map(kind.path_pattern.search, paths)))
        or (kind.command_pattern and any(map(kind.command_pattern.search, commands)))
    )
