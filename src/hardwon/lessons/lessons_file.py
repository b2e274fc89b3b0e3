"""lessons.json: a person's file that we also write. Every write is whole and locked; what we do not know stays."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hardwon import paths
from hardwon.errors import UserError
from hardwon.lessons import record as records
from hardwon.lessons.secrets import clean_evidence, find_secret_faults, list_authored_texts
from hardwon.types import Lesson, frozen

VERSION = 1
MAX_FILE_BYTES = 64 * 1024 * 1024


@frozen
class LessonsFile:
    """What a lessons file holds: the document as it stands, its lessons, what is wrong with the others, and the ids
    of those that cannot be read."""

    path: str
    document: dict[str, Any]
    lessons: tuple[Lesson, ...]
    faults: tuple[str, ...]
    unreadable_ids: tuple[str, ...]


def get_lessons_path(home: str) -> str:
    return os.path.join(home, paths.LESSONS)


def read(path: str) -> LessonsFile:
    """The lessons in a file, none if there is no file; UserError with line and column if it is broken."""
    return _build_lessons_file(path, _parse_document(path, _read_text(path)))


def parse_content(path: str, content: bytes) -> LessonsFile:
    """The lessons in what a file was found to hold."""
    try:
        return _build_lessons_file(path, _parse_document(path, content.decode("utf-8-sig")))
    except UnicodeDecodeError as error:
        raise UserError(f"{path} cannot be read: {error}", "hardwon lessons check") from None


def _build_lessons_file(path: str, document: dict[str, Any]) -> LessonsFile:
    lessons: list[Lesson] = []
    faults: list[str] = []
    unreadable_ids: list[str] = []
    first_numbers: dict[str, int] = {}
    for number, record in enumerate(document["lessons"], 1):
        try:
            lesson = records.parse_lesson(record)
        except records.BadRecord as error:
            faults.extend(f"{path}: lesson {number}: {fault}" for fault in error.faults)
            unreadable_ids.append(str(record.get("id")) if isinstance(record, dict) else "")
            continue
        for name in ("id", "slug"):
            value = getattr(lesson, name)
            if not value:
                faults.append(f"{path}: lesson {number} has no {name}")
            elif first_numbers.setdefault(f"{name} {value}", number) != number:
                faults.append(
                    f"{path}: lesson {number} has the {name} of lesson {first_numbers[f'{name} {value}']}: {value}"
                )
        if (
            lesson.id
            and lesson.slug
            and first_numbers[f"id {lesson.id}"] == first_numbers[f"slug {lesson.slug}"] == number
        ):
            lessons.append(lesson)
    return LessonsFile(path, document, tuple(lessons), tuple(faults), tuple(unreadable_ids))


def _read_text(path: str) -> str:
    try:
        size = os.path.getsize(path)
        if size > MAX_FILE_BYTES:
            raise UserError(f"{path} has {size >> 20} MB, more than the {MAX_FILE_BYTES >> 20} it may have", "split it")
        with open(path, encoding="utf-8-sig", opener=paths.open_plain_file) as file:
            return file.read()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(
            f"{path} cannot be read: {reason}", f"put a file of lessons there, or: mv {path} {path}.old"
        ) from None


def _parse_document(path: str, text: str) -> dict[str, Any]:
    if not text and not os.path.exists(path):
        return {"version": VERSION, "lessons": []}
    if not text.strip():
        message = f"{path} is empty, and nobody can tell what stood in it"
        raise UserError(message, f"put back what was there, or begin anew: rm {path}")
    try:
        document = json.loads(text)
    except RecursionError:
        raise UserError(f"{path} is nested too deeply to be a lessons file", "hardwon lessons check") from None
    except ValueError as error:
        line, column = getattr(error, "lineno", 1), getattr(error, "colno", 1)
        detail = str(getattr(error, "msg", error))
        message = f"{path} line {line}, column {column}: {detail[:1].lower()}{detail[1:]}"
        raise UserError(message, "edit that place, then: hardwon lessons check") from None
    if isinstance(document, list):
        document = {"version": VERSION, "lessons": document}
    if not isinstance(document, dict) or not isinstance(document.get("lessons", []), list):
        raise UserError(f'{path} is not a lessons file: it wants {{"lessons": […]}}', "hardwon lessons check")
    version = document.get("version", VERSION)
    if not isinstance(version, int) or version > VERSION:
        raise UserError(f"{path} has version {version}, this hardwon knows {VERSION}", "upgrade hardwon")
    document.setdefault("lessons", [])
    return document


@contextmanager
def open_for_edit(home: str) -> Iterator[LessonsFile]:
    """The personal file under its lock. The caller changes `shelf.document` and calls `save` before leaving."""
    paths.make_private_folder(home)
    with open(os.open(os.path.join(home, "lessons.lock"), os.O_RDWR | os.O_CREAT, 0o600), "r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield read(get_lessons_path(home))


def save(file: LessonsFile) -> None:
    text = json.dumps(file.document, indent=2, ensure_ascii=False) + "\n"
    paths.write_private(file.path, text.encode("utf-8", "replace"))


def put_lesson(file: LessonsFile, lesson: Lesson) -> None:
    """Set a lesson's record in the document: in its place if it has one there, else at the end.

    Every lesson that hardwon writes comes through here. UserError if it was given a secret; what a person wrote into
    the file by hand stays as it is.
    """
    _refuse_secrets(file, lesson)
    lesson = clean_evidence(lesson)
    stored_records = file.document["lessons"]
    for index, stored_record in enumerate(stored_records):
        if isinstance(stored_record, dict) and stored_record.get("id") == lesson.id:
            stored_records[index] = records.to_lesson_record(lesson, previous=stored_record)
            return
    stored_records.append(records.to_lesson_record(lesson))


def _refuse_secrets(file: LessonsFile, lesson: Lesson) -> None:
    previous = [other for other in file.lessons if other.id == lesson.id]
    if previous and list_authored_texts(previous[0]) == list_authored_texts(lesson):
        return
    if faults := find_secret_faults(lesson):
        raise UserError(f"the lesson is refused: {faults[0]}", "remove it and try again")
