"""`make bench-repeats` counts repeated failures as documented, on made-up sessions."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from product import Proposal
from repeats import (
    FAILED,
    FINE,
    NOT_RUN,
    OTHER_FAILURE,
    RIGHT,
    Label,
    Project,
    Tally,
    Trials,
    judge_firing,
    label_by_list,
    label_by_rule,
    read_projects,
)

WRONG_CALL = ("pytest --parallel 4", "Exit code 4\npytest: error: unrecognized arguments: --parallel", True)
RIGHT_CALL = ("pytest -n 4", "12 passed", False)
HIDDEN_FAILURE = ("grep -rn x --include=*.py . | head", "(eval):1: no matches found: --include=*.py", False)

Turn = tuple[str, str, bool]  # command, result, failed


def write_session(corpus: Path, name: str, day: int, turns: Iterable[Turn], *, last_day: int = 0) -> None:
    """Write a Claude Code transcript of Bash calls; `last_day` is when the last one was made."""
    lines: list[dict[str, Any]] = []
    calls = list(turns)
    for number, (command, result, is_failed) in enumerate(calls):
        is_last = number == len(calls) - 1
        at = f"2026-01-{last_day if last_day and is_last else day:02}T10:{number:02}:00.000Z"
        common_fields = {"sessionId": name, "cwd": "/made/up", "timestamp": at}
        call_id = f"toolu_{name}_{number}"
        tool_use = {"type": "tool_use", "id": call_id, "name": "Bash", "input": {"command": command}}
        tool_result = {"type": "tool_result", "tool_use_id": call_id, "content": result, "is_error": is_failed}
        for kind, role, block in (("assistant", "assistant", tool_use), ("user", "user", tool_result)):
            message = {"role": role, "content": [block]}
            lines.append({**common_fields, "type": kind, "uuid": f"{name}-{number}-{kind}", "message": message})
    folder = corpus / "claude" / "made+up"
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")


def read_project(corpus: Path) -> Project:
    (project,) = read_projects(str(corpus))
    return project


def find_repeats(project: Project, labels: dict[str, Label]) -> list[str]:
    """Return the ids of the calls that count as repeats."""
    calls = [call for session in project.sessions for call in session.calls]
    return [call.call_id for call in calls if labels[call.key].is_repeat]


def test_a_failure_of_an_ended_session_is_a_repeat_the_first_time_only(tmp_path: Path) -> None:
    write_session(tmp_path, "one", 1, [WRONG_CALL, RIGHT_CALL])
    write_session(tmp_path, "two", 2, [("ls", "README.md", False), WRONG_CALL, WRONG_CALL, RIGHT_CALL])
    project = read_project(tmp_path)
    labels = label_by_rule(project)
    assert find_repeats(project, labels) == ["toolu_two_1"]
    assert [labels[call.key].outcome for call in project.sessions[1].calls] == [FINE, FAILED, FAILED, FINE]
    assert labels[project.sessions[1].calls[1].key].kind == "wrong-option"


def test_a_session_that_had_not_ended_teaches_nothing(tmp_path: Path) -> None:
    write_session(tmp_path, "one", 1, [WRONG_CALL, RIGHT_CALL], last_day=3)
    write_session(tmp_path, "two", 2, [WRONG_CALL])
    project = read_project(tmp_path)
    assert find_repeats(project, label_by_rule(project)) == []


def test_another_failure_is_no_repeat(tmp_path: Path) -> None:
    write_session(tmp_path, "one", 1, [WRONG_CALL])
    write_session(tmp_path, "two", 2, [("gh pr view", "gh: could not find any commits", True)])
    project = read_project(tmp_path)
    assert find_repeats(project, label_by_rule(project)) == []


def make_row(call: str, line: int, **changes: Any) -> dict[str, Any]:
    row = {
        "project": "made+up",
        "file": "claude/made+up/two.jsonl",
        "call": call,
        "line": line,
        "kind": "environment",
        "cause": "zsh-unquoted-glob",
        "first": True,
        "mistake": True,
    }
    return {**row, **changes}


def test_the_judged_list_decides_which_calls_are_repeats(tmp_path: Path) -> None:
    write_session(tmp_path, "one", 1, [WRONG_CALL])
    write_session(tmp_path, "two", 2, [WRONG_CALL, HIDDEN_FAILURE])
    project = read_project(tmp_path)
    rows = [make_row("toolu_two_1", 3), make_row("toolu_two_0", 1, mistake=False)]
    labels = label_by_list(project, rows, str(tmp_path))
    assert find_repeats(project, labels) == ["toolu_two_1"]
    label = labels[project.sessions[1].calls[1].key]
    assert (label.outcome, label.recorded_outcome, label.cause) == (FAILED, FINE, "zsh-unquoted-glob")


def test_a_pointer_to_a_call_that_is_gone_stops_the_run(tmp_path: Path) -> None:
    write_session(tmp_path, "one", 1, [WRONG_CALL])
    write_session(tmp_path, "two", 2, [WRONG_CALL])
    project = read_project(tmp_path)
    with pytest.raises(SystemExit, match="toolu_gone"):
        label_by_list(project, [make_row("toolu_gone", 1)], str(tmp_path))


@pytest.mark.parametrize(
    ("outcome", "cause", "verdict"),
    [
        (FAILED, "wrong option", RIGHT),
        (FAILED, "another", OTHER_FAILURE),
        (FAILED, "", OTHER_FAILURE),
        (FINE, "", FINE),
        (NOT_RUN, "", NOT_RUN),
    ],
)
def test_a_firing_is_right_only_on_the_mistake_it_is_about(outcome: str, cause: str, verdict: str) -> None:
    assert judge_firing(Label(outcome, outcome, cause), frozenset({"wrong option"})) == verdict


@pytest.mark.parametrize(
    ("pattern", "counts", "passes"), [(r"--parallel\b", (2, 0), True), (r"\bpytest\b", (2, 3), False)]
)
def test_the_gate_asks_whether_half_of_the_recorded_firings_failed(
    tmp_path: Path, pattern: str, counts: tuple[int, int], passes: bool
) -> None:
    write_session(tmp_path, "one", 1, [WRONG_CALL, RIGHT_CALL, WRONG_CALL, RIGHT_CALL, RIGHT_CALL])
    project = read_project(tmp_path)
    trials = Trials(label_by_rule(project))
    trials.record(project.sessions[0].calls)
    record = {
        "summary": "pytest --parallel does not exist here",
        "problem": "pytest has no option --parallel in this project",
        "solution": "use pytest -n to run tests in parallel",
        "delivery": "note",
        "triggers": {"toolNames": ["Bash"], "commandPatterns": [pattern]},
        "priority": 5,
        "confidence": 0.9,
        "tags": ["tool:pytest"],
    }
    proposal = Proposal("01J0000000000000000000TEST", "signature", 0.5, record, ())
    assert trials.count(proposal) == counts
    assert trials.passes_gate(proposal) is passes


def test_a_tally_is_summed_over_projects_and_divided_once() -> None:
    total = Tally()
    for tally in (Tally(calls=900, right=3, fine=1, fine_calls_told=1), Tally(calls=100, right=0, other_failure=1)):
        total.add(tally)
    total.repeats.update({"path": 3, "wrong-option": 1})
    total.held.update({"wrong-option": 1})
    assert total.precision == pytest.approx(0.6)
    assert total.false_per_1000 == pytest.approx(1.0)
    assert (total.held_share(), total.held_share(("wrong-option",))) == (0.25, 1.0)
    assert Tally().precision == Tally().held_share() == 0.0
