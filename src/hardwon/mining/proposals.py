"""Turn stored episodes into candidates: word, rate and rank them; `gate` decides whether recorded calls prove them.

Episodes with the same signature make one candidate. The best episode gives the wording, all of them the counts. A
candidate that passes the gate has the status `candidate` and is on the default list. A failure that several sessions
met without a lesson has the status `open`. Only a person approves.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

from hardwon import clock
from hardwon.lessons.call_replies import STOPPING_MODES
from hardwon.lessons.patterns import PatternCache
from hardwon.lessons.review_queue import UNPROVEN_WEIGHT
from hardwon.mining import gate
from hardwon.mining.gate import ReplayFigures
from hardwon.mining.later_fixes import attach_later_fixes
from hardwon.mining.suggestions import suggest_summary
from hardwon.mining.triggers import matches_command
from hardwon.store import candidates, deletions
from hardwon.store.candidates import PROPOSED_PREFIX, Candidate
from hardwon.store.db import Connection
from hardwon.text import lesson_tags
from hardwon.text.excerpts import create_slug
from hardwon.types import MINED_TIER, TAG_TIER, MinedEpisode, Pattern, frozen, replace

CANDIDATE, OPEN = "candidate", "open"
_BASE_PRIORITY = 4
_MAX_SESSIONS = 5
_MAX_EPISODES = 20
_HANG_TAGS = frozenset({"severity:hang", "severity:timeout"})
_HARM_TAGS = frozenset({"severity:data-loss", "severity:silent-failure"})


@frozen
class Occurrences:
    """How often an error happened, in which sessions (latest first) and in which projects."""

    count: int
    sessions: tuple[str, ...]
    projects: tuple[str, ...]


def compute_priority(
    tag_names: Iterable[str], person: bool, occurrences: Occurrences, values: Mapping[str, Any]
) -> int:
    """Compute a lesson's priority, 1 to 10; `person` if a person corrected the call."""
    tags = frozenset(tag_names)
    priority: int = _BASE_PRIORITY
    if tags & _HARM_TAGS:
        priority += 1
    if tags & _HANG_TAGS:
        priority += values["scoring.hangTimeoutBonus"]
    if person:
        priority += values["scoring.userCorrectionBonus"]
    if len(occurrences.sessions) > 1:
        priority += values["scoring.multiSessionBonus"]
    if len(occurrences.projects) > 1:
        priority += values["scoring.multiProjectBonus"]
    if occurrences.count == 1:
        priority += values["scoring.singleOccurrencePenalty"]
    return max(1, min(10, priority))


def refresh_candidates(
    connection: Connection, values: Mapping[str, Any], *, tiers: Sequence[int], now: float
) -> list[Candidate]:
    """Weigh new episodes, gate all waiting candidates, and return the newly listed ones, best first.

    A scan lists at most `maxCandidatesPerScan`. The rest, and episodes of other tiers, stay fresh for the next scan.
    """
    _attach_tags(connection)
    attach_later_fixes(connection)
    drafts, weighed_signatures = _draft_candidates(connection, values, tiers, now)
    # The calls recorded since may speak for or against those that wait, too.
    proposals = [*drafts, *_list_waiting(connection, {draft.signature for draft in drafts})]
    gated = _pass_gate(connection, proposals, float(values["minTriggerPrecision"]))
    gated.sort(key=lambda candidate: (-candidate.score, candidate.signature))  # numbers are assigned in this order
    new_signatures = [item.signature for item in gated if not item.number and item.status == CANDIDATE]
    room = int(values["maxCandidatesPerScan"])
    listed_signatures = new_signatures[:room]
    postponed = set(new_signatures[room:])
    candidates.store_candidates(
        connection,
        [candidate for candidate in gated if candidate.signature not in postponed],
        weighed_signatures=[signature for signature in weighed_signatures if signature not in postponed],
    )
    stored_by_signature = {candidate.signature: candidate for candidate in candidates.list_candidates(connection)}
    return [stored_by_signature[signature] for signature in listed_signatures]


def _draft_candidates(
    connection: Connection, values: Mapping[str, Any], tiers: Sequence[int], now: float
) -> tuple[list[Candidate], list[str]]:
    """Return the candidates that fresh episodes make or change, and all signatures that were weighed."""
    drafts: list[Candidate] = []
    weighed_signatures: list[str] = []
    used_slugs = candidates.list_slugs(connection)
    for signature in candidates.list_fresh_signatures(connection):
        mined_episodes = candidates.list_episodes(connection, signature, limit=_MAX_EPISODES)
        if find_wording_source(mined_episodes).tier not in tiers:
            continue
        weighed_signatures.append(signature)
        if deletions.is_rejected_candidate(connection, signature):
            continue  # it counts as weighed, so it does not come back
        previous = candidates.find_by_signature(connection, signature)
        occurrences = _read_occurrences(connection, signature)
        # Without a score it is kept only once a second session met the failure.
        if previous or mined_episodes[0].score or len(occurrences.sessions) > 1:
            drafts.append(_build_candidate(mined_episodes, occurrences, values, now, previous, used_slugs))
    return drafts, weighed_signatures


def _list_waiting(connection: Connection, excluded_signatures: Set[str]) -> list[Candidate]:
    """Return the mined candidates that nobody has decided about."""
    undecided = candidates.list_candidates(connection, CANDIDATE) + candidates.list_candidates(connection, OPEN)
    return [
        candidate
        for candidate in undecided
        if candidate.signature not in excluded_signatures and not candidate.signature.startswith(PROPOSED_PREFIX)
    ]


def _attach_tags(connection: Connection) -> None:
    """Count an agent's tag under the episode that it is about, so that both make one candidate with the evidence."""
    for tag in candidates.list_fresh_tags(connection):
        episodes = candidates.list_session_episodes(connection, tag.host, tag.session)
        for episode in episodes:  # the newest first
            if episode.at <= tag.at and is_tag_about(tag, episode):
                if episode.signature != tag.signature:
                    candidates.move_episode(connection, tag.key, episode.signature)
                break


def is_tag_about(tag: MinedEpisode, episode: MinedEpisode) -> bool:
    """Return whether a tag is about this episode: its trigger matches the failed call, or it names what failed."""
    triggers = tag.body["record"].get("triggers", {})
    command = episode.body["command"]
    if command and matches_command(triggers, command, _search_agent_pattern):
        return True
    named_words = episode.signature.split()[1:] if episode.signature.startswith("call ") else []
    text = f"{tag.body['trigger']} {tag.body['problem']} {tag.body['solution']}"
    return bool(named_words) and all(word in text for word in named_words)


def _search_agent_pattern(source: str, text: str) -> bool:
    """Search under a time limit, because the agent may have copied the pattern from a file of somebody else."""
    return PatternCache().search(Pattern(source), text)


def _read_occurrences(connection: Connection, signature: str) -> Occurrences:
    times, sessions, projects = candidates.read_occurrences(connection, signature)
    return Occurrences(times, tuple(sessions), tuple(projects))


def _pass_gate(connection: Connection, proposals: Sequence[Candidate], min_share: float) -> list[Candidate]:
    """Replay each candidate and set its status, delivery and rank from the result."""
    suggested = {item.signature: item.record for item in proposals if _get_certainty(item)}
    mined_names = {item.signature for item in proposals if item.tier == MINED_TIER}
    figures = gate.replay_records(connection, suggested, mined_names=mined_names) if suggested else {}
    return [
        _rate_candidate(candidate, figures.get(candidate.signature, ReplayFigures()), min_share)
        for candidate in proposals
    ]


def _rate_candidate(candidate: Candidate, figures: ReplayFigures, min_share: float) -> Candidate:
    """Return a candidate with status, delivery, score and their parts set from the replay of its trigger."""
    repeated_in = candidate.sessions[:-1]  # without the oldest session, which could not have known the lesson
    stopped = len(figures.failed_sessions.intersection(repeated_in))
    certainty = _get_certainty(candidate)
    is_proven = gate.is_proven(candidate, certainty, figures, min_share)
    parts = {
        "certainty": certainty,
        "cured": candidate.parts.get("cured", 0.0),
        "stopped": stopped,
        "repeats": len(repeated_in),
        "failed": figures.failed,
        "fine": figures.fine,
        "calls": figures.fine_calls,
        "proven": float(is_proven),
        "judged": candidate.parts.get("judged", 0.0),
    }
    needs_no_proof = gate.needs_no_proof(candidate)
    is_listed = is_proven or needs_no_proof
    weight = 0.0
    if is_proven:
        weight = stopped + certainty  # certainty is below 1, so repeats come first
    elif needs_no_proof:
        weight = UNPROVEN_WEIGHT * certainty
    record = candidate.record
    # One that was listed or decided before keeps its delivery.
    if is_listed and (not candidate.number or candidate.status == OPEN):
        record = _set_delivery(record, _choose_delivery(candidate, figures, is_proven=is_proven))
    status = candidate.status
    if status in (CANDIDATE, OPEN):
        status = CANDIDATE if is_listed else OPEN
    return replace(candidate, status=status, score=round(weight / (1 + weight), 3), parts=parts, record=record)


def _set_delivery(record: Mapping[str, Any], delivery: str) -> dict[str, Any]:
    """Return a record with another delivery, and a block's reason only for a block."""
    changed = {**record, "delivery": delivery}
    if delivery == "block":
        changed["blockReason"] = changed["solution"]
    else:
        changed.pop("blockReason", None)
    return changed


def _get_certainty(candidate: Candidate) -> float:
    """Return how certain the mistake is; 0 for mined candidates of version 0.2, which did not store it."""
    return candidate.parts.get("certainty", candidate.parts.get("tag", 0.0))


def _choose_delivery(candidate: Candidate, figures: ReplayFigures, *, is_proven: bool) -> str:
    """Choose the delivery; an agent's tag may stop calls only if the recorded calls prove its trigger."""
    has_cure = bool(candidate.parts.get("cured"))
    written: str = candidate.record["delivery"]
    if candidate.tier == MINED_TIER or (is_proven and (has_cure or candidate.parts.get("judged"))):
        return gate.choose_delivery(figures, has_cure=has_cure)
    if written not in STOPPING_MODES:
        return written
    return "hold" if is_proven else "note"


def _build_candidate(
    mined_episodes: Sequence[MinedEpisode],
    occurrences: Occurrences,
    values: Mapping[str, Any],
    now: float,
    previous: Candidate | None,
    used_slugs: set[str],
) -> Candidate:
    """Build the candidate of a signature from its episodes; one that is known keeps its number, name and decision."""
    tag = find_wording_source(mined_episodes)
    episode = _find_episode(mined_episodes)
    record = build_suggested_record(mined_episodes, occurrences, values)
    best = episode or tag
    is_judged = bool(tag.body.get("judged"))
    cured = bool(episode and (episode.body["worked"] or episode.body["person"]))
    fields: dict[str, Any] = {
        "tier": tag.tier,
        "score": best.score,
        "parts": {
            "certainty": tag.score if is_judged else best.score,
            "cured": float(cured),
            "judged": float(is_judged),
        },
        "occurrences": occurrences.count,
        "sessions": occurrences.sessions,
        "projects": occurrences.projects,
        "record": record,
    }
    if previous is None:
        slug = create_slug(record["summary"], used_slugs, clock.create_suffix)
        used_slugs.add(slug)
        return Candidate(
            number=0,
            id=clock.create_ulid(now),
            slug=slug,
            signature=best.signature,
            status=CANDIDATE,
            found_at=now,
            **fields,
        )
    # An agent's tag about a mined candidate brings other words, so it gets a new number and is shown again, unless it
    # was decided about.
    is_reworded = previous.tier == MINED_TIER and tag.tier == TAG_TIER and previous.status in (CANDIDATE, OPEN)
    number = 0 if is_reworded else previous.number
    return replace(previous, number=number, signature=best.signature, **fields)


def find_wording_source(mined_episodes: Sequence[MinedEpisode]) -> MinedEpisode:
    """Return the episode whose words are proposed: the agent's own if it wrote a complete tag, else the best."""
    for episode in mined_episodes:
        body = episode.body
        is_complete = body["problem"] and body["solution"]
        if episode.tier == TAG_TIER and is_complete and not body["faults"]:
            return episode
    return mined_episodes[0]


def _find_episode(mined_episodes: Sequence[MinedEpisode]) -> MinedEpisode | None:
    """Return the best episode of failed calls, without tags."""
    return next((episode for episode in mined_episodes if episode.tier == MINED_TIER), None)


def build_suggested_record(
    mined_episodes: Sequence[MinedEpisode], occurrences: Occurrences, values: Mapping[str, Any]
) -> dict[str, Any]:
    """Build the record that a person may accept, from the best episode and the counts of all."""
    source = find_wording_source(mined_episodes)
    best = source.body
    episode = _find_episode(mined_episodes)
    episode_body = episode.body if episode else {}
    person = any(episode.body["person"] for episode in mined_episodes)
    block_record = dict(best.get("record") or {})  # what the agent's tag says, if that gives the words
    problem = best["problem"]
    solution = best["solution"]
    summary = suggest_summary(problem) if source.tier == MINED_TIER else lesson_tags.build_summary(problem, solution)
    # The episode's trigger is known to match the failed call and not the one that worked. Where a reader judged, the
    # rules found no trigger, or one that fires on calls that go fine.
    mined_triggers = {} if best.get("judged") else episode_body.get("triggers")
    triggers = dict(mined_triggers or block_record.get("triggers") or {})
    target = triggers.pop("commandMatchTarget", "")
    exceptions = triggers.pop("unless", [])
    record = {
        "summary": block_record.get("summary") or summary,
        "problem": problem,
        "solution": solution,
        "delivery": block_record.get("delivery") or "note",
        "triggers": triggers,
        "scope": block_record.get("scope") or _choose_scope(occurrences, str(episode_body.get("about", ""))),
        "priority": block_record.get("priority", compute_priority(best["tags"], person, occurrences, values)),
        "confidence": best["confidence"],
        "tags": list(best["tags"]),
        "sourceSessionIds": list(occurrences.sessions[:_MAX_SESSIONS]),
        "occurrenceCount": occurrences.count,
        "evidence": [evidence for episode in mined_episodes[:_MAX_SESSIONS] for evidence in episode.body["evidence"]],
    }
    if target:
        record["commandMatchTarget"] = target
    if exceptions:
        record["unless"] = exceptions
    extra_fields = {key: block_record[key] for key in ("unless", "blockReason") if key in block_record}
    return {**record, **extra_fields}


def _choose_scope(occurrences: Occurrences, failure_kind: str) -> dict[str, str]:
    """Limit a lesson to its project; one seen in two projects may apply to any, unless it is about a file.

    Two worktrees of a repository have the same files, and once one is removed it counts as a project of its own.
    """
    folders = [project for project in occurrences.projects if os.path.isabs(project)]
    is_about_file = failure_kind == "path"
    if not folders or (len(occurrences.projects) > 1 and not is_about_file):
        return {"type": "global"}
    return {"type": "project", "path": folders[0]}
