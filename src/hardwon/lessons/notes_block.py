"""Edit our block in a project's notes (AGENTS.md, CLAUDE.md and the like), and find the rules around it.

The block is between two markers, each on its own line. Everything else in the file is the person's and stays unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from hardwon.text.brief_layout import MIN_STATEMENT_LENGTH, count_characters, normalize_line

BEGIN_MARKER = "<!-- hardwon: begin (written by `hardwon export notes`; what you write in here is lost) -->"
END_MARKER = "<!-- hardwon: end -->"
_BEGIN_PREFIX, _END_PREFIX = "<!-- hardwon: begin", "<!-- hardwon: end"
_ITEM = re.compile(r"(?P<indent>[ \t]*)(?:[-*+•]|\d{1,3}[.)])[ \t]+(?P<text>\S.*)")
_FENCE = re.compile(r"[ \t]{0,3}(?:```|~~~)")
_HEADING = re.compile(r"[ \t]{0,3}(?:#{1,6}[ \t]|={3,}|-{3,}|\|)")
_ASIDE = re.compile(r"\A---\r?\n.*?\n---[ \t]*(?=\r?\n|\Z)|<!--.*?(?:-->|\Z)", re.DOTALL)
_LINK = re.compile(r"!?\[[^]]*\]\([^)]*\)[.:]?|@?\S+\.mdc?")


class MisplacedMarkers(ValueError):
    """The markers do not form one pair, so the block cannot be told from the rest."""


@dataclass(frozen=True, slots=True)
class NotesRule:
    """A rule that a person wrote into the notes, and its first line number."""

    line_number: int
    text: str


def build_block(sections: Iterable[tuple[str, Iterable[str]]], max_chars: int) -> tuple[str, int]:
    """Build the block from as many entries as fit; return it and the number left out.

    Without entries the block is empty. Entries must be single lines, so that none begins with a marker.
    """
    lines: list[str] = []
    left_out = 0
    room = max_chars
    for heading, entries in sections:
        fitting_entries = list[str]()
        for entry in entries:
            if count_characters(entry) + 1 <= room:
                fitting_entries.append(entry)
                room -= count_characters(entry) + 1
            else:
                left_out += 1
        if fitting_entries:
            lines += ["", heading, "", *fitting_entries]
    if not lines:
        return "", left_out
    if left_out:
        lines += ["", f"({left_out} more, left out for room: hardwon search WORDS)"]
    # The first line is empty, and the marker needs no space below it.
    return "\n".join([BEGIN_MARKER, *lines[1:], END_MARKER]), left_out


def insert_block(text: str, new_block: str) -> str:
    """Insert the block in place of ours, or at the end of the notes."""
    newline = "\r\n" if "\r\n" in text else "\n"
    new_block = new_block.replace("\n", newline)
    span = _find_block_span(text)
    if span:
        return text[: span[0]] + new_block + text[span[1] :]
    if not text:
        return new_block + newline
    # A file without a final newline gets none after the block, so that `remove_block` can restore it.
    return f"{text}{newline}{new_block}{newline}" if text.endswith("\n") else f"{text}{newline}{newline}{new_block}"


def remove_block(text: str) -> str:
    """Return the notes as they were before the block was added."""
    span = _find_block_span(text)
    if not span:
        return text
    head = text[: span[0]]
    tail = text[span[1] :]
    if not tail:
        return _strip_newline(_strip_newline(head))  # `insert_block` added both
    # The block was added with an empty line before it and a newline behind it.
    if head.endswith(("\n\n", "\r\n\r\n")):
        head = _strip_newline(head)
    return head + tail.removeprefix("\r").removeprefix("\n")


def _strip_newline(text: str) -> str:
    return text.removesuffix("\n").removesuffix("\r")


def _find_block_span(text: str) -> tuple[int, int] | None:
    """Return start and end of our block, without its final newline."""
    prefixes: list[str] = []
    spans: list[tuple[int, int]] = []
    offset = 0
    for line in text.splitlines(keepends=True):
        for prefix in (_BEGIN_PREFIX, _END_PREFIX):
            if line.lstrip("\ufeff").startswith(prefix):
                prefixes.append(prefix)
                spans.append((offset + line.index("<"), offset + len(line.rstrip("\r\n"))))
        offset += len(line)
    if not prefixes:
        return None
    if prefixes != [_BEGIN_PREFIX, _END_PREFIX]:
        raise MisplacedMarkers("its markers `hardwon: begin` and `hardwon: end` are not one pair")
    (block_start, _), (_, block_end) = spans
    return block_start, block_end


def find_rules(text: str) -> Iterator[NotesRule]:
    """Yield the rules in the notes: list items, or lines if there is no list.

    Code, headings, comments, tables, bare links and our own block do not count.
    """
    lines = list(_iter_prose_lines(text))
    if any(_ITEM.fullmatch(line) for _, line in lines):
        rules = _iter_item_rules(lines)
    else:
        rules = iter([NotesRule(number, line.strip()) for number, line in lines if not _HEADING.match(line)])
    for rule in rules:
        is_long_enough = len(normalize_line(rule.text)) >= MIN_STATEMENT_LENGTH
        if is_long_enough and not rule.text.endswith(":") and not _LINK.fullmatch(rule.text):
            yield rule


def _iter_item_rules(lines: Iterable[tuple[int, str]]) -> Iterator[NotesRule]:
    """Yield list items with their continuation lines.

    An item below one that ends in a colon starts with that one's words.
    """
    leads: list[tuple[int, str]] = []  # the items above that end in a colon, with their indents
    item: tuple[int, int, str] | None = None  # first line, indent and text of the item that is being read
    for number, line in [*lines, (0, "")]:  # the empty line ends the last item
        item_match = _ITEM.fullmatch(line)
        is_plain_text = bool(line.strip()) and not item_match
        is_indented = line[:1] in (" ", "\t")
        if item and is_plain_text and is_indented:
            first_line, indent, text = item
            item = (first_line, indent, f"{text} {line.strip()}")
            continue
        if item:
            first_line, indent, text = item
            leads = [(lead_indent, lead) for lead_indent, lead in leads if lead_indent < indent]
            yield NotesRule(first_line, " ".join([*(lead for _, lead in leads), text]))
            if text.endswith(":"):
                leads.append((indent, text))
        if is_plain_text and not is_indented:
            leads = []  # a paragraph ends the list
        item = None
        if item_match:
            item = (number, len(item_match["indent"].expandtabs()), item_match["text"].strip())


def _iter_prose_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield numbered lines without code, comments, front matter and our block."""
    # What is left out is replaced by its newlines, so that the numbers of later lines stay.
    span = _find_block_span(text)
    if span:
        start, end = span
        newline_count = text.count("\n", start, end)
        text = text[:start] + "\n" * newline_count + text[end:]
    text = _ASIDE.sub(lambda match: "\n" * match[0].count("\n"), text)
    is_code = False
    for number, line in enumerate(text.splitlines(), 1):
        if _FENCE.match(line):
            is_code = not is_code
        elif not is_code:
            yield number, line
