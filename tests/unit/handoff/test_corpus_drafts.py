"""Twenty real sessions: a draft each without a model, short, and everything it says is really there."""

from __future__ import annotations

import os
from functools import lru_cache

import pytest

from hardwon.handoff import transcript_story
from hardwon.handoff.draft import MAX_FINDINGS, Draft, build_draft, find_stated_memories, render_draft
from hardwon.handoff.findings import detect_findings
from hardwon.handoff.transcript_story import Story
from hardwon.store.reflection_types import EMPTY_CONTEXT
from tests.support.draft_evidence import is_quote_in_source, list_statements
from tests.support.session_steps import CORPUS

SESSIONS = 20
_LEAST, _LARGEST = 20_000, 3_000_000  # bytes
_EVERY, _LEAST_CALLS = 4, 5
_LONGEST = 120  # lines of a page


@lru_cache(maxsize=1)
def told() -> list[Story]:
    """Sessions from everywhere in the corpus in which somebody asked for something and something was done."""
    if not os.path.isdir(CORPUS):
        pytest.skip("the corpus of real transcripts is not beside this checkout (../shared/corpus)")
    every = sorted(
        path
        for folder, _, names in os.walk(CORPUS)
        for name in names
        if name.endswith((".jsonl", ".json")) and "subagents" not in folder and name != "gold.jsonl"
        if _LEAST <= os.path.getsize(path := os.path.join(folder, name)) <= _LARGEST
    )
    found = [one for path in every[::_EVERY] if _is_work(one := transcript_story.read_story(path))]
    return [found[place * len(found) // SESSIONS] for place in range(SESSIONS)]


def _is_work(one: Story) -> bool:
    kinds = [step.kind for step in one.steps]
    return "person" in kinds and kinds.count("call") >= _LEAST_CALLS


@lru_cache(maxsize=SESSIONS)
def drafted(number: int) -> Draft:
    one = told()[number]
    return build_draft(one, detect_findings(one, EMPTY_CONTEXT), [*find_stated_memories(one)])


@pytest.mark.parametrize("number", range(SESSIONS))
def test_everything_said_of_a_real_session_is_where_it_says(number: int) -> None:
    said = list_statements(drafted(number))
    assert [one.text for one in said if not one.evidence] == []
    assert [
        evidence_item for one in said for evidence_item in one.evidence if not is_quote_in_source(evidence_item)
    ] == []


@pytest.mark.parametrize("number", range(SESSIONS))
def test_the_draft_of_a_real_session_is_short_and_can_be_shown(number: int) -> None:
    made = drafted(number)
    lines = render_draft(made).splitlines()
    assert [line for line in lines if not line.isprintable()] == []
    assert len(lines) <= _LONGEST and len(made.findings) <= MAX_FINDINGS
    assert made.topic and lines[0] == "---"
    assert made.confidence in "HML"


def test_most_real_sessions_say_what_was_asked_and_what_it_came_to() -> None:
    made = [drafted(number) for number in range(SESSIONS)]
    assert sum(any(" → " in line.text for line in one.summary) for one in made) >= SESSIONS * 9 // 10
