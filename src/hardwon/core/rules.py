"""What a lesson must be before it may stand in front of an agent: one sentence per fault, and what to write instead."""

from __future__ import annotations

import re

from hardwon.core import pattern
from hardwon.words import Lesson

SHORTEST = 20
LONGEST_SUMMARY = 120
MOST_SESSIONS = 5
REVIEW_BELOW = 0.7

_PLACEHOLDER = re.compile(
    r"<[a-z]+(?:[_ ][a-z]+)+>|<(?:problem|solution|summary|mistake|fix|trigger|tool|tags)>|\{\{[^}]*\}\}", re.I
)
_GERUND = re.compile(r"(?!(?:f|ar|h|t|nc)?ping\b)[a-z]{2,}ing(?: [a-z']+){1,}", re.I)
_TAG = re.compile(r"[a-z][a-z0-9-]*:[^\s:,]+")


def faults(lesson: Lesson) -> list[str]:
    """Everything that is wrong with a lesson, in the order of its fields."""
    return [*_in_texts(lesson), *_in_triggers(lesson), *_in_numbers(lesson), *_in_delivery(lesson)]


def _in_texts(lesson: Lesson) -> list[str]:
    found = []
    wanted = {"summary": "what goes wrong, in a line", "problem": "the root cause", "solution": "what to do instead"}
    for name, what in wanted.items():
        text = getattr(lesson, name).strip()
        if len(text) < SHORTEST:
            found.append(f"{name} has {len(text)} characters, but wants {SHORTEST} or more: write {what}")
        if placeholder := _PLACEHOLDER.search(text):
            found.append(f"{name} still holds the placeholder {placeholder.group()}: write {what}")
    if len(lesson.summary) > LONGEST_SUMMARY:
        found.append(f"summary has {len(lesson.summary)} characters, but wants {LONGEST_SUMMARY} at most")
    if lesson.summary.rstrip().endswith(("...", "…")):
        found.append("summary ends in '...': write it to the end")
    if "\n" in lesson.summary.strip():
        found.append("summary has several lines: write one, and the rest into problem")
    return found


def _in_triggers(lesson: Lesson) -> list[str]:
    found = []
    named = {"commandPatterns": lesson.commands, "contentPatterns": lesson.contents, "unless": lesson.unless}
    for name, patterns in named.items():
        for one in patterns:
            if not one.source.strip():
                found.append(f"{name} holds an empty pattern: leave it out")
            elif wrong := pattern.fault(one.source, one.flags):
                found.append(f"{name} {one.source!r}: {wrong}")
    for one in lesson.commands:
        if _GERUND.fullmatch(one.source):
            found.append(f"commandPatterns {one.source!r} is prose: write the command, such as \\bgit stash\\b")
    found.extend("pathPatterns holds an empty glob: leave it out" for glob in lesson.paths if not glob.strip())
    if lesson.delivery != "start" and not (lesson.tools or lesson.commands or lesson.paths or lesson.contents):
        found.append("no trigger: give a command, a path, a content or a tool, or delivery 'start'")
    return found


def _in_numbers(lesson: Lesson) -> list[str]:
    found = []
    if not 1 <= lesson.priority <= 10:
        found.append(f"priority is {lesson.priority}, but wants 1 to 10")
    if not 0 <= lesson.confidence <= 1:
        found.append(f"confidence is {lesson.confidence}, but wants 0 to 1")
    if len(lesson.sessions) > MOST_SESSIONS:
        found.append(f"sourceSessionIds holds {len(lesson.sessions)}, but wants {MOST_SESSIONS} at most")
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


def unusable(lesson: Lesson) -> list[str]:
    """The faults of a hand-edited lesson that keep it out of the manifest: those that would make it misfire."""
    if lesson.delivery == "block" and not lesson.block_reason.strip():
        return _in_delivery(lesson)
    return _in_triggers(lesson)
