"""Deciding about candidates: a person accepts, rejects, or takes the decision back.

The lesson is written first and has the candidate's id, so a decision that was cut off between the two is seen and
completed the next time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from hardwon import clock
from hardwon.errors import UserError
from hardwon.lessons import adding, review_queue, validation
from hardwon.lessons import lessons_file as shelves
from hardwon.lessons import record as records
from hardwon.lessons.replay import ENOUGH, Replay, replay
from hardwon.store import approvals, candidates
from hardwon.store.candidates import Judgement, Proposal
from hardwon.store.db import Connection
from hardwon.types import Lesson

VOUCHED = 0.9  # the confidence of what a person has read and accepted
_PATTERNS = {"commandPatterns": "command", "pathPatterns": "path", "pathRegexes": "path", "contentPatterns": "content"}
_FLAGS = {
    "summary": "--summary TEXT",
    "problem": "--problem TEXT",
    "solution": "--solution TEXT",
    "no trigger": "--command REGEX",
    "commandPatterns": "--command REGEX",
    "pathPatterns": "--path GLOB",
    "contentPatterns": "--content REGEX",
    "unless": "--unless REGEX",
    "priority": "--priority N",
    "tag": "--tag CATEGORY:VALUE",
    "block": "--block-reason TEXT",
}


def named(home: str, connection: Connection, name: str) -> Proposal:
    found = review_queue.find(home, connection, name)
    if found is None:
        gone = " any more: a scan found other words for it, and gave it another number"
        say = f"there is no candidate {name!r}" + gone * candidates.was_given(connection, name)
        raise UserError(say, "hardwon scan candidates --all")
    return found


def accept(
    home: str,
    connection: Connection,
    proposal: Proposal,
    changes: Mapping[str, Any],
    *,
    confirm: Callable[[str], bool] = lambda say: False,
) -> Lesson:
    """Write a candidate as a lesson, with what the person changed in it.

    A block must not stop what went fine before; where there is little to tell by, the person is asked by `confirm`.
    """
    if proposal.status == "active":
        raise UserError(f"candidate {proposal.number} is accepted already", f"hardwon lessons show {proposal.slug}")
    record = adding.with_changes(proposal_record(proposal), changes)
    lesson = _find_written(home, connection, proposal.id, record)
    if lesson is None:
        _must_be_sound(record, proposal)
        again = f"hardwon accept {proposal.number} --delivery"
        may_block(connection, adding.sound(record), confirm, hold=f"{again} hold", sure=f"{again} block --confirm")
        lesson = review_queue.put_in_force(home, proposal, record)
    candidates.decide(connection, proposal.id, "active", clock.now(), lesson.id)
    return lesson


def may_become(
    connection: Connection, lesson: Lesson, record: dict[str, Any], *, confirm: Callable[[str], bool]
) -> None:
    """Refuse what would make a block of a lesson, or a block of other calls, where `accept` would."""
    after = adding.sound(record)
    one, other = records.write(lesson), records.write(after)
    if any(one.get(key) != other.get(key) for key in ("delivery", "triggers", "unless", "scope", "commandMatchTarget")):
        again = f"hardwon lessons edit {lesson.slug} --delivery"
        may_block(connection, after, confirm, hold=f"{again} hold", sure=f"{again} block --confirm")


def _must_be_sound(record: dict[str, Any], proposal: Proposal) -> None:
    """What is refused is mended while accepting, so that is the command to give."""
    if wrong := adding.faults(record):
        flags = dict.fromkeys(flag for fault in wrong for name, flag in _FLAGS.items() if fault.startswith(name))
        fix = " ".join([f"hardwon accept {proposal.number}", *flags])
        raise UserError(adding.refusal(wrong).say, fix if flags else "hardwon review, and [e]dit it")


def told(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What a person puts in force with a record, field by field: nothing that acts may be left out."""
    rows = [("problem", record["problem"]), ("solution", record["solution"]), ("trigger", trigger_of(record))]
    if record.get("injection"):
        rows.append(("told as", record["injection"]))
    if record.get("unless"):
        rows.append(("unless", _joined(record["unless"])))
    scope = record["scope"].get("path", "every project") if isinstance(record["scope"], dict) else record["scope"]
    named = "".join(f", {tag}" for tag in record["tags"])
    rows.append(("delivery", f"{record['delivery']}, priority {record['priority']}, in {scope}{named}"))
    if record["delivery"] == "block":
        rows.append(("reason", record.get("blockReason") or record["solution"]))
    return rows


def trigger_of(record: Mapping[str, Any]) -> str:
    """When it fires, in a line; nothing if never."""
    given = record["triggers"]
    if record["delivery"] == "start":
        return "fires when a session starts"
    tools = given.get("toolNames") or ()
    shown = "; ".join(f"{name} {_joined(given[key])}" for key, name in _PATTERNS.items() if given.get(key))
    if shown:
        return f"{', '.join(tools)}: {shown}" if tools else shown
    return f"fires on every {' or '.join(tools)} call" if tools else ""


def _joined(patterns: Iterable[Any]) -> str:
    return " | ".join(str(one["source"] if isinstance(one, dict) else one) for one in patterns)


def reject(home: str, connection: Connection, proposal: Proposal) -> None:
    """It stays rejected, however often it is found again."""
    if proposal.status == "active":
        raise UserError(f"candidate {proposal.number} is a lesson by now", f"hardwon lessons retire {proposal.slug}")
    review_queue.reject_record(home, proposal)
    candidates.decide(connection, proposal.id, "rejected", clock.now())


def undo(home: str, connection: Connection, id: str) -> Proposal:
    """As if nothing had been decided: the lesson is taken out of the file again, or is proposed there as before."""
    review_queue.undo_record(home, named(home, connection, id))
    candidates.decide(connection, id, "candidate", None)
    return named(home, connection, id)


def proposal_record(proposal: Proposal) -> dict[str, Any]:
    """The suggested record as the lesson a person would vouch for."""
    vouched = {"id": proposal.id, "slug": proposal.slug, "status": "active", "needsReview": False}
    return {**proposal.record, **vouched, "confidence": max(VOUCHED, proposal.record["confidence"])}


def worded(judgement: Judgement | None) -> dict[str, Any]:
    """What a reader would change in the suggestion, if its judgement counts and calls it a lesson."""
    if judgement is None or judgement.void or judgement.verdict != "lesson":
        return {}
    said = judgement.body
    changes = {key: said[key] for key in ("summary", "problem", "solution", "delivery", "tags") if said.get(key)}
    if said.get("trigger"):
        changes["commandPatterns"] = [said["trigger"]]
    return changes


def tried(connection: Connection, record: Mapping[str, Any], *, most: int | None = None) -> Replay | None:
    """What the record's trigger would have fired on; None if it has none that can be tried."""
    try:
        lesson = records.read(dict(record))
    except records.BadRecord:
        return None
    return None if validation.unusable(lesson) else replay(connection, lesson, most=most)


def _find_written(home: str, connection: Connection, id: str, record: dict[str, Any]) -> Lesson | None:
    """Return the lesson of a decision that was cut off: approved, or written just as it would be now.

    Anybody may have written another record under the same id into lessons.json.
    """
    shelf = shelves.read(shelves.lessons_path(home))
    written = next((lesson for lesson in shelf.lessons if lesson.id == id and lesson.status == "active"), None)
    if written is None or approvals.find_live(connection, approvals.LESSON, id):
        return written
    expected = [] if adding.faults(record) else [records.authored_hash(adding.sound(record))]
    return written if records.authored_hash(written) in expected else None


def may_block(connection: Connection, lesson: Lesson, confirm: Callable[[str], bool], *, hold: str, sure: str) -> None:
    """Refuse a block that would have stopped calls that went fine, or that fired too seldom to tell.

    `hold` is the command that makes a hold of it, `sure` the one that blocks all the same.
    """
    if lesson.delivery != "block":
        return
    found = replay(connection, lesson)
    if found.fine:
        sample = next(call for call in found.samples if call.outcome == "fine")
        call = (sample.command or sample.file)[:80]
        fired = f"its trigger fired on {found.fine} call{'s' * (found.fine != 1)} that went fine"
        say = f"it cannot block: {fired}, such as {call!r}"
        raise UserError(say, f"narrow the trigger, or: {hold}")
    fired = f"its trigger fired {found.fires} time{'s' * (found.fires != 1)} in the recorded calls"
    say = f"{fired}, too few to be sure that it may block"
    if found.fires < ENOUGH and not confirm(say):
        raise UserError(say, f"if you are: {sure}")
