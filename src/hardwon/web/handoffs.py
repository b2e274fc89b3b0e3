"""The page Handoffs, where a person reads, amends, ratifies or discards drafts.

Every file change is shown before it is written.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from markupsafe import Markup, escape

from hardwon import paths, settings
from hardwon.actions.decisions import reject_proposal
from hardwon.actions.handoffs import ratify_handoff
from hardwon.errors import UserError
from hardwon.handoff import ratification
from hardwon.handoff.handoffs import (
    CONTRADICTIONS_HEADING,
    FINDINGS_HEADING,
    MAX_FILE_BYTES,
    RESUME_HEADING,
    HandoffPage,
    find_untold_reason,
    get_contradictions,
    read_page,
    read_page_text,
)
from hardwon.privacy.cleaning import clean_text
from hardwon.search import brief
from hardwon.store import views
from hardwon.store.reflections import DRAFT, RATIFIED, STATUSES, Reflection, get, list_reflections
from hardwon.text.characters import make_printable, to_printable_line
from hardwon.web.file_changes import FileChange, build_confirmation, is_agreed, plan_ratification
from hardwon.web.inbox import find_next_path, find_place
from hardwon.web.page_request import PageContent, PageNotFound, PageRequest, Redirect

_PAGE_SIZE = 100


def show_handoff_list(request: PageRequest) -> PageContent:
    """Show the handoffs of one status, newest first."""
    status = request.choose("status", (DRAFT, *STATUSES))
    project = request.query.get("project", "")
    counts_by_project = views.count_handoffs(request.connection)
    counts = Counter[str]()
    for (row_status, _), count in counts_by_project.items():
        counts[row_status] += count
    listed_handoffs = list_reflections(request.connection, status, project=project or None, limit=_PAGE_SIZE)
    values = {
        "title": "Handoffs",
        "status": status,
        "counts": counts,
        "project": project,
        "projects": sorted({path for _, path in counts_by_project if path}),
        "handoffs": [_build_row(request, reflection, read_page(reflection)) for reflection in listed_handoffs],
        "most": _PAGE_SIZE if len(listed_handoffs) == _PAGE_SIZE else 0,
    }
    return PageContent("handoffs.html", values)


def _build_row(request: PageRequest, reflection: Reflection, page: HandoffPage | None) -> dict[str, Any]:
    """Return what a list shows of a handoff; without a page only what the database has, which has no contradictions.

    `fault` is why agents are not told it.
    """
    fault = find_untold_reason(request.connection, reflection, page)
    contradictions = get_contradictions(page) if page else []
    source = page or reflection
    return {
        "handoff": reflection,
        "topic": source.topic,
        "confidence": source.confidence,
        "fault": fault,
        "contradictions": contradictions,
    }


def show_handoff(request: PageRequest) -> PageContent:
    """Show a handoff as its file is now, the resume prompt first; without a file only what the database has of it.

    A person may have edited the file: a finding is shown if it still stands under its heading, and a file without
    sections is shown as one.
    """
    reflection = _find_reflection(request)
    page = read_page(reflection)
    row = _build_row(request, reflection, page)
    sections = dict(page.sections) if page else {}
    resume = sections.pop(RESUME_HEADING, "")
    sections.pop(CONTRADICTIONS_HEADING, "")  # shown above everything else
    if page and not page.sections:
        sections = {"Text": page.text}
    findings_text = sections.get(FINDINGS_HEADING, "")
    values = {
        **row,
        "title": to_printable_line(row["topic"], 100) or f"Handoff {reflection.id}",
        "page": page,
        "resume": resume,
        "sections": sections,
        "findings": [finding for finding in reflection.findings if f"**{finding.item}**" in findings_text],
        "findings_heading": FINDINGS_HEADING,
        "session": views.find_session_number(request.connection, reflection.session, reflection.host),
        "place": find_place(request, f"/handoffs/{reflection.id}"),
    }
    return PageContent("handoff.html", values)


def confirm_ratify(request: PageRequest) -> PageContent:
    """Show what ratifying would write; no page for a handoff that is ratified as its file is now, or decided."""
    reflection = _find_reflection(request)
    page = read_page(reflection)
    if page is None:
        raise PageNotFound
    if reflection.status != DRAFT and not page.is_edited:
        raise PageNotFound
    return _build_ratify_confirmation(request, reflection)


def ratify(request: PageRequest) -> PageContent | Redirect:
    """Ratify a handoff if the changes are still those that the person agreed to; else show them again."""
    reflection = _find_reflection(request)
    changes, _ = plan_ratification(request, reflection)
    if not is_agreed(request, reflection, changes):
        return _build_ratify_confirmation(request, reflection)
    result = ratify_handoff(request.open_decider(), reflection, should_commit=_should_commit(request))
    brief.renew_briefs(request.connection, request.home, reflection.project)
    return Redirect(f"/handoffs/{reflection.id}", "\n".join(ratification.describe_result(result)))


def _should_commit(request: PageRequest) -> bool:
    return bool(settings.resolve_settings(settings.read_config(request.home))["handoffCommit"])


def _build_ratify_confirmation(request: PageRequest, reflection: Reflection) -> PageContent:
    """Build the page that shows every file that ratifying would write, and asks whether to do it."""
    changes, notes = plan_ratification(request, reflection)
    if _should_commit(request):
        notes = [*notes, "These files then become one git commit, which is not pushed."]
    return build_confirmation(
        request,
        reflection,
        changes,
        title=f"Ratify H{reflection.id}",
        action=f"/handoffs/{reflection.id}/ratify",
        button="Ratify",
        notes=notes,
    )


def show_editor(request: PageRequest) -> PageContent:
    reflection = _find_reflection(request)
    return _build_editor(request, reflection, _read_amendable_text(reflection))


def _read_amendable_text(reflection: Reflection) -> str:
    """Return the text of a handoff's file; no page if it is gone, or if the handoff was discarded or replaced."""
    text = None
    if reflection.status in (DRAFT, RATIFIED):
        text = read_page_text(reflection.draft)
    if text is None:
        raise PageNotFound
    return text


def save_changes(request: PageRequest) -> PageContent | Redirect:
    """Write the amended text once the person saw the diff; a ratified handoff is ratified again with it."""
    reflection = _find_reflection(request)
    location = f"/handoffs/{reflection.id}"
    current_text = _read_amendable_text(reflection)
    typed_text = request.form.get("text", "")
    new_text = clean_text(_restore_unchanged_lines(typed_text, current_text))
    if new_text == current_text:
        return Redirect(location, "Nothing was changed.")
    if len(new_text.encode("utf-8", "replace")) > MAX_FILE_BYTES:
        error = UserError(f"a handoff has at most {MAX_FILE_BYTES:,} bytes", "shorten it")
        return _build_editor(request, reflection, typed_text, error)
    changes = [FileChange(reflection.draft, current_text, new_text)]
    if not is_agreed(request, reflection, changes):
        return build_confirmation(
            request,
            reflection,
            changes,
            title=f"Amend H{reflection.id}",
            action=f"{location}/amend",
            button="Write it",
            text=_escape_whole(typed_text),
        )
    # A page that was amended back to what was ratified counts again as it is; any other must be ratified anew.
    paths.write_document(request.home, reflection.draft, new_text)
    page = read_page(reflection)
    if page and page.is_edited:
        ratify_handoff(request.open_decider(), reflection)
    brief.renew_briefs(request.connection, request.home, reflection.project)
    is_ratified = reflection.status == RATIFIED
    return Redirect(location, "Changed and in use." if is_ratified else "Changed. The draft still needs review.")


def _restore_unchanged_lines(edited_text: str, current_text: str) -> str:
    """Keep lines that were not edited as they are in the file: the form showed their hidden characters replaced."""
    original_lines = dict[str, str]()
    for line in current_text.split("\n"):
        original_lines[line] = line
        original_lines[make_printable(line)] = line
    lines = edited_text.replace("\r\n", "\n").split("\n")
    return "\n".join(original_lines.get(line, make_printable(line)) for line in lines)


def confirm_discard(request: PageRequest) -> PageContent:
    reflection = _find_reflection(request)
    if reflection.status != DRAFT:
        raise PageNotFound
    return _build_discard_confirmation(request, reflection)


def discard(request: PageRequest) -> PageContent | Redirect:
    """Discard a draft once the person has confirmed what changes."""
    reflection = _find_reflection(request)
    if not is_agreed(request, reflection, _plan_discard(reflection)):
        return _build_discard_confirmation(request, reflection)
    # The next item of the inbox is looked up while this one is still in it.
    location = find_next_path(request, f"/handoffs/{reflection.id}")
    reject_proposal(request.open_decider(), f"H{reflection.id}")
    return Redirect(location, f"Discarded: H{reflection.id}.")


def _plan_discard(reflection: Reflection) -> list[FileChange]:
    """Return that the draft's file would be deleted; no change if it is gone."""
    current_text = read_page_text(reflection.draft)
    if current_text is None:
        return []
    return [FileChange(reflection.draft, old_text=current_text, new_text=None)]


def _build_discard_confirmation(request: PageRequest, reflection: Reflection) -> PageContent:
    return build_confirmation(
        request,
        reflection,
        _plan_discard(reflection),
        title=f"Discard H{reflection.id}",
        action=f"/handoffs/{reflection.id}/discard",
        button="Discard",
        notes=["The memories that it proposed stay in the queue."],
    )


def _find_reflection(request: PageRequest) -> Reflection:
    reflection = get(request.connection, request.get_number())
    if reflection is None:
        raise PageNotFound
    return reflection


def _build_editor(
    request: PageRequest, reflection: Reflection, text: str, error: UserError | None = None
) -> PageContent:
    """Build the form for a handoff's text; `error` is why what was typed before was refused."""
    values = {
        "title": f"Amend H{reflection.id}",
        "label": reflection.draft,
        "hint": "Remove what is wrong: findings and memories whose lines you delete are not kept.",
        "text": _escape_whole(text),
        "seen": "",
        "action": f"/handoffs/{reflection.id}/amend",
        "back": f"/handoffs/{reflection.id}",
        "done": "Show changes",
        "wrong": error,
    }
    return PageContent("text.html", values, 422 if error else 200)


def _escape_whole(text: str) -> Markup:
    """Escape a text that a form sends back; as Markup it is not cut, so that nothing of it is lost."""
    return Markup(escape(make_printable(text)))
