"""Telling a lesson from a slip takes reading: what a reader is given, and what is taken from it.

A reader is a model, or the agent that a person is talking to. It gets the episodes as they stand in the transcripts, as
strings in JSON, so that no text in them can pass for an instruction of ours. What it sends back is a proposal, and
counts only if every quote is really there: a reader that makes up its evidence has judged nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Any

from hardwon.agents import transcript_files
from hardwon.agents.denied_steps import StepPredicate
from hardwon.agents.private_turns import PrivateTurnTracker
from hardwon.agents.transcript_steps import TRANSCRIPT_MODULES, Step, load_transcript_module
from hardwon.errors import UserError
from hardwon.lessons import record, validation
from hardwon.privacy.cleaning import clean_text
from hardwon.privacy.truncation import trim_text
from hardwon.store.candidates import Candidate, Judgement
from hardwon.text import lesson_tags
from hardwon.text.excerpts import collapse_spaces
from hardwon.types import FILE_TOOLS, MinedEpisode, frozen, replace

VERDICTS = ("lesson", "trivial", "none")
ALLOWED_DELIVERY_MODES = ("note", "hold", "start")  # a block is a person's idea
MAX_ANSWER_BYTES = 1_000_000  # bytes that a reader may send
MIN_QUOTE_CHARS = 5
MAX_EPISODES = 2
_MOST_CHECKED = 10  # signals whose transcripts are searched for a quote
_LONGEST_QUOTE, _MOST_QUOTES, _MOST_TAGS, _MOST_JUDGEMENTS = 2_000, 20, 20, 1_000
_TEXTS = ("problem", "solution", "trigger", "summary", "why")
_FORM = "hardwon review --json   (its instructions show the form)"

_AROUND = 300  # lines before the first and after the last evidence in which its call and result are looked for
_BESIDE = 2  # steps shown before and after them
_LEVELS = 5  # how deep the steps of an episode stand in a bundle
_LEAST = 1_500  # characters; what is shorter tells nothing of an episode
# How long a step's text may be, and how long that of a failed result: the error is what it is all about.
_LENGTHS = (
    *((4_000, 4_000), (2_000, 4_000), (1_000, 4_000), (500, 4_000), (250, 4_000)),
    *((250, 2_000), (250, 1_000)),
)
_SHORT = ((120, 500), (60, 200))  # when there is nothing but evidence left
_IN_ORDER = frozenset({"claude-code", "codex"})  # the others may tell of a line when they are at the end
_COLOUR = re.compile(r"\x1b\[[\d;?]*[A-Za-z]")
_EVIDENCE = {"error": ("result",), "correction": ("agent", "call"), "user": ("person", "result")}

CandidatesToJudge = Iterable[tuple[Candidate, Sequence[MinedEpisode]]]


@frozen
class EpisodeStep:
    """A step with its text, clean and whole, and how many steps it is from the evidence."""

    step: Step
    text: str
    distance: int


@frozen
class EpisodeExcerpt:
    """The steps of an episode as a reader sees them, how many there was no room for, or why there are none."""

    steps: tuple[dict[str, Any], ...] = ()
    omitted_count: int = 0
    reason: str = ""


def build_excerpt(episode: MinedEpisode, *, max_chars: int, is_excluded: StepPredicate) -> EpisodeExcerpt:
    """The episode as it stands in the transcript now, in at most so many characters of JSON."""
    pages, reason = _pages(episode, is_excluded)
    if reason:
        return EpisodeExcerpt(reason=reason)
    kept = pages
    while kept:
        lengths = _LENGTHS if any(page.distance for page in kept) else (*_LENGTHS, *_SHORT)
        if _size(_shown(kept, *lengths[-1]), _LEVELS) <= max_chars:
            fitting = (_shown(kept, *each) for each in lengths)
            steps = next(each for each in fitting if _size(each, _LEVELS) <= max_chars)
            return EpisodeExcerpt(tuple(steps), len(pages) - len(kept))
        kept = _fewer(kept)
    return EpisodeExcerpt(reason=f"no step of the episode fits into {max_chars} characters")


def _shown(pages: Iterable[EpisodeStep], plain: int, failed: int) -> list[dict[str, Any]]:
    return [_as_shown(page, failed if page.step.failed else plain) for page in pages]


def _as_shown(page: EpisodeStep, longest: int) -> dict[str, Any]:
    step = page.step
    marks = {"tool": step.tool, "failed": step.failed, "refused": bool(step.refused), "denied": step.denied}
    return {
        "line": step.line,
        "kind": step.kind,
        **{name: value for name, value in marks.items() if value},
        "text": trim_text(page.text, longest),
    }


def _fewer(pages: list[EpisodeStep]) -> list[EpisodeStep]:
    """Without the steps farthest from the evidence; where all are, the first error and the latest ones stay."""
    farthest = max(page.distance for page in pages)
    if farthest:
        return [page for page in pages if page.distance < farthest]
    if len(pages) <= 2:
        return []
    return [*pages[:2], *pages[2 + max(len(pages) // 4, 1) :]]


def _pages(signal: MinedEpisode, left_out: StepPredicate) -> tuple[list[EpisodeStep], str]:
    """The steps of the episode and a few beside it, or why there are none."""
    try:
        steps = _steps(signal, left_out)
    except (OSError, ValueError) as wrong:
        return [], f"the transcript cannot be read: {getattr(wrong, 'strerror', None) or wrong}"
    found = {place for place, step in enumerate(steps) if _is_evidence(step, signal)}
    if not found:
        return [], "the transcript was rewritten: what was found in it is no longer there"
    calls = {steps[place].call for place in found} - {""}
    found |= {place for place, step in enumerate(steps) if step.call in calls}
    start, end = max(min(found) - _BESIDE, 0), max(found) + _BESIDE + 1
    return [
        EpisodeStep(step, clean_text(_said(step)), min(abs(place - one) for one in found))
        for place, step in enumerate(steps[start:end], start)
    ], ""


def _steps(signal: MinedEpisode, left_out: StepPredicate) -> list[Step]:
    """What the signal's agent did and heard around the evidence, as far as it may be kept."""
    lines = [each["line"] for each in signal.body["evidence"]]
    if signal.host not in TRANSCRIPT_MODULES or not lines:
        return []
    first, last = min(lines) - _AROUND, max(lines) + _AROUND
    found = list[Step]()
    unseen = set[str]()  # calls that are left out, with their results
    reader, hidden = load_transcript_module(signal.host).Reader(), PrivateTurnTracker(signal.path)
    with transcript_files.open_transcript(signal.path) as (_, _, portions):
        for numbered, _ in portions:
            for number, line in numbered:
                if number > last and signal.host in _IN_ORDER:
                    return found
                for step in reader.read_line(number, line):
                    is_unseen = hidden.should_hide(step) or left_out(step)
                    if step.kind == "call":
                        (unseen.add if is_unseen else unseen.discard)(step.call)
                    is_unseen |= step.kind == "result" and step.call in unseen
                    if not is_unseen and first <= step.line <= last and step.agent == signal.agent:
                        found.append(step)
    # A document may hold several sessions; in a file of lines they follow each other, and the lines tell.
    return [
        step for step in found if not transcript_files.is_single_document(signal.path) or step.session == signal.session
    ]


def _is_evidence(step: Step, signal: MinedEpisode) -> bool:
    """Whether the signal begins with this step, or it says what the signal quotes of its line."""
    begins = signal.key.rpartition("#")[0] if signal.tier == 1 else signal.key
    if f"{signal.host}:{step.id}" == begins:
        return True
    quotes = [
        collapse_spaces(each["quote"])
        for each in signal.body["evidence"]
        if each["line"] == step.line and step.kind in _EVIDENCE.get(each["kind"], ()) and each["quote"].strip()
    ]
    text = collapse_spaces(clean_text(_said(step))) if quotes else ""
    return any(quote in text for quote in quotes)


def _said(step: Step) -> str:
    """What a step says: words, a result, or what a call would do. Colours go first: they could part a secret."""
    parts = (step.command, step.path, step.content, step.text or step.refused.strip())
    return _COLOUR.sub("", "\n".join(part for part in parts if part))


def _size(value: object, levels: int = 0) -> int:
    """Characters of the value's JSON as it is printed, indented, so many levels deep."""
    text = json.dumps(value, indent=2)
    return len(text) + 2 * levels * text.count("\n")


@lru_cache(maxsize=1)
def read_instructions() -> str:
    """How a reader judges, and what it answers."""
    return files("hardwon.distil").joinpath("prompts", "judge.md").read_text("utf-8")


def build_bundle(
    candidates: CandidatesToJudge, *, max_candidate_chars: int, max_bundle_chars: int, is_excluded: StepPredicate
) -> dict[str, Any]:
    """What a reader gets at once: the candidates in the order given, as far as there is room."""
    waiting = list(candidates)
    made: dict[str, Any] = {"instructions": read_instructions(), "candidates": [], "leftOut": len(waiting)}
    for proposal, signals in waiting:
        room = max_bundle_chars - _size(made)
        if room < _LEAST:
            break
        made["candidates"].append(_entry(proposal, signals, min(max_candidate_chars, room), is_excluded))
        if _size(made) > max_bundle_chars:
            made["candidates"].pop()
            break
        made["leftOut"] -= 1
    return made


def _entry(proposal: Candidate, signals: Sequence[MinedEpisode], most: int, left_out: StepPredicate) -> dict[str, Any]:
    """One candidate for a reader, in so many characters if its own texts leave room for that."""
    body = signals[0].body if signals else {}
    entry: dict[str, Any] = {
        "number": proposal.number,
        "tool": body.get("tool", ""),
        "problem": proposal.record.get("problem", ""),
        "solution": proposal.record.get("solution", ""),
        "trigger": body.get("trigger", ""),
        "sessionCount": len(proposal.sessions),
        "projectCount": len(proposal.projects),
        "occurrenceCount": proposal.occurrences,
        "episodes": [],
    }
    shown = signals[:MAX_EPISODES]
    for left, signal in zip(range(len(shown), 0, -1), shown, strict=True):
        about: dict[str, Any] = {"session": signal.session, "project": signal.project, "at": signal.at}
        entry["episodes"].append(about)
        room = (most - _size(entry, 2)) // left
        told = build_excerpt(signal, max_chars=room, is_excluded=left_out)
        about["steps"] = list(told.steps)
        about |= {"stepsLeftOut": told.omitted_count} if told.omitted_count else {}
        about |= {"reason": told.reason} if told.reason else {}
    return entry


def judge_candidates(
    candidates: CandidatesToJudge,
    ask: Callable[[str], str],
    *,
    max_candidate_chars: int,
    is_excluded: StepPredicate,
    now: float,
    reader: str,
) -> Iterator[Judgement]:
    """A model's judgements, each as it comes, so that those paid for are kept whatever happens to the next."""
    for proposal, signals in candidates:
        entry = _entry(proposal, signals, max_candidate_chars, is_excluded)
        unread = Judgement(proposal.number, now, reader, "none", {})
        if any(episode["steps"] for episode in entry["episodes"]):
            asked = json.dumps({"candidates": [entry]}, ensure_ascii=False, indent=2)
            yield _answered(ask(f"{read_instructions()}\n## Candidates\n\n{asked}\n"), unread, signals, is_excluded)
        else:
            reasons = [episode["reason"] for episode in entry["episodes"]]
            yield replace(unread, void=next(iter(reasons), "no transcript is known for it"))


def _answered(answer: str, unread: Judgement, signals: Sequence[MinedEpisode], left_out: StepPredicate) -> Judgement:
    try:
        sent = parse_judgements(answer)
    except UserError as wrong:
        return replace(unread, void=f"the answer cannot be read: {wrong.say}")
    own = [one for one in sent if one.candidate == unread.candidate]
    if len(own) != 1:
        return replace(unread, void=f"the answer judges candidate {unread.candidate} {len(own)} times")
    return replace(own[0], at=unread.at, reader=unread.reader, void=check_judgement(own[0], signals, left_out))


def check_judgement(judgement: Judgement, episodes: Sequence[MinedEpisode], is_excluded: StepPredicate) -> str:
    """Why a judgement is void; "" if it counts."""
    quotes = [str(each["quote"]) for each in judgement.body.get("quotes", ())]
    if not quotes and judgement.verdict != "none":
        return f"a verdict of {judgement.verdict} needs a quote from the transcript"
    if short := [quote for quote in quotes if len(collapse_spaces(quote)) < MIN_QUOTE_CHARS]:
        return f"the quote {short[0]!r} is too short: {MIN_QUOTE_CHARS} characters at least"
    wrong = _faults(judgement, episodes) if judgement.verdict == "lesson" else ""
    return wrong or _missing(quotes, episodes, is_excluded)


def _faults(judgement: Judgement, signals: Sequence[MinedEpisode]) -> str:
    """What keeps it from being a lesson, by the rules that hold for every lesson."""
    body, found = judgement.body, signals[0].body if signals else {}
    problem, solution = body.get("problem", ""), body.get("solution", "")
    tool = found.get("tool", "")
    of_command = found.get("command", tool not in FILE_TOOLS)  # a tag does not say what failed
    kind = "commandPatterns" if of_command else "pathPatterns"
    made = {
        "summary": body.get("summary") or lesson_tags.build_summary(problem, solution),
        "problem": problem,
        "solution": solution,
        "delivery": body.get("delivery", "note"),
        "triggers": {"toolNames": [tool] if tool else [], kind: [body["trigger"]] if "trigger" in body else []},
        "tags": body.get("tags", []),
    }
    return "; ".join(validation.find_lesson_faults(record.parse_lesson(made)))


def _missing(quotes: Sequence[str], signals: Sequence[MinedEpisode], left_out: StepPredicate) -> str:
    """Says which quote stands in no episode of the candidate."""
    left, reasons = [collapse_spaces(quote) for quote in quotes], []
    for signal in signals[:_MOST_CHECKED]:
        if not left:
            return ""
        pages, reason = _pages(signal, left_out)
        texts = [collapse_spaces(page.text) for page in pages]
        left = [quote for quote in left if not any(quote in text for text in texts)]
        reasons.append(reason)
    if not left:
        return ""
    if all(reasons):
        return next(iter(reasons), "no transcript is known for it")
    return f"the quote {trim_text(left[0], 100)!r} is not in the transcript"


def parse_judgements(text: str) -> list[Judgement]:
    """What a reader sent, not checked yet; UserError names the judgement and the field that is wrong."""
    if len(text.encode("utf-8", "replace")) > MAX_ANSWER_BYTES:
        raise UserError(f"the judgements have more than {MAX_ANSWER_BYTES:,} bytes", "send fewer at once")
    try:
        found = json.loads(_unfenced(text))
    except json.JSONDecodeError as wrong:
        raise UserError(f"the judgements are no JSON: line {wrong.lineno}: {wrong.msg}", _FORM) from None
    except (ValueError, RecursionError):
        raise UserError("the judgements are no JSON: a number is too long, or nested too deeply", _FORM) from None
    if isinstance(found, dict):
        found = found.get("judgements", [found])
    if not isinstance(found, list):
        raise UserError(f"the judgements are {_kind(found)}, not a list", _FORM)
    if len(found) > _MOST_JUDGEMENTS:
        raise UserError(
            f"there are {len(found)} judgements, but {_MOST_JUDGEMENTS} at most are read", "send fewer at once"
        )
    return [_judgement(one, f"judgement {number}") for number, one in enumerate(found, 1)]


def _unfenced(text: str) -> str:
    """What stands in the first fence, if there is one: no line of JSON begins with one."""
    lines = text.removeprefix("\ufeff").split("\n")
    fences = [number for number, line in enumerate(lines) if line.lstrip().startswith("```")]
    if not fences:
        return "\n".join(lines)
    return "\n".join(lines[fences[0] + 1 : fences[1] if len(fences) > 1 else None])


def _judgement(given: object, name: str) -> Judgement:
    if not isinstance(given, dict):
        raise UserError(f"{name} is {_kind(given)}, not an object", _FORM)
    candidate, verdict = given.get("candidate"), given.get("verdict")
    if not isinstance(candidate, int) or isinstance(candidate, bool) or not 0 < candidate < 10**9:
        raise UserError(f"{name}: candidate is {_kind(candidate)}, not the number of one", _FORM)
    if verdict not in VERDICTS:
        raise UserError(f"{name}: verdict is {_kind(verdict)}, not one of {', '.join(VERDICTS)}", _FORM)
    body: dict[str, Any] = {"quotes": [_quote(one, name) for one in _list(given, "quotes", name, _MOST_QUOTES)]}
    for field in _TEXTS:
        if given.get(field) is not None and (said := _text(given[field], f"{name}: {field}").strip()):
            body[field] = said
    if given.get("delivery") is not None:
        if given["delivery"] not in ALLOWED_DELIVERY_MODES:
            say = f"{name}: delivery is {_kind(given['delivery'])}, not one of {', '.join(ALLOWED_DELIVERY_MODES)}"
            raise UserError(say, _FORM)
        body["delivery"] = given["delivery"]
    named = [_text(one, f"{name}: tags") for one in _list(given, "tags", name, _MOST_TAGS)]
    return Judgement(candidate, 0.0, "", str(verdict), {**body, "tags": named} if named else body)


def _quote(given: object, name: str) -> dict[str, Any]:
    line = None
    if isinstance(given, dict):
        line, given = given.get("line"), given.get("quote")
    quote = _text(given, f"{name}: quotes", _LONGEST_QUOTE)
    whole = isinstance(line, int) and not isinstance(line, bool) and 0 < line < 10**9
    return {"line": line, "quote": quote} if whole else {"quote": quote}


def _list(given: dict[str, Any], field: str, name: str, most: int) -> list[object]:
    found = given.get(field)
    if found is None:
        return []
    if not isinstance(found, list):
        raise UserError(f"{name}: {field} is {_kind(found)}, not a list", _FORM)
    if len(found) > most:
        raise UserError(f"{name}: {field} holds {len(found)}, but {most} at most are read", _FORM)
    return found


def _text(given: object, name: str, most: int = validation.MAX_LESSON_CHARS) -> str:
    if not isinstance(given, str):
        raise UserError(f"{name} is {_kind(given)}, not text", _FORM)
    if len(given) > most:
        raise UserError(f"{name} has {len(given)} characters, but {most} at most are read", _FORM)
    return clean_text(given.encode("utf-8", "replace").decode())


def _kind(value: object) -> str:
    """A value as it is named to whoever wrote it."""
    if value is None:
        return "missing"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    return trim_text(ascii(value), 40)
