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
    said = handle_prompt(home, prompt, cwd, SPOOLED_DOUBT)
    log_refused_answers(home, said)
    return format_answers(said)


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
        about, verb, names = decision
        if verb in VERBS_WITHOUT_NAMES or verb in VERBS_WITH_TEXT:
            names = [prompt.partition(verb)[2].strip()]  # a text as it was typed
        return [_decided(home, partial(_DECIDE[about], cwd=cwd, verb=verb, name=name)) for name in names]
    found = lesson_tags.find_lesson_blocks(prompt)
    if not found and lesson_tags.has_unclosed_block(prompt):
        return [PromptAnswer("the #lesson block is not closed; end it with #/lesson on a line of its own", False)]
    if not found and not doubt and (memory := find_typed_memory(prompt)):
        return _remember(home, cwd, memory)
    why_proposed = doubt or ("" if lesson_tags.has_only_blocks(prompt) else "the prompt holds more than the lesson")
    return [_learned(home, cwd, tag, why_proposed) for tag in found]


def _remember(home: str, cwd: str, memory: TypedMemory) -> list[PromptAnswer]:
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
    except UserError as refused:
        return [PromptAnswer(f"not remembered: {refused.say}", True)]
    except OSError as wrong:
        return [PromptAnswer(f"NOT remembered: {wrong}", False)]
    quoted = "" if memory.is_whole_prompt else f' "{to_printable_line(memory.text, 100)}"'
    place = "" if paths.is_inside(home, path) else f", {os.path.relpath(path, project)}"
    return [
        PromptAnswer(
            f"remembered{quoted} as memory {approved.id}{place} (undo: hardwon memory retire {approved.id})", True
        )
    ]


def format_answers(answers: Iterable[PromptAnswer]) -> str:
    return "\n".join(f"hardwon: {one.line}" for one in answers)


def log_refused_answers(home: str, answers: Iterable[PromptAnswer]) -> None:
    """Put down what was not taken where `hardwon doctor` shows it, since the person has not seen the answer."""
    lines = [
        " ".join(one.line.split())[:MAX_LOG_LINE_CHARS] for one in answers if not one.is_accepted and not one.is_logged
    ]
    for line in lines:
        log.warning("what a person typed was not taken: %s", line)
    if lines:
        append_to_hook_log(home, [f"what you typed was not taken: {line}" for line in lines], clock.now())


def _decided(home: str, decide: Callable[[db.Connection, str], str]) -> PromptAnswer:
    try:
        with closing(db.connect(home)) as connection:
            return PromptAnswer(decide(connection, home), True)
    except UserError as refused:
        return PromptAnswer(refused.say, False)
    except OSError as wrong:
        return PromptAnswer(f"NOT done: {wrong}", False)


def _lesson(connection: db.Connection, home: str, cwd: str, verb: str, name: str) -> str:
    proposal = candidates.find_candidate(home, connection, name)
    if verb == "reject":
        candidates.reject(home, connection, proposal)
        return f"rejected: {proposal.record['summary']} [{proposal.slug}]"
    lesson = lesson_actions.accept_candidate(home, connection, proposal, {}, PROMPT)
    return f"in force as a {lesson.delivery}: {lesson.summary} [{lesson.slug}]"


def _handoff(connection: db.Connection, home: str, cwd: str, verb: str, name: str) -> str:
    if verb in VERBS_WITHOUT_NAMES:
        return _handoffs(connection, home, find_project_path(cwd), verb)
    now, values = clock.now(), settings.resolve_settings(settings.read_config(home))
    if verb == "write":
        one = handoff_actions.write_handoff(connection, home, name, cwd, PROMPT, now=now)
        said = [f"written: handoff {one.id}, {one.draft}"]
    else:
        one = handoffs.find_handoff(connection, name)
        if verb == "amend":
            raise UserError(f"it takes an editor: edit {one.draft}, or in a terminal: hardwon handoff amend {one.id}")
        if verb == "show":
            page = handoffs.read_page(one)
            return f"handoff {one.id}, {one.status}: {one.draft}\n{_page(page.text if page else 'its file is gone')}"
        if verb == "discard":
            ratification.discard(connection, one, now)
            said = [f"discarded: handoff {one.id}, {one.draft} is deleted"]
        else:
            commits = values["handoffCommit"]
            done = handoff_actions.ratify_handoff(connection, home, one, PROMPT, now, should_commit=commits)
            said = ratification.describe_result(done)
    compiled_brief.delete_all(home)
    brief.compile_or_reuse(connection, home, one.project, values)
    return "; ".join(said)


def _handoffs(connection: db.Connection, home: str, project: str, verb: str) -> str:
    if verb == "list":
        found = reflections.list_reflections(connection, reflections.DRAFT, reflections.RATIFIED, project=project)
        lines = [
            f"{one.id}, {one.status}: {to_printable_line(_topic(one), 90)}, {one.draft}" for one in found[:MAX_LISTED]
        ]
        return _lines("the handoffs here", lines, len(found)) if lines else "no handoffs here yet"
    draft, page = handoffs.find_waiting_draft(connection, project), handoffs.find_latest_page(connection, home, project)
    said = [f"{handoffs.build_banner(draft)} (hardwon handoff show {draft.id})"] if draft else []
    said += [f"handoff {page.reflection.id}: {page.topic}", *handoffs.get_resume_lines(page)] if page else []
    return "\n".join(said) or "no session here was handed off yet"


def _topic(one: reflections.Reflection) -> str:
    page = handoffs.read_page(one)
    return page.topic if page else one.topic


def _memory(connection: db.Connection, home: str, cwd: str, verb: str, name: str) -> str:
    if verb in VERBS_WITHOUT_NAMES:
        return _memories(connection, home, find_project_path(cwd), verb)
    now, (first, *rest) = clock.now(), name.split(None, 1)
    text = "".join(rest)
    if verb == "add":
        one = memories.propose(connection, home, first, text, project=find_project_path(cwd), source="person", now=now)
    else:
        one = memories.find_memory(connection, first)
    wanted = {"reject": "candidate", "retire": "active"}.get(verb, one.status)
    if one.status != wanted:
        raise UserError(f"memory {one.id} is {one.status}, not {wanted}")
    if verb == "show":
        page = memories.read_page(home, one)
        whence = ", ".join((one.source, *one.evidence))
        return f"memory {one.id}, {one.type}, {one.status}, from {whence}\n{_page(page.text if page else one.text)}"
    if verb == "edit" and not text:
        raise UserError(f"say it in other words: hardwon memory edit {one.id} TEXT; a terminal opens an editor")
    if verb == "edit":
        said = f"edited: memory {memory_actions.reword_memory(connection, home, one, text, PROMPT, now).id}"
    elif verb in ("add", "approve"):
        _, path = memory_actions.approve_memory(connection, home, one, PROMPT, now)
        said = f"approved as memory {one.id}: {path}"
    else:
        after = memory_actions.reject_or_retire_memory(connection, home, one, now)
        said = f"{after.status}: memory {one.id}, {to_printable_line(one.text, 100)}"
    compiled_brief.delete_all(home)
    brief.compile_or_reuse(connection, home, one.project, settings.resolve_settings(settings.read_config(home)))
    return said


def _memories(connection: db.Connection, home: str, project: str, verb: str) -> str:
    if verb == "check":
        faults = [
            f"{name}: {wrong}; {fix}" for name, wrong, fix in memories.find_memory_faults(connection, home, project)
        ]
        return _lines("what is wrong", faults, len(faults)) if faults else "every memory is as it should be"
    found = kept.list_memories(connection, "candidate", "active", project=project)
    lines = [f"{one.id}, {one.type}, {one.status}: {to_printable_line(one.text, 120)}" for one in found[-MAX_LISTED:]]
    return _lines("the memories here", lines, len(found)) if lines else "no memories here yet"


def _lines(what: str, lines: Sequence[str], found: int) -> str:
    left = [f"{found - len(lines)} more, in a terminal or the viewer"] if found > len(lines) else []
    return "\n  ".join((f"{what}:", *map(make_printable, lines), *left))


def _page(text: str) -> str:
    return make_printable(text if len(text) <= MAX_PAGE_CHARS else f"{text[:MAX_PAGE_CHARS]}…")


_DECIDE = {"": _lesson, "handoff": _handoff, "memory": _memory}


def _learned(home: str, cwd: str, tag: lesson_tags.LessonBlock, why_proposed: str) -> PromptAnswer:
    if tag.faults:
        return PromptAnswer(f"the lesson is refused: {'; '.join(tag.faults)}", False)
    try:
        record = lesson_tags.build_block_record(tag, project=find_project_path(cwd) if cwd else "")
        if why_proposed:
            lesson = lesson_actions.propose_lesson(home, record)
        else:
            with closing(db.connect(home)) as connection:
                lesson = lesson_actions.add_lesson(home, connection, record, PROMPT)
    except UserError as refused:
        return PromptAnswer(refused.say, False)
    if why_proposed:
        how = f"in force once you run: hardwon lessons restore {lesson.slug}"
        return PromptAnswer(f"proposed, since {why_proposed}: {lesson.summary}; {how}", True)
    state = "needs review" if lesson.needs_review else f"in force as a {lesson.delivery}"
    return PromptAnswer(f"learned, {state}: {lesson.summary} [{lesson.slug}]", True)
