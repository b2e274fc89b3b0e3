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


def show_review_queue(request: PageRequest) -> PageContent:
    """The queue, best first."""
    return PageContent(
        "review.html",
        {
            "title": "Review",
            "waiting": review_queue.list_waiting(request.home, request.connection),
            "may_undo": bool(request.browser_session.decided_ids),
        },
    )


def show_candidate(request: PageRequest) -> PageContent:
    candidate = _find_candidate(request)
    return NOT_FOUND if candidate is None else _build_candidate_page(request, candidate)


def show_editor(request: PageRequest) -> PageContent:
    candidate = _find_candidate(request)
    return NOT_FOUND if candidate is None else _build_editor(request, candidate)


def accept(request: PageRequest) -> PageContent | Redirect:
    return _accept_candidate(request, _require_seen_candidate(request), {}, _build_candidate_page)


def accept_reader_wording(request: PageRequest) -> PageContent | Redirect:
    """Accept with the words that a reader proposed."""
    candidate = _require_seen_candidate(request)
    words = deciding.extract_rewording(candidates.list_latest_judgements(request.connection).get(candidate.number))
    if not words:
        raise UserError("no reader has proposed other words for it", "accept it, or edit it")
    if candidate.record["triggers"].get("pathPatterns") and "commandPatterns" in words:
        words["pathPatterns"] = words.pop("commandPatterns")
    return _accept_candidate(request, candidate, words, _build_candidate_page)


def accept_with_edits(request: PageRequest) -> PageContent | Redirect:
    candidate = _require_seen_candidate(request)
    try:
        changed_fields = lesson_form.find_changed_fields(candidate.record, request.form)
    except UserError as error:
        return _build_editor(request, candidate, error)
    return _accept_candidate(request, candidate, changed_fields, _build_editor)


def reject(request: PageRequest) -> Redirect:
    candidate, next_location = _require_seen_candidate(request), _find_next_location(request)
    deciding.reject(request.home, request.connection, candidate)
    request.browser_session.decided_ids.append(candidate.id)
    return Redirect(next_location, f"Rejected: {candidate.slug}. It stays rejected, however often it is found again.")


def undo_last_decision(request: PageRequest) -> Redirect:
    """Take the last decision of this browser back."""
    if not request.browser_session.decided_ids:
        raise UserError("nothing was decided yet", "")
    candidate = actions.undo_decision(request.home, request.connection, request.browser_session.decided_ids.pop())
    return Redirect(f"/review/{candidate.number}", f"Taken back: {candidate.slug}")


def _accept_candidate(
    request: PageRequest, candidate: Candidate, changes: dict[str, Any], build_page: Any
) -> PageContent | Redirect:
    next_location, questions = _find_next_location(request), list[str]()

    def confirm(question: str) -> bool:
        questions.append(question)
        return request.form.get("confirm") == "yes"

    try:
        lesson = actions.accept_candidate(request.home, request.connection, candidate, changes, VIEWER, confirm=confirm)
    except UserError as error:
        page: PageContent = build_page(request, candidate, error, needs_confirmation=bool(questions))
        return page
    request.browser_session.decided_ids.append(candidate.id)
    return Redirect(next_location, f"In force as a {lesson.delivery}: {lesson.slug}")


def _find_candidate(request: PageRequest) -> Candidate | None:
    number = parse_number(request.path_params, "number")
    candidate = (
        review_queue.find_in_queue(request.home, request.connection, str(number)) if number is not None else None
    )
    return candidate if candidate and candidate.number == number else None


def _require_seen_candidate(request: PageRequest) -> Candidate:
    """The candidate as the person saw it: a scan may have put other words under its number since."""
    candidate = _find_candidate(request)
    if candidate is None or request.form.get("seen") != _fingerprint_candidate(candidate):
        raise UserError("the candidate is gone or says something else by now", "look at it again before you decide")
    if candidate.status != "candidate":
        raise UserError(f"candidate {candidate.number} is decided about already: {candidate.status}", "")
    return candidate


def _fingerprint_candidate(candidate: Candidate) -> str:
    shown_fields = {
        key: value for key, value in candidate.record.items() if key not in ("evidence", "sourceSessionIds")
    }
    return hashlib.sha256(json.dumps([candidate.id, shown_fields], sort_keys=True).encode()).hexdigest()


def _find_next_location(request: PageRequest) -> str:
    """The candidate behind this one, for when it is decided about."""
    waiting_numbers = [queued.number for queued in review_queue.list_waiting(request.home, request.connection)]
    number = parse_number(request.path_params, "number")
    position = waiting_numbers.index(number) if number in waiting_numbers else -1
    remaining = [*waiting_numbers[position + 1 :], *waiting_numbers[: max(position, 0)]]
    return f"/review/{remaining[0]}" if remaining else "/review"


def _build_queue_values(request: PageRequest, candidate: Candidate) -> dict[str, Any]:
    waiting_numbers = [queued.number for queued in review_queue.list_waiting(request.home, request.connection)]
    position = waiting_numbers.index(candidate.number) if candidate.number in waiting_numbers else None
    return {
        "proposal": candidate,
        "proposed": review_queue.is_proposed_by_agent(candidate),
        "seen": _fingerprint_candidate(candidate),
        "place": None if position is None else position + 1,
        "total": len(waiting_numbers),
        "before": waiting_numbers[position - 1] if position else None,
        "behind": waiting_numbers[position + 1]
        if position is not None and position + 1 < len(waiting_numbers)
        else None,
        "may_undo": bool(request.browser_session.decided_ids),
    }


def _build_candidate_page(
    request: PageRequest, candidate: Candidate, error: UserError | None = None, *, needs_confirmation: bool = False
) -> PageContent:
    judgement = candidates.list_latest_judgements(request.connection).get(candidate.number)
    evidence = _group_evidence(candidate.record.get("evidence", ()))
    values = {
        **_build_queue_values(request, candidate),
        "title": f"Candidate {candidate.number}",
        "told": deciding.describe_record(candidate.record),
        "scored": _describe_score(candidate),
        "judgement": judgement,
        "words": deciding.extract_rewording(judgement),
        "replay": deciding.replay_record(request.connection, candidate.record, limit=MAX_REPLAYED_CALLS),
        "tried": MAX_REPLAYED_CALLS,
        "alike": _find_similar_lesson(request, candidate),
        "faults": adding.find_record_faults(deciding.build_accepted_record(candidate)),
        "evidence": evidence[:MAX_EVIDENCE],
        "more_evidence": len(evidence[MAX_EVIDENCE:]),
        "wrong": error,
        "asks": needs_confirmation,
    }
    return PageContent("candidate.html", values, 422 if error else 200)


def _describe_score(candidate: Candidate) -> list[tuple[float, str]]:
    """The parts of the score in words, those that weigh most first."""
    score_parts = [
        (value, SCORE_PART_TEXTS.get(name, (name, name))[value < 0] or name) for name, value in candidate.parts.items()
    ]
    return sorted((part for part in score_parts if part[0]), key=lambda part: -abs(part[0]))


def _build_editor(
    request: PageRequest, candidate: Candidate, error: UserError | None = None, *, needs_confirmation: bool = False
) -> PageContent:
    values = {
        **_build_queue_values(request, candidate),
        "title": f"Edit candidate {candidate.number}",
        "fields": lesson_form.fill_fields(candidate.record, request.form),
        "action": f"/review/{candidate.number}/edit",
        "back": f"/review/{candidate.number}",
        "done": "Accept with these words",
        "wrong": error,
        "asks": needs_confirmation,
    }
    return PageContent("edit.html", values, 422 if error else 200)


def _group_evidence(evidence: Any) -> list[dict[str, Any]]:
    """The quotes; one that stands on several lines of a file comes once."""
    grouped = groupby(evidence, lambda item: (item["path"], item["kind"], item["quote"]))
    return [
        {
            "path": path,
            "kind": kind.replace("correction", "then"),
            "quote": quote,
            "lines": [entry["line"] for entry in group],
        }
        for (path, kind, quote), group in grouped
    ]


def _find_similar_lesson(request: PageRequest, candidate: Candidate) -> Mapping[str, Any] | None:
    """The lesson that says nearly the same, if there is one."""
    lessons = shelves.read(shelves.get_lessons_path(request.home)).lessons
    other_lessons = [lesson for lesson in lessons if lesson.status != "rejected" and lesson.id != candidate.id]
    try:
        nearest = find_nearest_in(
            build_vocabulary(other_lessons), records.parse_lesson({**candidate.record, "id": candidate.id})
        )
    except records.BadRecord:
        return None
    return {"lesson": nearest[0], "share": nearest[1]} if nearest and nearest[1] >= MIN_SIMILARITY else None
