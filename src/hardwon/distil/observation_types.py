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
    return tuple(map(_parse_label, table["types"])), tuple(map(_parse_label, table["concepts"]))


def _parse_label(row: dict[str, object]) -> ObservationLabel:
    signs = row.get("when")
    return ObservationLabel(
        name=str(row["name"]),
        meaning=str(row["meaning"]),
        required_signs=frozenset(signs if isinstance(signs, list) else ()),
        word_pattern=_compile_any(row.get("words"), r"\b(?:{})\b"),
        path_pattern=_compile_any(row.get("paths"), "(?:{})"),
        command_pattern=_compile_any(row.get("commands"), r"(?:^|\s)(?:{})(?:\s|$)"),
    )


def _compile_any(signs: object, frame: str) -> re.Pattern[str] | None:
    return re.compile(frame.format("|".join(signs)), re.I) if isinstance(signs, list) else None


def classify_type(signs: frozenset[str], words: str) -> str:
    return next(label.name for label in load_labels()[0] if _is_match(label, signs, words, (), ()))


def find_concepts(signs: frozenset[str], words: str, paths: Sequence[str], commands: Sequence[str]) -> tuple[str, ...]:
    names = (label.name for label in load_labels()[1] if _is_match(label, signs, words, paths, commands))
    return tuple(names)[:MAX_CONCEPTS]


def _is_match(
    label: ObservationLabel, signs: frozenset[str], words: str, paths: Iterable[str], commands: Iterable[str]
) -> bool:
    if not label.required_signs <= signs:
        return False
    if not (label.word_pattern or label.path_pattern or label.command_pattern):
        return True
    return bool(
        (label.word_pattern and label.word_pattern.search(words))
        or (label.path_pattern and any(map(label.path_pattern.search, paths)))
        or (label.command_pattern and any(map(label.command_pattern.search, commands)))
    )
