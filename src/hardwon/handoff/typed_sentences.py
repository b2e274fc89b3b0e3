"""The sentences of a prompt that the person most likely typed themselves.

Prompts carry code, quotations, logs, reviews and whole pages of others. Whatever has their look is left out, and so is
all that follows a heading or a line that announces something with a colon: in doubt it is not the person's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from hardwon.privacy.private_tags import strip_private
from hardwon.text.lesson_tags import find_lesson_blocks

MAX_PROMPT_CHARS = 20_000
_LONG_PARAGRAPH = 900
_WRAPPED = 60  # a line as long as this that goes on in small letters was wrapped

# Prompts of shells, logs, errors, diffs, tables, quotations, findings of reviews, talk that was copied.
_PASTED = re.compile(
    r"\s*(?:[❯$%>✗✓×●⎿│|⏺✻├└┌]|[+-]{1,3}\s*[\w@/]+[({=:;,.]|@@ |\[[\w:. -]+\]\s|\d{4}-\d\d-\d\d[T ]|\d\d:\d\d:\d\d"
    r"|\S+@\S+[:\s].*[%$#]|\S{1,200}\.\w{1,9}:\d+|(?:error|warning|fatal|info|debug)\b\W|Traceback|at \S+ \("
    r"|\w+(?:Error|Exception):|(?:\d+\.\s+)?(?:High|Medium|Low|Critical)(?: severity)?:"
    r"|(?:user|human|assistant|agent|claude|codex|gemini|ai|bot)\s?:)",
    re.I,
)
_PAGE = re.compile(r"\s{0,3}(?:#{1,6}\s+\S|\*\*[^*]+\*\*:?\s*$|(?:---+|===+|\*\*\*+)\s*$)|diff --git ", re.I)
_ITEM = re.compile(r"\s*(?:[-*•+]|\d{1,2}[.)])\s+(.*)")
_RULES = re.compile(
    r"\b(?:rules?|conventions?|preferences?|guidelines?|from now on|going forward|remember|in (?:the )?future)\b"
    r".{0,60}:\s*$",
    re.I,
)
_FENCED = re.compile(r"^[ \t]*(```+|~~~+).*?(?:^[ \t]*\1[^\n]*$|\Z)", re.M | re.S)
_TAGGED = re.compile(r"<([a-z][\w-]{1,40})\b[^<>]{0,300}>.{0,2000}?</\1>", re.S | re.I)
_UNCLOSED = re.compile(r"^\s{0,9}<[a-z][\w-]{1,40}\b[^<>]{0,300}>.*\Z", re.S | re.I | re.M)
_SENTENCE_END = re.compile(r"(?<=[.!?])(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\betc\.)(?<!\bvs\.)\s+")


def find_typed_sentences(prompt: str) -> Iterator[str]:
    """Each on one line, blanks made one."""
    text = _without_blocks(strip_private(prompt[:MAX_PROMPT_CHARS]))
    if text.lstrip().startswith(("/", "!")):  # commands of the host
        return
    for pattern in (_FENCED, _TAGGED, _UNCLOSED):
        text = pattern.sub("\n", text)
    for paragraph in _own_paragraphs(text):
        for line in _unwrapped(paragraph):
            yield from (" ".join(sentence.split()) for sentence in _SENTENCE_END.split(line) if sentence.strip())


def _without_blocks(text: str) -> str:
    """Without `#lesson` blocks, which have a way of their own."""
    for tag in reversed(find_lesson_blocks(text) if "#lesson" in text.lower() else []):
        text = f"{text[: tag.start]}\n{text[tag.end :]}"
    return text


def _own_paragraphs(text: str) -> Iterator[list[str]]:
    """The typed lines of each paragraph, up to where a page begins; of a list the items if they are called rules."""
    announced = False
    for block in re.split(r"\n\s*\n", text):
        lines = [line for line in block.splitlines() if line.strip()]
        page = next((at for at, line in enumerate(lines) if _PAGE.match(line)), len(lines))
        own = lines[:page]
        if own and not announced and len(block) <= _LONG_PARAGRAPH and not any(map(_PASTED.match, own)):
            items = [f"{found[1]}\n" for line in own if (found := _ITEM.match(line))]
            by_rules = any(map(_RULES.search, own))
            yield [line for line in own if not _ITEM.match(line)] + (items if by_rules else [])
        if page < len(lines):
            return
        announced = bool(lines) and lines[-1].rstrip().endswith(":")


def _unwrapped(lines: list[str]) -> Iterator[str]:
    """Lines that were wrapped put together again."""
    held = last = ""
    for line in lines:
        goes_on = len(last) >= _WRAPPED and line.lstrip()[:1].islower() and not last.endswith((".", "\n"))
        if held and not goes_on:
            yield held
        held, last = f"{held}\n{line}" if goes_on else line, line
    if held:
        yield held
