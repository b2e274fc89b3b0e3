"""Let a model write the draft; a claim counts only if its quotes are in the lines that were sent.

The session is enclosed in markers made from a hash of its own text. No text can contain its own hash, so nothing in the
session can end the data and continue as instructions.
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
from hardwon.handoff import transcript_story
from hardwon.handoff.claim_check import build_session_record, find_contradictions
from hardwon.handoff.draft import (
    CONFIDENCE_NAMES,
    MAX_FINDINGS,
    Draft,
    drop_known_memories,
    render_draft,
)
from hardwon.handoff.findings import MENU
from hardwon.handoff.statements import MAX_TOPIC_CHARS, Statement
from hardwon.handoff.transcript_story import Story
from hardwon.privacy.cleaning import clean_text
from hardwon.privacy.truncation import trim_text
from hardwon.store.reflections import FINDING_TARGETS, Evidence, Finding, ReflectionContext, SuggestedMemory
from hardwon.store.runs import REFLECT
from hardwon.text.excerpts import collapse_spaces, shorten_line, to_plain_line
from hardwon.types import MEMORY_TYPES

MAX_TURNS = 40  # only the last turns are sent
MAX_SESSION_CHARS, MAX_DRAFT_CHARS = 60_000, 8_000  # limits for the session and for the plain draft
MAX_MESSAGE_CHARS, MAX_CALL_CHARS, MAX_RESULT_CHARS = 1_500, 600, 500  # limits for one entry
MAX_ANSWER_CHARS = 40_000
MAX_STATEMENTS, MAX_TEXT_CHARS = 8, 400
MIN_QUOTE_CHARS, MAX_QUOTE_CHARS, MAX_QUOTES = 5, 300, 3
_SECTIONS = ("summary", "decisions", "failed", "open", "resume")


def refine_draft(
    plain_draft: Draft, past: ReflectionContext, ask: AskModel, log: dict[str, Any], *, max_turns: int = MAX_TURNS
) -> Draft:
    """Ask a model to rewrite the draft; `log` gets question and answer. Failed if it cannot or may not."""
    entries = _select_entries(plain_draft.story, max_turns)
    session_text = "\n".join(entry for _, entry in entries)
    data = (
        f"what plain code noted:\n{trim_text(clean_text(render_draft(plain_draft)), MAX_DRAFT_CHARS)}\n\nthe "
        f"session:\n{session_text}"
    )
    mark = f"===== data {blake2b(data.encode('utf-8', 'replace'), digest_size=8).hexdigest()} ====="
    question = Question(build_instructions(), f"{mark}\n{data}\n{mark}\n", REFLECT, 4_000)
    log["question"] = question.prompt

    def read_answer(answer: Answer) -> Draft:
        log["answer"] = answer.text
        return _parse_answer(answer, plain_draft, past, entries)

    return ask(question, read_answer)


def build_instructions() -> str:
    template = files("hardwon.distil").joinpath("prompts", "reflect.md").read_text("utf-8")
    return template.replace("{{menu}}", "\n".join(f"- {item.name}: {item.help}" for item in MENU))


def _select_entries(story: Story, max_turns: int) -> list[tuple[Step, str]]:
    """Render the steps of the last turns for the model; if they are too long, keep the latest that fit."""
    starts = [index for index, step in enumerate(story.steps) if step.kind == "person"]
    first = starts[-max_turns] if len(starts) > max_turns else 0
    entries = [(step, entry) for step in story.steps[first:] if (entry := _render_entry(step))]
    remaining_chars = MAX_SESSION_CHARS
    selected = list[tuple[Step, str]]()
    for step, entry in reversed(entries):
        remaining_chars -= len(entry) + 1
        if remaining_chars < 0:
            break
        selected.append((step, entry))
    return selected[::-1]


def _render_entry(step: Step) -> str:
    """Return a step as the model reads it, after its line number; "" for a step that it does not need."""
    by = " of a sub-agent" if step.subagent_id else ""
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
    """Check claims against the lines that were sent, and count the accepted and rejected ones."""

    def __init__(self, story: Story, entries: Sequence[tuple[Step, str]]) -> None:
        self._story = story
        self._lines = dict[int, list[tuple[Step, str]]]()
        for step, entry in entries:
            self._lines.setdefault(step.line, []).append((step, collapse_spaces(entry)))
        self.verified_count = self.rejected_count = 0

    def check_evidence(self, claim: Mapping[str, Any]) -> tuple[Evidence, ...]:
        """Return the quotes of a claim as evidence; empty if any quote is not in its line."""
        raw_quotes = claim.get("evidence")
        if not isinstance(raw_quotes, list):
            raw_quotes = []
        quotes = [item for item in raw_quotes if isinstance(item, dict)][:MAX_QUOTES]
        sources = [self._locate_quote(quote) for quote in quotes]
        located_sources = tuple(source for source in sources if source)
        is_complete = bool(sources) and len(located_sources) == len(sources)
        self.verified_count += is_complete
        self.rejected_count += not is_complete
        return located_sources if is_complete else ()

    def _locate_quote(self, claim: Mapping[str, Any]) -> Evidence | None:
        """Return a claimed quote as evidence; None if it is too short, or not in the line as it was sent."""
        quote = _read_text(claim, "quote", MAX_QUOTE_CHARS)
        line = claim.get("line")
        if len(quote) < MIN_QUOTE_CHARS or not isinstance(line, int):
            return None
        steps = [step for step, entry in self._lines.get(line, ()) if quote in entry]
        sources = [transcript_story.quote_step(self._story, step, quote) for step in steps]
        return next((evidence for evidence in sources if evidence.quote in quote), None)


def _parse_answer(
    answer: Answer, plain_draft: Draft, past: ReflectionContext, entries: Sequence[tuple[Step, str]]
) -> Draft:
    """Return the plain draft with the model's text in it; `Broken` if the answer is malformed or mostly untrue."""
    wire = _parse_object(answer.text)
    claims = _Claims(plain_draft.story, entries)
    sections = {name: _read_statements(wire, name, claims) for name in _SECTIONS}
    findings = _read_findings(wire, claims)
    memories = _read_memories(wire, claims)
    # If most quotes are false, the rest of the answer is not trusted either.
    if claims.rejected_count > claims.verified_count:
        raise Broken(f"{claims.rejected_count} of its claims quote what is not there", outcome="untrue")
    if not sections["summary"] or not sections["resume"] or wire.get("confidence") not in CONFIDENCE_NAMES:
        raise _build_error("no summary, no resume or no confidence that holds")
    done_texts = [statement.text for name in ("summary", "decisions") for statement in sections[name]]
    other_texts = [statement.text for name in ("failed", "open", "resume") for statement in sections[name]]
    record = build_session_record(transcript_story.build_turns(plain_draft.story))
    return plain_draft._replace(
        contradictions=tuple(find_contradictions(record, done_texts, other_texts)),
        topic=shorten_line(_read_text(wire, "topic", 4 * MAX_TOPIC_CHARS), MAX_TOPIC_CHARS) or plain_draft.topic,
        workstream=_read_text(wire, "workstream", 80) or plain_draft.workstream,
        summary=sections["summary"],
        decisions=sections["decisions"],
        failed=sections["failed"],
        open_ends=sections["open"],
        resume=sections["resume"],
        confidence=wire["confidence"],
        because=_read_text(wire, "because", 200) or "as the model judges",
        findings=findings or plain_draft.findings,
        memories=tuple(drop_known_memories([*plain_draft.memories, *memories], [text for _, text in past.memories])),
        made_by=answer.model,
    )


def _parse_object(text: str) -> dict[str, Any]:
    if len(text) > MAX_ANSWER_CHARS:
        raise _build_error(f"{len(text):,} characters")
    # Models often put a code fence or a sentence around the JSON.
    body = text[text.find("{") : text.rfind("}") + 1]
    try:
        wire = json.loads(body)
    except (ValueError, RecursionError):
        raise _build_error("it is no JSON") from None
    if not isinstance(wire, dict):
        raise _build_error("it is no object")
    return wire


def _read_rows(wire: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    rows = wire.get(name, [])
    if not isinstance(rows, list) or len(rows) > MAX_STATEMENTS or not all(isinstance(row, dict) for row in rows):
        raise _build_error(f"{name} is no list of at most {MAX_STATEMENTS} objects")
    return rows


def _read_statements(wire: Mapping[str, Any], name: str, claims: _Claims) -> tuple[Statement, ...]:
    statements = [
        Statement(_read_text(row, "text", MAX_TEXT_CHARS), claims.check_evidence(row)) for row in _read_rows(wire, name)
    ]
    return tuple(statement for statement in statements if statement.text and statement.evidence)


def _read_findings(wire: Mapping[str, Any], claims: _Claims) -> tuple[Finding, ...]:
    """Return the model's findings; a malformed one is an error, one without evidence or text is left out."""
    item_names = {item.name for item in MENU}
    findings = list[Finding]()
    for row in _read_rows(wire, "findings")[:MAX_FINDINGS]:
        item = row.get("item")
        target = row.get("target")
        score = row.get("score")
        if (
            item not in item_names
            or target not in FINDING_TARGETS
            or not isinstance(score, int | float)
            or not 0 <= score <= 1
        ):
            raise _build_error(f"a finding of item {item!r:.40}, target {target!r:.40}, score {score!r:.20}")
        if evidence := claims.check_evidence(row):
            findings.append(Finding(item, _read_text(row, "text", MAX_TEXT_CHARS), float(score), target, evidence))
    return tuple(finding for finding in findings if finding.text)


def _read_memories(wire: Mapping[str, Any], claims: _Claims) -> list[SuggestedMemory]:
    """Return the model's memories; one of an unknown type is an error, one without evidence or text is left out."""
    memories = list[SuggestedMemory]()
    for row in _read_rows(wire, "memories"):
        if row.get("type") not in MEMORY_TYPES:
            raise _build_error(f"the type {row.get('type')!r:.40} of a memory")
        if evidence := claims.check_evidence(row):
            memories.append(SuggestedMemory(row["type"], _read_text(row, "text", MAX_TEXT_CHARS), evidence))
    return [memory for memory in memories if memory.text]


def _read_text(wire: Mapping[str, Any], name: str, max_chars: int) -> str:
    """Return a field as a clean line, cut at `max_chars`; a quote keeps its text, so that it can be found again.

    A text far above the limit is an error, because the model did not do as asked.
    """
    value = wire.get(name, "")
    if not isinstance(value, str) or len(value) > 4 * max_chars:
        raise _build_error(f"{name} is no text of at most {max_chars} characters")
    if name != "quote":
        return clean_text(shorten_line(to_plain_line(value), max_chars))
    return collapse_spaces(value)[:max_chars]


def _build_error(problem: str) -> Broken:
    return Broken(f"the answer is not as asked for: {problem}", outcome="malformed")
