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
_TAGGED, _ALL_FIELDS, _CATEGORY = 0.6, 0.15, 0.05
_SEEN, _SEVERAL_ERRORS, _SEVERAL_CORRECTIONS, _PERSON, _HIGHEST = 0.4, 0.1, 0.05, 0.15, 0.6
_MOST_SESSIONS = 5
_MOST_EPISODES = 20
_SIGNED = 300
_CALL_IN_SHORT, _SUMMARY = 44, 112
_HANGS = frozenset({"severity:hang", "severity:timeout"})
_HARMS = frozenset({"severity:data-loss", "severity:silent-failure"})


def mine_block(
    lesson_block: lesson_tags.LessonBlock, step: Step, position: int, agent: str, path: str, project: str
) -> MinedEpisode:
    """A `#lesson` block that an agent wrote, not cleaned yet; what is wrong with it goes along, for review."""
    record = lesson_tags.build_block_record(lesson_block, project=project)
    problem, solution = str(record.get("problem", "")), str(record.get("solution", ""))
    named = [str(one) for one in record.get("tags", [])]
    confidence = rate_block_confidence(
        lesson_block.fields.get("tool", ""), lesson_block.fields.get("trigger", ""), named
    )
    block = step.text[lesson_block.start : lesson_block.end].strip()
    quote = block.partition("\n")[0]
    body = {
        "tool": lesson_block.fields.get("tool", ""),
        "problem": problem,
        "solution": solution,
        "trigger": lesson_block.fields.get("trigger", ""),
        "tags": named,
        "record": record,
        "faults": list(lesson_block.faults),
        "confidence": confidence,
        "person": "",
        "parts": {"tag": confidence},
        "evidence": [{"path": path, "line": step.line, "kind": "correction", "quote": problem[:_SIGNED] or quote}],
    }
    return MinedEpisode(
        key=f"{agent}:{step.id}#{position}",
        tier=1,
        signature=f"lesson {normalize_text(clean_text(problem or solution or block))[:_SIGNED]}",
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
    failing, worked = episode.failing_call, episode.working_call
    corrections = bool(worked) + bool(episode.agent_words)
    body = {
        "tool": failing.tool,
        "about": episode.errors[0].kind,
        "command": failing.command,
        "file": failing.path,
        "worked": (worked.command or worked.path or worked.content) if worked else "",
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
        "confidence": rate_episode_confidence(bool(episode.person_words), len(episode.errors), corrections),
        "parts": dict(episode.score_parts),
        "evidence": [{"path": path, **each.__dict__} for each in episode.evidence],
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
    given = list(tag_names)
    whole = _ALL_FIELDS if tool and trigger and given else 0.0
    sorted_by_kind = _CATEGORY if any(one.startswith(("tool:", "severity:")) for one in given) else 0.0
    return round(_TAGGED + whole + sorted_by_kind, 2)


def rate_episode_confidence(person: bool, errors: int, corrections: int) -> float:
    """Between 0.4 and 0.6: what plain code found is never sure."""
    found = _SEEN + _PERSON * person + _SEVERAL_ERRORS * (errors > 1) + _SEVERAL_CORRECTIONS * (corrections > 1)
    return round(min(found, _HIGHEST), 2)


@frozen
class Occurrences:
    """How often, in which sessions, the latest first, and in which projects."""

    count: int
    sessions: tuple[str, ...]
    projects: tuple[str, ...]


def compute_priority(
    tag_names: Iterable[str], person: bool, occurrences: Occurrences, values: Mapping[str, Any]
) -> int:
    given = frozenset(tag_names)
    found = _BASE_PRIORITY + bool(given & _HARMS)
    found += values["scoring.hangTimeoutBonus"] if given & _HANGS else 0
    found += values["scoring.userCorrectionBonus"] if person else 0
    found += values["scoring.multiSessionBonus"] if len(occurrences.sessions) > 1 else 0
    found += values["scoring.multiProjectBonus"] if len(occurrences.projects) > 1 else 0
    found += values["scoring.singleOccurrencePenalty"] if occurrences.count == 1 else 0
    return max(1, min(10, found))


def refresh_candidates(
    connection: Connection, values: Mapping[str, Any], *, tiers: Sequence[int], now: float
) -> list[Candidate]:
    """Weigh what is fresh; gives the candidates that are new, best first, at most as many as a scan may add.

    What there is no room for, or what is of a tier that was not asked for, stays fresh for the next scan.
    """
    known: list[Candidate] = []
    new: list[Candidate] = []
    weighed: list[str] = []
    taken = candidates.list_slugs(connection)
    for signature in candidates.list_fresh_signatures(connection):
        found = candidates.list_episodes(connection, signature, limit=_MOST_EPISODES)
        before = candidates.find_by_signature(connection, signature)
        proposal = _proposal(found, Occurrences(*_seen(connection, signature)), values, now, before, taken)
        if before:
            known.append(proposal)
        elif proposal.tier not in tiers:
            continue
        elif rejections.is_rejected_candidate(connection, signature):
            pass  # it counts as weighed, and does not come again
        elif proposal.tier == 1 or proposal.score >= PROPOSAL_THRESHOLD:
            new.append(proposal)
            continue
        weighed.append(signature)
    new.sort(key=lambda one: (-one.score, one.signature))
    new = new[: int(values["maxCandidatesPerScan"])]
    weighed += [one.signature for one in new]
    candidates.store_candidates(connection, [*known, *new], weighed_signatures=weighed)
    made = {one.signature: one for one in candidates.list_candidates(connection)}
    return [made[one.signature] for one in new]


def _seen(connection: Connection, signature: str) -> tuple[int, tuple[str, ...], tuple[str, ...]]:
    times, sessions, projects = candidates.read_occurrences(connection, signature)
    return times, tuple(sessions), tuple(projects)


def _proposal(
    found: Sequence[MinedEpisode],
    seen: Occurrences,
    values: Mapping[str, Any],
    now: float,
    before: Candidate | None,
    taken: set[str],
) -> Candidate:
    best = found[0]
    parts = dict(best.body["parts"])
    if best.tier == 2:
        silent = bool(best.body["refused"] and not best.body["person"])
        parts["recurs"] = episodes.score_recurrence(best.body["about"], silent, len(seen.sessions))
    record = build_suggested_record(found, seen, values)
    slug = before.slug if before else slugs.create_slug(record["summary"], taken, clock.create_suffix)
    taken.add(slug)
    return Candidate(
        number=before.number if before else 0,
        id=before.id if before else clock.create_ulid(now),
        slug=slug,
        signature=best.signature,
        tier=best.tier,
        status=before.status if before else "candidate",
        score=episodes.compute_score(parts),
        parts=parts,
        occurrences=seen.count,
        sessions=seen.sessions,
        projects=seen.projects,
        record=record,
        lesson=before.lesson if before else "",
        found_at=before.found_at if before else now,
        decided_at=before.decided_at if before else None,
    )


def build_suggested_record(
    mined_episodes: Sequence[MinedEpisode], occurrences: Occurrences, values: Mapping[str, Any]
) -> dict[str, Any]:
    """The record that a person would accept or edit, from the best signal and the counts of all."""
    best = mined_episodes[0].body
    person = any(signal.body["person"] for signal in mined_episodes)
    given = dict(best.get("record") or {})
    problem, solution = best["problem"], best["solution"]
    priority = given.get("priority", compute_priority(best["tags"], person, occurrences, values))
    record = {
        "summary": given.get("summary")
        or (_summary(best) if mined_episodes[0].tier == 2 else lesson_tags.build_summary(problem, solution)),
        "problem": problem,
        "solution": solution,
        "delivery": given.get("delivery") or _delivery(best, priority),
        "triggers": given.get("triggers") or _triggers(best),
        "scope": given.get("scope") or _scope(occurrences),
        "priority": priority,
        "confidence": best["confidence"],
        "tags": list(best["tags"]),
        "sourceSessionIds": list(occurrences.sessions[:_MOST_SESSIONS]),
        "occurrenceCount": occurrences.count,
        "evidence": [each for signal in mined_episodes[:_MOST_SESSIONS] for each in signal.body["evidence"]],
    }
    kept = {key: given[key] for key in ("unless", "blockReason") if key in given}
    return {**record, **kept}


def _summary(best: Mapping[str, Any]) -> str:
    """The call in short, and the error to the end of a word: a list of these must tell one from the other."""
    call = " ".join(str(best["command"] or best["file"] or best["tool"]).split())
    call = call if len(call) <= _CALL_IN_SHORT else call[:_CALL_IN_SHORT].rpartition(" ")[0] or call[:_CALL_IN_SHORT]
    error = " ".join(str(best["evidence"][0]["quote"]).split()) if best["evidence"] else ""
    said = f"{call} was refused: {best['person']}" if best["refused"] else f"{call} fails: {error}"
    return said if len(said) <= _SUMMARY else said[: _SUMMARY + 1].rpartition(" ")[0].rstrip(" .,;:…-")


def _delivery(best: Mapping[str, Any], priority: object) -> str:
    """A hold for what matters much, unless its trigger would stop what put it right."""
    if best["tool"] != "Bash" or not isinstance(priority, int) or priority < HOLD_FROM_PRIORITY:
        return "note"
    worked, trigger = str(best.get("worked", "")), str(best["trigger"])
    return "note" if worked and trigger and best.get("command") and re.search(trigger, worked) else "hold"


def _triggers(best: Mapping[str, Any]) -> dict[str, list[str]]:
    if not best["trigger"]:
        return {}
    kind = "commandPatterns" if best.get("command") else "pathPatterns"
    return {"toolNames": [best["tool"]], kind: [best["trigger"]]}


def _scope(seen: Occurrences) -> dict[str, str]:
    """What happened in two projects may happen in any."""
    if len(seen.projects) != 1 or not os.path.isabs(seen.projects[0]):
        return {"type": "global"}
    return {"type": "project", "path": seen.projects[0]}


def clean_episodes(mined_episodes: Sequence[MinedEpisode]) -> Sequence[MinedEpisode]:
    """The signals with nothing in them that may not be kept; most hold nothing of the kind, which one look tells."""
    texts = [text for signal in mined_episodes for text in collect_strings(signal.body)]
    return (
        mined_episodes
        if clean_texts(texts) == texts
        else [replace(signal, body=_cleaned(signal.body)) for signal in mined_episodes]
    )


def _cleaned(body: Mapping[str, Any]) -> Mapping[str, Any]:
    cleaned: Mapping[str, Any] = map_strings(body, lambda text, key: text if key == "path" else clean_text(text))
    return cleaned
