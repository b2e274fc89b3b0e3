"""What a session shows beside those before it in its project: failures that return, cost, habits, plans and how they
fared. Everything here compares a session with others, so with nothing known of the past nothing is found.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import median

from hardwon.agents.transcript_steps import Step
from hardwon.handoff.transcript_story import Story, pair_calls, quote_step, split_exchanges
from hardwon.shell import failures
from hardwon.shell.habits import list_first_words
from hardwon.store.reflection_types import (
    Evidence,
    Finding,
    PastHandoff,
    ReflectionContext,
    RepositoryPage,
    SessionStats,
)
from hardwon.text.excerpts import format_times, join_names, pluralize, shorten_line, to_plain_line
from hardwon.text.similarity import tokenize
from hardwon.types import EDIT_TOOLS

RECENT_SESSIONS = 10  # sessions that failures and habits are counted in
MIN_FAILED_SESSIONS = 2  # of them that a failure must be in
UNUSUAL_RATIO = 2.0
MIN_SHARED_WORDS = 3  # words in common with a memory that speaks of a failure
MIN_SIMILAR_SESSIONS = 4  # sessions with which one is compared
MIN_CALLS = 10  # of a session that is compared at all
MIN_HABIT_RUNS, MIN_HABIT_SESSIONS, MAX_HABITS = 3, 5, 3
DISUSED_SESSIONS = 30
FRESH_SECONDS = 14 * 86_400.0  # seconds for which a plan is one
MIN_FOLLOWED_SHARE = 0.25  # of the words of a plan, from which on it was followed
MIN_PLAN_WORDS = 4
CALIBRATION_BATCH = 5
EXPECTED_SHARES = {"H": (0.7, 1.0), "M": (0.3, 0.9), "L": (0.0, 0.5)}  # the share of plans that are followed
MAX_SHOWN_CHARS = 140

# What an agent's own tools want first, what depends on the code as it is, what says nothing: no pattern of a project.
_PASSING = frozenset(("cancelled", "anchor", "precondition", "code", "refused", "silent"))
_RUNNERS = frozenset(
    [
        "make",
        "just",
        "task",
        "mise",
        "npm",
        "pnpm",
        "yarn",
        "bun",
        "deno",
        "npx",
        "uv",
        "poetry",
        "hatch",
        "nox",
        "rake",
    ]
)
_INSTALLS = frozenset(["install", "i", "add", "sync", "init", "ci", "remove", "update", "exec", "run"])
_A_NAME = re.compile(r"[\w.-]+[/_.-][\w./-]*\w|\b[a-z]+[A-Z]\w+|#\d+")


def detect_recurring_failures(story: Story, past: ReflectionContext) -> Iterator[Finding]:
    """A failure of this session that sessions before it had too."""
    recent = past.sessions[:RECENT_SESSIONS]
    for signature, failed in _failed(story).items():
        had = [one.failures[signature] for one in recent if signature in one.failures]
        if len(had) < MIN_FAILED_SESSIONS or not _PASSING.isdisjoint(signature.split()[:2]):
            continue
        call, result = failed[0]
        if _is_known(f"{signature} {call.command}", past):
            continue
        line = failures.find_failure_line(result.text, is_shell=call.tool == "Bash")
        text = (
            f"`{shorten_line(call.command or call.path or call.tool, 80)}` failed{format_times(len(failed))}: "
            f"{_ended(line)}"
            f" The same failed {pluralize(sum(had), 'time')} in {len(had)} of the {len(recent)} sessions before:"
            " worth mending, or a note on how to avoid it."
        )
        score = min(0.5 + 0.06 * len(had) + 0.03 * len(failed), 0.95)
        yield Finding(
            "recurring failures",
            text,
            score,
            "memory",
            tuple(quote_step(story, step, line) for _, step in failed[:2]),
            "feedback",
        )


def _is_known(failure: str, past: ReflectionContext) -> bool:
    """Whether a memory speaks of it."""
    about = tokenize(failure)
    return any(
        len(about & said) >= min(MIN_SHARED_WORDS, len(said)) for _, text in past.memories if (said := tokenize(text))
    )


def _failed(story: Story) -> dict[str, list[tuple[Step, Step]]]:
    """The failed calls of the main agent with their results, by signature, which is made as capture makes it."""
    found: dict[str, list[tuple[Step, Step]]] = {}
    for call, result in pair_calls(story).values():
        if result and result.failed and not result.refused and not call.agent:
            found.setdefault(failures.compute_signature(call.tool, call.command, result.text), []).append(
                (call, result)
            )
    return found


_MEASURES: tuple[tuple[str, Callable[[SessionStats], float | None]], ...] = (
    ("tokens", lambda one: one.tokens),
    ("minutes", lambda one: one.minutes),
    ("calls", lambda one: one.calls),
)


def detect_unusual_cost(story: Story, past: ReflectionContext) -> Iterator[Finding]:
    """A session that took much more, or much less, than those of the project with about as many prompts."""
    own, asked = past.current_session, _asked(story)
    if own is None or own.calls < MIN_CALLS or not asked:
        return
    alike = [
        one for one in past.sessions if one.calls and one.prompts <= 2 * own.prompts and own.prompts <= 2 * one.prompts
    ]
    if len(alike) < MIN_SIMILAR_SESSIONS:
        return
    ratios, compared = list[float](), list[str]()
    for name, measure in _MEASURES:
        taken, others = measure(own), [value for one in alike if (value := measure(one)) is not None]
        if taken is None or len(others) < MIN_SIMILAR_SESSIONS:  # not every agent tells its tokens
            continue
        usual = median(others)
        ratios.append(taken / usual if usual else 1.0)
        compared.append(f"{name} {taken:,.0f} (usually {usual:,.0f})")
    ratios.sort()
    told = ", ".join(compared)
    ends = (quote_step(story, asked[0]), quote_step(story, _last(story)))
    if ratios[-2] >= UNUSUAL_RATIO:  # two measures at least must say so
        text = f"More than {UNUSUAL_RATIO:g} times what {len(alike)} sessions like it took: {told}. What held it up?"
        yield Finding("velocity and cost", text, min(0.35 + 0.05 * median(ratios), 0.7), "learning", ends)
    elif ratios[1] <= 1 / UNUSUAL_RATIO and own.has_commit:
        text = f"Less than half of what {len(alike)} sessions like it took, and committed: {told}. What worked?"
        yield Finding("velocity and cost", text, 0.3, "learning", ends)


def detect_undocumented_habits(story: Story, past: ReflectionContext) -> Iterator[Finding]:
    """A command of this project's own that it and the sessions before ran again and again, and no page describes."""
    recent = past.sessions[:RECENT_SESSIONS]
    known = [name for page in past.conventions for name in page.quoted_code]
    ran: dict[str, list[Step]] = {}
    for call, _ in pair_calls(story).values():
        for name in set(list_first_words(call.command)) if call.tool == "Bash" else ():
            ran.setdefault(name, []).append(call)
    habits: list[tuple[int, str]] = []
    for name, steps in ran.items():
        had = sum(name in one.commands for one in recent)
        told = any(name in to_plain_line(each) for each in known)
        if len(steps) >= MIN_HABIT_RUNS and had >= MIN_HABIT_SESSIONS and _is_own(name) and not told:
            habits.append((had, name))
    habits.sort(key=lambda one: (-one[0], one[1]))
    if habits:
        each = [
            f"`{name}` {len(ran[name])} times, and in {had} of the {len(recent)} sessions before"
            for had, name in habits[:MAX_HABITS]
        ]
        text = f"A habit that no page describes: {'; '.join(each)}. Worth a convention?"
        evidence = tuple(quote_step(story, ran[name][0], name) for _, name in habits[:MAX_HABITS])
        yield Finding("convention adoption", text, min(0.3 + 0.03 * habits[0][0], 0.6), "convention", evidence)


def _is_own(name: str) -> bool:
    """Whether a command is one of the project: a task by its name, or a script, and not what every project runs."""
    program, *rest = name.split()
    return "/" in program or (program in _RUNNERS and bool(rest) and rest[-1] not in _INSTALLS)


def detect_disused_conventions(story: Story, past: ReflectionContext) -> Iterator[Finding]:
    """A convention whose commands no session has used for long; one that quotes no command cannot be judged."""
    if len(past.sessions) < DISUSED_SESSIONS:
        return
    used = {name for one in past.sessions[:DISUSED_SESSIONS] for name in one.commands}
    used |= {name for call, _ in pair_calls(story).values() for name in list_first_words(call.command)}
    for page in past.conventions:
        wanted = {name for each in page.quoted_code for name in list_first_words(each) if " " in name or "/" in name}
        if wanted and not wanted & used:
            text = (
                f"{page.name} is a convention, but {join_names(sorted(wanted), 3, quote='`{}`')} was not run in"
                f" {DISUSED_SESSIONS} sessions: still wanted?"
            )
            yield Finding("convention disuse", text, 0.45, "convention", (_heading(page),))


def _heading(page: RepositoryPage) -> Evidence:
    return Evidence(page.path, page.line, page.heading)


def detect_stale_resume(story: Story, past: ReflectionContext) -> Iterator[Finding]:
    """The last handoff said what comes next, and this session did something else."""
    asked, last = _asked(story), _before(past.handoffs, story.started_at)
    changed = [step for step, _ in pair_calls(story).values() if step.tool in EDIT_TOOLS]
    first = next((one for one in asked if len(tokenize(one.text)) >= MIN_PLAN_WORDS), None)
    if last is None or not first or not changed or len(_distinct(last.resume)) < MIN_PLAN_WORDS:
        return
    if any(last.at < one.at < story.started_at for one in past.sessions) or story.started_at - last.at > FRESH_SECONDS:
        return
    did = " ".join([*(one.text for one in asked), *(f"{one.path} {one.command}" for one in story.steps)])
    if _share(last.resume, did) >= MIN_FOLLOWED_SHARE:
        return
    text = (
        f"The last handoff said: {_ended(last.resume)} This session was about: {_ended(first.text)}"
        " Was the plan changed, or was that next step wrong?"
    )
    yield Finding(
        "stale resume prompts", text, 0.5, "workstream", (quote_step(story, first), quote_step(story, changed[0]))
    )


def detect_miscalibration(story: Story, past: ReflectionContext) -> Iterator[Finding]:
    """How often what a handoff was sure of came true; said when five more of a letter are known."""
    asked = _asked(story)
    fared: dict[str, list[bool]] = {}
    for one in past.handoffs:
        after = _next(past.sessions, one)
        if after and one.confidence in EXPECTED_SHARES and len(_distinct(one.resume)) >= MIN_PLAN_WORDS:
            did = " ".join([after.first_prompt, *after.files, *after.commands])
            fared.setdefault(one.confidence, []).append(_share(one.resume, did) >= MIN_FOLLOWED_SHARE)
    for letter, worked in sorted(fared.items()):
        least, most = EXPECTED_SHARES[letter]
        share = sum(worked) / len(worked)
        if len(worked) % CALIBRATION_BATCH or least <= share <= most or not asked:
            continue
        text = (
            f"Of {len(worked)} handoffs with confidence {letter}, {sum(worked)} were followed by the session after:"
            f" {letter} says {'too much' if share < least else 'too little'}."
        )
        yield Finding("confidence calibration", text, 0.45, "memory", (quote_step(story, asked[0]),))


def _before(handoffs: Iterable[PastHandoff], began: float) -> PastHandoff | None:
    return max((one for one in handoffs if one.at <= began), key=lambda one: one.at, default=None)


def _next(sessions: Sequence[SessionStats], handed: PastHandoff) -> SessionStats | None:
    later = (one for one in sessions if one.at > handed.at and one.session != handed.session)
    return min(later, key=lambda one: one.at, default=None)


def _distinct(text: str) -> frozenset[str]:
    """The words that tell what a plan is about."""
    return frozenset(word for word in tokenize(text) if len(word) > 3 and not word.isdigit())


def _share(plan: str, did: str) -> float:
    """How much of a plan is in what was done; a file or a name that it speaks of decides alone."""
    if any(name.lower() in did.lower() for name in _A_NAME.findall(plan)):
        return 1.0
    wanted = _distinct(plan)
    return len(wanted & _distinct(did)) / len(wanted) if wanted else 1.0


def _asked(story: Story) -> list[Step]:
    return [one.prompt for one in split_exchanges(story) if one.prompt]


def _ended(text: str) -> str:
    """A line that ends as a sentence does."""
    line = shorten_line(text, MAX_SHOWN_CHARS)
    return line if line.rstrip("\"'`*)").endswith((".", "!", "?", "…", ":")) else f"{line}."


def _last(story: Story) -> Step:
    said = [step for step in story.steps if not step.agent and (step.text or step.command)]
    return said[-1]
