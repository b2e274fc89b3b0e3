"""What the rules find in a text, they find in time that grows with the text and no faster."""

from __future__ import annotations

import pytest

from hardwon import cold
from hardwon.core import rules
from hardwon.words import Lesson, Pattern


@pytest.mark.parametrize("padding", ["{" * 80_000, "<the " + "a " * 40_000, "{{ " * 30_000])
def test_a_placeholder_is_found_behind_any_padding(padding: str) -> None:
    """`cold.search` gives a pattern up that computes for longer than a linear one would."""
    pattern = Pattern(rules._PLACEHOLDER.pattern, rules._PLACEHOLDER.flags)
    assert cold.search(pattern, padding + "<problem>")


def test_a_text_that_is_too_long_is_said_to_be_so() -> None:
    faults = rules.faults(
        Lesson("I", "s", "a summary of the right length", "{" * 80_000, "a solution of the right length", "start")
    )
    assert [fault for fault in faults if "6000 at most in all" in fault]
