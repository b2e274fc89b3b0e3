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
from hardwon.lessons.refusals import note_refused_lesson
from hardwon.lessons.secrets import find_secret_faults
from hardwon.text import similarity, slugs
from hardwon.types import Lesson, frozen, replace

if TYPE_CHECKING:
    from hardwon.types import Status


_TRIGGER_KEYS = ("toolNames", "commandPatterns", "pathPatterns", "pathRegexes", "contentPatterns")
SOURCES = SOURCE_PERSON, SOURCE_AGENT, SOURCE_SCAN, SOURCE_IMPORT = ("person", "agent", "scan", "import")
_SLUG_PATTERN = re.compile(r"[a-z0-9][a-z0-9-]{0,79}")


def add_record(home: str, record: dict[str, Any], *, is_approved: bool, source: str) -> Lesson:
    """Write a new lesson; UserError with a line per fault if it is not fit.

    What a machine proposes is a candidate, and under names we give: those it chose could be a person's candidate's.
    `source` says who wrote it, whatever the record says of that.
    """
    now = clock.now()
    lesson = read_or_refuse(home, record, source)
    lesson = _set_source(lesson, source)
    if not is_approved:
        lesson = replace(lesson, id="", slug="")
    with shelves.open_for_edit(home) as file:
        lesson = _fill_in_lesson(
            lesson, now, used_slugs=[other.slug for other in file.lessons], is_approved=is_approved
        )
        _refuse_duplicate(lesson, _build_catalog(file.lessons))
        shelves.put_lesson(file, lesson)
        shelves.save(file)
    return lesson


def _set_source(lesson: Lesson, source: str) -> Lesson:
    return replace(lesson, extra={**lesson.extra, "source": source})


def replace_record(home: str, lesson_id: str, record: dict[str, Any]) -> Lesson:
    """Put another record in a lesson's place, whole; its id stays."""
    return _rewrite_lesson(home, lesson_id, lambda previous: {**record, "id": lesson_id, "slug": previous.slug})


def edit_record(home: str, lesson_id: str, changes: dict[str, Any]) -> Lesson:
    """Change some fields of a lesson; the same rules as for a new one."""
    return _rewrite_lesson(home, lesson_id, lambda previous: apply_changes(records.to_lesson_record(previous), changes))


def apply_changes(record: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A record with some fields changed, or gone where they are None; what another delivery has no use for goes.

    Triggers that are nested replace those of the record; one that is flat replaces its own kind.
    """
    changed = {key: value for key, value in {**record, **changes}.items() if value is not None}
    if "delivery" in changes:
        changed.pop("block", None)
        if changes["delivery"] != "block":
            changed.pop("blockReason", None)
    flat_triggers = {key: changed.pop(key) for key in _TRIGGER_KEYS if key in changed}
    nested_triggers = changed.get("triggers") or {}
    changed["triggers"] = {**nested_triggers, **flat_triggers, "sessionStart": changed.get("delivery") == "start"}
    return changed


def remove_record(home: str, lesson_id: str) -> None:
    """Take a lesson out of the file, as if it had never been written."""
    with shelves.open_for_edit(home) as file:
        stored_records = file.document["lessons"]
        stored_records[:] = [
            stored_record
            for stored_record in stored_records
            if not (isinstance(stored_record, dict) and stored_record.get("id") == lesson_id)
        ]
        shelves.save(file)


def _rewrite_lesson(home: str, lesson_id: str, change: Callable[[Lesson], dict[str, Any]]) -> Lesson:
    now = clock.now()
    with shelves.open_for_edit(home) as file:
        previous = _find_lesson(file, lesson_id)
        lesson = read_or_refuse(home, change(previous), "edit")
        extra = {key: value for key, value in lesson.extra.items() if key != "source"}
        if "source" in previous.extra:
            extra["source"] = previous.extra["source"]
        lesson = replace(lesson, extra=extra)
        is_doubtful = lesson.confidence < validation.REVIEW_BELOW and lesson.confidence != previous.confidence
        lesson = replace(lesson, updated_at=clock.format_iso(now), needs_review=lesson.needs_review or is_doubtful)
        lesson = replace(lesson, content_hash=records.hash_lesson_content(lesson))
        _refuse_duplicate(lesson, _build_catalog(other for other in file.lessons if other.id != lesson_id))
        shelves.put_lesson(file, lesson)
        shelves.save(file)
    return lesson


def add_imported_records(home: str, imported_records: Iterable[dict[str, Any]]) -> tuple[list[Lesson], dict[str, str]]:
    """Add imported records, each for itself: those taken, and the names of those refused with the reason."""
    now = clock.now()
    added: list[Lesson] = []
    refused: dict[str, str] = {}
    with shelves.open_for_edit(home) as file:
        catalog, used_slugs = _build_catalog(file.lessons), [other.slug for other in file.lessons]
        for number, record in enumerate(imported_records, 1):
            try:
                lesson = _set_source(read_or_refuse(home, record, SOURCE_IMPORT), SOURCE_IMPORT)
                slug = lesson.slug if _SLUG_PATTERN.fullmatch(lesson.slug) and lesson.slug not in used_slugs else ""
                lesson = replace(lesson, slug=slug)
                lesson = _fill_in_lesson(lesson, now, used_slugs=used_slugs, is_approved=True)
                _refuse_duplicate(lesson, catalog)
            except UserError as error:
                refused[str(record.get("slug") or record.get("id") or f"lesson {number}")] = error.say
                continue
            shelves.put_lesson(file, lesson)
            _add_to_catalog(catalog, lesson)
            used_slugs.append(lesson.slug)
            added.append(lesson)
        if added:
            shelves.save(file)
    return added, refused


def set_lesson_status(home: str, lesson_id: str, status: Status) -> Lesson:
    """Write another status; approving a lesson is the review it needed."""
    now = clock.now()
    with shelves.open_for_edit(home) as file:
        previous = _find_lesson(file, lesson_id)
        needs_review = previous.needs_review and status != "active"
        lesson = replace(previous, status=status, needs_review=needs_review, updated_at=clock.format_iso(now))
        shelves.put_lesson(file, lesson)
        shelves.save(file)
    return lesson


def _find_lesson(file: shelves.LessonsFile, lesson_id: str) -> Lesson:
    matches = [lesson for lesson in file.lessons if lesson.id == lesson_id]
    if not matches:
        raise UserError(f"the lesson {lesson_id} is gone from {file.path}", "hardwon lessons list")
    return matches[0]


def parse_valid_lesson(record: dict[str, Any]) -> Lesson:
    """The lesson in a record that keeps every rule; UserError with a line per fault if it does not."""
    if faults := find_record_faults(record):
        raise build_refusal(faults)
    return records.parse_lesson(_fill_block_reason(record))


def read_or_refuse(home: str, record: dict[str, Any], source: str) -> Lesson:
    """Return the lesson in a sound record; note in the log why another is refused."""
    if faults := find_record_faults(record):
        note_refused_lesson(home, source, faults)
        raise build_refusal(faults)
    return parse_valid_lesson(record)


def find_record_faults(record: dict[str, Any]) -> list[str]:
    """What must be mended before the record may be a lesson."""
    try:
        lesson = records.parse_lesson(_fill_block_reason(record))
        return [*validation.find_lesson_faults(lesson), *find_secret_faults(lesson)]
    except records.BadRecord as error:
        return error.faults


@frozen
class _LessonCatalog:
    """The lessons that are there, as others are compared with them: slugs by id and by hash, and what they say."""

    ids: dict[str, str]
    hashes: dict[str, str]
    vocabulary: similarity.LessonVocabulary


def _build_catalog(lessons: Iterable[Lesson]) -> _LessonCatalog:
    catalog = _LessonCatalog({}, {}, similarity.build_vocabulary(()))
    for lesson in lessons:
        _add_to_catalog(catalog, lesson)
    return catalog


def _add_to_catalog(catalog: _LessonCatalog, lesson: Lesson) -> None:
    catalog.ids.setdefault(lesson.id, lesson.slug)
    catalog.hashes.setdefault(records.hash_lesson_content(lesson), lesson.slug)
    if lesson.status != "rejected":
        similarity.add_to_vocabulary(catalog.vocabulary, lesson)


def _refuse_duplicate(lesson: Lesson, catalog: _LessonCatalog) -> None:
    """Refuse what is there already, in the same words or in others."""
    if (slug := catalog.ids.get(lesson.id)) is not None:
        message = f"there is a lesson with the id {lesson.id}: {slug}"
        raise UserError(message, f"leave the id out, or: hardwon lessons show {slug}")
    if (slug := catalog.hashes.get(lesson.content_hash)) is not None:
        raise UserError(f"this lesson is there already: {slug}", f"hardwon lessons show {slug}")
    nearest = similarity.find_nearest_in(catalog.vocabulary, lesson)
    if nearest and nearest[1] >= similarity.SAME_THRESHOLD:
        message = f"this lesson is much like {nearest[0].slug} ({nearest[1]:.0%} of the words are the same)"
        raise UserError(message, f"hardwon lessons edit {nearest[0].slug}")


def build_refusal(faults: Iterable[str]) -> UserError:
    fault_lines = "".join(f"\n  - {fault}" for fault in faults)
    return UserError(f"the lesson is refused{fault_lines}", "mend these and add it again")


def _fill_block_reason(record: dict[str, Any]) -> dict[str, Any]:
    """`delivery: block` alone means the solution is the reason; the older pair `block`, `blockReason` stays a pair."""
    if record.get("delivery") == "block" and "block" not in record and not record.get("blockReason"):
        return {**record, "blockReason": record.get("solution") or record.get("fix") or ""}
    return record


def _fill_in_lesson(lesson: Lesson, now: float, *, used_slugs: Sequence[str], is_approved: bool) -> Lesson:
    project = os.path.realpath(os.path.expanduser(lesson.project)) if lesson.project else ""
    if lesson.slug and (lesson.slug in used_slugs or not _SLUG_PATTERN.fullmatch(lesson.slug)):
        message = f"the slug {lesson.slug!r} is taken or is not small letters, digits and dashes"
        raise UserError(message, "leave it out, and one is made")
    lesson = replace(
        lesson,
        id=lesson.id or clock.create_ulid(now),
        slug=lesson.slug or slugs.create_slug(lesson.summary, used_slugs, clock.create_suffix),
        project=project,
        status=lesson.status if is_approved else "candidate",
        needs_review=lesson.needs_review or lesson.confidence < validation.REVIEW_BELOW,
        created_at=lesson.created_at or clock.format_iso(now),
        updated_at=clock.format_iso(now),
    )
    return replace(lesson, content_hash=records.hash_lesson_content(lesson))
