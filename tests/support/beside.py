"""Made-up sessions as reflecting reads them, for the detectors that look beside the session."""

from __future__ import annotations

from hardwon.handoff.transcript_story import Story as Told
from hardwon.store.reflection_types import Finding
from tests.support.story import Story

KITE = "/home/dev/kite"
BEGAN = 1_000_000.0


def told(story: Story) -> Told:
    return Told(
        path="/t.jsonl",
        agent="claude-code",
        session="s1",
        project=KITE,
        cwd=KITE,
        steps=tuple(story.steps),
        started_at=BEGAN,
        ended_at=BEGAN + 600,
        active_minutes=10.0,
        usage=None,
    )


def is_shown(story: Story, finding: Finding) -> bool:
    """Whether each quote stands in the step of its line."""
    lines = {step.line: f"{step.text}\n{step.command}\n{step.path}\n{step.content}" for step in story.steps}
    return bool(finding.evidence) and all(
        one.quote and one.quote in " ".join(lines[one.line].split()) for one in finding.evidence
    )
