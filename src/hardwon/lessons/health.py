"""Do the lessons in force still serve? A lesson that fires on everything is soon read past, and one that never fires
is only weight. This is advice, decided from facts that are handed in: nothing here is wrong enough to stop anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from itertools import takewhile
from math import ceil
from shlex import quote
from typing import TYPE_CHECKING

from hardwon.lessons.manifest import find_lesson_tools
from hardwon.lessons.manifest_index import ManifestIndex
from hardwon.lessons.matching import list_call_texts, match_entry, prepare_call
from hardwon.lessons.replay import Replay, to_event
from hardwon.projects import is_in_scope
from hardwon.store.transcripts import ScannedCall
from hardwon.text import similarity
from hardwon.types import SHELL_TOOL, Lesson, frozen

if TYPE_CHECKING:
    from hardwon.lessons.matching import PatternSearch

DAY_SECONDS = 86_400
MIN_CALLS = 100  # recorded calls, before their number says anything
MAX_FIRING_SHARE = 0.05  # of the calls
MIN_AGE_SECONDS = 30 * DAY_SECONDS
STALE_SECONDS = 180 * DAY_SECONDS
MIN_EQUAL_PRIORITIES = 5
EVERYDAY_COMMANDS = ("ls", "pwd", "cd src", "echo hi", "git status")
EVERYDAY_TOOLS = (SHELL_TOOL, "Read", "Edit")
MAX_SAMPLE_CHARS = 60
MIN_SHARED_WORDS = 4
EMPTY_REPLAY = Replay(0, 0, 0, ())

LocateFolder = Callable[[str], tuple[str, Sequence[str]]]


@frozen
class LessonFacts:
    """What is known about lessons, each by its id: how often and when last delivered, on how many recorded calls it
    could have fired, on which it would have."""

    delivery_totals: Mapping[str, tuple[int, float]]
    eligible_calls: Mapping[str, int]
    replays: Mapping[str, Replay]


@frozen
class Advice:
    """What could be better about a lesson, and the command that mends it."""

    kind: str
    lesson: Lesson
    finding: str
    fix: str


def replay_calls(
    calls: Iterable[ScannedCall], index: ManifestIndex, *, search_pattern: PatternSearch, locate_folder: LocateFolder
) -> tuple[dict[str, int], dict[str, Replay]]:
    """The chances and the replay of every lesson, in one pass.

    `locate_folder` gives the root and the places of a folder.
    """
    counted: Counter[tuple[str, str]] = Counter()
    fired: dict[str, list[ScannedCall]] = {}
    for call in calls:
        counted[call.tool, call.cwd] += 1
        event = to_event(call)
        numbers = index.find_possible_matches(call.tool, {text for text in list_call_texts(event) if text})
        if not numbers:
            continue
        root, places = locate_folder(call.cwd)
        sight = prepare_call(event, project_root=root, equivalent_folders=places)
        for entry in map(index.read_entry, numbers):
            if match_entry(entry, sight, search_pattern):
                fired.setdefault(entry.id, []).append(call)

    @cache
    def chances(tools: tuple[str, ...], project: str) -> int:
        met = (key for key in counted if key[0] in tools and is_in_scope(project, locate_folder(key[1])[1]))
        return sum(counted[key] for key in met)

    entries = [index.read_entry(number) for number in range(len(index))]
    return (
        {entry.id: chances(entry.tools, entry.project) for entry in entries if entry.delivery != "start"},
        {id: _replayed(those) for id, those in fired.items()},
    )


def _replayed(fired: Sequence[ScannedCall]) -> Replay:
    fine = [call for call in fired if call.outcome == "fine"]
    failed = sum(call.outcome == "failed" for call in fired)
    return Replay(len(fired), failed, len(fine), tuple(fine[:1]))


def find_advice(
    lessons: Sequence[Lesson],
    facts: LessonFacts,
    *,
    now: float,
    path_exists: Callable[[str], bool],
    search_pattern: PatternSearch,
) -> Iterator[Advice]:
    """Everything worth saying about the lessons in force, kind by kind."""
    yield from find_too_broad(lessons, facts, search_pattern)
    yield from find_never_firing(lessons, facts, now)
    yield from find_stale(lessons, facts, now, path_exists)
    yield from find_similar(lessons, facts)
    yield from find_equal_priorities(lessons, facts)


def find_too_broad(lessons: Iterable[Lesson], facts: LessonFacts, search: PatternSearch) -> Iterator[Advice]:
    """Lessons that fire on everyday calls: by the recorded calls, or by their looks where there are too few."""
    for lesson in lessons:
        if lesson.delivery == "start":
            continue
        if found := _tool_alone(lesson):
            flag = "--command REGEX" if SHELL_TOOL in find_lesson_tools(lesson) else "--path GLOB"
            yield Advice("too broad", lesson, f"{lesson.slug} {found}", _edit(lesson, flag))
        elif lesson.commands and SHELL_TOOL in find_lesson_tools(lesson):
            tried = facts.eligible_calls.get(lesson.id, 0) >= MIN_CALLS
            if found := _too_often(lesson, facts) if tried else _everyday(lesson, search):
                yield Advice("too broad", lesson, f"{lesson.slug} {found}", _edit(lesson, "--command REGEX"))


def _tool_alone(lesson: Lesson) -> str:
    if lesson.commands or lesson.contents or lesson.paths or lesson.path_regexes:
        return ""
    tool = next((tool for tool in find_lesson_tools(lesson) if tool in EVERYDAY_TOOLS), "")
    return f"fires on every {tool} call: it has no pattern" if tool else ""


def _too_often(lesson: Lesson, facts: LessonFacts) -> str:
    chances, seen = facts.eligible_calls[lesson.id], facts.replays.get(lesson.id, EMPTY_REPLAY)
    if seen.fires <= MAX_FIRING_SHARE * chances or seen.fine * 2 <= seen.fires:
        return ""
    sample = f", such as {_cut(seen.samples[0].command)!r}" if seen.samples else ""
    return f"would have fired on {seen.fires} of {chances} recorded calls; {seen.fine} of them went fine{sample}"


def _cut(command: str) -> str:
    return command if len(command) <= MAX_SAMPLE_CHARS else command[: MAX_SAMPLE_CHARS - 1] + "…"


def _everyday(lesson: Lesson, search: PatternSearch) -> str:
    for command in EVERYDAY_COMMANDS:
        fires = any(search(one, command) for one in lesson.commands)
        if fires and not any(search(one, command) for one in lesson.unless):
            return f"fires on a plain {command!r}"
    return ""


def find_never_firing(lessons: Iterable[Lesson], facts: LessonFacts, now: float) -> Iterator[Advice]:
    """Old lessons that were never delivered, and would not have been on any recorded call."""
    for lesson in lessons:
        chances, seen = facts.eligible_calls.get(lesson.id, 0), facts.replays.get(lesson.id, EMPTY_REPLAY)
        if (
            lesson.id in facts.delivery_totals
            or chances < MIN_CALLS
            or seen.fires
            or now - _created(lesson, now) < MIN_AGE_SECONDS
        ):
            continue
        found = f"{lesson.slug} was never delivered, and fires on none of {chances} recorded calls"
        yield Advice("never fires", lesson, found, f"{_edit(lesson)}, or: {_retire(lesson)}")


def _created(lesson: Lesson, now: float) -> float:
    try:
        return datetime.fromisoformat(lesson.created_at).timestamp()
    except (ValueError, OverflowError, OSError):
        return now


def find_stale(
    lessons: Iterable[Lesson], facts: LessonFacts, now: float, exists: Callable[[str], bool]
) -> Iterator[Advice]:
    """Lessons about what is gone, and lessons that were of use once."""
    for lesson in lessons:
        count, latest = facts.delivery_totals.get(lesson.id, (0, now))
        gone = next((path for path in _named(lesson) if not exists(path)), "")
        if lesson.project and not exists(lesson.project):
            found, fix = f"belongs to {lesson.project}, which is gone", _retire(lesson)
        elif gone:
            found, fix = f"is about {gone}, which is gone", f"{_edit(lesson)}, or: {_retire(lesson)}"
        elif count and now - latest > STALE_SECONDS:
            found, fix = f"was last delivered {(now - latest) / DAY_SECONDS:.0f} days ago", _retire(lesson)
        else:
            continue
        yield Advice("stale", lesson, f"{lesson.slug} {found}", fix)


def _named(lesson: Lesson) -> Iterator[str]:
    """The absolute paths that a lesson names. A quote stands for its transcript, and agents delete old transcripts, so
    evidence with a quote names none."""
    for one in lesson.evidence:
        path = one.get("path")
        if isinstance(path, str) and path.startswith(("/", "~/")) and not one.get("quote"):
            yield path
    for glob in lesson.paths:
        parts = glob.rstrip(" ").split("/")
        plain = "/".join(takewhile(lambda part: not set(part) & set("*?[\\"), parts))
        if glob.startswith(("/", "~/")) and plain not in ("", "~"):
            yield plain


def find_similar(lessons: Sequence[Lesson], facts: LessonFacts) -> Iterator[Advice]:
    """Lessons that say the same in other words; the one to retire has the lower priority, then the fewer deliveries."""

    def weight(lesson: Lesson) -> tuple[int, int]:
        return lesson.priority, facts.delivery_totals.get(lesson.id, (0, 0.0))[0]

    for earlier, later, share in _pairs(lessons):
        weaker = later if weight(later) <= weight(earlier) else earlier
        found = f"{earlier.slug} and {later.slug} have {share:.0%} of their words in common"
        yield Advice("alike", weaker, found, _retire(weaker))


def _pairs(lessons: Sequence[Lesson]) -> Iterator[tuple[Lesson, Lesson, float]]:
    """Two lessons with half their words in common share a few of the rarer half, so only those that do are compared.

    A lesson that is like an earlier one is compared with no third: of a crowd each is told its first likeness.
    """
    users = similarity.build_vocabulary(lessons).lessons_by_token
    said: list[list[str]] = [[] for _ in lessons]
    for one in sorted(users, key=lambda one: (len(users[one]), one)):
        for number in users[one]:
            said[number].append(one)
    words = [frozenset(own) for own in said]
    met: dict[str, list[int]] = {}
    for number, own in enumerate(said):
        half = ceil(similarity.SAME_THRESHOLD * len(own))
        rarer = own[: len(own) - half + MIN_SHARED_WORDS]
        shared: Counter[int] = Counter()
        for one in rarer:
            shared.update(met.get(one, ()))
        likely = (rival for rival, count in shared.items() if count >= min(MIN_SHARED_WORDS, half))
        rivals = (rival for rival in likely if _meet(lessons[rival], lessons[number]))
        shares = ((similarity.compute_jaccard(words[rival], words[number]), -rival) for rival in rivals)
        share, nearest = max(shares, default=(0.0, 0))
        if share >= similarity.SAME_THRESHOLD:
            yield lessons[-nearest], lessons[number], share
            continue
        for one in rarer:
            met.setdefault(one, []).append(number)


def _meet(a: Lesson, b: Lesson) -> bool:
    """Whether there is a place where both are in force."""
    return is_in_scope(a.project, [b.project]) or is_in_scope(b.project, [a.project])


def find_equal_priorities(lessons: Sequence[Lesson], facts: LessonFacts) -> Iterator[Advice]:
    if len(lessons) >= MIN_EQUAL_PRIORITIES and len({lesson.priority for lesson in lessons}) == 1:
        foremost = max(lessons, key=lambda lesson: facts.delivery_totals.get(lesson.id, (0, 0.0))[0])
        found = f"all {len(lessons)} lessons have priority {foremost.priority}: none goes first where room is short"
        other = 8 if foremost.priority < 8 else 5
        yield Advice("priorities", foremost, found, _edit(foremost, f"--priority {other}"))


def _edit(lesson: Lesson, flag: str = "") -> str:
    return f"hardwon lessons edit {quote(lesson.slug)} {flag}".rstrip()


def _retire(lesson: Lesson) -> str:
    return f"hardwon lessons retire {quote(lesson.slug)}"
