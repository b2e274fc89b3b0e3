"""Read recorded transcripts of every agent in tests."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterable, Iterator
from random import Random
from typing import Any

import pytest

from hardwon.agents import TRANSCRIPT_AGENTS
from hardwon.agents.transcript_steps import Reader, Step

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TRANSCRIPTS = os.path.join(TESTS, "transcripts")
CORPUS = os.path.join(TESTS, "..", "..", "shared", "corpus")
FORMATS = {"claude": "claude-code", "codex": "codex", "gemini-json": "gemini"}
RECORDED = [(host, name) for host in TRANSCRIPT_AGENTS for name in sorted(os.listdir(os.path.join(TRANSCRIPTS, host)))]


def find_recording(host: str, name: str) -> str:
    return os.path.join(TRANSCRIPTS, host, name)


def read_lines(path: str) -> list[bytes]:
    with open(path, "rb") as file:
        return list(file)


def read_history_lines(host: str, path: str) -> list[bytes]:
    """Return the lines of a transcript; a JSON document is a single line."""
    lines = read_lines(path)
    return [b"".join(lines)] if path.endswith(".json") or host in ("opencode", "kilo", "cline") else lines


def read_steps(reader: Reader, lines: Iterable[bytes], start: int = 1) -> list[Step]:
    return [step for number, line in enumerate(lines, start) for step in reader.read_line(number, line)]


def summarize_steps(steps: list[Step]) -> list[tuple[Any, ...]]:
    """Return the fields of each step that have a value, without ids and folder."""
    omitted_fields = {"id", "at", "session", "subagent_id", "cwd", "call"}
    return [
        tuple(value for key, value in step._asdict().items() if value and key not in omitted_fields) for step in steps
    ]


def list_corpus_files(host: str = "") -> Iterator[tuple[dict[str, str], str]]:
    """Yield the rows of the index of real transcripts, each with its file's path."""
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


def distort_json(wire: object, dice: Random, share: float = 0.03) -> bytes:
    """Return a line of JSON in which some values are replaced by odd ones."""
    line = json.dumps(_distort_value(wire, dice, share)).encode() + b"\n"
    line = line.replace(f'"{DEEP}"'.encode(), b"[" * 900 + b"]" * 900)
    return line.replace(LONG.encode(), b"a" * 100_000)


def _distort_value(value: object, dice: Random, share: float) -> object:
    if dice.random() < share:
        return dice.choice(ODD)
    if isinstance(value, dict):
        return {key: _distort_value(inner, dice, share) for key, inner in value.items()}
    return [_distort_value(inner, dice, share) for inner in value] if isinstance(value, list) else value
