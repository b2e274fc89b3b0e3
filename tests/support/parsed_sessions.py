"""Made-up sessions as reflection reads them, for detectors that also look at the workspace and at other sessions."""

from __future__ import annotations

from hardwon.handoff.transcript_story import Story
from hardwon.store.reflections import Finding
from tests.support.step_builder import StepBuilder

KITE = "/home/dev/kite"
STARTED_AT = 1_000_000.0


def build_story(builder: StepBuilder) -> Story:
    return Story(
        path="/t.jsonl",
        agent="claude-code",
        session="s1",
        project=KITE,
        cwd=KITE,
        steps=tuple(builder.steps),
        started_at=STARTED_AT,
        ended_at=STARTED_AT + 600,
        active_minutes=10.0,
        usage=None,
    )


def has_quoted_evidence(builder: StepBuilder, finding: Finding) -> bool:
    """Return whether each quote occurs in the step of its line."""
    lines = {step.line: f"{step.text}\n{step.command}\n{step.path}\n{step.content}" for step in builder.steps}
    return bool(finding.evidence) and all(
        evidence.quote and evidence.quote in " ".join(lines[evidence.line].split()) for evidence in finding.evidence
    )
