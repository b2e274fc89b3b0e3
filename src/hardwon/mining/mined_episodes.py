"""Convert what a transcript holds into the episodes to store: an agent's `#lesson` block, an error and its fix."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

from hardwon import clock
from hardwon.agents.fields import collect_strings
from hardwon.agents.transcript_steps import Step
from hardwon.mining.episodes import Episode
from hardwon.privacy.cleaning import clean_text, clean_texts
from hardwon.privacy.private_tags import map_strings
from hardwon.text import lesson_tags
from hardwon.text.similarity import normalize_text
from hardwon.types import MINED_TIER, TAG_TIER, MinedEpisode, replace

_BLOCK_CONFIDENCE, _ALL_FIELDS_BONUS, _CATEGORY_BONUS = 0.6, 0.15, 0.05
_EPISODE_CONFIDENCE = 0.4
_ERRORS_BONUS = 0.1
_CORRECTIONS_BONUS = 0.05
_PERSON_BONUS = 0.15
_MAX_EPISODE_CONFIDENCE = 0.6
_MAX_SIGNATURE_CHARS = 300


def mine_block(
    lesson_block: lesson_tags.LessonBlock, step: Step, position: int, agent: str, path: str, project: str
) -> MinedEpisode:
    """Convert an agent's `#lesson` block, not redacted yet, together with its faults for review."""
    record = lesson_tags.build_block_record(lesson_block, project=project)
    problem = str(record.get("problem", ""))
    solution = str(record.get("solution", ""))
    tags = [str(tag) for tag in record.get("tags", [])]
    confidence = rate_block_confidence(
        lesson_block.fields.get("tool", ""), lesson_block.fields.get("trigger", ""), tags
    )
    block_text = step.text[lesson_block.start : lesson_block.end].strip()
    quote = block_text.partition("\n")[0]
    body = {
        "tool": lesson_block.fields.get("tool", ""),
        "problem": problem,
        "solution": solution,
        "trigger": lesson_block.fields.get("trigger", ""),
        "tags": tags,
        "record": record,
        "faults": list(lesson_block.faults),
        "confidence": confidence,
        "person": "",
        "parts": {"tag": confidence},
        "evidence": [
            {"path": path, "line": step.line, "kind": "correction", "quote": problem[:_MAX_SIGNATURE_CHARS] or quote}
        ],
    }
    return MinedEpisode(
        key=f"{agent}:{step.id}#{position}",
        tier=TAG_TIER,
        signature=f"lesson {normalize_text(clean_text(problem or solution or block_text))[:_MAX_SIGNATURE_CHARS]}",
        host=agent,
        path=path,
        session=step.session,
        subagent_id=step.subagent_id,
        project=project,
        at=step.at,
        score=confidence,
        body=body,
    )


def mine_episode(episode: Episode, agent: str, path: str, project: str) -> MinedEpisode:
    """Convert an episode of error and fix, not redacted yet."""
    failing_call = episode.failing_call
    cure = episode.cure
    correction_count = bool(episode.cure) + bool(episode.agent_words)
    body = {
        "tool": failing_call.tool,
        "about": episode.errors[0].kind,
        "command": failing_call.command,
        "firstCommand": episode.errors[0].command,
        "file": failing_call.path,
        "worked": (cure.command or cure.path or cure.content) if cure else "",
        "removed": list(episode.removed_arguments),
        "added": list(episode.added_arguments),
        "reason": episode.agent_words,
        "person": episode.person_words,
        "refused": episode.is_refused,
        "attempts": len(episode.errors),
        "open": episode.is_open,
        "problem": episode.problem,
        "solution": episode.solution,
        "trigger": _get_pattern(episode.triggers),
        "triggers": dict(episode.triggers),
        "rejection": episode.rejection,
        "tags": list(episode.tags),
        "confidence": rate_episode_confidence(bool(episode.person_words), len(episode.errors), correction_count),
        "parts": {},
        "evidence": [{"path": path, **quote.__dict__} for quote in episode.evidence],
    }
    return MinedEpisode(
        key=f"{agent}:{episode.errors[0].id}",
        tier=MINED_TIER,
        signature=episode.signature,
        host=agent,
        path=path,
        session=episode.session,
        subagent_id=episode.subagent_id,
        project=project,
        at=episode.timestamp,
        score=episode.score,
        body=body,
        errors=tuple(f"{agent}:{error.id}" for error in episode.errors),
    )


def build_judged_episode(record: Mapping[str, Any], episode: MinedEpisode, at: float) -> MinedEpisode:
    """Build what a reader proposes about an episode, as if its agent had written a tag there."""
    body = {
        "tool": episode.body["tool"],
        "problem": record["problem"],
        "solution": record["solution"],
        "trigger": _get_pattern(record["triggers"]),
        "tags": list(record["tags"]),
        "record": dict(record),
        "faults": [],
        "judged": True,
        "confidence": _BLOCK_CONFIDENCE,
        "person": "",
        "parts": {},
        "evidence": episode.body["evidence"],
    }
    key = f"judged:{clock.create_ulid(at)}#0"
    return replace(episode, key=key, tier=TAG_TIER, score=_BLOCK_CONFIDENCE, body=body, errors=())


def rate_block_confidence(tool: str, trigger: str, tag_names: Iterable[str]) -> float:
    """Rate a block by its fields: an agent that names tool, trigger and tags knows what it is about."""
    tags = list(tag_names)
    completeness_bonus = _ALL_FIELDS_BONUS if tool and trigger and tags else 0.0
    category_bonus = _CATEGORY_BONUS if any(tag.startswith(("tool:", "severity:")) for tag in tags) else 0.0
    return round(_BLOCK_CONFIDENCE + completeness_bonus + category_bonus, 2)


def rate_episode_confidence(person: bool, errors: int, corrections: int) -> float:
    """Return 0.4 to 0.6, because an episode found without a model is never certain.

    It rises if a person's words, several errors or more than one correction (the fix, the agent's reason) speak for it.
    """
    confidence = _EPISODE_CONFIDENCE
    if person:
        confidence += _PERSON_BONUS
    if errors > 1:
        confidence += _ERRORS_BONUS
    if corrections > 1:
        confidence += _CORRECTIONS_BONUS
    return round(min(confidence, _MAX_EPISODE_CONFIDENCE), 2)


def _get_pattern(triggers: Mapping[str, Any]) -> str:
    """Return the first pattern of triggers; "" if they have none."""
    for key in ("commandPatterns", "pathPatterns", "contentPatterns"):
        if triggers.get(key):
            return str(triggers[key][0])
    return ""


def clean_episodes(mined_episodes: Sequence[MinedEpisode], clean: Set[str] = frozenset()) -> Sequence[MinedEpisode]:
    """Redact the episodes; one check of all texts suffices for most batches. Texts in `clean` were redacted before."""
    # A command stands several times in a body.
    body_texts = {text: None for episode in mined_episodes for text in collect_strings(episode.body)}
    texts = [text for text in body_texts if text not in clean]
    if clean_texts(texts) == texts:
        return mined_episodes
    return [replace(episode, body=_clean_body(episode.body)) for episode in mined_episodes]


def _clean_body(body: Mapping[str, Any]) -> Mapping[str, Any]:
    cleaned: Mapping[str, Any] = map_strings(body, lambda text, key: text if key == "path" else clean_text(text))
    return cleaned
