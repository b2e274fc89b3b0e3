"""Real programs, called wrongly and recorded, give the right kind, word and trigger, however an agent wraps the call.

Each row of `recorded_failures.jsonl` is a run of an installed program: the call, its exit code and output, the kind and
the word that a reader would name, what works instead, and an ordinary call that the trigger must leave alone. The rules
were written with the first three sets in view. The fourth has other programs; it was drawn at random before any of its
results were seen and is kept back: measure on it, and do not read it to improve a rule. The fifth and sixth are written from
knowledge of more programs and were divided by chance before any result was seen; the sixth is kept back too. The floors
are what was reached: a change to the rules may raise them.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from hardwon.mining.failed_commands import diagnose_failure
from hardwon.mining.triggers import matches_command
from tests.support.step_builder import StepBuilder

Row = dict[str, Any]
TABLE = Path(__file__).with_name("recorded_failures.jsonl").read_text("utf-8").splitlines()
ROWS: list[Row] = [json.loads(line) for line in TABLE]


class Form(NamedTuple):
    """How an agent writes a call, whether its failure shows in the exit code, and the floors of the six sets."""

    name: str
    wrap: Callable[[str], str]
    is_reported: bool
    floors: tuple[int, ...]


FORMS = (
    Form("alone", lambda command: command, True, (136, 66, 41, 37, 56, 55)),
    Form("assignment", lambda command: f"CI=1 LANG=C {command}", True, (136, 66, 41, 37, 56, 54)),
    Form("chain", lambda command: f"git status --short && {command} && echo done", True, (136, 67, 40, 37, 55, 53)),
    Form(
        "script",
        lambda command: f"# check it\nset -e\ncd /srv/kite\n{command}\necho 'all done'\n",
        True,
        (136, 67, 41, 37, 56, 55),
    ),
    Form("shell", lambda command: f"bash -lc {shlex.quote(command)}", True, (135, 66, 41, 37, 55, 55)),
    Form("timeout", lambda command: f"timeout 60 {command}", True, (136, 66, 41, 37, 56, 54)),
    Form("subshell", lambda command: f"(cd sub && {command}) 2>&1 | head -40", False, (119, 61, 41, 35, 50, 49)),
    Form("pipe", lambda command: f"cd /srv/kite && {command} 2>&1 | tail -20", False, (119, 61, 41, 35, 50, 49)),
    Form("or true", lambda command: f"{command} || true", False, (117, 61, 41, 35, 50, 49)),
    Form("exit echoed", lambda command: f"{command}; echo done", False, (119, 61, 41, 35, 50, 49)),
)


def find_mistakes(row: Row, form: Form) -> list[str]:
    """Return what a lesson from this failure would have wrong."""
    steps = StepBuilder()
    status = f"Exit code {row['exit']}\n" if form.is_reported else ""
    call = steps.call("Bash", command=form.wrap(row["command"]))
    steps.result(call, status + row["output"], failed=form.is_reported)
    if row["cure"]:
        steps.works(form.wrap(row["cure"]))
    episodes = steps.find_episodes()
    if not episodes:
        return ["not seen as failed"]
    error, triggers = episodes[0].errors[0], episodes[0].triggers
    word = diagnose_failure(steps.steps[0], error.quote, error.text).word
    mistakes = [f"{name}: {value}" for name, value in (("kind", error.kind), ("word", word)) if value != row[name]]
    if not row["cure"] or row["kind"] == "environment":
        return mistakes
    if episodes[0].rejection:
        return [*mistakes, episodes[0].rejection]
    if not matches_command(triggers, row["command"]):
        mistakes.append("the trigger misses the call")
    mistakes += [f"the trigger meets {row[key]}" for key in ("cure", "other") if matches_command(triggers, row[key])]
    return mistakes


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_most_recorded_failures_make_the_right_lesson(form: Form) -> None:
    for number, floor in enumerate(form.floors, start=1):
        rows = [row for row in ROWS if row["set"] == number]
        mistakes_by_command = {row["command"]: mistakes for row in rows if (mistakes := find_mistakes(row, form))}
        assert len(rows) - len(mistakes_by_command) >= floor, mistakes_by_command
