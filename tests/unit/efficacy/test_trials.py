"""Firings are compared as trials, each with its outcome."""

from __future__ import annotations

import pytest

from hardwon.efficacy.proof import build_trials
from hardwon.efficacy.statistics import PROOF_THRESHOLD, compute_e_value
from hardwon.store.efficacy import Firing


def build_firing(number: int, arm: str, verdict: str, ended: str = "") -> Firing:
    return Firing(
        number,
        f"s{number}:c",
        float(number),
        "claude-code",
        f"s{number}",
        "",
        "Bash",
        "lesson",
        "slug",
        "hold",
        "v1",
        "",
        arm,
        0.5,
        verdict,
        ended,
        None,
    )


@pytest.mark.parametrize(
    ("arm", "verdict", "ended", "has_failed"),
    [
        ("live", "repeated-failed", "failed", True),
        ("live", "changed", "failed", False),
        ("live", "given-up", "", False),
        ("live", "unknown", "", True),
        ("silent", "unknown", "", False),
        ("live", "ignored", "failed", True),
        ("live", "ignored", "fine", False),
    ],
)
def test_an_unknown_outcome_counts_against_the_lesson(arm: str, verdict: str, ended: str, has_failed: bool) -> None:
    [trial] = build_trials([build_firing(1, arm, verdict, ended)])
    assert (trial.is_live, trial.has_failed) == (arm == "live", has_failed)


def test_only_drawn_and_judged_firings_count_and_one_in_a_session() -> None:
    assert build_trials([build_firing(1, "told", "changed"), build_firing(2, "live", "")]) == []
    assert len(build_trials([build_firing(3, "live", "changed"), build_firing(3, "live", "changed")])) == 1


def test_an_agent_that_ignores_denials_proves_nothing() -> None:
    firings = []
    for number in range(40):
        if number % 2:
            firings.append(build_firing(number, "live", "ignored", "failed"))
        else:
            firings.append(build_firing(number, "silent", "repeated-failed", "failed"))
    assert compute_e_value(build_trials(firings)) < PROOF_THRESHOLD
