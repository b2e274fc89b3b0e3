"""Reading a transcript in a test, whichever host it is of."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterable, Iterator
from random import Random
from typing import Any

import pytest

from hardwon.agents.transcript_steps import TRANSCRIPT_MODULES, Reader, Step

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TRANSCRIPTS = os.path.join(TESTS, "transcripts")
CORPUS = os.path.join(TESTS, "..", "..", "shared", "corpus")
FORMATS = {"claude": "claude-code", "codex": "codex", "gemini-json": "gemini"}
RECORDED = [(host, name) for host in TRANSCRIPT_MODULES for name in sorted(os.listdir(os.path.join(TRANSCRIPTS, host)))]


def recorded(host: str, name: str) -> str:
    return os.path.join(TRANSCRIPTS, host, name)


def lines_of(path: str) -> list[bytes]:
    with open(path, "rb") as file:
        return list(file)


def handed_over(host: str, path: str) -> list[bytes]:
    """The lines of a transcript; a document is handed over as one."""
    lines = lines_of(path)
    return [b"".join(lines)] if path.endswith(".json") or host == "opencode" else lines


def steps_of(reader: Reader, lines: Iterable[bytes], start: int = 1) -> list[Step]:
    return [step for number, line in enumerate(lines, start) for step in reader.read_line(number, line)]


def in_brief(found: list[Step]) -> list[tuple[Any, ...]]:
    """Each step without what is empty in it, and without its ids and folder."""
    left_out = {"id", "at", "session", "agent", "cwd", "call"}
    return [tuple(value for key, value in step._asdict().items() if value and key not in left_out) for step in found]


def corpus(host: str = "") -> Iterator[tuple[dict[str, str], str]]:
    """The rows of the index of real transcripts, each with its file's path."""
    if not os.path.isdir(CORPUS):
        pytest.skip("the real transcripts are not beside this checkout (../shared/corpus)")
    with open(os.path.join(CORPUS, "INDEX.tsv"), encoding="utf-8") as index:
        for row in csv.DictReader(index, delimiter="\t"):
            if not host or FORMATS[row["format"]] == host:
                yield row, os.path.join(CORPUS, row["file"])


DEEP, LONG = "nested 900 deep", "100 000 letters"
ODD: tuple[object, ...] = (
    *(None, 7, 1.5, True, "", "x", [], {}, ["a"], {"a": 1}, [{}], [None], -1, 1 << 70, 10**308),
    *("\ud83d", "\0", "-", DEEP, LONG, {"text": DEEP}, [LONG]),
)


def bent(wire: object, chance: Random, share: float = 0.03) -> bytes:
    """The same as a line of JSON, with a thing here and there that does not belong."""
    line = json.dumps(_bent(wire, chance, share)).encode() + b"\n"
    line = line.replace(f'"{DEEP}"'.encode(), b"[" * 900 + b"]" * 900)
    return line.replace(LONG.encode(), b"a" * 100_000)


def _bent(value: object, chance: Random, share: float) -> object:
    if chance.random() < share:
        return chance.choice(ODD)
    if isinstance(value, dict):
        return {key: _bent(inner, chance, share) for key, inner in value.items()}
    return [_bent(inner, chance, share) for inner in value] if isinstance(value, list) else value
