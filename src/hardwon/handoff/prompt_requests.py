"""Read what a prompt asks for: its most informative sentence, and whether it names anything."""

from __future__ import annotations

import re

from hardwon.agents.transcript_steps import Step
from hardwon.distil import phrasing
from hardwon.distil.phrasing import is_pasted_line, strip_severity
from hardwon.handoff import transcript_story
from hardwon.handoff.phrases import (
    ASKS_FOR_WORK,
    CHANGE_VERBS,
    HANDS_OVER,
    LOOK_ORDERS,
    NAMES_WORK,
    NO_REQUEST,
    NODS,
    ORDERS,
    POINTS_BACK,
    QUESTIONS,
    REPORTS_FAULT,
    RESTRAINS,
    SUPPLEMENTS,
    VERBS,
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
_PRAISE = (
    r"(?:ok(?:ay)?|yes|yeah|yep|sure|alright|right|nice|great|good|perfect|cool|awesome|excellent|lgtm|thanks|thx"
    r"|thank you)(?: (?:so much|very much|a lot|job|work|one|stuff))?"
)
# "Thanks! Please update …" and "okay open …"; a bare "thanks" is left as it is.
_ACKNOWLEDGEMENT = re.compile(rf"^\W*(?:{_PRAISE}(?:\W+|$))+(?:(?:and|now|so|then|but)\b\W*)*", re.I)
# What an order names if it only takes up what was said before: "update it", "now fix all of them please".
_REFERRING_TEXT = """
    it its this that these those them they both all any everything every of the a an please again now then too also
    ahead so for me us you your my our one ones first last next same right here there as well up on in
"""
_REFERRING_WORDS = frozenset(_REFERRING_TEXT.split())
# Orders to save the work of the request before: its commit belongs there, but what the agent reports does not.
_SAVING_TEXT = """
    commit commited committed commits push pushed pushing pr prs pull request requests open create make merge merged
    draft add git stage staged unstaged pending local remaining changes change
    work branch main master remote origin upstream can could would you we go and to
    into onto with in lets let's let do what have file files
"""
_SAVING_WORDS = frozenset(_SAVING_TEXT.split()) | _REFERRING_WORDS
SAVES = re.compile(r"\b(?:commit|push|merge|prs?|pull requests?)\b", re.I)
# "The other run reports this:": what follows are somebody else's sentences.
_REPORTED_SPEECH = re.compile(
    r"\b(?:reports?|reported|says?|said|writes|wrote|tells|told|replied|answered|responded|found|returned|complains"
    r"|came back)\b[^.?!\n]{0,60}:\s*$",
    re.I,
)
_MIN_REPORTED_LINES = 3
# An order with a verb that no table has: "Register an empty config".
_ACTS_ON = re.compile(r"^\W*\w+ (?:an?|the|this|that|these|those|all|each|every|any|it|our|your|my|to)\b", re.I)
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
    text = _strip_report(_strip_command_names(strip_severity(exchange.prompt.text)))
    sentences = transcript_story.get_spoken_sentences(exchange.prompt._replace(text=text))
    # A prompt too long to be typed is a task description, or words typed before pasted text: its beginning says what
    # it is about.
    if not sentences:
        beginning = next((part for part in text.split("\n\n") if not is_trivial_request(part.strip())), text)
        sentences = split_sentences(beginning[:3_000])
    candidates = [line for line in sentences[:12] if not line.startswith(("@", "/")) and not NO_REQUEST.search(line)]
    # "Thanks! Please update the guide" asks for the second.
    without_thanks = [line for line in candidates if _strip_acknowledgement(line)]
    if len(candidates) > len(without_thanks) > 0 and asks_for_work(without_thanks[0]):
        sentences = candidates = without_thanks
    if not candidates:
        return phrasing.pick_first_sentence(text, MAX_LINE_CHARS), exchange.prompt
    opening = _LEADING_FILLER.sub("", candidates[0])
    if candidates[0] == sentences[0] and ORDERS.match(opening) and len(find_topic_words(opening)) >= _MIN_ORDER_WORDS:
        return shorten_line(opening.rstrip("\\"), MAX_LINE_CHARS), exchange.prompt
    # A few words without a verb, before a sentence that asks or states something, are a heading or a quotation.
    whole_sentences = [line for line in candidates if not _is_fragment(line)]
    candidates = whole_sentences or candidates
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


def _is_fragment(line: str) -> bool:
    """Return whether a line neither states nor asks anything; an order may follow a comma."""
    if line.endswith((".", "!", "?")):
        return False
    clauses = re.split(r"[,;:–—]\s+", line)
    has_order = asks_for_work(line) or bool(_ACTS_ON.match(line)) or any(map(ORDERS.match, clauses))
    return not (has_order or VERBS.search(line) or REPORTS_FAULT.search(line))


def _strip_acknowledgement(line: str) -> str:
    """Return what follows an acknowledgement; empty if nothing does."""
    return _ACKNOWLEDGEMENT.sub("", line)


def _strip_report(text: str) -> str:
    """Return a prompt without the report it hands over: the words up to its introduction, or the introduction.

    An order behind the report is kept.
    """
    lines = text.splitlines()
    for number, line in enumerate(lines):
        following = [later for later in lines[number + 1 :] if later.strip()]
        if not _REPORTED_SPEECH.search(line) or len(following) < _MIN_REPORTED_LINES - bool(lines[:number]):
            continue
        kept_parts = []
        own_words = "\n".join(lines[:number]).strip()
        if own_words:
            kept_parts.append(own_words)
        last_line = following[-1]
        has_closing_order = bool(ORDERS.match(last_line) or ASKS_FOR_WORK.search(last_line))
        if not own_words and not has_closing_order:
            kept_parts.append(f"{line.strip().rstrip(':')}.")
        if has_closing_order:
            kept_parts.append(last_line)
        return "\n\n".join(kept_parts)
    return text


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
    if RESTRAINS.match(request):
        return True
    if has_own_order(request):
        return False
    is_short_nod = len(words) <= _MAX_NOD_WORDS and bool(NODS.match(request))
    # "What is the wind like?" is a topic of its own, "do we need it?" is not.
    topic_words = find_topic_words(request)
    is_own_question = request.endswith("?") and bool(topic_words) and not POINTS_BACK.search(request)
    names_little = len(topic_words) <= 1 and not NAMES_WORK.search(request) and not is_own_question
    return len(words) <= 2 or is_short_nod or (names_little and len(words) <= _MAX_VAGUE_WORDS)


def has_own_order(request: str) -> bool:
    """Return whether a request, behind an acknowledgement, orders something that it names itself.

    "Fix it" takes up what was said before, and "commit" saves the work of the request before.
    """
    words = _strip_acknowledgement(request).strip()
    order = ORDERS.match(words)
    if not order or only_saves(request):
        return False
    return any(word not in _SAVING_WORDS for word in re.findall(r"[\w'-]+", words[order.end() :].lower()))


def only_saves(text: str) -> bool:
    """Return whether a prompt only asks to commit, push or merge, or for a pull request: "okay open PR"."""
    words = re.findall(r"[\w'-]+", _strip_acknowledgement(text).lower())
    return bool(SAVES.search(text)) and all(word in _SAVING_WORDS for word in words)


def wants_answer(request: str) -> bool:
    """Return whether a request is a question; "can you add it?" is an order."""
    return not ASKS_FOR_WORK.search(request) and (request.endswith("?") or bool(QUESTIONS.match(request)))


def asks_to_look(request: str) -> bool:
    """Return whether a request is a question, or an order to look at something and to change nothing."""
    return wants_answer(request) or (bool(LOOK_ORDERS.match(request)) and not CHANGE_VERBS.search(request))


def orders_change(request: str) -> bool:
    """Return whether a request names a change, also by a verb that no table has: "Lengthen the seam"."""
    return bool(CHANGE_VERBS.search(request)) or (bool(_ACTS_ON.match(request)) and not LOOK_ORDERS.match(request))


def asks_for_work(request: str) -> bool:
    return bool(ASKS_FOR_WORK.search(request) or NAMES_WORK.search(request) or ORDERS.match(request))
