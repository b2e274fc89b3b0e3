"""Handle what a person typed to hardwon as a prompt: add a lesson, decide about a proposal, or remember something."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from dataclasses import dataclass

from hardwon import clock, paths, settings
from hardwon.actions import decisions
from hardwon.actions.approvals import open_decider
from hardwon.actions.lessons import add_lesson, propose_lesson
from hardwon.actions.memories import approve_memory
from hardwon.errors import UserError
from hardwon.lessons import compiled_brief
from hardwon.lessons.hook_replies import (
    REFUSED_DECISION,
    TypedDecision,
    append_to_hook_log,
    parse_decision,
    refuse_decision,
)
from hardwon.memories import memories
from hardwon.memories.typed_memory import TypedMemory, find_typed_memory
from hardwon.projects import find_project_path, is_below
from hardwon.search import brief
from hardwon.store import db
from hardwon.store.approvals import PROMPT
from hardwon.text import lesson_tags
from hardwon.text.characters import to_printable_line

MAX_LOG_LINE_CHARS = 500
_LETTERS = {"memory": "M:", "handoff": "H:"}
SPOOLED_DOUBT = "it waited in the spool, where nothing tells who wrote it"
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PromptAnswer:
    """One line for the person, and whether what they typed was accepted."""

    line: str
    is_accepted: bool
    is_logged: bool = False  # in the log that doctor reads


def handle_spooled_prompt(home: str, prompt: str, cwd: str) -> str:
    """Handle a prompt from the spool: lessons are proposed, and no decision is carried out."""
    answers = handle_prompt(home, prompt, cwd, SPOOLED_DOUBT)
    log_refused_answers(home, answers)
    return format_answers(answers)


def handle_prompt(home: str, prompt: str, cwd: str, doubt: str = "") -> list[PromptAnswer]:
    """Add every lesson in the prompt, do what it decides, or remember what it says; no answers if it is none of these.

    Lessons are in force only if they are all of the prompt. A block among other text may have been pasted from
    anywhere, so it is proposed. `doubt` is why the prompt is not known to be a person's: then lessons are proposed, and
    a decision is not carried out.
    """
    decision = parse_decision(prompt.split())
    if doubt and decision:
        log.warning("%s: %s", REFUSED_DECISION, doubt)
        refusal = refuse_decision(home, prompt, doubt, clock.now())
        return [PromptAnswer(refusal, is_accepted=False, is_logged=True)]
    if decision:
        return [_carry_out(home, decision, name) for name in decision.names]
    blocks = lesson_tags.find_lesson_blocks(prompt)
    if not blocks and lesson_tags.has_unclosed_block(prompt):
        return [PromptAnswer("the #lesson block is not closed; end it with #/lesson on a line of its own", False)]
    # With a doubt it may be an agent's own words, and what is remembered counts at once.
    if not blocks and not doubt and (memory := find_typed_memory(prompt)):
        return _remember_memory(home, cwd, memory)
    why_proposed = doubt or ("" if lesson_tags.has_only_blocks(prompt) else "the prompt holds more than the lesson")
    return [_learn_block(home, cwd, block, why_proposed) for block in blocks]


def _remember_memory(home: str, cwd: str, memory: TypedMemory) -> list[PromptAnswer]:
    """Approve what a person typed to be remembered: typing it is the approval."""
    values, project = settings.load_settings(home), find_project_path(cwd)
    if not values["rememberInTurn"] or is_below(cwd, values["denyProjects"]):
        return []
    try:
        with db.open(home) as connection:
            decider = open_decider(home, connection, PROMPT)
            proposed = memories.propose(
                connection, home, memory.type, memory.text, project=project, source="person", now=decider.now
            )
            approved, path = approve_memory(decider, proposed)
            compiled_brief.delete_all(home)  # a memory of a person counts in every project
            brief.compile_or_reuse(connection, home, approved.project, values)
    except UserError as refusal:
        return [PromptAnswer(f"not remembered: {refusal.say}", True)]
    except OSError as error:
        return [PromptAnswer(f"NOT remembered: {error}", False)]
    quote = "" if memory.is_whole_prompt else f' "{to_printable_line(memory.text, 100)}"'
    path_note = "" if paths.is_inside(home, path) else f", {os.path.relpath(path, project)}"
    undo = f"hardwon undo M{approved.id}"
    return [PromptAnswer(f"remembered{quote} as memory M{approved.id}{path_note} (undo: {undo})", True)]


def format_answers(answers: Iterable[PromptAnswer]) -> str:
    return "\n".join(f"hardwon: {answer.line}" for answer in answers)


def log_refused_answers(home: str, answers: Iterable[PromptAnswer]) -> None:
    """Log what was refused for `hardwon doctor`, since the person has not seen the answer."""
    lines = []
    for answer in answers:
        if not answer.is_accepted and not answer.is_logged:
            line = " ".join(answer.line.split())[:MAX_LOG_LINE_CHARS]
            log.warning("what a person typed was not taken: %s", line)
            lines.append(f"what you typed was not taken: {line}")
    if lines:
        append_to_hook_log(home, lines, clock.now())


def _carry_out(home: str, decision: TypedDecision, name: str) -> PromptAnswer:
    # `hardwon memory approve 3` and `hardwon accept M3` mean the same.
    letter = _LETTERS.get(decision.topic, "")
    full_name = letter + name.removeprefix(letter)
    try:
        with db.open(home) as connection:
            decider = open_decider(home, connection, PROMPT)
            if decision.verb == "undo":
                message = decisions.take_back_decision(decider, full_name)
            elif decision.verb in ("reject", "retire", "discard"):
                message = decisions.reject_proposal(decider, full_name)
            else:
                message = "; ".join(decisions.accept_proposal(decider, full_name).lines)
        return PromptAnswer(message, True)
    except UserError as refusal:
        return PromptAnswer(refusal.say, False)
    except OSError as error:
        return PromptAnswer(f"NOT done: {error}", False)


def _learn_block(home: str, cwd: str, block: lesson_tags.LessonBlock, why_proposed: str) -> PromptAnswer:
    if block.faults:
        return PromptAnswer(f"the lesson is refused: {'; '.join(block.faults)}", False)
    try:
        record = lesson_tags.build_block_record(block, project=find_project_path(cwd) if cwd else "")
        if why_proposed:
            lesson = propose_lesson(home, record)
        else:
            with db.open(home) as connection:
                lesson = add_lesson(open_decider(home, connection, PROMPT), record)
    except UserError as error:
        return PromptAnswer(error.say, False)
    if why_proposed:
        next_step = f"in force once you run: hardwon lessons restore {lesson.slug}"
        return PromptAnswer(f"proposed, since {why_proposed}: {lesson.summary}; {next_step}", True)
    state = "needs review" if lesson.needs_review else f"in force as a {lesson.delivery}"
    return PromptAnswer(f"learned, {state}: {lesson.summary} [{lesson.slug}]", True)
