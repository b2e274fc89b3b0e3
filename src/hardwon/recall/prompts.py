"""What the person typed to hardwon as a prompt: a lesson, or a decision about what waits. It is done, and answered."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress

from hardwon import clock, paths, settings
from hardwon.core import tags
from hardwon.core.printable import in_line
from hardwon.errors import UserError
from hardwon.projects import home_of
from hardwon.recall import admit, brief, compiled, handoffs, memories, ratify, review
from hardwon.recall.deliver import decides
from hardwon.store import db
from hardwon.words import word

LONGEST_LINE = 500
log = logging.getLogger(__name__)
Decide = Callable[[db.Connection, str, str, str], str]  # connection, home, verb and name to what is said of it


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
        return [_decided(home, _DECIDE[about], verb, name) for name in names]
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


def _decided(home: str, decide: Decide, verb: str, name: str) -> Said:
    try:
        with closing(db.connect(home)) as connection:
            return Said(decide(connection, home, verb, name), True)
    except UserError as refused:
        return Said(refused.say, False)
    except OSError as wrong:
        return Said(f"NOT done: {wrong}", False)


def _lesson(connection: db.Connection, home: str, verb: str, name: str) -> str:
    proposal = review.named(connection, name)
    if verb == "reject":
        review.reject(connection, proposal)
        return f"rejected: {proposal.record['summary']} [{proposal.slug}]"
    lesson = review.accept(home, connection, proposal, {})
    return f"in force as a {lesson.delivery}: {lesson.summary} [{lesson.slug}]"


def _handoff(connection: db.Connection, home: str, verb: str, name: str) -> str:
    one, values = handoffs.named(connection, name), settings.resolve(settings.read_config(home))
    if verb == "discard":
        ratify.discard(connection, one, clock.now())
        said = [f"discarded: handoff {one.id}, {one.draft} is deleted"]
    else:
        done = ratify.ratify(connection, home, one, clock.now(), commits=values["handoffCommit"])
        said = ratify.lines_of(done)
    compiled.forget(home)
    brief.latest(connection, home, one.project, values)
    return "; ".join(said)


def _memory(connection: db.Connection, home: str, verb: str, name: str) -> str:
    one, wanted = memories.named(connection, name), "active" if verb == "retire" else "candidate"
    if verb != "approve" and one.status != wanted:
        raise UserError(f"memory {one.id} is {one.status}, not {wanted}")
    if verb == "approve":
        _, path = memories.approve(connection, home, one, clock.now())
        said = f"approved as memory {one.id}: {path}"
    else:
        said = f"{memories.set_aside(connection, one, clock.now()).status}: memory {one.id}, {in_line(one.text, 100)}"
    compiled.forget(home)
    brief.latest(connection, home, one.project, settings.resolve(settings.read_config(home)))
    return said


_DECIDE: dict[str, Decide] = {"": _lesson, "handoff": _handoff, "memory": _memory}


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
