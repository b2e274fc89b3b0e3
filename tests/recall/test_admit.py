"""What is admitted as a lesson, and what is left of it when some of its fields are changed."""

from __future__ import annotations

import pytest

from hardwon.recall import admit
from tests.house_of_one import lesson


@pytest.mark.parametrize(
    "kind", ["toolNames", "commandPatterns", "pathPatterns", "pathRegexes", "contentPatterns"]
)  # fmt: skip
def test_a_changed_trigger_replaces_its_own_kind(kind: str) -> None:
    changed = admit.with_changes({"triggers": {kind: ["old"]}}, {kind: ["new"]})
    assert changed["triggers"][kind] == ["new"] and kind not in changed


def test_of_imported_lessons_that_say_the_same_the_first_is_taken(own_home: str) -> None:
    one, other = lesson(r"\bgit\b"), lesson(r"\bmake\b")
    twin = {**one, "summary": "the same in another summary"}
    taken, refused = admit.take_over(own_home, [one, {**other, "slug": "made"}, {**twin, "slug": "twin"}])
    assert [lesson.summary for lesson in taken] == [one["summary"], other["summary"]]
    assert list(refused) == ["twin"]
