"""Keep one queue of lessons that wait for a person, shared by command line, viewer, prompt and plugin.

It contains what scans found in transcripts and what agents proposed. A mined candidate is a row of the database. A
lesson that an agent proposed is a record of lessons.json with the status `candidate`; it also gets a row, so that it
has a number like the others, and the row follows the record. Deciding about such a row changes its record.

The second half describes a candidate: as JSON in the format of the seed, and as what a person reads before deciding.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

from hardwon import claims, clock
from hardwon.errors import UserError
from hardwon.lessons import adding, lessons_file
from hardwon.lessons.record import BadRecord, parse_lesson, to_lesson_record
from hardwon.lessons.validation import REVIEW_BELOW
from hardwon.store import candidates
from hardwon.store.candidates import PROPOSED_PREFIX, Candidate, Judgement, list_episodes
from hardwon.store.db import Connection, transaction
from hardwon.text.characters import to_printable_line
from hardwon.text.similarity import find_nearest_lesson
from hardwon.types import MINED_TIER, TAG_TIER, Lesson, MinedEpisode

_MIN_SIMILARITY = 0.25  # of the words; below that lessons share only common ones
# A claim says that a proposal was announced; claims are deleted after 14 days, and older proposals are not news.
_ANNOUNCED_FOLDER = "announced-proposals"
_ANNOUNCED_SECONDS = 7 * 86_400.0
_MAX_ANNOUNCED, _MAX_ANNOUNCED_CHARS = 3, 110
UNPROVEN_WEIGHT = 0.1  # ranks what no recorded call proves below everything that is proven
_EVIDENCE_KEYS = frozenset(("path", "line", "kind", "quote"))
# The fields that a person reads and decides about. The others, such as dates, may change without a decision.
_REVIEWED_KEYS = (
    "summary",
    "problem",
    "solution",
    "injection",
    "delivery",
    "blockReason",
    "triggers",
    "unless",
    "commandMatchTarget",
    "scope",
    "priority",
    "confidence",
    "tags",
    "sourceSessionIds",
    "occurrenceCount",
)
PATTERN_NAMES = {"commandPatterns": "command", "pathPatterns": "path", "contentPatterns": "content"}
_PATTERN_LABELS = {**PATTERN_NAMES, "pathRegexes": "path"}
_DELIVERY_EFFECTS = {
    "note": "read beside the result of the call, once a session",
    "hold": "denied once a session, with this text; made again, it runs",
    "block": "denied every time",
    "start": "read when a session starts",
}
Segments = list[tuple[str, bool]]  # the pieces of a call, each with whether only this call has it
_NEAR_WORDS = 6  # equal words shown on each side of a difference
_MAX_DIFF_CHARS = 400
_WORD = re.compile(r"\S+\s*")


def list_waiting(home: str, connection: Connection, status: str = "candidate") -> list[Candidate]:
    """Return all candidates that wait for a decision, best first, or those with another status."""
    _sync_with_lessons_file(home, connection)
    return candidates.list_candidates(connection, status)


def find_in_queue(home: str, connection: Connection, name: str) -> Candidate | None:
    """Return a candidate by its number, slug or id, whatever its status."""
    _sync_with_lessons_file(home, connection)
    return candidates.find_by_name(connection, name)


def is_proposed_by_agent(candidate: Candidate) -> bool:
    """Return whether an agent proposed it in lessons.json, so that it has no transcript as evidence."""
    return candidate.signature.startswith(PROPOSED_PREFIX)


def write_accepted_lesson(home: str, candidate: Candidate, record: dict[str, Any]) -> Lesson:
    """Write an accepted candidate, over its own record if it was proposed there, else as a new lesson.

    A record with the id of a mined candidate was put there by somebody else, and `adding.add_record` refuses it.
    """
    if is_proposed_by_agent(candidate) and lessons_file.find_own_lesson(home, candidate.id) is not None:
        # Set every field that a person reads, so that nothing unseen stays in the record.
        return adding.edit_record(home, candidate.id, {**dict.fromkeys(_REVIEWED_KEYS), **record})
    return adding.add_record(home, record, is_approved=True, source=adding.SOURCE_SCAN)


def reject_record(home: str, candidate: Candidate) -> None:
    """Mark the record of a rejected candidate, if it was proposed in lessons.json."""
    if not is_proposed_by_agent(candidate):
        return
    lesson = lessons_file.find_own_lesson(home, candidate.id)
    if lesson is not None and lesson.status == "candidate":
        adding.set_lesson_status(home, candidate.id, "rejected")


def restore_record(home: str, candidate: Candidate) -> None:
    """Restore lessons.json to its state before the decision.

    An agent's proposal is in the file again as it was proposed; of a mined candidate nothing is.
    """
    if not is_proposed_by_agent(candidate):
        if candidate.lesson:  # empty if it was rejected
            adding.remove_record(home, candidate.lesson)
    elif lessons_file.find_own_lesson(home, candidate.id) is not None:
        previous = {name: candidate.record.get(name) for name in _REVIEWED_KEYS}
        adding.edit_record(home, candidate.id, {**previous, "status": "candidate"})


def _sync_with_lessons_file(home: str, connection: Connection) -> None:
    """Give each proposed lesson a row, and update rows whose record was decided about or removed elsewhere.

    If lessons.json is broken the rows stay as they are, so that mined candidates can still be decided about.
    """
    try:
        lessons = {lesson.id: lesson for lesson in lessons_file.read_own(home).lessons}
    except UserError:
        return
    stale_rows, decided_lessons = _compare_rows(candidates.list_proposed(connection), lessons)
    proposed_lessons = [lesson for lesson in lessons.values() if lesson.status == "candidate"]
    rows_by_id = {row.id: row for row in candidates.list_by_ids(connection, [lesson.id for lesson in proposed_lessons])}
    # A changed proposal gets a new number, so that nobody accepts unread text by an old number.
    stale_ids = {row.id for row in stale_rows}
    unlisted_lessons = [lesson for lesson in proposed_lessons if lesson.id not in rows_by_id or lesson.id in stale_ids]
    # Decided before, but the file has them as candidates again.
    reopened_rows = [row for row in rows_by_id.values() if is_proposed_by_agent(row) and row.status != "candidate"]
    if not (stale_rows or decided_lessons or unlisted_lessons or reopened_rows):
        return  # most often: no transaction, which would wait for other writers
    now = clock.now()
    used_slugs = candidates.list_slugs(connection) - {row.slug for row in stale_rows}
    with transaction(connection):
        for row in stale_rows:
            candidates.remove(connection, row.number)
        for lesson in decided_lessons:
            if lesson.status == "active":
                candidates.set_status(connection, lesson.id, "active", now, lesson.id)
            else:
                candidates.set_status(connection, lesson.id, "rejected", now, "")
        for lesson in unlisted_lessons:
            candidates.insert(connection, _build_candidate(lesson, used_slugs, now))
        for row in reopened_rows:
            candidates.set_status(connection, row.id, "candidate", at=None)


def _compare_rows(rows: Iterable[Candidate], lessons: Mapping[str, Lesson]) -> tuple[list[Candidate], list[Lesson]]:
    """Return the waiting rows whose record is gone or says something else by now, and the lessons decided about."""
    stale_rows = list[Candidate]()
    decided_lessons = list[Lesson]()
    for row in rows:
        if row.status != "candidate":
            continue
        lesson = lessons.get(row.id)
        if lesson is None:
            stale_rows.append(row)
        elif lesson.status != "candidate":
            decided_lessons.append(lesson)
        elif row.record != _select_reviewed_fields(lesson):
            stale_rows.append(row)
    return stale_rows, decided_lessons


def _build_candidate(lesson: Lesson, used_slugs: set[str], now: float) -> Candidate:
    """Build the row of a proposed lesson; the database gives it its number."""
    slug = lesson.slug
    if slug in used_slugs:  # by a mined candidate, which ignores the names in lessons.json
        slug = f"{slug}-{lesson.id[-6:].lower()}"
    return Candidate(
        number=0,
        id=lesson.id,
        slug=slug,
        signature=f"{PROPOSED_PREFIX}{lesson.id}",
        tier=TAG_TIER,
        status="candidate",
        score=round(UNPROVEN_WEIGHT * lesson.confidence, 3),
        parts={"tag": lesson.confidence},
        occurrences=max(lesson.occurrences, 1),
        sessions=tuple(lesson.source_sessions),
        projects=(lesson.project,) if lesson.project else (),
        record=_select_reviewed_fields(lesson),
        found_at=now,
    )


def _select_reviewed_fields(lesson: Lesson) -> Mapping[str, Any]:
    """Return what a person reads of a proposal: the fields that count, and the evidence that can be shown."""
    record = to_lesson_record(lesson)
    fields = {name: record[name] for name in _REVIEWED_KEYS if name in record}
    fields["evidence"] = [dict(item) for item in lesson.evidence if item.keys() >= _EVIDENCE_KEYS]
    return fields


def announce_proposals(connection: Connection, home: str) -> str:
    """Return a line for the person about each lesson that an agent reported, once; empty if there is no new one."""
    folder = claims.get_claim_folder(home, _ANNOUNCED_FOLDER)
    now = clock.now()
    token = os.urandom(8).hex()  # new each time, so that even our own earlier claim counts as taken
    lines: list[str] = []
    for candidate in candidates.list_reported(connection, since=now - _ANNOUNCED_SECONDS):
        if len(lines) == _MAX_ANNOUNCED:
            break  # the others come at the next start
        taken_at = claims.take(os.path.join(folder, candidate.id), token, now)
        if taken_at is not None:
            continue  # announced before
        summary = to_printable_line(candidate.record["summary"], _MAX_ANNOUNCED_CHARS)
        lines.append(
            f"hardwon: the agent proposes a lesson: {summary}"
            f" (type: hardwon accept {candidate.number}, or reject {candidate.number}; all: hardwon review)"
        )
    return "\n".join(lines)


def to_candidate_record(connection: Connection, candidate: Candidate) -> dict[str, Any]:
    """Return the candidate in the seed's format, with hardwon's additional fields."""
    episodes = list_episodes(connection, candidate.signature)
    record = candidate.record
    same_episodes = [item for item in episodes if item.body["solution"] == record["solution"]]
    episode_body = same_episodes[0].body if same_episodes else {}
    pattern = find_first_pattern(record, *PATTERN_NAMES)
    if candidate.tier == TAG_TIER:
        raw_trigger = episode_body.get("trigger")
    else:
        raw_trigger = episode_body.get("command") or episode_body.get("file")
    return {
        "index": candidate.number,
        "id": candidate.id,
        "slug": candidate.slug,
        "tier": candidate.tier,
        "status": candidate.status,
        "tool": episode_body.get("tool", ""),
        "confidence": record["confidence"],
        "priority": record["priority"],
        "occurrenceCount": candidate.occurrences,
        "sessionCount": len(candidate.sessions),
        "projectCount": len(candidate.projects),
        "projects": [os.path.basename(project) or project for project in candidate.projects],
        "summary": record["summary"],
        "problem": record["problem"],
        "solution": record["solution"],
        "tags": record["tags"],
        "trigger": str(raw_trigger or pattern),
        "triggerPattern": pattern,
        "triggers": record["triggers"],
        "delivery": record["delivery"],
        "scope": record["scope"],
        "needsReview": candidate.tier == MINED_TIER or record["confidence"] < REVIEW_BELOW,
        "sourceSessionIds": list(candidate.sessions),
        "signals": {"userCorrection": any(bool(episode.body.get("person")) for episode in episodes)},
        "score": candidate.score,
        "scoreParts": dict(candidate.parts),
        "difference": _find_difference(episodes, record["solution"]),
        "evidence": [entry for episode in episodes for entry in episode.body["evidence"]],
    }


def _find_difference(episodes: Sequence[MinedEpisode], solution: str) -> dict[str, Any]:
    """Return the failed call, the one that worked instead, and the arguments that only one of them has.

    Empty for an agent's own words about which no episode is known.
    """
    body = _find_episode_body(episodes, solution)
    return {key: body[key] for key in ("command", "worked", "removed", "added") if key in body}


def _find_episode_body(episodes: Sequence[MinedEpisode], solution: str) -> Mapping[str, Any]:
    """Return the episode that a candidate's words come from, or for an agent's own words one that it is about."""
    bodies = [episode.body for episode in episodes if episode.tier == MINED_TIER]
    # Preferably with the same solution, and preferably one in which a call worked in the end.
    bodies.sort(key=lambda body: (body["solution"] != solution, not body["worked"]))
    return bodies[0] if bodies else {}


def find_first_pattern(record: Mapping[str, Any], *kinds: str) -> str:
    """Return the first pattern of the first of these kinds that the record has; empty if it has none."""
    for kind in kinds:
        for pattern in record["triggers"].get(kind, ()):
            return str(pattern["source"] if isinstance(pattern, dict) else pattern)
    return ""


def describe_figures(parts: Mapping[str, float]) -> str:
    """Describe for the list on which calls a proposal would have fired."""
    repeats = int(parts.get("repeats", 0))
    stops = "seen in one session, no repeat yet"
    if repeats:
        stops = f"would have stopped {int(parts.get('stopped', 0))} of {repeats} repeats"
    false_alarms = f"fired on {int(parts.get('fine', 0))} of {int(parts.get('calls', 0))} calls that went fine"
    return f"{stops}; {false_alarms}"


def find_calls(connection: Connection, candidate: Candidate) -> tuple[Segments, Segments]:
    """Return the call that failed and the one that worked, with the words that differ marked; empty if not known."""
    body = _find_episode_body(list_episodes(connection, candidate.signature), candidate.record["solution"])
    # The problem is that of the first attempt; the last one may have failed in another way.
    failed = body.get("firstCommand") or body.get("command") or body.get("file") or ""
    return diff_calls(failed, body.get("worked") or "")


def diff_calls(failed: str, worked: str) -> tuple[Segments, Segments]:
    """Split two calls into pieces, each with whether only this call has it; equal words far from a change are cut."""
    old_words = _WORD.findall(failed[:_MAX_DIFF_CHARS])
    new_words = _WORD.findall(worked[:_MAX_DIFF_CHARS])
    if not new_words:
        # With nothing to compare to, marking every word as different would say nothing.
        return [(failed[:_MAX_DIFF_CHARS], False)] if old_words else [], []
    old_segments: Segments = []
    new_segments: Segments = []
    # Words are kept with the spaces behind them, for joining, and compared without.
    matcher = SequenceMatcher(None, [word.strip() for word in old_words], [word.strip() for word in new_words])
    for kind, old_start, old_end, new_start, new_end in matcher.get_opcodes():
        is_changed = kind != "equal"
        _add_segment(old_segments, old_words[old_start:old_end], is_changed=is_changed)
        _add_segment(new_segments, new_words[new_start:new_end], is_changed=is_changed)
    return old_segments, new_segments


def _add_segment(segments: Segments, words: Sequence[str], *, is_changed: bool) -> None:
    """Add the words as a piece, if there are any; of many equal ones only those near the ends."""
    if not is_changed and len(words) > 2 * _NEAR_WORDS:
        words = [*words[:_NEAR_WORDS], "… ", *words[-_NEAR_WORDS:]]
    if words:
        segments.append(("".join(words), is_changed))


def extract_rewording(candidate: Candidate, judgement: Judgement | None) -> dict[str, Any]:
    """Return the changes to the record that a reader suggests; none unless its judgement is valid and says `lesson`."""
    if judgement is None or judgement.void or judgement.verdict != "lesson":
        return {}
    body = judgement.body
    changes = {key: body[key] for key in ("summary", "problem", "solution", "delivery", "tags") if body.get(key)}
    if body.get("trigger"):
        # A reader names one trigger; for a candidate about files it is a path.
        triggers = candidate.record["triggers"]
        is_about_files = triggers.get("pathPatterns") and not triggers.get("commandPatterns")
        changes["pathPatterns" if is_about_files else "commandPatterns"] = [body["trigger"]]
    return changes


def find_similar_lesson(home: str, candidate: Candidate) -> tuple[Lesson, float] | None:
    """Return the most similar lesson and its share of words; None if they share only common words, or none is valid."""
    lessons = lessons_file.read_own(home).lessons
    others = [lesson for lesson in lessons if lesson.id != candidate.id and lesson.status != "rejected"]
    try:
        nearest = find_nearest_lesson(parse_lesson({**candidate.record, "id": candidate.id}), others)
    except BadRecord:
        return None
    return nearest if nearest and nearest[1] >= _MIN_SIMILARITY else None


def group_evidence(evidence: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return each quote once, with every line of the file where it stands."""
    lines_by_quote: dict[tuple[str, str, str], list[int]] = {}
    for entry in evidence:
        quote_key = (entry["path"], entry["kind"], entry["quote"])
        lines_by_quote.setdefault(quote_key, []).append(entry["line"])
    return [
        {"path": path, "kind": kind, "quote": quote, "lines": lines}
        for (path, kind, quote), lines in lines_by_quote.items()
    ]


def describe_record(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Describe a record field by field, with every field that has an effect, for the person who accepts it."""
    rows = [("problem", record["problem"]), ("solution", record["solution"]), ("trigger", describe_trigger(record))]
    if record.get("injection"):
        rows.append(("told as", record["injection"]))
    if record.get("unless"):
        rows.append(("unless", describe_unless(record)))
    delivery_parts = [record["delivery"], f"priority {record['priority']}", f"in {describe_scope(record)}"]
    rows.append(("delivery", ", ".join([*delivery_parts, *record["tags"]])))
    if record["delivery"] == "block":
        rows.append(("reason", record.get("blockReason") or record["solution"]))
    return rows


def describe_trigger(record: Mapping[str, Any]) -> str:
    """Return when a record fires, in a line; nothing if never."""
    triggers = record["triggers"]
    if record["delivery"] == "start":
        return "fires when a session starts"
    tools = triggers.get("toolNames") or ()
    phrases = []
    for key, label in _PATTERN_LABELS.items():
        if triggers.get(key):
            phrases.append(f"{label} {_join_patterns(triggers[key])}")
    patterns_text = "; ".join(phrases)
    if not tools:
        return patterns_text
    if not patterns_text:
        return f"fires on every {' or '.join(tools)} call"
    return f"{', '.join(tools)}: {patterns_text}"


def describe_unless(record: Mapping[str, Any]) -> str:
    return _join_patterns(record["unless"])


def _join_patterns(patterns: Iterable[Any]) -> str:
    """Return the patterns on one line; of a pattern with flags only its source."""
    sources = []
    for pattern in patterns:
        sources.append(str(pattern["source"]) if isinstance(pattern, dict) else str(pattern))
    return " | ".join(sources)


def describe_delivery(record: Mapping[str, Any]) -> str:
    """Return how the agent gets the lesson, in a line."""
    return f"{record['delivery']}: {_DELIVERY_EFFECTS.get(record['delivery'], 'not a delivery')}"


def describe_scope(record: Mapping[str, Any]) -> str:
    scope = record["scope"]
    return str(scope.get("path", "every project")) if isinstance(scope, dict) else str(scope)
