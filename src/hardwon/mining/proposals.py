"""From signals to candidates: what is suggested, how sure it is, and where it ranks.

The signals of one signature make one candidate. The best of them gives the words, all of them the counts. A person
decides; nothing here approves.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hardwon import clock
from hardwon.agents.fields import collect_strings
from hardwon.agents.transcript_steps import Step
from hardwon.mining import episodes
from hardwon.mining.episodes import PROPOSAL_THRESHOLD, Episode
from hardwon.privacy.cleaning import clean_text, clean_texts
from hardwon.privacy.private_tags import map_strings
from hardwon.store import candidates, rejections
from hardwon.store.candidates import Candidate
from hardwon.store.db import Connection
from hardwon.text import lesson_tags, slugs
from hardwon.text.similarity import normalize_text
from hardwon.types import MinedEpisode, frozen, replace

HOLD_FROM_PRIORITY = 7
_BASE_PRIORITY = 4
_BLOCK_CONFIDENCE, _ALL_FIELDS_BONUS, _CATEGORY_BONUS = 0.6, 0.15, 0.05
_EPISODE_CONFIDENCE, _ERRORS_BONUS, _CORRECTIONS_BONUS, _PERSON_BONUS, _MAX_EPISODE_CONFIDENCE = (
    0.4,
    0.1,
    0.05,
    0.15,
    0.6,
)
_MAX_SESSIONS = 5
_MAX_EPISODES = 20
_MAX_SIGNATURE_CHARS = 300
_MAX_CALL_CHARS, _MAX_SUMMARY_CHARS = 44, 112
_HANG_TAGS = frozenset({"severity:hang", "severity:timeout"})
_HARM_TAGS = frozenset({"severity:data-loss", "severity:silent-failure"})


def mine_block(
    lesson_block: lesson_tags.LessonBlock, step: Step, position: int, agent: str, path: str, project: str
) -> MinedEpisode:
    """A `#lesson` block that an agent wrote, not cleaned yet; what is wrong with it goes along, for review."""
    record = lesson_tags.build_block_record(lesson_block, project=project)
    problem, solution = str(record.get("problem", "")), str(record.get("solution", ""))
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
        tier=1,
        signature=f"lesson {normalize_text(clean_text(problem or solution or block_text))[:_MAX_SIGNATURE_CHARS]}",
        host=agent,
        path=path,
        session=step.session,
        agent=step.agent,
        project=project,
        at=step.at,
        score=confidence,
        body=body,
    )


def mine_episode(episode: Episode, agent: str, path: str, project: str) -> MinedEpisode:
    """An error and what put it right, not cleaned yet."""
    failing_call, working_call = episode.failing_call, episode.working_call
    correction_count = bool(working_call) + bool(episode.agent_words)
    body = {
        "tool": failing_call.tool,
        "about": episode.errors[0].kind,
        "command": failing_call.command,
        "file": failing_call.path,
        "worked": (working_call.command or working_call.path or working_call.content) if working_call else "",
        "removed": list(episode.removed_arguments),
        "added": list(episode.added_arguments),
        "reason": episode.agent_words,
        "person": episode.person_words,
        "refused": episode.is_refused,
        "attempts": len(episode.errors),
        "open": episode.is_open,
        "problem": episode.problem,
        "solution": episode.solution,
        "trigger": episode.trigger,
        "tags": list(episode.tags),
        "confidence": rate_episode_confidence(bool(episode.person_words), len(episode.errors), correction_count),
        "parts": dict(episode.score_parts),
        "evidence": [{"path": path, **quote.__dict__} for quote in episode.evidence],
    }
    return MinedEpisode(
        key=f"{agent}:{episode.errors[0].id}",
        tier=2,
        signature=episode.signature,
        host=agent,
        path=path,
        session=episode.session,
        agent=episode.subagent,
        project=project,
        at=episode.timestamp,
        score=episode.score,
        body=body,
        errors=tuple(f"{agent}:{error.id}" for error in episode.errors),
    )


def rate_block_confidence(tool: str, trigger: str, tag_names: Iterable[str]) -> float:
    """By the fields that are there: an agent that names tool, trigger and tags knew what it was about."""
    tags = list(tag_names)
    completeness_bonus = _ALL_FIELDS_BONUS if tool and trigger and tags else 0.0
    category_bonus = _CATEGORY_BONUS if any(tag.startswith(("tool:", "severity:")) for tag in tags) else 0.0
    return round(_BLOCK_CONFIDENCE + completeness_bonus + category_bonus, 2)


def rate_episode_confidence(person: bool, errors: int, corrections: int) -> float:
    """Between 0.4 and 0.6: what plain code found is never sure."""
    confidence = (
        _EPISODE_CONFIDENCE
        + _PERSON_BONUS * person
        + _ERRORS_BONUS * (errors > 1)
        + _CORRECTIONS_BONUS * (corrections > 1)
    )
    return round(min(confidence, _MAX_EPISODE_CONFIDENCE), 2)


@frozen
class Occurrences:
    """How often, in which sessions, the latest first, and in which projects."""

    count: int
    sessions: tuple[str, ...]
    projects: tuple[str, ...]


def compute_priority(
    tag_names: Iterable[str], person: bool, occurrences: Occurrences, values: Mapping[str, Any]
) -> int:
    tags = frozenset(tag_names)
    priority = _BASE_PRIORITY + bool(tags & _HARM_TAGS)
    priority += values["scoring.hangTimeoutBonus"] if tags & _HANG_TAGS else 0
    priority += values["scoring.userCorrectionBonus"] if person else 0
    priority += values["scoring.multiSessionBonus"] if len(occurrences.sessions) > 1 else 0
    priority += values["scoring.multiProjectBonus"] if len(occurrences.projects) > 1 else 0
    priority += values["scoring.singleOccurrencePenalty"] if occurrences.count == 1 else 0
    return max(1, min(10, priority))


def refresh_candidates(
    connection: Connection, values: Mapping[str, Any], *, tiers: Sequence[int], now: float
) -> list[Candidate]:
    """Weigh what is fresh; gives the candidates that are new, best first, at most as many as a scan may add.

    What there is no room for, or what is of a tier that was not asked for, stays fresh for the next scan.
    """
    existing: list[Candidate] = []
    new: list[Candidate] = []
    weighed: list[str] = []
    used_slugs = candidates.list_slugs(connection)
    for signature in candidates.list_fresh_signatures(connection):
        mined_episodes = candidates.list_episodes(connection, signature, limit=_MAX_EPISODES)
        previous = candidates.find_by_signature(connection, signature)
        proposal = _build_candidate(
            mined_episodes, Occurrences(*_read_occurrences(connection, signature)), values, now, previous, used_slugs
        )
        if previous:
            existing.append(proposal)
        elif proposal.tier not in tiers:
            continue
        elif rejections.is_rejected_candidate(connection, signature):
            pass  # it counts as weighed, and does not come again
        elif proposal.tier == 1 or proposal.score >= PROPOSAL_THRESHOLD:
            new.append(proposal)
            continue
        weighed.append(signature)
    new.sort(key=lambda candidate: (-candidate.score, candidate.signature))
    new = new[: int(values["maxCandidatesPerScan"])]
    weighed += [candidate.signature for candidate in new]
    candidates.store_candidates(connection, [*existing, *new], weighed_signatures=weighed)
    stored = {candidate.signature: candidate for candidate in candidates.list_candidates(connection)}
    return [stored[candidate.signature] for candidate in new]


def _read_occurrences(connection: Connection, signature: str) -> tuple[int, tuple[str, ...], tuple[str, ...]]:
    times, sessions, projects = candidates.read_occurrences(connection, signature)
    return times, tuple(sessions), tuple(projects)


def _build_candidate(
    mined_episodes: Sequence[MinedEpisode],
    occurrences: Occurrences,
    values: Mapping[str, Any],
    now: float,
    previous: Candidate | None,
    used_slugs: set[str],
) -> Candidate:
    best = mined_episodes[0]
    parts = dict(best.body["parts"])
    if best.tier == 2:
        is_wordless = bool(best.body["refused"] and not best.body["person"])
        parts["recurs"] = episodes.score_recurrence(best.body["about"], is_wordless, len(occurrences.sessions))
    record = build_suggested_record(mined_episodes, occurrences, values)
    slug = previous.slug if previous else slugs.create_slug(record["summary"], used_slugs, clock.create_suffix)
    used_slugs.add(slug)
    return Candidate(
        number=previous.number if previous else 0,
        id=previous.id if previous else clock.create_ulid(now),
        slug=slug,
        signature=best.signature,
        tier=best.tier,
        status=previous.status if previous else "candidate",
        score=episodes.compute_score(parts),
        parts=parts,
        occurrences=occurrences.count,
        sessions=occurrences.sessions,
        projects=occurrences.projects,
        record=record,
        lesson=previous.lesson if previous else "",
        found_at=previous.found_at if previous else now,
        decided_at=previous.decided_at if previous else None,
    )


def build_suggested_record(
    mined_episodes: Sequence[MinedEpisode], occurrences: Occurrences, values: Mapping[str, Any]
) -> dict[str, Any]:
    """The record that a person would accept or edit, from the best signal and the counts of all."""
    best = mined_episodes[0].body
    person = any(episode.body["person"] for episode in mined_episodes)
    block_record = dict(best.get("record") or {})
    problem, solution = best["problem"], best["solution"]
    priority = block_record.get("priority", compute_priority(best["tags"], person, occurrences, values))
    record = {
        "summary": block_record.get("summary")
        or (_build_summary(best) if mined_episodes[0].tier == 2 else lesson_tags.build_summary(problem, solution)),
        "problem": problem,
        "solution": solution,
        "delivery": block_record.get("delivery") or _choose_delivery(best, priority),
        "triggers": block_record.get("triggers") or _build_triggers(best),
        "scope": block_record.get("scope") or _choose_scope(occurrences),
        "priority": priority,
        "confidence": best["confidence"],
        "tags": list(best["tags"]),
        "sourceSessionIds": list(occurrences.sessions[:_MAX_SESSIONS]),
        "occurrenceCount": occurrences.count,
        "evidence": [evidence for episode in mined_episodes[:_MAX_SESSIONS] for evidence in episode.body["evidence"]],
    }
    extra_fields = {key: block_record[key] for key in ("unless", "blockReason") if key in block_record}
    return {**record, **extra_fields}


def _build_summary(best: Mapping[str, Any]) -> str:
    """The call in short, and the error to the end of a word: a list of these must tell one from the other."""
    call = " ".join(str(best["command"] or best["file"] or best["tool"]).split())
    call = call if len(call) <= _MAX_CALL_CHARS else call[:_MAX_CALL_CHARS].rpartition(" ")[0] or call[:_MAX_CALL_CHARS]
    error = " ".join(str(best["evidence"][0]["quote"]).split()) if best["evidence"] else ""
    summary = f"{call} was refused: {best['person']}" if best["refused"] else f"{call} fails: {error}"
    return (
        summary
        if len(summary) <= _MAX_SUMMARY_CHARS
        else summary[: _MAX_SUMMARY_CHARS + 1].rpartition(" ")[0].rstrip(" .,;:…-")
    )


def _choose_delivery(best: Mapping[str, Any], priority: object) -> str:
    """A hold for what matters much, unless its trigger would stop what put it right."""
    if best["tool"] != "Bash" or not isinstance(priority, int) or priority < HOLD_FROM_PRIORITY:
        return "note"
    working_command, trigger = str(best.get("worked", "")), str(best["trigger"])
    return (
        "note"
        if working_command and trigger and best.get("command") and re.search(trigger, working_command)
        else "hold"
    )


def _build_triggers(best: Mapping[str, Any]) -> dict[str, list[str]]:
    if not best["trigger"]:
        return {}
    pattern_key = "commandPatterns" if best.get("command") else "pathPatterns"
    return {"toolNames": [best["tool"]], pattern_key: [best["trigger"]]}


def _choose_scope(occurrences: Occurrences) -> dict[str, str]:
    """What happened in two projects may happen in any."""
    if len(occurrences.projects) != 1 or not os.path.isabs(occurrences.projects[0]):
        return {"type": "global"}
    return {"type": "project", "path": occurrences.projects[0]}


def clean_episodes(mined_episodes: Sequence[MinedEpisode]) -> Sequence[MinedEpisode]:
    """The signals with nothing in them that may not be kept; most hold nothing of the kind, which one look tells."""
    texts = [text for episode in mined_episodes for text in collect_strings(episode.body)]
    return (
        mined_episodes
        if clean_texts(texts) == texts
        else [replace(episode, body=_clean_body(episode.body)) for episode in mined_episodes]
    )


def _clean_body(body: Mapping[str, Any]) -> Mapping[str, Any]:
    cleaned: Mapping[str, Any] = map_strings(body, lambda text, key: text if key == "path" else clean_text(text))
    return cleaned
