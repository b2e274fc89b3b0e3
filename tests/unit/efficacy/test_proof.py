"""The test and the interval are valid for any base rate and any number of looks; firings are compared as trials."""

from __future__ import annotations

import random

import pytest

from hardwon.efficacy.proof import (
    PROOF_THRESHOLD,
    Trial,
    build_trials,
    compute_e_value,
    compute_pooled_share,
    compute_prevented_share,
)
from hardwon.store.efficacy import Firing


def draw_trials(
    count: int, rate_without: float, rate_with: float, *, seed: int = 1, drift: float = 0.0, silent: float = 0.5
) -> list[Trial]:
    generator = random.Random(seed)
    trials = []
    for number in range(count):
        is_live = generator.random() >= silent
        rate = (rate_with if is_live else rate_without) * (1 - drift * number / count)
        trials.append(Trial(is_live, 1 - silent, generator.random() < rate))
    return trials


def test_without_trials_there_is_no_evidence_and_no_interval() -> None:
    assert compute_e_value([]) == 1.0
    assert compute_prevented_share([]) is None


def test_a_strong_effect_is_evident_after_a_few_trials_and_none_is_not() -> None:
    assert compute_e_value(draw_trials(25, 0.9, 0.1)) > PROOF_THRESHOLD
    assert compute_e_value(draw_trials(200, 0.5, 0.5)) < PROOF_THRESHOLD


def test_a_harmful_lesson_is_never_proven() -> None:
    assert compute_e_value(draw_trials(200, 0.1, 0.9)) < 1.0


def test_a_drifting_rate_without_an_effect_is_no_evidence() -> None:
    values = [compute_e_value(draw_trials(100, 0.9, 0.9, seed=seed, drift=0.9)) for seed in range(200)]
    assert sum(value >= PROOF_THRESHOLD for value in values) <= 2


@pytest.mark.parametrize(("rate_without", "rate_with"), [(0.9, 0.1), (0.8, 0.4), (0.6, 0.6)])
def test_the_interval_has_the_true_share_and_narrows(rate_without: float, rate_with: float) -> None:
    wide_interval, narrow_interval = (
        compute_prevented_share(draw_trials(count, rate_without, rate_with, drift=0.5)) for count in (30, 600)
    )
    assert wide_interval and narrow_interval
    assert narrow_interval.low <= 100 * (1 - rate_with / rate_without) <= narrow_interval.high
    assert narrow_interval.high - narrow_interval.low < wide_interval.high - wide_interval.low


def test_lessons_that_do_nothing_are_not_made_to_help_by_pooling_them() -> None:
    """Pool a frequent mistake with many silent sessions and a rare one with few, whose arms differ in rate."""
    claims = 0
    for seed in range(100):
        frequent = draw_trials(80, 0.9, 0.9, seed=seed)
        rare = draw_trials(600, 0.02, 0.02, seed=seed + 1_000, silent=0.2)
        share = compute_pooled_share(frequent + rare)
        claims += bool(share and share.low > 0)
    assert claims <= 5


def test_the_pooled_interval_has_the_true_share() -> None:
    trials = draw_trials(300, 0.9, 0.09) + draw_trials(300, 0.2, 0.02, seed=2, silent=0.2)
    share = compute_pooled_share(trials)
    assert share and 60 <= share.low <= 90 <= share.high < 100
    assert compute_pooled_share([]) is None


def test_the_order_of_trials_makes_no_difference() -> None:
    trials = draw_trials(30, 0.9, 0.2)
    assert compute_e_value(trials) == pytest.approx(compute_e_value(trials[::-1]))


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
