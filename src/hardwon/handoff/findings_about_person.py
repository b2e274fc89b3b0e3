"""What a session shows of the person in it: patience, the hour, what they wished kept, and whether the goal held."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime, tzinfo
from statistics import median

from hardwon.agents.transcript_steps import Step, parse_timestamp
from hardwon.distil import check_results
from hardwon.distil.phrasing import pick_first_sentence
from hardwon.handoff.lasting_statements import find_lasting_statements
from hardwon.handoff.transcript_story import (
    FORGET,
    Exchange,
    Story,
    get_spoken_sentences,
    has_match,
    quote_step,
    split_exchanges,
)
from hardwon.store.reflection_types import Finding, ReflectionContext
from hardwon.text.excerpts import join_names, pluralize, shorten_line
from hardwon.text.similarity import SAME_THRESHOLD, compute_jaccard, tokenize

LATE_FROM_HOUR, LATE_UNTIL_HOUR = 23, 2  # hours of the day by the machine's clock
MIN_PUSHBACKS = 3
TERSE_FACTOR = 3  # times shorter than at the beginning
_MIN_PROMPTS = 6
_MAX_CHARS = 200
_PUSHES_BACK = re.compile(
    r"\b(?:ugh+|argh+|wtf|ffs|oh no|annoying|frustrat\w+|ridiculous|seriously|for the \w+ time|nope"
    r"|(?:still|again)(?: \w+)? (?:not|doesn'?t|don'?t|isn'?t|failing|fails?|broken|wrong|the same|an issue|there)"
    r"|(?:doesn'?t|does not|isn'?t|not) work(?:ing)?|why (?:are|did|do) you|that'?s (?:not|wrong)|not what I"
    r"|no,? (?:actually|wait|I|you)|wait,? (?:no|what|why|all)|I (?:said|told you|already (?:said|told|asked))"
    r"|you (?:keep|forgot|missed|ignored|broke))\b|:\((?:\s|$)|^\W*(?:wait|no)[,!.]",
    re.I,
)
_ASKS_TO_KEEP = re.compile(
    r"\b(?:remember (?!when|if|how|what|why|where|correctly|to)|memori[sz]e|don'?t (?:ever )?forget (?!to\b)"
    r"|note to self|note for (?:later|next time|the future)|for next time|never (?:happens?|repeats?) again"
    r"|from now on|going forward"
    r"|add (?:this|that|it) to (?:your )?memory)\b",
    re.I,
)
_CHANGES_GOAL = re.compile(
    r"\b(?:change (?:in|of) plans?|changed my mind|on second thought|thinking (?:about it )?again|new plan"
    rf"|let'?s (?:do|try) something else|{FORGET} (?:about )?(?:that|this|it)\b|scrap (?:that|this|it|the)"
    r"|start(?:ing)? over"
    r"|never ?mind|(?:actually|ok(?:ay)?|no),? let'?s (?:not|just|instead|rather)|instead,? let'?s"
    r"|let'?s do this instead)\b",
    re.I,
)


def detect_tone(story: Story, past: ReflectionContext) -> Iterable[Finding]:
    """A person who pushed back several times, and whether they became terse."""
    steps = [item.prompt for item in split_exchanges(story) if item.prompt]
    pushbacks = [
        (step, line)
        for step in steps
        if (line := next((item for item in get_spoken_sentences(step) if has_match(_PUSHES_BACK, item)), ""))
    ]
    pushed = list({line: (step, line) for step, line in pushbacks}.values())
    if len(pushed) < MIN_PUSHBACKS:
        return []
    quotes = join_names([shorten_line(line, 70) for _, line in pushed[-MIN_PUSHBACKS:]], MIN_PUSHBACKS, quote="“{}”")
    text = (
        f"Patience wore thin: {len(pushed)} of {pluralize(len(steps), 'message')} push back "
        f"({quotes}){_tell_terser(steps)}"
    )
    evidence = tuple(quote_step(story, step, line) for step, line in pushed[-MIN_PUSHBACKS:])
    return [Finding("tone", text, min(0.45 + 0.05 * len(pushed), 0.7), "memory", evidence)]


def _tell_terser(steps: Sequence[Step]) -> str:
    sizes = [sum(len(line.split()) for line in get_spoken_sentences(step)) for step in steps]
    third = len(sizes) // 3
    if len(sizes) < _MIN_PROMPTS:
        return ""
    first, last = median(sizes[:third]), median(sizes[-third:])
    return f"; messages went from {first:.0f} words to {last:.0f}" if last and first >= TERSE_FACTOR * last else ""


def find_fatigue_window(story: Story, zone: tzinfo | None = None) -> str:
    """From when to when a person worked late, as `23:40-01:10`, or when they did once; empty if they did not."""
    late_times = sorted(
        at
        for exchange in _find_late_exchanges(story, zone)
        if exchange.prompt and (at := parse_timestamp(exchange.prompt.at))
    )
    return "-".join(
        dict.fromkeys(f"{datetime.fromtimestamp(at, zone):%H:%M}" for at in (*late_times[:1], *late_times[-1:]))
    )


def _find_late_exchanges(story: Story, zone: tzinfo | None) -> list[Exchange]:
    return [
        exchange
        for exchange in split_exchanges(story)
        if exchange.prompt and _is_late(parse_timestamp(exchange.prompt.at), zone)
    ]


def _is_late(at: float, zone: tzinfo | None) -> bool:
    hour = datetime.fromtimestamp(at, zone).hour
    return bool(at) and (hour >= LATE_FROM_HOUR or hour < LATE_UNTIL_HOUR)


def detect_late_commits(story: Story, past: ReflectionContext, zone: tzinfo | None = None) -> Iterable[Finding]:
    """What was committed late at night."""
    late_exchanges = _find_late_exchanges(story, zone)
    commits = [(step, subject) for item in late_exchanges for step, subject in _list_commits(story, item)]
    if not commits or not late_exchanges[0].prompt:
        return []
    subjects = join_names([shorten_line(subject, 70) for _, subject in commits], 2, quote="“{}”")
    since, _, until = find_fatigue_window(story, zone).partition("-")
    when = f"between {since} and {until}" if until else f"at {since}"
    text = (
        f"{pluralize(len(commits), 'commit')} made late, asked for {when}: {subjects}. Look again before "
        "building on it."
    )
    evidence = (
        quote_step(story, late_exchanges[0].prompt, late_exchanges[0].prompt.text),
        *(quote_step(story, step, item) for step, item in commits[-2:]),
    )
    return [Finding("time of day", text, 0.4, "workstream", evidence)]


def _list_commits(story: Story, exchange: Exchange) -> list[tuple[Step, str]]:
    return [
        (step, subject)
        for step in exchange.steps
        if step.kind == "result" and not step.failed
        for _, _, subject, _ in check_results.parse_commits(step.text[:4_000])
    ]


def detect_missed_memories(story: Story, past: ReflectionContext) -> Iterable[Finding]:
    """A wish that something be kept which no memory holds, and which is not plain enough to be caught at once."""
    memory_words = [tokenize(text) for _, text in past.memories]
    findings = list[Finding]()
    for exchange in split_exchanges(story):
        caught_words = (
            [tokenize(text) for _, text in find_lasting_statements(exchange.prompt.text)] if exchange.prompt else []
        )
        for line in get_spoken_sentences(exchange.prompt):
            if not exchange.prompt or not has_match(_ASKS_TO_KEEP, line) or line.endswith("?"):
                continue
            if not any(
                compute_jaccard(tokenize(line), other) >= SAME_THRESHOLD or other <= tokenize(line)
                for other in (*memory_words, *caught_words)
                if other
            ):
                text = f"Asked to be kept, and nothing holds it: “{shorten_line(line, _MAX_CHARS)}”"
                evidence = (quote_step(story, exchange.prompt, line),)
                findings.append(Finding("missed remember", text, 0.8, "memory", evidence, "feedback"))
    return findings[:2]


def detect_changed_goal(story: Story, past: ReflectionContext) -> Iterable[Finding]:
    """A goal that a person gave up for another in so many words."""
    previous: Step | None = None
    for exchange in split_exchanges(story):
        sentences = get_spoken_sentences(exchange.prompt)
        change = next((line for line in sentences if has_match(_CHANGES_GOAL, line)), "")
        if change and exchange.prompt and previous and not change.endswith("?"):
            excerpt, old_goal = (
                " ".join(sentences[sentences.index(change) :][:2]),
                pick_first_sentence(previous.text, 120),
            )
            text = f"The goal changed on the way: “{shorten_line(excerpt, _MAX_CHARS)}” It was: {old_goal}"
            evidence = (quote_step(story, exchange.prompt, change), quote_step(story, previous, previous.text))
            return [Finding("outcome", text, 0.6, "workstream", evidence)]
        previous = exchange.prompt if exchange.prompt and len(exchange.prompt.text.split()) > 3 else previous
    return []
