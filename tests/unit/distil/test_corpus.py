"""Real sessions distilled without a model: observations and summary name what matters, in a tenth of the size."""

from __future__ import annotations

import json
import os
from typing import NamedTuple

import pytest

from hardwon import settings
from hardwon.agents.transcript_steps import identify_agent
from hardwon.distil.observations import MAX_TITLE_CHARS, observe_turn
from hardwon.distil.summaries import summarise_session
from hardwon.sessions import transcript_import
from hardwon.store import sessions, turns
from hardwon.text.characters import estimate_tokens
from hardwon.types import Observation, Summary, Turn
from tests.support.new_store import connect_to_new_store
from tests.support.session_steps import CORPUS


class Expected(NamedTuple):
    """A session's file, and what its observations and summary must contain."""

    file: str
    changed: tuple[str, ...]
    failing: tuple[str, ...]
    fixed: tuple[str, ...]
    outcome: tuple[str, ...]


EXPECTED = (
    Expected(
        "claude/entireio+cli/b9bdbf44-cc66-4b63-bf50-e2ace00d58e7.jsonl",
        changed=("cmd/entire/cli/hooks_opencode_transcript.go", "cmd/entire/cli/hooks_opencode_handlers.go"),
        failing=("`mise run lint` failed 3 times", "6 issues", "hooks_opencode_transcript.go:95:24", "goconst"),
        fixed=("extractOpencodeModifiedFiles",),
        outcome=("`mise run lint` passed: 0 issues",),
    ),
    Expected(
        "claude/entireio+git-sync/1262c0a7-dcf1-4eb8-a08c-1a4060f7369d.jsonl",
        changed=("internal/validation/validation.go", "internal/syncer/syncer.go", "internal/planner/planner_test.go"),
        failing=("golangci-lint run --timeout=5m", "cannot auto-sign commit"),
        fixed=("ValidateEndpoints",),
        outcome=("834619c", "d4cca23", "b5c8e3b", "32f773e", "`go test ./... -count=1` passed: 16 packages ok"),
    ),
    Expected(
        "claude/FSM1+cipher-box/98766c04-3c5c-47ab-a5c4-04c60afb6bc1.jsonl",
        changed=("apps/api/src/auth/auth.controller.spec.ts", "apps/api/src/tee/tee.service.spec.ts"),
        failing=(),
        fixed=("Edited apps/api/src/auth/auth.controller.spec.ts 8 times",),
        outcome=("e3e619b36", "d17fb478b", "26 passed, 26 total"),
    ),
    Expected(
        "codex/entireio+git-sync/rollout-2026-05-14T19-24-58-019e27f2-b7de-71c3-a0f9-70d6539231ba.jsonl",
        changed=("internal/syncer/ssh_docker_test.go", "docs/testing.md", "mise-tasks/lint/gomod"),
        failing=("`mise run lint` failed 6 times",),
        fixed=("edited mise-tasks/lint/go",),
        outcome=("c2a8f3a9", "64bc3a3b", "https://github.com/entireio/git-sync/pull/56"),
    ),
    Expected(
        "codex/entireio+entire-graph/rollout-2026-05-31T10-46-36-019e7da4-83bc-7dc1-93d3-a435cb5c9100.jsonl",
        changed=("internal/sem/provider.go", "internal/cli/root.go", "docs/progress-so-far.md"),
        failing=("command not found: go", "TestProviderNDJSONCommands"),
        fixed=("; edited ",),
        outcome=("3c7913e", "b9c5830", "`go test ./...`"),
    ),
    Expected(
        "claude/PackmindHub+context-evaluator/90499da5-31f8-4177-a6ca-95705254e7f9.jsonl",
        changed=("src/shared/types/remediation.ts", "frontend/src/components/RemediationHistoryCard.tsx"),
        failing=("`bun run lint` passed (failed before)",),
        fixed=("parseActionSummary",),
        outcome=("06d0bd6", "1232 pass 0 fail"),
    ),
)


@pytest.fixture(scope="module", params=EXPECTED, ids=lambda expected: os.path.basename(expected.file)[:20])
def distilled_session(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Expected, list[Turn], list[Observation], Summary]:
    """Import a session as `hardwon import` does, and distil it without a model."""
    path = os.path.join(CORPUS, request.param.file)
    if not os.path.exists(path):
        pytest.skip("the corpus of real transcripts is not beside this checkout (../shared/corpus)")
    home = str(tmp_path_factory.mktemp("home"))
    connection = connect_to_new_store(home)
    with open(path, "rb") as file:
        agent = identify_agent(path, file.read(65536))
    transcript_import.import_transcript(home, connection, agent, path, settings.resolve_settings({}))
    (session,) = sessions.list_sessions(connection, limit=5)
    session_turns = turns.list_turns(connection, session["id"])
    observations = [observation for turn in session_turns for observation in observe_turn(turn)]
    return request.param, session_turns, observations, summarise_session(session_turns, observations)


def join_observations(observations: list[Observation]) -> str:
    lines = [
        (
            observation.title,
            observation.subtitle,
            observation.narrative,
            *observation.facts,
            *observation.files_modified,
            *observation.files_read,
        )
        for observation in observations
    ]
    return "\n".join(line for observation_lines in lines for line in observation_lines)


def join_summary(summary: Summary) -> str:
    parts = (summary.request, summary.investigated, summary.learned, summary.completed, summary.next_steps)
    return "\n".join(parts)


def test_changes_failures_fixes_and_outcomes_are_named(
    distilled_session: tuple[Expected, list[Turn], list[Observation], Summary],
) -> None:
    expected, _, observations, summary = distilled_session
    text = join_observations(observations)
    expected_facts = (*expected.changed, *expected.failing, *expected.fixed, *expected.outcome)
    assert [fact for fact in expected_facts if fact not in text] == []
    assert {path for observation in observations for path in observation.files_modified} >= set(expected.changed)
    assert [
        fact for fact in expected.outcome[:1] if fact.strip("`").split(" passed")[0] not in join_summary(summary)
    ] == []


def test_the_distilled_text_is_at_most_a_tenth_of_the_events(
    distilled_session: tuple[Expected, list[Turn], list[Observation], Summary],
) -> None:
    _, session_turns, observations, summary = distilled_session
    raw = sum(
        estimate_tokens(json.dumps(call.input)) + estimate_tokens(call.response)
        for turn in session_turns
        for call in turn.calls
    )
    concepts = "".join(name for observation in observations for name in observation.concepts)
    assert (
        estimate_tokens(join_observations(observations))
        + estimate_tokens(join_summary(summary))
        + estimate_tokens(concepts)
        <= raw / 10
    )


def test_every_line_is_printable_and_leads_to_its_events(
    distilled_session: tuple[Expected, list[Turn], list[Observation], Summary],
) -> None:
    _, session_turns, observations, summary = distilled_session
    lines = (join_observations(observations) + "\n" + join_summary(summary)).split("\n")
    assert [line for line in lines if not line.isprintable()] == []
    assert [
        observation.title
        for observation in observations
        if len(observation.title) > MAX_TITLE_CHARS or not (observation.title or observation.facts)
    ] == []
    assert len({observation.key for observation in observations}) == len(observations)
    call_keys = {call.key for turn in session_turns for call in turn.calls}
    assert {key for observation in observations for key in observation.events} <= call_keys
