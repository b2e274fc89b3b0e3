"""The rules check a text in linear time."""

from __future__ import annotations

import pytest

from hardwon.fallback import answering
from hardwon.lessons import validation
from hardwon.types import Lesson, Pattern


@pytest.mark.parametrize("padding", ["{" * 80_000, "<the " + "a " * 40_000, "{{ " * 30_000])
def test_a_placeholder_is_found_behind_any_padding(padding: str) -> None:
    """`search_pattern` gives up on a pattern that takes longer than linear time."""
    pattern = Pattern(validation._PLACEHOLDER.pattern, validation._PLACEHOLDER.flags)
    assert answering.search_pattern(pattern, padding + "<problem>")


def test_a_text_that_is_too_long_is_reported() -> None:
    faults = validation.find_lesson_faults(
        Lesson("I", "s", "a summary of the right length", "{" * 80_000, "a solution of the right length", "start")
    )
    assert [fault for fault in faults if "at most 6000 in all" in fault]
