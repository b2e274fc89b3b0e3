"""Lessons: those in force, proposed and retired; one of them with what became of its deliveries."""

from __future__ import annotations

from typing import Any

from hardwon.actions import candidates as deciding
from hardwon.actions import lessons as actions
from hardwon.errors import UserError
from hardwon.lessons import delivery_outcomes, manifest, review_queue, validation
from hardwon.lessons import lessons_file as shelves
from hardwon.lessons import record as records
from hardwon.store import injections, views
from hardwon.store.approvals import VIEWER
from hardwon.types import STATUSES, Lesson
from hardwon.web import lesson_form, plots, trigger_check
from hardwon.web.page_request import NOT_FOUND, PageContent, PageRequest, Redirect, parse_number

PAGE_SIZE, DELIVERIES_PER_PAGE = 200, 25
PLOT_DAYS = 90


def show_lesson_list(request: PageRequest) -> PageContent:
    """The lessons of one status, highest priority first."""
    selected_status = request.query.get("status", "active")
    selected_status = selected_status if selected_status in STATUSES else "active"
    all_lessons, _, changes = manifest.gather_lessons(request.home)
    counts = {status: sum(lesson.status == status for lesson in all_lessons) for status in STATUSES}
    selected_lessons = sorted(
        (selected for selected in all_lessons if selected.status == selected_status),
        key=lambda selected: (-selected.priority, selected.slug),
    )
    start = min(parse_number(request.query, "from") or 0, len(selected_lessons))
    delivered = injections.count_by_lesson(request.connection)
    values = {
        "title": "Lessons",
        "status": selected_status,
        "counts": counts,
        "waiting": len(review_queue.list_waiting(request.home, request.connection)),
        "changes": changes,
        "lessons": [
            (selected, *delivered.get(selected.id, (0, None)))
            for selected in selected_lessons[start : start + PAGE_SIZE]
        ],
        "further": start + PAGE_SIZE if len(selected_lessons) > start + PAGE_SIZE else None,
    }
    return PageContent("lessons.html", values)


def show_lesson(request: PageRequest) -> PageContent:
    lesson, is_own = _find_lesson(request)
    if lesson is None:
        return NOT_FOUND
    since = plots.find_range_start(request.now, PLOT_DAYS)
    by_day = views.count_lesson_by_day(request.connection, lesson.id, since)
    latest = views.list_lesson_deliveries(
        request.connection,
        lesson=lesson.id,
        before_id=parse_number(request.query, "before") or 1 << 62,
        limit=DELIVERIES_PER_PAGE + 1,
    )
    values = {
        "title": lesson.summary[:100],
        "lesson": lesson,
        "told": deciding.describe_record(records.to_lesson_record(lesson)),
        "is_own": is_own,
        "seen": _fingerprint_lesson(lesson),
        "change": next((change for change in manifest.gather_lessons(request.home)[2] if change.id == lesson.id), None),
        "faults": validation.find_lesson_faults(lesson),
        "plot": plots.plot_by_day(by_day, request.now, PLOT_DAYS),
        "days": PLOT_DAYS,
        "deliveries": _add_outcomes(request, lesson, latest[:DELIVERIES_PER_PAGE]),
        "older": latest[DELIVERIES_PER_PAGE - 1]["id"] if len(latest) > DELIVERIES_PER_PAGE else None,
    }
    return PageContent("lesson.html", values)


def _add_outcomes(request: PageRequest, lesson: Lesson, deliveries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each delivery with the call that came next, and how often the same went wrong all the same."""
    trigger = trigger_check.build_trigger(lesson)
    repeats = trigger_check.count_repeats(request.connection, {lesson.id: trigger}, deliveries)
    return [
        {
            **delivery,
            "followed": delivery_outcomes.find_delivery_outcome(request.connection, delivery),
            "repeats": repeats[delivery["id"]] if trigger else None,
        }
        for delivery in deliveries
    ]


def _find_lesson(request: PageRequest) -> tuple[Lesson | None, bool]:
    """A lesson by its slug or id, and whether it is in the person's own file, where it can be changed."""
    name = request.path_params["slug"]
    own_ids = {lesson.id for lesson in shelves.read(shelves.get_lessons_path(request.home)).lessons}
    matched_lesson = next(
        (lesson for lesson in manifest.gather_lessons(request.home)[0] if name in (lesson.slug, lesson.id)), None
    )
    return matched_lesson, matched_lesson is not None and matched_lesson.id in own_ids


def show_editor(request: PageRequest) -> PageContent:
    lesson, is_own = _find_lesson(request)
    return _build_editor(request, lesson) if lesson and is_own else NOT_FOUND


def save_changes(request: PageRequest) -> PageContent | Redirect:
    lesson, questions = _require_own_lesson(request), list[str]()

    def confirm(question: str) -> bool:
        questions.append(question)
        return request.form.get("confirm") == "yes"

    try:
        changed_fields = lesson_form.find_changed_fields(records.to_lesson_record(lesson), request.form)
        if changed_fields:
            actions.edit_lesson(request.home, request.connection, lesson, changed_fields, VIEWER, confirm=confirm)
    except UserError as error:
        return _build_editor(request, lesson, error, needs_confirmation=bool(questions))
    return Redirect(f"/lessons/{lesson.slug}", "Changed, and in force." if changed_fields else "Nothing was changed.")


def retire(request: PageRequest) -> Redirect:
    lesson = _require_own_lesson(request)
    actions.retire_lesson(request.home, request.connection, lesson)
    return Redirect(f"/lessons/{lesson.slug}", "Retired. It stays in the file, and can be put in force again.")


def restore(request: PageRequest) -> Redirect:
    lesson = _require_own_lesson(request)
    actions.restore_lesson(request.home, request.connection, lesson, VIEWER)
    return Redirect(f"/lessons/{lesson.slug}", f"In force as a {lesson.delivery}.")


def _require_own_lesson(request: PageRequest) -> Lesson:
    """The lesson as the person saw it, if it is theirs to change."""
    lesson, is_own = _find_lesson(request)
    if lesson is None or not is_own:
        raise UserError("there is no such lesson in lessons.json", "hardwon lessons list")
    if request.form.get("seen") != _fingerprint_lesson(lesson):
        raise UserError("the lesson says something else by now", "look at it again before you decide")
    return lesson


def _fingerprint_lesson(lesson: Lesson) -> str:
    return f"{lesson.content_hash}{lesson.status}{lesson.updated_at}"


def _build_editor(
    request: PageRequest, lesson: Lesson, error: UserError | None = None, *, needs_confirmation: bool = False
) -> PageContent:
    values = {
        "title": f"Edit {lesson.slug}"[:100],
        "fields": lesson_form.fill_fields(records.to_lesson_record(lesson), request.form),
        "seen": _fingerprint_lesson(lesson),
        "action": f"/lessons/{lesson.slug}/edit",
        "back": f"/lessons/{lesson.slug}",
        "done": "Save",
        "wrong": error,
        "asks": needs_confirmation,
    }
    return PageContent("edit.html", values, 422 if error else 200)
