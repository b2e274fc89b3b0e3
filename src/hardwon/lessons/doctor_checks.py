"""Check lessons for `hardwon doctor`: faults, unapproved changes, and advice."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from itertools import groupby, islice, takewhile
from time import process_time
from typing import TYPE_CHECKING

from hardwon import clock, paths, projects
from hardwon.agents.installation_checks import Check
from hardwon.errors import UserError
from hardwon.lessons import health, manifest
from hardwon.lessons.approved_lessons import APPROVE_COMMAND
from hardwon.lessons.health import LessonFacts
from hardwon.lessons.hook_replies import open_index
from hardwon.lessons.lessons_file import get_lessons_path, get_project_lessons_path, read
from hardwon.lessons.manifest import BuildResult
from hardwon.lessons.pattern_search import PatternCache
from hardwon.store import db
from hardwon.store.efficacy import count_by_lesson
from hardwon.store.transcripts import iter_ended_calls
from hardwon.types import STATUSES

if TYPE_CHECKING:
    from hardwon.lessons.manifest_index import ManifestIndex
    from hardwon.lessons.matching import PatternSearch

MAX_SHOWN = 5  # of each kind of advice
MAX_CALLS, MAX_REPLAY_SECONDS = 20_000, 2.0  # limits for replaying the newest calls


def check_lessons(home: str, build_result: BuildResult) -> Iterator[Check]:
    fix = "hardwon lessons check" if build_result.faults else ""
    yield Check("lessons", not build_result.faults, f"{build_result.lesson_count} in force", fix)
    for fault in build_result.faults[:MAX_SHOWN]:
        yield Check("", False, fault, fix)
    changes = build_result.waiting_changes
    for change in changes[:MAX_SHOWN]:
        note = "" if change.approved is None else "; the version approved before stays in force"
        finding = f"{change.change} by hand in {paths.LESSONS} and not approved: {change.slug}{note}"
        yield Check("waiting", None, finding, APPROVE_COMMAND)
    if len(changes) > MAX_SHOWN:
        yield Check("waiting", None, f"and {len(changes) - MAX_SHOWN} more", APPROVE_COMMAND)
    waiting_slugs = {change.slug for change in changes}
    # What a person retired or has not decided about yet needs no repair.
    left_out = [
        (slug, reason) for slug, reason in build_result.left_out if slug not in waiting_slugs and reason not in STATUSES
    ]
    for slug, reason in left_out[:MAX_SHOWN]:
        yield Check("", None, f"left out {slug}: {reason}", f"hardwon lessons edit {slug}")
    yield from _check_advice(home)


def _check_advice(home: str) -> Iterator[Check]:
    """Yield advice about the lessons' wording and triggers; advice is never a fault."""
    index, search = open_index(home), PatternCache().search
    lessons, _ = manifest.choose_active_lessons(manifest.gather_lessons(home)[0], dict(index.settings))
    if not lessons:
        return
    facts = LessonFacts({}, {}, {})
    try:
        if os.path.exists(os.path.join(home, paths.DATABASE)):  # a check must not create a database
            facts = _gather_facts(home, index, search)
    except UserError as error:
        yield Check("history", False, error.say, error.fix.removeprefix("hardwon doctor; "))
    except db.StoreError as error:
        yield Check("history", False, f"{paths.DATABASE} cannot be read: {error}", "moving it away starts a new one")
    own_ids = {lesson.id for lesson in read(get_lessons_path(home)).lessons}
    advice = health.find_advice(lessons, facts, now=clock.now(), path_exists=_may_exist, search_pattern=search)
    for kind, group in groupby(advice, key=lambda item: item.kind):
        for item in islice(group, MAX_SHOWN):
            fix = item.fix
            if item.lesson.id not in own_ids:  # a repository's lesson is corrected there and then trusted again
                project = item.lesson.project
                fix = f"edit {get_project_lessons_path(project)}, then: hardwon trust {project}"
            yield Check(kind, None, item.finding, fix)
        if omitted_count := sum(1 for _ in group):
            yield Check(kind, None, f"and {omitted_count} more")


def _gather_facts(home: str, index: ManifestIndex, search: PatternSearch) -> LessonFacts:
    @cache
    def locate_folder(folder: str) -> tuple[str, list[str]]:
        return projects.find_git_root(folder), projects.list_equivalent_folders(folder)

    with closing(db.connect(home)) as connection:
        tools = {tool for number in range(len(index)) for tool in index.read_entry(number).tools}
        deadline = process_time() + MAX_REPLAY_SECONDS
        calls = takewhile(lambda _: process_time() < deadline, iter_ended_calls(connection, tools))
        chances, replays = health.replay_calls(
            islice(calls, MAX_CALLS), index, search_pattern=search, locate_folder=locate_folder
        )
        return LessonFacts(count_by_lesson(connection), chances, replays)


def _may_exist(path: str) -> bool:
    """Return False only if a path is certainly gone; an inaccessible one may exist."""
    try:
        os.stat(os.path.expanduser(path))
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError):
        return True
    return True
