"""What a lesson must be before it may stand in front of an agent: one sentence per fault, and what to write instead."""

from __future__ import annotations

import re
from collections.abc import Callable

from hardwon.lessons import pattern_check
from hardwon.lessons.globs import compile_glob
from hardwon.text.placeholders import PROSE_PATTERN, is_placeholder
from hardwon.types import Lesson

MIN_TEXT_CHARS = 20
MAX_SUMMARY_CHARS = 120
MAX_SESSIONS = 5
REVIEW_BELOW = 0.7
MAX_LESSON_CHARS = 6000  # characters in all: agents cut what is longer than 10,000 down to a preview

_PLACEHOLDER = re.compile(
    r"<(?:what|how|why|the|your)[_ ][\w ]{1,200}>|<(?:problem|solution|summary|mistake|fix|trigger|tool|tags)>"
    r"|\{\{[^{}]{0,200}\}\}",
    re.I,
)
_TAG_PATTERN = re.compile(r"[a-z][a-z0-9-]*:[^\s:,]+")


def find_lesson_faults(lesson: Lesson) -> list[str]:
    """Everything that is wrong with a lesson, in the order of its fields."""
    return [*_check_texts(lesson), *_check_triggers(lesson), *_check_numbers(lesson), *_check_delivery(lesson)]


def _check_texts(lesson: Lesson) -> list[str]:
    faults = []
    hints = {"summary": "what goes wrong, in a line", "problem": "the root cause", "solution": "what to do instead"}
    for name, hint in hints.items():
        text = getattr(lesson, name).strip()
        if len(text) < MIN_TEXT_CHARS:
            length_phrase = f"{len(text)} character{'' if len(text) == 1 else 's'}"
            faults.append(f"{name} has {length_phrase}, but wants {MIN_TEXT_CHARS} or more: write {hint}")
        if text and is_placeholder(text):
            faults.append(f"{name} is only the placeholder {text[:80]}: write {hint}")
        elif placeholder := _PLACEHOLDER.search(text[:MAX_LESSON_CHARS]):
            faults.append(f"{name} still holds the placeholder {placeholder.group()}: write {hint}")
    if len(lesson.summary) > MAX_SUMMARY_CHARS:
        faults.append(f"summary has {len(lesson.summary)} characters, but wants {MAX_SUMMARY_CHARS} at most")
    if lesson.summary.rstrip().endswith(("...", "…")):
        faults.append("summary ends in '...': write it to the end")
    length = len(lesson.injection or lesson.problem + lesson.solution) + len(lesson.block_reason)
    if length > MAX_LESSON_CHARS:
        faults.append(f"the texts have {length} characters, but want {MAX_LESSON_CHARS} at most in all")
    if "\n" in lesson.summary.strip():
        faults.append("summary has several lines: write one, and the rest into problem")
    return faults


def _check_triggers(
    lesson: Lesson, find_fault: Callable[[str, int], str | None] = pattern_check.find_pattern_fault
) -> list[str]:
    faults = []
    patterns_by_key = {
        "commandPatterns": lesson.commands,
        "pathRegexes": lesson.path_regexes,
        "contentPatterns": lesson.contents,
        "unless": lesson.unless,
    }
    for name, patterns in patterns_by_key.items():
        faults += [
            f"{name} {pattern.source!r}: {pattern_fault}"
            for pattern in patterns
            if (pattern_fault := find_fault(pattern.source, pattern.flags))
        ]
    for pattern in lesson.commands:
        if PROSE_PATTERN.fullmatch(pattern.source):
            faults.append(f"commandPatterns {pattern.source!r} is prose: write the command, such as \\bgit stash\\b")
    for glob in lesson.paths:
        if compile_glob(glob, user_home="/") is None:
            faults.append(
                f"pathPatterns {glob!r} can match nothing: write a glob as in .gitignore, such as src/**/*.py"
            )
    triggers = (lesson.tools, lesson.commands, lesson.paths, lesson.path_regexes, lesson.contents)
    if lesson.delivery != "start" and not any(triggers):
        faults.append("no trigger: give a command, a path, a content or a tool, or delivery 'start'")
    return faults


def _check_numbers(lesson: Lesson) -> list[str]:
    faults = []
    if not 1 <= lesson.priority <= 10:
        faults.append(f"priority is {lesson.priority}, but wants 1 to 10")
    if not 0 <= lesson.confidence <= 1:
        faults.append(f"confidence is {lesson.confidence}, but wants 0 to 1")
    if len(lesson.source_sessions) > MAX_SESSIONS:
        faults.append(f"sourceSessionIds holds {len(lesson.source_sessions)}, but wants {MAX_SESSIONS} at most")
    faults.extend(
        f"tag {tag!r} is not category:value: write for instance tool:git or severity:data-loss"
        for tag in lesson.tags
        if not _TAG_PATTERN.fullmatch(tag)
    )
    return faults


def _check_delivery(lesson: Lesson) -> list[str]:
    if lesson.delivery == "block" and not lesson.block_reason.strip():
        return ["block without blockReason: say what to run instead; {command} stands for the command"]
    if lesson.delivery != "block" and lesson.block_reason:
        return [f"blockReason with delivery {lesson.delivery!r}: make it delivery 'block' or leave it out"]
    return []


def find_disabling_faults(lesson: Lesson) -> list[str]:
    """The faults that keep a hand-edited lesson out of the manifest: those that would make it misfire.

    How slow a pattern can be is not tried here, but when a person adds it: a slow one loses its turn at run time.
    """
    delivery_faults = _check_delivery(lesson) if lesson.delivery == "block" else []
    return delivery_faults or _check_triggers(lesson, pattern_check.find_syntax_fault)
