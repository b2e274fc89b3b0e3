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
from hardwon.store.candidates import Candidate
from hardwon.text.similarity import build_vocabulary, find_nearest_in
from hardwon.web import lesson_form
from hardwon.web.page_request import NOT_FOUND, PageContent, PageRequest, Redirect, parse_number

MAX_EVIDENCE = 8
MIN_SIMILARITY = 0.25
SCORE_PART_TEXTS = {  # what a part of the score says where it speaks for a candidate, and where against
    "about": ("the kind of mistake that is made again elsewhere", "the kind of mistake that teaches little"),
    "cure": ("another call put it right", "the same call worked later, or editing the code put it right"),
    "attempts": ("it was tried in several ways", ""),
    "reason": ("the agent said why it failed", ""),
    "person": ("a person stepped in", ""),
    "recurs": ("several sessions met it", ""),
    "tag": ("an agent wrote it down as a lesson", ""),
}
MAX_REPLAYED_CALLS = 20_000  # calls, the newest: a page may not take seconds of the worker


def show_review_queue(ask: PageRequest) -> PageContent:
    """The queue, best first."""
    return PageContent(
        "review.html",
        {
            "title": "Review",
            "waiting": review_queue.list_waiting(ask.home, ask.connection),
            "may_undo": bool(ask.browser_session.decided_ids),
        },
    )


def show_candidate(ask: PageRequest) -> PageContent:
    proposal = _proposal(ask)
    return NOT_FOUND if proposal is None else _shown(ask, proposal)


def show_editor(ask: PageRequest) -> PageContent:
    proposal = _proposal(ask)
    return NOT_FOUND if proposal is None else _editor(ask, proposal)


def accept(ask: PageRequest) -> PageContent | Redirect:
    return _accept(ask, _seen(ask), {}, _shown)


def accept_reader_wording(ask: PageRequest) -> PageContent | Redirect:
    """Accept with the words that a reader proposed."""
    proposal = _seen(ask)
    words = deciding.extract_rewording(candidates.list_latest_judgements(ask.connection).get(proposal.number))
    if not words:
        raise UserError("no reader has proposed other words for it", "accept it, or edit it")
    if proposal.record["triggers"].get("pathPatterns") and "commandPatterns" in words:
        words["pathPatterns"] = words.pop("commandPatterns")
    return _accept(ask, proposal, words, _shown)


def accept_with_edits(ask: PageRequest) -> PageContent | Redirect:
    proposal = _seen(ask)
    try:
        changed = lesson_form.find_changed_fields(proposal.record, ask.form)
    except UserError as wrong:
        return _editor(ask, proposal, wrong)
    return _accept(ask, proposal, changed, _editor)


def reject(ask: PageRequest) -> Redirect:
    proposal, on = _seen(ask), _next(ask)
    deciding.reject(ask.home, ask.connection, proposal)
    ask.browser_session.decided_ids.append(proposal.id)
    return Redirect(on, f"Rejected: {proposal.slug}. It stays rejected, however often it is found again.")


def undo_last_decision(ask: PageRequest) -> Redirect:
    """Take the last decision of this browser back."""
    if not ask.browser_session.decided_ids:
        raise UserError("nothing was decided yet", "")
    proposal = actions.undo_decision(ask.home, ask.connection, ask.browser_session.decided_ids.pop())
    return Redirect(f"/review/{proposal.number}", f"Taken back: {proposal.slug}")


def _accept(ask: PageRequest, proposal: Candidate, changes: dict[str, Any], again: Any) -> PageContent | Redirect:
    on, asked = _next(ask), list[str]()

    def confirm(say: str) -> bool:
        asked.append(say)
        return ask.form.get("confirm") == "yes"

    try:
        lesson = actions.accept_candidate(ask.home, ask.connection, proposal, changes, VIEWER, confirm=confirm)
    except UserError as wrong:
        shown: PageContent = again(ask, proposal, wrong, asks=bool(asked))
        return shown
    ask.browser_session.decided_ids.append(proposal.id)
    return Redirect(on, f"In force as a {lesson.delivery}: {lesson.slug}")


def _proposal(ask: PageRequest) -> Candidate | None:
    known = parse_number(ask.path_params, "number")
    found = review_queue.find_in_queue(ask.home, ask.connection, str(known)) if known is not None else None
    return found if found and found.number == known else None


def _seen(ask: PageRequest) -> Candidate:
    """The candidate as the person saw it: a scan may have put other words under its number since."""
    found = _proposal(ask)
    if found is None or ask.form.get("seen") != _print(found):
        raise UserError("the candidate is gone or says something else by now", "look at it again before you decide")
    if found.status != "candidate":
        raise UserError(f"candidate {found.number} is decided about already: {found.status}", "")
    return found


def _print(proposal: Candidate) -> str:
    said = {key: value for key, value in proposal.record.items() if key not in ("evidence", "sourceSessionIds")}
    return hashlib.sha256(json.dumps([proposal.id, said], sort_keys=True).encode()).hexdigest()


def _next(ask: PageRequest) -> str:
    """The candidate behind this one, for when it is decided about."""
    waiting = [one.number for one in review_queue.list_waiting(ask.home, ask.connection)]
    here = parse_number(ask.path_params, "number")
    place = waiting.index(here) if here in waiting else -1
    left = [*waiting[place + 1 :], *waiting[: max(place, 0)]]
    return f"/review/{left[0]}" if left else "/review"


def _around(ask: PageRequest, proposal: Candidate) -> dict[str, Any]:
    waiting = [one.number for one in review_queue.list_waiting(ask.home, ask.connection)]
    place = waiting.index(proposal.number) if proposal.number in waiting else None
    return {
        "proposal": proposal,
        "proposed": review_queue.is_proposed_by_agent(proposal),
        "seen": _print(proposal),
        "place": None if place is None else place + 1,
        "total": len(waiting),
        "before": waiting[place - 1] if place else None,
        "behind": waiting[place + 1] if place is not None and place + 1 < len(waiting) else None,
        "may_undo": bool(ask.browser_session.decided_ids),
    }


def _shown(ask: PageRequest, proposal: Candidate, wrong: UserError | None = None, *, asks: bool = False) -> PageContent:
    judgement = candidates.list_latest_judgements(ask.connection).get(proposal.number)
    evidence = _evidence(proposal.record.get("evidence", ()))
    values = {
        **_around(ask, proposal),
        "title": f"Candidate {proposal.number}",
        "told": deciding.describe_record(proposal.record),
        "scored": _scored(proposal),
        "judgement": judgement,
        "words": deciding.extract_rewording(judgement),
        "replay": deciding.replay_record(ask.connection, proposal.record, limit=MAX_REPLAYED_CALLS),
        "tried": MAX_REPLAYED_CALLS,
        "alike": _alike(ask, proposal),
        "faults": adding.find_record_faults(deciding.build_accepted_record(proposal)),
        "evidence": evidence[:MAX_EVIDENCE],
        "more_evidence": len(evidence[MAX_EVIDENCE:]),
        "wrong": wrong,
        "asks": asks,
    }
    return PageContent("candidate.html", values, 422 if wrong else 200)


def _scored(proposal: Candidate) -> list[tuple[float, str]]:
    """The parts of the score in words, those that weigh most first."""
    found = [
        (value, SCORE_PART_TEXTS.get(name, (name, name))[value < 0] or name) for name, value in proposal.parts.items()
    ]
    return sorted((one for one in found if one[0]), key=lambda one: -abs(one[0]))


def _editor(
    ask: PageRequest, proposal: Candidate, wrong: UserError | None = None, *, asks: bool = False
) -> PageContent:
    values = {
        **_around(ask, proposal),
        "title": f"Edit candidate {proposal.number}",
        "fields": lesson_form.fill_fields(proposal.record, ask.form),
        "action": f"/review/{proposal.number}/edit",
        "back": f"/review/{proposal.number}",
        "done": "Accept with these words",
        "wrong": wrong,
        "asks": asks,
    }
    return PageContent("edit.html", values, 422 if wrong else 200)


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


def _alike(ask: PageRequest, proposal: Candidate) -> Mapping[str, Any] | None:
    """The lesson that says nearly the same, if there is one."""
    lessons = shelves.read(shelves.get_lessons_path(ask.home)).lessons
    known = [one for one in lessons if one.status != "rejected" and one.id != proposal.id]
    try:
        near = find_nearest_in(build_vocabulary(known), records.parse_lesson({**proposal.record, "id": proposal.id}))
    except records.BadRecord:
        return None
    return {"lesson": near[0], "share": near[1]} if near and near[1] >= MIN_SIMILARITY else None
