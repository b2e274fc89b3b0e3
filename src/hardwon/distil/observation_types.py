"""The types of observations and the concepts they are about, read from `kinds.json` with the signs that tell them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib.resources import files

from hardwon.types import word

MOST_CONCEPTS = 5


@word
class Kind:
    """A type or concept. It fits if all of `when` hold and, where it names signs, one of them is found."""

    name: str
    meaning: str
    when: frozenset[str]
    words: re.Pattern[str] | None
    paths: re.Pattern[str] | None
    commands: re.Pattern[str] | None


@lru_cache(maxsize=1)
def kinds() -> tuple[tuple[Kind, ...], tuple[Kind, ...]]:
    """The types, the first that fits counts, and the concepts, of which several may fit."""
    table = json.loads(files("hardwon.distil").joinpath("kinds.json").read_text("utf-8"))
    return tuple(map(_kind, table["types"])), tuple(map(_kind, table["concepts"]))


def _kind(row: dict[str, object]) -> Kind:
    when = row.get("when")
    return Kind(
        name=str(row["name"]),
        meaning=str(row["meaning"]),
        when=frozenset(when if isinstance(when, list) else ()),
        words=_any(row.get("words"), r"\b(?:{})\b"),
        paths=_any(row.get("paths"), "(?:{})"),
        commands=_any(row.get("commands"), r"(?:^|\s)(?:{})(?:\s|$)"),
    )


def _any(signs: object, frame: str) -> re.Pattern[str] | None:
    return re.compile(frame.format("|".join(signs)), re.I) if isinstance(signs, list) else None


def type_of(what: frozenset[str], words: str) -> str:
    return next(kind.name for kind in kinds()[0] if _fits(kind, what, words, (), ()))


def concepts_of(what: frozenset[str], words: str, paths: Sequence[str], commands: Sequence[str]) -> tuple[str, ...]:
    found = (kind.name for kind in kinds()[1] if _fits(kind, what, words, paths, commands))
    return tuple(found)[:MOST_CONCEPTS]


def _fits(kind: Kind, what: frozenset[str], words: str, paths: Iterable[str], commands: Iterable[str]) -> bool:
    if not kind.when <= what:
        return False
    if not (kind.words or kind.paths or kind.commands):
        return True
    return bool(
        (kind.words and kind.words.search(words))
        or (kind.paths and any(map(kind.paths.search, paths)))
        or (kind.commands and any(map(kind.commands.search, commands)))
    )
