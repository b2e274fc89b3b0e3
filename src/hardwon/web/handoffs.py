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
_MAKERS = {"plain": "plain code", "model": "a model", "person": "a person"}


def show_handoff_list(ask: PageRequest) -> PageContent:
    """The handoffs of one state, newest first."""
    status = ask.query.get("status", DRAFT)
    status = status if status in STATUSES else DRAFT
    counts = views.count_handoffs(ask.connection)
    project = ask.query.get("project", "")
    found = reflections.list_reflections(ask.connection, status, project=project or None, limit=PAGE_SIZE)
    values = {
        "title": "Handoffs",
        "status": status,
        "counts": {one: sum(times for (was, _), times in counts.items() if was == one) for one in STATUSES},
        "project": project,
        "projects": sorted({place for _, place in counts if place}),
        "handoffs": [_row(one) for one in found],
        "most": PAGE_SIZE if len(found) == PAGE_SIZE else 0,
    }
    return PageContent("handoffs.html", values)


def _row(known: Reflection) -> dict[str, Any]:
    page = handoffs.read_page(known)
    topic, confidence = (page.topic, page.confidence) if page else (known.topic, known.confidence)
    return {"known": known, "topic": topic, "confidence": confidence, "fault": _fault(known, page)}


def _fault(known: Reflection, page: handoffs.HandoffPage | None) -> str:
    if known.status in (DRAFT, RATIFIED) and page is None:
        return "its file is gone"
    return "edited since it was ratified" if page and page.is_edited else ""


def show_handoff(ask: PageRequest) -> PageContent:
    """One handoff as its file says it now, what to say to the next session first."""
    known = _known(ask)
    if known is None:
        return NOT_FOUND
    page = handoffs.read_page(known)
    row = _row(known)
    sections = dict(page.sections) if page else {}
    values = {
        **row,
        "title": to_printable_line(row["topic"], 100) or f"Handoff {known.id}",
        "page": page,
        "resume": sections.pop(RESUME_HEADING, ""),
        "sections": sections or ({"Text": page.text} if page and not page.sections else {}),
        "findings": [one for one in known.findings if f"**{one.item}**" in sections.get(FINDINGS_HEADING, "")],
        "where_findings": FINDINGS_HEADING,
        "maker": _MAKERS.get(known.kind, known.kind),
        "session": views.find_session_number(ask.connection, known.session, known.host),
    }
    return PageContent("handoff.html", values)


def confirm_ratify(ask: PageRequest) -> PageContent:
    known = _known(ask)
    return NOT_FOUND if known is None or not _may_ratify(known) else _confirm_ratifying(ask, known)


def _may_ratify(known: Reflection) -> bool:
    page = handoffs.read_page(known)
    return page is not None and (known.status == DRAFT or page.is_edited)


def ratify(ask: PageRequest) -> PageContent | Redirect:
    known = _asked(ask)
    planned, _ = file_changes.plan_ratification(ask, known)
    if not file_changes.is_agreed(ask, known, planned):
        return _confirm_ratifying(ask, known)
    done = actions.ratify_handoff(ask.connection, ask.home, known, VIEWER, ask.now, should_commit=_commits(ask))
    file_changes.refresh_brief(ask, known.project)
    return Redirect(f"/handoffs/{known.id}", "\n".join(ratification.describe_result(done)))


def _commits(ask: PageRequest) -> bool:
    return bool(settings.resolve_settings(settings.read_config(ask.home)).get("handoffCommit"))


def _confirm_ratifying(ask: PageRequest, known: Reflection) -> PageContent:
    planned, says = file_changes.plan_ratification(ask, known)
    if _commits(ask):
        says = [*says, "Then just these files become one git commit, which is not pushed."]
    return _confirm(ask, known, planned, verb="ratify", done="Ratify", says=says)


def show_editor(ask: PageRequest) -> PageContent:
    known = _known(ask)
    return NOT_FOUND if known is None or _may_amend(known) is None else _editor(ask, known)


def _may_amend(known: Reflection) -> str | None:
    """What its file holds, if that may be changed here."""
    return handoffs.read_page_text(known.draft) if known.status in (DRAFT, RATIFIED) else None


def save_changes(ask: PageRequest) -> PageContent | Redirect:
    """Write what was typed, once it was seen; of what is ratified already it counts at once."""
    known = _asked(ask)
    held = _may_amend(known)
    if held is None:
        raise UserError(f"its file is gone or cannot be changed: {known.draft}", "hardwon handoff list")
    text = clean_text(lesson_form.merge_edited_text(ask.form.get("text", ""), held))
    if len(text.encode("utf-8", "replace")) > handoffs.MAX_FILE_BYTES:
        return _editor(ask, known, UserError(f"a handoff has at most {handoffs.MAX_FILE_BYTES:,} bytes", "say less"))
    planned = [FileChange(known.draft, held, text)]
    if text == held:
        return Redirect(f"/handoffs/{known.id}", "Nothing was changed.")
    if not file_changes.is_agreed(ask, known, planned):
        return _confirm(ask, known, planned, verb="amend", done="Write it", text=ask.form.get("text", ""))
    paths.write_document(ask.home, known.draft, text)
    page = handoffs.read_page(known)
    if page and page.is_edited:
        actions.ratify_handoff(ask.connection, ask.home, known, VIEWER, ask.now)
    file_changes.refresh_brief(ask, known.project)
    said = "Changed, and told from now on." if known.status == RATIFIED else "Changed. It waits for you to ratify it."
    return Redirect(f"/handoffs/{known.id}", said)


def confirm_discard(ask: PageRequest) -> PageContent:
    known = _known(ask)
    return NOT_FOUND if known is None or known.status != DRAFT else _confirm_discarding(ask, known)


def discard(ask: PageRequest) -> PageContent | Redirect:
    known = _asked(ask)
    if not file_changes.is_agreed(ask, known, _gone(known)):
        return _confirm_discarding(ask, known)
    ratification.discard(ask.connection, known, ask.now)
    file_changes.refresh_brief(ask, known.project)
    return Redirect("/handoffs", f"Discarded: handoff {known.id}.")


def _gone(known: Reflection) -> list[FileChange]:
    held = handoffs.read_page_text(known.draft)
    return [] if held is None else [FileChange(known.draft, held, None)]


def _confirm_discarding(ask: PageRequest, known: Reflection) -> PageContent:
    says = ["The memories that it proposed wait on."]
    return _confirm(ask, known, _gone(known), verb="discard", done="Discard", says=says)


def _known(ask: PageRequest) -> Reflection | None:
    known = parse_number(ask.path_params, "number")
    return None if known is None else reflections.get(ask.connection, known)


def _asked(ask: PageRequest) -> Reflection:
    known = _known(ask)
    if known is None:
        raise UserError("there is no such handoff", "hardwon handoff list")
    return known


def _editor(ask: PageRequest, known: Reflection, wrong: UserError | None = None) -> PageContent:
    text = ask.form.get("text") or make_printable(handoffs.read_page_text(known.draft) or "")
    values = {
        "title": f"Amend handoff {known.id}",
        "label": known.draft,
        "hint": "Take out what is wrong: a finding or a memory whose line is gone does not count as kept.",
        "text": Markup(escape(make_printable(text))),  # whole: what is cut on its way out could not come back
        "seen": "",
        "action": f"/handoffs/{known.id}/amend",
        "back": f"/handoffs/{known.id}",
        "done": "Show what changes",
        "wrong": wrong,
    }
    return PageContent("text.html", values, 422 if wrong else 200)


def _confirm(
    ask: PageRequest,
    known: Reflection,
    planned: list[FileChange],
    *,
    verb: str,
    done: str,
    says: list[str] | None = None,
    text: str | None = None,
) -> PageContent:
    """What would be written, and a button that says yes to just that."""
    is_stale = "agreed" in ask.form
    values = {
        "title": f"{done} handoff {known.id}" if verb != "amend" else f"Amend handoff {known.id}",
        "changes": file_changes.describe_changes(planned),
        "says": says or [],
        "sent": {"agreed": file_changes.fingerprint_values(known, *planned)},
        "text": None if text is None else Markup(escape(make_printable(text))),
        "action": f"/handoffs/{known.id}/{verb}",
        "back": f"/handoffs/{known.id}",
        "done": done,
        "wrong": UserError("the files say something else by now", "look at it again") if is_stale else None,
    }
    return PageContent("confirm.html", values, 409 if is_stale else 200)
