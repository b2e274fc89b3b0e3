"""Change how lessons are delivered by what followed their firings, and tell people at a session start what changed.

Judge firings, step down lessons with false alarms, and set how often measured lessons stay silent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from itertools import groupby

from hardwon.efficacy.outcomes import (
    CHANGED,
    GIVEN_UP,
    IGNORED,
    REPEATED_FAILED,
    REPEATED_FINE,
    STOPPING_DELIVERIES,
    UNKNOWN,
    find_agent_version,
    judge_open_firings,
)
from hardwon.efficacy.proof import PROVEN, SILENT_ARMS, TOLD_ARMS, LessonProof, build_proof
from hardwon.efficacy.staleness import LESSON, MEMORY, find_gone_subjects
from hardwon.lessons import manifest
from hardwon.store import efficacy
from hardwon.store.db import Connection, transaction
from hardwon.store.efficacy import (
    BEFORE,
    MEASURED,
    NOTE,
    RETIRE,
    RETIRED,
    SILENT,
    UNCHANGED_STATE,
    UNMEASURED,
    Firing,
    LessonChange,
    LessonState,
    ModelStart,
)
from hardwon.text.characters import format_count
from hardwon.types import Lesson

# A measured lesson is silent in half of the sessions until eight firings, which is where a strong effect shows; then in
# a fifth, so that most sessions are helped; once proven in a twentieth, so that it is noticed when the effect is gone.
FIRST_SHARE, LATER_SHARE, PROVEN_SHARE = 0.5, 0.2, 0.05
_FIRST_FIRINGS = 8
# Three of the last five firings: a lesson with 2 % of false alarms gets there in 1 of 200 runs of 60 firings.
_ALARM_WINDOW, _MAX_FALSE_ALARMS = 5, 3
_HARMLESS_FIRINGS = 10  # silent ones without a repeat, after which a lesson is not needed any more
_WEEK_SECONDS = 7 * 86_400.0
_WEEKLY = "weekly line shown at"
_MEMORY_PREFIX = "memory "  # before a memory's number, in the place of a lesson's slug


def update_deliveries(connection: Connection, home: str, now: float, *, is_changed: bool = False) -> None:
    """Judge what can be judged, and change deliveries that follow from it; builds the manifest if any changed.

    Without a new verdict there is nothing to do, unless a person has just changed something.
    """
    if not judge_open_firings(connection, home, now) and not is_changed:
        return
    lessons = manifest.list_lessons(home, "active")
    firings = _group_firings(efficacy.list_firings(connection))
    model = efficacy.find_newest_model(connection)
    with transaction(connection):
        all_changes = efficacy.list_changes(connection, only_live=False)
        for lesson in lessons:
            lesson_changes = [change for change in all_changes if change.lesson == lesson.id]
            _step_down_if_noisy(connection, lesson, firings.get(lesson.id, ()), lesson_changes, model, now)
        changes = efficacy.list_changes(connection)
        old_states = efficacy.list_lesson_states(connection)
        new_states = {}
        for lesson in lessons:
            state = _find_state(lesson, firings.get(lesson.id, ()), changes, model)
            if state != UNCHANGED_STATE:
                new_states[lesson.id] = state
        if new_states != old_states:
            efficacy.replace_lesson_states(connection, new_states)
    if new_states != old_states:
        manifest.build(home, now)


def propose_retiring_gone(connection: Connection, home: str, now: float) -> None:
    """Propose to retire lessons and memories about code that is gone; each once. Asks git, so not for hooks."""
    slugs = {lesson.id: lesson.slug for lesson in manifest.list_lessons(home, "active")}
    changes = efficacy.list_changes(connection, only_live=False)
    proposed = {change.lesson for change in changes if change.change == RETIRE}
    gone: list[tuple[str, str, str]] = []  # subject, its name, the code that it is about
    for lesson_id, code in find_gone_subjects(connection, LESSON).items():
        if lesson_id in slugs:
            gone.append((lesson_id, slugs[lesson_id], code))
    for number, code in find_gone_subjects(connection, MEMORY).items():
        name = f"{_MEMORY_PREFIX}{number}"
        gone.append((name, name, code))
    with transaction(connection):
        for subject, name, code in gone:
            if subject not in proposed:
                reason = f"{code}, which it is about, is gone, so it is withheld"
                efficacy.add_change(connection, subject, name, RETIRE, reason=reason, path=efficacy.BY_HARDWON, now=now)


def _group_firings(firings: Sequence[Firing]) -> dict[str, list[Firing]]:
    """Return the firings by lesson, each list in the order of their times."""
    ordered = sorted(firings, key=lambda firing: firing.lesson)
    return {lesson: list(group) for lesson, group in groupby(ordered, key=lambda firing: firing.lesson)}


def _find_state(
    lesson: Lesson, firings: Sequence[Firing], changes: Sequence[LessonChange], model: ModelStart
) -> LessonState:
    """Return how a lesson is delivered, from the changes that stand and its firings."""
    stepped_down_to = ""  # the last step counts
    for change in changes:
        if change.lesson == lesson.id and change.change in (NOTE, SILENT):
            stepped_down_to = change.change
    if not is_measured(lesson.id, changes):
        return LessonState(stepped_down_to)
    proof = build_proof(lesson, firings, model=model, is_measured=True)
    return LessonState(stepped_down_to, _choose_silent_share(proof, model))


def is_measured(lesson_id: str, changes: Sequence[LessonChange]) -> bool:
    """Return whether the last choice about measuring a lesson was to measure it; without a choice it is not."""
    for change in reversed(changes):
        if change.lesson == lesson_id and change.change in (MEASURED, UNMEASURED):
            return change.change == MEASURED
    return False


def _choose_silent_share(proof: LessonProof, model: ModelStart) -> float:
    """Return the share of sessions in which a measured lesson stays silent, counted anew for a new model."""
    if proof.grade == PROVEN:
        return PROVEN_SHARE
    drawn_count = 0
    for firing in proof.firings:
        if firing.arm in ("live", "silent") and firing.at >= model.began_at:
            drawn_count += 1
    return FIRST_SHARE if drawn_count < _FIRST_FIRINGS else LATER_SHARE


def build_proofs(connection: Connection, home: str) -> list[LessonProof]:
    """Return what is known about every lesson in force, those that fired most first."""
    changes = efficacy.list_changes(connection)
    states = efficacy.list_lesson_states(connection)
    firings = _group_firings(efficacy.list_firings(connection))
    model = efficacy.find_newest_model(connection)
    proofs: list[LessonProof] = []
    for lesson in manifest.list_lessons(home, "active"):
        lesson_firings = firings.get(lesson.id, ())
        state = states.get(lesson.id, UNCHANGED_STATE)
        measured = is_measured(lesson.id, changes)
        proofs.append(build_proof(lesson, lesson_firings, state, model=model, is_measured=measured))
    return sorted(proofs, key=lambda proof: (-proof.told_counts.total - proof.silent_counts.total, proof.lesson.slug))


def build_lesson_proof(connection: Connection, lesson: Lesson) -> LessonProof:
    """Return what is known about one lesson."""
    return build_proof(
        lesson,
        efficacy.list_firings(connection, lesson.id),
        efficacy.list_lesson_states(connection).get(lesson.id, UNCHANGED_STATE),
        model=efficacy.find_newest_model(connection),
        is_measured=is_measured(lesson.id, efficacy.list_changes(connection)),
    )


def _step_down_if_noisy(
    connection: Connection,
    lesson: Lesson,
    firings: Sequence[Firing],
    changes: Sequence[LessonChange],
    model: ModelStart,
    now: float,
) -> None:
    """Make a lesson with too many false alarms quieter by one step, or ask the person about a block."""
    live_changes = [change for change in changes if change.undone_at is None]
    judged = _list_counted_firings(firings, changes)
    _propose_unneeded(connection, lesson, judged, live_changes, model, now)
    # A firing that nobody was told about alarmed nobody.
    recent = [firing for firing in judged if firing.arm in TOLD_ARMS][-_ALARM_WINDOW:]
    false_alarms = sum(firing.verdict == REPEATED_FINE for firing in recent)
    next_step = _find_next_step(lesson, {change.change for change in live_changes})
    if false_alarms < _MAX_FALSE_ALARMS or not next_step:
        return
    # Each step needs a firing of its own: the one before may have been judged just now.
    last_step_at = max((change.at for change in live_changes if change.change in (NOTE, SILENT, RETIRE)), default=0.0)
    if recent[-1].at <= last_step_at:
        return
    reason = f"{false_alarms} of its last {len(recent)} firings were on calls that ran fine"
    _add_change(connection, lesson, next_step, reason, now)


def _list_counted_firings(firings: Sequence[Firing], changes: Sequence[LessonChange]) -> list[Firing]:
    """Return the live firings whose outcome is known.

    What a person took back is not done again for the same firings, so only those since then count.
    """
    counted_since = max((change.undone_at for change in changes if change.undone_at), default=0.0)
    counted = []
    for firing in firings:
        is_judged = firing.verdict not in ("", UNKNOWN, IGNORED)
        if is_judged and firing.arm != BEFORE and firing.at > counted_since:
            counted.append(firing)
    return counted


def _find_next_step(lesson: Lesson, steps: Set[str]) -> str:
    """Return how a noisy lesson becomes quieter after the steps taken so far; "" if there is no further step."""
    if lesson.delivery == "block":
        return "" if RETIRE in steps else RETIRE  # a person decides
    if SILENT in steps:
        return ""
    return NOTE if lesson.delivery == "hold" and NOTE not in steps else SILENT


def _propose_unneeded(
    connection: Connection,
    lesson: Lesson,
    judged: Sequence[Firing],
    live_changes: Sequence[LessonChange],
    model: ModelStart,
    now: float,
) -> None:
    """Propose once to retire a lesson against a mistake that the newest model does not make untold."""
    is_proposed = any(change.change == RETIRE for change in live_changes)
    if is_proposed or not model.model:
        return
    silent_firings = [firing for firing in judged if firing.arm in SILENT_ARMS]
    latest = [firing for firing in silent_firings if firing.model == model.model][-_HARMLESS_FIRINGS:]
    if len(latest) < _HARMLESS_FIRINGS:
        return
    # Of any model: another one that is still in use may need the lesson.
    if any(firing.verdict == REPEATED_FAILED and firing.at >= latest[0].at for firing in silent_firings):
        return
    reason = f"{model.model} did not make this mistake in {len(latest)} sessions without the lesson"
    _add_change(connection, lesson, RETIRE, reason, now)


def _add_change(connection: Connection, lesson: Lesson, change: str, reason: str, now: float) -> None:
    efficacy.add_change(connection, lesson.id, lesson.slug, change, reason=reason, path=efficacy.BY_HARDWON, now=now)


def announce(connection: Connection, home: str, now: float) -> str:
    """Judge new firings, change deliveries and return what is new since the last session start; often nothing."""
    update_deliveries(connection, home, now)
    changes = efficacy.list_changes(connection, only_unannounced=True)
    denials = efficacy.list_ignored_denials(connection, only_unannounced=True)
    shown_at = float(efficacy.get_value(connection, _WEEKLY) or 0)
    weekly_line = ""
    if now - shown_at >= _WEEK_SECONDS:
        firings = efficacy.list_firings(connection, since=max(shown_at, now - _WEEK_SECONDS))
        weekly_line = _format_week(firings)
    if not (changes or denials or weekly_line):
        return ""
    if changes:
        # The process that stored a change may have been killed before it built the manifest, or be about to; what is
        # said here must be in force.
        manifest.build(home, now)
    # Of several steps of one lesson only the last matters.
    last_changes = {change.lesson: change for change in changes}
    lines = [_format_change(change) for change in last_changes.values()]
    with transaction(connection):
        efficacy.mark_changes_announced(connection, [change.id for change in changes], now)
        for denial in denials:
            denial["version"] = find_agent_version(denial["transcript"])
            efficacy.update_ignored_denial(connection, denial["id"], denial["version"], now)
        if weekly_line:
            efficacy.set_value(connection, _WEEKLY, str(now))
    lines += format_ignored_denials(denials)
    return "\n".join(f"hardwon: {line}" for line in [*lines, weekly_line] if line)


def _format_change(change: LessonChange) -> str:
    """Return the line that tells the person what hardwon changed or proposes, why, and how to decide otherwise."""
    undo = f"undo: hardwon proof {change.slug} --undo"
    if change.change == NOTE:
        return f"{change.slug} is a note now and no longer holds calls: {change.reason} ({undo})"
    if change.slug.startswith(_MEMORY_PREFIX):
        return f"{change.slug}: {change.reason} (retire it: hardwon memory retire M{change.slug.split()[-1]})"
    if change.change == RETIRED:
        return f"{change.slug} was retired: {change.reason} (restore: hardwon lessons restore {change.slug})"
    retire = f"retire it: hardwon lessons retire {change.slug}"
    if change.change == SILENT:
        return f"{change.slug} is silent now: {change.reason} ({retire}; {undo})"
    return f"{change.slug} may not be needed: {change.reason} ({retire}; keep it: hardwon proof {change.slug} --undo)"


def format_ignored_denials(denials: Sequence[dict[str, object]]) -> list[str]:
    """Return a line for each agent and version that ran calls which hardwon had denied."""
    counts = Counter(f"{denial['host']} {denial['version']}".rstrip() for denial in denials)
    return [
        f"{name} ran {format_count(count, 'call')} that hardwon had denied: its holds and blocks do not hold there"
        for name, count in counts.items()
    ]


def _format_week(firings: Sequence[Firing]) -> str:
    """Sum up the outcomes of a week's holds and blocks; empty if there were none, or if no outcome is known."""
    verdicts = Counter[str]()
    fixed_count = 0
    for firing in firings:
        if firing.delivery in STOPPING_DELIVERIES and firing.arm in TOLD_ARMS:
            verdicts[firing.verdict] += 1
            if firing.verdict == CHANGED and firing.ended == "fine":
                fixed_count += 1
    parts = [
        (fixed_count, "took the fix"),
        (verdicts[CHANGED] - fixed_count, "changed and failed"),
        (verdicts[REPEATED_FAILED] + verdicts[REPEATED_FINE], "went through unchanged"),
        (verdicts[GIVEN_UP], "given up"),
        (verdicts[UNKNOWN], "unknown"),
    ]
    held_count = sum(count for count, _ in parts)
    if held_count == verdicts[UNKNOWN]:  # all of them are unknown, or both numbers are 0
        return ""
    described = ", ".join(f"{count} {text}" for count, text in parts if count)
    return f"this week held {format_count(held_count, 'repeat')}, {described} (hardwon proof)"
