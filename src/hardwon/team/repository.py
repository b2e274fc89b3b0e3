"""Lessons as files of a repository, one per lesson: `.hardwon/lessons/<slug>.json`, reviewed in pull requests."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

from hardwon import paths
from hardwon.errors import UserError
from hardwon.lessons import adding
from hardwon.lessons.lessons_file import PROJECT_LESSONS_FOLDER, list_trust_subjects, read_project_lessons
from hardwon.lessons.record import compute_version, parse_lesson, select_authored_fields
from hardwon.lessons.replay import Replay
from hardwon.team.sharing import check_content
from hardwon.types import Lesson

REPLAY_KEY = "replay"  # what the trigger did to the calls recorded on its author's machine
MIN_FAILED_SHARE = 0.5  # of the calls that a hold or block would have stopped
WORKFLOW_FILE = os.path.join(".github", "workflows", "hardwon-lessons.yml")
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


def lay_out_repository(project: str) -> list[str]:
    """Write the folder for lessons and the workflow that checks them; return the files that are new."""
    if not os.path.exists(os.path.join(project, ".git")):
        raise UserError(f"{project} is not a git repository", "git init, or run this in your clone")
    texts = {os.path.join(PROJECT_LESSONS_FOLDER, "README.md"): _README, WORKFLOW_FILE: _WORKFLOW}
    new_names = [name for name in texts if not os.path.lexists(os.path.join(project, name))]
    for name in new_names:
        os.makedirs(os.path.dirname(os.path.join(project, name)), exist_ok=True)
        paths.replace_file(os.path.join(project, name), texts[name].encode(), 0o644)
    return new_names


def build_lesson_file(lesson: Lesson, replay: Replay) -> str:
    """Return a lesson as a repository carries it, with its author's counts; UserError if it holds a secret."""
    fields = select_authored_fields(lesson)
    fields.pop("scope", None)  # a repository's lessons apply in that repository
    record = {"id": lesson.id, "slug": lesson.slug, **fields}
    counts = {"version": compute_version(parse_lesson(record)), "failed": replay.failed, "fine": replay.fine}
    return json.dumps(check_content({**record, REPLAY_KEY: counts}), indent=2, ensure_ascii=False) + "\n"


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
            yield error.say
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
    lesson = parse_lesson(record)
    if not lesson.id or file_name != f"{lesson.slug}.json":
        yield f"it needs an id, and its slug {lesson.slug!r} must be the file's name"
    try:
        check_content(record)
    except UserError as error:
        yield error.say
    counts = record.get(REPLAY_KEY)
    # A note stops no call, so its author's counts do not matter.
    if lesson.delivery not in ("hold", "block"):
        return
    if not isinstance(counts, dict) or counts.get("version") != compute_version(lesson):
        yield f"its counts are of another version; fix: hardwon team propose {lesson.slug}"
        return
    failed, fine = counts.get("failed"), counts.get("fine")
    if type(failed) is not int or type(fine) is not int or min(failed, fine) < 0:
        yield "its counts are not numbers"
    elif fine and failed < MIN_FAILED_SHARE * (failed + fine):
        yield f"it would have stopped {fine} calls that went fine and {failed} that failed on its author's machine"
