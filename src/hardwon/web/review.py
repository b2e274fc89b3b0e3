"""Review: what was proposed, with what speaks for it; a person accepts, edits or rejects, and may take that back."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from itertools import groupby
from typing import Any

from hardwon.actions import candidates as deciding
from hardwon.actions import lessons as actions
from hardwon.errors import UserError
from hardwon.lessons import adding, review_queue
from hardwon.lessons import lessons_file as shelves
from hardwon.lessons import record as records
from hardwon.store import candidates
from hardwon.store.approvals import VIEWER
from hardwon.store.candidates import Proposal
from hardwon.text.similarity import index, nearest_in
from hardwon.web import lesson_form
from hardwon.web.page_request import GONE, Ask, Moved, Shown, number

MOST_EVIDENCE = 8
ALIKE = 0.25
SCORED = {  # what a part of the score says where it speaks for a candidate, and where against
    "about": ("the kind of mistake that is made again elsewhere", "the kind of mistake that teaches little"),
    "cure": ("another call put it right", "the same call worked later, or editing the code put it right"),
    "attempts": ("it was tried in several ways", ""),
    "reason": ("the agent said why it failed", ""),
    "person": ("a person stepped in", ""),
    "recurs": ("several sessions met it", ""),
    "tag": ("an agent wrote it down as a lesson", ""),
}
TRIED = 20_000  # calls, the newest: a page may not take seconds of the worker


def page(ask: Ask) -> Shown:
    """The queue, best first."""
    return Shown(
        "review.html",
        {
            "title": "Review",
            "waiting": review_queue.list_waiting(ask.home, ask.connection),
            "may_undo": bool(ask.visitor.decided),
        },
    )


def one(ask: Ask) -> Shown:
    proposal = _proposal(ask)
    return GONE if proposal is None else _shown(ask, proposal)


def edit(ask: Ask) -> Shown:
    proposal = _proposal(ask)
    return GONE if proposal is None else _editor(ask, proposal)


def accept(ask: Ask) -> Shown | Moved:
    return _accept(ask, _seen(ask), {}, _shown)


def accept_words(ask: Ask) -> Shown | Moved:
    """Accept with the words that a reader proposed."""
    proposal = _seen(ask)
    words = deciding.worded(candidates.judgements(ask.connection).get(proposal.number))
    if not words:
        raise UserError("no reader has proposed other words for it", "accept it, or edit it")
    if proposal.record["triggers"].get("pathPatterns") and "commandPatterns" in words:
        words["pathPatterns"] = words.pop("commandPatterns")
    return _accept(ask, proposal, words, _shown)


def accept_edited(ask: Ask) -> Shown | Moved:
    proposal = _seen(ask)
    try:
        changed = lesson_form.changes(proposal.record, ask.form)
    except UserError as wrong:
        return _editor(ask, proposal, wrong)
    return _accept(ask, proposal, changed, _editor)


def reject(ask: Ask) -> Moved:
    proposal, on = _seen(ask), _next(ask)
    deciding.reject(ask.home, ask.connection, proposal)
    ask.visitor.decided.append(proposal.id)
    return Moved(on, f"Rejected: {proposal.slug}. It stays rejected, however often it is found again.")


def undo(ask: Ask) -> Moved:
    """Take the last decision of this browser back."""
    if not ask.visitor.decided:
        raise UserError("nothing was decided yet", "")
    proposal = actions.undo_decision(ask.home, ask.connection, ask.visitor.decided.pop())
    return Moved(f"/review/{proposal.number}", f"Taken back: {proposal.slug}")


def _accept(ask: Ask, proposal: Proposal, changes: dict[str, Any], again: Any) -> Shown | Moved:
    on, asked = _next(ask), list[str]()

    def confirm(say: str) -> bool:
        asked.append(say)
        return ask.form.get("confirm") == "yes"

    try:
        lesson = actions.accept_candidate(ask.home, ask.connection, proposal, changes, VIEWER, confirm=confirm)
    except UserError as wrong:
        shown: Shown = again(ask, proposal, wrong, asks=bool(asked))
        return shown
    ask.visitor.decided.append(proposal.id)
    return Moved(on, f"In force as a {lesson.delivery}: {lesson.slug}")


def _proposal(ask: Ask) -> Proposal | None:
    known = number(ask.path, "number")
    found = review_queue.find(ask.home, ask.connection, str(known)) if known is not None else None
    return found if found and found.number == known else None


def _seen(ask: Ask) -> Proposal:
    """The candidate as the person saw it: a scan may have put other words under its number since."""
    found = _proposal(ask)
    if found is None or ask.form.get("seen") != _print(found):
        raise UserError("the candidate is gone or says something else by now", "look at it again before you decide")
    if found.status != "candidate":
        raise UserError(f"candidate {found.number} is decided about already: {found.status}", "")
    return found


def _print(proposal: Proposal) -> str:
    said = {key: value for key, value in proposal.record.items() if key not in ("evidence", "sourceSessionIds")}
    return hashlib.sha256(json.dumps([proposal.id, said], sort_keys=True).encode()).hexdigest()


def _next(ask: Ask) -> str:
    """The candidate behind this one, for when it is decided about."""
    waiting = [one.number for one in review_queue.list_waiting(ask.home, ask.connection)]
    here = number(ask.path, "number")
    place = waiting.index(here) if here in waiting else -1
    left = [*waiting[place + 1 :], *waiting[: max(place, 0)]]
    return f"/review/{left[0]}" if left else "/review"


def _around(ask: Ask, proposal: Proposal) -> dict[str, Any]:
    waiting = [one.number for one in review_queue.list_waiting(ask.home, ask.connection)]
    place = waiting.index(proposal.number) if proposal.number in waiting else None
    return {
        "proposal": proposal,
        "proposed": review_queue.is_proposed(proposal),
        "seen": _print(proposal),
        "place": None if place is None else place + 1,
        "total": len(waiting),
        "before": waiting[place - 1] if place else None,
        "behind": waiting[place + 1] if place is not None and place + 1 < len(waiting) else None,
        "may_undo": bool(ask.visitor.decided),
    }


def _shown(ask: Ask, proposal: Proposal, wrong: UserError | None = None, *, asks: bool = False) -> Shown:
    judgement = candidates.judgements(ask.connection).get(proposal.number)
    evidence = _evidence(proposal.record.get("evidence", ()))
    values = {
        **_around(ask, proposal),
        "title": f"Candidate {proposal.number}",
        "told": deciding.told(proposal.record),
        "scored": _scored(proposal),
        "judgement": judgement,
        "words": deciding.worded(judgement),
        "replay": deciding.tried(ask.connection, proposal.record, most=TRIED),
        "tried": TRIED,
        "alike": _alike(ask, proposal),
        "faults": adding.faults(deciding.proposal_record(proposal)),
        "evidence": evidence[:MOST_EVIDENCE],
        "more_evidence": len(evidence[MOST_EVIDENCE:]),
        "wrong": wrong,
        "asks": asks,
    }
    return Shown("candidate.html", values, 422 if wrong else 200)


def _scored(proposal: Proposal) -> list[tuple[float, str]]:
    """The parts of the score in words, those that weigh most first."""
    found = [(value, SCORED.get(name, (name, name))[value < 0] or name) for name, value in proposal.parts.items()]
    return sorted((one for one in found if one[0]), key=lambda one: -abs(one[0]))


def _editor(ask: Ask, proposal: Proposal, wrong: UserError | None = None, *, asks: bool = False) -> Shown:
    values = {
        **_around(ask, proposal),
        "title": f"Edit candidate {proposal.number}",
        "fields": lesson_form.shown(proposal.record, ask.form),
        "action": f"/review/{proposal.number}/edit",
        "back": f"/review/{proposal.number}",
        "done": "Accept with these words",
        "wrong": wrong,
        "asks": asks,
    }
    return Shown("edit.html", values, 422 if wrong else 200)


def _evidence(found: Any) -> list[dict[str, Any]]:
    """The quotes; one that stands on several lines of a file comes once."""
    grouped = groupby(found, lambda each: (each["path"], each["kind"], each["quote"]))
    return [
        {
            "path": path,
            "kind": kind.replace("correction", "then"),
            "quote": quote,
            "lines": [one["line"] for one in same],
        }
        for (path, kind, quote), same in grouped
    ]


def _alike(ask: Ask, proposal: Proposal) -> Mapping[str, Any] | None:
    """The lesson that says nearly the same, if there is one."""
    lessons = shelves.read(shelves.lessons_path(ask.home)).lessons
    known = [one for one in lessons if one.status != "rejected" and one.id != proposal.id]
    try:
        near = nearest_in(index(known), records.read({**proposal.record, "id": proposal.id}))
    except records.BadRecord:
        return None
    return {"lesson": near[0], "share": near[1]} if near and near[1] >= ALIKE else None
