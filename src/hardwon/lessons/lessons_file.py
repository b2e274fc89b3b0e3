"""Read and write lessons.json, which people edit too: writes are atomic and locked, unknown keys are kept."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from hardwon import paths
from hardwon.errors import UserError
from hardwon.lessons.record import BadRecord, parse_lesson, to_lesson_record
from hardwon.lessons.validation import clean_evidence, find_secret_faults, list_authored_texts
from hardwon.types import Lesson

VERSION = 1
_PROJECT_LESSONS_FILE = os.path.join(".hardwon", "lessons.json")
PROJECT_LESSONS_FOLDER = os.path.join(".hardwon", "lessons")  # one file per lesson, for review in pull requests
MAX_FILE_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class LessonsFile:
    """A parsed lessons file. Lessons with faults are left out of `lessons` and stay in the document."""

    path: str
    document: dict[str, Any]  # as it is written back, with keys that hardwon does not know
    lessons: tuple[Lesson, ...]
    faults: tuple[str, ...]
    unreadable_ids: tuple[str, ...]


def get_lessons_path(home: str) -> str:
    return os.path.join(home, paths.LESSONS)


def read(path: str) -> LessonsFile:
    """Read a lessons file; empty if it does not exist, UserError with line and column if it is broken."""
    try:
        content = _read_plain_file(path)
    except FileNotFoundError:
        return _build_lessons_file(path, {"version": VERSION, "lessons": []})
    return parse_content(path, content)


def read_own(home: str) -> LessonsFile:
    """Read the person's own lessons."""
    return read(get_lessons_path(home))


def find_own_lesson(home: str, lesson_id: str) -> Lesson | None:
    return next((lesson for lesson in read_own(home).lessons if lesson.id == lesson_id), None)


def _read_plain_file(path: str) -> bytes:
    """Return a file's content; FileNotFoundError if missing, UserError if unreadable or too large."""
    try:
        with open(path, "rb", opener=paths.open_plain_file) as file:
            size = os.fstat(file.fileno()).st_size
            if size > MAX_FILE_BYTES:
                raise UserError(f"{path} has {size >> 20} MB; at most {MAX_FILE_BYTES >> 20} are allowed", "split it")
            return file.read(MAX_FILE_BYTES)
    except FileNotFoundError:
        raise
    except OSError as error:
        fix = f"put a file of lessons there, or: mv {path} {path}.old"
        raise UserError(f"{path} cannot be read: {error.strerror}", fix) from None


def parse_content(path: str, content: bytes) -> LessonsFile:
    """Parse the content of a lessons file."""
    try:
        return _build_lessons_file(path, _parse_document(path, content.decode("utf-8-sig")))
    except UnicodeDecodeError as error:
        raise UserError(f"{path} cannot be read: {error}", "hardwon lessons check") from None


def _build_lessons_file(path: str, document: dict[str, Any]) -> LessonsFile:
    """Parse a document's records; one that is invalid, or has the id or slug of an earlier one, becomes a fault."""
    lessons: list[Lesson] = []
    faults: list[str] = []
    unreadable_ids: list[str] = []
    first_numbers: dict[tuple[str, str], int] = {}
    for number, record in enumerate(document["lessons"], 1):
        try:
            lesson = parse_lesson(record)
        except BadRecord as error:
            faults.extend(f"{path}: lesson {number}: {fault}" for fault in error.faults)
            unreadable_ids.append(str(get_record_id(record) or ""))
            continue
        naming_faults = []
        for name, value in (("id", lesson.id), ("slug", lesson.slug)):
            first_number = first_numbers.setdefault((name, value), number)
            if not value:
                naming_faults.append(f"{path}: lesson {number} has no {name}")
            elif first_number != number:
                naming_faults.append(f"{path}: lesson {number} has the {name} of lesson {first_number}: {value}")
        faults += naming_faults
        if not naming_faults:
            lessons.append(lesson)
    return LessonsFile(path, document, tuple(lessons), tuple(faults), tuple(unreadable_ids))


def _parse_document(path: str, text: str) -> dict[str, Any]:
    """Return the document `{"version": …, "lessons": […]}` of a file, which may also be a list or a single lesson.

    UserError, with the place in the file if possible, for anything else.
    """
    if not text.strip():
        raise UserError(f"{path} is empty", f"put its content back, or start over: rm {path}")
    try:
        document = json.loads(text)
    except RecursionError:
        raise UserError(f"{path} is nested too deeply to be a lessons file", "hardwon lessons check") from None
    except ValueError as error:
        line = getattr(error, "lineno", 1)
        column = getattr(error, "colno", 1)
        detail = str(getattr(error, "msg", error))
        message = f"{path} line {line}, column {column}: {detail[:1].lower()}{detail[1:]}"
        raise UserError(message, "edit that place, then: hardwon lessons check") from None
    if isinstance(document, list):
        document = {"version": VERSION, "lessons": document}
    elif is_single_lesson(path):
        document = {"version": VERSION, "lessons": [document]}
    if not isinstance(document, dict) or not isinstance(document.get("lessons", []), list):
        raise UserError(f'{path} is not a lessons file: expected {{"lessons": […]}}', "hardwon lessons check")
    version = document.get("version", VERSION)
    if not isinstance(version, int) or version > VERSION:
        raise UserError(f"{path} has version {version}; this hardwon supports {VERSION}", "upgrade hardwon")
    document.setdefault("lessons", [])
    return document


@contextmanager
def open_for_edit(home: str) -> Iterator[LessonsFile]:
    """Lock the personal file and yield it; the caller changes it with `put_lesson` and calls `save`."""
    paths.make_private_folder(home)
    with open(os.open(os.path.join(home, "lessons.lock"), os.O_RDWR | os.O_CREAT, 0o600), "r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield read_own(home)


def save(file: LessonsFile) -> None:
    text = json.dumps(file.document, indent=2, ensure_ascii=False) + "\n"
    paths.write_private(file.path, text.encode("utf-8", "replace"))


def put_lesson(file: LessonsFile, lesson: Lesson) -> None:
    """Set a lesson's record in the document, in place or at the end.

    Every lesson that hardwon writes passes through here. UserError if its texts changed and contain a secret; text that
    a person wrote into the file by hand stays as it is.
    """
    authored_texts = list_authored_texts(lesson)
    is_unchanged = any(other.id == lesson.id and list_authored_texts(other) == authored_texts for other in file.lessons)
    if not is_unchanged and (faults := find_secret_faults(lesson)):
        raise UserError(f"the lesson is refused: {faults[0]}", "remove it and try again")
    lesson = clean_evidence(lesson)
    records = file.document["lessons"]
    for index, record in enumerate(records):
        if get_record_id(record) == lesson.id:
            records[index] = to_lesson_record(lesson, previous=record)
            return
    records.append(to_lesson_record(lesson))


def get_record_id(record: object) -> object:
    """Return the id as it stands in a record, which people may have written wrong; None if there is none."""
    return record.get("id") if isinstance(record, dict) else None


def get_project_lessons_path(project: str) -> str:
    return os.path.join(project, _PROJECT_LESSONS_FILE)


def is_single_lesson(path: str) -> bool:
    """Return whether this is a file of one lesson in a repository."""
    return path.endswith(".json") and os.path.dirname(path).endswith(os.sep + PROJECT_LESSONS_FOLDER)


def get_trusted_path(subject: str) -> str:
    """Return the file that is trusted under this name: one lesson's own, or that of a whole project."""
    return subject if is_single_lesson(subject) else get_project_lessons_path(subject)


def get_trusted_project(subject: str) -> str:
    """Return the project whose lessons are trusted under this name."""
    if not is_single_lesson(subject):
        return subject
    return os.path.dirname(subject).removesuffix(os.sep + PROJECT_LESSONS_FOLDER)


def list_trust_subjects(project: str) -> list[str]:
    """Return the names under which a project's files can be trusted, for each file that it has."""
    folder = os.path.join(project, PROJECT_LESSONS_FOLDER)
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".json"))
    except OSError:
        names = []
    subjects = [os.path.join(folder, name) for name in names]
    return [project, *subjects] if os.path.exists(get_project_lessons_path(project)) else subjects


def read_project_lessons(file_path: str) -> bytes:
    """Return a repository's lessons file; UserError if it is too large or not a regular file, which may never end."""
    try:
        return _read_plain_file(file_path)
    except FileNotFoundError:
        raise UserError(f"{file_path} cannot be read: no such file", "fix or remove that file") from None


def hash_bytes(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def hash_file(file_path: str) -> str:
    """Return the hash of a file; empty if it cannot be read."""
    try:
        return hash_bytes(read_project_lessons(file_path))
    except UserError:
        return ""


def get_trust_path(home: str) -> str:
    return os.path.join(home, paths.TRUSTED_PROJECTS)


def read_trusted_hashes(home: str) -> dict[str, str]:
    """Return the trusted hash of each project's lessons file, and of each file of one lesson."""
    try:
        with open(get_trust_path(home), encoding="utf-8", opener=paths.open_plain_file) as file:
            document = json.load(file)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(
            f"{get_trust_path(home)} cannot be read: {reason}",
            f"mv {get_trust_path(home)} {get_trust_path(home)}.old; hardwon trust",
        ) from None
    if not isinstance(document, dict):
        return {}
    return {str(project): str(content_hash) for project, content_hash in document.items()}


def write_trusted_hashes(home: str, trusted_hashes: dict[str, str]) -> None:
    paths.write_private(get_trust_path(home), (json.dumps(trusted_hashes, indent=2) + "\n").encode())
