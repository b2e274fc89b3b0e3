"""Ids of the usual forms are unchanged; one that looks like a secret gets a stable replacement."""

from __future__ import annotations

import pytest

from hardwon.privacy.identifiers import clean_id, clean_ids
from hardwon.types import Event, replace

KEY = "ghp_" + "A1b2C3d4E5f6G7h8J9k0" + "L1m2N3p4Q5r6S7t8"


@pytest.mark.parametrize(
    "identifier",
    [
        "0f1e2d3c-4b5a-6978-8f1e-2d3c4b5a6978",
        "toolu_01A09q90qw90lq917835lq9",
        "call_VdBinwrVmmSpt6p6QNZYZpAi",
        "s1",
        "",
        "ses_4f3a9bcdeffe1a2b3c4d5e6f7g",
        "agent-a1b2c3d4",
        "Bash",
        "mcp__github__create_or_update_file",
        "startup",
        "claude-code",
        "01JCQ9ZK3V5T7W8X9Y0ABCDEFG",
        "read_file-1731840000000-5f2d1c",
        "session_01N2S5wXDgz1xnJwrwui1Ps4",
        "a83d06a4",
        "resp_" + "0f1e2d3c" * 6,
    ],
)
def test_a_usual_id_is_unchanged(identifier: str) -> None:
    assert clean_id(identifier) == identifier


@pytest.mark.parametrize(
    "identifier", [KEY, f"run-{KEY}", "password=swordfish9", "A1b2C3d4E5f6G7h8J9k0L1m2N3p4Q5r6S7t8"]
)
def test_an_id_that_looks_like_a_secret_is_replaced_by_the_same_one_each_time(identifier: str) -> None:
    cleaned = clean_id(identifier)
    assert cleaned.startswith("redacted-") and len(cleaned) == 17
    assert cleaned == clean_id(identifier) != clean_id(identifier + "x")
    assert clean_id(cleaned) == cleaned


def test_every_name_and_id_of_an_event_is_cleaned() -> None:
    secret_ids = {
        name: f"{KEY}{number}"
        for number, name in enumerate(
            ("host", "session", "subagent_id", "source", "tool", "tool_use_id", "prompt_name")
        )
    }
    cleaned = clean_ids(replace(Event("", "PostToolUse", "", "/src"), **secret_ids))
    assert KEY not in repr(cleaned)
    assert len({getattr(cleaned, name) for name in secret_ids}) == len(secret_ids)
