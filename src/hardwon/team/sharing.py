"""What of a lesson, memory or handoff leaves this machine, and what a version that arrives means here.

Only what a person wrote or approved is shared: never prompts, events, transcripts, observations or counts per person.
A team without a server shares lessons as files of a repository, `.hardwon/lessons/<slug>.json`, reviewed in pull
requests.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from hardwon import paths, projects
from hardwon.errors import UserError
from hardwon.lessons import adding
from hardwon.lessons.lessons_file import PROJECT_LESSONS_FOLDER, list_trust_subjects, read_project_lessons
from hardwon.lessons.record import compute_version, parse_lesson, select_authored_fields
from hardwon.lessons.replay import Replay
from hardwon.privacy.cleaning import clean_text
from hardwon.privacy.private_tags import map_strings
from hardwon.team.record import Content
from hardwon.types import Lesson, Memory

LESSON, MEMORY, HANDOFF = "lesson", "memory", "handoff"
# A folder of a person: it names them, and nobody else has it.
_HOME_FOLDER = re.compile(r"(?:/home/|/Users/|[A-Za-z]:\\Users\\)[\w.-]+")
_REPLAY_KEY = "replay"  # what the trigger did to the calls recorded on its author's machine
_MIN_FAILED_SHARE = 0.5  # of the calls that a hold or block would have stopped
_WORKFLOW_FILE = os.path.join(".github", "workflows", "hardwon-lessons.yml")
_WORKFLOW = """\
name: lessons
on:
  pull_request:
    paths: [".hardwon/lessons/**"]
permissions:
  contents: read
jobs:
  check:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: hardwon/hardwon/plugins/action@main
"""
_README = """\
# Lessons for coding agents

One file per lesson. Propose one with `hardwon team propose SLUG`; the pull request is the review. After a pull,
`hardwon trust` shows what is new and puts it in force on your machine.
"""


def build_lesson_content(lesson: Lesson) -> Content:
    """Return a lesson as the team gets it: its authored fields, and its repository by remote instead of by folder."""
    fields = select_authored_fields(lesson)
    if lesson.project:
        remote = projects.read_remote_url(lesson.project)
        if not remote:
            raise UserError(
                f"{lesson.slug} is about {lesson.project}, which has no remote, so nobody else can tell which it is",
                f"git remote add origin URL, or remove its project: hardwon lessons edit {lesson.slug}",
            )
        fields["scope"] = {"type": "project", "remote": remote}
    return _check_content({"type": LESSON, "id": lesson.id, "lesson": fields})


def build_memory_content(memory: Memory) -> Content:
    """Return a memory as the team gets it; UserError if it is about a project that others cannot tell by a remote."""
    remote = ""
    if memory.project:
        remote = projects.read_remote_url(memory.project)
        if not remote:
            message = f"memory {memory.id} is about {memory.project}, which has no remote"
            raise UserError(message, "git remote add origin URL")
    return _check_content({"type": MEMORY, "memory_type": memory.type, "text": memory.text, "remote": remote})


def build_handoff_content(topic: str, text: str, project: str) -> Content:
    """Return a handoff as the team gets it; without a remote nobody is told which project it is about."""
    remote = projects.read_remote_url(project) if project else ""
    return _check_content({"type": HANDOFF, "topic": topic, "text": text, "remote": remote})


def _check_content(content: Content) -> Content:
    """Return the content; UserError if it holds a secret, something private or a person's own folder."""
    text = json.dumps(content, ensure_ascii=False)
    # Each text alone and all of them together: a secret may stand across two fields.
    cleaned = map_strings(content, lambda value, _: clean_text(value))
    if cleaned != content or clean_text(text) != text:
        raise UserError("it contains a secret or something private, so it is not shared", "edit it, then share again")
    user_home = os.path.expanduser("~")
    folder = ""
    if match := _HOME_FOLDER.search(text):
        folder = match.group()
    elif user_home not in ("", "/") and user_home in text:  # `/` is in every path
        folder = user_home
    if folder:
        raise UserError(f"it names your folder {folder}, so it is not shared", "edit it, then share again")
    return content


def name_subject(content: Content, number: str) -> str:
    """Return the subject of a new record: its kind and an id that two machines never choose alike."""
    return f"{content['type']}:{content.get('id') or number}"


def get_lesson(content: Content | None) -> dict[str, Any]:
    """Return the fields of a shared lesson; empty if it is something else, or was erased."""
    lesson = (content or {}).get("lesson")
    return lesson if isinstance(lesson, dict) else {}


def check_arrived(subject: str, content: Content, project_paths: Mapping[str, str]) -> None:
    """Raise UserError unless this machine can use a version: its sender may run any program."""
    kind = content.get("type")
    lesson = get_lesson(content)
    is_lesson = kind == LESSON and bool(lesson) and subject == f"{LESSON}:{content.get('id')}"
    if not is_lesson and kind not in (MEMORY, HANDOFF):
        raise UserError("it is malformed", "hardwon team review")
    scope = lesson.get("scope")
    remote = str(content.get("remote", ""))
    if isinstance(scope, dict) and scope.get("type") == "project":
        remote = str(scope.get("remote", ""))
    if remote and remote not in project_paths:
        raise UserError(f"it is about {remote}, which is not on this machine", "clone it and open it in an agent once")


def build_lesson_record(content: Content, project_paths: Mapping[str, str]) -> dict[str, Any]:
    """Return an arrived lesson as a record of lessons.json.

    `project_paths` has the folders of this machine's repositories by their remote.
    """
    fields = get_lesson(content)
    record = {**fields, "id": content.get("id", "")}
    scope = fields.get("scope")
    if isinstance(scope, dict) and scope.get("type") == "project":
        path = project_paths.get(str(scope.get("remote", "")), "")  # empty without a clone here
        record["scope"] = {"type": "project", "path": path}
    return record


def describe_content(content: Content | None) -> str:
    """Return one line about a version."""
    if content is None:
        return "(erased)"
    if lesson := get_lesson(content):
        return str(lesson.get("summary", ""))
    return str(content.get("topic") or content.get("text") or "")


def lay_out_repository(project: str) -> list[str]:
    """Write the folder for lessons and the workflow that checks them; return the files that are new."""
    if not os.path.exists(os.path.join(project, ".git")):
        raise UserError(f"{project} is not a git repository", "git init, or run this in your clone")
    texts = {os.path.join(PROJECT_LESSONS_FOLDER, "README.md"): _README, _WORKFLOW_FILE: _WORKFLOW}
    new_names = []
    for name, text in texts.items():
        path = os.path.join(project, name)
        if os.path.lexists(path):
            continue  # the team may have edited it
        os.makedirs(os.path.dirname(path), exist_ok=True)
        paths.replace_file(path, text.encode(), 0o644)
        new_names.append(name)
    return new_names


def build_lesson_file(lesson: Lesson, replay: Replay) -> str:
    """Return a lesson as a repository carries it, with its author's counts; UserError if it holds a secret."""
    fields = select_authored_fields(lesson)
    fields.pop("scope", None)  # a repository's lessons apply in that repository
    record = {"id": lesson.id, "slug": lesson.slug, **fields}
    # Reviewers get counts, because calls never leave the machine that recorded them.
    counts = {"version": compute_version(parse_lesson(record)), "failed": replay.failed, "fine": replay.fine}
    content = _check_content({**record, _REPLAY_KEY: counts})
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def find_file_faults(project: str) -> Iterator[str]:
    """Yield what is wrong with a repository's lesson files: rules, secrets, patterns, and the author's counts."""
    slugs_by_id: dict[str, str] = {}
    for path in list_trust_subjects(project):
        if path == project:
            continue  # the older file of all lessons
        name = os.path.relpath(path, project)
        try:
            record = json.loads(read_project_lessons(path))
        except (ValueError, RecursionError) as error:
            yield f"{name}: not JSON: {error}"
            continue
        except UserError as error:
            yield error.message
            continue
        if not isinstance(record, dict):
            yield f"{name}: a lesson is an object"
            continue
        faults = adding.find_record_faults(record)
        yield from (f"{name}: {fault}" for fault in faults)
        if faults:
            continue
        yield from (f"{name}: {fault}" for fault in _find_repository_faults(record, os.path.basename(path)))
        first_slug = slugs_by_id.setdefault(str(record.get("id")), str(record.get("slug")))
        if first_slug != record.get("slug"):
            yield f"{name}: has the id of {first_slug}"


def _find_repository_faults(record: dict[str, Any], file_name: str) -> Iterator[str]:
    """Yield what is wrong with a lesson's file in a repository.

    A hold or a block must come with its author's counts, made with this version, and few false alarms among them.
    """
    lesson = parse_lesson(record)
    if not lesson.id or file_name != f"{lesson.slug}.json":
        yield f"it needs an id, and its slug {lesson.slug!r} must be the file's name"
    try:
        _check_content(record)
    except UserError as error:
        yield error.message
    counts = record.get(_REPLAY_KEY)
    # A note stops no call, so its author's counts do not matter.
    if lesson.delivery not in ("hold", "block"):
        return
    if not isinstance(counts, dict) or counts.get("version") != compute_version(lesson):
        yield f"its counts are of another version; fix: hardwon team propose {lesson.slug}"
        return
    failed = counts.get("failed")
    fine = counts.get("fine")
    if type(failed) is not int or type(fine) is not int or min(failed, fine) < 0:
        yield "its counts are not numbers"
    elif fine and failed < _MIN_FAILED_SHARE * (failed + fine):
        yield f"it would have stopped {fine} calls that went fine and {failed} that failed on its author's machine"
