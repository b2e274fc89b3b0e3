"""Every common shape of a wrong option, subcommand, name, program or path gives the right diagnosis and lesson.

The rows of `failure_shapes.jsonl` are written from knowledge of the programs, none from a session: the call, its output,
the kind, the word that is named, what worked, an ordinary call that the trigger must leave alone, and a part of what the
lesson says. A row without a cure only has a diagnosis.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import pytest

from hardwon.mining.episodes import NAMED_SCORE, UNNAMED_SCORE, Episode
from hardwon.mining.failed_commands import diagnose_failure
from hardwon.mining.triggers import matches_command
from tests.support.step_builder import StepBuilder


class Shape(NamedTuple):
    """A failed call, its diagnosis and its cure."""

    command: str
    output: str
    kind: str
    word: str
    cure: str = ""
    other: str = ""
    says: str = ""


ROWS = Path(__file__).with_name("failure_shapes.jsonl").read_text("utf-8").splitlines()
SHAPES = [Shape(**json.loads(row)) for row in ROWS]


def build_episode(shape: Shape) -> Episode:
    steps = StepBuilder()
    steps.fails(shape.command, f"Exit code 1\n{shape.output}")
    if shape.cure:
        steps.works(shape.cure)
    return steps.find_episodes()[0]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.command)
def test_the_kind_and_the_wrong_word_are_read_from_the_error(shape: Shape) -> None:
    episode = build_episode(shape)
    error = episode.errors[0]
    diagnosis = diagnose_failure(episode.failing_call, error.quote, error.text)
    assert (error.kind, diagnosis.word) == (shape.kind, shape.word)
    if shape.word and shape.kind in ("interface", "path"):
        signed_word = "url" if "://" in shape.word else shape.word  # every address is the same mistake
        assert error.signature.startswith("call ") and error.signature.split()[-1] == signed_word


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape.cure], ids=lambda shape: shape.command)
def test_a_cure_makes_a_lesson_whose_trigger_matches_only_the_mistake(shape: Shape) -> None:
    episode = build_episode(shape)
    assert episode.rejection == ""
    assert episode.score in (NAMED_SCORE, UNNAMED_SCORE)
    assert shape.says in episode.solution
    assert matches_command(episode.triggers, shape.command)
    assert matches_command(episode.triggers, f"cd /srv/kite && {shape.command} 2>&1 | tail -5")
    assert not matches_command(episode.triggers, shape.cure)
    assert not matches_command(episode.triggers, shape.other)


def test_errors_of_the_edited_code_are_no_wrong_word() -> None:
    outputs = {
        "pytest -k kite": "E       NameError: name 'kite' is not defined\n1 failed in 0.1s",
        "npx eslint src/kite.ts": "  3:5  error  'kite' is not defined  no-undef\n\n✖ 1 problem",
        "npx tsc --noEmit": "src/kite.ts(4,2): error TS2304: Cannot find name 'noEmit'.",
        "cargo test kite": "error[E0425]: cannot find function `kite` in this scope\n --> src/lib.rs:3:5",
        "go vet ./kite": "kite/kite.go:3:2: undefined: kite",
    }
    for command, output in outputs.items():
        steps = StepBuilder()
        steps.fails(command, f"Exit code 1\n{output}")
        assert steps.find_episodes()[0].errors[0].kind == "code", command
