"""Check lessons for `hardwon doctor`: faults, unapproved changes, and advice on those in force."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from itertools import groupby, islice, takewhile
from shlex import quote
from time import process_time
from typing import TYPE_CHECKING

from hardwon import clock, paths
from hardwon.agents.installation import Check
from hardwon.errors import UserError
from hardwon.lessons import manifest
from hardwon.lessons.call_texts import list_call_texts
from hardwon.lessons.lessons_file import get_project_lessons_path, read_own
from hardwon.lessons.manifest import APPROVE_COMMAND, BuildResult, find_lesson_tools
from hardwon.lessons.manifest_index import ManifestIndex, open_index
from hardwon.lessons.matching import match_entry
from hardwon.lessons.patterns import PatternCache
from hardwon.lessons.replay import Replay, list_folders, prepare_stored_call, to_event
from hardwon.projects import is_in_scope
from hardwon.store import db
from hardwon.store.efficacy import count_by_lesson
from hardwon.store.transcripts import ScannedCall, iter_ended_calls
from hardwon.text import similarity
from hardwon.text.characters import shorten_text
from hardwon.types import SHELL_TOOL, STATUSES, Lesson

if TYPE_CHECKING:
    from hardwon.lessons.matching import PatternSearch

MAX_SHOWN = 5  # of each kind of advice
MAX_CALLS, _MAX_REPLAY_SECONDS = 20_000, 2.0  # limits for replaying the newest calls
DAY_SECONDS = 86_400
MIN_CALLS = 100  # with fewer recorded calls, shares say nothing
_MAX_FIRING_SHARE = 0.05  # of the recorded calls
_MIN_AGE_SECONDS = 30 * DAY_SECONDS  # a younger lesson may not have had its chance yet
_STALE_SECONDS = 180 * DAY_SECONDS
# Tried on the lessons of a home that has recorded too few calls to judge by.
_EVERYDAY_COMMANDS = ("ls", "pwd", "cd src", "echo hi", "git status")
_EVERYDAY_TOOLS = (SHELL_TOOL, "Read", "Edit")
_MAX_SAMPLE_CHARS = 60
_EMPTY_REPLAY = Replay(fires=0, failed=0, fine=0, samples=())


def check_lessons(home: str, build_result: BuildResult) -> Iterator[Check]:
    """Yield the lines of `hardwon doctor` about the lessons of a build that has just been made."""
    fix = "hardwon lessons check" if build_result.faults else ""
    yield Check("lessons", not build_result.faults, f"{build_result.lesson_count} in force", fix)
    for fault in build_result.faults[:MAX_SHOWN]:
        yield Check("", False, fault, fix)
    changes = build_result.waiting_changes
    for change in changes[:MAX_SHOWN]:
        note = "" if change.approved is None else "; the version approved before stays in force"
        finding = f"{change.change} by hand in {paths.LESSONS} and not approved: {change.slug}{note}"
        yield Check("waiting", None, finding, APPROVE_COMMAND)
    if len(changes) > MAX_SHOWN:
        yield Check("waiting", None, f"and {len(changes) - MAX_SHOWN} more", APPROVE_COMMAND)
    waiting_slugs = {change.slug for change in changes}
    # What a person retired or has not decided about yet needs no repair.
    left_out = [
        (slug, reason) for slug, reason in build_result.left_out if slug not in waiting_slugs and reason not in STATUSES
    ]
    for slug, reason in left_out[:MAX_SHOWN]:
        yield Check("", None, f"left out {slug}: {reason}", f"hardwon lessons edit {slug}")
    yield from _check_advice(home)


def _check_advice(home: str) -> Iterator[Check]:
    """Yield advice about the lessons' wording and triggers; advice is never a fault."""
    index = open_index(home)
    search = PatternCache().search
    lessons, _ = manifest.choose_active_lessons(manifest.list_lessons(home), dict(index.settings))
    if not lessons:
        return
    facts = LessonFacts({}, {}, {})  # without history there is still advice on wording and paths
    try:
        if os.path.exists(os.path.join(home, paths.DATABASE)):  # a check must not create a database
            facts = _gather_facts(home, index, search)
    except UserError as error:
        yield Check("history", False, error.message, error.fix.removeprefix("hardwon doctor; "))
    except db.StoreError as error:
        yield Check("history", False, f"{paths.DATABASE} cannot be read: {error}", "moving it away starts a new one")
    own_ids = {lesson.id for lesson in read_own(home).lessons}
    advice = find_advice(lessons, facts, now=clock.now(), path_exists=_may_exist, search_pattern=search)
    for kind, group in groupby(advice, key=lambda item: item.kind):
        for item in islice(group, MAX_SHOWN):
            fix = item.fix
            if item.lesson.id not in own_ids:  # a repository's lesson is corrected there and then trusted again
                project = item.lesson.project
                fix = f"edit {get_project_lessons_path(project)}, then: hardwon trust {project}"
            yield Check(kind, None, item.finding, fix)
        if omitted_count := sum(1 for _ in group):
            yield Check(kind, None, f"and {omitted_count} more")


def _gather_facts(home: str, index: ManifestIndex, search: PatternSearch) -> LessonFacts:
    """Return what the database tells of the lessons: their deliveries, and on which recorded calls they would fire.

    Replaying stops after a number of calls or seconds, whichever comes first, and the facts are about the calls so far.
    """

    with closing(db.connect(home)) as connection:
        tools: set[str] = set()
        for entry in index.read_all_entries():
            tools.update(entry.tools)
        deadline = process_time() + _MAX_REPLAY_SECONDS
        calls_in_time = takewhile(lambda _: process_time() < deadline, iter_ended_calls(connection, tools))
        eligible_counts, replays = replay_calls(islice(calls_in_time, MAX_CALLS), index, search)
        return LessonFacts(count_by_lesson(connection), eligible_counts, replays)


def _may_exist(path: str) -> bool:
    """Return False only if a path is certainly gone; an inaccessible one may exist."""
    try:
        os.stat(os.path.expanduser(path))
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError):
        return True
    return True


@dataclass(frozen=True, slots=True)
class LessonFacts:
    """What the database knows about lessons, by lesson id."""

    delivery_totals: Mapping[str, tuple[int, float]]  # how many deliveries, and the time of the last
    eligible_calls: Mapping[str, int]  # recorded calls of the lesson's tools in its project
    replays: Mapping[str, Replay]  # for lessons that would have fired on recorded calls


@dataclass(frozen=True, slots=True)
class Advice:
    """A finding about a lesson, and the command that fixes it."""

    kind: str
    lesson: Lesson
    finding: str
    fix: str


def replay_calls(
    calls: Iterable[ScannedCall], index: ManifestIndex, search_pattern: PatternSearch
) -> tuple[dict[str, int], dict[str, Replay]]:
    """Replay all lessons on the calls in one pass; return eligible call counts and replays."""
    call_counts: Counter[tuple[str, str]] = Counter()
    calls_by_lesson: dict[str, list[ScannedCall]] = {}
    for call in calls:
        call_counts[call.tool, call.cwd] += 1
        event = to_event(call)
        numbers = index.find_possible_matches(call.tool, {text for text in list_call_texts(event) if text})
        if not numbers:
            continue
        matchable_call = prepare_stored_call(event)
        for entry in map(index.read_entry, numbers):
            if match_entry(entry, matchable_call, search_pattern):
                calls_by_lesson.setdefault(entry.id, []).append(call)

    @cache
    def count_eligible_calls(tools: tuple[str, ...], project: str) -> int:
        eligible_count = 0
        for (tool, cwd), count in call_counts.items():
            if tool in tools and is_in_scope(project, list_folders(cwd)):
                eligible_count += count
        return eligible_count

    eligible_counts = {
        entry.id: count_eligible_calls(entry.tools, entry.project)
        for entry in index.read_all_entries()
        if entry.delivery != "start"  # told when a session starts, so it fires on no call
    }
    replays = {lesson_id: _summarize_replay(fired_calls) for lesson_id, fired_calls in calls_by_lesson.items()}
    return eligible_counts, replays


def _summarize_replay(calls: Sequence[ScannedCall]) -> Replay:
    """Count the calls on which a lesson fired by their outcome, with one that went fine as the sample."""
    fine_calls = [call for call in calls if call.outcome == "fine"]
    failed_calls = [call for call in calls if call.outcome == "failed"]
    samples = tuple(fine_calls[:1])
    return Replay(len(calls), len(failed_calls), len(fine_calls), samples)


def find_advice(
    lessons: Sequence[Lesson],
    facts: LessonFacts,
    *,
    now: float,
    path_exists: Callable[[str], bool],
    search_pattern: PatternSearch,
) -> Iterator[Advice]:
    """Yield all advice about the lessons in force, kind by kind."""
    yield from _find_too_broad(lessons, facts, search_pattern)
    yield from _find_never_firing(lessons, facts, now)
    yield from find_stale(lessons, facts, now, path_exists)
    yield from find_similar(lessons, facts)


def _find_too_broad(lessons: Iterable[Lesson], facts: LessonFacts, search: PatternSearch) -> Iterator[Advice]:
    """Yield lessons that fire on everyday calls: recorded ones, or typical ones if too few are recorded."""
    for lesson in lessons:
        if lesson.delivery == "start":
            continue
        if finding := _describe_missing_pattern(lesson):
            flag = "--command REGEX" if SHELL_TOOL in find_lesson_tools(lesson) else "--path GLOB"
            yield Advice("too broad", lesson, f"{lesson.slug} {finding}", _format_edit_command(lesson, flag))
        elif lesson.commands and SHELL_TOOL in find_lesson_tools(lesson):
            if facts.eligible_calls.get(lesson.id, 0) >= MIN_CALLS:
                finding = _describe_frequent_firing(lesson, facts)
            else:
                finding = _describe_everyday_match(lesson, search)
            if finding:
                fix = _format_edit_command(lesson, "--command REGEX")
                yield Advice("too broad", lesson, f"{lesson.slug} {finding}", fix)


def _describe_missing_pattern(lesson: Lesson) -> str:
    """Say that a lesson fires on every call of an everyday tool; empty if it has a pattern, or a rarer tool."""
    if lesson.commands or lesson.contents or lesson.paths or lesson.path_regexes:
        return ""
    tool = next((tool for tool in find_lesson_tools(lesson) if tool in _EVERYDAY_TOOLS), "")
    return f"fires on every {tool} call: it has no pattern" if tool else ""


def _describe_frequent_firing(lesson: Lesson, facts: LessonFacts) -> str:
    """Say on how many recorded calls a lesson would have fired; empty if these are few, or mostly failed."""
    eligible_count = facts.eligible_calls[lesson.id]
    replay = facts.replays.get(lesson.id, _EMPTY_REPLAY)
    # Firing often is fine as long as at least half of these calls did not succeed.
    if replay.fires <= _MAX_FIRING_SHARE * eligible_count or replay.fine * 2 <= replay.fires:
        return ""
    sample = ""
    if replay.samples:
        command = shorten_text(replay.samples[0].command, _MAX_SAMPLE_CHARS)
        sample = f", such as {command!r}"
    return (
        f"would have fired on {replay.fires} of {eligible_count} recorded calls; {replay.fine} of them went "
        f"fine{sample}"
    )


def _describe_everyday_match(lesson: Lesson, search: PatternSearch) -> str:
    """Name an everyday command that a lesson fires on; empty if it fires on none."""
    for command in _EVERYDAY_COMMANDS:
        fires = any(search(pattern, command) for pattern in lesson.commands)
        is_called_off = any(search(pattern, command) for pattern in lesson.unless)
        if fires and not is_called_off:
            return f"fires on a plain {command!r}"
    return ""


def _find_never_firing(lessons: Iterable[Lesson], facts: LessonFacts, now: float) -> Iterator[Advice]:
    """Yield old lessons that were never delivered and would not fire on any recorded call."""
    for lesson in lessons:
        eligible_count = facts.eligible_calls.get(lesson.id, 0)
        replay = facts.replays.get(lesson.id, _EMPTY_REPLAY)
        has_fired = lesson.id in facts.delivery_totals or replay.fires
        age_seconds = now - _parse_creation_time(lesson, now)
        if has_fired or eligible_count < MIN_CALLS or age_seconds < _MIN_AGE_SECONDS:
            continue
        finding = f"{lesson.slug} was never delivered, and fires on none of {eligible_count} recorded calls"
        fix = f"{_format_edit_command(lesson)}, or: {_format_retire_command(lesson)}"
        yield Advice("never fires", lesson, finding, fix)


def _parse_creation_time(lesson: Lesson, now: float) -> float:
    """Return when a lesson was created; now if its date is unreadable, so that it counts as new."""
    try:
        return datetime.fromisoformat(lesson.created_at).timestamp()
    except (ValueError, OverflowError, OSError):
        return now


def find_stale(
    lessons: Iterable[Lesson], facts: LessonFacts, now: float, path_exists: Callable[[str], bool]
) -> Iterator[Advice]:
    """Yield lessons about missing files, and lessons not delivered for a long time."""
    for lesson in lessons:
        count, latest = facts.delivery_totals.get(lesson.id, (0, now))
        missing_path = next((path for path in _iter_lesson_paths(lesson) if not path_exists(path)), "")
        fix = _format_retire_command(lesson)
        if lesson.project and not path_exists(lesson.project):
            finding = f"belongs to {lesson.project}, which is gone"
        elif missing_path:
            finding = f"is about {missing_path}, which is gone"
            fix = f"{_format_edit_command(lesson)}, or: {fix}"
        elif count and now - latest > _STALE_SECONDS:
            finding = f"was last delivered {(now - latest) / DAY_SECONDS:.0f} days ago"
        else:
            continue
        yield Advice("stale", lesson, f"{lesson.slug} {finding}", fix)


def _iter_lesson_paths(lesson: Lesson) -> Iterator[str]:
    """Yield the absolute paths that a lesson names.

    Evidence with a quote comes from a transcript. Agents delete old transcripts, so its path does not count.
    """
    for item in lesson.evidence:
        path = item.get("path")
        if isinstance(path, str) and path.startswith(("/", "~/")) and not item.get("quote"):
            yield path
    for glob in lesson.paths:
        if not glob.startswith(("/", "~/")):
            continue  # it applies in every project
        # Of `/srv/app/**/*.py` only `/srv/app` must exist: the rest names no single file.
        parts = glob.rstrip(" ").split("/")
        fixed_parts = takewhile(lambda part: not set(part) & set("*?[\\"), parts)
        fixed_prefix = "/".join(fixed_parts)
        if fixed_prefix not in ("", "~"):
            yield fixed_prefix


def find_similar(lessons: Sequence[Lesson], facts: LessonFacts) -> Iterator[Advice]:
    """Yield lessons that say the same; retire the one with lower priority, or else with fewer deliveries."""

    def get_weight(lesson: Lesson) -> tuple[int, int]:
        delivery_count, _ = facts.delivery_totals.get(lesson.id, (0, 0.0))
        return lesson.priority, delivery_count

    for earlier, later, share in _find_similar_pairs(lessons):
        weaker = later if get_weight(later) <= get_weight(earlier) else earlier
        finding = f"{earlier.slug} and {later.slug} have {share:.0%} of their words in common"
        yield Advice("alike", weaker, finding, _format_retire_command(weaker))


def _find_similar_pairs(lessons: Sequence[Lesson]) -> Iterator[tuple[Lesson, Lesson, float]]:
    """Yield pairs of similar lessons in force in the same folders, with their share of common words.

    A lesson similar to an earlier one is not compared again, so that each of several duplicates is named once.
    """
    vocabularies: dict[str, similarity.LessonVocabulary] = {}
    for lesson in lessons:
        nearest: tuple[Lesson, float] | None = None
        for project, vocabulary in vocabularies.items():
            if is_in_scope(project, [lesson.project]) or is_in_scope(lesson.project, [project]):
                match = similarity.find_nearest_in(vocabulary, lesson)
                if match and (nearest is None or match[1] > nearest[1]):
                    nearest = match
        if nearest and nearest[1] >= similarity.SAME_THRESHOLD:
            yield nearest[0], lesson, nearest[1]
        else:
            vocabulary = vocabularies.setdefault(lesson.project, similarity.build_vocabulary(()))
            similarity.add_to_vocabulary(vocabulary, lesson)


def _format_edit_command(lesson: Lesson, flag: str = "") -> str:
    return f"hardwon lessons edit {quote(lesson.slug)} {flag}".rstrip()


def _format_retire_command(lesson: Lesson) -> str:
    return f"hardwon lessons retire {quote(lesson.slug)}"
