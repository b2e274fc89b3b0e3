"""Secrets and private parts in lessons: refused in what was written for the lesson, taken out of the evidence."""

from __future__ import annotations

from hardwon.privacy.cleaning import clean_text
from hardwon.privacy.private_tags import map_strings, strip_private
from hardwon.privacy.redaction import redact_text
from hardwon.types import Lesson, replace

# What a person or an agent wrote, by its name in lessons.json.
_TEXT_FIELDS = {
    "slug": "slug",
    "summary": "summary",
    "problem": "problem",
    "solution": "solution",
    "injection": "injection",
    "blockReason": "block_reason",
}
_LIST_FIELDS = {"tags": "tags", "toolNames": "tools", "pathPatterns": "paths"}
_PATTERN_FIELDS = {
    "commandPatterns": "commands",
    "pathRegexes": "path_regexes",
    "contentPatterns": "contents",
    "unless": "unless",
}


def list_authored_texts(lesson: Lesson) -> list[tuple[str, str]]:
    """Return each text that was written for the lesson, after the name of its field."""
    texts = [(name, getattr(lesson, field)) for name, field in _TEXT_FIELDS.items()]
    texts += [(name, text) for name, field in _LIST_FIELDS.items() for text in getattr(lesson, field)]
    texts += [(name, pattern.source) for name, field in _PATTERN_FIELDS.items() for pattern in getattr(lesson, field)]
    return [(name, text) for name, text in texts if text]


def find_secret_faults(lesson: Lesson) -> list[str]:
    """Return a sentence for each field that holds what may not be stored."""
    faults: dict[str, str] = {}
    for name, text in list_authored_texts(lesson):
        if redact_text(text) != text:
            faults.setdefault(name, f"{name} contains what looks like a secret: remove it, or write <placeholder>")
        elif strip_private(text) != text:
            faults.setdefault(name, f"{name} contains a <private> part: remove it")
    return list(faults.values())


def clean_evidence(lesson: Lesson) -> Lesson:
    """Return the lesson with secrets taken out of what was recorded rather than written."""
    evidence = tuple([map_strings(piece, lambda text, _: clean_text(text)) for piece in lesson.evidence])
    extra = map_strings(dict(lesson.extra), lambda text, _: clean_text(text))
    if evidence == tuple(lesson.evidence) and extra == dict(lesson.extra):
        return lesson
    return replace(lesson, evidence=evidence, extra=extra)
