"""What the person typed to hardwon as a prompt: a lesson, a decision about what waits, or a question about handoffs and
memories. It is done, and answered."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from functools import partial

from hardwon import clock, paths, settings
from hardwon.core import tags
from hardwon.core.printable import in_line, printable
from hardwon.errors import UserError
from hardwon.projects import home_of
from hardwon.recall import admit, brief, compiled, handoffs, memories, ratify, review
from hardwon.recall.deliver import ALONE, WORDED, decides
from hardwon.store import db, reflections
from hardwon.store import memories as kept
from hardwon.words import word

LONGEST_LINE = 500
LONGEST_PAGE, MOST_LISTED = 6_000, 20
log = logging.getLogger(__name__)


@word
class Said:
    """One line for the person, and whether what they typed was taken."""

    line: str
    taken: bool


def learn(home: str, prompt: str, cwd: str) -> str:
    """Take in what was typed while nobody waits for the answer."""
    said = answer(home, prompt, cwd)
    leave(home, said)
    return spoken(said)


def answer(home: str, prompt: str, cwd: str) -> list[Said]:
    """Add every lesson in the prompt, or do what it decides; nothing to say if it is neither.

    Lessons are in force only if they are all of the prompt. A block among other text may have been pasted from
    anywhere, so it is proposed.
    """
    if decision := decides(prompt.split()):
        about, verb, names = decision
        if verb in ALONE or verb in WORDED:
            names = [prompt.partition(verb)[2].strip()]  # a text as it was typed
        return [_decided(home, partial(_DECIDE[about], cwd=cwd, verb=verb, name=name)) for name in names]
    found = tags.blocks(prompt)
    if not found and tags.is_unclosed(prompt):
        return [Said("the #lesson block is not closed; end it with #/lesson on a line of its own", False)]
    typed = _is_all(prompt, found)
    return [_learned(home, cwd, tag, typed) for tag in found]


def spoken(said: Iterable[Said]) -> str:
    return "\n".join(f"hardwon: {one.line}" for one in said)


def leave(home: str, said: Iterable[Said]) -> None:
    """Put down what was not taken where `hardwon doctor` shows it, since the person has not seen the answer."""
    lines = [" ".join(one.line.split())[:LONGEST_LINE] for one in said if not one.taken]
    if not lines:
        return
    for line in lines:
        log.warning("what a person typed was not taken: %s", line)
    with suppress(OSError):
        path = os.path.join(home, paths.HOOK_LOG)
        paths.private_folder(os.path.dirname(path))
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a", errors="replace") as file:
            file.writelines(f"{clock.now():.0f} what you typed was not taken: {line}\n" for line in lines)


def _decided(home: str, decide: Callable[[db.Connection, str], str]) -> Said:
    try:
        with closing(db.connect(home)) as connection:
            return Said(decide(connection, home), True)
    except UserError as refused:
        return Said(refused.say, False)
    except OSError as wrong:
        return Said(f"NOT done: {wrong}", False)


def _lesson(connection: db.Connection, home: str, cwd: str, verb: str, name: str) -> str:
    proposal = review.named(connection, name)
    if verb == "reject":
        review.reject(connection, proposal)
        return f"rejected: {proposal.record['summary']} [{proposal.slug}]"
    lesson = review.accept(home, connection, proposal, {})
    return f"in force as a {lesson.delivery}: {lesson.summary} [{lesson.slug}]"


def _handoff(connection: db.Connection, home: str, cwd: str, verb: str, name: str) -> str:
    if verb in ALONE:
        return _handoffs(connection, home, home_of(cwd), verb)
    now, values = clock.now(), settings.resolve(settings.read_config(home))
    if verb == "write":
        one = ratify.write_here(connection, home, name, cwd, now=now, is_ratified=True)
        said = [f"written: handoff {one.id}, {one.draft}"]
    else:
        one = handoffs.named(connection, name)
        if verb == "amend":
            raise UserError(f"it takes an editor: edit {one.draft}, or in a terminal: hardwon handoff amend {one.id}")
        if verb == "show":
            page = handoffs.page_of(one)
            return f"handoff {one.id}, {one.status}: {one.draft}\n{_page(page.text if page else 'its file is gone')}"
        if verb == "discard":
            ratify.discard(connection, one, now)
            said = [f"discarded: handoff {one.id}, {one.draft} is deleted"]
        else:
            said = ratify.lines_of(ratify.ratify(connection, home, one, now, commits=values["handoffCommit"]))
    compiled.forget(home)
    brief.latest(connection, home, one.project, values)
    return "; ".join(said)


def _handoffs(connection: db.Connection, home: str, project: str, verb: str) -> str:
    if verb == "list":
        found = reflections.listed(connection, reflections.DRAFT, reflections.RATIFIED, project=project)
        lines = [f"{one.id}, {one.status}: {in_line(_topic(one), 90)}, {one.draft}" for one in found[:MOST_LISTED]]
        return _lines("the handoffs here", lines, len(found)) if lines else "no handoffs here yet"
    draft, page = handoffs.waiting(connection, project), handoffs.last(connection, home, project)
    said = [f"{handoffs.banner(draft)} (hardwon handoff show {draft.id})"] if draft else []
    said += [f"handoff {page.known.id}: {page.topic}", *handoffs.resume_of(page)] if page else []
    return "\n".join(said) or "no session here was handed off yet"


def _topic(one: reflections.Reflection) -> str:
    page = handoffs.page_of(one)
    return page.topic if page else one.topic


def _memory(connection: db.Connection, home: str, cwd: str, verb: str, name: str) -> str:
    if verb in ALONE:
        return _memories(connection, home, home_of(cwd), verb)
    now, (first, *rest) = clock.now(), name.split(None, 1)
    text = "".join(rest)
    if verb == "add":
        one = memories.propose(connection, home, first, text, project=home_of(cwd), source="person", now=now)
    else:
        one = memories.named(connection, first)
    wanted = {"reject": "candidate", "retire": "active"}.get(verb, one.status)
    if one.status != wanted:
        raise UserError(f"memory {one.id} is {one.status}, not {wanted}")
    if verb == "show":
        page = memories.page_of(home, one)
        whence = ", ".join((one.source, *one.evidence))
        return f"memory {one.id}, {one.type}, {one.status}, from {whence}\n{_page(page.text if page else one.text)}"
    if verb == "edit" and not text:
        raise UserError(f"say it in other words: hardwon memory edit {one.id} TEXT; a terminal opens an editor")
    if verb == "edit":
        said = f"edited: memory {memories.reword(connection, home, one, text, now).id}"
    elif verb in ("add", "approve"):
        said = f"approved as memory {one.id}: {memories.approve(connection, home, one, now)[1]}"
    else:
        said = f"{memories.set_aside(connection, one, now).status}: memory {one.id}, {in_line(one.text, 100)}"
    compiled.forget(home)
    brief.latest(connection, home, one.project, settings.resolve(settings.read_config(home)))
    return said


def _memories(connection: db.Connection, home: str, project: str, verb: str) -> str:
    if verb == "check":
        faults = [f"{name}: {wrong}; {fix}" for name, wrong, fix in memories.faults(connection, home, project)]
        return _lines("what is wrong", faults, len(faults)) if faults else "every memory is as it should be"
    found = kept.listed(connection, "candidate", "active", project=project)
    lines = [f"{one.id}, {one.type}, {one.status}: {in_line(one.text, 120)}" for one in found[-MOST_LISTED:]]
    return _lines("the memories here", lines, len(found)) if lines else "no memories here yet"


def _lines(what: str, lines: Sequence[str], found: int) -> str:
    left = [f"{found - len(lines)} more, in a terminal or the viewer"] if found > len(lines) else []
    return "\n  ".join((f"{what}:", *map(printable, lines), *left))


def _page(text: str) -> str:
    return printable(text if len(text) <= LONGEST_PAGE else f"{text[:LONGEST_PAGE]}…")


_DECIDE = {"": _lesson, "handoff": _handoff, "memory": _memory}


def _learned(home: str, cwd: str, tag: tags.Tag, typed: bool) -> Said:
    if tag.faults:
        return Said(f"the lesson is refused: {'; '.join(tag.faults)}", False)
    try:
        lesson = admit.add(home, tags.record(tag, project=home_of(cwd) if cwd else ""), approved=typed)
    except UserError as refused:
        return Said(refused.say, False)
    if not typed:
        how = f"in force once you run: hardwon lessons restore {lesson.slug}"
        return Said(f"proposed, since the prompt holds more than the lesson: {lesson.summary}; {how}", True)
    state = "needs review" if lesson.needs_review else f"in force as a {lesson.delivery}"
    return Said(f"learned, {state}: {lesson.summary} [{lesson.slug}]", True)


def _is_all(prompt: str, found: Sequence[tags.Tag]) -> bool:
    ends = [0, *(tag.end for tag in found)]
    starts = [*(tag.start for tag in found), len(prompt)]
    return not any(prompt[end:start].strip() for end, start in zip(ends, starts, strict=True))
