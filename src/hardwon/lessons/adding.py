"""Write lessons to lessons.json, after completing them and checking them against the rules and the existing lessons.

Writing does not put a lesson in force: `actions/lessons.py` records the approval and compiles the manifest.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hardwon import clock, paths
from hardwon.errors import UserError
from hardwon.lessons import lessons_file
from hardwon.lessons.lessons_file import LessonsFile
from hardwon.lessons.record import NESTED_KEYS, BadRecord, hash_lesson_content, parse_lesson, to_lesson_record
from hardwon.lessons.validation import REVIEW_BELOW, find_lesson_faults, find_secret_faults
from hardwon.privacy.cleaning import clean_text
from hardwon.text import similarity
from hardwon.text.characters import to_printable_line
from hardwon.text.excerpts import create_slug
from hardwon.types import Lesson, replace

if TYPE_CHECKING:
    from hardwon.types import Status

SOURCES = ("person", "agent", "scan", "import", "team")
SOURCE_PERSON, SOURCE_AGENT, SOURCE_SCAN, SOURCE_IMPORT, SOURCE_TEAM = SOURCES
LOG = os.path.join("logs", "log")  # of refused lessons
MAX_LOG_BYTES, _MAX_LOG_LINE_CHARS = 1_000_000, 300
_SLUG_PATTERN = re.compile(r"[a-z0-9][a-z0-9-]{0,79}")


def add_record(home: str, record: dict[str, Any], *, is_approved: bool, source: str) -> Lesson:
    """Write a new lesson; UserError with a line per fault if it is refused.

    A machine's proposal becomes a candidate with a new id and slug, since its own could belong to another lesson.
    `source` says who wrote it and overrides the record.
    """
    lesson = read_or_refuse(home, record, source)
    lesson = replace(lesson, extra={**lesson.extra, "source": source})
    if not is_approved:
        lesson = replace(lesson, id="", slug="", status="candidate")
    # Checked before the lock is taken, because trying a slow pattern takes a while.
    with lessons_file.open_for_edit(home) as file:
        lesson = _complete_lesson(lesson, [other.slug for other in file.lessons])
        _refuse_duplicate(lesson, _build_catalog(file.lessons))
        lessons_file.put_lesson(file, lesson)
        lessons_file.save(file)
    return lesson


def replace_record(home: str, lesson_id: str, record: dict[str, Any]) -> Lesson:
    """Replace a lesson's record; its id and slug stay."""
    with lessons_file.open_for_edit(home) as file:
        previous = _find_lesson(file, lesson_id)
        return _rewrite_lesson(home, file, previous, {**record, "id": lesson_id, "slug": previous.slug})


def edit_record(home: str, lesson_id: str, changes: dict[str, Any]) -> Lesson:
    """Change some fields of a lesson, under the same rules as for a new one."""
    with lessons_file.open_for_edit(home) as file:
        previous = _find_lesson(file, lesson_id)
        return _rewrite_lesson(home, file, previous, apply_changes(to_lesson_record(previous), changes))


def apply_changes(record: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record with some fields changed, or removed where they are None.

    Nested triggers replace all triggers of the record; a flat one replaces its own kind. A block reason is removed when
    the delivery changes to another mode.
    """
    all_fields = {**record, **changes}
    changed = {key: value for key, value in all_fields.items() if value is not None}
    if "delivery" in changes:
        changed.pop("block", None)
        if changes["delivery"] != "block":
            changed.pop("blockReason", None)
    triggers = dict(changed.get("triggers") or {})
    for key in NESTED_KEYS:
        if key in changed:
            triggers[key] = changed.pop(key)
    triggers["sessionStart"] = changed.get("delivery") == "start"
    changed["triggers"] = triggers
    return changed


def remove_record(home: str, lesson_id: str) -> None:
    """Delete a lesson from the file, as if it had never been written."""
    with lessons_file.open_for_edit(home) as file:
        records = file.document["lessons"]
        records[:] = [record for record in records if lessons_file.get_record_id(record) != lesson_id]
        lessons_file.save(file)


def _rewrite_lesson(home: str, file: LessonsFile, previous: Lesson, record: dict[str, Any]) -> Lesson:
    """Put a changed record in the place of the previous lesson, under the same rules as for a new one."""
    lesson = read_or_refuse(home, record, "edit")
    # An edit does not change who wrote the lesson, whatever the new record says.
    extra = dict(lesson.extra)
    extra.pop("source", None)
    if "source" in previous.extra:
        extra["source"] = previous.extra["source"]
    # A low confidence that stays as it was is no new doubt: the lesson was approved with it.
    has_new_doubt = lesson.confidence < REVIEW_BELOW and lesson.confidence != previous.confidence
    lesson = replace(
        lesson,
        extra=extra,
        needs_review=lesson.needs_review or has_new_doubt,
        updated_at=clock.format_iso(clock.now()),
        content_hash=hash_lesson_content(lesson),
    )
    _refuse_duplicate(lesson, _build_catalog(other for other in file.lessons if other.id != previous.id))
    lessons_file.put_lesson(file, lesson)
    lessons_file.save(file)
    return lesson


def add_imported_records(home: str, imported_records: Iterable[dict[str, Any]]) -> tuple[list[Lesson], dict[str, str]]:
    """Add imported records one by one; return the added lessons, and the refused names with their reasons."""
    added: list[Lesson] = []
    refused: dict[str, str] = {}
    with lessons_file.open_for_edit(home) as file:
        catalog = _build_catalog(file.lessons)
        used_slugs = [other.slug for other in file.lessons]
        for number, record in enumerate(imported_records, 1):
            try:
                lesson = _complete_imported(home, record, used_slugs)
                _refuse_duplicate(lesson, catalog)
            except UserError as error:
                name = str(record.get("slug") or record.get("id") or f"lesson {number}")
                reasons = [error.message]
                if isinstance(record.get("importFaults"), list):
                    reasons += record["importFaults"]
                refused[name] = "; ".join(reasons)
                continue
            lessons_file.put_lesson(file, lesson)
            _add_to_catalog(catalog, lesson)
            used_slugs.append(lesson.slug)
            added.append(lesson)
        if added:
            lessons_file.save(file)
    return added, refused


def _complete_imported(home: str, record: dict[str, Any], used_slugs: Sequence[str]) -> Lesson:
    """Return the lesson of an imported record as it can be written; UserError with a line per fault."""
    lesson = read_or_refuse(home, record, SOURCE_IMPORT)
    lesson = replace(lesson, extra={**lesson.extra, "source": SOURCE_IMPORT})
    # A file from elsewhere may use any slug; a new one is made then, since nothing here refers to the old.
    if lesson.slug in used_slugs or not _SLUG_PATTERN.fullmatch(lesson.slug):
        lesson = replace(lesson, slug="")
    return _complete_lesson(lesson, used_slugs)


def set_lesson_status(home: str, lesson_id: str, status: Status) -> Lesson:
    """Write another status; approving a lesson also clears its need for review."""
    with lessons_file.open_for_edit(home) as file:
        previous = _find_lesson(file, lesson_id)
        needs_review = previous.needs_review and status != "active"
        updated_at = clock.format_iso(clock.now())
        lesson = replace(previous, status=status, needs_review=needs_review, updated_at=updated_at)
        lessons_file.put_lesson(file, lesson)
        lessons_file.save(file)
    return lesson


def _find_lesson(file: LessonsFile, lesson_id: str) -> Lesson:
    for lesson in file.lessons:
        if lesson.id == lesson_id:
            return lesson
    raise UserError(f"the lesson {lesson_id} is no longer in {file.path}", "hardwon lessons list")


def parse_valid_lesson(record: dict[str, Any]) -> Lesson:
    """Parse a record that meets every rule; UserError with a line per fault otherwise."""
    if faults := find_record_faults(record):
        raise build_refusal(faults)
    return parse_lesson(_fill_block_reason(record))


def read_or_refuse(home: str, record: dict[str, Any], source: str) -> Lesson:
    """Parse a valid record; log the refusal of an invalid one."""
    if faults := find_record_faults(record):
        note_refused_lesson(home, source, faults)
        raise build_refusal(faults)
    return parse_lesson(_fill_block_reason(record))


def find_record_faults(record: dict[str, Any]) -> list[str]:
    """Return the faults to correct before the record can be a lesson."""
    try:
        lesson = parse_lesson(_fill_block_reason(record))
    except BadRecord as error:
        return error.faults
    return [*find_lesson_faults(lesson), *find_secret_faults(lesson)]


def build_refusal(faults: Iterable[str]) -> UserError:
    fault_lines = "".join(f"\n  - {fault}" for fault in faults)
    return UserError(f"the lesson is refused{fault_lines}", "correct these and add it again")


def _fill_block_reason(record: dict[str, Any]) -> dict[str, Any]:
    """Use the solution as the reason of a record with `delivery: block` that has none.

    A record with `blockReason`, or with the older field `block`, stays unchanged: it says for itself what it blocks.
    """
    if record.get("delivery") != "block" or "block" in record or record.get("blockReason"):
        return record
    solution = record.get("solution") or record.get("fix")  # `fix` is its name in lessons-learned
    return {**record, "blockReason": solution or ""}


@dataclass(frozen=True, slots=True)
class _LessonCatalog:
    """Index the existing lessons: slugs by id and by content hash, and the words of those not rejected."""

    slugs_by_id: dict[str, str]
    slugs_by_hash: dict[str, str]
    vocabulary: similarity.LessonVocabulary


def _build_catalog(lessons: Iterable[Lesson]) -> _LessonCatalog:
    catalog = _LessonCatalog({}, {}, similarity.build_vocabulary(()))
    for lesson in lessons:
        _add_to_catalog(catalog, lesson)
    return catalog


def _add_to_catalog(catalog: _LessonCatalog, lesson: Lesson) -> None:
    """Add a lesson to those that a new one must differ from, by id and by content, and in its words."""
    catalog.slugs_by_id.setdefault(lesson.id, lesson.slug)
    catalog.slugs_by_hash.setdefault(hash_lesson_content(lesson), lesson.slug)
    if lesson.status != "rejected":  # a person may add a rejected lesson again in better words
        similarity.add_to_vocabulary(catalog.vocabulary, lesson)


def _refuse_duplicate(lesson: Lesson, catalog: _LessonCatalog) -> None:
    """Raise UserError if the same or a similar lesson exists, also a rejected one with exactly the same content."""
    if slug := catalog.slugs_by_id.get(lesson.id):
        message = f"there is a lesson with the id {lesson.id}: {slug}"
        raise UserError(message, f"leave the id out, or: hardwon lessons show {slug}")
    if slug := catalog.slugs_by_hash.get(lesson.content_hash):
        raise UserError(f"this lesson is there already: {slug}", f"hardwon lessons show {slug}")
    nearest = similarity.find_nearest_in(catalog.vocabulary, lesson)
    if nearest and nearest[1] >= similarity.SAME_THRESHOLD:
        message = f"this lesson is much like {nearest[0].slug} ({nearest[1]:.0%} of the words are the same)"
        raise UserError(message, f"hardwon lessons edit {nearest[0].slug}")


def _complete_lesson(lesson: Lesson, used_slugs: Sequence[str]) -> Lesson:
    """Fill in the id, slug, dates and hash that the file needs; UserError if the author's slug cannot be used."""
    if lesson.slug and (lesson.slug in used_slugs or not _SLUG_PATTERN.fullmatch(lesson.slug)):
        message = f"the slug {lesson.slug!r} is taken or is not small letters, digits and dashes"
        raise UserError(message, "leave it out, and one is made")
    now = clock.now()
    lesson = replace(
        lesson,
        id=lesson.id or clock.create_ulid(now),
        slug=lesson.slug or create_slug(lesson.summary, used_slugs, clock.create_suffix),
        project=os.path.realpath(os.path.expanduser(lesson.project)) if lesson.project else "",
        needs_review=lesson.needs_review or lesson.confidence < REVIEW_BELOW,
        created_at=lesson.created_at or clock.format_iso(now),
        updated_at=clock.format_iso(now),
    )
    return replace(lesson, content_hash=hash_lesson_content(lesson))


def note_refused_lesson(home: str, source: str, faults: Sequence[str]) -> None:
    """Write a line to the log of refused lessons."""
    # A fault may quote a pattern, so it is redacted like everything that is written.
    reasons = to_printable_line(clean_text("; ".join(faults)), _MAX_LOG_LINE_CHARS)
    line = f"{clock.format_iso(clock.now())} lesson from {source} refused: {reasons}\n"
    paths.append_to_log(os.path.join(home, LOG), line, MAX_LOG_BYTES)
