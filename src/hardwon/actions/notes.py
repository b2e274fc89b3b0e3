"""Lessons and memories in a project's own notes (AGENTS.md and the like), and the rules people wrote there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from hardwon import projects
from hardwon.agents.settings_files import read_text_file
from hardwon.errors import UserError
from hardwon.lessons import notes_block
from hardwon.memories import memories
from hardwon.privacy.cleaning import clean_text
from hardwon.search.brief import MAX_FIELD
from hardwon.search.records import list_active_lessons
from hardwon.store.db import Connection
from hardwon.text.brief_layout import sanitize_line


@dataclass(frozen=True, slots=True)
class ProposedRules:
    """The memories proposed from a file, and the lines that were refused with the reasons."""

    rule_count: int
    memory_ids: list[int]
    refused: list[tuple[int, str]]


def build_notes_block(
    connection: Connection, home: str, root: str, max_chars: int, *, only_here: bool
) -> tuple[str, int]:
    """Return the block of approved memories and lessons in force, and how many did not fit."""
    memory_lines = []
    for page in memories.list_approved_pages(connection, home, projects.find_project_path(root)):
        if page.project or not only_here:
            memory_lines.append(f"- {_clean_line(page.text)}")
    sections = (
        ("## What to know here", memory_lines),
        ("## Learned here the hard way", list(_list_lesson_lines(home, root, only_here))),
    )
    return notes_block.build_block(sections, max_chars)


def _list_lesson_lines(home: str, root: str, only_here: bool) -> Iterator[str]:
    """Yield each lesson, the summary on a line of its own because a brief recognises the lesson by it."""
    folders = projects.list_equivalent_folders(root)
    lessons = sorted(list_active_lessons(home), key=lambda lesson: (-lesson.priority, lesson.slug))
    for lesson in lessons:
        if lesson.needs_review or not projects.is_in_scope(lesson.project, folders):
            continue
        if lesson.project or not only_here:
            yield f"- {_clean_line(lesson.summary)}\n  Instead: {_clean_line(lesson.solution)} (lesson {lesson.slug})"


def _clean_line(text: str) -> str:
    return sanitize_line(clean_text(text), MAX_FIELD)


def replace_block(path: str, old_text: str, block: str) -> str:
    """Return the notes with this block in place of the old one; an empty block removes it."""
    try:
        return notes_block.insert_block(old_text, block) if block else notes_block.remove_block(old_text)
    except notes_block.MisplacedMarkers as error:
        raise UserError(f"{path}: {error}", "repair or delete them, then try again") from None


def propose_rules(connection: Connection, home: str, file: str, memory_type: str, now: float) -> ProposedRules:
    """Propose each rule in a file of notes as a memory."""
    project = projects.find_project_path(os.path.dirname(os.path.abspath(file)))
    try:
        rules = list(notes_block.find_rules(read_text_file(file)))
    except notes_block.MisplacedMarkers as error:
        raise UserError(f"{file}: {error}", "repair or delete them, then try again") from None
    proposed = ProposedRules(len(rules), [], [])
    for rule in rules:
        evidence = [f"{os.path.basename(file)}:{rule.line_number}"]
        try:
            memory = memories.propose(
                connection, home, memory_type, rule.text, project=project, source="notes", evidence=evidence, now=now
            )
            proposed.memory_ids.append(memory.id)
        except UserError as error:
            proposed.refused.append((rule.line_number, error.say))
    return proposed
