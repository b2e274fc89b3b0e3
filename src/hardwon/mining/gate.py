"""Decide by the recorded calls whether a mined lesson is proposed, how it is delivered, and whether it steps down.

Rules that read text guess; recorded calls are facts. A trigger that fires on successful calls teaches agents to ignore
it, so at least half of its firings must have failed before a person is asked about it. A candidate is proposed if
`is_proven` or `needs_no_proof` says so.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from typing import Any

from hardwon import clock
from hardwon.errors import UserError
from hardwon.lessons import adding, lessons_file, manifest, validation
from hardwon.lessons.call_texts import list_call_texts
from hardwon.lessons.manifest import compile_entries, find_entry_literals
from hardwon.lessons.matching import match_entry
from hardwon.lessons.patterns import PatternCache
from hardwon.lessons.record import BadRecord, parse_lesson, to_lesson_record
from hardwon.lessons.replay import MIN_FIRINGS, list_folders, prepare_stored_call, to_event
from hardwon.mining.episodes import UNNAMED_SCORE
from hardwon.projects import is_in_scope
from hardwon.store import approvals, candidates, efficacy, transcripts
from hardwon.store.candidates import Candidate
from hardwon.store.db import Connection, transaction
from hardwon.store.transcripts import ScannedCall
from hardwon.text.characters import fold_case
from hardwon.types import GLOB_TOOL, MINED_TIER, SHELL_TOOL, TAG_TIER, Lesson, ManifestEntry, Pattern

MAX_REPLAYED_CALLS = 50_000  # only the newest: years of one person's work, replayed in a few seconds
_WITHIN_COMMAND = r"[^|;&\n]*"  # as mined triggers have it
_MAX_QUICK_CHARS = 1_000  # of a command that a mined pattern is tried on without a time limit


@dataclass(slots=True)
class ReplayFigures:
    """The calls a trigger would have fired on; a call that a person refused counts as failed."""

    failed: int = 0
    fine: int = 0
    fine_calls: int = 0  # successful calls that the trigger was tried on
    failed_sessions: set[str] = field(default_factory=set)

    def add_firing(self, call: ScannedCall) -> None:
        if call.outcome == "fine":
            self.fine += 1
        else:
            self.failed += 1
            self.failed_sessions.add(call.session)


def may_be_chance(certainty: float, *, is_repeated: bool) -> bool:
    """Return whether a mistake may be chance: the error does not name it, and no second session made it."""
    return certainty <= UNNAMED_SCORE and not is_repeated


def fails_often_enough(figures: ReplayFigures, min_share: float) -> bool:
    """Return whether enough of the calls that a trigger matches failed: for a proposal, and to stay in force."""
    return figures.failed > 0 and figures.failed / (figures.failed + figures.fine) >= min_share


def is_proven(candidate: Candidate, certainty: float, figures: ReplayFigures, min_share: float) -> bool:
    """Decide whether recorded calls prove a mistake: it is certain or repeated, and its trigger matches failures."""
    is_repeated = len(candidate.sessions) > 1
    if not certainty or may_be_chance(certainty, is_repeated=is_repeated):
        return False
    return fails_often_enough(figures, min_share)


def needs_no_proof(candidate: Candidate) -> bool:
    """Decide whether a candidate is proposed even if no recorded call proves it.

    An agent's tag is, because its agent wrote it on purpose. What a reader of transcripts suggests must be proven,
    unless it is told when a session starts and so has no trigger.
    """
    is_judged = bool(candidate.parts.get("judged"))
    return candidate.tier == TAG_TIER and (not is_judged or candidate.record["delivery"] == "start")


def replay_records(
    connection: Connection,
    suggested: Mapping[str, Mapping[str, Any]],
    *,
    mined_names: Collection[str] = (),
    limit: int = MAX_REPLAYED_CALLS,
) -> dict[str, ReplayFigures]:
    """Try the triggers of several records on the newest recorded calls in one pass.

    `mined_names` are the records whose triggers hardwon built. Patterns that anybody else wrote run under a time limit.
    """
    lessons: list[Lesson] = []
    for name, record in suggested.items():
        lesson = _parse_record(name, record)
        if lesson:
            lessons.append(lesson)
    entries = compile_entries(lessons)
    tools = {tool for entry in entries for tool in entry.tools}
    calls = islice(transcripts.iter_ended_calls(connection, tools), limit)
    return replay_entries(entries, calls, mined_names)


def _parse_record(name: str, record: Mapping[str, Any]) -> Lesson | None:
    """Return the lesson of a record; None if it is invalid or never fires on a call."""
    try:
        lesson = parse_lesson({**record, "id": name})
    except BadRecord:
        return None
    if lesson.delivery == "start" or validation.find_disabling_faults(lesson):
        return None
    return lesson


def replay_entries(
    entries: Sequence[ManifestEntry], calls: Iterable[ScannedCall], mined_names: Collection[str]
) -> dict[str, ReplayFigures]:
    """Try compiled triggers on calls; return the figures by the id of the entry.

    Most calls match nothing, so quick checks come first: a literal that only few calls have, then the tool and the
    project, all literals and a rough pattern. Only what passes them is parsed and matched.
    """
    figures = {entry.id: ReplayFigures() for entry in entries}
    mined_entries = [entry for entry in entries if entry.id in mined_names]
    rough_patterns = {entry.id: _build_rough_pattern(entry) for entry in mined_entries}
    literals_by_entry = {entry.id: _list_literals(entry) for entry in entries}
    entries_by_literal: dict[str, list[ManifestEntry]] = defaultdict(list)
    for entry in entries:  # the longest literal is usually the rarest
        entries_by_literal[max(literals_by_entry[entry.id], key=len, default="")].append(entry)
    mined_patterns = {pattern for entry in mined_entries for pattern in entry.commands}
    mined_patterns |= {Pattern(glob.source, glob.flags) for entry in mined_entries for glob in entry.globs}
    search = _build_search(mined_patterns)
    fine_counts: Counter[tuple[str, str]] = Counter()
    for call in calls:
        is_fine = call.outcome == "fine"
        fine_counts[call.tool, call.cwd] += is_fine
        text = _get_searched_text(call)
        present: list[ManifestEntry] = []
        for literal, literal_entries in entries_by_literal.items():
            if literal in text:  # "" is in every text: for entries without literals
                present += literal_entries
        # A denied call did not run, so it says nothing about the trigger.
        if not present or call.outcome == "denied":
            continue
        folders = list_folders(call.cwd)
        possible = [
            entry
            for entry in present
            if call.tool in entry.tools
            and is_in_scope(entry.project, folders)  # most candidates are limited to their project
            and all(literal in text for literal in literals_by_entry[entry.id])
            and _has_rough_match(rough_patterns.get(entry.id), call.command)
        ]
        if not possible:
            continue
        matchable_call = prepare_stored_call(to_event(call))
        for entry in possible:
            if match_entry(entry, matchable_call, search):
                figures[entry.id].add_firing(call)
    for entry in entries:
        figures[entry.id].fine_calls = _count_fine_calls(fine_counts, entry)
    return figures


def _count_fine_calls(counts: Mapping[tuple[str, str], int], entry: ManifestEntry) -> int:
    """Return how many calls of an entry's tools, in its project, went fine; `counts` are by tool and folder."""
    total = 0
    for (tool, folder), count in counts.items():
        if tool in entry.tools and is_in_scope(entry.project, list_folders(folder)):
            total += count
    return total


def _get_searched_text(call: ScannedCall) -> str:
    """Return the folded text of a call that literals are searched in.

    A word that a command writes with quotes inside is not found; that is rare, and only lowers a count.
    """
    if call.tool == SHELL_TOOL:
        text = call.command
    elif call.tool == GLOB_TOOL:
        text = "\n".join(list_call_texts(to_event(call)))
    else:
        text = f"{call.cwd}/{call.file}\n{call.content}"
    return fold_case(text)


def _build_search(mined_patterns: Collection[Pattern]) -> Callable[[Pattern, str], bool]:
    """Return a search with a time limit for all but mined patterns, which are quick on short commands.

    Most scans then do without the engine that has the limit, whose import and compilation take longer than the search.
    """
    get_cache = cache(PatternCache)

    def search(pattern: Pattern, text: str) -> bool:
        if pattern in mined_patterns and len(text) <= _MAX_QUICK_CHARS:
            return re.search(pattern.source, text, pattern.flags) is not None
        return get_cache().search(pattern, text)

    return search


def _list_literals(entry: ManifestEntry) -> list[str]:
    """Return literals that every matching call contains; empty if none is certain.

    Searching these first avoids parsing the command as a shell does, which costs a hundred times more.
    """
    literals_by_pattern: list[list[str]] = []
    for literal_sets in find_entry_literals(entry) or []:  # the sets of each pattern
        # A match has only one literal of each set, so it is certain only if the set has no other.
        single_literals: list[str] = []
        for literals in literal_sets:
            if len(literals) == 1:
                single_literals += literals
        literals_by_pattern.append(single_literals)
    if not literals_by_pattern:
        return []
    # A call needs to match only one of the patterns, so all of them must have the same literals.
    first = literals_by_pattern[0]
    return first if all(literals == first for literals in literals_by_pattern) else []


def _build_rough_pattern(entry: ManifestEntry) -> re.Pattern[str] | None:
    """Return a pattern that every matching command contains as it is written; None if that cannot be said.

    Parsing removes the text in quotes, and keeps the quotes and everything else in order. So two words of one simple
    command may have any text between them in the unparsed command.
    """
    if entry.tools != (SHELL_TOOL,) or entry.target == "full" or len(entry.commands) != 1:
        return None  # not as triggers are mined
    pattern = entry.commands[0]
    if _WITHIN_COMMAND not in pattern.source:
        return None
    # A simple command begins anywhere in the whole one, as after `cd web && `.
    rough_source = pattern.source.removeprefix("^").replace(_WITHIN_COMMAND, r"[\s\S]*")
    return re.compile(rough_source, pattern.flags)


def _has_rough_match(pattern: re.Pattern[str] | None, command: str) -> bool:
    """Return whether a command may match; true if there is no rough pattern or the command is long."""
    if pattern is None or len(command) > _MAX_QUICK_CHARS:  # a long one could backtrack for longer than parsing takes
        return True
    return pattern.search(command) is not None


def choose_delivery(figures: ReplayFigures, *, has_cure: bool) -> str:
    """Choose the delivery of a proposed lesson: note, hold or block.

    It is a note unless it is known what to do instead, and a block only if enough calls failed and none went fine.
    """
    if not has_cure:
        return "note"
    is_certain = figures.failed >= MIN_FIRINGS and not figures.fine
    return "block" if is_certain else "hold"


def retire_disproved_lessons(home: str, connection: Connection, min_share: float) -> list[str]:
    """Retire mined lessons that calls recorded since speak against; return a line for each.

    A lesson that a person brings back stays: its candidate records that it was retired before.
    """
    accepted = {candidate.lesson: candidate for candidate in candidates.list_candidates(connection, "active")}
    try:
        lessons = lessons_file.read_own(home).lessons
    except UserError:  # a broken file: the last good manifest stays in force, and doctor names the fault
        return []
    watched = {
        lesson.id: to_lesson_record(lesson)
        for lesson in lessons
        if lesson.status == "active" and lesson.id in accepted and _is_as_mined(accepted[lesson.id], lesson)
    }
    if not watched:
        return []
    mined_names = {lesson_id for lesson_id in watched if accepted[lesson_id].tier == MINED_TIER}
    lines: list[str] = []
    for lesson_id, figures in replay_records(connection, watched, mined_names=mined_names).items():
        if not figures.fine or fails_often_enough(figures, min_share):
            continue
        reason = f"fired on {figures.fine} calls that went fine and {figures.failed} that failed"
        lesson = _retire_lesson(home, connection, accepted[lesson_id], reason)
        lines.append(f"{lesson.slug}: {reason} (restore: hardwon lessons restore {lesson.slug})")
    if lines:
        manifest.build(home, clock.now())
    return lines


def _retire_lesson(home: str, connection: Connection, candidate: Candidate, reason: str) -> Lesson:
    """Take the lesson of a candidate out of force, which needs no approval."""
    lesson = adding.set_lesson_status(home, candidate.lesson, "retired")
    now = clock.now()
    with transaction(connection):
        approvals.undo_subject(connection, approvals.LESSON, lesson.id, now)
        efficacy.add_change(
            connection, lesson.id, lesson.slug, efficacy.RETIRED, reason=reason, path=efficacy.BY_HARDWON, now=now
        )
    candidates.record_decision(connection, candidate.id, "stepped-down", now, lesson.id)
    return lesson


def _is_as_mined(candidate: Candidate, lesson: Lesson) -> bool:
    """Return whether a lesson still has the trigger that hardwon proposed.

    One that a person or an agent wrote is theirs to judge. A candidate from an agent's tag has hardwon's trigger only
    if an episode with a fix or with a person's correction (`cured`) belongs to it.
    """
    if candidate.tier != MINED_TIER and not candidate.parts.get("cured"):  # the trigger of an agent's tag alone
        return False
    mined = _parse_record(lesson.id, candidate.record)
    return mined is not None and (mined.tools, mined.commands, mined.contents, mined.paths) == (
        lesson.tools,
        lesson.commands,
        lesson.contents,
        lesson.paths,
    )
