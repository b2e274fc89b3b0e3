"""Compile the manifest of approved lessons from lessons.json, config.json and the approvals in the database.

Whoever notices a changed source builds it: the command that changed or approved something, or the worker. If a source
is broken the last good manifest stays in force, and the error says where to look.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from hardwon import paths, settings
from hardwon.clock import format_iso
from hardwon.errors import UserError
from hardwon.lessons import lessons_file, manifest_index
from hardwon.lessons.delivery import FIX_MARK
from hardwon.lessons.globs import compile_glob
from hardwon.lessons.lessons_file import LessonsFile
from hardwon.lessons.manifest_index import ManifestIndex, open_index
from hardwon.lessons.patterns import find_literal_sets
from hardwon.lessons.record import (
    compute_version,
    hash_authored_fields,
    parse_lesson,
    select_authored_fields,
    to_flag_letters,
)
from hardwon.lessons.validation import find_disabling_faults
from hardwon.store import approvals, efficacy
from hardwon.store.approvals import ApprovedLesson, LiveApprovals
from hardwon.store.efficacy import NO_STATES, UNCHANGED_STATE, LessonState
from hardwon.types import EDIT_TOOLS, FILE_TOOLS, SHELL_TOOL, Lesson, ManifestEntry, Pattern, replace

_MANIFEST_TYPE = "hardwon-manifest"
VERSION = 1
# Guards first, so that they are tried even if the time runs out for the other lessons.
_MODE_ORDER = {"block": 0, "hold": 1, "note": 2, "start": 3}
ADDED, CHANGED, RETIRED, _REMOVED = "added", "changed", "retired", "removed"
APPROVE_COMMAND = "hardwon lessons build"


@dataclass(frozen=True, slots=True)
class BuildResult:
    """The number of lessons in force, the omitted slugs with reasons, faults in the sources, and unapproved changes."""

    lesson_count: int
    left_out: tuple[tuple[str, str], ...]  # slug and reason
    faults: tuple[str, ...]
    waiting_changes: tuple[WaitingChange, ...] = ()


def stat_sources(home: str, index: ManifestIndex | None = None) -> list[tuple[str, int, int, int]]:
    """Return the source files of a manifest with size, time and inode, to detect changes.

    With an index these are the files it was built from; if trusted.json names other files now, trusted.json itself has
    changed.
    """
    lessons_path = lessons_file.get_lessons_path(home)
    # The index of a home that was copied names the files of the home it came from.
    if index is not None and index.source_stats[0][0] == lessons_path:
        source_paths = [source[0] for source in index.source_stats]
    else:
        trusted_hashes, _ = _read_trusted_hashes(home)
        source_paths = [lessons_path, settings.get_config_path(home), lessons_file.get_trust_path(home)]
        source_paths += map(lessons_file.get_trusted_path, trusted_hashes)
    stats = []
    for path in source_paths:
        try:
            stat = os.stat(path)
            stats.append((path, stat.st_mtime_ns, stat.st_size, stat.st_ino))
        except OSError:
            stats.append((path, 0, 0, 0))  # it may appear later, and that is a change
    return stats


def open_current_index(home: str, now: float) -> ManifestIndex:
    """Return the manifest in force, rebuilding it first if a source changed."""
    try:
        index = open_index(home)
        if index.source_stats == stat_sources(home, index):
            return index
    except (FileNotFoundError, ValueError):
        pass  # missing, invalid or of another version: built below
    build(home, now)
    return open_index(home)


def build(home: str, now: float) -> BuildResult:
    """Compile the manifest and put it in force; UserError, with nothing changed, if a source is broken."""
    paths.make_private_folder(home)
    # Two concurrent builds could replace a newer manifest by an older one.
    with open(os.open(os.path.join(home, "manifest.lock"), os.O_RDWR | os.O_CREAT, 0o600), "r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        source_stats = stat_sources(home)  # before reading, so that a file that changes meanwhile is compiled again
        config = settings.read_config(home)
        values = settings.resolve_settings(config)
        lessons, faults, waiting = gather_lessons(home)
        faults = [*settings.find_faults(config), *faults]
        active, left_out = choose_active_lessons(lessons, values, waiting)
        states = efficacy.read_lesson_states(home)
        entries = compile_entries(active, states.by_lesson)
        content = manifest_index.build(
            entries,
            [find_entry_literals(entry) for entry in entries],
            settings=values,
            source_stats=source_stats,
            waiting_count=len(waiting),
            secret=states.secret,
        )
        document = _build_document(entries, active, values, now)
        paths.write_private(os.path.join(home, paths.MANIFEST), document.encode("utf-8", "replace"))
        # Written last, because it puts the build in force.
        paths.write_private(os.path.join(home, paths.LESSON_INDEX), content)
    return BuildResult(len(entries), tuple(left_out), tuple(faults), tuple(waiting))


class GatheredLessons(NamedTuple):
    lessons: list[Lesson]
    faults: list[str]
    waiting: list[WaitingChange]


def gather_lessons(home: str) -> GatheredLessons:
    """Return approved personal lessons and those of trusted repositories, all faults, and unapproved changes.

    A broken personal file stops the build, so that the person corrects it first; a repository's broken file is only
    reported. A repository's lessons apply in that repository only, whatever they say.
    """
    personal_file = lessons_file.read_own(home)
    in_force = _read_approvals(home)
    lessons, waiting = _apply_approvals(home, personal_file, in_force)
    own_ids = {lesson.id for lesson in lessons}
    used_names = own_ids | {lesson.slug for lesson in lessons}
    trusted_hashes, trust_faults = _read_trusted_hashes(home)
    faults = [*personal_file.faults, *trust_faults, *_find_untrusted_files(trusted_hashes)]
    for subject, trusted_hash in trusted_hashes.items():
        path = lessons_file.get_trusted_path(subject)
        is_single_lesson = lessons_file.is_single_lesson(subject)
        if is_single_lesson and not os.path.exists(path):
            continue  # removing a lesson's file is how a repository retires it
        try:
            project_file = _read_trusted_file(subject, trusted_hash, in_force)
        except UserError as error:
            faults.append(error.message)
            continue
        faults += project_file.faults
        for lesson in project_file.lessons:
            if lesson.id in own_ids and is_single_lesson:
                continue  # whoever proposed it has it already
            if lesson.id in used_names or lesson.slug in used_names:
                faults.append(f"{path}: {lesson.slug} has the id or slug of another lesson and is not used")
                continue
            used_names |= {lesson.id, lesson.slug}
            lessons.append(replace(lesson, project=lessons_file.get_trusted_project(subject)))
    return GatheredLessons(lessons, faults, waiting)


def list_lessons(home: str, *statuses: str) -> list[Lesson]:
    """Return the approved personal lessons and those of trusted repositories, or only those with a status."""
    lessons, _, _ = gather_lessons(home)
    return [lesson for lesson in lessons if not statuses or lesson.status in statuses]


def _read_trusted_file(subject: str, trusted_hash: str, in_force: LiveApprovals) -> LessonsFile:
    """Read a repository's file of lessons; UserError if it is broken, or not as it was trusted."""
    path = lessons_file.get_trusted_path(subject)
    fix = f"hardwon trust {lessons_file.get_trusted_project(subject)}"
    # Anybody can edit trusted.json alone, so the approval must agree.
    if in_force.trusted_hashes.get(subject) != trusted_hash:
        raise UserError(f"{path} is trusted without an approval and is not used: {fix}")
    content = lessons_file.read_project_lessons(path)
    if lessons_file.hash_bytes(content) != trusted_hash:
        raise UserError(f"{path} changed since it was trusted and is not used: {fix}")
    return lessons_file.parse_content(path, content)


def _find_untrusted_files(trusted_hashes: Mapping[str, str]) -> list[str]:
    """Return a line for each new file of one lesson in a repository of which something is trusted."""
    lines = []
    for project in dict.fromkeys(map(lessons_file.get_trusted_project, trusted_hashes)):
        new_subjects = [name for name in lessons_file.list_trust_subjects(project) if name not in trusted_hashes]
        lines += [f"{subject} is new and is not used: hardwon trust {project}" for subject in new_subjects]
    return lines


def _read_trusted_hashes(home: str) -> tuple[dict[str, str], list[str]]:
    """Return what is trusted; if trusted.json is broken nothing is, and the second list has the fault."""
    try:
        return lessons_file.read_trusted_hashes(home), []
    except UserError as error:
        return {}, [error.message]


def choose_active_lessons(
    lessons: Iterable[Lesson], values: Mapping[str, Any], waiting: Iterable[WaitingChange] = ()
) -> tuple[list[Lesson], list[tuple[str, str]]]:
    """Return the lessons in force, and the slugs of the others with reasons."""
    changes = {waiting_change.id: waiting_change.change for waiting_change in waiting}
    active: list[Lesson] = []
    left_out: list[tuple[str, str]] = []
    for lesson in lessons:
        reason = _find_inactive_reason(lesson, values)
        if lesson.status == "candidate" and lesson.id in changes:
            reason = f"{changes[lesson.id]} by hand and not approved yet: {APPROVE_COMMAND}"
        if reason:
            left_out.append((lesson.slug, reason))
        else:
            active.append(lesson)
    return active, left_out


def _find_inactive_reason(lesson: Lesson, values: Mapping[str, Any]) -> str:
    """Return why a lesson is not in force; empty if it is."""
    if lesson.status != "active":
        return lesson.status
    if lesson.needs_review:
        return "needs review"
    if lesson.confidence < values["minConfidence"]:
        return f"confidence {lesson.confidence:g} is below minConfidence {values['minConfidence']:g}"
    if lesson.priority < values["minPriority"]:
        return f"priority {lesson.priority} is below minPriority {values['minPriority']}"
    return "; ".join(find_disabling_faults(lesson))


def compile_entries(lessons: Sequence[Lesson], states: Mapping[str, LessonState] = NO_STATES) -> list[ManifestEntry]:
    """Compile entries in the order they are tried: blocks first, then by priority.

    `states` says which lessons stay silent in some sessions, and which were stepped down from a hold to a note.
    """
    entries = [_compile_entry(lesson, states.get(lesson.id, UNCHANGED_STATE)) for lesson in lessons]
    entries.sort(key=lambda entry: (_MODE_ORDER[entry.delivery], -entry.priority, entry.slug))
    return [replace(entry, number=number) for number, entry in enumerate(entries)]


def _compile_entry(lesson: Lesson, state: LessonState) -> ManifestEntry:
    """Compile a lesson as hooks read it; a lesson that was stepped down is delivered more quietly than it says.

    A glob that cannot match anything is left out.
    """
    user_home = os.path.expanduser("~")
    globs = []
    for path_pattern in lesson.paths:
        glob = compile_glob(path_pattern, ignore_case=_is_case_ignored(), user_home=user_home)
        if glob:
            globs.append(glob)
    delivery = lesson.delivery
    if state.stepped_down_to == "note" and delivery == "hold":  # after false alarms, until its author changes it
        delivery = "note"
    return ManifestEntry(
        number=0,  # given once all entries are sorted
        id=lesson.id,
        slug=lesson.slug,
        summary=lesson.summary,
        text=lesson.injection or _format_lesson(lesson),
        reason=lesson.block_reason,
        delivery=delivery,
        priority=lesson.priority,
        tools=find_lesson_tools(lesson),
        commands=lesson.commands,
        target=lesson.command_target,
        globs=tuple(globs),
        path_regexes=lesson.path_regexes,
        contents=lesson.contents,
        unless=lesson.unless,
        project=os.path.realpath(os.path.expanduser(lesson.project)) if lesson.project else "",
        version=compute_version(lesson),
        silent_share=1.0 if state.stepped_down_to == "silent" else state.silent_share,
    )


def _format_lesson(lesson: Lesson) -> str:
    """Return what an agent reads; a problem whose first words are the summary is not told twice."""
    is_repeated = lesson.problem.startswith(lesson.summary)
    heading = lesson.problem if is_repeated else f"{lesson.summary}\n{lesson.problem}"
    return f"## Lesson: {heading}\n{FIX_MARK} {lesson.solution}"


@cache
def _is_case_ignored() -> bool:
    """Return whether this file system ignores case in names."""
    this_file = os.path.abspath(__file__)
    return os.path.exists(this_file.swapcase()) and os.path.samefile(this_file, this_file.swapcase())


def find_lesson_tools(lesson: Lesson) -> tuple[str, ...]:
    """Return the tools of a lesson: those it names, or else those its patterns apply to.

    Empty for a lesson without tools and patterns, such as one that is only told at a session's start.
    """
    if lesson.tools:
        # Newer versions of Claude Code call the tool Agent; events have its old name.
        tool_names = ["Task" if tool == "Agent" else tool for tool in lesson.tools]
        return tuple(dict.fromkeys(tool_names))
    tools: tuple[str, ...] = ()
    if lesson.commands:
        tools += (SHELL_TOOL,)
    if lesson.contents:  # reading a file brings no new content to match
        tools += EDIT_TOOLS
    elif lesson.paths or lesson.path_regexes:
        tools += FILE_TOOLS
    return tools


def find_entry_literals(entry: ManifestEntry) -> list[list[frozenset[str]]] | None:
    """Return the literals that every matching call contains; None if a call can match without any.

    Depending on the tool, an entry matches by its command patterns (Bash), by its content patterns or else its command
    patterns, or by its paths (Read, and entries without content patterns).
    """
    path_patterns = [Pattern(glob.source, glob.flags) for glob in entry.globs if glob.is_include]
    path_patterns += entry.path_regexes
    required_patterns: list[Pattern] = []
    if SHELL_TOOL in entry.tools:
        required_patterns += entry.commands
    if set(entry.tools) - {SHELL_TOOL}:
        contents = entry.contents or entry.commands
        required_patterns += contents or path_patterns
        if "Read" in entry.tools:
            required_patterns += path_patterns
    literal_sets = [find_literal_sets(pattern.source, pattern.flags) for pattern in required_patterns]
    return literal_sets if literal_sets and all(literal_sets) else None


def _build_document(
    entries: Sequence[ManifestEntry], lessons: Sequence[Lesson], values: dict[str, Any], now: float
) -> str:
    """Render the manifest as JSON for people and other tools."""
    lessons_by_id = {lesson.id: lesson for lesson in lessons}

    def list_sources(patterns: Iterable[Pattern]) -> list[dict[str, str]]:
        return [{"source": pattern.source, "flags": to_flag_letters(pattern.flags)} for pattern in patterns]

    lesson_documents = {
        entry.id: {
            "slug": entry.slug,
            "priority": entry.priority,
            "delivery": entry.delivery,
            "toolNames": list(entry.tools),
            "commandRegexSources": list_sources(entry.commands),
            "commandMatchTarget": entry.target,
            "pathRegexSources": list_sources(entry.path_regexes),
            "pathPatterns": list(lessons_by_id[entry.id].paths),
            "contentRegexSources": list_sources(entry.contents),
            "unlessRegexSources": list_sources(entry.unless),
            "tags": list(lessons_by_id[entry.id].tags),
            "injection": entry.text,
            "summary": entry.summary,
            "block": entry.delivery == "block",
            "blockReason": entry.reason,
            "sessionStart": entry.delivery == "start",
            "projectPath": entry.project or None,
        }
        for entry in entries
    }
    document = {
        "type": _MANIFEST_TYPE,
        "version": VERSION,
        "generatedAt": format_iso(now),
        "config": values,
        "lessons": lesson_documents,
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


@dataclass(frozen=True, slots=True)
class WaitingChange:
    """An unapproved change to lessons.json; `approved` stays in force, `proposed` is in the file."""

    id: str
    slug: str
    summary: str
    change: str
    approved: Lesson | None
    proposed: Lesson | None


def _read_approvals(home: str) -> LiveApprovals:
    """Return the live approvals; UserError if they cannot be read, so that the last good manifest stays in force."""
    live_approvals = approvals.read_live_approvals(home)
    if live_approvals is not None:
        return live_approvals
    if not find_ids_in_force(home):
        return LiveApprovals({}, {})
    path = os.path.join(home, paths.DATABASE)
    reason = "is not brought up to date yet" if os.path.exists(path) else "is missing"
    raise UserError(f"{path} {reason}, so nobody can tell what is approved", "hardwon restart")


def find_ids_in_force(home: str) -> set[str]:
    """Return the ids of the lessons in the last good manifest; empty if it is missing or unreadable."""
    try:
        return {entry.id for entry in open_index(home).read_all_entries()}
    except (OSError, ValueError):
        pass  # an index of an earlier version cannot be read, but the manifest beside it can
    try:
        with open(os.path.join(home, paths.MANIFEST), encoding="utf-8") as file:
            document = json.load(file)
    except (OSError, ValueError, RecursionError):
        return set()
    lessons = document.get("lessons") if isinstance(document, dict) else None
    return set(lessons) if isinstance(lessons, dict) else set()


def _apply_approvals(home: str, file: LessonsFile, in_force: LiveApprovals) -> tuple[list[Lesson], list[WaitingChange]]:
    """Return the personal lessons in their approved versions, and the changes that wait for approval."""
    unchanged_ids = set()
    for lesson in file.lessons:
        approval = in_force.lessons.get(lesson.id)
        if approval is not None and approval.hash == hash_authored_fields(lesson):
            unchanged_ids.add(lesson.id)
    # Only for what was changed or removed: the others are in the file as they were approved.
    changed_approvals = {
        lesson_id: approval for lesson_id, approval in in_force.lessons.items() if lesson_id not in unchanged_ids
    }
    approved_versions = _read_approved_versions(home, changed_approvals)
    lessons: list[Lesson] = []
    waiting: list[WaitingChange] = []
    for lesson in file.lessons:
        approval = in_force.lessons.get(lesson.id)
        last_approved = approved_versions.get(lesson.id)
        if approval is None and not is_marked_active(lesson):
            lessons.append(lesson)
        elif approval is None:
            lessons.append(replace(lesson, status="candidate"))
            waiting.append(_build_change(lesson, ADDED, None, lesson))
        elif lesson.id not in unchanged_ids:
            lessons.append(last_approved or replace(lesson, status="candidate"))
            waiting.append(_build_change(lesson, CHANGED, last_approved, lesson))
        else:
            approved = replace(lesson, status="active", needs_review=False)
            if approval.confidence is not None:
                # Otherwise lowering the number in the file would take a guard out of force.
                approved = replace(approved, confidence=approval.confidence)
            lessons.append(approved)
            if not is_marked_active(lesson):
                waiting.append(_build_change(lesson, RETIRED, approved, lesson))
    ids_in_file = {lesson.id for lesson in file.lessons}
    for lesson_id, last_approved in approved_versions.items():
        if lesson_id in ids_in_file:
            continue
        lessons.append(last_approved)
        if lesson_id not in file.unreadable_ids:  # an unreadable lesson is reported as a fault
            waiting.append(_build_change(last_approved, _REMOVED, last_approved, None))
    return lessons, waiting


def _build_change(lesson: Lesson, change: str, approved: Lesson | None, proposed: Lesson | None) -> WaitingChange:
    return WaitingChange(lesson.id, lesson.slug, lesson.summary, change, approved, proposed)


def is_marked_active(lesson: Lesson) -> bool:
    """Return whether the record itself claims to be in force."""
    return lesson.status == "active" and not lesson.needs_review


def find_waiting_changes(home: str) -> list[WaitingChange]:
    """Return the unapproved changes to lessons.json."""
    _, waiting = _apply_approvals(home, lessons_file.read_own(home), _read_approvals(home))
    return waiting


def to_approval_body(lesson: Lesson) -> str:
    """Serialise a lesson for its approval, complete enough to keep it in force if the file is lost."""
    fields = {"id": lesson.id, **select_authored_fields(lesson), "confidence": lesson.confidence}
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))


def _read_approved_versions(home: str, approved: Mapping[str, ApprovedLesson]) -> dict[str, Lesson]:
    """Return the lessons as they were approved, by id; without those whose approved text a purge removed."""
    bodies = approvals.read_bodies(home, [approval.approval_id for approval in approved.values()])
    lessons = {}
    for lesson_id, approval in approved.items():
        lesson = parse_approval_body(bodies.get(approval.approval_id, ""))
        if lesson is not None:
            lessons[lesson_id] = lesson
    return lessons


def parse_approval_body(body: str) -> Lesson | None:
    """Parse the lesson stored with an approval; None if a purge removed it."""
    if not body:
        return None
    try:
        return parse_lesson(json.loads(body))
    except (ValueError, RecursionError):
        return None


def describe_waiting_changes(waiting: Sequence[WaitingChange]) -> str:
    """Return the number of waiting changes as a phrase: `2 changes to lessons.json wait`."""
    if len(waiting) == 1:
        return "1 change to lessons.json waits for approval"
    return f"{len(waiting)} changes to lessons.json wait for approval"
