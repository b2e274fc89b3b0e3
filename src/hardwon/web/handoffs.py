"""Handoffs: what sessions leave for the next. A draft is read, amended, ratified or discarded; nothing is written
before what would be written was seen."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup, escape

from hardwon import paths, settings
from hardwon.actions import handoffs as actions
from hardwon.errors import UserError
from hardwon.handoff import handoffs, ratification
from hardwon.handoff.handoffs import FINDINGS_HEADING, RESUME_HEADING
from hardwon.privacy.cleaning import clean_text
from hardwon.store import reflections, views
from hardwon.store.approvals import VIEWER
from hardwon.store.reflections import DRAFT, RATIFIED, STATUSES, Reflection
from hardwon.text.printable import make_printable, to_printable_line
from hardwon.web import file_changes, lesson_form
from hardwon.web.file_changes import FileChange
from hardwon.web.page_request import NOT_FOUND, PageContent, PageRequest, Redirect, parse_number

PAGE_SIZE = 100
_MAKER_TEXTS = {"plain": "plain code", "model": "a model", "person": "a person"}


def show_handoff_list(request: PageRequest) -> PageContent:
    """The handoffs of one state, newest first."""
    status = request.query.get("status", DRAFT)
    status = status if status in STATUSES else DRAFT
    counts = views.count_handoffs(request.connection)
    project = request.query.get("project", "")
    matched_reflections = reflections.list_reflections(
        request.connection, status, project=project or None, limit=PAGE_SIZE
    )
    values = {
        "title": "Handoffs",
        "status": status,
        "counts": {
            item: sum(count for (row_status, _), count in counts.items() if row_status == item) for item in STATUSES
        },
        "project": project,
        "projects": sorted({path for _, path in counts if path}),
        "handoffs": [_build_row(item) for item in matched_reflections],
        "most": PAGE_SIZE if len(matched_reflections) == PAGE_SIZE else 0,
    }
    return PageContent("handoffs.html", values)


def _build_row(reflection: Reflection) -> dict[str, Any]:
    page = handoffs.read_page(reflection)
    topic, confidence = (page.topic, page.confidence) if page else (reflection.topic, reflection.confidence)
    return {"known": reflection, "topic": topic, "confidence": confidence, "fault": _describe_fault(reflection, page)}


def _describe_fault(reflection: Reflection, page: handoffs.HandoffPage | None) -> str:
    if reflection.status in (DRAFT, RATIFIED) and page is None:
        return "its file is gone"
    return "edited since it was ratified" if page and page.is_edited else ""


def show_handoff(request: PageRequest) -> PageContent:
    """One handoff as its file says it now, what to say to the next session first."""
    reflection = _find_reflection(request)
    if reflection is None:
        return NOT_FOUND
    page = handoffs.read_page(reflection)
    row = _build_row(reflection)
    sections = dict(page.sections) if page else {}
    values = {
        **row,
        "title": to_printable_line(row["topic"], 100) or f"Handoff {reflection.id}",
        "page": page,
        "resume": sections.pop(RESUME_HEADING, ""),
        "sections": sections or ({"Text": page.text} if page and not page.sections else {}),
        "findings": [
            finding for finding in reflection.findings if f"**{finding.item}**" in sections.get(FINDINGS_HEADING, "")
        ],
        "where_findings": FINDINGS_HEADING,
        "maker": _MAKER_TEXTS.get(reflection.kind, reflection.kind),
        "session": views.find_session_number(request.connection, reflection.session, reflection.host),
    }
    return PageContent("handoff.html", values)


def confirm_ratify(request: PageRequest) -> PageContent:
    reflection = _find_reflection(request)
    return (
        NOT_FOUND
        if reflection is None or not _can_ratify(reflection)
        else _build_ratify_confirmation(request, reflection)
    )


def _can_ratify(reflection: Reflection) -> bool:
    page = handoffs.read_page(reflection)
    return page is not None and (reflection.status == DRAFT or page.is_edited)


def ratify(request: PageRequest) -> PageContent | Redirect:
    reflection = _require_reflection(request)
    changes, _ = file_changes.plan_ratification(request, reflection)
    if not file_changes.is_agreed(request, reflection, changes):
        return _build_ratify_confirmation(request, reflection)
    result = actions.ratify_handoff(
        request.connection, request.home, reflection, VIEWER, request.now, should_commit=_should_commit(request)
    )
    file_changes.refresh_brief(request, reflection.project)
    return Redirect(f"/handoffs/{reflection.id}", "\n".join(ratification.describe_result(result)))


def _should_commit(request: PageRequest) -> bool:
    return bool(settings.resolve_settings(settings.read_config(request.home)).get("handoffCommit"))


def _build_ratify_confirmation(request: PageRequest, reflection: Reflection) -> PageContent:
    changes, notes = file_changes.plan_ratification(request, reflection)
    if _should_commit(request):
        notes = [*notes, "Then just these files become one git commit, which is not pushed."]
    return _build_confirmation(request, reflection, changes, verb="ratify", button_label="Ratify", notes=notes)


def show_editor(request: PageRequest) -> PageContent:
    reflection = _find_reflection(request)
    return (
        NOT_FOUND
        if reflection is None or _read_amendable_text(reflection) is None
        else _build_editor(request, reflection)
    )


def _read_amendable_text(reflection: Reflection) -> str | None:
    """What its file holds, if that may be changed here."""
    return handoffs.read_page_text(reflection.draft) if reflection.status in (DRAFT, RATIFIED) else None


def save_changes(request: PageRequest) -> PageContent | Redirect:
    """Write what was typed, once it was seen; of what is ratified already it counts at once."""
    reflection = _require_reflection(request)
    current_text = _read_amendable_text(reflection)
    if current_text is None:
        raise UserError(f"its file is gone or cannot be changed: {reflection.draft}", "hardwon handoff list")
    text = clean_text(lesson_form.merge_edited_text(request.form.get("text", ""), current_text))
    if len(text.encode("utf-8", "replace")) > handoffs.MAX_FILE_BYTES:
        return _build_editor(
            request, reflection, UserError(f"a handoff has at most {handoffs.MAX_FILE_BYTES:,} bytes", "say less")
        )
    changes = [FileChange(reflection.draft, current_text, text)]
    if text == current_text:
        return Redirect(f"/handoffs/{reflection.id}", "Nothing was changed.")
    if not file_changes.is_agreed(request, reflection, changes):
        return _build_confirmation(
            request, reflection, changes, verb="amend", button_label="Write it", text=request.form.get("text", "")
        )
    paths.write_document(request.home, reflection.draft, text)
    page = handoffs.read_page(reflection)
    if page and page.is_edited:
        actions.ratify_handoff(request.connection, request.home, reflection, VIEWER, request.now)
    file_changes.refresh_brief(request, reflection.project)
    message = (
        "Changed, and told from now on." if reflection.status == RATIFIED else "Changed. It waits for you to ratify it."
    )
    return Redirect(f"/handoffs/{reflection.id}", message)


def confirm_discard(request: PageRequest) -> PageContent:
    reflection = _find_reflection(request)
    return (
        NOT_FOUND
        if reflection is None or reflection.status != DRAFT
        else _build_discard_confirmation(request, reflection)
    )


def discard(request: PageRequest) -> PageContent | Redirect:
    reflection = _require_reflection(request)
    if not file_changes.is_agreed(request, reflection, _plan_discard(reflection)):
        return _build_discard_confirmation(request, reflection)
    ratification.discard(request.connection, reflection, request.now)
    file_changes.refresh_brief(request, reflection.project)
    return Redirect("/handoffs", f"Discarded: handoff {reflection.id}.")


def _plan_discard(reflection: Reflection) -> list[FileChange]:
    current_text = handoffs.read_page_text(reflection.draft)
    return [] if current_text is None else [FileChange(reflection.draft, current_text, None)]


def _build_discard_confirmation(request: PageRequest, reflection: Reflection) -> PageContent:
    notes = ["The memories that it proposed wait on."]
    return _build_confirmation(
        request, reflection, _plan_discard(reflection), verb="discard", button_label="Discard", notes=notes
    )


def _find_reflection(request: PageRequest) -> Reflection | None:
    number = parse_number(request.path_params, "number")
    return None if number is None else reflections.get(request.connection, number)


def _require_reflection(request: PageRequest) -> Reflection:
    reflection = _find_reflection(request)
    if reflection is None:
        raise UserError("there is no such handoff", "hardwon handoff list")
    return reflection


def _build_editor(request: PageRequest, reflection: Reflection, error: UserError | None = None) -> PageContent:
    text = request.form.get("text") or make_printable(handoffs.read_page_text(reflection.draft) or "")
    values = {
        "title": f"Amend handoff {reflection.id}",
        "label": reflection.draft,
        "hint": "Take out what is wrong: a finding or a memory whose line is gone does not count as kept.",
        "text": Markup(escape(make_printable(text))),  # whole: what is cut on its way out could not come back
        "seen": "",
        "action": f"/handoffs/{reflection.id}/amend",
        "back": f"/handoffs/{reflection.id}",
        "done": "Show what changes",
        "wrong": error,
    }
    return PageContent("text.html", values, 422 if error else 200)


def _build_confirmation(
    request: PageRequest,
    reflection: Reflection,
    changes: list[FileChange],
    *,
    verb: str,
    button_label: str,
    notes: list[str] | None = None,
    text: str | None = None,
) -> PageContent:
    """What would be written, and a button that says yes to just that."""
    is_stale = "agreed" in request.form
    values = {
        "title": f"{button_label} handoff {reflection.id}" if verb != "amend" else f"Amend handoff {reflection.id}",
        "changes": file_changes.describe_changes(changes),
        "says": notes or [],
        "sent": {"agreed": file_changes.fingerprint_values(reflection, *changes)},
        "text": None if text is None else Markup(escape(make_printable(text))),
        "action": f"/handoffs/{reflection.id}/{verb}",
        "back": f"/handoffs/{reflection.id}",
        "done": button_label,
        "wrong": UserError("the files say something else by now", "look at it again") if is_stale else None,
    }
    return PageContent("confirm.html", values, 409 if is_stale else 200)
