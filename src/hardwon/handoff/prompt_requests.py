"""Read what a prompt asks for: its most informative sentence, and whether it names anything."""

from __future__ import annotations

import re

from hardwon.agents.transcript_steps import Step
from hardwon.distil import phrasing
from hardwon.distil.phrasing import is_pasted_line, strip_severity
from hardwon.handoff import transcript_story
from hardwon.handoff.phrases import (
    ASKS_FOR_WORK,
    HANDS_OVER,
    NAMES_WORK,
    NO_REQUEST,
    NODS,
    ORDERS,
    POINTS_BACK,
    QUESTIONS,
    SUPPLEMENTS,
)
from hardwon.handoff.statements import MAX_LINE_CHARS
from hardwon.handoff.transcript_story import Exchange
from hardwon.text.excerpts import shorten_line, split_sentences, to_plain_line
from hardwon.text.similarity import tokenize

_MIN_ORDER_WORDS = 2  # an order that names less, such as "Fix this", needs what follows it
_MIN_ARGUMENT_WORDS = 5  # "/model opus 4" sets something, longer arguments ask for something
_MAX_NOD_WORDS, _MAX_VAGUE_WORDS = 5, 12
# Request words that name nothing; the remaining words say what the request is about.
_GENERIC_TEXT = """
    can could would should you we i me my our it this that these those them please look take see check read use want
    need like let lets make makes do does did get go fix change update add implement create write find tell talk know
    thing things issue issues problem error errors file files code following below above all any some more one new
    current still also just now then first next again ok yes yeah yep no not what why how when where which who is are
    was be have has had there here so and or but if for with from into about out up on in at to of a an the context
    task feedback functionality seems great really perform repo run work working latest changes branch question review
    feature way best right wrong good bad figure actually maybe sure currently sense definitely done commit commited
    committed push pushed pr prs open merge merged ahead everything main master back pull checkout
"""
_GENERIC_WORDS = frozenset(_GENERIC_TEXT.split())
_COMMAND_NAMES = re.compile(r"\A(?:/[\w:.-]+\s+)+(?=\S)")  # /review /simplify Scope: …
_LEADING_FILLER = re.compile(r"^(?:https?://\S+\s+|(?:ok(?:ay)?|and|so|now|hey \w+|hmm+)\b[,!.]*\s+)+", re.I)
_PLAN_TITLE = re.compile(r"^#+\s*(?:(?:implementation )?plan\s*[:–—-]\s*)?(.+)$", re.I | re.M)


def read_request(exchange: Exchange) -> tuple[str, Step | None]:
    """Return the most informative sentence of a prompt, or the title of the plan that opened the session.

    With it comes the step that has it; ("", None) if there is neither prompt nor plan.
    """
    if exchange.prompt is None:
        for step in exchange.steps:
            if step.tool == transcript_story.CARRIED_PLAN_TOOL:
                return read_plan_title(step.content), step
        return "", None
    text = _strip_command_names(strip_severity(exchange.prompt.text))
    sentences = transcript_story.get_spoken_sentences(exchange.prompt._replace(text=text))
    # A prompt too long to be typed is a task description, or words typed before pasted text: its beginning says what
    # it is about.
    if not sentences:
        beginning = next((part for part in text.split("\n\n") if not is_trivial_request(part.strip())), text)
        sentences = split_sentences(beginning[:3_000])
    candidates = [line for line in sentences[:12] if not line.startswith(("@", "/")) and not NO_REQUEST.search(line)]
    if not candidates:
        return phrasing.pick_first_sentence(text, MAX_LINE_CHARS), exchange.prompt
    opening = _LEADING_FILLER.sub("", candidates[0])
    if candidates[0] == sentences[0] and ORDERS.match(opening) and len(find_topic_words(opening)) >= _MIN_ORDER_WORDS:
        return shorten_line(opening.rstrip("\\"), MAX_LINE_CHARS), exchange.prompt
    # Prefer a later sentence only if it names clearly more than the first.
    scores = [_score_sentence(line) for line in candidates]
    scores[0] += 3
    line = candidates[scores.index(max(scores))]
    return shorten_line(_LEADING_FILLER.sub("", line).rstrip("\\"), MAX_LINE_CHARS), exchange.prompt


def _score_sentence(line: str) -> int:
    """Return how much a sentence tells of what is asked: the words that name something, and whether it names work."""
    score = min(len(find_topic_words(line)), 9)
    if NAMES_WORK.search(line):
        score += 2
    if SUPPLEMENTS.match(line):
        score -= 4
    return score


def has_output(prompt: Step | None) -> bool:
    """Return whether terminal output follows the typed words: "this is stuck: [test:ci] $ …"."""
    lines = prompt.text.splitlines()[1:] if prompt else []
    return any(map(is_pasted_line, lines))


def is_pasted(prompt: Step | None) -> bool:
    """Return whether a prompt is only terminal output; one too long to be typed is judged by its beginning."""
    if prompt is None:
        return False
    if len(prompt.text) > transcript_story.MAX_TYPED_CHARS:
        return is_pasted_line(prompt.text)
    return not transcript_story.get_spoken_sentences(prompt._replace(text=strip_severity(prompt.text)))


def hands_over(prompt: Step | None) -> bool:
    return prompt is not None and bool(HANDS_OVER.match(prompt.text))


def _strip_command_names(text: str) -> str:
    """Return the arguments of a slash command if they are a request, else the text."""
    names = _COMMAND_NAMES.match(text)
    arguments = text[names.end() :] if names else ""
    return arguments if len(arguments.split()) >= _MIN_ARGUMENT_WORDS else text


def find_topic_words(text: str) -> frozenset[str]:
    """Return the words of a request that name something, without generic ones."""
    without_links = re.sub(r"https?://\S+", " ", text)
    return frozenset(word for word in tokenize(without_links) if word not in _GENERIC_WORDS and len(word) > 1)


def find_stems(text: str) -> frozenset[str]:
    """Return the beginnings of the words that name something, so that `rename` and `renamed` are equal."""
    return frozenset(word[:5] for word in find_topic_words(text))


def read_plan_title(plan: str) -> str:
    title = _PLAN_TITLE.search(plan)
    return shorten_line(to_plain_line(title[1] if title else plan), MAX_LINE_CHARS)


def is_trivial_request(request: str) -> bool:
    """Return whether a request only agrees, picks an option, says to continue, or is a word or two."""
    words = request.split()
    is_short_nod = len(words) <= _MAX_NOD_WORDS and bool(NODS.match(request))
    # "What is the wind like?" is a topic of its own, "do we need it?" is not.
    topic_words = find_topic_words(request)
    is_own_question = request.endswith("?") and bool(topic_words) and not POINTS_BACK.search(request)
    names_little = len(topic_words) <= 1 and not NAMES_WORK.search(request) and not is_own_question
    return len(words) <= 2 or is_short_nod or (names_little and len(words) <= _MAX_VAGUE_WORDS)


def wants_answer(request: str) -> bool:
    """Return whether a request is a question; "can you add it?" is an order."""
    return not ASKS_FOR_WORK.search(request) and (request.endswith("?") or bool(QUESTIONS.match(request)))


def asks_for_work(request: str) -> bool:
    return bool(ASKS_FOR_WORK.search(request) or NAMES_WORK.search(request) or ORDERS.match(request))
