"""Handoffs: what sessions leave for the next. A draft is read, amended, ratified or discarded; nothing is written
before what would be written was seen."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup, escape

from hardwon import paths, settings
from hardwon.actions import handoffs as actions
from hardwon.errors import UserError
from hardwon.handoff import handoffs, ratification
from hardwon.handoff.handoffs import FINDINGS, RESUME
from hardwon.privacy.cleaning import clean
from hardwon.store import reflections, views
from hardwon.store.approvals import VIEWER
from hardwon.store.reflections import DRAFT, RATIFIED, STATUSES, Reflection
from hardwon.text.printable import in_line, printable
from hardwon.web import file_changes, lesson_form
from hardwon.web.file_changes import Change
from hardwon.web.page_request import GONE, Ask, Moved, Shown, number

PAGE = 100
_MAKERS = {"plain": "plain code", "model": "a model", "person": "a person"}


def page(ask: Ask) -> Shown:
    """The handoffs of one state, newest first."""
    status = ask.query.get("status", DRAFT)
    status = status if status in STATUSES else DRAFT
    counts = views.handoffs(ask.connection)
    project = ask.query.get("project", "")
    found = reflections.listed(ask.connection, status, project=project or None, limit=PAGE)
    values = {
        "title": "Handoffs",
        "status": status,
        "counts": {one: sum(times for (was, _), times in counts.items() if was == one) for one in STATUSES},
        "project": project,
        "projects": sorted({place for _, place in counts if place}),
        "handoffs": [_row(one) for one in found],
        "most": PAGE if len(found) == PAGE else 0,
    }
    return Shown("handoffs.html", values)


def _row(known: Reflection) -> dict[str, Any]:
    page = handoffs.page_of(known)
    topic, confidence = (page.topic, page.confidence) if page else (known.topic, known.confidence)
    return {"known": known, "topic": topic, "confidence": confidence, "fault": _fault(known, page)}


def _fault(known: Reflection, page: handoffs.Page | None) -> str:
    if known.status in (DRAFT, RATIFIED) and page is None:
        return "its file is gone"
    return "edited since it was ratified" if page and page.is_edited else ""


def one(ask: Ask) -> Shown:
    """One handoff as its file says it now, what to say to the next session first."""
    known = _known(ask)
    if known is None:
        return GONE
    page = handoffs.page_of(known)
    row = _row(known)
    sections = dict(page.sections) if page else {}
    values = {
        **row,
        "title": in_line(row["topic"], 100) or f"Handoff {known.id}",
        "page": page,
        "resume": sections.pop(RESUME, ""),
        "sections": sections or ({"Text": page.text} if page and not page.sections else {}),
        "findings": [one for one in known.findings if f"**{one.item}**" in sections.get(FINDINGS, "")],
        "where_findings": FINDINGS,
        "maker": _MAKERS.get(known.kind, known.kind),
        "session": views.number_of(ask.connection, known.session, known.host),
    }
    return Shown("handoff.html", values)


def ratifying(ask: Ask) -> Shown:
    known = _known(ask)
    return GONE if known is None or not _may_ratify(known) else _confirm_ratifying(ask, known)


def _may_ratify(known: Reflection) -> bool:
    page = handoffs.page_of(known)
    return page is not None and (known.status == DRAFT or page.is_edited)


def ratified(ask: Ask) -> Shown | Moved:
    known = _asked(ask)
    planned, _ = file_changes.of_ratifying(ask, known)
    if not file_changes.is_agreed(ask, known, planned):
        return _confirm_ratifying(ask, known)
    done = actions.ratify_handoff(ask.connection, ask.home, known, VIEWER, ask.now, commits=_commits(ask))
    file_changes.tell_anew(ask, known.project)
    return Moved(f"/handoffs/{known.id}", "\n".join(ratification.lines_of(done)))


def _commits(ask: Ask) -> bool:
    return bool(settings.resolve(settings.read_config(ask.home)).get("handoffCommit"))


def _confirm_ratifying(ask: Ask, known: Reflection) -> Shown:
    planned, says = file_changes.of_ratifying(ask, known)
    if _commits(ask):
        says = [*says, "Then just these files become one git commit, which is not pushed."]
    return _confirm(ask, known, planned, verb="ratify", done="Ratify", says=says)


def amend(ask: Ask) -> Shown:
    known = _known(ask)
    return GONE if known is None or _may_amend(known) is None else _editor(ask, known)


def _may_amend(known: Reflection) -> str | None:
    """What its file holds, if that may be changed here."""
    return handoffs.read(known.draft) if known.status in (DRAFT, RATIFIED) else None


def amended(ask: Ask) -> Shown | Moved:
    """Write what was typed, once it was seen; of what is ratified already it counts at once."""
    known = _asked(ask)
    held = _may_amend(known)
    if held is None:
        raise UserError(f"its file is gone or cannot be changed: {known.draft}", "hardwon handoff list")
    text = clean(lesson_form.typed(ask.form.get("text", ""), held))
    if len(text.encode("utf-8", "replace")) > handoffs.LARGEST:
        return _editor(ask, known, UserError(f"a handoff has at most {handoffs.LARGEST:,} bytes", "say less"))
    planned = [Change(known.draft, held, text)]
    if text == held:
        return Moved(f"/handoffs/{known.id}", "Nothing was changed.")
    if not file_changes.is_agreed(ask, known, planned):
        return _confirm(ask, known, planned, verb="amend", done="Write it", text=ask.form.get("text", ""))
    paths.write_page(ask.home, known.draft, text)
    page = handoffs.page_of(known)
    if page and page.is_edited:
        actions.ratify_handoff(ask.connection, ask.home, known, VIEWER, ask.now)
    file_changes.tell_anew(ask, known.project)
    said = "Changed, and told from now on." if known.status == RATIFIED else "Changed. It waits for you to ratify it."
    return Moved(f"/handoffs/{known.id}", said)


def discarding(ask: Ask) -> Shown:
    known = _known(ask)
    return GONE if known is None or known.status != DRAFT else _confirm_discarding(ask, known)


def discarded(ask: Ask) -> Shown | Moved:
    known = _asked(ask)
    if not file_changes.is_agreed(ask, known, _gone(known)):
        return _confirm_discarding(ask, known)
    ratification.discard(ask.connection, known, ask.now)
    file_changes.tell_anew(ask, known.project)
    return Moved("/handoffs", f"Discarded: handoff {known.id}.")


def _gone(known: Reflection) -> list[Change]:
    held = handoffs.read(known.draft)
    return [] if held is None else [Change(known.draft, held, None)]


def _confirm_discarding(ask: Ask, known: Reflection) -> Shown:
    says = ["The memories that it proposed wait on."]
    return _confirm(ask, known, _gone(known), verb="discard", done="Discard", says=says)


def _known(ask: Ask) -> Reflection | None:
    known = number(ask.path, "number")
    return None if known is None else reflections.get(ask.connection, known)


def _asked(ask: Ask) -> Reflection:
    known = _known(ask)
    if known is None:
        raise UserError("there is no such handoff", "hardwon handoff list")
    return known


def _editor(ask: Ask, known: Reflection, wrong: UserError | None = None) -> Shown:
    text = ask.form.get("text") or printable(handoffs.read(known.draft) or "")
    values = {
        "title": f"Amend handoff {known.id}",
        "label": known.draft,
        "hint": "Take out what is wrong: a finding or a memory whose line is gone does not count as kept.",
        "text": Markup(escape(printable(text))),  # whole: what is cut on its way out could not come back
        "seen": "",
        "action": f"/handoffs/{known.id}/amend",
        "back": f"/handoffs/{known.id}",
        "done": "Show what changes",
        "wrong": wrong,
    }
    return Shown("text.html", values, 422 if wrong else 200)


def _confirm(
    ask: Ask,
    known: Reflection,
    planned: list[Change],
    *,
    verb: str,
    done: str,
    says: list[str] | None = None,
    text: str | None = None,
) -> Shown:
    """What would be written, and a button that says yes to just that."""
    is_stale = "agreed" in ask.form
    values = {
        "title": f"{done} handoff {known.id}" if verb != "amend" else f"Amend handoff {known.id}",
        "changes": file_changes.shown(planned),
        "says": says or [],
        "sent": {"agreed": file_changes.print_of(known, *planned)},
        "text": None if text is None else Markup(escape(printable(text))),
        "action": f"/handoffs/{known.id}/{verb}",
        "back": f"/handoffs/{known.id}",
        "done": done,
        "wrong": UserError("the files say something else by now", "look at it again") if is_stale else None,
    }
    return Shown("confirm.html", values, 409 if is_stale else 200)
