"""The lesson form changes only the fields that a person edited."""

from __future__ import annotations

from typing import Any

import pytest

from hardwon.errors import UserError
from hardwon.web.lessons import find_changed_fields

RECORD: dict[str, Any] = {
    "summary": "git stash\u202e leaves untracked files",
    "problem": "first line\nsecond line",
    "solution": "use git stash -u",
    "triggers": {"toolNames": ["Bash"], "commandPatterns": [{"source": "^git stash", "flags": "i"}, "a\u200bb"]},
    "delivery": "hold",
    "priority": 5,
    "scope": {"type": "global"},
    "tags": ["tool:git"],
}


def test_a_field_as_it_was_shown_is_not_a_change() -> None:
    form = {
        "summary": "git stash� leaves untracked files",
        "problem": "first line\r\nsecond line\r\n",
        "commandPatterns": '{"source": "^git stash", "flags": "i"}\r\na�b',
        "priority": "5",
        "scope": "",
        "unless": "",
    }
    assert find_changed_fields(RECORD, form) == {}


def test_changed_fields_have_the_types_of_the_record() -> None:
    form = {
        "solution": "",
        "commandPatterns": '{"source": "^git stash", "flags": "i"}\n^git commit\n\na�b',
        "priority": "9",
        "scope": "/home/dev/kite",
        "tags": "tool:git\ntool:hg",
    }
    assert find_changed_fields(RECORD, form) == {
        "solution": None,
        "commandPatterns": [{"source": "^git stash", "flags": "i"}, "^git commit", "a\u200bb"],
        "priority": 9,
        "scope": {"type": "project", "path": "/home/dev/kite"},
        "tags": ["tool:git", "tool:hg"],
    }


def test_a_priority_that_is_not_a_number_is_refused() -> None:
    with pytest.raises(UserError, match="priority is 'high', not a whole number"):
        find_changed_fields(RECORD, {"priority": "high"})
