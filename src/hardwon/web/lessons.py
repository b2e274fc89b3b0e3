"""The pages Lessons and Review: lessons with what came of their deliveries, and candidates for a person to decide."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from hardwon.actions.lessons import (
    accept_candidate,
    add_lesson,
    build_accepted_record,
    edit_lesson,
    reject_candidate,
    replay_record,
    restore_lesson,
    retire_lesson,
    undo_decision,
)
from hardwon.efficacy.delivery_changes import build_lesson_proof
from hardwon.efficacy.outcomes import build_trigger
from hardwon.efficacy.proof import describe_counts, describe_grade
from hardwon.errors import UserError
from hardwon.lessons import adding, lessons_file, manifest, review_queue, validation
from hardwon.lessons.delivery_outcomes import find_delivery_outcome
from hardwon.lessons.record import to_lesson_record
from hardwon.lessons.replay import MAX_REPLAYED_CALLS
from hardwon.store import efficacy, views
from hardwon.store.candidates import Candidate, list_latest_judgements
from hardwon.types import DELIVERY_MODES, SHELL_TOOL, STATUSES, Lesson
from hardwon.web.inbox import find_next_path, find_place
from hardwon.web.insights import count_repeats, describe_failure, plot_by_day
from hardwon.web.page_request import (
    Confirmation,
    PageContent,
    PageNotFound,
    PageRequest,
    Redirect,
    find_range_start,
    fingerprint_values,
    parse_number,
)
from hardwon.web.render import describe_input, sanitize_value

_MAX_LISTED, _DELIVERIES_PER_PAGE = 500, 25
_PLOT_DAYS = 90
_MAX_EVIDENCE = 8


# The fields of the lesson form, named as in the record; edit.html has their labels.
_FIELD_KINDS = {
    "summary": "line",
    "problem": "text",
    "solution": "text",
    "toolNames": "lines",
    "commandPatterns": "lines",
    "pathPatterns": "lines",
    "contentPatterns": "lines",
    "unless": "lines",
    "delivery": "choice",
    "blockReason": "text",
    "priority": "number",
    "scope": "folder",
    "tags": "lines",
}


def show_lesson_list(request: PageRequest) -> PageContent:
    """Show the lessons of one status, highest priority first."""
    status = request.choose("status", ("active", *STATUSES))
    all_lessons, _, changes = manifest.gather_lessons(request.home)
    listed_lessons = [lesson for lesson in all_lessons if lesson.status == status]
    listed_lessons.sort(key=lambda lesson: (-lesson.priority, lesson.slug))
    delivered = efficacy.count_by_lesson(request.connection)
    values = {
        "title": "Lessons",
        "status": status,
        "counts": Counter(lesson.status for lesson in all_lessons),
        "waiting": len(review_queue.list_waiting(request.home, request.connection)),
        "changes": changes,
        "lessons": [(lesson, *delivered.get(lesson.id, (0, None))) for lesson in listed_lessons[:_MAX_LISTED]],
        "omitted": len(listed_lessons[_MAX_LISTED:]),
    }
    return PageContent("lessons.html", values)


def show_lesson(request: PageRequest) -> PageContent:
    """Show a lesson: its fields, what is known of its effect, and its deliveries, a page at a time."""
    lesson, is_own = _find_lesson(request)
    by_day = views.count_lesson_by_day(request.connection, lesson.id, find_range_start(request.now, _PLOT_DAYS))
    latest = views.list_lesson_deliveries(
        request.connection,
        lesson=lesson.id,
        before_id=parse_number(request.query, "before") or 1 << 62,  # above every id: the latest come first
        limit=_DELIVERIES_PER_PAGE + 1,  # one more tells whether there is another page
    )
    deliveries = latest[:_DELIVERIES_PER_PAGE]
    trigger = build_trigger(lesson)
    repeats = count_repeats(request.connection, {lesson.id: trigger}, deliveries)
    for delivery in deliveries:
        delivery["outcome"] = find_delivery_outcome(request.connection, delivery)
        delivery["repeats"] = repeats[delivery["id"]] if trigger else None
    changes = manifest.gather_lessons(request.home).waiting
    proof = build_lesson_proof(request.connection, lesson)
    arms = (("Told", proof.told_counts), ("Silent", proof.silent_counts), ("Before approval", proof.before_counts))
    values = {
        "title": lesson.summary[:100],
        "lesson": lesson,
        "fields": review_queue.describe_record(to_lesson_record(lesson)),
        "is_own": is_own,
        "seen": _fingerprint_lesson(lesson),
        "change": next((change for change in changes if change.id == lesson.id), None),
        "faults": validation.find_lesson_faults(lesson),
        "plot": plot_by_day(by_day, request.now, _PLOT_DAYS),
        "days": _PLOT_DAYS,
        "grade": describe_grade(proof),
        "proof_rows": [(name, describe_counts(counts)) for name, counts in arms if counts.total],
        "stepped_down_to": proof.stepped_down_to,
        "deliveries": deliveries,
        "older": deliveries[-1]["id"] if len(latest) > len(deliveries) else None,
    }
    return PageContent("lesson.html", values)


def _find_lesson(request: PageRequest) -> tuple[Lesson, bool]:
    """Return a lesson by its slug or id, and whether it is in the person's own file, where it can be changed."""
    name = request.path_params["slug"]
    for lesson in manifest.gather_lessons(request.home).lessons:
        if name in (lesson.slug, lesson.id):
            own_lessons = lessons_file.read_own(request.home).lessons
            return lesson, any(own_lesson.id == lesson.id for own_lesson in own_lessons)
    raise PageNotFound


def _find_own_lesson(request: PageRequest) -> Lesson:
    """Return a lesson that can be changed here; a repository's is changed in the repository."""
    lesson, is_own = _find_lesson(request)
    if not is_own:
        raise PageNotFound
    return lesson


def _require_seen_lesson(request: PageRequest) -> Lesson:
    """Return the lesson of a form; refuse if it is no longer as the person's page showed it."""
    lesson = _find_own_lesson(request)
    request.require_seen(_fingerprint_lesson(lesson), "lesson")
    return lesson


def _fingerprint_lesson(lesson: Lesson) -> str:
    """Return a text that changes with everything that a person sees of a lesson."""
    return f"{lesson.content_hash}{lesson.status}{lesson.updated_at}"


def show_lesson_editor(request: PageRequest) -> PageContent:
    return _build_lesson_editor(request, _find_own_lesson(request))


def _build_lesson_editor(
    request: PageRequest, lesson: Lesson, error: UserError | None = None, *, is_asked: bool = False
) -> PageContent:
    return _build_editor(
        request,
        f"/lessons/{lesson.slug}",
        to_lesson_record(lesson),
        fingerprint=_fingerprint_lesson(lesson),
        button="Save",
        error=error,
        is_asked=is_asked,
    )


def _build_editor(
    request: PageRequest,
    location: str,
    record: Mapping[str, Any],
    *,
    fingerprint: str,
    button: str,
    error: UserError | None,
    is_asked: bool,
) -> PageContent:
    """Build the form for a record, with what was typed before if it was refused.

    Without a fingerprint it is the form for a new lesson. `is_asked` tells that the person must confirm the change.
    """
    values = {
        "title": f"Edit {record['summary']}"[:100] if fingerprint else "New lesson",
        "call": request.form.get("call", request.query.get("call", "")),
        "kinds": _FIELD_KINDS,
        "deliveries": DELIVERY_MODES,
        "typed": {name: request.form.get(name, _format_field(record, name)) for name in _FIELD_KINDS},
        "seen": fingerprint,
        "action": f"{location}/edit",
        "back": location if fingerprint else "/lessons",
        "done": button,
        "wrong": error,
        "asks": is_asked,
    }
    return PageContent("edit.html", values, 422 if error else 200)


def show_new_lesson(request: PageRequest) -> PageContent:
    """Show the form for a new lesson, filled in from a failed call if the address names one."""
    return _build_new_editor(request)


def add_new_lesson(request: PageRequest) -> PageContent | Redirect:
    """Add the typed lesson, which is in force at once; show the form again if it is refused."""
    record = _build_new_record(request)
    try:
        typed_record = {**record, **find_changed_fields(record, request.form)}
        lesson = add_lesson(request.open_decider(), typed_record)
    except UserError as error:
        return _build_new_editor(request, error)
    return Redirect(f"/lessons/{lesson.slug}", f"In force as a {lesson.delivery}.")


def _build_new_editor(request: PageRequest, error: UserError | None = None) -> PageContent:
    record = _build_new_record(request)
    return _build_editor(request, "/lessons/new", record, fingerprint="", button="Add", error=error, is_asked=False)


def _build_new_record(request: PageRequest) -> dict[str, Any]:
    """Return an empty record, or one that describes the failed call and leaves the fix to the person."""
    record: dict[str, Any] = {"summary": "", "problem": "", "solution": "", "delivery": "hold", "triggers": {}}
    call_id = parse_number(request.form or request.query, "call")
    if call_id is None:
        return record
    call = views.read_call(request.connection, call_id)
    if call is None:
        return record
    subject = " ".join(describe_input(call["input"]).split())
    message, _ = describe_failure(call)
    record["problem"] = f"`{subject[:120]}` fails: {message}"
    record["summary"] = record["problem"][:120]
    record["toolNames"] = [call["tool"]]
    if call["tool"] == SHELL_TOOL:
        # The program and its first two words, which the person narrows or widens.
        first_words = [re.escape(word) for word in subject.split()[:3]]
        record["commandPatterns"] = [r"\b" + r"\s+".join(first_words)]
    return record


def save_lesson(request: PageRequest) -> PageContent | Redirect:
    """Write the changed fields; show the form again if they are refused, or if the person must confirm them."""
    lesson = _require_seen_lesson(request)
    confirmation = Confirmation(request.form)
    try:
        changes = find_changed_fields(to_lesson_record(lesson), request.form)
        if changes:
            edit_lesson(request.open_decider(), lesson, changes, confirm=confirmation)
    except UserError as error:
        return _build_lesson_editor(request, lesson, error, is_asked=confirmation.is_asked)
    return Redirect(f"/lessons/{lesson.slug}", "Changed, and in force." if changes else "Nothing was changed.")


def retire(request: PageRequest) -> Redirect:
    lesson = _require_seen_lesson(request)
    retire_lesson(request.open_decider(), lesson)
    return Redirect(f"/lessons/{lesson.slug}", "Retired. It stays in the file, and you can restore it.")


def restore(request: PageRequest) -> Redirect:
    lesson = _require_seen_lesson(request)
    restore_lesson(request.open_decider(), lesson)
    return Redirect(f"/lessons/{lesson.slug}", f"In force as a {lesson.delivery}.")


def show_candidate(request: PageRequest) -> PageContent:
    return _build_candidate_page(request, _find_candidate(request))


def show_candidate_editor(request: PageRequest) -> PageContent:
    return _build_candidate_editor(request, _find_candidate(request))


def accept(request: PageRequest) -> PageContent | Redirect:
    return _accept_candidate(request, _require_seen_candidate(request), changes={})


def accept_suggested_wording(request: PageRequest) -> PageContent | Redirect:
    """Accept a candidate with the wording that a model suggested."""
    candidate = _require_seen_candidate(request)
    judgement = list_latest_judgements(request.connection).get(candidate.number)
    changes = review_queue.extract_rewording(candidate, judgement)
    if not changes:
        raise UserError("no suggested rewording for this candidate", "accept it as it is, or edit it")
    return _accept_candidate(request, candidate, changes)


def accept_with_edits(request: PageRequest) -> PageContent | Redirect:
    """Accept a candidate with the fields that the person changed."""
    candidate = _require_seen_candidate(request)
    try:
        changes = find_changed_fields(candidate.record, request.form)
    except UserError as error:
        return _build_candidate_editor(request, candidate, error)
    return _accept_candidate(request, candidate, changes, is_edit=True)


def reject(request: PageRequest) -> Redirect:
    """Reject a candidate, and go on to the next item of the inbox."""
    candidate = _require_seen_candidate(request)
    next_location = find_next_path(request, f"/review/{candidate.number}")  # while it is still in the inbox
    reject_candidate(request.open_decider(), candidate)
    # Undo is per browser: what somebody decided at a terminal meanwhile is not touched by it.
    request.browser_session.decided_ids.append(candidate.id)
    return Redirect(next_location, f"Rejected: {candidate.slug}. Later scans will not propose it again.")


def undo_last_decision(request: PageRequest) -> Redirect:
    """Undo the last decision that was made in this browser."""
    if not request.browser_session.decided_ids:
        raise UserError("nothing to undo")
    candidate = undo_decision(request.open_decider(), request.browser_session.decided_ids.pop())
    return Redirect(f"/review/{candidate.number}", f"Undone: {candidate.slug}")


def _accept_candidate(
    request: PageRequest, candidate: Candidate, changes: dict[str, Any], *, is_edit: bool = False
) -> PageContent | Redirect:
    """Accept a candidate and go on to the next item; if it is refused, show the page again that was sent.

    `is_edit` tells that this was the form with all fields, not the candidate's page.
    """
    next_location = find_next_path(request, f"/review/{candidate.number}")
    confirmation = Confirmation(request.form)
    try:
        lesson = accept_candidate(request.open_decider(), candidate, changes, confirm=confirmation)
    except UserError as error:
        build_page = _build_candidate_editor if is_edit else _build_candidate_page
        return build_page(request, candidate, error, is_asked=confirmation.is_asked)
    request.browser_session.decided_ids.append(candidate.id)
    return Redirect(next_location, f"In force as a {lesson.delivery}: {lesson.slug}")


def _find_candidate(request: PageRequest) -> Candidate:
    """Return the candidate with the number in the path."""
    number = request.get_number()
    candidate = review_queue.find_in_queue(request.home, request.connection, str(number))
    if candidate is None or candidate.number != number:  # the name may also have matched a slug or an id
        raise PageNotFound
    return candidate


def _require_seen_candidate(request: PageRequest) -> Candidate:
    """Return the candidate of a form; refuse if it changed since, or is decided already."""
    candidate = _find_candidate(request)
    request.require_seen(_fingerprint_candidate(candidate), "candidate")
    if candidate.status != "candidate":
        raise UserError(f"candidate {candidate.number} was already decided: {candidate.status}")
    return candidate


def _fingerprint_candidate(candidate: Candidate) -> str:
    """Return a fingerprint of what the person decides about, without the evidence that a later scan may add."""
    fields = dict(candidate.record)
    fields.pop("evidence", None)
    fields.pop("sourceSessionIds", None)
    return fingerprint_values(candidate.id, json.dumps(fields, sort_keys=True))


def _build_candidate_page(
    request: PageRequest, candidate: Candidate, error: UserError | None = None, *, is_asked: bool = False
) -> PageContent:
    """Build the page of a candidate, with its faults and what it would have done in the recorded calls.

    `error` is why it was not accepted, and `is_asked` tells that the person must confirm it.
    """
    judgement = list_latest_judgements(request.connection).get(candidate.number)
    evidence = review_queue.group_evidence(candidate.record.get("evidence", ()))
    values = {
        "title": f"Candidate {candidate.number}",
        "proposal": candidate,
        "proposed": review_queue.is_proposed_by_agent(candidate),
        "figures": review_queue.describe_figures(candidate.parts) if "repeats" in candidate.parts else "",
        "seen": _fingerprint_candidate(candidate),
        "place": find_place(request, f"/review/{candidate.number}"),
        "may_undo": bool(request.browser_session.decided_ids),
        "calls": review_queue.find_calls(request.connection, candidate),
        "scope": review_queue.describe_scope(candidate.record),
        "delivery": review_queue.describe_delivery(candidate.record),
        "fields": review_queue.describe_record(candidate.record),
        "judgement": judgement,
        "rewording": review_queue.extract_rewording(candidate, judgement),
        "replay": replay_record(request.connection, candidate.record, limit=MAX_REPLAYED_CALLS),
        "replayed_calls": MAX_REPLAYED_CALLS,
        "similar": review_queue.find_similar_lesson(request.home, candidate),
        "faults": adding.find_record_faults(build_accepted_record(candidate)),
        "evidence": evidence[:_MAX_EVIDENCE],
        "more_evidence": len(evidence[_MAX_EVIDENCE:]),
        "wrong": error,
        "asks": is_asked,
    }
    return PageContent("candidate.html", values, 422 if error else 200)


def _build_candidate_editor(
    request: PageRequest, candidate: Candidate, error: UserError | None = None, *, is_asked: bool = False
) -> PageContent:
    return _build_editor(
        request,
        f"/review/{candidate.number}",
        candidate.record,
        fingerprint=_fingerprint_candidate(candidate),
        button="Accept with these changes",
        error=error,
        is_asked=is_asked,
    )


def find_changed_fields(record: Mapping[str, Any], form: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields that a person changed, as the record has them; None for one that was emptied.

    The form shows text with hidden characters replaced, so a field counts as changed only if it differs from what was
    shown; the others keep what they hold.
    """
    changes: dict[str, Any] = {}
    for name in _FIELD_KINDS:
        if name not in form:
            continue
        typed_text = form[name].replace("\r\n", "\n").strip("\n")
        shown_text = sanitize_value(_format_field(record, name)).strip("\n")
        if typed_text != shown_text:
            changes[name] = _parse_field(record, name, typed_text)
    return changes


def _get_field(record: Mapping[str, Any], name: str) -> Any:
    """Return a field of a record, or of its triggers; None if neither has it."""
    return record.get(name, record["triggers"].get(name))


def _format_field(record: Mapping[str, Any], name: str) -> str:
    """Return a field as the form shows it: lists line by line, a scope as its folder."""
    value = _get_field(record, name)
    if value is None:
        return ""
    if _FIELD_KINDS[name] == "lines":
        return "\n".join(map(_format_item, value))
    if name == "scope":
        return str(value.get("path", "")) if isinstance(value, dict) else ""
    return str(value)


def _format_item(item: Any) -> str:
    """Write a pattern with flags as in the file: {"source": …, "flags": …}."""
    return item if isinstance(item, str) else json.dumps(item, ensure_ascii=False)


def _parse_field(record: Mapping[str, Any], name: str, text: str) -> Any:
    """Return a field of the form as a record has it; UserError if a number is none.

    An empty text is an empty list for a field of lines, every folder for the folder, and None for any other.
    """
    kind = _FIELD_KINDS[name]
    if kind == "lines":
        # The form shows an item with its hidden characters replaced; a line that was not edited keeps the item itself.
        original_items = {sanitize_value(_format_item(item)): item for item in _get_field(record, name) or ()}
        lines = [line for line in text.split("\n") if line.strip()]
        return [original_items.get(line, _parse_pattern(line)) for line in lines]
    if kind == "folder":
        return {"type": "project", "path": text} if text.strip() else {"type": "global"}
    if kind == "number":
        try:
            return int(text)
        except ValueError:
            raise UserError(f"{name} is {text[:40]!r}, not a whole number", "a number from 1 to 10") from None
    return text or None


def _parse_pattern(line: str) -> Any:
    """Return a pattern with flags as an object, any other line as it is."""
    if not line.lstrip().startswith('{"source"'):
        return line
    try:
        return json.loads(line)
    except ValueError:  # a pattern may begin like this
        return line
