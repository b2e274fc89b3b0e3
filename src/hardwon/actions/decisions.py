"""Take decisions by name, such as `hardwon accept 1`, and take them back: L3 is a lesson, M3 a memory, H3 a handoff.

A person types them at a terminal, or to an agent as a prompt, which may also add a lesson or a memory.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hardwon import clock, paths, settings
from hardwon.actions import approvals, lessons
from hardwon.actions.approvals import Decider, open_decider
from hardwon.actions.handoffs import ratify_handoff
from hardwon.actions.lessons import Confirm, add_lesson, propose_lesson
from hardwon.actions.memories import approve_memory, reject_or_retire_memory
from hardwon.errors import UserError
from hardwon.handoff import handoffs, ratification
from hardwon.lessons import compiled_brief, lessons_file, manifest, review_queue
from hardwon.lessons.lessons_file import get_trusted_path, read_trusted_hashes
from hardwon.lessons.typed_prompts import REFUSED_DECISION, TypedDecision, parse_decision, refuse_decision
from hardwon.memories import memories
from hardwon.memories.memory_files import get_memory_path
from hardwon.memories.typed_memory import TypedMemory, find_typed_memory
from hardwon.projects import find_project_path, is_below
from hardwon.search import brief
from hardwon.store import db
from hardwon.store.approvals import HANDOFF, LESSON, MEMORY, PROMPT, TRUST, find_live, list_approvals
from hardwon.store.memories import get_memory
from hardwon.store.reflections import DRAFT
from hardwon.text import lesson_tags
from hardwon.text.characters import to_printable_line
from hardwon.types import Lesson

_MAX_LOOKBACK = 200  # approvals looked through for one that is not undone yet
_LETTERS = {"L": LESSON, "M": MEMORY, "H": HANDOFF}
_LETTERED_NAME = re.compile(r"([LMHlmh])(?::|(?=\d+$))(.+)")
_MAX_LOG_LINE_CHARS = 500
_TOPIC_PREFIXES = {"memory": "M:", "handoff": "H:"}
_SPOOLED_DOUBT = "it waited in the spool, where nothing tells who wrote it"
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Acceptance:
    """What became of an accepted proposal, in a line each; with the lesson, if it is one."""

    lines: tuple[str, ...]
    lesson: Lesson | None = None


def _parse_proposal_name(name: str) -> tuple[str, str]:
    """Return the kind that a name means and the name without its letter; without a letter it means a lesson."""
    if match := _LETTERED_NAME.fullmatch(name):
        return _LETTERS[match[1].upper()], match[2]
    return LESSON, name


def accept_proposal(
    decider: Decider,
    name: str,
    *,
    changes: Mapping[str, Any] | None = None,
    confirm: Confirm = lessons.refuse_to_confirm,
) -> Acceptance:
    """Put a proposal in force; `changes` are to a lesson's fields."""
    home = decider.home
    connection = decider.connection
    kind, bare_name = _parse_proposal_name(name)
    if changes and kind != LESSON:
        raise UserError(f"{name} is not a lesson, and has none of these fields", f"hardwon accept {name}")
    if kind == MEMORY:
        memory, file_path = approve_memory(decider, memories.find_memory(connection, bare_name))
        brief.renew_briefs(decider.connection, decider.home, memory.project)
        return Acceptance((f"approved as memory M{memory.id}: {file_path}",))
    if kind == HANDOFF:
        handoff = handoffs.find_handoff(connection, bare_name)
        should_commit = bool(settings.load_settings(home)["handoffCommit"])
        result = ratify_handoff(decider, handoff, should_commit=should_commit)
        brief.renew_briefs(decider.connection, decider.home, handoff.project)
        return Acceptance(tuple(ratification.describe_result(result)))
    lesson = _find_lesson(decider, bare_name)
    # One that is in force already, or is to be changed, is refused below with the reason.
    if lesson is not None and not changes and not manifest.is_marked_active(lesson):
        lesson = lessons.restore_lesson(decider, lesson, confirm=confirm)
    else:
        candidate = lessons.find_candidate(home, connection, bare_name)
        lesson = lessons.accept_candidate(decider, candidate, changes or {}, confirm=confirm)
    return Acceptance((f"in force as a {lesson.delivery}: {lesson.summary} [{lesson.slug}]",), lesson)


def _find_lesson(decider: Decider, slug: str) -> Lesson | None:
    """Return the lesson of this name if it was accepted before or never waited in the queue, such as a retired one."""
    accepted_id = ""
    candidate = review_queue.find_in_queue(decider.home, decider.connection, slug)
    if candidate is not None:
        if candidate.status != "active":
            return None  # the proposal is meant
        accepted_id = candidate.lesson
    for lesson in lessons_file.read_own(decider.home).lessons:
        if lesson.slug == slug or lesson.id == accepted_id:
            return lesson
    return None


def reject_proposal(decider: Decider, name: str) -> str:
    """Reject a proposal, or retire what is in force; return what became of it."""
    kind, bare_name = _parse_proposal_name(name)
    if kind == MEMORY:
        memory = memories.find_memory(decider.connection, bare_name)
        if memory.status not in ("candidate", "active"):
            raise UserError(f"memory M{memory.id} is {memory.status} already", f"hardwon memory show M{memory.id}")
        changed = reject_or_retire_memory(decider, memory)
        brief.renew_briefs(decider.connection, decider.home, memory.project)
        return f"{changed.status}: memory M{memory.id}, {to_printable_line(memory.text, 100)}"
    if kind == HANDOFF:
        handoff = handoffs.find_handoff(decider.connection, bare_name)
        if handoff.status != DRAFT:
            raise UserError(f"handoff H{handoff.id} is {handoff.status}, not a draft", f"hardwon undo H{handoff.id}")
        ratification.discard(decider.connection, handoff, decider.now)
        brief.renew_briefs(decider.connection, decider.home, handoff.project)
        return f"discarded: handoff H{handoff.id}, {handoff.draft} is deleted"
    # A number means the proposal: one that was accepted meanwhile is not retired by a late no.
    lesson = None if bare_name.isdigit() else _find_lesson(decider, bare_name)
    if lesson is not None:
        lessons.retire_lesson(decider, lesson)
        return f"retired: {lesson.slug}"
    candidate = lessons.find_candidate(decider.home, decider.connection, bare_name)
    lessons.reject_candidate(decider, candidate)
    return f"rejected: {candidate.record['summary']} [{candidate.slug}]"


def take_back_decision(decider: Decider, name: str = "") -> str:
    """Undo the newest approval, or the decision about the named proposal; a bare number is an approval's."""
    home = decider.home
    connection = decider.connection
    if not name:
        for approval in list_approvals(connection, _MAX_LOOKBACK):  # newest first
            if approval.undone_at is None:
                return _undo_approval(decider, approval.id)
        raise UserError("there is nothing to undo")
    if name.isascii() and name.isdigit():
        return _undo_approval(decider, int(name))
    kind, bare_name = _parse_proposal_name(name)
    if kind == LESSON:
        candidate = review_queue.find_in_queue(home, connection, bare_name)
        if candidate is not None and candidate.status in ("active", "rejected"):
            lessons.undo_decision(decider, candidate.id)
            return f"proposed again: L{candidate.number}, {candidate.record['summary']}"
        lesson = _find_lesson(decider, bare_name)
        subject = lesson.id if lesson else ""
    elif kind == MEMORY:
        subject = str(memories.find_memory(connection, bare_name).id)
    else:
        subject = str(handoffs.find_handoff(connection, bare_name).id)
    live_approval = find_live(connection, kind, subject)
    if live_approval is None:
        raise UserError(f"{name} is not in force, so there is nothing to undo", "hardwon approvals")
    return _undo_approval(decider, live_approval.id)


def _undo_approval(decider: Decider, number: int) -> str:
    """Undo an approval and return what became of its subject; UserError if there is nothing to undo."""
    approval = approvals.find_approval(decider.connection, number)
    newest = find_live(decider.connection, approval.kind, approval.subject)
    # Undoing an older wording would change nothing that is in force.
    if newest is not None and newest.id != approval.id:
        raise UserError(f"approval {number} was replaced by approval {newest.id}", f"hardwon undo {newest.id}")
    if approval.kind == LESSON:
        return lessons.undo_lesson_approval(decider, approval)
    if approval.kind == MEMORY:
        message = f"retired: memory M{approval.subject}"
        memory = get_memory(decider.connection, int(approval.subject))
        if memory is not None and memory.status == "active":
            reject_or_retire_memory(decider, memory)
        if memory is not None and memory.file:
            message += f"; its file stays: {get_memory_path(decider.home, memory)}"
    elif approval.kind == TRUST:
        # The file of trusted hashes may have been edited by hand since.
        if approval.subject in read_trusted_hashes(decider.home):
            approvals.revoke_trust(decider, approval.subject)
        message = f"no longer trusted: {get_trusted_path(approval.subject)}"
    else:
        undo_command = f"hardwon reflect --undo {approval.subject}"
        message = f"no longer told: handoff H{approval.subject}; its file stays (take that back, too: {undo_command})"
    # The subject itself may be gone, in which case nothing above has withdrawn its approval.
    approvals.withdraw(decider, approval.kind, approval.subject)
    compiled_brief.delete_all(decider.home)
    return message


@dataclass(frozen=True, slots=True)
class PromptAnswer:
    """One line for the person, and whether what they typed was accepted."""

    line: str
    is_accepted: bool
    is_logged: bool = False  # in the log that doctor reads


def handle_spooled_prompt(home: str, prompt: str, cwd: str) -> str:
    """Handle a prompt from the spool, and return the lines about it for the person.

    Nothing tells who wrote a file in the spool, so lessons are only proposed, and a decision is logged as refused.
    """
    answers = handle_prompt(home, prompt, cwd, _SPOOLED_DOUBT)
    log_refused_answers(home, answers)
    return format_answers(answers)


def handle_prompt(home: str, prompt: str, cwd: str, doubt: str = "") -> list[PromptAnswer]:
    """Add every lesson in the prompt, do what it decides, or remember what it says; no answers if it is none of these.

    Lessons are in force only if they are all of the prompt. A block among other text may have been pasted from
    anywhere, so it is proposed. `doubt` is why the prompt is not known to be a person's (`agents.prompt_origin` finds
    out): then lessons are proposed, and a decision is not carried out.
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
    why_proposed = doubt
    if not doubt and not lesson_tags.has_only_blocks(prompt):
        why_proposed = "the prompt holds more than the lesson"
    return [_learn_block(home, cwd, block, why_proposed) for block in blocks]


def _remember_memory(home: str, cwd: str, memory: TypedMemory) -> list[PromptAnswer]:
    """Approve what a person typed to be remembered: typing it is the approval.

    No answers where that is turned off, or where nothing may be recorded.
    """
    values = settings.load_settings(home)
    project = find_project_path(cwd)
    if not values["rememberInTurn"] or is_below(cwd, values["denyProjects"]):
        return []
    try:
        with db.open(home) as connection:
            decider = open_decider(home, connection, PROMPT)
            proposed = memories.propose(
                connection, home, memory.type, memory.text, project=project, source="person", now=decider.now
            )
            approved, path = approve_memory(decider, proposed)
            brief.renew_briefs(decider.connection, decider.home, approved.project)
    except UserError as refusal:
        return [PromptAnswer(f"not remembered: {refusal.message}", True)]  # the agent still gets the prompt
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
            line = " ".join(answer.line.split())[:_MAX_LOG_LINE_CHARS]
            log.warning("what a person typed was not taken: %s", line)
            lines.append(f"what you typed was not taken: {line}")
    if lines:
        paths.append_to_hook_log(home, lines, clock.now())


def _carry_out(home: str, decision: TypedDecision, name: str) -> PromptAnswer:
    """Do what a person typed about one name; a refusal becomes the answer."""
    # `hardwon memory approve 3` and `hardwon accept M3` mean the same.
    letter = _TOPIC_PREFIXES.get(decision.topic, "")
    full_name = letter + name.removeprefix(letter)
    try:
        with db.open(home) as connection:
            decider = open_decider(home, connection, PROMPT)
            if decision.verb == "undo":
                message = take_back_decision(decider, full_name)
            elif decision.verb in ("reject", "retire", "discard"):
                message = reject_proposal(decider, full_name)
            else:
                message = "; ".join(accept_proposal(decider, full_name).lines)
        return PromptAnswer(message, True)
    except UserError as refusal:
        return PromptAnswer(refusal.message, False)
    except OSError as error:
        return PromptAnswer(f"NOT done: {error}", False)


def _learn_block(home: str, cwd: str, block: lesson_tags.LessonBlock, why_proposed: str) -> PromptAnswer:
    """Put a typed lesson in force, or only propose it if there is a reason to."""
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
        return PromptAnswer(error.message, False)
    if why_proposed:
        next_step = f"in force once you run: hardwon lessons restore {lesson.slug}"
        return PromptAnswer(f"proposed, since {why_proposed}: {lesson.summary}; {next_step}", True)
    state = "needs review" if lesson.needs_review else f"in force as a {lesson.delivery}"
    return PromptAnswer(f"learned, {state}: {lesson.summary} [{lesson.slug}]", True)
