"""Give candidates to a reader, who tells lessons from slips, and check the answer.

A reader is a model, or the agent that a person is talking to. It gets the episodes from the transcripts as JSON
strings, so that no text in them can pass for our instructions. Its answer is only a proposal, and is void unless every
quote is in the transcript.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Any

from hardwon.agents import TRANSCRIPT_AGENTS, transcript_files
from hardwon.agents.transcript_files import PrivateTurnTracker, StepPredicate
from hardwon.agents.transcript_steps import Step, load_transcript_module
from hardwon.errors import UserError
from hardwon.lessons import record, validation
from hardwon.privacy.cleaning import clean_text
from hardwon.privacy.truncation import trim_text
from hardwon.store.candidates import Candidate, Judgement
from hardwon.text import lesson_tags
from hardwon.text.excerpts import collapse_spaces
from hardwon.types import FILE_TOOLS, SHELL_TOOL, TAG_TIER, MinedEpisode, frozen, replace

VERDICTS = ("lesson", "trivial", "none")
ALLOWED_DELIVERY_MODES = ("note", "hold", "start")  # only a person may ask for a block
MAX_ANSWER_BYTES = 1_000_000  # largest answer accepted
MIN_QUOTE_CHARS = 5
MAX_EPISODES = 2
_MAX_CHECKED_EPISODES = 10  # episodes whose transcripts are searched for a quote
_MAX_QUOTE_CHARS, _MAX_QUOTES, _MAX_TAGS, _MAX_JUDGEMENTS = 2_000, 20, 20, 1_000
_TEXT_FIELDS = ("problem", "solution", "trigger", "summary", "why")
_FORM_FIX = "hardwon review --json   (its instructions show the form)"

_SEARCHED_LINES = 300  # lines around the evidence that are searched for its call and result
_NEIGHBOUR_STEPS = 2  # steps shown before and after the evidence
_FIRST_PAGES_KEPT = 2  # of the evidence, when room is short
_STEP_DEPTH = 5  # nesting depth of an episode's steps in a bundle
_MIN_ENTRY_CHARS = 1_500  # with less room, an episode is not intelligible
# Limits for a step's text and for that of a failed result, which is longest because the error matters most.
_TEXT_LIMITS = (
    *((4_000, 4_000), (2_000, 4_000), (1_000, 4_000), (500, 4_000), (250, 4_000)),
    *((250, 2_000), (250, 1_000)),
)
_SHORT_LIMITS = ((120, 500), (60, 200))  # used when only evidence is left
_ORDERED_AGENTS = frozenset({"claude-code", "codex"})  # other agents may report an early line late in the file
_COLOUR_CODE = re.compile(r"\x1b\[[\d;?]*[A-Za-z]")
# The kinds of steps that can have a quote, by its kind: a person's words also stand in the result of a refused call.
_EVIDENCE_STEP_KINDS = {"error": ("result",), "correction": ("agent", "call"), "user": ("person", "result")}

CandidatesToJudge = Iterable[tuple[Candidate, Sequence[MinedEpisode]]]


@frozen
class EpisodeStep:
    """A step with its full redacted text and its distance from the evidence, in steps."""

    step: Step
    text: str
    distance: int


@frozen
class EpisodeExcerpt:
    """The steps of an episode for a reader, how many did not fit, or why there are none."""

    steps: tuple[dict[str, Any], ...] = ()
    omitted_count: int = 0
    reason: str = ""


def build_excerpt(episode: MinedEpisode, *, max_chars: int, is_excluded: StepPredicate) -> EpisodeExcerpt:
    """Read the episode from its transcript, shortened to `max_chars` of JSON.

    Texts are shortened first, then the steps farthest from the evidence are left out.
    """
    pages, reason = _read_pages(episode, is_excluded)
    if reason:
        return EpisodeExcerpt(reason=reason)
    selected = pages
    while selected:
        has_only_evidence = not any(page.distance for page in selected)
        limits = (*_TEXT_LIMITS, *_SHORT_LIMITS) if has_only_evidence else _TEXT_LIMITS
        shortest = _render_steps(selected, *limits[-1])
        if _measure_json(shortest, _STEP_DEPTH) > max_chars:
            selected = _drop_farthest(selected)
            continue
        for max_text_chars, max_failed_chars in limits:
            steps = _render_steps(selected, max_text_chars, max_failed_chars)
            if _measure_json(steps, _STEP_DEPTH) <= max_chars:
                return EpisodeExcerpt(tuple(steps), len(pages) - len(selected))
    return EpisodeExcerpt(reason=f"no step of the episode fits into {max_chars} characters")


def _render_steps(pages: Iterable[EpisodeStep], max_chars: int, max_failed_chars: int) -> list[dict[str, Any]]:
    """Render the steps with texts cut at these limits; a failed result has its own."""
    return [_render_step(page, max_failed_chars if page.step.failed else max_chars) for page in pages]


def _render_step(page: EpisodeStep, max_chars: int) -> dict[str, Any]:
    """Render a step as an object, without the fields that are empty or false."""
    step = page.step
    rendered: dict[str, Any] = {"line": step.line, "kind": step.kind}
    if step.tool:
        rendered["tool"] = step.tool
    if step.failed:
        rendered["failed"] = True
    if step.refused:
        rendered["refused"] = True
    if step.denied:
        rendered["denied"] = True
    rendered["text"] = trim_text(page.text, max_chars)
    return rendered


def _drop_farthest(pages: list[EpisodeStep]) -> list[EpisodeStep]:
    """Drop the steps farthest from the evidence; if only evidence is left, keep the first two and the latest."""
    farthest = max(page.distance for page in pages)
    if farthest:
        return [page for page in pages if page.distance < farthest]
    if len(pages) <= _FIRST_PAGES_KEPT:
        return []
    dropped_count = max(len(pages) // 4, 1)  # a quarter at a time
    return [*pages[:_FIRST_PAGES_KEPT], *pages[_FIRST_PAGES_KEPT + dropped_count :]]


def _read_pages(episode: MinedEpisode, is_excluded: StepPredicate) -> tuple[list[EpisodeStep], str]:
    """Return the steps of the episode and a few around it, or why there are none.

    A call and its result belong together: if one is evidence, so is the other.
    """
    try:
        steps = _read_steps(episode, is_excluded)
    except (OSError, ValueError) as error:
        return [], f"the transcript cannot be read: {getattr(error, 'strerror', None) or error}"
    evidence_positions = {position for position, step in enumerate(steps) if _is_evidence(step, episode)}
    if not evidence_positions:
        return [], "the transcript was rewritten: what was found in it is no longer there"
    calls = {steps[position].call for position in evidence_positions} - {""}
    evidence_positions |= {position for position, step in enumerate(steps) if step.call in calls}
    start = max(min(evidence_positions) - _NEIGHBOUR_STEPS, 0)
    end = max(evidence_positions) + _NEIGHBOUR_STEPS + 1
    pages: list[EpisodeStep] = []
    for position, step in enumerate(steps[start:end], start):
        distance = min(abs(position - other) for other in evidence_positions)
        pages.append(EpisodeStep(step, clean_text(_get_step_text(step)), distance))
    return pages, ""


def _read_steps(episode: MinedEpisode, is_excluded: StepPredicate) -> list[Step]:
    """Return the visible steps of the episode's agent around the evidence."""
    lines = [evidence["line"] for evidence in episode.body["evidence"]]
    if episode.host not in TRANSCRIPT_AGENTS or not lines:
        return []
    first = min(lines) - _SEARCHED_LINES
    last = max(lines) + _SEARCHED_LINES
    # A single-document transcript may hold several sessions; in a JSONL file the line range already selects one.
    has_one_session = not transcript_files.is_single_document(episode.path)
    steps = list[Step]()
    for step in _iter_visible_steps(episode, last, is_excluded):
        is_near = first <= step.line <= last
        is_of_session = has_one_session or step.session == episode.session
        if is_near and is_of_session and step.subagent_id == episode.subagent_id:
            steps.append(step)
    return steps


def _iter_visible_steps(episode: MinedEpisode, last_line: int, is_excluded: StepPredicate) -> Iterator[Step]:
    """Yield the steps of an episode's transcript that may be shown.

    The result of a call that is left out is left out as well.
    """
    hidden_calls = set[str]()
    private_turns = PrivateTurnTracker(episode.path)
    for step in _iter_steps(episode, last_line):
        is_hidden = private_turns.check_next_step(step) or is_excluded(step)
        if step.kind == "call" and is_hidden:
            hidden_calls.add(step.call)
        elif step.kind == "call":
            hidden_calls.discard(step.call)  # an id that is used again
        elif step.kind == "result" and step.call in hidden_calls:
            is_hidden = True
        if not is_hidden:
            yield step


def _iter_steps(episode: MinedEpisode, last_line: int) -> Iterator[Step]:
    """Yield the steps of an episode's transcript, up to a line if the agent writes them in order."""
    reader = load_transcript_module(episode.host).Reader()
    with transcript_files.open_transcript(episode.path) as (_, _, portions):
        for numbered, _ in portions:
            for number, line in numbered:
                if number > last_line and episode.host in _ORDERED_AGENTS:
                    return
                yield from reader.read_line(number, line)


def _is_evidence(step: Step, episode: MinedEpisode) -> bool:
    """Return whether the episode starts with this step, or quotes it.

    The first step is known by its id, which is the same in every copy of the session. A quote must be at its line.
    """
    start_key = episode.key  # `agent:step`, with the first failed result as the step
    if episode.tier == TAG_TIER:
        # A step may have several `#lesson` blocks, so their keys end in a position: `agent:step#0`.
        start_key = start_key.rpartition("#")[0]
    if f"{episode.host}:{step.id}" == start_key:
        return True
    quotes = [
        collapse_spaces(evidence["quote"])
        for evidence in episode.body["evidence"]
        if evidence["line"] == step.line
        and step.kind in _EVIDENCE_STEP_KINDS.get(evidence["kind"], ())
        and evidence["quote"].strip()
    ]
    if not quotes:
        return False
    text = collapse_spaces(clean_text(_get_step_text(step)))
    return any(quote in text for quote in quotes)


def _get_step_text(step: Step) -> str:
    """Return a step's text without colour codes, which could split a secret."""
    parts = (step.command, step.path, step.content, step.text or step.refused.strip())
    return _COLOUR_CODE.sub("", "\n".join(part for part in parts if part))


def _measure_json(value: object, levels: int = 0) -> int:
    """Return the length of the value's indented JSON at this depth."""
    text = json.dumps(value, indent=2)
    return len(text) + 2 * levels * text.count("\n")


@lru_cache(maxsize=1)
def read_instructions() -> str:
    """Return the prompt that tells a reader how to judge and what to answer."""
    return files("hardwon.distil").joinpath("prompts", "judge.md").read_text("utf-8")


def build_bundle(
    candidates: CandidatesToJudge, *, max_candidate_chars: int, max_bundle_chars: int, is_excluded: StepPredicate
) -> dict[str, Any]:
    """Build the JSON bundle for a reader: the candidates in the given order, as many as fit."""
    waiting = list(candidates)
    bundle: dict[str, Any] = {"instructions": read_instructions(), "candidates": [], "leftOut": len(waiting)}
    for candidate, episodes in waiting:
        room = max_bundle_chars - _measure_json(bundle)
        if room < _MIN_ENTRY_CHARS:
            break
        bundle["candidates"].append(_build_entry(candidate, episodes, min(max_candidate_chars, room), is_excluded))
        # A candidate with long texts of its own may exceed its room.
        if _measure_json(bundle) > max_bundle_chars:
            bundle["candidates"].pop()
            break
        bundle["leftOut"] -= 1
    return bundle


def _build_entry(
    candidate: Candidate, episodes: Sequence[MinedEpisode], max_chars: int, is_excluded: StepPredicate
) -> dict[str, Any]:
    """Build one candidate's entry, within `max_chars` if its own texts allow."""
    body = episodes[0].body if episodes else {}
    entry: dict[str, Any] = {
        "number": candidate.number,
        "tool": body.get("tool", ""),
        "problem": candidate.record.get("problem", ""),
        "solution": candidate.record.get("solution", ""),
        "trigger": body.get("trigger", ""),
        "sessionCount": len(candidate.sessions),
        "projectCount": len(candidate.projects),
        "occurrenceCount": candidate.occurrences,
        "isProposed": candidate.status == "candidate",
        "whyNotProposed": body.get("rejection", "") if candidate.status == "open" else "",
        "episodes": [],
    }
    shown_episodes = episodes[:MAX_EPISODES]
    for index, episode in enumerate(shown_episodes):
        episode_entry: dict[str, Any] = {"session": episode.session, "project": episode.project, "at": episode.at}
        entry["episodes"].append(episode_entry)
        # Share what is left evenly among this and the later episodes.
        room = (max_chars - _measure_json(entry, 2)) // (len(shown_episodes) - index)
        excerpt = build_excerpt(episode, max_chars=room, is_excluded=is_excluded)
        episode_entry["steps"] = list(excerpt.steps)
        if excerpt.omitted_count:
            episode_entry["stepsLeftOut"] = excerpt.omitted_count
        if excerpt.reason:
            episode_entry["reason"] = excerpt.reason
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
    """Yield a model's judgements one by one, so that paid ones are kept if a later call fails."""
    for candidate, episodes in candidates:
        entry = _build_entry(candidate, episodes, max_candidate_chars, is_excluded)
        blank = Judgement(candidate.number, now, reader, "none", {})
        if not any(episode["steps"] for episode in entry["episodes"]):
            reasons = [episode["reason"] for episode in entry["episodes"]]
            yield replace(blank, void=next(iter(reasons), "no transcript is known for it"))
            continue
        payload = json.dumps({"candidates": [entry]}, ensure_ascii=False, indent=2)
        answer = ask(f"{read_instructions()}\n## Candidates\n\n{payload}\n")
        yield _parse_answer(answer, blank, episodes, is_excluded)


def _parse_answer(
    answer: str, blank: Judgement, episodes: Sequence[MinedEpisode], is_excluded: StepPredicate
) -> Judgement:
    """Return the one judgement in a model's answer, checked; the blank one with a reason if the answer is void."""
    try:
        judgements = parse_judgements(answer)
    except UserError as error:
        return replace(blank, void=f"the answer cannot be read: {error.message}")
    matching = [judgement for judgement in judgements if judgement.candidate == blank.candidate]
    if len(matching) != 1:
        return replace(blank, void=f"the answer judges candidate {blank.candidate} {len(matching)} times")
    void = check_judgement(matching[0], episodes, is_excluded)
    return replace(matching[0], at=blank.at, reader=blank.reader, void=void)


def check_judgement(judgement: Judgement, episodes: Sequence[MinedEpisode], is_excluded: StepPredicate) -> str:
    """Return why a judgement is void; "" if it counts."""
    quotes = [str(quote_entry["quote"]) for quote_entry in judgement.body.get("quotes", ())]
    if not quotes and judgement.verdict != "none":
        return f"a verdict of {judgement.verdict} needs a quote from the transcript"
    if short_quotes := [quote for quote in quotes if len(collapse_spaces(quote)) < MIN_QUOTE_CHARS]:
        return f"the quote {short_quotes[0]!r} is too short: {MIN_QUOTE_CHARS} characters at least"
    faults = _find_faults(judgement, episodes) if judgement.verdict == "lesson" else ""
    return faults or _find_missing_quote(quotes, episodes, is_excluded)


def _find_faults(judgement: Judgement, episodes: Sequence[MinedEpisode]) -> str:
    """Return the faults of the proposed lesson, by the rules for every lesson."""
    lesson = record.parse_lesson(build_judged_record(judgement.body, episodes))
    return "; ".join(validation.find_lesson_faults(lesson))


def build_judged_record(body: Mapping[str, Any], episodes: Sequence[MinedEpisode]) -> dict[str, Any]:
    """Build the lesson that a reader proposes; what its trigger is tried on depends on the tool that failed."""
    problem = body.get("problem", "")
    solution = body.get("solution", "")
    tool = episodes[0].body.get("tool", "") if episodes else ""
    pattern_key = "contentPatterns"
    if tool in ("", SHELL_TOOL):  # an episode from a tag does not say what failed
        pattern_key = "commandPatterns"
    elif tool in FILE_TOOLS:
        pattern_key = "pathPatterns"
    triggers: dict[str, Any] = {"toolNames": [tool or SHELL_TOOL]}
    if "trigger" in body:
        triggers[pattern_key] = [body["trigger"]]
    return {
        "summary": body.get("summary") or lesson_tags.build_summary(problem, solution),
        "problem": problem,
        "solution": solution,
        "delivery": body.get("delivery", "note"),
        "triggers": triggers,
        "tags": body.get("tags", []),
    }


def _find_missing_quote(quotes: Sequence[str], episodes: Sequence[MinedEpisode], is_excluded: StepPredicate) -> str:
    """Return a sentence about the first quote that is in no episode of the candidate; "" if all are found."""
    missing = [collapse_spaces(quote) for quote in quotes]
    reasons = []
    for episode in episodes[:_MAX_CHECKED_EPISODES]:
        if not missing:
            return ""
        pages, reason = _read_pages(episode, is_excluded)
        texts = [collapse_spaces(page.text) for page in pages]
        missing = [quote for quote in missing if not any(quote in text for text in texts)]
        reasons.append(reason)
    if not missing:
        return ""
    if all(reasons):
        return next(iter(reasons), "no transcript is known for it")
    return f"the quote {trim_text(missing[0], 100)!r} is not in the transcript"


def parse_judgements(text: str) -> list[Judgement]:
    """Parse a reader's answer without checking quotes; UserError names the wrong judgement and field."""
    if len(text.encode("utf-8", "replace")) > MAX_ANSWER_BYTES:
        raise UserError(f"the judgements have more than {MAX_ANSWER_BYTES:,} bytes", "send fewer at once")
    try:
        parsed = json.loads(_strip_fence(text))
    except json.JSONDecodeError as error:
        raise UserError(f"the judgements are no JSON: line {error.lineno}: {error.msg}", _FORM_FIX) from None
    except (ValueError, RecursionError):
        raise UserError("the judgements are no JSON: a number is too long, or nested too deeply", _FORM_FIX) from None
    if isinstance(parsed, dict):
        parsed = parsed.get("judgements", [parsed])
    if not isinstance(parsed, list):
        raise UserError(f"the judgements are {_describe_value(parsed)}, not a list", _FORM_FIX)
    if len(parsed) > _MAX_JUDGEMENTS:
        raise UserError(
            f"there are {len(parsed)} judgements, but {_MAX_JUDGEMENTS} at most are read", "send fewer at once"
        )
    return [_parse_judgement(item, f"judgement {number}") for number, item in enumerate(parsed, 1)]


def _strip_fence(text: str) -> str:
    """Return the content of the first code fence, or all of a text without one; no line of JSON starts with a fence."""
    lines = text.removeprefix("\ufeff").split("\n")
    fences = [number for number, line in enumerate(lines) if line.lstrip().startswith("```")]
    if not fences:
        return "\n".join(lines)
    end = fences[1] if len(fences) > 1 else len(lines)
    return "\n".join(lines[fences[0] + 1 : end])


def _parse_judgement(data: object, name: str) -> Judgement:
    """Check the fields of a judgement; UserError calls it by `name`, such as "judgement 2"."""
    if not isinstance(data, dict):
        raise UserError(f"{name} is {_describe_value(data)}, not an object", _FORM_FIX)
    candidate = data.get("candidate")
    verdict = data.get("verdict")
    if not isinstance(candidate, int) or isinstance(candidate, bool) or not 0 < candidate < 10**9:
        raise UserError(f"{name}: candidate is {_describe_value(candidate)}, not the number of one", _FORM_FIX)
    if verdict not in VERDICTS:
        raise UserError(f"{name}: verdict is {_describe_value(verdict)}, not one of {', '.join(VERDICTS)}", _FORM_FIX)
    body: dict[str, Any] = {
        "quotes": [_parse_quote(item, name) for item in _get_list(data, "quotes", name, _MAX_QUOTES)]
    }
    for field in _TEXT_FIELDS:
        if data.get(field) is not None and (text := _parse_text(data[field], f"{name}: {field}").strip()):
            body[field] = text
    if data.get("delivery") is not None:
        if data["delivery"] not in ALLOWED_DELIVERY_MODES:
            message = (
                f"{name}: delivery is {_describe_value(data['delivery'])}, not one of "
                f"{', '.join(ALLOWED_DELIVERY_MODES)}"
            )
            raise UserError(message, _FORM_FIX)
        body["delivery"] = data["delivery"]
    tags = [_parse_text(item, f"{name}: tags") for item in _get_list(data, "tags", name, _MAX_TAGS)]
    if tags:
        body["tags"] = tags
    # Who read it and when is filled in where it is stored.
    return Judgement(candidate, at=0.0, reader="", verdict=str(verdict), body=body)


def _parse_quote(data: object, name: str) -> dict[str, Any]:
    """Parse a quote, given as text or as an object with its line; a line that is not a valid number is left out."""
    line = None
    if isinstance(data, dict):
        line = data.get("line")
        data = data.get("quote")
    quote = _parse_text(data, f"{name}: quotes", _MAX_QUOTE_CHARS)
    is_line_number = isinstance(line, int) and not isinstance(line, bool) and 0 < line < 10**9
    return {"line": line, "quote": quote} if is_line_number else {"quote": quote}


def _get_list(data: dict[str, Any], field: str, name: str, max_items: int) -> list[object]:
    """Return the list in a field, empty if the field is missing; UserError if it is no list or too long."""
    items = data.get(field)
    if items is None:
        return []
    if not isinstance(items, list):
        raise UserError(f"{name}: {field} is {_describe_value(items)}, not a list", _FORM_FIX)
    if len(items) > max_items:
        raise UserError(f"{name}: {field} holds {len(items)}, but {max_items} at most are read", _FORM_FIX)
    return items


def _parse_text(value: object, name: str, max_chars: int = validation.MAX_LESSON_CHARS) -> str:
    """Return a text, redacted; UserError calls it by `name` if it is no text or too long."""
    if not isinstance(value, str):
        raise UserError(f"{name} is {_describe_value(value)}, not text", _FORM_FIX)
    if len(value) > max_chars:
        raise UserError(f"{name} has {len(value)} characters, but {max_chars} at most are read", _FORM_FIX)
    return clean_text(value.encode("utf-8", "replace").decode())


def _describe_value(value: object) -> str:
    """Format a value for an error message."""
    if value is None:
        return "missing"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    return trim_text(ascii(value), 40)
