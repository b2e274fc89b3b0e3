"""Choose the sentence of an answer that tells what came of a request; none if none says enough."""

from __future__ import annotations

import re

from hardwon.distil import phrasing
from hardwon.handoff.phrases import (
    ADVISES,
    ASKS_CAUSE,
    DANGLES,
    FINDINGS,
    LEFTOVERS,
    NAMES_CONCRETELY,
    NAMES_SAVED_WORK,
    OPENERS,
    ORDERS_TEXT,
    QUESTIONS,
    REVIEWS,
    STARTS_BACK,
    VAGUE,
    VERBS,
    VERDICTS,
)
from hardwon.handoff.prompt_requests import asks_for_work, find_stems, find_topic_words
from hardwon.handoff.session_facts import unwrap_json
from hardwon.handoff.transcript_story import Exchange
from hardwon.text.excerpts import is_informative, split_sentences

_MAX_ANSWER_CHARS = 4_000  # the part of a message in which its outcome is searched
_MAX_SENTENCES, _MIN_NAMED_WORDS = 6, 3  # the sentences of an answer that may tell the outcome, and what they name
_MIN_RESULT_WORDS, _MIN_TELLING_WORDS = 4, 5  # a closing sentence that names less says less than the changed files
_MIN_SHARED_STEMS = 2  # a sentence that shares this many with a request is about it
_MIN_SENTENCE_WORDS = 8  # a line this long that ends with a full stop is no heading
_MAX_ITEM_WORDS = 4  # "Kite Tail — the ribbon behind it." is an item of a list
_MIN_FINDING_WORDS = 6  # a shorter line with a severity is a heading
_QUOTATION_MARKS = "\"'“‘"  # a sentence that opens with one is a text that the agent proposes
# The numbered items of a section of a review, up to its next heading.
_FINDINGS_SECTION = re.compile(
    r"^(?:#{1,4} +|\*\*)(?:\w+ )?(?:findings|issues)(?: found)?:?(?:\*\*)?:?\s*$"
    r"(?P<body>.*?)(?=^#|^\*\*\w[^\n]*\*\*:?$|\Z)",
    re.I | re.M | re.S,
)
_CLAUSE_END = re.compile(r"[,;(]|\s[–—-]\s|\b(?:so|while|but|and|because|since)\b")
_NUMBERED_ITEM = re.compile(r"^\d{1,2}[.)]\s+(\S.*)$", re.M)
# The report of Codex's own /review, which its transcript adds to the exchange before.
_CODEX_REVIEW = re.compile(r"^(?:Review comment|Full review comments):$", re.M)


def get_closing_message(exchange: Exchange) -> str:
    """Return the message that ends an exchange; empty if it was interrupted or the agent was about to go on."""
    steps = list(exchange.steps)
    while steps and steps[-1].kind == "agent" and _CODEX_REVIEW.search(steps[-1].text):
        steps.pop()
    if not steps or steps[-1].kind != "agent":
        return ""
    message = unwrap_json(steps[-1].text)
    return "" if message.rstrip().endswith(":") else message


def find_closing_sentence(message: str, request: str, prompt: str, *, has_work: bool, has_changes: bool) -> str:
    """Return the sentence of an answer that tells the outcome of a request.

    "Why" is answered by a cause, a review by its verdict, work by what the agent reports as done. Any other sentence
    counts only if it speaks of what the prompt speaks of: answers also praise, introduce and digress.
    """
    if REVIEWS.search(request) and not has_changes:
        return _find_review_verdict(message)
    if _is_short_answer(message, request):
        return split_sentences(message)[0]
    cause = _find_cause(message, request)
    if cause:
        return cause
    result = _find_reported_result(message, request) if has_work else ""
    if result:
        return result
    return _find_related_sentence(message, request, prompt, has_work=has_work)


def _is_short_answer(message: str, request: str) -> bool:
    """Return whether a message answers a question in one or two sentences."""
    sentences = split_sentences(message[:_MAX_ANSWER_CHARS])
    if not request.endswith("?") or not 1 <= len(sentences) <= 2:
        return False
    is_statement = sentences[0].endswith((".", "!")) and not OPENERS.match(sentences[0])
    return is_statement and not VAGUE.match(sentences[0])


def _find_review_verdict(message: str) -> str:
    """Return the first finding of a review, or the sentence that says that there is none; empty if neither is clear.

    A review also describes what it read ("adds a cache"), which is not its outcome.
    """
    verdicts = [line for line in split_sentences(message) if VERDICTS.search(line) and _is_complete_sentence(line)]
    return next(iter((*list_review_findings(message), *verdicts)), "")


def list_review_findings(message: str) -> list[str]:
    """Return the findings of a review: sentences that open with a severity, else the items below "Findings"."""
    findings = [line for line in split_sentences(message) if FINDINGS.match(line)]
    if not findings:
        section = _FINDINGS_SECTION.search(message)
        items = _NUMBERED_ITEM.findall(section["body"]) if section else []
        findings = [sentences[0] for item in items if (sentences := split_sentences(item))]
    return [line for line in findings if len(line.split()) >= _MIN_FINDING_WORDS]


def _find_cause(message: str, request: str) -> str:
    """Return the first cause that the answer to a question for a cause names; "" for any other request."""
    if not ASKS_CAUSE.search(request):
        return ""
    causes = phrasing.find_causes(message, answers_why=True)
    return next((line for line in causes if not VAGUE.match(line) and not STARTS_BACK.match(line)), "")


def _find_reported_result(message: str, request: str) -> str:
    """Return the first reported result that speaks of the request, else the first: a report may list several."""
    results = [
        line
        for line in phrasing.find_results(message)
        if not VAGUE.match(line) and not tells_leftover(line) and _is_telling(line, min_words=_MIN_RESULT_WORDS)
    ]
    request_stems = find_stems(request)
    related_results = [
        line
        for line in results
        if not DANGLES.match(line)
        and len(find_stems(line) & request_stems) >= (1 if NAMES_CONCRETELY.search(line) else _MIN_SHARED_STEMS)
    ]
    # "The folders now match the story" says something only to those who know the story. What follows a sentence that
    # cannot stand alone may be about something else.
    first_result = next((line for line in results if NAMES_CONCRETELY.search(line)), "")
    # An answer to several requests says elsewhere what came of this one.
    is_told_elsewhere = any(
        len(find_stems(line) & request_stems) >= _MIN_SHARED_STEMS for line in split_sentences(message)
    )
    has_other_subject = bool(DANGLES.match(first_result)) or (is_told_elsewhere and len(results) > 1)
    return next(iter(related_results), "" if has_other_subject else first_result)


def _find_related_sentence(message: str, request: str, prompt: str, *, has_work: bool) -> str:
    """Return the first sentence that speaks of what the request speaks of."""
    is_question = request.endswith("?") or bool(QUESTIONS.match(request))
    # The answer to a remark goes on with the talk; the answer to "write a poem" is the poem.
    if not has_work and (ORDERS_TEXT.match(request) or not (is_question or asks_for_work(request))):
        return ""
    # "Investigate the following issue" names nothing; what follows it does.
    request_stems = find_stems(request)
    if len(request_stems) < _MIN_SHARED_STEMS:
        request_stems |= find_stems(prompt)
    is_comparable = len(request_stems) >= _MIN_SHARED_STEMS
    is_answer = is_question and not has_work
    min_shared = 1 if is_answer else _MIN_SHARED_STEMS
    sentences = [
        line
        for line in split_sentences(phrasing.strip_opener(message)[:_MAX_ANSWER_CHARS])
        if _is_complete_sentence(line)
        and not phrasing.is_unproven(line)
        and not STARTS_BACK.match(line)
        and not DANGLES.match(line)
        and not (has_work and tells_leftover(line))
        and line[0] not in _QUOTATION_MARKS
    ]
    for line in sentences[:_MAX_SENTENCES]:
        shared_count = len(find_stems(line) & request_stems)
        is_related = not is_comparable or shared_count >= min_shared
        # An answer in the words of the question may be short.
        min_words = _MIN_NAMED_WORDS if is_answer and shared_count >= _MIN_SHARED_STEMS else _MIN_TELLING_WORDS
        # After work a sentence without a name explains, or tells how it went.
        has_name = not is_comparable or not has_work or _names_code(line)
        if is_related and has_name and not VAGUE.match(line) and _is_telling(line, min_words=min_words):
            return line
    return ""


def tells_leftover(line: str) -> bool:
    """Return whether a sentence tells what the work left as it was, or what the person can do about it.

    What it says first counts: "Added the cap, which …" tells work.
    """
    return bool(LEFTOVERS.search(_CLAUSE_END.split(line, maxsplit=1)[0]) or ADVISES.search(line))


def _is_complete_sentence(line: str) -> bool:
    """Return whether a line is a statement, not a heading, an option, a question or the start of a list."""
    is_ended = line.endswith((".", "!", "…", "。")) and is_informative(line) and " " in line
    # "Kite Tail — the ribbon behind it." is an item of a list.
    head, dash, _ = line.partition(" — ")
    is_item = bool(dash) and len(head.split()) <= _MAX_ITEM_WORDS and not VERBS.search(head)
    # A heading such as "Core execution and correctness." is short.
    has_verb = len(line.split()) >= _MIN_SENTENCE_WORDS or bool(VERBS.search(line))
    return is_ended and has_verb and not is_item and not OPENERS.match(line)


def _is_telling(line: str, *, min_words: int) -> bool:
    """Return whether a closing sentence names enough; "I verified it." does not."""
    word_count = len(find_topic_words(line))
    return word_count >= _MIN_NAMED_WORDS and (_names_code(line) or word_count >= min_words)


def _names_code(line: str) -> bool:
    """Return whether a sentence names code, a commit or a pull request."""
    return "`" in line or bool(NAMES_SAVED_WORK.search(line))
