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

from hardwon.lessons.manifest import gate
from hardwon.lessons.manifest_index import Index
from hardwon.lessons.matching import match, see, texts
from hardwon.lessons.replay import Replay, event_of
from hardwon.projects import in_scope
from hardwon.store.transcripts import ScannedCall
from hardwon.text import similarity
from hardwon.types import SHELL, Lesson, word

if TYPE_CHECKING:
    from hardwon.lessons.matching import Search

DAY = 86_400
ENOUGH = 100  # recorded calls, before their number says anything
BROAD = 0.05  # of the calls
OLD = 30 * DAY
FORGOTTEN = 180 * DAY
ALL_EQUAL = 5
EVERYDAY = ("ls", "pwd", "cd src", "echo hi", "git status")
ALWAYS_USED = (SHELL, "Read", "Edit")
SAMPLE = 60
FEW = 4
UNTRIED = Replay(0, 0, 0, ())

Place = Callable[[str], tuple[str, Sequence[str]]]


@word
class Facts:
    """What is known about lessons, each by its id: how often and when last delivered, on how many recorded calls it
    could have fired, on which it would have."""

    delivered: Mapping[str, tuple[int, float]]
    chances: Mapping[str, int]
    replays: Mapping[str, Replay]


@word
class Advice:
    """What could be better about a lesson, and the command that mends it."""

    kind: str
    lesson: Lesson
    found: str
    fix: str


def replay_all(
    calls: Iterable[ScannedCall], index: Index, *, search: Search, place: Place
) -> tuple[dict[str, int], dict[str, Replay]]:
    """The chances and the replay of every lesson, in one pass; `place` gives the root and the places of a folder."""
    counted: Counter[tuple[str, str]] = Counter()
    fired: dict[str, list[ScannedCall]] = {}
    for call in calls:
        counted[call.tool, call.cwd] += 1
        event = event_of(call)
        numbers = index.candidates(call.tool, {text for text in texts(event) if text})
        if not numbers:
            continue
        root, places = place(call.cwd)
        sight = see(event, root=root, places=places)
        for entry in map(index.entry, numbers):
            if match(entry, sight, search):
                fired.setdefault(entry.id, []).append(call)

    @cache
    def chances(tools: tuple[str, ...], project: str) -> int:
        met = (key for key in counted if key[0] in tools and in_scope(project, place(key[1])[1]))
        return sum(counted[key] for key in met)

    entries = [index.entry(number) for number in range(len(index))]
    return (
        {entry.id: chances(entry.tools, entry.project) for entry in entries if entry.delivery != "start"},
        {id: _replayed(those) for id, those in fired.items()},
    )


def _replayed(fired: Sequence[ScannedCall]) -> Replay:
    fine = [call for call in fired if call.outcome == "fine"]
    failed = sum(call.outcome == "failed" for call in fired)
    return Replay(len(fired), failed, len(fine), tuple(fine[:1]))


def advise(
    lessons: Sequence[Lesson], facts: Facts, *, now: float, exists: Callable[[str], bool], search: Search
) -> Iterator[Advice]:
    """Everything worth saying about the lessons in force, kind by kind."""
    yield from too_broad(lessons, facts, search)
    yield from never_firing(lessons, facts, now)
    yield from stale(lessons, facts, now, exists)
    yield from alike(lessons, facts)
    yield from equal_priorities(lessons, facts)


def too_broad(lessons: Iterable[Lesson], facts: Facts, search: Search) -> Iterator[Advice]:
    """Lessons that fire on everyday calls: by the recorded calls, or by their looks where there are too few."""
    for lesson in lessons:
        if lesson.delivery == "start":
            continue
        if found := _tool_alone(lesson):
            flag = "--command REGEX" if SHELL in gate(lesson) else "--path GLOB"
            yield Advice("too broad", lesson, f"{lesson.slug} {found}", _edit(lesson, flag))
        elif lesson.commands and SHELL in gate(lesson):
            tried = facts.chances.get(lesson.id, 0) >= ENOUGH
            if found := _too_often(lesson, facts) if tried else _everyday(lesson, search):
                yield Advice("too broad", lesson, f"{lesson.slug} {found}", _edit(lesson, "--command REGEX"))


def _tool_alone(lesson: Lesson) -> str:
    if lesson.commands or lesson.contents or lesson.paths or lesson.path_regexes:
        return ""
    tool = next((tool for tool in gate(lesson) if tool in ALWAYS_USED), "")
    return f"fires on every {tool} call: it has no pattern" if tool else ""


def _too_often(lesson: Lesson, facts: Facts) -> str:
    chances, seen = facts.chances[lesson.id], facts.replays.get(lesson.id, UNTRIED)
    if seen.fires <= BROAD * chances or seen.fine * 2 <= seen.fires:
        return ""
    sample = f", such as {_cut(seen.samples[0].command)!r}" if seen.samples else ""
    return f"would have fired on {seen.fires} of {chances} recorded calls; {seen.fine} of them went fine{sample}"


def _cut(command: str) -> str:
    return command if len(command) <= SAMPLE else command[: SAMPLE - 1] + "…"


def _everyday(lesson: Lesson, search: Search) -> str:
    for command in EVERYDAY:
        fires = any(search(one, command) for one in lesson.commands)
        if fires and not any(search(one, command) for one in lesson.unless):
            return f"fires on a plain {command!r}"
    return ""


def never_firing(lessons: Iterable[Lesson], facts: Facts, now: float) -> Iterator[Advice]:
    """Old lessons that were never delivered, and would not have been on any recorded call."""
    for lesson in lessons:
        chances, seen = facts.chances.get(lesson.id, 0), facts.replays.get(lesson.id, UNTRIED)
        if lesson.id in facts.delivered or chances < ENOUGH or seen.fires or now - _created(lesson, now) < OLD:
            continue
        found = f"{lesson.slug} was never delivered, and fires on none of {chances} recorded calls"
        yield Advice("never fires", lesson, found, f"{_edit(lesson)}, or: {_retire(lesson)}")


def _created(lesson: Lesson, now: float) -> float:
    try:
        return datetime.fromisoformat(lesson.created).timestamp()
    except (ValueError, OverflowError, OSError):
        return now


def stale(lessons: Iterable[Lesson], facts: Facts, now: float, exists: Callable[[str], bool]) -> Iterator[Advice]:
    """Lessons about what is gone, and lessons that were of use once."""
    for lesson in lessons:
        count, latest = facts.delivered.get(lesson.id, (0, now))
        gone = next((path for path in _named(lesson) if not exists(path)), "")
        if lesson.project and not exists(lesson.project):
            found, fix = f"belongs to {lesson.project}, which is gone", _retire(lesson)
        elif gone:
            found, fix = f"is about {gone}, which is gone", f"{_edit(lesson)}, or: {_retire(lesson)}"
        elif count and now - latest > FORGOTTEN:
            found, fix = f"was last delivered {(now - latest) / DAY:.0f} days ago", _retire(lesson)
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


def alike(lessons: Sequence[Lesson], facts: Facts) -> Iterator[Advice]:
    """Lessons that say the same in other words; the one to retire has the lower priority, then the fewer deliveries."""

    def weight(lesson: Lesson) -> tuple[int, int]:
        return lesson.priority, facts.delivered.get(lesson.id, (0, 0.0))[0]

    for earlier, later, share in _pairs(lessons):
        weaker = later if weight(later) <= weight(earlier) else earlier
        found = f"{earlier.slug} and {later.slug} have {share:.0%} of their words in common"
        yield Advice("alike", weaker, found, _retire(weaker))


def _pairs(lessons: Sequence[Lesson]) -> Iterator[tuple[Lesson, Lesson, float]]:
    """Two lessons with half their words in common share a few of the rarer half, so only those that do are compared.

    A lesson that is like an earlier one is compared with no third: of a crowd each is told its first likeness.
    """
    users = similarity.index(lessons).users
    said: list[list[str]] = [[] for _ in lessons]
    for one in sorted(users, key=lambda one: (len(users[one]), one)):
        for number in users[one]:
            said[number].append(one)
    words = [frozenset(own) for own in said]
    met: dict[str, list[int]] = {}
    for number, own in enumerate(said):
        half = ceil(similarity.SAME * len(own))
        rarer = own[: len(own) - half + FEW]
        shared: Counter[int] = Counter()
        for one in rarer:
            shared.update(met.get(one, ()))
        likely = (rival for rival, count in shared.items() if count >= min(FEW, half))
        rivals = (rival for rival in likely if _meet(lessons[rival], lessons[number]))
        shares = ((similarity.jaccard(words[rival], words[number]), -rival) for rival in rivals)
        share, nearest = max(shares, default=(0.0, 0))
        if share >= similarity.SAME:
            yield lessons[-nearest], lessons[number], share
            continue
        for one in rarer:
            met.setdefault(one, []).append(number)


def _meet(a: Lesson, b: Lesson) -> bool:
    """Whether there is a place where both are in force."""
    return in_scope(a.project, [b.project]) or in_scope(b.project, [a.project])


def equal_priorities(lessons: Sequence[Lesson], facts: Facts) -> Iterator[Advice]:
    if len(lessons) >= ALL_EQUAL and len({lesson.priority for lesson in lessons}) == 1:
        foremost = max(lessons, key=lambda lesson: facts.delivered.get(lesson.id, (0, 0.0))[0])
        found = f"all {len(lessons)} lessons have priority {foremost.priority}: none goes first where room is short"
        other = 8 if foremost.priority < 8 else 5
        yield Advice("priorities", foremost, found, _edit(foremost, f"--priority {other}"))


def _edit(lesson: Lesson, flag: str = "") -> str:
    return f"hardwon lessons edit {quote(lesson.slug)} {flag}".rstrip()


def _retire(lesson: Lesson) -> str:
    return f"hardwon lessons retire {quote(lesson.slug)}"
