"""Drafts of twenty real sessions, built without a model, are short and quote what they state."""

from __future__ import annotations

import os
from functools import lru_cache

import pytest

from hardwon.handoff import transcript_story
from hardwon.handoff.draft import MAX_FINDINGS, Draft, build_draft, find_stated_memories, render_draft
from hardwon.handoff.findings import detect_findings
from hardwon.handoff.transcript_story import Story
from hardwon.store.reflections import ReflectionContext
from tests.support.draft_evidence import is_quote_in_source, list_statements
from tests.support.session_steps import CORPUS

SESSIONS = 20
_MIN_BYTES, _MAX_BYTES = 20_000, 3_000_000
_SAMPLE_STEP, _MIN_CALLS = 4, 5
_MAX_PAGE_LINES = 120


@lru_cache(maxsize=1)
def read_sampled_stories() -> list[Story]:
    """Read sessions from all over the corpus that have a request and several calls."""
    if not os.path.isdir(CORPUS):
        pytest.skip("the corpus of real transcripts is not beside this checkout (../shared/corpus)")
    paths = sorted(
        path
        for folder, _, names in os.walk(CORPUS)
        for name in names
        if name.endswith((".jsonl", ".json")) and "subagents" not in folder and name != "gold.jsonl"
        if _MIN_BYTES <= os.path.getsize(path := os.path.join(folder, name)) <= _MAX_BYTES
    )
    working_stories = [story for path in paths[::_SAMPLE_STEP] if _is_work(story := transcript_story.read_story(path))]
    return [working_stories[index * len(working_stories) // SESSIONS] for index in range(SESSIONS)]


def _is_work(story: Story) -> bool:
    kinds = [step.kind for step in story.steps]
    return "person" in kinds and kinds.count("call") >= _MIN_CALLS


@lru_cache(maxsize=SESSIONS)
def build_sampled_draft(number: int) -> Draft:
    story = read_sampled_stories()[number]
    return build_draft(story, detect_findings(story, ReflectionContext()), [*find_stated_memories(story)])


@pytest.mark.parametrize("number", range(SESSIONS))
def test_every_statement_about_a_real_session_quotes_its_source(number: int) -> None:
    statements = list_statements(build_sampled_draft(number))
    assert [statement.text for statement in statements if not statement.evidence] == []
    assert [
        evidence_item
        for statement in statements
        for evidence_item in statement.evidence
        if not is_quote_in_source(evidence_item)
    ] == []


@pytest.mark.parametrize("number", range(SESSIONS))
def test_the_draft_of_a_real_session_is_short_and_printable(number: int) -> None:
    draft = build_sampled_draft(number)
    lines = render_draft(draft).splitlines()
    assert [line for line in lines if not line.isprintable()] == []
    assert len(lines) <= _MAX_PAGE_LINES and len(draft.findings) <= MAX_FINDINGS
    assert draft.topic and lines[0] == "---"
    assert draft.confidence in "HML"


def test_most_drafts_name_an_outcome_or_what_is_open() -> None:
    drafts = [build_sampled_draft(number) for number in range(SESSIONS)]
    # The draft of a sub-agent that changed nothing is silent on purpose.
    own_drafts = [draft for draft in drafts if not draft.story.is_subagent]
    telling_drafts = [
        draft for draft in own_drafts if draft.open_ends or any(" → " in line.text for line in draft.summary)
    ]
    assert len(telling_drafts) >= len(own_drafts) * 9 // 10
