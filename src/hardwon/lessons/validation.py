"""Check lessons before they reach an agent; each fault is a sentence that says what to write instead."""

from __future__ import annotations

import re
from typing import Any

from hardwon.lessons.globs import compile_glob
from hardwon.lessons.patterns import find_pattern_fault, find_syntax_fault
from hardwon.lessons.record import PATTERN_FIELDS
from hardwon.privacy.cleaning import clean_text
from hardwon.privacy.private_tags import map_strings, strip_private
from hardwon.privacy.redaction import redact_text
from hardwon.text.characters import format_count
from hardwon.text.excerpts import PROSE_PATTERN, is_placeholder
from hardwon.types import Lesson, Pattern, replace

_MIN_TEXT_CHARS = 20
MAX_SUMMARY_CHARS = 120
MAX_SESSIONS = 5  # that a lesson names as its sources
REVIEW_BELOW = 0.7  # a confidence below which a person must look at the lesson first
MAX_LESSON_CHARS = 6000  # in all; agents cut texts longer than 10,000 characters down to a preview

_PLACEHOLDER = re.compile(
    r"<(?:what|how|why|the|your)[_ ][\w ]{1,200}>|<(?:problem|solution|summary|mistake|fix|trigger|tool|tags)>"
    r"|\{\{[^{}]{0,200}\}\}",
    re.I,
)
_TAG_PATTERN = re.compile(r"[a-z][a-z0-9-]*:[^\s:,]+")
_HINTS = {"summary": "what goes wrong, in a line", "problem": "the root cause", "solution": "what to do instead"}


def find_lesson_faults(lesson: Lesson) -> list[str]:
    """Return all faults of a lesson, in the order of its fields."""
    faults = [*_check_texts(lesson), *_check_patterns(lesson, is_quick=False), *_check_triggers(lesson)]
    if not 1 <= lesson.priority <= 10:
        faults.append(f"priority is {lesson.priority}; expected 1 to 10")
    if not 0 <= lesson.confidence <= 1:
        faults.append(f"confidence is {lesson.confidence}; expected 0 to 1")
    if len(lesson.source_sessions) > MAX_SESSIONS:
        faults.append(f"sourceSessionIds has {len(lesson.source_sessions)} entries; at most {MAX_SESSIONS} are allowed")
    for tag in lesson.tags:
        if not _TAG_PATTERN.fullmatch(tag):
            faults.append(f"tag {tag!r} is not category:value: write for instance tool:git or severity:data-loss")
    return faults + _check_block_reason(lesson)


def find_disabling_faults(lesson: Lesson) -> list[str]:
    """Return the faults that keep a hand-edited lesson out of the manifest, because it would misfire.

    Slow patterns are refused when a person adds them, not here: a manifest may have thousands, and at run time a slow
    one is stopped by its timeout.
    """
    # A reason without a block is a slip that changes nothing.
    if lesson.delivery == "block" and (faults := _check_block_reason(lesson)):
        return faults
    return [*_check_patterns(lesson, is_quick=True), *_check_triggers(lesson)]


def _check_texts(lesson: Lesson) -> list[str]:
    """Return what is wrong with a lesson's texts: missing, too short or long, placeholders, an unfinished summary."""
    faults = []
    for name, hint in _HINTS.items():
        text = getattr(lesson, name).strip()
        if not text:
            faults.append(f"{name} is missing: write {hint}")
        elif len(text) < _MIN_TEXT_CHARS:
            size = format_count(len(text), "character")
            faults.append(f"{name} is too short ({size}, at least {_MIN_TEXT_CHARS}): write {hint}")
        if text and is_placeholder(text):
            faults.append(f"{name} is only the placeholder {text[:80]}: write {hint}")
        elif placeholder := _PLACEHOLDER.search(text[:MAX_LESSON_CHARS]):
            faults.append(f"{name} contains the placeholder {placeholder.group()}: write {hint}")
    if len(lesson.summary) > MAX_SUMMARY_CHARS:
        faults.append(f"summary is too long ({len(lesson.summary)} characters, at most {MAX_SUMMARY_CHARS})")
    if lesson.summary.rstrip().endswith(("...", "…")):
        faults.append("summary ends in '...': write it to the end")
    told_text = lesson.injection or lesson.problem + lesson.solution  # an injection is told in place of both
    length = len(told_text) + len(lesson.block_reason)
    if length > MAX_LESSON_CHARS:
        faults.append(f"the texts are too long ({length} characters, at most {MAX_LESSON_CHARS} in all)")
    if "\n" in lesson.summary.strip():
        faults.append("summary has several lines: write one, and the rest into problem")
    return faults


def _check_patterns(lesson: Lesson, *, is_quick: bool) -> list[str]:
    """Return the patterns' faults; a quick check finds only those of syntax, and does not try how slow they are."""
    find_fault = find_syntax_fault if is_quick else find_pattern_fault
    faults = []
    for key, name in PATTERN_FIELDS.items():
        patterns: tuple[Pattern, ...] = getattr(lesson, name)
        for pattern in patterns:
            if fault := find_fault(pattern.source, pattern.flags):
                faults.append(f"{key} {pattern.source!r}: {fault}")
    return faults


def _check_triggers(lesson: Lesson) -> list[str]:
    """Return the faults by which a lesson would never fire, or fire on nothing that its author meant."""
    faults = []
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
        faults.append("no trigger: add --command, --path, --content or --tool, or use --delivery start")
    return faults


def _check_block_reason(lesson: Lesson) -> list[str]:
    if lesson.delivery == "block" and not lesson.block_reason.strip():
        return ["block without blockReason: say what to run instead; {command} stands for the command"]
    if lesson.delivery != "block" and lesson.block_reason:
        return [f"blockReason with delivery {lesson.delivery!r}: make it delivery 'block' or leave it out"]
    return []


def list_authored_texts(lesson: Lesson) -> list[tuple[str, str]]:
    """Return each text written by a person or an agent, with its field name."""
    texts = [(name, getattr(lesson, name)) for name in ("slug", "summary", "problem", "solution", "injection")]
    texts.append(("blockReason", lesson.block_reason))
    texts += [("tags", tag) for tag in lesson.tags]
    texts += [("toolNames", tool) for tool in lesson.tools]
    texts += [("pathPatterns", glob) for glob in lesson.paths]
    for key, name in PATTERN_FIELDS.items():
        texts += [(key, pattern.source) for pattern in getattr(lesson, name)]
    return [(key, text) for key, text in texts if text]


def find_secret_faults(lesson: Lesson) -> list[str]:
    """Return a sentence for each field with text that may not be stored."""
    faults: dict[str, str] = {}
    for key, text in list_authored_texts(lesson):
        if redact_text(text) != text:
            faults.setdefault(key, f"{key} contains what looks like a secret: remove it, or write <placeholder>")
        elif strip_private(text) != text:
            faults.setdefault(key, f"{key} contains a <private> part or a tag of hardwon: remove it")
    return list(faults.values())


def clean_evidence(lesson: Lesson) -> Lesson:
    """Redact secrets in evidence and unknown keys, which were recorded and not written by an author."""

    def clean(value: Any) -> Any:
        return map_strings(value, lambda text, _: clean_text(text))

    return replace(lesson, evidence=tuple(map(clean, lesson.evidence)), extra=clean(dict(lesson.extra)))
