"""Detect noteworthy things in a session that nobody wrote down, each with its evidence.

Only items with an exact rule are detected here. The other menu items need judgement: they are lines in the reflection
prompt, and only a model finds them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from hardwon.agents.transcript_steps import Step
from hardwon.distil.phrasing import pick_first_sentence
from hardwon.handoff.transcript_story import (
    Exchange,
    Story,
    get_final_message,
    get_spoken_sentences,
    has_match,
    pair_calls,
    quote_step,
    split_exchanges,
)
from hardwon.memories.lasting_statements import find_lasting_statements
from hardwon.shell import failures, working_commands
from hardwon.shell.working_commands import list_first_words
from hardwon.store.reflections import Finding, PastHandoff, ReflectionContext
from hardwon.text.characters import format_count
from hardwon.text.excerpts import format_times, is_informative, shorten_line, split_sentences, to_plain_line
from hardwon.text.similarity import SAME_THRESHOLD, compute_jaccard, tokenize
from hardwon.types import EDIT_TOOLS

MAX_PER_ITEM = 2  # findings per item and session
_MAX_CHARS = 240
_MAX_SHOWN_CHARS = 140
_MIN_SENTENCE_WORDS = 7
_RECENT_SESSIONS = 10  # sessions in which failures and habits are counted
_MIN_FAILED_SESSIONS = 2
_MIN_SHARED_WORDS = 3  # a memory that shares this many words with a failure is about it
_MIN_HABIT_RUNS, _MIN_HABIT_SESSIONS, _MAX_HABITS = 3, 5, 3
_FRESH_SECONDS = 14 * 86_400.0  # after two weeks the next steps of a handoff are out of date
_MIN_FOLLOWED_SHARE = 0.25  # a plan counts as followed if the session has this share of its words
_MIN_PLAN_WORDS = 4
_MIN_DOUBTED_WORDS = 2  # an objection must share this many words with the memory

_POINTS_BACK = re.compile(r"(?:this|it|that|these|those|they|which)\b", re.I)
# Files made to try something out, such as tmp/x.py or repro_login.py: deleting them undoes no work.
_SCRATCH = re.compile(r"(?:^|[/_.-])(?:tmp|temp|scratch|repro|probe|debug|demo|playground|zz)(?:[/_.-]|$)", re.I)
# The agent takes its work back: "that did not work", "reverting".
_TAKES_BACK = re.compile(
    r"\b(?:revert(?:ed|ing)?|redundant|undo(?:ing)?|mistake|roll(?:ed|ing)? (?:it )?back|discard(?:ing)?|wrong"
    r"|(?:did|does|do)(?:n't| not) work|not needed|no longer need\w*|unnecessary|instead|from scratch|already built"
    r"|start(?:ing)? over|abandon\w*|dead end|back out|swapping|switch(?:ing)? back)\b",
    re.I,
)
# Why it does: throwing away what was only a trial rules nothing out.
_SAYS_WRONG = re.compile(
    r"\b(?:redundant|mistakes?|wrong|(?:did|does|do)(?:n't| not) work|fail(?:s|ed|ing)?|br(?:oke|eaks?|oken)|worse"
    r"|(?:not|no longer) need\w*|unnecessary|instead|already built|dead end|abandon\w*|too (?:\w+))\b",
    re.I,
)
_DISCARD_ALL_COMMANDS = (("git", "reset", "--hard"), ("git", "branch", "-D"), ("git", "revert"), ("gh", "pr", "close"))
_DISCARD_FILE_COMMANDS = (("rm",), ("git", "restore"), ("git", "checkout"), ("git", "stash"), ("git", "rm"))
# The person asks to undo something: "revert that", "change it back".
_ASKS_BACK = re.compile(
    r"\b(?:revert (?:your|that|this|it|the|those|these|all|my|to)|undo (?:your|that|this|it|the|those|these|all)"
    r"|(?:put|change|switch|roll|bring) (?:it|that|this|them|everything) back|go back to (?:the|how|what)"
    r"|start (?:over|again|from scratch)|(?:do|try) (?:that|this|it) from scratch|throw (?:that|this|it) away)\b",
    re.I,
)
# A short yes to the agent's choice: "ok, do it".
_ACCEPTS = re.compile(
    r"\W*(?:ok(?:ay)?|yes|yeah|yep|yup|sure|fine|good|great|perfect|cool|agreed?|alright|lgtm|go (?:ahead|for it)"
    r"|do (?:it|that|so)|let'?s (?:do (?:it|that|this)|go)|proceed|sounds good|makes sense|works for me"
    r"|(?:that'?s|it'?s|this is) (?:fine|good|ok(?:ay)?)|apply (?:it|that)|implement (?:it|that))\b[^?]*",
    re.I,
)
# A condition or another task in a yes, so that it accepts nothing: "ok but not the tests", "yes, push".
_OBJECTS = re.compile(
    r"\b(?:but|instead|however|not|don'?t|rather|option|only|except|no|maybe|first|commit|push|prs?|merge"
    r"|delete|next)\b|\d",
    re.I,
)
# Putting something off: "let's leave that for a later PR", "out of scope".
_POSTPONES = re.compile(
    r"\b(?:(?:let'?s )?(?:skip|leave|drop|defer|postpone) (?:that|this|it|the \w+)"
    r"|(?:do|fix|handle|address|tackle|add|test|try) (?:that|this|it|them) (?:later|another time|in (?:a|another"
    r"|the next) \w+)"
    r"|(?:not|nothing) (?:for )?now|(?:fine|ok) to do it later|for a (?:later|separate|follow[- ]?up) \w+"
    r"|out of scope|todo to be added|add (?:it|this|that|them) (?:to|as) (?:the |a )?(?:todo|backlog|roadmap)s?"
    r"|future (?:consideration|task|todo|phase|work)"
    r"|we(?:'ll| will) (?:do|come back to|revisit|get to|handle) [^.?!]{1,40}(?:later|another|next))\b",
    re.I,
)
# "Drop it" alone does not count; one of these words must say that it is meant for later.
_POSTPONE_WORDS = re.compile(
    r"\blater|now\b|another|next|scope|follow|separate|defer|postpone|future|todo|backlog|roadmap", re.I
)
_ASKS_FOR_WORK = re.compile(r"^\W*(?:(?:ok(?:ay)?|so|and|now|hm+)\W+)?(?:can|could|would) (?:we|you)\b", re.I)
_PICKS_OPTION = re.compile(
    r"(?:ok(?:ay)?,? |yes,? )?(?:let'?s )?(?:do|go with|take) (?:option |number |#)?\w{1,2}\W*", re.I
)
_ASKS_TO_KEEP = re.compile(
    r"\b(?:remember (?!when|if|how|what|why|where|correctly|to)|memori[sz]e|don'?t (?:ever )?forget (?!to\b)"
    r"|note to self|note for (?:later|next time|the future)|for next time|never (?:happens?|repeats?) again"
    r"|from now on|going forward"
    r"|add (?:this|that|it) to (?:your )?memory)\b",
    re.I,
)
# "Forget that" gives something up; "don't forget that" and "never forget it" mean the opposite.
_OUTDATED = re.compile(
    r"\A\W*(?:no\b|nope|wrong|actually)|\b(?:not any ?more|no longer|outdated|out of date|stale|(?:is|was|that's) wrong"
    r"|isn't (?:true|right|correct)|not (?:true|right|correct)|used to|we (?:switched|moved|changed|dropped|replaced)"
    r"|(?<!n't )(?<!dont )(?<!not )(?<!ever )forget (?:that|what))\b",
    re.I,
)
_MEMORY_PATH = re.compile(r"(?:^|/)(?:MEMORY\.md|\.claude/memory/[^/]+\.md|memory/[^/]+\.md)$")
# These are no pattern of the project: requirements of the agent's own tools, errors of code in progress, empty
# messages.
_TRANSIENT_KINDS = frozenset(("cancelled", "anchor", "precondition", "code", "refused", "silent"))
_RUNNER_NAMES = "make just task mise npm pnpm yarn bun deno npx uv poetry hatch nox rake"
_RUNNERS = frozenset(_RUNNER_NAMES.split())
# The subcommands that runners have themselves. A command that ends with `exec` or `run` was cut before the task.
_OWN_RUNNER_WORDS = frozenset(["install", "i", "add", "sync", "init", "ci", "remove", "update", "exec", "run"])
_NAME_PATTERN = re.compile(r"[\w.-]+[/_.-][\w./-]*\w|\b[a-z]+[A-Z]\w+|#\d+")


def detect_failed_experiments(story: Story, past: ReflectionContext) -> Iterable[Finding]:
    """Detect work that was undone because the person said so, or where the agent says why."""
    findings = list[Finding]()
    previous = None
    for exchange in split_exchanges(story):
        requested = _find_requested_revert(story, exchange, previous)
        if requested:
            findings.append(requested)
        else:
            findings += list(_find_reverted_edits(story, exchange))[:1]
        previous = exchange
    return findings[:MAX_PER_ITEM]


def _find_requested_revert(story: Story, exchange: Exchange, previous: Exchange | None) -> Finding | None:
    """Return a finding if a prompt asks to undo what the exchange before changed; else None.

    It tells what that exchange came to, in the agent's words or else in those of its request.
    """
    if not exchange.prompt or not previous or not any(map(_is_change, previous.steps)):
        return None
    sentence = next((line for line in get_spoken_sentences(exchange.prompt) if has_match(_ASKS_BACK, line)), "")
    if not sentence:
        return None
    outcome = pick_first_sentence(get_final_message(previous), 120)
    if not is_informative(outcome):
        outcome = pick_first_sentence(previous.prompt.text, 120) if previous.prompt else ""
    text = f"Tried, then taken back when the person asked: “{shorten_line(exchange.prompt.text, _MAX_CHARS)}”"
    text += f" It was: {outcome}" if outcome else ""
    return Finding("failed experiments", text, 0.85, "learning", (quote_step(story, exchange.prompt, sentence),))


def _is_change(step: Step) -> bool:
    return step.kind == "call" and (step.tool in EDIT_TOOLS or "git commit" in step.command)


def _find_reverted_edits(story: Story, exchange: Exchange) -> Iterator[Finding]:
    """Yield edits that were thrown away after the person or the agent called them wrong or unnecessary.

    The reason is looked for in what was said last before: by the agent, or else in the prompt.
    """
    edited_names = frozenset(
        os.path.basename(step.path) for step in story.steps if step.tool in EDIT_TOOLS and not _is_scratch(step, story)
    )
    if not edited_names:
        return
    call_pairs = pair_calls(story)
    source_step = exchange.prompt
    for step in exchange.steps:
        if step.kind == "agent":
            source_step = step
        if step.kind != "call" or not source_step:
            continue
        undo_command = _find_undo_command(step, edited_names)
        if not undo_command:
            continue
        _, result = call_pairs[step.call or step.id]
        if result and result.failed:
            continue
        # "Yes, let me revert it" does what the person said.
        for step_with_reason in dict.fromkeys((source_step, exchange.prompt)):
            reason, line = _find_reason(step_with_reason)
            if reason and step_with_reason:
                excerpt = shorten_line(reason, _MAX_CHARS)
                text = f"Tried, then taken back (`{_shorten_command(undo_command, story)}`): “{excerpt}”"
                evidence = (quote_step(story, step_with_reason, line), quote_step(story, step, undo_command))
                yield Finding("failed experiments", text, 0.7, "learning", evidence)
                break


def _find_reason(step: Step | None) -> tuple[str, str]:
    """Return why work is taken back, with the sentence that says so; empty if a message does not say it.

    That the agent takes it back is no reason; that the person wants it is one.
    """
    if step is None:
        return "", ""
    is_person = step.kind == "person"
    sentences = get_spoken_sentences(step) if is_person else split_sentences(step.text)
    index = next((number for number, line in enumerate(sentences) if has_match(_TAKES_BACK, line)), -1)
    reason = " ".join(sentences[max(index - 1, 0) : index + 1])
    if index < 0 or not (is_person or has_match(_SAYS_WRONG, reason)):
        return "", ""
    return reason, sentences[index]


def _is_scratch(step: Step, story: Story) -> bool:
    """Return whether a file is a scratch file, judged by its path inside the project.

    The project folder itself may be called "demo".
    """
    return bool(_SCRATCH.search(_shorten_to_project(step.path, story)))


def _shorten_to_project(path: str, story: Story) -> str:
    """Return a path relative to the project or the working folder; one outside both as it is."""
    for folder in filter(None, (story.project, story.cwd)):
        if path.startswith(f"{folder}/"):
            return path.removeprefix(f"{folder}/")
    return path


def _shorten_command(command: str, story: Story) -> str:
    for folder in filter(None, (story.project, story.cwd)):
        command = command.replace(f"{folder}/", "")
    return shorten_line(command, 80)


def _find_undo_command(step: Step, edited_names: frozenset[str]) -> str:
    """Return the part of a call that throws away edits of this session; empty if none does."""
    if step.tool == "TaskStop":
        return "TaskStop"
    for part in working_commands.list_simple_commands(step.command):
        command_words = (part.program, *part.words[1:3])
        touches_edits = edited_names.intersection(os.path.basename(word.strip("'\"")) for word in part.words)
        prefixes = (*_DISCARD_ALL_COMMANDS, *(_DISCARD_FILE_COMMANDS if touches_edits else ()))
        if any(command_words[: len(prefix)] == prefix for prefix in prefixes):
            return part.full_text.partition("\n")[0]
    return ""


def _is_acceptance(text: str) -> bool:
    """Return whether a text is only a short yes, without a condition or another task."""
    return len(text) < 60 and bool(_ACCEPTS.fullmatch(text.strip())) and not has_match(_OBJECTS, text)


def _join_previous(sentences: Sequence[str], index: int) -> str:
    """Return a sentence, with the one before it if it is too short to stand alone or points back ("that …")."""
    sentence = sentences[index]
    needs_previous = _POINTS_BACK.match(sentence) or len(sentence.split()) < _MIN_SENTENCE_WORDS
    if needs_previous and index > 0:
        return f"{sentences[index - 1]} {sentence}"
    return sentence


def detect_postponed_work(story: Story, past: ReflectionContext) -> Iterable[Finding]:
    """Detect work that the person explicitly postponed and that the next turn did not take up."""
    exchanges = split_exchanges(story)
    findings = list[Finding]()
    for number, exchange in enumerate(exchanges, 1):
        following = exchanges[number].prompt if number < len(exchanges) else None
        if following and (_PICKS_OPTION.fullmatch(following.text.strip()) or _is_acceptance(following.text)):
            continue
        sentences = get_spoken_sentences(exchange.prompt)
        for index, line in enumerate(sentences):
            # "Can we add a flag, so that we can test it later?" asks for work now.
            is_request = line.endswith("?") or has_match(_ASKS_FOR_WORK, line)
            is_postponed = has_match(_POSTPONES, line) and has_match(_POSTPONE_WORDS, line) and not is_request
            if exchange.prompt and is_postponed:
                text = f"Put off by the person: “{shorten_line(_join_previous(sentences, index), _MAX_CHARS)}”"
                evidence = (quote_step(story, exchange.prompt, line),)
                findings.append(Finding("not done", text, 0.7, "workstream", evidence))
    return findings[-MAX_PER_ITEM:]


def detect_recurring_failures(story: Story, past: ReflectionContext) -> Iterator[Finding]:
    """Detect failures that earlier sessions had too."""
    recent = past.sessions[:_RECENT_SESSIONS]
    for signature, failed_calls in _group_failed_calls(story).items():
        counts = [session.failures[signature] for session in recent if signature in session.failures]
        if len(counts) < _MIN_FAILED_SESSIONS or not _TRANSIENT_KINDS.isdisjoint(signature.split()[:2]):
            continue
        call, result = failed_calls[0]
        if _is_remembered(f"{signature} {call.command}", past):
            continue
        line = failures.find_failure_line(result.text, is_shell=call.tool == "Bash")
        text = (
            f"`{shorten_line(call.command or call.path or call.tool, 80)}` failed{format_times(len(failed_calls))}: "
            f"{_end_line(line)}"
            f" It failed {format_count(sum(counts), 'time')} before,"
            f" in {len(counts)} of the last {len(recent)} sessions."
        )
        # More sessions and more failures make it more telling, up to a limit.
        score = min(0.5 + 0.06 * len(counts) + 0.03 * len(failed_calls), 0.95)
        evidence = tuple(quote_step(story, step, line) for _, step in failed_calls[:2])
        yield Finding("recurring failures", text, score, "memory", evidence)


def _is_remembered(failure: str, past: ReflectionContext) -> bool:
    failure_words = tokenize(failure)
    memory_word_sets = [words for _, text in past.memories if (words := tokenize(text))]
    return any(len(failure_words & words) >= min(_MIN_SHARED_WORDS, len(words)) for words in memory_word_sets)


def _group_failed_calls(story: Story) -> dict[str, list[tuple[Step, Step]]]:
    """Return the main agent's failed calls with their results, by the signature under which calls are stored."""
    failed_calls: dict[str, list[tuple[Step, Step]]] = {}
    for call, result in pair_calls(story).values():
        if result and result.failed and not result.refused and not call.subagent_id:
            signature = failures.compute_signature(call.tool, call.command, result.text)
            failed_calls.setdefault(signature, []).append((call, result))
    return failed_calls


def detect_undocumented_habits(story: Story, past: ReflectionContext) -> Iterator[Finding]:
    """Detect a project command that several sessions ran repeatedly and no page documents."""
    recent = past.sessions[:_RECENT_SESSIONS]
    documented = [to_plain_line(code) for code in past.documented_code]
    steps_by_name: dict[str, list[Step]] = {}
    for call, _ in pair_calls(story).values():
        if call.tool == "Bash":
            for name in set(list_first_words(call.command)):
                steps_by_name.setdefault(name, []).append(call)
    habits: list[tuple[int, str]] = []
    for name, steps in steps_by_name.items():
        session_count = sum(name in entry.commands for entry in recent)
        is_habit = len(steps) >= _MIN_HABIT_RUNS and session_count >= _MIN_HABIT_SESSIONS
        if is_habit and _is_project_command(name) and not any(name in code for code in documented):
            habits.append((session_count, name))
    habits = sorted(habits, key=lambda entry: (-entry[0], entry[1]))[:_MAX_HABITS]
    if habits:
        described = [
            f"`{name}` {len(steps_by_name[name])} times, and in {session_count} of the {len(recent)} sessions before"
            for session_count, name in habits
        ]
        text = f"A habit that no page describes: {'; '.join(described)}. Worth a convention?"
        evidence = tuple(quote_step(story, steps_by_name[name][0], name) for _, name in habits)
        yield Finding("convention adoption", text, min(0.3 + 0.03 * habits[0][0], 0.6), "convention", evidence)


def _is_project_command(short_command: str) -> bool:
    """Return whether a command, cut to its first words, runs a task or script of the project.

    A program given by its path is a script of the project. Of a runner the last word must be the task, as in
    `make lint` or `npm run lint`, and not one of its own subcommands, which every project has.
    """
    program, *rest = short_command.split()
    if "/" in program:
        return True
    return program in _RUNNERS and bool(rest) and rest[-1] not in _OWN_RUNNER_WORDS


def detect_stale_resume(story: Story, past: ReflectionContext) -> Iterator[Finding]:
    """Detect that this session did something other than the last handoff's next step."""
    prompts = [exchange.prompt for exchange in split_exchanges(story) if exchange.prompt]
    edits = [step for step, _ in pair_calls(story).values() if step.tool in EDIT_TOOLS]
    first = next((prompt for prompt in prompts if len(tokenize(prompt.text)) >= _MIN_PLAN_WORDS), None)
    handoff = _find_last_handoff(past.handoffs, story.started_at)
    if handoff is None or not first or not edits or len(_find_plan_words(handoff.resume)) < _MIN_PLAN_WORDS:
        return
    is_old = story.started_at - handoff.at > _FRESH_SECONDS
    # Only the first session after a recent handoff is compared with it.
    if is_old or any(handoff.at < session.at < story.started_at for session in past.sessions):
        return
    activity = " ".join([*(item.text for item in prompts), *(f"{item.path} {item.command}" for item in story.steps)])
    if _compute_share(handoff.resume, activity) >= _MIN_FOLLOWED_SHARE:
        return
    text = (
        f"The last handoff said: {_end_line(handoff.resume)} This session was about: {_end_line(first.text)}"
        " Was the plan changed, or was that next step wrong?"
    )
    evidence = (quote_step(story, first), quote_step(story, edits[0]))
    yield Finding("stale resume prompts", text, 0.5, "workstream", evidence)


def _find_last_handoff(handoffs: Iterable[PastHandoff], started_at: float) -> PastHandoff | None:
    earlier = (handoff for handoff in handoffs if handoff.at <= started_at)
    return max(earlier, key=lambda handoff: handoff.at, default=None)


def _find_plan_words(text: str) -> frozenset[str]:
    return frozenset(word for word in tokenize(text) if len(word) > 3 and not word.isdigit())


def _compute_share(plan: str, activity: str) -> float:
    """Return the share of a plan's words found in the activity; a file or name it mentions decides on its own."""
    if any(name.lower() in activity.lower() for name in _NAME_PATTERN.findall(plan)):
        return 1.0
    plan_words = _find_plan_words(plan)
    return len(plan_words & _find_plan_words(activity)) / len(plan_words) if plan_words else 1.0


def _end_line(text: str) -> str:
    """Return a line that ends with punctuation."""
    line = shorten_line(text, _MAX_SHOWN_CHARS)
    return line if line.rstrip("\"'`*)").endswith((".", "!", "?", "…", ":")) else f"{line}."


def detect_doubted_memories(story: Story, past: ReflectionContext) -> Iterator[Finding]:
    """Detect a memory, approved or read by the agent, that the person contradicted and nobody changed."""
    exchanges = split_exchanges(story)
    memory_lines: list[tuple[Step | None, str]] = [*_list_read_memories(story)]
    memory_lines += [(None, text) for _, text in past.memories]
    for index, exchange in enumerate(exchanges[1:], 1):
        if exchange.prompt is None or not _OUTDATED.search(exchange.prompt.text[:400]):
            continue
        prompt_words = frozenset(word for word in tokenize(exchange.prompt.text[:1_000]) if len(word) > 3)
        if _has_memory_edit(exchanges[index:]):
            continue
        for step, text in memory_lines:
            is_later = step is not None and step.line > exchange.prompt.line
            if is_later or len(prompt_words & tokenize(text)) < _MIN_DOUBTED_WORDS:
                continue
            prompt_line = shorten_line(exchange.prompt.text, _MAX_SHOWN_CHARS)
            description = (
                f"A memory may be wrong: {shorten_line(text, _MAX_SHOWN_CHARS)} The person said: {prompt_line}"
            )
            evidence = (quote_step(story, exchange.prompt), *([quote_step(story, step)] if step else ()))
            yield Finding("memory hits without writes", description, 0.65, "memory", evidence)
            break


def _list_read_memories(story: Story) -> Iterator[tuple[Step, str]]:
    """Yield each line of a memory that the agent read, with the result that shows it."""
    for call, result in pair_calls(story).values():
        if call.tool == "Read" and result and not result.failed and _MEMORY_PATH.search(call.path):
            yield from ((result, line) for line in split_sentences(result.text))


def _has_memory_edit(exchanges: Sequence[Exchange]) -> bool:
    return any(
        step.tool in EDIT_TOOLS and _MEMORY_PATH.search(step.path) for exchange in exchanges for step in exchange.steps
    )


def detect_missed_memories(story: Story, past: ReflectionContext) -> Iterable[Finding]:
    """Detect a wish to remember something that no memory has and that is too vague to propose as one."""
    known_word_sets = [tokenize(text) for _, text in past.memories]
    findings = list[Finding]()
    for exchange in split_exchanges(story):
        if _has_memory_edit([exchange]):
            continue  # the agent wrote it into its own memory
        caught = find_lasting_statements(exchange.prompt.text) if exchange.prompt else []
        caught_word_sets = [tokenize(entry.quote) for entry in caught]
        word_sets = [words for words in (*known_word_sets, *caught_word_sets) if words]
        for line in get_spoken_sentences(exchange.prompt):
            if not exchange.prompt or not has_match(_ASKS_TO_KEEP, line) or line.endswith("?"):
                continue
            line_words = tokenize(line)
            if not any(
                compute_jaccard(line_words, words) >= SAME_THRESHOLD or words <= line_words for words in word_sets
            ):
                text = f"Asked to be kept, and nothing holds it: “{shorten_line(line, _MAX_CHARS)}”"
                evidence = (quote_step(story, exchange.prompt, line),)
                findings.append(Finding("missed remember", text, 0.8, "memory", evidence))
    return findings[:MAX_PER_ITEM]


class MenuItem(NamedTuple):
    """A thing to notice in a session: name, group, a line for people and models, and its detector if there is one."""

    name: str
    group: str
    help: str
    detect: Callable[[Story, ReflectionContext], Iterable[Finding]] | None = None


MENU = (
    MenuItem("failed experiments", "content", "what was tried and taken back, and why", detect_failed_experiments),
    MenuItem("implicit decisions", "content", "choices that a short yes let pass"),
    MenuItem("assumptions", "content", "what the work takes for granted and may not hold when things change"),
    MenuItem("external events", "content", "people, dates and events outside the repository that a person mentioned"),
    MenuItem("naming inconsistencies", "content", "one thing called by two names: which to keep"),
    MenuItem("not done", "content", "what was asked for, then put off or left out", detect_postponed_work),
    MenuItem("recurring failures", "across", "what failed here and in sessions before", detect_recurring_failures),
    MenuItem("velocity and cost", "across", "much more or less effort than usual, and what held it up"),
    MenuItem("convention adoption", "across", "commands that became a habit, on no page", detect_undocumented_habits),
    MenuItem("convention disuse", "across", "documented conventions that this session worked against"),
    MenuItem("stale resume prompts", "across", "a plan handed over that was not followed", detect_stale_resume),
    MenuItem("confidence calibration", "across", "a next step called sure that turned out wrong, or the reverse"),
    MenuItem("dependencies discovered", "graph", "work found to wait for other work"),
    MenuItem("peer messages", "graph", "what another agent said that bears on the work and no page holds"),
    MenuItem("code health", "graph", "files or folders that the session made harder to find one's way in"),
    MenuItem("files not noted", "graph", "folders changed and never spoken of"),
    MenuItem("memory hits without writes", "graph", "memories that a person spoke against", detect_doubted_memories),
    MenuItem("tone", "person", "a person who became terse, tired or puzzled, and what set it off"),
    MenuItem("time of day", "person", "decisions made late at night that deserve a second look"),
    MenuItem("missed remember", "person", "wishes to be remembered that nothing holds", detect_missed_memories),
    MenuItem("outcome", "person", "a goal that changed on the way: on purpose, or by drifting"),
)


def detect_findings(story: Story, past: ReflectionContext) -> list[Finding]:
    """Run all detectors and return their findings, best first."""
    findings: list[Finding] = []
    for item in MENU:
        if item.detect:
            findings += item.detect(story, past)
    return sorted(findings, key=lambda finding: -finding.score)
