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
_TAG = re.compile(r"[a-z][a-z0-9-]*:[^\s:,]+")


def find_lesson_faults(lesson: Lesson) -> list[str]:
    """Everything that is wrong with a lesson, in the order of its fields."""
    return [*_in_texts(lesson), *_in_triggers(lesson), *_in_numbers(lesson), *_in_delivery(lesson)]


def _in_texts(lesson: Lesson) -> list[str]:
    found = []
    wanted = {"summary": "what goes wrong, in a line", "problem": "the root cause", "solution": "what to do instead"}
    for name, what in wanted.items():
        text = getattr(lesson, name).strip()
        if len(text) < MIN_TEXT_CHARS:
            counted = f"{len(text)} character{'' if len(text) == 1 else 's'}"
            found.append(f"{name} has {counted}, but wants {MIN_TEXT_CHARS} or more: write {what}")
        if text and is_placeholder(text):
            found.append(f"{name} is only the placeholder {text[:80]}: write {what}")
        elif placeholder := _PLACEHOLDER.search(text[:MAX_LESSON_CHARS]):
            found.append(f"{name} still holds the placeholder {placeholder.group()}: write {what}")
    if len(lesson.summary) > MAX_SUMMARY_CHARS:
        found.append(f"summary has {len(lesson.summary)} characters, but wants {MAX_SUMMARY_CHARS} at most")
    if lesson.summary.rstrip().endswith(("...", "…")):
        found.append("summary ends in '...': write it to the end")
    length = len(lesson.injection or lesson.problem + lesson.solution) + len(lesson.block_reason)
    if length > MAX_LESSON_CHARS:
        found.append(f"the texts have {length} characters, but want {MAX_LESSON_CHARS} at most in all")
    if "\n" in lesson.summary.strip():
        found.append("summary has several lines: write one, and the rest into problem")
    return found


def _in_triggers(
    lesson: Lesson, fault: Callable[[str, int], str | None] = pattern_check.find_pattern_fault
) -> list[str]:
    found = []
    named = {
        "commandPatterns": lesson.commands,
        "pathRegexes": lesson.path_regexes,
        "contentPatterns": lesson.contents,
        "unless": lesson.unless,
    }
    for name, patterns in named.items():
        found += [f"{name} {one.source!r}: {wrong}" for one in patterns if (wrong := fault(one.source, one.flags))]
    for one in lesson.commands:
        if PROSE_PATTERN.fullmatch(one.source):
            found.append(f"commandPatterns {one.source!r} is prose: write the command, such as \\bgit stash\\b")
    for glob in lesson.paths:
        if compile_glob(glob, user_home="/") is None:
            found.append(f"pathPatterns {glob!r} can match nothing: write a glob as in .gitignore, such as src/**/*.py")
    triggers = (lesson.tools, lesson.commands, lesson.paths, lesson.path_regexes, lesson.contents)
    if lesson.delivery != "start" and not any(triggers):
        found.append("no trigger: give a command, a path, a content or a tool, or delivery 'start'")
    return found


def _in_numbers(lesson: Lesson) -> list[str]:
    found = []
    if not 1 <= lesson.priority <= 10:
        found.append(f"priority is {lesson.priority}, but wants 1 to 10")
    if not 0 <= lesson.confidence <= 1:
        found.append(f"confidence is {lesson.confidence}, but wants 0 to 1")
    if len(lesson.source_sessions) > MAX_SESSIONS:
        found.append(f"sourceSessionIds holds {len(lesson.source_sessions)}, but wants {MAX_SESSIONS} at most")
    found.extend(
        f"tag {tag!r} is not category:value: write for instance tool:git or severity:data-loss"
        for tag in lesson.tags
        if not _TAG.fullmatch(tag)
    )
    return found


def _in_delivery(lesson: Lesson) -> list[str]:
    if lesson.delivery == "block" and not lesson.block_reason.strip():
        return ["block without blockReason: say what to run instead; {command} stands for the command"]
    if lesson.delivery != "block" and lesson.block_reason:
        return [f"blockReason with delivery {lesson.delivery!r}: make it delivery 'block' or leave it out"]
    return []


def find_disabling_faults(lesson: Lesson) -> list[str]:
    """The faults that keep a hand-edited lesson out of the manifest: those that would make it misfire.

    How slow a pattern can be is not tried here, but when a person adds it: a slow one loses its turn at run time.
    """
    missing = _in_delivery(lesson) if lesson.delivery == "block" else []
    return missing or _in_triggers(lesson, pattern_check.find_syntax_fault)
