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
_TRANSIENT_KINDS = frozenset(("cancelled", "anchor", "precondition", "code", "refused", "silent"))
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
_INSTALL_WORDS = frozenset(["install", "i", "add", "sync", "init", "ci", "remove", "update", "exec", "run"])
_NAME_PATTERN = re.compile(r"[\w.-]+[/_.-][\w./-]*\w|\b[a-z]+[A-Z]\w+|#\d+")


def detect_recurring_failures(story: Story, past: ReflectionContext) -> Iterator[Finding]:
    """A failure of this session that sessions before it had too."""
    recent = past.sessions[:RECENT_SESSIONS]
    for signature, failed_calls in _group_failed_calls(story).items():
        counts = [session.failures[signature] for session in recent if signature in session.failures]
        if len(counts) < MIN_FAILED_SESSIONS or not _TRANSIENT_KINDS.isdisjoint(signature.split()[:2]):
            continue
        call, result = failed_calls[0]
        if _is_remembered(f"{signature} {call.command}", past):
            continue
        line = failures.find_failure_line(result.text, is_shell=call.tool == "Bash")
        text = (
            f"`{shorten_line(call.command or call.path or call.tool, 80)}` failed{format_times(len(failed_calls))}: "
            f"{_end_line(line)}"
            f" The same failed {pluralize(sum(counts), 'time')} in {len(counts)} of the {len(recent)} sessions before:"
            " worth mending, or a note on how to avoid it."
        )
        score = min(0.5 + 0.06 * len(counts) + 0.03 * len(failed_calls), 0.95)
        yield Finding(
            "recurring failures",
            text,
            score,
            "memory",
            tuple(quote_step(story, step, line) for _, step in failed_calls[:2]),
            "feedback",
        )


def _is_remembered(failure: str, past: ReflectionContext) -> bool:
    """Whether a memory speaks of it."""
    failure_words = tokenize(failure)
    return any(
        len(failure_words & memory_words) >= min(MIN_SHARED_WORDS, len(memory_words))
        for _, text in past.memories
        if (memory_words := tokenize(text))
    )


def _group_failed_calls(story: Story) -> dict[str, list[tuple[Step, Step]]]:
    """The failed calls of the main agent with their results, by signature, which is made as capture makes it."""
    failed_calls: dict[str, list[tuple[Step, Step]]] = {}
    for call, result in pair_calls(story).values():
        if result and result.failed and not result.refused and not call.agent:
            failed_calls.setdefault(failures.compute_signature(call.tool, call.command, result.text), []).append(
                (call, result)
            )
    return failed_calls


_MEASURES: tuple[tuple[str, Callable[[SessionStats], float | None]], ...] = (
    ("tokens", lambda stats: stats.tokens),
    ("minutes", lambda stats: stats.minutes),
    ("calls", lambda stats: stats.calls),
)


def detect_unusual_cost(story: Story, past: ReflectionContext) -> Iterator[Finding]:
    """A session that took much more, or much less, than those of the project with about as many prompts."""
    current, prompts = past.current_session, _list_prompts(story)
    if current is None or current.calls < MIN_CALLS or not prompts:
        return
    similar = [
        session
        for session in past.sessions
        if session.calls and session.prompts <= 2 * current.prompts and current.prompts <= 2 * session.prompts
    ]
    if len(similar) < MIN_SIMILAR_SESSIONS:
        return
    ratios, compared = list[float](), list[str]()
    for name, measure in _MEASURES:
        amount, others = measure(current), [value for session in similar if (value := measure(session)) is not None]
        if amount is None or len(others) < MIN_SIMILAR_SESSIONS:  # not every agent tells its tokens
            continue
        usual = median(others)
        ratios.append(amount / usual if usual else 1.0)
        compared.append(f"{name} {amount:,.0f} (usually {usual:,.0f})")
    ratios.sort()
    costs = ", ".join(compared)
    evidence = (quote_step(story, prompts[0]), quote_step(story, _find_last_step(story)))
    if ratios[-2] >= UNUSUAL_RATIO:  # two measures at least must say so
        text = f"More than {UNUSUAL_RATIO:g} times what {len(similar)} sessions like it took: {costs}. What held it up?"
        yield Finding("velocity and cost", text, min(0.35 + 0.05 * median(ratios), 0.7), "learning", evidence)
    elif ratios[1] <= 1 / UNUSUAL_RATIO and current.has_commit:
        text = f"Less than half of what {len(similar)} sessions like it took, and committed: {costs}. What worked?"
        yield Finding("velocity and cost", text, 0.3, "learning", evidence)


def detect_undocumented_habits(story: Story, past: ReflectionContext) -> Iterator[Finding]:
    """A command of this project's own that it and the sessions before ran again and again, and no page describes."""
    recent = past.sessions[:RECENT_SESSIONS]
    documented = [name for page in past.conventions for name in page.quoted_code]
    steps_by_name: dict[str, list[Step]] = {}
    for call, _ in pair_calls(story).values():
        for name in set(list_first_words(call.command)) if call.tool == "Bash" else ():
            steps_by_name.setdefault(name, []).append(call)
    habits: list[tuple[int, str]] = []
    for name, steps in steps_by_name.items():
        session_count = sum(name in entry.commands for entry in recent)
        is_documented = any(name in to_plain_line(described) for described in documented)
        if (
            len(steps) >= MIN_HABIT_RUNS
            and session_count >= MIN_HABIT_SESSIONS
            and _is_project_command(name)
            and not is_documented
        ):
            habits.append((session_count, name))
    habits.sort(key=lambda entry: (-entry[0], entry[1]))
    if habits:
        described = [
            f"`{name}` {len(steps_by_name[name])} times, and in {session_count} of the {len(recent)} sessions before"
            for session_count, name in habits[:MAX_HABITS]
        ]
        text = f"A habit that no page describes: {'; '.join(described)}. Worth a convention?"
        evidence = tuple(quote_step(story, steps_by_name[name][0], name) for _, name in habits[:MAX_HABITS])
        yield Finding("convention adoption", text, min(0.3 + 0.03 * habits[0][0], 0.6), "convention", evidence)


def _is_project_command(name: str) -> bool:
    """Whether a command is one of the project: a task by its name, or a script, and not what every project runs."""
    program, *rest = name.split()
    return "/" in program or (program in _RUNNERS and bool(rest) and rest[-1] not in _INSTALL_WORDS)


def detect_disused_conventions(story: Story, past: ReflectionContext) -> Iterator[Finding]:
    """A convention whose commands no session has used for long; one that quotes no command cannot be judged."""
    if len(past.sessions) < DISUSED_SESSIONS:
        return
    used = {name for session in past.sessions[:DISUSED_SESSIONS] for name in session.commands}
    used |= {name for call, _ in pair_calls(story).values() for name in list_first_words(call.command)}
    for page in past.conventions:
        commands = {name for code in page.quoted_code for name in list_first_words(code) if " " in name or "/" in name}
        if commands and not commands & used:
            text = (
                f"{page.name} is a convention, but {join_names(sorted(commands), 3, quote='`{}`')} was not run in"
                f" {DISUSED_SESSIONS} sessions: still wanted?"
            )
            yield Finding("convention disuse", text, 0.45, "convention", (_cite_heading(page),))


def _cite_heading(page: RepositoryPage) -> Evidence:
    return Evidence(page.path, page.line, page.heading)


def detect_stale_resume(story: Story, past: ReflectionContext) -> Iterator[Finding]:
    """The last handoff said what comes next, and this session did something else."""
    prompts, handoff = _list_prompts(story), _find_last_handoff(past.handoffs, story.started_at)
    edits = [step for step, _ in pair_calls(story).values() if step.tool in EDIT_TOOLS]
    first = next((item for item in prompts if len(tokenize(item.text)) >= MIN_PLAN_WORDS), None)
    if handoff is None or not first or not edits or len(_find_topic_words(handoff.resume)) < MIN_PLAN_WORDS:
        return
    if (
        any(handoff.at < item.at < story.started_at for item in past.sessions)
        or story.started_at - handoff.at > FRESH_SECONDS
    ):
        return
    activity = " ".join([*(item.text for item in prompts), *(f"{item.path} {item.command}" for item in story.steps)])
    if _compute_share(handoff.resume, activity) >= MIN_FOLLOWED_SHARE:
        return
    text = (
        f"The last handoff said: {_end_line(handoff.resume)} This session was about: {_end_line(first.text)}"
        " Was the plan changed, or was that next step wrong?"
    )
    yield Finding(
        "stale resume prompts", text, 0.5, "workstream", (quote_step(story, first), quote_step(story, edits[0]))
    )


def detect_miscalibration(story: Story, past: ReflectionContext) -> Iterator[Finding]:
    """How often what a handoff was sure of came true; said when five more of a letter are known."""
    prompts = _list_prompts(story)
    outcomes: dict[str, list[bool]] = {}
    for handoff in past.handoffs:
        next_session = _find_next_session(past.sessions, handoff)
        if (
            next_session
            and handoff.confidence in EXPECTED_SHARES
            and len(_find_topic_words(handoff.resume)) >= MIN_PLAN_WORDS
        ):
            activity = " ".join([next_session.first_prompt, *next_session.files, *next_session.commands])
            outcomes.setdefault(handoff.confidence, []).append(
                _compute_share(handoff.resume, activity) >= MIN_FOLLOWED_SHARE
            )
    for letter, worked in sorted(outcomes.items()):
        least, most = EXPECTED_SHARES[letter]
        share = sum(worked) / len(worked)
        if len(worked) % CALIBRATION_BATCH or least <= share <= most or not prompts:
            continue
        text = (
            f"Of {len(worked)} handoffs with confidence {letter}, {sum(worked)} were followed by the session after:"
            f" {letter} says {'too much' if share < least else 'too little'}."
        )
        yield Finding("confidence calibration", text, 0.45, "memory", (quote_step(story, prompts[0]),))


def _find_last_handoff(handoffs: Iterable[PastHandoff], started_at: float) -> PastHandoff | None:
    return max(
        (handoff for handoff in handoffs if handoff.at <= started_at), key=lambda handoff: handoff.at, default=None
    )


def _find_next_session(sessions: Sequence[SessionStats], handoff: PastHandoff) -> SessionStats | None:
    later = (session for session in sessions if session.at > handoff.at and session.session != handoff.session)
    return min(later, key=lambda session: session.at, default=None)


def _find_topic_words(text: str) -> frozenset[str]:
    """The words that tell what a plan is about."""
    return frozenset(word for word in tokenize(text) if len(word) > 3 and not word.isdigit())


def _compute_share(plan: str, activity: str) -> float:
    """How much of a plan is in what was done; a file or a name that it speaks of decides alone."""
    if any(name.lower() in activity.lower() for name in _NAME_PATTERN.findall(plan)):
        return 1.0
    plan_words = _find_topic_words(plan)
    return len(plan_words & _find_topic_words(activity)) / len(plan_words) if plan_words else 1.0


def _list_prompts(story: Story) -> list[Step]:
    return [exchange.prompt for exchange in split_exchanges(story) if exchange.prompt]


def _end_line(text: str) -> str:
    """A line that ends as a sentence does."""
    line = shorten_line(text, MAX_SHOWN_CHARS)
    return line if line.rstrip("\"'`*)").endswith((".", "!", "?", "…", ":")) else f"{line}."


def _find_last_step(story: Story) -> Step:
    steps = [step for step in story.steps if not step.agent and (step.text or step.command)]
    return steps[-1]
