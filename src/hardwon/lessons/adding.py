"""Admitting a lesson: filled in, checked against the rules and against those that are there, and written.

What is written here is not in force by that: `actions/lessons.py` records the approval and compiles the manifest.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hardwon import clock
from hardwon.errors import UserError
from hardwon.lessons import lessons_file as shelves
from hardwon.lessons import record as records
from hardwon.lessons import validation
from hardwon.lessons.secrets import find_secret_faults
from hardwon.store.refusals import note_refused_lesson
from hardwon.text import similarity, slugs
from hardwon.types import Lesson, frozen, replace

if TYPE_CHECKING:
    from hardwon.types import Status


_TRIGGERS = ("toolNames", "commandPatterns", "pathPatterns", "pathRegexes", "contentPatterns")
SOURCES = SOURCE_PERSON, SOURCE_AGENT, SOURCE_SCAN, SOURCE_IMPORT = ("person", "agent", "scan", "import")
_SLUG = re.compile(r"[a-z0-9][a-z0-9-]{0,79}")


def add_record(home: str, record: dict[str, Any], *, is_approved: bool, source: str) -> Lesson:
    """Write a new lesson; UserError with a line per fault if it is not fit.

    What a machine proposes is a candidate, and under names we give: those it chose could be a person's candidate's.
    `source` says who wrote it, whatever the record says of that.
    """
    now = clock.now()
    lesson = read_or_refuse(home, record, source)
    lesson = _with_source(lesson, source)
    if not is_approved:
        lesson = replace(lesson, id="", slug="")
    with shelves.open_for_edit(home) as shelf:
        lesson = _filled_in(lesson, now, taken=[one.slug for one in shelf.lessons], approved=is_approved)
        _unlike(lesson, _known(shelf.lessons))
        shelves.put_lesson(shelf, lesson)
        shelves.save(shelf)
    return lesson


def _with_source(lesson: Lesson, source: str) -> Lesson:
    return replace(lesson, extra={**lesson.extra, "source": source})


def replace_record(home: str, lesson_id: str, record: dict[str, Any]) -> Lesson:
    """Put another record in a lesson's place, whole; its id stays."""
    return _replace(home, lesson_id, lambda before: {**record, "id": lesson_id, "slug": before.slug})


def edit_record(home: str, lesson_id: str, changes: dict[str, Any]) -> Lesson:
    """Change some fields of a lesson; the same rules as for a new one."""
    return _replace(home, lesson_id, lambda before: apply_changes(records.to_lesson_record(before), changes))


def apply_changes(record: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A record with some fields changed, or gone where they are None; what another delivery has no use for goes.

    Triggers that are nested replace those of the record; one that is flat replaces its own kind.
    """
    changed = {key: value for key, value in {**record, **changes}.items() if value is not None}
    if "delivery" in changes:
        changed.pop("block", None)
        if changes["delivery"] != "block":
            changed.pop("blockReason", None)
    flat = {key: changed.pop(key) for key in _TRIGGERS if key in changed}
    nested = changed.get("triggers") or {}
    changed["triggers"] = {**nested, **flat, "sessionStart": changed.get("delivery") == "start"}
    return changed


def remove_record(home: str, lesson_id: str) -> None:
    """Take a lesson out of the file, as if it had never been written."""
    with shelves.open_for_edit(home) as shelf:
        listed = shelf.document["lessons"]
        listed[:] = [one for one in listed if not (isinstance(one, dict) and one.get("id") == lesson_id)]
        shelves.save(shelf)


def _replace(home: str, id: str, change: Callable[[Lesson], dict[str, Any]]) -> Lesson:
    now = clock.now()
    with shelves.open_for_edit(home) as shelf:
        before = _listed(shelf, id)
        lesson = read_or_refuse(home, change(before), "edit")
        extra = {key: value for key, value in lesson.extra.items() if key != "source"}
        if "source" in before.extra:
            extra["source"] = before.extra["source"]
        lesson = replace(lesson, extra=extra)
        doubtful = lesson.confidence < validation.REVIEW_BELOW and lesson.confidence != before.confidence
        lesson = replace(lesson, updated_at=clock.format_iso(now), needs_review=lesson.needs_review or doubtful)
        lesson = replace(lesson, content_hash=records.hash_lesson_content(lesson))
        _unlike(lesson, _known(one for one in shelf.lessons if one.id != id))
        shelves.put_lesson(shelf, lesson)
        shelves.save(shelf)
    return lesson


def add_imported_records(home: str, imported_records: Iterable[dict[str, Any]]) -> tuple[list[Lesson], dict[str, str]]:
    """Add imported records, each for itself: those taken, and the names of those refused with the reason."""
    now = clock.now()
    taken: list[Lesson] = []
    refused: dict[str, str] = {}
    with shelves.open_for_edit(home) as shelf:
        known, names = _known(shelf.lessons), [one.slug for one in shelf.lessons]
        for number, record in enumerate(imported_records, 1):
            try:
                lesson = _with_source(read_or_refuse(home, record, SOURCE_IMPORT), SOURCE_IMPORT)
                known_as = lesson.slug if _SLUG.fullmatch(lesson.slug) and lesson.slug not in names else ""
                lesson = replace(lesson, slug=known_as)
                lesson = _filled_in(lesson, now, taken=names, approved=True)
                _unlike(lesson, known)
            except UserError as wrong:
                refused[str(record.get("slug") or record.get("id") or f"lesson {number}")] = wrong.say
                continue
            shelves.put_lesson(shelf, lesson)
            _take_in(known, lesson)
            names.append(lesson.slug)
            taken.append(lesson)
        if taken:
            shelves.save(shelf)
    return taken, refused


def set_lesson_status(home: str, lesson_id: str, status: Status) -> Lesson:
    """Write another status; approving a lesson is the review it needed."""
    now = clock.now()
    with shelves.open_for_edit(home) as shelf:
        before = _listed(shelf, lesson_id)
        review = before.needs_review and status != "active"
        lesson = replace(before, status=status, needs_review=review, updated_at=clock.format_iso(now))
        shelves.put_lesson(shelf, lesson)
        shelves.save(shelf)
    return lesson


def _listed(shelf: shelves.LessonsFile, id: str) -> Lesson:
    found = [one for one in shelf.lessons if one.id == id]
    if not found:
        raise UserError(f"the lesson {id} is gone from {shelf.path}", "hardwon lessons list")
    return found[0]


def parse_valid_lesson(record: dict[str, Any]) -> Lesson:
    """The lesson in a record that keeps every rule; UserError with a line per fault if it does not."""
    if wrong := find_record_faults(record):
        raise build_refusal(wrong)
    return records.parse_lesson(_with_reason(record))


def read_or_refuse(home: str, record: dict[str, Any], source: str) -> Lesson:
    """Return the lesson in a sound record; note in the log why another is refused."""
    if wrong := find_record_faults(record):
        note_refused_lesson(home, source, wrong)
        raise build_refusal(wrong)
    return parse_valid_lesson(record)


def find_record_faults(record: dict[str, Any]) -> list[str]:
    """What must be mended before the record may be a lesson."""
    try:
        lesson = records.parse_lesson(_with_reason(record))
        return [*validation.find_lesson_faults(lesson), *find_secret_faults(lesson)]
    except records.BadRecord as bad:
        return bad.faults


@frozen
class _Known:
    """The lessons that are there, as others are compared with them: slugs by id and by hash, and what they say."""

    ids: dict[str, str]
    hashes: dict[str, str]
    said: similarity.LessonVocabulary


def _known(lessons: Iterable[Lesson]) -> _Known:
    known = _Known({}, {}, similarity.build_vocabulary(()))
    for lesson in lessons:
        _take_in(known, lesson)
    return known


def _take_in(known: _Known, lesson: Lesson) -> None:
    known.ids.setdefault(lesson.id, lesson.slug)
    known.hashes.setdefault(records.hash_lesson_content(lesson), lesson.slug)
    if lesson.status != "rejected":
        similarity.add_to_vocabulary(known.said, lesson)


def _unlike(lesson: Lesson, known: _Known) -> None:
    """Refuse what is there already, in the same words or in others."""
    if (slug := known.ids.get(lesson.id)) is not None:
        say = f"there is a lesson with the id {lesson.id}: {slug}"
        raise UserError(say, f"leave the id out, or: hardwon lessons show {slug}")
    if (slug := known.hashes.get(lesson.content_hash)) is not None:
        raise UserError(f"this lesson is there already: {slug}", f"hardwon lessons show {slug}")
    near = similarity.find_nearest_in(known.said, lesson)
    if near and near[1] >= similarity.SAME_THRESHOLD:
        say = f"this lesson is much like {near[0].slug} ({near[1]:.0%} of the words are the same)"
        raise UserError(say, f"hardwon lessons edit {near[0].slug}")


def build_refusal(faults: Iterable[str]) -> UserError:
    listed = "".join(f"\n  - {fault}" for fault in faults)
    return UserError(f"the lesson is refused{listed}", "mend these and add it again")


def _with_reason(record: dict[str, Any]) -> dict[str, Any]:
    """`delivery: block` alone means the solution is the reason; the older pair `block`, `blockReason` stays a pair."""
    if record.get("delivery") == "block" and "block" not in record and not record.get("blockReason"):
        return {**record, "blockReason": record.get("solution") or record.get("fix") or ""}
    return record


def _filled_in(lesson: Lesson, now: float, *, taken: Sequence[str], approved: bool) -> Lesson:
    project = os.path.realpath(os.path.expanduser(lesson.project)) if lesson.project else ""
    if lesson.slug and (lesson.slug in taken or not _SLUG.fullmatch(lesson.slug)):
        say = f"the slug {lesson.slug!r} is taken or is not small letters, digits and dashes"
        raise UserError(say, "leave it out, and one is made")
    lesson = replace(
        lesson,
        id=lesson.id or clock.create_ulid(now),
        slug=lesson.slug or slugs.create_slug(lesson.summary, taken, clock.create_suffix),
        project=project,
        status=lesson.status if approved else "candidate",
        needs_review=lesson.needs_review or lesson.confidence < validation.REVIEW_BELOW,
        created_at=lesson.created_at or clock.format_iso(now),
        updated_at=clock.format_iso(now),
    )
    return replace(lesson, content_hash=records.hash_lesson_content(lesson))
