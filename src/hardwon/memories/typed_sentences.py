"""Find the sentences of a prompt that the person most likely typed themselves.

Prompts also contain code, quotations, logs, reviews and pasted pages. Anything that looks like these is left out, and
so is everything after a heading or after a line that ends with a colon.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from hardwon.privacy.private_tags import strip_private
from hardwon.text.lesson_tags import find_lesson_blocks

MAX_PROMPT_CHARS = 20_000
_MAX_PARAGRAPH_CHARS = 900
# A slash command other than a handoff command.
_COMMAND = re.compile(r"\A/(?!\S*hand-?off)[\w:.-]+\s+", re.I)
_MIN_SENTENCE_WORDS = 6
_WRAP_WIDTH = 60  # a line at least this long was wrapped if the next one starts in lower case

# Shell prompts, logs, errors, diffs, tables, quotations, review findings, copied conversations.
_PASTED_LINE = re.compile(
    r"\s*(?:[❯$%>✗✓×●⎿│|⏺✻├└┌]|[+-]{1,3}\s*[\w@/]+[({=:;,.]|@@ |\[[\w:. -]+\]\s|\d{4}-\d\d-\d\d[T ]|\d\d:\d\d:\d\d"
    r"|\S+@\S+[:\s].*[%$#]|\S{1,200}\.\w{1,9}:\d+|(?:error|warn(?:ing)?|fatal|info|debug)\b\W|Traceback|at \S+ \("
    r"|\w+(?:Error|Exception):|(?:\d+\.\s+)?(?:High|Medium|Low|Critical)(?: severity)?:"
    r"|(?:user|human|assistant|agent|claude|codex|gemini|ai|bot)\s?:)",
    re.I,
)
_PAGE_START = re.compile(r"\s{0,3}(?:#{1,6}\s+\S|\*\*[^*]+\*\*:?\s*$|(?:---+|===+|\*\*\*+)\s*$)|diff --git ", re.I)
_LIST_ITEM = re.compile(r"\s*(?:[-*•+]|\d{1,2}[.)])\s+(.*)")
# "Rules for this repo:", "From now on:": the list below is the person's own.
_RULES_HEADING = re.compile(
    r"\b(?:rules?|conventions?|preferences?|guidelines?|from now on|going forward|remember|in (?:the )?future)\b"
    r".{0,60}:\s*$",
    re.I,
)
_FENCED_BLOCK = re.compile(r"^[ \t]*(```+|~~~+).*?(?:^[ \t]*\1[^\n]*$|\Z)", re.M | re.S)
_TAGGED_BLOCK = re.compile(r"<([a-z][\w-]{1,40})\b[^<>]{0,300}>.{0,2000}?</\1>", re.S | re.I)
_UNCLOSED_TAG = re.compile(r"^\s{0,9}<[a-z][\w-]{1,40}\b[^<>]{0,300}>.*\Z", re.S | re.I | re.M)
_SENTENCE_END = re.compile(
    r"(?<=[.!?])(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\betc\.)(?<!\bvs\.)\s+(?!(?:ever|period|never)\W*$)", re.I
)


def find_typed_sentences(prompt: str) -> Iterator[str]:
    """Yield each typed sentence on one line, with single spaces."""
    text = _remove_lesson_blocks(strip_private(prompt[:MAX_PROMPT_CHARS]))
    if text.lstrip().startswith(("/", "!")):  # a command of the agent, perhaps followed by a sentence
        text = _COMMAND.sub("", text.lstrip(), count=1)
        if len(text.split()) < _MIN_SENTENCE_WORDS or text.startswith(("/", "!")):
            return
    for pattern in (_FENCED_BLOCK, _TAGGED_BLOCK, _UNCLOSED_TAG):
        text = pattern.sub("\n", text)
    for paragraph in _list_typed_paragraphs(text):
        for line in _unwrap_lines(paragraph):
            for sentence in _SENTENCE_END.split(line):
                if sentence.strip():
                    yield " ".join(sentence.split())


def _remove_lesson_blocks(text: str) -> str:
    """Remove `#lesson` blocks, which are handled separately."""
    if "#lesson" not in text.lower():
        return text
    for tag in reversed(find_lesson_blocks(text)):  # from the end, so that the positions of the others stay right
        text = f"{text[: tag.start]}\n{text[tag.end :]}"
    return text


def _list_typed_paragraphs(text: str) -> Iterator[list[str]]:
    """Yield the typed lines of each paragraph up to a heading; list items only below a line that calls them rules."""
    follows_colon = False
    for block in re.split(r"\n\s*\n", text):
        lines = [line for line in block.splitlines() if line.strip()]
        page_start = next((index for index, line in enumerate(lines) if _PAGE_START.match(line)), len(lines))
        typed_lines = lines[:page_start]
        if (
            typed_lines
            and not follows_colon
            and len(block) <= _MAX_PARAGRAPH_CHARS
            and not any(map(_PASTED_LINE.match, typed_lines))
        ):
            items = [f"{match[1]}\n" for line in typed_lines if (match := _LIST_ITEM.match(line))]
            has_rules_heading = any(map(_RULES_HEADING.search, typed_lines))
            yield [line for line in typed_lines if not _LIST_ITEM.match(line)] + (items if has_rules_heading else [])
        if page_start < len(lines):
            return
        follows_colon = bool(lines) and lines[-1].rstrip().endswith(":")


def _unwrap_lines(lines: list[str]) -> Iterator[str]:
    """Join lines that an editor wrapped."""
    joined = ""
    previous_line = ""
    for line in lines:
        is_continued = (
            len(previous_line) >= _WRAP_WIDTH
            and line.lstrip()[:1].islower()
            and not previous_line.endswith((".", "\n"))
        )
        if joined and not is_continued:
            yield joined
        joined = f"{joined}\n{line}" if is_continued else line
        previous_line = line
    if joined:
        yield joined
