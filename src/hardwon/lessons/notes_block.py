"""Our block in a project's own notes (AGENTS.md, CLAUDE.md and the like), and the rules that people wrote around it.

The block stands between two marks, each a line of its own. Between them is what hardwon keeps; all else in the file is
the person's and stays as it was, to the letter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from hardwon.text.brief_layout import MIN_STATEMENT_LENGTH, count_characters, normalize_line
from hardwon.types import frozen

BEGIN_MARKER = "<!-- hardwon: begin (written by `hardwon export notes`; what you write in here is lost) -->"
END_MARKER = "<!-- hardwon: end -->"
_OPENS, _CLOSES = "<!-- hardwon: begin", "<!-- hardwon: end"
_ITEM = re.compile(r"(?P<indent>[ \t]*)(?:[-*+•]|\d{1,3}[.)])[ \t]+(?P<text>\S.*)")
_FENCE = re.compile(r"[ \t]{0,3}(?:```|~~~)")
_HEADING = re.compile(r"[ \t]{0,3}(?:#{1,6}[ \t]|={3,}|-{3,}|\|)")
_ASIDE = re.compile(r"\A---\r?\n.*?\n---[ \t]*(?=\r?\n|\Z)|<!--.*?(?:-->|\Z)", re.DOTALL)
_LINK = re.compile(r"!?\[[^]]*\]\([^)]*\)[.:]?|@?\S+\.mdc?")


class MisplacedMarkers(ValueError):
    """The marks are not one pair, so nobody can say what is ours."""


@frozen
class NotesRule:
    """Something that a person wrote into the notes for every agent, and the line it begins at."""

    line_number: int
    text: str


def build_block(sections: Iterable[tuple[str, Iterable[str]]], max_chars: int) -> tuple[str, int]:
    """The block with as many of the entries, in their order, as the characters allow, and how many do not fit; empty
    if there is none. No entry may begin a line with a mark: give them through `one_line`."""
    told, left_out, room = list[str](), 0, max_chars
    for heading, entries in sections:
        below = list[str]()
        for entry in entries:
            if count_characters(entry) + 1 <= room:
                below.append(entry)
                room -= count_characters(entry) + 1
            else:
                left_out += 1
        told += ["", heading, "", *below] if below else []
    if not told:
        return "", left_out
    more = ["", f"({left_out} more, left out for room: hardwon search WORDS)"] if left_out else []
    return "\n".join([BEGIN_MARKER, *told[1:], *more, END_MARKER]), left_out


def insert_block(text: str, new_block: str) -> str:
    """The notes with this block in the place of ours, or at their end."""
    end = "\r\n" if "\r\n" in text else "\n"
    new_block = new_block.replace("\n", end)
    found = _span(text)
    if found:
        return text[: found[0]] + new_block + text[found[1] :]
    if not text:
        return new_block + end
    # A file without a last line end gets none behind the block either: by that it is known when the block goes.
    return f"{text}{end}{new_block}{end}" if text.endswith("\n") else f"{text}{end}{end}{new_block}"


def remove_block(text: str) -> str:
    """The notes as they were before the block."""
    found = _span(text)
    if not found:
        return text
    before, after = text[: found[0]], text[found[1] :]
    if not after:
        return _cut(_cut(before))
    is_apart = before.endswith(("\n\n", "\r\n\r\n"))
    return (_cut(before) if is_apart else before) + after.removeprefix("\r").removeprefix("\n")


def _cut(text: str) -> str:
    return text.removesuffix("\n").removesuffix("\r")


def _span(text: str) -> tuple[int, int] | None:
    """Where our block is, without the end of its last line."""
    marks, at = list[tuple[str, int, int]](), 0
    for line in text.splitlines(keepends=True):
        mark = next((mark for mark in (_OPENS, _CLOSES) if line.lstrip("\ufeff").startswith(mark)), "")
        if mark:
            marks.append((mark, at + line.index("<"), at + len(line.rstrip("\r\n"))))
        at += len(line)
    if not marks:
        return None
    if [mark for mark, _, _ in marks] != [_OPENS, _CLOSES]:
        raise MisplacedMarkers("its marks `hardwon: begin` and `hardwon: end` are not one pair")
    return marks[0][1], marks[1][2]


def find_rules(text: str) -> Iterator[NotesRule]:
    """What the notes tell every agent to do: their list items, or if there is no list their lines. Code, headings,
    comments, tables, mere links and our own block are none."""
    lines = list(_prose(text))
    items = any(_ITEM.fullmatch(line) for _, line in lines)
    yield from (rule for rule in (_items(lines) if items else _lines(lines)) if _says(rule.text))


def _says(text: str) -> bool:
    return len(normalize_line(text)) >= MIN_STATEMENT_LENGTH and not text.endswith(":") and not _LINK.fullmatch(text)


def _lines(lines: Iterable[tuple[int, str]]) -> Iterator[NotesRule]:
    return (NotesRule(number, line.strip()) for number, line in lines if not _HEADING.match(line))


def _items(lines: Iterable[tuple[int, str]]) -> Iterator[NotesRule]:
    """An item with the lines that go on with it; one below another that leads up to it carries its words."""
    leads: list[tuple[int, str]] = []
    item: tuple[int, int, str] | None = None
    for number, line in [*lines, (0, "")]:
        found = _ITEM.fullmatch(line)
        if item and line.strip() and not found and line[:1] in " \t":
            item = (*item[:2], f"{item[2]} {line.strip()}")
            continue
        if item:
            begun, indent, text = item
            leads = [lead for lead in leads if lead[0] < indent]
            yield NotesRule(begun, " ".join([*(lead for _, lead in leads), text]))
            leads += [(indent, text)] if text.endswith(":") else []
        if line.strip() and not found and line[:1] not in " \t":
            leads = []
        item = (number, len(found["indent"].expandtabs()), found["text"].strip()) if found else None


def _prose(text: str) -> Iterator[tuple[int, str]]:
    """The lines, numbered, without code, comments, front matter and our block."""
    found = _span(text)
    if found:
        inside = text[found[0] : found[1]]
        text = text[: found[0]] + "\n" * inside.count("\n") + text[found[1] :]
    text = _ASIDE.sub(lambda match: "\n" * match[0].count("\n"), text)
    is_code = False
    for number, line in enumerate(text.splitlines(), 1):
        if _FENCE.match(line):
            is_code = not is_code
        elif not is_code:
            yield number, line
