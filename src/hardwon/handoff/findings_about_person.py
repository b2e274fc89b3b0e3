"""What a session shows of the person in it: patience, the hour, what they wished kept, and whether the goal held."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime, tzinfo
from statistics import median

from hardwon.agents.transcript_steps import Step, instant
from hardwon.distil import check_results
from hardwon.distil.phrasing import first_sentence
from hardwon.handoff.lasting_statements import remembered
from hardwon.handoff.transcript_story import FORGET, Exchange, Story, exchanges, quote, says, spoken
from hardwon.store.reflection_types import Finding, Past
from hardwon.text.excerpts import counted, listed, short
from hardwon.text.similarity import SAME, jaccard, tokens

LATE_FROM, LATE_UNTIL = 23, 2  # hours of the day by the machine's clock
LEAST_PUSHBACKS = 3
TERSER = 3  # times shorter than at the beginning
_LEAST_PROMPTS = 6
_LINE = 200
_PUSHES_BACK = re.compile(
    r"\b(?:ugh+|argh+|wtf|ffs|oh no|annoying|frustrat\w+|ridiculous|seriously|for the \w+ time|nope"
    r"|(?:still|again)(?: \w+)? (?:not|doesn'?t|don'?t|isn'?t|failing|fails?|broken|wrong|the same|an issue|there)"
    r"|(?:doesn'?t|does not|isn'?t|not) work(?:ing)?|why (?:are|did|do) you|that'?s (?:not|wrong)|not what I"
    r"|no,? (?:actually|wait|I|you)|wait,? (?:no|what|why|all)|I (?:said|told you|already (?:said|told|asked))"
    r"|you (?:keep|forgot|missed|ignored|broke))\b|:\((?:\s|$)|^\W*(?:wait|no)[,!.]",
    re.I,
)
_KEEP = re.compile(
    r"\b(?:remember (?!when|if|how|what|why|where|correctly|to)|memori[sz]e|don'?t (?:ever )?forget (?!to\b)"
    r"|note to self|note for (?:later|next time|the future)|for next time|never (?:happens?|repeats?) again"
    r"|from now on|going forward"
    r"|add (?:this|that|it) to (?:your )?memory)\b",
    re.I,
)
_TURNS = re.compile(
    r"\b(?:change (?:in|of) plans?|changed my mind|on second thought|thinking (?:about it )?again|new plan"
    rf"|let'?s (?:do|try) something else|{FORGET} (?:about )?(?:that|this|it)\b|scrap (?:that|this|it|the)"
    r"|start(?:ing)? over"
    r"|never ?mind|(?:actually|ok(?:ay)?|no),? let'?s (?:not|just|instead|rather)|instead,? let'?s"
    r"|let'?s do this instead)\b",
    re.I,
)


def tone(story: Story, past: Past) -> Iterable[Finding]:
    """A person who pushed back several times, and whether they became terse."""
    asked = [one.asked for one in exchanges(story) if one.asked]
    every = [
        (step, line) for step in asked if (line := next((one for one in spoken(step) if says(_PUSHES_BACK, one)), ""))
    ]
    pushed = list({line: (step, line) for step, line in every}.values())
    if len(pushed) < LEAST_PUSHBACKS:
        return []
    said = listed([short(line, 70) for _, line in pushed[-LEAST_PUSHBACKS:]], LEAST_PUSHBACKS, quote="“{}”")
    text = f"Patience wore thin: {len(pushed)} of {counted(len(asked), 'message')} push back ({said}){_shorter(asked)}"
    evidence = tuple(quote(story, step, line) for step, line in pushed[-LEAST_PUSHBACKS:])
    return [Finding("tone", text, min(0.45 + 0.05 * len(pushed), 0.7), "memory", evidence)]


def _shorter(asked: Sequence[Step]) -> str:
    sizes = [sum(len(line.split()) for line in spoken(step)) for step in asked]
    third = len(sizes) // 3
    if len(sizes) < _LEAST_PROMPTS:
        return ""
    first, last = median(sizes[:third]), median(sizes[-third:])
    return f"; messages went from {first:.0f} words to {last:.0f}" if last and first >= TERSER * last else ""


def fatigue_window(story: Story, zone: tzinfo | None = None) -> str:
    """From when to when a person worked late, as `23:40-01:10`, or when they did once; empty if they did not."""
    late = sorted(at for one in _late(story, zone) if one.asked and (at := instant(one.asked.at)))
    return "-".join(dict.fromkeys(f"{datetime.fromtimestamp(at, zone):%H:%M}" for at in (*late[:1], *late[-1:])))


def _late(story: Story, zone: tzinfo | None) -> list[Exchange]:
    return [one for one in exchanges(story) if one.asked and _is_late(instant(one.asked.at), zone)]


def _is_late(at: float, zone: tzinfo | None) -> bool:
    hour = datetime.fromtimestamp(at, zone).hour
    return bool(at) and (hour >= LATE_FROM or hour < LATE_UNTIL)


def time_of_day(story: Story, past: Past, zone: tzinfo | None = None) -> Iterable[Finding]:
    """What was committed late at night."""
    late = _late(story, zone)
    made = [(step, subject) for one in late for step, subject in _commits(story, one)]
    if not made or not late[0].asked:
        return []
    said = listed([short(subject, 70) for _, subject in made], 2, quote="“{}”")
    since, _, until = fatigue_window(story, zone).partition("-")
    when = f"between {since} and {until}" if until else f"at {since}"
    text = f"{counted(len(made), 'commit')} made late, asked for {when}: {said}. Look again before building on it."
    evidence = (quote(story, late[0].asked, late[0].asked.text), *(quote(story, step, one) for step, one in made[-2:]))
    return [Finding("time of day", text, 0.4, "workstream", evidence)]


def _commits(story: Story, one: Exchange) -> list[tuple[Step, str]]:
    return [
        (step, subject)
        for step in one.steps
        if step.kind == "result" and not step.failed
        for _, _, subject, _ in check_results.commits(step.text[:4_000])
    ]


def missed_remember(story: Story, past: Past) -> Iterable[Finding]:
    """A wish that something be kept which no memory holds, and which is not plain enough to be caught at once."""
    known = [tokens(text) for _, text in past.memories]
    found = list[Finding]()
    for one in exchanges(story):
        caught = [tokens(text) for _, text in remembered(one.asked.text)] if one.asked else []
        for line in spoken(one.asked):
            if not one.asked or not says(_KEEP, line) or line.endswith("?"):
                continue
            if not any(
                jaccard(tokens(line), other) >= SAME or other <= tokens(line) for other in (*known, *caught) if other
            ):
                text = f"Asked to be kept, and nothing holds it: “{short(line, _LINE)}”"
                evidence = (quote(story, one.asked, line),)
                found.append(Finding("missed remember", text, 0.8, "memory", evidence, "feedback"))
    return found[:2]


def outcome(story: Story, past: Past) -> Iterable[Finding]:
    """A goal that a person gave up for another in so many words."""
    before: Step | None = None
    for one in exchanges(story):
        said = spoken(one.asked)
        turn = next((line for line in said if says(_TURNS, line)), "")
        if turn and one.asked and before and not turn.endswith("?"):
            told, was = " ".join(said[said.index(turn) :][:2]), first_sentence(before.text, 120)
            text = f"The goal changed on the way: “{short(told, _LINE)}” It was: {was}"
            evidence = (quote(story, one.asked, turn), quote(story, before, before.text))
            return [Finding("outcome", text, 0.6, "workstream", evidence)]
        before = one.asked if one.asked and len(one.asked.text.split()) > 3 else before
    return []
