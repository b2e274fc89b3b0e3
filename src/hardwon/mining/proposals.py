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
from hardwon.agents.fields import strings_in
from hardwon.agents.transcript_steps import Step
from hardwon.mining import episodes
from hardwon.mining.episodes import THRESHOLD, Episode
from hardwon.privacy.cleaning import clean, clean_all
from hardwon.privacy.private_tags import mapped
from hardwon.store import candidates, rejections
from hardwon.store.candidates import Proposal
from hardwon.store.db import Connection
from hardwon.text import lesson_tags, slugs
from hardwon.text.similarity import normal
from hardwon.types import Signal, replace, word

HOLD_FROM = 7
_BASE_PRIORITY = 4
_TAGGED, _ALL_FIELDS, _CATEGORY = 0.6, 0.15, 0.05
_SEEN, _SEVERAL_ERRORS, _SEVERAL_CORRECTIONS, _PERSON, _HIGHEST = 0.4, 0.1, 0.05, 0.15, 0.6
_MOST_SESSIONS = 5
_MOST_EPISODES = 20
_SIGNED = 300
_CALL_IN_SHORT, _SUMMARY = 44, 112
_HANGS = frozenset({"severity:hang", "severity:timeout"})
_HARMS = frozenset({"severity:data-loss", "severity:silent-failure"})


def from_tag(tag: lesson_tags.Tag, step: Step, place: int, host: str, path: str, project: str) -> Signal:
    """A `#lesson` block that an agent wrote, not cleaned yet; what is wrong with it goes along, for review."""
    record = lesson_tags.record(tag, project=project)
    problem, solution = str(record.get("problem", "")), str(record.get("solution", ""))
    named = [str(one) for one in record.get("tags", [])]
    confidence = tag_confidence(tag.fields.get("tool", ""), tag.fields.get("trigger", ""), named)
    block = step.text[tag.start : tag.end].strip()
    quote = block.partition("\n")[0]
    body = {
        "tool": tag.fields.get("tool", ""),
        "problem": problem,
        "solution": solution,
        "trigger": tag.fields.get("trigger", ""),
        "tags": named,
        "record": record,
        "faults": list(tag.faults),
        "confidence": confidence,
        "person": "",
        "parts": {"tag": confidence},
        "evidence": [{"path": path, "line": step.line, "kind": "correction", "quote": problem[:_SIGNED] or quote}],
    }
    return Signal(
        key=f"{host}:{step.id}#{place}",
        tier=1,
        signature=f"lesson {normal(clean(problem or solution or block))[:_SIGNED]}",
        host=host,
        path=path,
        session=step.session,
        agent=step.agent,
        project=project,
        at=step.at,
        score=confidence,
        body=body,
    )


def from_episode(episode: Episode, host: str, path: str, project: str) -> Signal:
    """An error and what put it right, not cleaned yet."""
    failing, worked = episode.failing, episode.worked
    corrections = bool(worked) + bool(episode.agent_words)
    body = {
        "tool": failing.tool,
        "about": episode.errors[0].about,
        "command": failing.command,
        "file": failing.path,
        "worked": (worked.command or worked.path or worked.content) if worked else "",
        "removed": list(episode.removed),
        "added": list(episode.added),
        "reason": episode.agent_words,
        "person": episode.person_words,
        "refused": episode.refused,
        "attempts": len(episode.errors),
        "open": episode.open,
        "problem": episode.problem,
        "solution": episode.solution,
        "trigger": episode.trigger,
        "tags": list(episode.tags),
        "confidence": episode_confidence(bool(episode.person_words), len(episode.errors), corrections),
        "parts": dict(episode.parts),
        "evidence": [{"path": path, **each.__dict__} for each in episode.evidence],
    }
    return Signal(
        key=f"{host}:{episode.errors[0].id}",
        tier=2,
        signature=episode.signature,
        host=host,
        path=path,
        session=episode.session,
        agent=episode.agent,
        project=project,
        at=episode.at,
        score=episode.score,
        body=body,
        errors=tuple(f"{host}:{error.id}" for error in episode.errors),
    )


def tag_confidence(tool: str, trigger: str, named: Iterable[str]) -> float:
    """By the fields that are there: an agent that names tool, trigger and tags knew what it was about."""
    given = list(named)
    whole = _ALL_FIELDS if tool and trigger and given else 0.0
    sorted_by_kind = _CATEGORY if any(one.startswith(("tool:", "severity:")) for one in given) else 0.0
    return round(_TAGGED + whole + sorted_by_kind, 2)


def episode_confidence(person: bool, errors: int, corrections: int) -> float:
    """Between 0.4 and 0.6: what plain code found is never sure."""
    found = _SEEN + _PERSON * person + _SEVERAL_ERRORS * (errors > 1) + _SEVERAL_CORRECTIONS * (corrections > 1)
    return round(min(found, _HIGHEST), 2)


@word
class Seen:
    """How often, in which sessions, the latest first, and in which projects."""

    times: int
    sessions: tuple[str, ...]
    projects: tuple[str, ...]


def priority_of(named: Iterable[str], person: bool, seen: Seen, values: Mapping[str, Any]) -> int:
    given = frozenset(named)
    found = _BASE_PRIORITY + bool(given & _HARMS)
    found += values["scoring.hangTimeoutBonus"] if given & _HANGS else 0
    found += values["scoring.userCorrectionBonus"] if person else 0
    found += values["scoring.multiSessionBonus"] if len(seen.sessions) > 1 else 0
    found += values["scoring.multiProjectBonus"] if len(seen.projects) > 1 else 0
    found += values["scoring.singleOccurrencePenalty"] if seen.times == 1 else 0
    return max(1, min(10, found))


def refresh(connection: Connection, values: Mapping[str, Any], *, tiers: Sequence[int], now: float) -> list[Proposal]:
    """Weigh what is fresh; gives the candidates that are new, best first, at most as many as a scan may add.

    What there is no room for, or what is of a tier that was not asked for, stays fresh for the next scan.
    """
    known: list[Proposal] = []
    new: list[Proposal] = []
    weighed: list[str] = []
    taken = candidates.slugs(connection)
    for signature in candidates.fresh(connection):
        found = candidates.signals_of(connection, signature, limit=_MOST_EPISODES)
        before = candidates.by_signature(connection, signature)
        proposal = _proposal(found, Seen(*_seen(connection, signature)), values, now, before, taken)
        if before:
            known.append(proposal)
        elif proposal.tier not in tiers:
            continue
        elif rejections.is_rejected_candidate(connection, signature):
            pass  # it counts as weighed, and does not come again
        elif proposal.tier == 1 or proposal.score >= THRESHOLD:
            new.append(proposal)
            continue
        weighed.append(signature)
    new.sort(key=lambda one: (-one.score, one.signature))
    new = new[: int(values["maxCandidatesPerScan"])]
    weighed += [one.signature for one in new]
    candidates.weigh(connection, [*known, *new], weighed=weighed)
    made = {one.signature: one for one in candidates.listed(connection)}
    return [made[one.signature] for one in new]


def _seen(connection: Connection, signature: str) -> tuple[int, tuple[str, ...], tuple[str, ...]]:
    times, sessions, projects = candidates.seen(connection, signature)
    return times, tuple(sessions), tuple(projects)


def _proposal(
    found: Sequence[Signal], seen: Seen, values: Mapping[str, Any], now: float, before: Proposal | None, taken: set[str]
) -> Proposal:
    best = found[0]
    parts = dict(best.body["parts"])
    if best.tier == 2:
        silent = bool(best.body["refused"] and not best.body["person"])
        parts["recurs"] = episodes.recurrence(best.body["about"], silent, len(seen.sessions))
    record = suggested(found, seen, values)
    slug = before.slug if before else slugs.fresh(record["summary"], taken, clock.suffix)
    taken.add(slug)
    return Proposal(
        number=before.number if before else 0,
        id=before.id if before else clock.ulid(now),
        slug=slug,
        signature=best.signature,
        tier=best.tier,
        status=before.status if before else "candidate",
        score=episodes.total(parts),
        parts=parts,
        occurrences=seen.times,
        sessions=seen.sessions,
        projects=seen.projects,
        record=record,
        lesson=before.lesson if before else "",
        found_at=before.found_at if before else now,
        decided_at=before.decided_at if before else None,
    )


def suggested(found: Sequence[Signal], seen: Seen, values: Mapping[str, Any]) -> dict[str, Any]:
    """The record that a person would accept or edit, from the best signal and the counts of all."""
    best = found[0].body
    person = any(signal.body["person"] for signal in found)
    given = dict(best.get("record") or {})
    problem, solution = best["problem"], best["solution"]
    priority = given.get("priority", priority_of(best["tags"], person, seen, values))
    record = {
        "summary": given.get("summary")
        or (_summary(best) if found[0].tier == 2 else lesson_tags.summary(problem, solution)),
        "problem": problem,
        "solution": solution,
        "delivery": given.get("delivery") or _delivery(best, priority),
        "triggers": given.get("triggers") or _triggers(best),
        "scope": given.get("scope") or _scope(seen),
        "priority": priority,
        "confidence": best["confidence"],
        "tags": list(best["tags"]),
        "sourceSessionIds": list(seen.sessions[:_MOST_SESSIONS]),
        "occurrenceCount": seen.times,
        "evidence": [each for signal in found[:_MOST_SESSIONS] for each in signal.body["evidence"]],
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
    if best["tool"] != "Bash" or not isinstance(priority, int) or priority < HOLD_FROM:
        return "note"
    worked, trigger = str(best.get("worked", "")), str(best["trigger"])
    return "note" if worked and trigger and best.get("command") and re.search(trigger, worked) else "hold"


def _triggers(best: Mapping[str, Any]) -> dict[str, list[str]]:
    if not best["trigger"]:
        return {}
    kind = "commandPatterns" if best.get("command") else "pathPatterns"
    return {"toolNames": [best["tool"]], kind: [best["trigger"]]}


def _scope(seen: Seen) -> dict[str, str]:
    """What happened in two projects may happen in any."""
    if len(seen.projects) != 1 or not os.path.isabs(seen.projects[0]):
        return {"type": "global"}
    return {"type": "project", "path": seen.projects[0]}


def cleaned(found: Sequence[Signal]) -> Sequence[Signal]:
    """The signals with nothing in them that may not be kept; most hold nothing of the kind, which one look tells."""
    texts = [text for signal in found for text in strings_in(signal.body)]
    return found if clean_all(texts) == texts else [replace(signal, body=_cleaned(signal.body)) for signal in found]


def _cleaned(body: Mapping[str, Any]) -> Mapping[str, Any]:
    cleaned: Mapping[str, Any] = mapped(body, lambda text, key: text if key == "path" else clean(text))
    return cleaned
