"""Confidence and priority of candidates; the captured cases are those of lessons-learned."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from hardwon import settings
from hardwon.mining.mined_episodes import rate_block_confidence, rate_episode_confidence
from hardwon.mining.proposals import Occurrences, compute_priority

CASES = os.path.join(os.path.dirname(__file__), "..", "..", "..", "..", "shared", "conformance", "scan_cases.json")
ONCE = Occurrences(1, ("s1",), ("/home/dev/kite",))
VALUES = settings.resolve_settings({})


def test_a_tag_with_tool_trigger_and_tags_is_surer_than_one_without() -> None:
    assert rate_block_confidence("Bash", "git stash", ["tool:git"]) == 0.8
    assert rate_block_confidence("Bash", "git stash", ["odd"]) == 0.75
    assert rate_block_confidence("", "", []) == 0.6


def test_the_confidence_of_an_episode_is_at_most_0_6() -> None:
    assert rate_episode_confidence(False, 1, 1) == 0.4
    assert rate_episode_confidence(True, 9, 9) == 0.6


def test_a_failure_of_several_sessions_and_projects_has_a_higher_priority() -> None:
    often = Occurrences(5, ("s1", "s2"), ("/home/dev/kite", "/home/dev/boat"))
    assert (compute_priority([], False, ONCE, VALUES), compute_priority([], False, often, VALUES)) == (3, 7)
    assert compute_priority(["severity:hang", "severity:data-loss"], True, often, VALUES) == 10


def test_the_scoring_settings_are_used() -> None:
    values = settings.resolve_settings({"scoring": {"singleOccurrencePenalty": 0, "hangTimeoutBonus": 5}})
    assert compute_priority(["severity:timeout"], False, ONCE, values) == 9


def load_captured_cases(kind: str) -> list[dict[str, Any]]:
    if not os.path.exists(CASES):
        pytest.skip("the captured cases are not beside this checkout (../shared/conformance)")
    with open(CASES, encoding="utf-8") as file:
        return [case for case in json.load(file)["scoring"] if case["kind"] == kind]


def test_tags_are_scored_as_in_lessons_learned() -> None:
    for case in load_captured_cases("structured"):
        confidence = rate_block_confidence(case["tool"] or "", case["trigger"] or "", case["tags"])
        our_scores = confidence, compute_priority(case["tags"], False, ONCE, VALUES), confidence < 0.7
        assert our_scores == (case["confidence"], case["priority"], case["needsReview"]), case


def test_episodes_are_scored_as_in_lessons_learned_up_to_our_cap() -> None:
    for case in load_captured_cases("heuristic"):
        is_user_correction = case["userCorrection"]
        confidence = rate_episode_confidence(is_user_correction, case["errorSignals"], case["correctionSignals"])
        priority = compute_priority(case["tags"], is_user_correction, ONCE, VALUES)
        assert (confidence, priority) == (min(round(case["confidence"], 2), 0.6), case["priority"]), case
