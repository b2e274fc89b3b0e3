"""What the person typed to hardwon as a prompt: a lesson, a decision about what waits, or a question about handoffs and
memories. It is done, and answered."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from functools import partial

from hardwon import clock, paths, settings
from hardwon.actions import candidates
from hardwon.actions import handoffs as handoff_actions
from hardwon.actions import lessons as lesson_actions
from hardwon.actions import memories as memory_actions
from hardwon.errors import UserError
from hardwon.handoff import handoffs, memories, ratification
from hardwon.handoff.typed_memory import TypedMemory, find_typed_memory
from hardwon.lessons import compiled_brief
from hardwon.lessons.delivery import (
    READ_ONLY_VERBS,
    REFUSED_DECISION,
    VERBS_WITH_TEXT,
    VERBS_WITHOUT_NAMES,
    append_to_hook_log,
    parse_decision,
    refuse_decision,
)
from hardwon.projects import find_project_path, is_below
from hardwon.search import brief
from hardwon.store import db, reflections
from hardwon.store import memories as kept
from hardwon.store.approvals import PROMPT
from hardwon.text import lesson_tags
from hardwon.text.printable import make_printable, to_printable_line
from hardwon.types import frozen

MAX_LOG_LINE_CHARS = 500
SPOOLED_DOUBT = "it waited in the spool, where nothing tells who wrote it"
MAX_PAGE_CHARS, MAX_LISTED = 6_000, 20
log = logging.getLogger(__name__)


@frozen
class PromptAnswer:
    """One line for the person, and whether what they typed was taken."""

    line: str
    is_accepted: bool
    is_logged: bool = False  # in the log that doctor reads


def handle_spooled_prompt(home: str, prompt: str, cwd: str) -> str:
    """Take in what was spooled: lessons are proposed, and no decision is carried out."""
    answers = handle_prompt(home, prompt, cwd, SPOOLED_DOUBT)
    log_refused_answers(home, answers)
    return format_answers(answers)


def handle_prompt(home: str, prompt: str, cwd: str, doubt: str = "") -> list[PromptAnswer]:
    """Add every lesson in the prompt, do what it decides, or remember what it says; nothing to say if it is neither.

    Lessons are in force only if they are all of the prompt. A block among other text may have been pasted from
    anywhere, so it is proposed. `doubt` is why the prompt is not known to be a person's: then lessons are proposed, and
    a decision is not carried out.
    """
    decision = parse_decision(prompt.split())
    if doubt and decision and decision[1] not in READ_ONLY_VERBS:
        log.warning("%s: %s", REFUSED_DECISION, doubt)
        return [PromptAnswer(refuse_decision(home, prompt, doubt, clock.now()), False, is_logged=True)]
    if decision:
        subject, verb, names = decision
        if verb in VERBS_WITHOUT_NAMES or verb in VERBS_WITH_TEXT:
            names = [prompt.partition(verb)[2].strip()]  # a text as it was typed
        return [
            _run_decision(home, partial(_DECISION_HANDLERS[subject], cwd=cwd, verb=verb, name=name)) for name in names
        ]
    blocks = lesson_tags.find_lesson_blocks(prompt)
    if not blocks and lesson_tags.has_unclosed_block(prompt):
        return [PromptAnswer("the #lesson block is not closed; end it with #/lesson on a line of its own", False)]
    if not blocks and not doubt and (memory := find_typed_memory(prompt)):
        return _remember_memory(home, cwd, memory)
    why_proposed = doubt or ("" if lesson_tags.has_only_blocks(prompt) else "the prompt holds more than the lesson")
    return [_learn_block(home, cwd, block, why_proposed) for block in blocks]


def _remember_memory(home: str, cwd: str, memory: TypedMemory) -> list[PromptAnswer]:
    """Approve what a person typed to be remembered: typing it is the approval."""
    values, project = settings.resolve_settings(settings.read_config(home)), find_project_path(cwd)
    if not values["rememberInTurn"] or is_below(cwd, values["denyProjects"]):
        return []
    now = clock.now()
    try:
        with closing(db.connect(home)) as connection:
            proposed = memories.propose(
                connection, home, memory.type, memory.text, project=project, source="person", now=now
            )
            approved, path = memory_actions.approve_memory(connection, home, proposed, PROMPT, now)
            compiled_brief.delete_all(home)
            brief.compile_or_reuse(connection, home, approved.project, values)
    except UserError as refusal:
        return [PromptAnswer(f"not remembered: {refusal.say}", True)]
    except OSError as error:
        return [PromptAnswer(f"NOT remembered: {error}", False)]
    quote = "" if memory.is_whole_prompt else f' "{to_printable_line(memory.text, 100)}"'
    path_note = "" if paths.is_inside(home, path) else f", {os.path.relpath(path, project)}"
    return [
        PromptAnswer(
            f"remembered{quote} as memory {approved.id}{path_note} (undo: hardwon memory retire {approved.id})", True
        )
    ]


def format_answers(answers: Iterable[PromptAnswer]) -> str:
    return "\n".join(f"hardwon: {answer.line}" for answer in answers)


def log_refused_answers(home: str, answers: Iterable[PromptAnswer]) -> None:
    """Put down what was not taken where `hardwon doctor` shows it, since the person has not seen the answer."""
    lines = [
        " ".join(answer.line.split())[:MAX_LOG_LINE_CHARS]
        for answer in answers
        if not answer.is_accepted and not answer.is_logged
    ]
    for line in lines:
        log.warning("what a person typed was not taken: %s", line)
    if lines:
        append_to_hook_log(home, [f"what you typed was not taken: {line}" for line in lines], clock.now())


def _run_decision(home: str, decide: Callable[[db.Connection, str], str]) -> PromptAnswer:
    try:
        with closing(db.connect(home)) as connection:
            return PromptAnswer(decide(connection, home), True)
    except UserError as refusal:
        return PromptAnswer(refusal.say, False)
    except OSError as error:
        return PromptAnswer(f"NOT done: {error}", False)


def _decide_lesson(connection: db.Connection, home: str, cwd: str, verb: str, name: str) -> str:
    proposal = candidates.find_candidate(home, connection, name)
    if verb == "reject":
        candidates.reject(home, connection, proposal)
        return f"rejected: {proposal.record['summary']} [{proposal.slug}]"
    lesson = lesson_actions.accept_candidate(home, connection, proposal, {}, PROMPT)
    return f"in force as a {lesson.delivery}: {lesson.summary} [{lesson.slug}]"


def _decide_handoff(connection: db.Connection, home: str, cwd: str, verb: str, name: str) -> str:
    if verb in VERBS_WITHOUT_NAMES:
        return _describe_handoffs(connection, home, find_project_path(cwd), verb)
    now, values = clock.now(), settings.resolve_settings(settings.read_config(home))
    if verb == "write":
        handoff = handoff_actions.write_handoff(connection, home, name, cwd, PROMPT, now=now)
        messages = [f"written: handoff {handoff.id}, {handoff.draft}"]
    else:
        handoff = handoffs.find_handoff(connection, name)
        if verb == "amend":
            raise UserError(
                f"it takes an editor: edit {handoff.draft}, or in a terminal: hardwon handoff amend {handoff.id}"
            )
        if verb == "show":
            page = handoffs.read_page(handoff)
            return (
                f"handoff {handoff.id}, {handoff.status}: "
                f"{handoff.draft}\n{_format_page(page.text if page else 'its file is gone')}"
            )
        if verb == "discard":
            ratification.discard(connection, handoff, now)
            messages = [f"discarded: handoff {handoff.id}, {handoff.draft} is deleted"]
        else:
            should_commit = values["handoffCommit"]
            result = handoff_actions.ratify_handoff(connection, home, handoff, PROMPT, now, should_commit=should_commit)
            messages = ratification.describe_result(result)
    compiled_brief.delete_all(home)
    brief.compile_or_reuse(connection, home, handoff.project, values)
    return "; ".join(messages)


def _describe_handoffs(connection: db.Connection, home: str, project: str, verb: str) -> str:
    if verb == "list":
        handoff_rows = reflections.list_reflections(
            connection, reflections.DRAFT, reflections.RATIFIED, project=project
        )
        lines = [
            f"{handoff.id}, {handoff.status}: {to_printable_line(_read_topic(handoff), 90)}, {handoff.draft}"
            for handoff in handoff_rows[:MAX_LISTED]
        ]
        return _format_list("the handoffs here", lines, len(handoff_rows)) if lines else "no handoffs here yet"
    draft, page = handoffs.find_waiting_draft(connection, project), handoffs.find_latest_page(connection, home, project)
    parts = [f"{handoffs.build_banner(draft)} (hardwon handoff show {draft.id})"] if draft else []
    parts += [f"handoff {page.reflection.id}: {page.topic}", *handoffs.get_resume_lines(page)] if page else []
    return "\n".join(parts) or "no session here was handed off yet"


def _read_topic(handoff: reflections.Reflection) -> str:
    page = handoffs.read_page(handoff)
    return page.topic if page else handoff.topic


def _decide_memory(connection: db.Connection, home: str, cwd: str, verb: str, name: str) -> str:
    if verb in VERBS_WITHOUT_NAMES:
        return _describe_memories(connection, home, find_project_path(cwd), verb)
    now, (first, *rest) = clock.now(), name.split(None, 1)
    text = "".join(rest)
    if verb == "add":
        memory = memories.propose(
            connection, home, first, text, project=find_project_path(cwd), source="person", now=now
        )
    else:
        memory = memories.find_memory(connection, first)
    required_status = {"reject": "candidate", "retire": "active"}.get(verb, memory.status)
    if memory.status != required_status:
        raise UserError(f"memory {memory.id} is {memory.status}, not {required_status}")
    if verb == "show":
        page = memories.read_page(home, memory)
        origin = ", ".join((memory.source, *memory.evidence))
        return (
            f"memory {memory.id}, {memory.type}, {memory.status}, from "
            f"{origin}\n{_format_page(page.text if page else memory.text)}"
        )
    if verb == "edit" and not text:
        raise UserError(f"say it in other words: hardwon memory edit {memory.id} TEXT; a terminal opens an editor")
    if verb == "edit":
        message = f"edited: memory {memory_actions.reword_memory(connection, home, memory, text, PROMPT, now).id}"
    elif verb in ("add", "approve"):
        _, path = memory_actions.approve_memory(connection, home, memory, PROMPT, now)
        message = f"approved as memory {memory.id}: {path}"
    else:
        changed = memory_actions.reject_or_retire_memory(connection, home, memory, now)
        message = f"{changed.status}: memory {memory.id}, {to_printable_line(memory.text, 100)}"
    compiled_brief.delete_all(home)
    brief.compile_or_reuse(connection, home, memory.project, settings.resolve_settings(settings.read_config(home)))
    return message


def _describe_memories(connection: db.Connection, home: str, project: str, verb: str) -> str:
    if verb == "check":
        faults = [
            f"{name}: {fault}; {fix}" for name, fault, fix in memories.find_memory_faults(connection, home, project)
        ]
        return _format_list("what is wrong", faults, len(faults)) if faults else "every memory is as it should be"
    memory_rows = kept.list_memories(connection, "candidate", "active", project=project)
    lines = [
        f"{memory.id}, {memory.type}, {memory.status}: {to_printable_line(memory.text, 120)}"
        for memory in memory_rows[-MAX_LISTED:]
    ]
    return _format_list("the memories here", lines, len(memory_rows)) if lines else "no memories here yet"


def _format_list(title: str, lines: Sequence[str], total: int) -> str:
    omitted = [f"{total - len(lines)} more, in a terminal or the viewer"] if total > len(lines) else []
    return "\n  ".join((f"{title}:", *map(make_printable, lines), *omitted))


def _format_page(text: str) -> str:
    return make_printable(text if len(text) <= MAX_PAGE_CHARS else f"{text[:MAX_PAGE_CHARS]}…")


_DECISION_HANDLERS = {"": _decide_lesson, "handoff": _decide_handoff, "memory": _decide_memory}


def _learn_block(home: str, cwd: str, block: lesson_tags.LessonBlock, why_proposed: str) -> PromptAnswer:
    if block.faults:
        return PromptAnswer(f"the lesson is refused: {'; '.join(block.faults)}", False)
    try:
        record = lesson_tags.build_block_record(block, project=find_project_path(cwd) if cwd else "")
        if why_proposed:
            lesson = lesson_actions.propose_lesson(home, record)
        else:
            with closing(db.connect(home)) as connection:
                lesson = lesson_actions.add_lesson(home, connection, record, PROMPT)
    except UserError as error:
        return PromptAnswer(error.say, False)
    if why_proposed:
        next_step = f"in force once you run: hardwon lessons restore {lesson.slug}"
        return PromptAnswer(f"proposed, since {why_proposed}: {lesson.summary}; {next_step}", True)
    state = "needs review" if lesson.needs_review else f"in force as a {lesson.delivery}"
    return PromptAnswer(f"learned, {state}: {lesson.summary} [{lesson.slug}]", True)
