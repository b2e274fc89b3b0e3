"""A draft in a model's words, where they hold: every claim quotes a line of what was sent, or is thrown away.

The session stands between marks made from a hash of itself, which no text can hold beforehand, so nothing in it can end
the data and go on as instructions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from importlib.resources import files
from typing import Any

from hardwon.agents.transcript_steps import Step
from hardwon.distil.llm.exchange import Answer, Broken, Question
from hardwon.distil.refinement import AskModel
from hardwon.handoff import transcript_story as telltale
from hardwon.handoff.draft import (
    CONFIDENCE_NAMES,
    MAX_FINDINGS,
    MAX_TOPIC_CHARS,
    Draft,
    drop_known_memories,
    render_draft,
)
from hardwon.handoff.draft_statements import Statement
from hardwon.handoff.menu import MENU
from hardwon.handoff.transcript_story import Story
from hardwon.privacy.cleaning import clean_text
from hardwon.privacy.truncation import trim_text
from hardwon.store.reflection_types import FINDING_TARGETS, Evidence, Finding, ReflectionContext, SuggestedMemory
from hardwon.store.runs import REFLECT
from hardwon.text.excerpts import collapse_spaces, shorten_line, to_plain_line
from hardwon.types import MEMORY_TYPES

MAX_TURNS = 40  # the last of a session that are sent
MAX_SESSION_CHARS, MAX_DRAFT_CHARS = 60_000, 8_000  # characters of the session, and of what plain code says
MAX_MESSAGE_CHARS, MAX_CALL_CHARS, MAX_RESULT_CHARS = 1_500, 600, 500  # of each entry
MAX_ANSWER_CHARS = 40_000
MAX_STATEMENTS, MAX_TEXT_CHARS = 8, 400
MIN_QUOTE_CHARS, MAX_QUOTE_CHARS, MAX_QUOTES = 5, 300, 3
_SECTIONS = ("summary", "decisions", "failed", "open", "resume")


def refine_draft(
    plain_draft: Draft, past: ReflectionContext, ask: AskModel, log: dict[str, Any], *, max_turns: int = MAX_TURNS
) -> Draft:
    """The draft as a model tells it; Failed if it cannot or may not. `log` gets the question and the answer."""
    sent = _sent(plain_draft.story, max_turns)
    told = "\n".join(entry for _, entry in sent)
    data = (
        f"what plain code noted:\n{trim_text(clean_text(render_draft(plain_draft)), MAX_DRAFT_CHARS)}\n\nthe "
        f"session:\n{told}"
    )
    mark = f"===== data {blake2b(data.encode('utf-8', 'replace'), digest_size=8).hexdigest()} ====="
    question = Question(build_instructions(), f"{mark}\n{data}\n{mark}\n", REFLECT, 4_000)
    log["question"] = question.prompt

    def read(answer: Answer) -> Draft:
        log["answer"] = answer.text
        return _read(answer, plain_draft, past, sent)

    return ask(question, read)


def build_instructions() -> str:
    template = files("hardwon.distil").joinpath("prompts", "reflect.md").read_text("utf-8")
    return template.replace("{{menu}}", "\n".join(f"- {item.name}: {item.help}" for item in MENU))


def _sent(story: Story, most_turns: int) -> list[tuple[Step, str]]:
    """The steps of the last turns as the model sees them; of a long stretch the latest that fit."""
    starts = [place for place, step in enumerate(story.steps) if step.kind == "person"]
    first = starts[-most_turns] if len(starts) > most_turns else 0
    shown = [(step, entry) for step in story.steps[first:] if (entry := _entry(step))]
    room, kept = MAX_SESSION_CHARS, list[tuple[Step, str]]()
    for step, entry in reversed(shown):
        room -= len(entry) + 1
        if room < 0:
            break
        kept.append((step, entry))
    return kept[::-1]


def _entry(step: Step) -> str:
    by = " of a sub-agent" if step.agent else ""
    if step.kind in ("person", "agent"):
        return f"L{step.line} {step.kind}{by}: {trim_text(step.text, MAX_MESSAGE_CHARS)}"
    if step.kind == "call":
        return (
            f"L{step.line} call {step.tool}{by}: {trim_text(step.command or step.path or step.content, MAX_CALL_CHARS)}"
        )
    if step.kind == "result":
        state = ""
        if step.refused:
            state = " (refused)"
        elif step.denied:
            state = " (denied by a hook: it did not run)"
        elif step.failed:
            state = " (failed)"
        return f"L{step.line} result{state}{by}: {trim_text(step.text, MAX_RESULT_CHARS)}"
    return ""


class _Claims:
    """Owns the lines that were sent, and counts what did not hold."""

    def __init__(self, story: Story, sent: Sequence[tuple[Step, str]]) -> None:
        self._story = story
        self._lines = dict[int, list[tuple[Step, str]]]()
        for step, entry in sent:
            self._lines.setdefault(step.line, []).append((step, collapse_spaces(entry)))
        self.held = self.thrown_away = 0

    def evidence(self, claim: Mapping[str, Any]) -> tuple[Evidence, ...]:
        """The quotes of a claim as evidence; none if one of them is not in its line."""
        given = claim.get("evidence")
        quotes = [one for one in given if isinstance(one, dict)] if isinstance(given, list) else []
        found = [held for one in quotes[:MAX_QUOTES] for held in [self._held(one)]]
        whole = bool(found) and len(found) == len(quotes[:MAX_QUOTES]) and all(found)
        self.held += whole
        self.thrown_away += not whole
        return tuple(one for one in found if one) if whole else ()

    def _held(self, one: Mapping[str, Any]) -> Evidence | None:
        quote, line = _text(one, "quote", MAX_QUOTE_CHARS), one.get("line")
        if len(quote) < MIN_QUOTE_CHARS or not isinstance(line, int):
            return None
        steps = [step for step, entry in self._lines.get(line, ()) if quote in entry]
        found = [telltale.quote_step(self._story, step, quote) for step in steps]
        return next((made for made in found if made.quote in quote), None)


def _read(answer: Answer, before: Draft, past: ReflectionContext, sent: Sequence[tuple[Step, str]]) -> Draft:
    wire = _object(answer.text)
    claims = _Claims(before.story, sent)
    sections = {name: _statements(wire, name, claims) for name in _SECTIONS}
    findings, memories = _findings(wire, claims), _memories(wire, claims)
    if claims.thrown_away > claims.held:
        raise Broken(f"{claims.thrown_away} of its claims quote what is not there", outcome="untrue")
    if not sections["summary"] or not sections["resume"] or wire.get("confidence") not in CONFIDENCE_NAMES:
        raise _wrong("no summary, no resume or no confidence that holds")
    return before._replace(
        topic=shorten_line(_text(wire, "topic", 4 * MAX_TOPIC_CHARS), MAX_TOPIC_CHARS) or before.topic,
        workstream=_text(wire, "workstream", 80) or before.workstream,
        summary=sections["summary"],
        decisions=sections["decisions"],
        failed=sections["failed"],
        open=sections["open"],
        resume=sections["resume"],
        confidence=wire["confidence"],
        because=_text(wire, "because", 200) or "as the model judges",
        findings=findings or before.findings,
        memories=tuple(drop_known_memories([*before.memories, *memories], [text for _, text in past.memories])),
        made=answer.model,
    )


def _object(text: str) -> dict[str, Any]:
    if len(text) > MAX_ANSWER_CHARS:
        raise _wrong(f"{len(text):,} characters")
    body = text[text.find("{") : text.rfind("}") + 1]
    try:
        wire = json.loads(body)
    except (ValueError, RecursionError):
        raise _wrong("it is no JSON") from None
    if not isinstance(wire, dict):
        raise _wrong("it is no object")
    return wire


def _rows(wire: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    rows = wire.get(name, [])
    if not isinstance(rows, list) or len(rows) > MAX_STATEMENTS or not all(isinstance(row, dict) for row in rows):
        raise _wrong(f"{name} is no list of at most {MAX_STATEMENTS} objects")
    return rows


def _statements(wire: Mapping[str, Any], name: str, claims: _Claims) -> tuple[Statement, ...]:
    made = [Statement(_text(row, "text", MAX_TEXT_CHARS), claims.evidence(row)) for row in _rows(wire, name)]
    return tuple(one for one in made if one.text and one.evidence)


def _findings(wire: Mapping[str, Any], claims: _Claims) -> tuple[Finding, ...]:
    items, found = {item.name for item in MENU}, list[Finding]()
    for row in _rows(wire, "findings")[:MAX_FINDINGS]:
        item, target, score = row.get("item"), row.get("target"), row.get("score")
        if (
            item not in items
            or target not in FINDING_TARGETS
            or not isinstance(score, int | float)
            or not 0 <= score <= 1
        ):
            raise _wrong(f"a finding of item {item!r:.40}, target {target!r:.40}, score {score!r:.20}")
        if evidence := claims.evidence(row):
            found.append(Finding(item, _text(row, "text", MAX_TEXT_CHARS), float(score), target, evidence))
    return tuple(one for one in found if one.text)


def _memories(wire: Mapping[str, Any], claims: _Claims) -> list[SuggestedMemory]:
    found = list[SuggestedMemory]()
    for row in _rows(wire, "memories"):
        if row.get("type") not in MEMORY_TYPES:
            raise _wrong(f"the type {row.get('type')!r:.40} of a memory")
        if evidence := claims.evidence(row):
            found.append(SuggestedMemory(row["type"], _text(row, "text", MAX_TEXT_CHARS), evidence))
    return [one for one in found if one.text]


def _text(wire: Mapping[str, Any], name: str, longest: int) -> str:
    found = wire.get(name, "")
    if not isinstance(found, str) or len(found) > 4 * longest:
        raise _wrong(f"{name} is no text of at most {longest} characters")
    return (
        clean_text(shorten_line(to_plain_line(found), longest)) if name != "quote" else collapse_spaces(found)[:longest]
    )


def _wrong(what: str) -> Broken:
    return Broken(f"the answer is not as asked for: {what}", outcome="malformed")
