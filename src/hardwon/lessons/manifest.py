"""The manifest: approved lessons, compiled from lessons.json, config.json and the approvals in the database.

Built by whoever notices that a source changed: the command that changed or approved it, or the worker. A broken source
changes nothing: the last good manifest stays in force, and the error says where to look.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from hardwon import paths, settings
from hardwon.clock import format_iso
from hardwon.errors import UserError
from hardwon.lessons import approved_lessons, literals, manifest_index, record, trust_file, validation
from hardwon.lessons import lessons_file as shelves
from hardwon.lessons.approved_lessons import WaitingChange
from hardwon.lessons.delivery import open_index
from hardwon.lessons.globs import compile_glob
from hardwon.lessons.manifest_index import ManifestIndex
from hardwon.types import EDIT_TOOLS, FILE_TOOLS, SHELL_TOOL, Lesson, ManifestEntry, Pattern, frozen, replace

MANIFEST_TYPE = "hardwon-manifest"
VERSION = 1
_ORDER = {"block": 0, "hold": 1, "note": 2, "start": 3}


@frozen
class BuildResult:
    """What a build came to: how many lessons are in force, which were left out and why, what is faulty, and which
    changes to lessons.json wait for a person."""

    lesson_count: int
    left_out: tuple[tuple[str, str], ...]
    faults: tuple[str, ...]
    waiting_changes: tuple[WaitingChange, ...] = ()


def stat_sources(home: str) -> list[tuple[str, int, int, int]]:
    """The files a manifest is made from, with what tells whether they changed."""
    found = []
    repositories = [trust_file.get_project_lessons_path(project) for project in _trusted(home)[0]]
    for path in (
        shelves.get_lessons_path(home),
        settings.get_config_path(home),
        trust_file.get_trust_path(home),
        *repositories,
    ):
        try:
            stat = os.stat(path)
            found.append((path, stat.st_mtime_ns, stat.st_size, stat.st_ino))
        except OSError:
            found.append((path, 0, 0, 0))
    return found


def open_current_index(home: str, now: float) -> ManifestIndex:
    """The manifest in force, built first if a source changed since."""
    try:
        found = open_index(home)
        if found.source_stats == stat_sources(home):
            return found
    except (FileNotFoundError, ValueError):
        pass
    build(home, now)
    return open_index(home)


def build(home: str, now: float) -> BuildResult:
    """Compile the manifest and put it in force; UserError, and nothing changed, if a source is broken."""
    paths.make_private_folder(home)
    with open(os.open(os.path.join(home, "manifest.lock"), os.O_RDWR | os.O_CREAT, 0o600), "r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made_from = stat_sources(home)
        config = settings.read_config(home)
        values = settings.resolve_settings(config)
        lessons, faults, waiting = gather_lessons(home)
        faults = [*settings.find_faults(config), *faults]
        active, left_out = choose_active_lessons(lessons, values, waiting)
        entries = compile_entries(active)
        content = manifest_index.build(
            entries,
            list(map(find_entry_literals, entries)),
            settings=values,
            source_stats=made_from,
            waiting_count=len(waiting),
        )
        document = build_document(entries, active, values, now)
        paths.write_private(os.path.join(home, paths.MANIFEST), document.encode("utf-8", "replace"))
        paths.write_private(os.path.join(home, paths.LESSON_INDEX), content)
    return BuildResult(len(entries), tuple(left_out), tuple(faults), tuple(waiting))


def gather_lessons(home: str) -> tuple[list[Lesson], list[str], list[WaitingChange]]:
    """The personal lessons as approved and those of trusted repositories, what is wrong with any, and what waits.

    A broken personal file is the person's to mend first, so it stops the build; a repository's is only named, and
    whatever its lessons say, they count in that repository alone.
    """
    shelf = shelves.read(shelves.get_lessons_path(home))
    in_force = approved_lessons.read_approvals(home)
    lessons, waiting = approved_lessons.apply_approvals(home, shelf, in_force)
    faults = list(shelf.faults)
    taken = {lesson.id for lesson in lessons} | {lesson.slug for lesson in lessons}
    projects, wrong = _trusted(home)
    faults += wrong
    for project, hash in projects.items():
        path = trust_file.get_project_lessons_path(project)
        if not approved_lessons.is_trust_approved(project, hash, in_force):
            faults.append(approved_lessons.describe_unapproved_trust(project))
            continue
        try:
            held = trust_file.read_project_lessons(path)
            if trust_file.hash_bytes(held) != hash:
                faults.append(f"{path} changed since it was trusted and is not used: hardwon trust {project}")
                continue
            carried = shelves.parse_content(path, held)
        except UserError as broken:
            faults.append(broken.say)
            continue
        faults += carried.faults
        for lesson in carried.lessons:
            if lesson.id in taken or lesson.slug in taken:
                faults.append(f"{path}: {lesson.slug} has the id or slug of another lesson and is not used")
                continue
            taken |= {lesson.id, lesson.slug}
            lessons.append(replace(lesson, project=project))
    return lessons, faults, waiting


def _trusted(home: str) -> tuple[dict[str, str], list[str]]:
    try:
        return trust_file.read_trusted_hashes(home), []
    except UserError as broken:
        return {}, [broken.say]


def choose_active_lessons(
    lessons: Iterable[Lesson], values: Mapping[str, Any], waiting: Iterable[WaitingChange] = ()
) -> tuple[list[Lesson], list[tuple[str, str]]]:
    """The lessons in force, and the slugs of the others with the reason."""
    changes = {one.id: one.change for one in waiting}
    active: list[Lesson] = []
    left_out: list[tuple[str, str]] = []
    for lesson in lessons:
        reason = _why_not(lesson, values)
        if lesson.status == "candidate" and lesson.id in changes:
            reason = f"{changes[lesson.id]} by hand and not approved yet: {approved_lessons.APPROVE_COMMAND}"
        if reason:
            left_out.append((lesson.slug, reason))
        else:
            active.append(lesson)
    return active, left_out


def _why_not(lesson: Lesson, values: Mapping[str, Any]) -> str:
    if lesson.status != "active":
        return f"status is {lesson.status}"
    if lesson.needs_review:
        return "needs review"
    if lesson.confidence < values["minConfidence"]:
        return f"confidence {lesson.confidence:g} is below minConfidence {values['minConfidence']:g}"
    if lesson.priority < values["minPriority"]:
        return f"priority {lesson.priority} is below minPriority {values['minPriority']}"
    return "; ".join(validation.find_disabling_faults(lesson))


def compile_entries(lessons: Sequence[Lesson]) -> list[ManifestEntry]:
    return sort_entries([_entry(0, lesson) for lesson in lessons])


def sort_entries(entries: Sequence[ManifestEntry]) -> list[ManifestEntry]:
    """Entries in the order of asking: blocks first, then by priority."""
    ordered = sorted(entries, key=lambda one: (_ORDER[one.delivery], -one.priority, one.slug))
    return [replace(entry, number=number) for number, entry in enumerate(ordered)]


def _entry(number: int, lesson: Lesson) -> ManifestEntry:
    home, ignore_case = os.path.expanduser("~"), is_case_ignored()
    globs = (compile_glob(glob, ignore_case=ignore_case, user_home=home) for glob in lesson.paths)
    return ManifestEntry(
        number=number,
        id=lesson.id,
        slug=lesson.slug,
        summary=lesson.summary,
        text=lesson.injection or f"## Lesson: {lesson.summary}\n{lesson.problem}\n**Fix**: {lesson.solution}",
        reason=lesson.block_reason,
        delivery=lesson.delivery,
        priority=lesson.priority,
        tools=find_lesson_tools(lesson),
        commands=lesson.commands,
        target=lesson.command_target,
        globs=tuple(glob for glob in globs if glob),
        path_regexes=lesson.path_regexes,
        contents=lesson.contents,
        unless=lesson.unless,
        project=os.path.realpath(os.path.expanduser(lesson.project)) if lesson.project else "",
    )


@cache
def is_case_ignored() -> bool:
    """Whether this file system takes `A` and `a` for the same name."""
    here = os.path.abspath(__file__)
    return os.path.exists(here.swapcase()) and os.path.samefile(here, here.swapcase())


def find_lesson_tools(lesson: Lesson) -> tuple[str, ...]:
    """The tools a lesson is about: those it names, else those its patterns can be tried on."""
    if lesson.tools:
        named = ("Task" if tool == "Agent" else tool for tool in lesson.tools)
        return tuple(dict.fromkeys(named))
    about_paths = bool(lesson.paths or lesson.path_regexes)
    files = EDIT_TOOLS if lesson.contents else FILE_TOOLS if about_paths else ()
    return ((SHELL_TOOL,) if lesson.commands else ()) + files


def find_entry_literals(entry: ManifestEntry) -> list[list[frozenset[str]]] | None:
    """What any call that this entry matches must hold; None if there is a way to match without anything certain.

    Whatever the tool, an entry matches only where its command patterns do (Bash), or its content patterns (command
    patterns in their stead), or, for a reading or an entry without content patterns, its paths.
    """
    paths_alone = [Pattern(glob.source, glob.flags) for glob in entry.globs if glob.is_include]
    paths_alone += entry.path_regexes
    needed: list[Pattern] = []
    if SHELL_TOOL in entry.tools:
        needed += entry.commands
    if set(entry.tools) - {SHELL_TOOL}:
        contents = entry.contents or entry.commands
        needed += contents or paths_alone
        if "Read" in entry.tools:
            needed += paths_alone
    found = [literals.find_literal_sets(pattern.source, pattern.flags) for pattern in needed]
    return found if found and all(found) else None


def build_document(
    entries: Sequence[ManifestEntry], lessons: Sequence[Lesson], values: dict[str, Any], now: float
) -> str:
    """The manifest as people and other tools read it."""
    by_id = {lesson.id: lesson for lesson in lessons}

    def sources_of(patterns: Iterable[Pattern]) -> list[dict[str, str]]:
        return [{"source": one.source, "flags": record.to_flag_letters(one.flags)} for one in patterns]

    listed = {
        entry.id: {
            "slug": entry.slug,
            "priority": entry.priority,
            "delivery": entry.delivery,
            "toolNames": list(entry.tools),
            "commandRegexSources": sources_of(entry.commands),
            "commandMatchTarget": entry.target,
            "pathRegexSources": sources_of(entry.path_regexes),
            "pathPatterns": list(by_id[entry.id].paths) if entry.id in by_id else [],
            "contentRegexSources": sources_of(entry.contents),
            "unlessRegexSources": sources_of(entry.unless),
            "tags": list(by_id[entry.id].tags) if entry.id in by_id else [],
            "injection": entry.text,
            "summary": entry.summary,
            "block": entry.delivery == "block",
            "blockReason": entry.reason,
            "sessionStart": entry.delivery == "start",
            "projectPath": entry.project or None,
        }
        for entry in entries
    }
    head = {
        "type": MANIFEST_TYPE,
        "version": VERSION,
        "generatedAt": format_iso(now),
        "config": values,
        "lessons": listed,
    }
    return json.dumps(head, indent=2, ensure_ascii=False) + "\n"
