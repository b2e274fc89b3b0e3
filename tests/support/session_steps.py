"""The steps of real sessions: recorded ones, and those of the corpus where it is beside this checkout."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from hardwon.agents.transcript_steps import Step, load_transcript_module

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RECORDED = os.path.join(TESTS, "transcripts")
CORPUS = os.path.join(TESTS, "..", "..", "shared", "corpus")


def list_recorded_sessions() -> list[tuple[str, list[Step]]]:
    return [
        session
        for host in sorted(os.listdir(RECORDED))
        for session in _list_sessions_below(os.path.join(RECORDED, host), host)
    ]


def list_corpus_sessions() -> Iterator[tuple[str, list[Step]]]:
    if not os.path.isdir(CORPUS):
        pytest.skip("the corpus of real transcripts is not beside this checkout (../shared/corpus)")
    for folder, host in (("claude", "claude-code"), ("codex", "codex"), ("gemini", "gemini")):
        yield from _list_sessions_below(os.path.join(CORPUS, folder), host)


def _list_sessions_below(top: str, host: str) -> Iterator[tuple[str, list[Step]]]:
    for folder, _, names in sorted(os.walk(top)):
        for name in sorted(names):
            if name.endswith((".json", ".jsonl")):
                yield name, _read_steps(os.path.join(folder, name), host)


def _read_steps(path: str, host: str) -> list[Step]:
    reader = load_transcript_module(host).Reader()
    with open(path, "rb") as file:
        lines = [file.read()] if host in ("opencode", "kilo", "cline") else list(file)
    return [step for number, line in enumerate(lines, 1) for step in reader.read_line(number, line)]
