"""The manifest: active lessons, compiled from lessons.json and config.json.

Built by whoever notices that a source changed: the command that changed it, or the worker. A broken source changes
nothing: the last good manifest stays in force, and the error says where to look.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Sequence
from typing import Any

from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

from hardwon import paths, settings
from hardwon.clock import iso
from hardwon.core import index, literals, record, rules
from hardwon.core.index import Index
from hardwon.core.match import EDITS, FILES, SHELL
from hardwon.recall.deliver import open_index
from hardwon.store import lessons as shelves
from hardwon.words import Entry, Lesson, Pattern, word

KIND = "hardwon-manifest"
VERSION = 1
_ORDER = {"block": 0, "hold": 1, "note": 2, "start": 3}


@word
class Built:
    """What a build came to: how many lessons are in force, which were left out and why, and what is faulty."""

    count: int
    left_out: tuple[tuple[str, str], ...]
    faults: tuple[str, ...]


def sources(home: str) -> list[tuple[str, int, int, int]]:
    """The files a manifest is made from, with what tells whether they changed."""
    found = []
    for path in (shelves.lessons_path(home), settings.config_path(home)):
        try:
            stat = os.stat(path)
            found.append((path, stat.st_mtime_ns, stat.st_size, stat.st_ino))
        except OSError:
            found.append((path, 0, 0, 0))
    return found


def ensure(home: str, now: float) -> Index:
    """The manifest in force, built first if a source changed since."""
    try:
        found = open_index(home)
        if found.sources == sources(home):
            return found
    except (FileNotFoundError, ValueError):
        pass
    build(home, now)
    return open_index(home)


def build(home: str, now: float) -> Built:
    """Compile the manifest and put it in force; UserError, and nothing changed, if a source is broken."""
    paths.private_folder(home)
    with open(os.open(os.path.join(home, "manifest.lock"), os.O_RDWR | os.O_CREAT, 0o600), "r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made_from = sources(home)
        config = settings.read_config(home)
        values = settings.resolve(config)
        shelf = shelves.read(shelves.lessons_path(home))
        faults = [*settings.faults(config), *shelf.faults]
        active, left_out = choose(shelf.lessons, values)
        entries = compile_entries(active)
        content = index.build(entries, [literals_of(entry) for entry in entries], settings=values, sources=made_from)
        document = manifest_document(entries, active, values, now)
        paths.write_private(os.path.join(home, paths.MANIFEST), document.encode())
        paths.write_private(os.path.join(home, paths.INDEX), content)
    return Built(len(entries), tuple(left_out), tuple(faults))


def choose(lessons: Iterable[Lesson], values: dict[str, Any]) -> tuple[list[Lesson], list[tuple[str, str]]]:
    """The lessons in force, and the slugs of the others with the reason."""
    active: list[Lesson] = []
    left_out: list[tuple[str, str]] = []
    for lesson in lessons:
        reason = _why_not(lesson, values)
        if reason:
            left_out.append((lesson.slug, reason))
        else:
            active.append(lesson)
    return active, left_out


def _why_not(lesson: Lesson, values: dict[str, Any]) -> str:
    if lesson.status != "active":
        return f"status is {lesson.status}"
    if lesson.needs_review:
        return "needs review"
    if lesson.confidence < values["minConfidence"]:
        return f"confidence {lesson.confidence:g} is below minConfidence {values['minConfidence']:g}"
    if lesson.priority < values["minPriority"]:
        return f"priority {lesson.priority} is below minPriority {values['minPriority']}"
    return "; ".join(rules.unusable(lesson))


def compile_entries(lessons: Sequence[Lesson]) -> list[Entry]:
    """Entries in the order of asking: blocks first, then by priority."""
    ordered = sorted(lessons, key=lambda one: (_ORDER[one.delivery], -one.priority, one.slug))
    return [_entry(number, lesson) for number, lesson in enumerate(ordered)]


def _entry(number: int, lesson: Lesson) -> Entry:
    relative, absolute = path_patterns(lesson.paths)
    return Entry(
        number=number,
        id=lesson.id,
        slug=lesson.slug,
        summary=lesson.summary,
        text=lesson.injection or f"## Lesson: {lesson.summary}\n{lesson.problem}\n**Fix**: {lesson.solution}",
        reason=lesson.block_reason,
        delivery=lesson.delivery,
        priority=lesson.priority,
        tools=gate(lesson),
        commands=lesson.commands,
        target=lesson.target,
        paths=relative,
        absolute_paths=absolute,
        contents=lesson.contents,
        unless=lesson.unless,
        project=os.path.realpath(os.path.expanduser(lesson.project)) if lesson.project else "",
    )


def gate(lesson: Lesson) -> tuple[str, ...]:
    """The tools a lesson is about: those it names, else those its patterns can be tried on."""
    if lesson.tools:
        named = ("Task" if tool == "Agent" else tool for tool in lesson.tools)
        return tuple(dict.fromkeys(named))
    files = FILES if lesson.paths and not lesson.contents else EDITS if lesson.paths or lesson.contents else ()
    return ((SHELL,) if lesson.commands else ()) + files


def path_patterns(globs: Iterable[str]) -> tuple[tuple[Pattern, ...], tuple[Pattern, ...]]:
    """Globs by gitignore's rules as patterns: on the path from the project's folder, and on the absolute path."""
    relative, absolute = [], []
    for glob in globs:
        rooted = os.path.expanduser(glob) if glob.startswith("~") else glob
        source = GitIgnoreSpecPattern.pattern_to_regex(rooted)[0]
        if not source:
            continue
        if rooted.startswith("/"):
            absolute.append(Pattern(source.replace("^", "^/", 1)))
        else:
            relative.append(Pattern(source))
    return tuple(relative), tuple(absolute)


def literals_of(entry: Entry) -> frozenset[str] | None:
    """Literals of which one occurs in any call this entry matches; None if there is a way to match without one."""
    patterns = [*entry.commands, *entry.contents] or [*entry.paths, *entry.absolute_paths]
    if entry.paths and entry.contents and not entry.commands:
        patterns = [*entry.contents]
    if "Read" in entry.tools and (entry.paths or entry.absolute_paths):
        patterns = [*entry.commands, *entry.paths, *entry.absolute_paths]
    found: set[str] = set()
    for pattern in patterns:
        needed = literals.required(pattern.source, pattern.flags)
        if not needed:
            return None
        found |= needed
    return frozenset(found) or None


def manifest_document(entries: Sequence[Entry], lessons: Sequence[Lesson], values: dict[str, Any], now: float) -> str:
    """The manifest as people and other tools read it."""
    by_id = {lesson.id: lesson for lesson in lessons}

    def sources_of(patterns: Iterable[Pattern]) -> list[dict[str, str]]:
        return [{"source": one.source, "flags": record.flag_letters(one.flags)} for one in patterns]

    listed = {
        entry.id: {
            "slug": entry.slug,
            "priority": entry.priority,
            "delivery": entry.delivery,
            "toolNames": list(entry.tools),
            "commandRegexSources": sources_of(entry.commands),
            "commandMatchTarget": entry.target,
            "pathRegexSources": sources_of([*entry.paths, *entry.absolute_paths]),
            "contentRegexSources": sources_of(entry.contents),
            "unlessRegexSources": sources_of(entry.unless),
            "tags": list(by_id[entry.id].tags),
            "injection": entry.text,
            "summary": entry.summary,
            "block": entry.delivery == "block",
            "blockReason": entry.reason,
            "sessionStart": entry.delivery == "start",
            "projectPath": entry.project or None,
        }
        for entry in entries
    }
    head = {"type": KIND, "version": VERSION, "generatedAt": iso(now), "config": values, "lessons": listed}
    return json.dumps(head, indent=2, ensure_ascii=False) + "\n"
