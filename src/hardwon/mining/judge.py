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
from hardwon.agents.denied_steps import Denied
from hardwon.agents.private_turns import Hidden
from hardwon.agents.transcript_steps import MODULES, Step, history
from hardwon.errors import UserError
from hardwon.lessons import record, validation
from hardwon.privacy.cleaning import clean
from hardwon.privacy.truncation import trim
from hardwon.store.candidates import Judgement, Proposal
from hardwon.text import lesson_tags
from hardwon.text.excerpts import flat
from hardwon.types import FILES, Signal, replace, word

VERDICTS = ("lesson", "trivial", "none")
DELIVERIES = ("note", "hold", "start")  # a block is a person's idea
LARGEST = 1_000_000  # bytes that a reader may send
SHORTEST_QUOTE = 5
MOST_EPISODES = 2
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

Given = Iterable[tuple[Proposal, Sequence[Signal]]]


@word
class Page:
    """A step with its text, clean and whole, and how many steps it is from the evidence."""

    step: Step
    text: str
    away: int


@word
class Dossier:
    """The steps of an episode as a reader sees them, how many there was no room for, or why there are none."""

    steps: tuple[dict[str, Any], ...] = ()
    left_out: int = 0
    reason: str = ""


def dossier(signal: Signal, *, most: int, left_out: Denied) -> Dossier:
    """The episode as it stands in the transcript now, in at most so many characters of JSON."""
    pages, reason = _pages(signal, left_out)
    if reason:
        return Dossier(reason=reason)
    kept = pages
    while kept:
        lengths = _LENGTHS if any(page.away for page in kept) else (*_LENGTHS, *_SHORT)
        if _size(_shown(kept, *lengths[-1]), _LEVELS) <= most:
            fitting = (_shown(kept, *each) for each in lengths)
            steps = next(each for each in fitting if _size(each, _LEVELS) <= most)
            return Dossier(tuple(steps), len(pages) - len(kept))
        kept = _fewer(kept)
    return Dossier(reason=f"no step of the episode fits into {most} characters")


def _shown(pages: Iterable[Page], plain: int, failed: int) -> list[dict[str, Any]]:
    return [_as_shown(page, failed if page.step.failed else plain) for page in pages]


def _as_shown(page: Page, longest: int) -> dict[str, Any]:
    step = page.step
    marks = {"tool": step.tool, "failed": step.failed, "refused": bool(step.refused), "denied": step.denied}
    return {
        "line": step.line,
        "kind": step.kind,
        **{name: value for name, value in marks.items() if value},
        "text": trim(page.text, longest),
    }


def _fewer(pages: list[Page]) -> list[Page]:
    """Without the steps farthest from the evidence; where all are, the first error and the latest ones stay."""
    farthest = max(page.away for page in pages)
    if farthest:
        return [page for page in pages if page.away < farthest]
    if len(pages) <= 2:
        return []
    return [*pages[:2], *pages[2 + max(len(pages) // 4, 1) :]]


def _pages(signal: Signal, left_out: Denied) -> tuple[list[Page], str]:
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
        Page(step, clean(_said(step)), min(abs(place - one) for one in found))
        for place, step in enumerate(steps[start:end], start)
    ], ""


def _steps(signal: Signal, left_out: Denied) -> list[Step]:
    """What the signal's agent did and heard around the evidence, as far as it may be kept."""
    lines = [each["line"] for each in signal.body["evidence"]]
    if signal.host not in MODULES or not lines:
        return []
    first, last = min(lines) - _AROUND, max(lines) + _AROUND
    found = list[Step]()
    unseen = set[str]()  # calls that are left out, with their results
    reader, hidden = history(signal.host).Reader(), Hidden(signal.path)
    with transcript_files.reading(signal.path) as (_, _, portions):
        for numbered, _ in portions:
            for number, line in numbered:
                if number > last and signal.host in _IN_ORDER:
                    return found
                for step in reader.read(number, line):
                    is_unseen = hidden.hides(step) or left_out(step)
                    if step.kind == "call":
                        (unseen.add if is_unseen else unseen.discard)(step.call)
                    is_unseen |= step.kind == "result" and step.call in unseen
                    if not is_unseen and first <= step.line <= last and step.agent == signal.agent:
                        found.append(step)
    # A document may hold several sessions; in a file of lines they follow each other, and the lines tell.
    return [step for step in found if not transcript_files.is_whole(signal.path) or step.session == signal.session]


def _is_evidence(step: Step, signal: Signal) -> bool:
    """Whether the signal begins with this step, or it says what the signal quotes of its line."""
    begins = signal.key.rpartition("#")[0] if signal.tier == 1 else signal.key
    if f"{signal.host}:{step.id}" == begins:
        return True
    quotes = [
        flat(each["quote"])
        for each in signal.body["evidence"]
        if each["line"] == step.line and step.kind in _EVIDENCE.get(each["kind"], ()) and each["quote"].strip()
    ]
    text = flat(clean(_said(step))) if quotes else ""
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
def instructions() -> str:
    """How a reader judges, and what it answers."""
    return files("hardwon.distil").joinpath("prompts", "judge.md").read_text("utf-8")


def bundle(given: Given, *, most_each: int, most_all: int, left_out: Denied) -> dict[str, Any]:
    """What a reader gets at once: the candidates in the order given, as far as there is room."""
    waiting = list(given)
    made: dict[str, Any] = {"instructions": instructions(), "candidates": [], "leftOut": len(waiting)}
    for proposal, signals in waiting:
        room = most_all - _size(made)
        if room < _LEAST:
            break
        made["candidates"].append(_entry(proposal, signals, min(most_each, room), left_out))
        if _size(made) > most_all:
            made["candidates"].pop()
            break
        made["leftOut"] -= 1
    return made


def _entry(proposal: Proposal, signals: Sequence[Signal], most: int, left_out: Denied) -> dict[str, Any]:
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
    shown = signals[:MOST_EPISODES]
    for left, signal in zip(range(len(shown), 0, -1), shown, strict=True):
        about: dict[str, Any] = {"session": signal.session, "project": signal.project, "at": signal.at}
        entry["episodes"].append(about)
        room = (most - _size(entry, 2)) // left
        told = dossier(signal, most=room, left_out=left_out)
        about["steps"] = list(told.steps)
        about |= {"stepsLeftOut": told.left_out} if told.left_out else {}
        about |= {"reason": told.reason} if told.reason else {}
    return entry


def judge(
    given: Given, ask: Callable[[str], str], *, most: int, left_out: Denied, now: float, reader: str
) -> Iterator[Judgement]:
    """A model's judgements, each as it comes, so that those paid for are kept whatever happens to the next."""
    for proposal, signals in given:
        entry = _entry(proposal, signals, most, left_out)
        unread = Judgement(proposal.number, now, reader, "none", {})
        if any(episode["steps"] for episode in entry["episodes"]):
            asked = json.dumps({"candidates": [entry]}, ensure_ascii=False, indent=2)
            yield _answered(ask(f"{instructions()}\n## Candidates\n\n{asked}\n"), unread, signals, left_out)
        else:
            reasons = [episode["reason"] for episode in entry["episodes"]]
            yield replace(unread, void=next(iter(reasons), "no transcript is known for it"))


def _answered(answer: str, unread: Judgement, signals: Sequence[Signal], left_out: Denied) -> Judgement:
    try:
        sent = read_judgements(answer)
    except UserError as wrong:
        return replace(unread, void=f"the answer cannot be read: {wrong.say}")
    own = [one for one in sent if one.candidate == unread.candidate]
    if len(own) != 1:
        return replace(unread, void=f"the answer judges candidate {unread.candidate} {len(own)} times")
    return replace(own[0], at=unread.at, reader=unread.reader, void=check(own[0], signals, left_out))


def check(judgement: Judgement, signals: Sequence[Signal], left_out: Denied) -> str:
    """Why a judgement is void; "" if it counts."""
    quotes = [str(each["quote"]) for each in judgement.body.get("quotes", ())]
    if not quotes and judgement.verdict != "none":
        return f"a verdict of {judgement.verdict} needs a quote from the transcript"
    if short := [quote for quote in quotes if len(flat(quote)) < SHORTEST_QUOTE]:
        return f"the quote {short[0]!r} is too short: {SHORTEST_QUOTE} characters at least"
    wrong = _faults(judgement, signals) if judgement.verdict == "lesson" else ""
    return wrong or _missing(quotes, signals, left_out)


def _faults(judgement: Judgement, signals: Sequence[Signal]) -> str:
    """What keeps it from being a lesson, by the rules that hold for every lesson."""
    body, found = judgement.body, signals[0].body if signals else {}
    problem, solution = body.get("problem", ""), body.get("solution", "")
    tool = found.get("tool", "")
    of_command = found.get("command", tool not in FILES)  # a tag does not say what failed
    kind = "commandPatterns" if of_command else "pathPatterns"
    made = {
        "summary": body.get("summary") or lesson_tags.summary(problem, solution),
        "problem": problem,
        "solution": solution,
        "delivery": body.get("delivery", "note"),
        "triggers": {"toolNames": [tool] if tool else [], kind: [body["trigger"]] if "trigger" in body else []},
        "tags": body.get("tags", []),
    }
    return "; ".join(validation.faults(record.read(made)))


def _missing(quotes: Sequence[str], signals: Sequence[Signal], left_out: Denied) -> str:
    """Says which quote stands in no episode of the candidate."""
    left, reasons = [flat(quote) for quote in quotes], []
    for signal in signals[:_MOST_CHECKED]:
        if not left:
            return ""
        pages, reason = _pages(signal, left_out)
        texts = [flat(page.text) for page in pages]
        left = [quote for quote in left if not any(quote in text for text in texts)]
        reasons.append(reason)
    if not left:
        return ""
    if all(reasons):
        return next(iter(reasons), "no transcript is known for it")
    return f"the quote {trim(left[0], 100)!r} is not in the transcript"


def read_judgements(text: str) -> list[Judgement]:
    """What a reader sent, not checked yet; UserError names the judgement and the field that is wrong."""
    if len(text.encode("utf-8", "replace")) > LARGEST:
        raise UserError(f"the judgements have more than {LARGEST:,} bytes", "send fewer at once")
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
        if given["delivery"] not in DELIVERIES:
            say = f"{name}: delivery is {_kind(given['delivery'])}, not one of {', '.join(DELIVERIES)}"
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


def _text(given: object, name: str, most: int = validation.LONGEST_LESSON) -> str:
    if not isinstance(given, str):
        raise UserError(f"{name} is {_kind(given)}, not text", _FORM)
    if len(given) > most:
        raise UserError(f"{name} has {len(given)} characters, but {most} at most are read", _FORM)
    return clean(given.encode("utf-8", "replace").decode())


def _kind(value: object) -> str:
    """A value as it is named to whoever wrote it."""
    if value is None:
        return "missing"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    return trim(ascii(value), 40)
