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


def show_lesson_list(ask: PageRequest) -> PageContent:
    """The lessons of one status, highest priority first."""
    wanted = ask.query.get("status", "active")
    wanted = wanted if wanted in STATUSES else "active"
    found, _, changes = manifest.gather_lessons(ask.home)
    counts = {status: sum(lesson.status == status for lesson in found) for status in STATUSES}
    shown = sorted((one for one in found if one.status == wanted), key=lambda one: (-one.priority, one.slug))
    start = min(parse_number(ask.query, "from") or 0, len(shown))
    delivered = injections.count_by_lesson(ask.connection)
    values = {
        "title": "Lessons",
        "status": wanted,
        "counts": counts,
        "waiting": len(review_queue.list_waiting(ask.home, ask.connection)),
        "changes": changes,
        "lessons": [(one, *delivered.get(one.id, (0, None))) for one in shown[start : start + PAGE_SIZE]],
        "further": start + PAGE_SIZE if len(shown) > start + PAGE_SIZE else None,
    }
    return PageContent("lessons.html", values)


def show_lesson(ask: PageRequest) -> PageContent:
    lesson, is_own = _lesson(ask)
    if lesson is None:
        return NOT_FOUND
    since = plots.find_range_start(ask.now, PLOT_DAYS)
    by_day = views.count_lesson_by_day(ask.connection, lesson.id, since)
    latest = views.list_lesson_deliveries(
        ask.connection,
        lesson=lesson.id,
        before_id=parse_number(ask.query, "before") or 1 << 62,
        limit=DELIVERIES_PER_PAGE + 1,
    )
    values = {
        "title": lesson.summary[:100],
        "lesson": lesson,
        "told": deciding.describe_record(records.to_lesson_record(lesson)),
        "is_own": is_own,
        "seen": _print(lesson),
        "change": next((one for one in manifest.gather_lessons(ask.home)[2] if one.id == lesson.id), None),
        "faults": validation.find_lesson_faults(lesson),
        "plot": plots.plot_by_day(by_day, ask.now, PLOT_DAYS),
        "days": PLOT_DAYS,
        "deliveries": _followed(ask, lesson, latest[:DELIVERIES_PER_PAGE]),
        "older": latest[DELIVERIES_PER_PAGE - 1]["id"] if len(latest) > DELIVERIES_PER_PAGE else None,
    }
    return PageContent("lesson.html", values)


def _followed(ask: PageRequest, lesson: Lesson, deliveries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each delivery with the call that came next, and how often the same went wrong all the same."""
    trigger = trigger_check.build_trigger(lesson)
    repeats = trigger_check.count_repeats(ask.connection, {lesson.id: trigger}, deliveries)
    return [
        {
            **one,
            "followed": delivery_outcomes.find_delivery_outcome(ask.connection, one),
            "repeats": repeats[one["id"]] if trigger else None,
        }
        for one in deliveries
    ]


def _lesson(ask: PageRequest) -> tuple[Lesson | None, bool]:
    """A lesson by its slug or id, and whether it is in the person's own file, where it can be changed."""
    name = ask.path_params["slug"]
    own = {one.id for one in shelves.read(shelves.get_lessons_path(ask.home)).lessons}
    found = next((one for one in manifest.gather_lessons(ask.home)[0] if name in (one.slug, one.id)), None)
    return found, found is not None and found.id in own


def show_editor(ask: PageRequest) -> PageContent:
    lesson, is_own = _lesson(ask)
    return _editor(ask, lesson) if lesson and is_own else NOT_FOUND


def save_changes(ask: PageRequest) -> PageContent | Redirect:
    lesson, asked = _own(ask), list[str]()

    def confirm(say: str) -> bool:
        asked.append(say)
        return ask.form.get("confirm") == "yes"

    try:
        changed = lesson_form.find_changed_fields(records.to_lesson_record(lesson), ask.form)
        if changed:
            actions.edit_lesson(ask.home, ask.connection, lesson, changed, VIEWER, confirm=confirm)
    except UserError as wrong:
        return _editor(ask, lesson, wrong, asks=bool(asked))
    return Redirect(f"/lessons/{lesson.slug}", "Changed, and in force." if changed else "Nothing was changed.")


def retire(ask: PageRequest) -> Redirect:
    lesson = _own(ask)
    actions.retire_lesson(ask.home, ask.connection, lesson)
    return Redirect(f"/lessons/{lesson.slug}", "Retired. It stays in the file, and can be put in force again.")


def restore(ask: PageRequest) -> Redirect:
    lesson = _own(ask)
    actions.restore_lesson(ask.home, ask.connection, lesson, VIEWER)
    return Redirect(f"/lessons/{lesson.slug}", f"In force as a {lesson.delivery}.")


def _own(ask: PageRequest) -> Lesson:
    """The lesson as the person saw it, if it is theirs to change."""
    lesson, is_own = _lesson(ask)
    if lesson is None or not is_own:
        raise UserError("there is no such lesson in lessons.json", "hardwon lessons list")
    if ask.form.get("seen") != _print(lesson):
        raise UserError("the lesson says something else by now", "look at it again before you decide")
    return lesson


def _print(lesson: Lesson) -> str:
    return f"{lesson.content_hash}{lesson.status}{lesson.updated_at}"


def _editor(ask: PageRequest, lesson: Lesson, wrong: UserError | None = None, *, asks: bool = False) -> PageContent:
    values = {
        "title": f"Edit {lesson.slug}"[:100],
        "fields": lesson_form.fill_fields(records.to_lesson_record(lesson), ask.form),
        "seen": _print(lesson),
        "action": f"/lessons/{lesson.slug}/edit",
        "back": f"/lessons/{lesson.slug}",
        "done": "Save",
        "wrong": wrong,
        "asks": asks,
    }
    return PageContent("edit.html", values, 422 if wrong else 200)
